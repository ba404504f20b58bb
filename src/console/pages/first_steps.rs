//! What is to be done in a new organization, in its order: each step is ticked off by what there is, and
//! the list goes when all are.

use serde::de::IgnoredAny;

use crate::api::Method;
use crate::base::Result;
use crate::console::api::segment;
use crate::console::place::Registry;
use crate::console::strict::List;
use crate::console::visit::Visit;

/// A step.
pub struct Step {
    pub is_done: bool,
    pub title: &'static str,
    pub reason: &'static str,
    /// Where it is done.
    pub path: String,
}

/// Registries that are looked through for a prompt.
const REGISTRIES: &str = "20";

/// Title, reason, path below the organization's, and the list that has something once it is done.
const STEPS: [(&str, &str, &str, &str); 6] = [
    (
        "Create a registry",
        "It keeps prompts, and says who reads and uses them.",
        "/registries/new",
        "",
    ),
    ("Publish a prompt", "In versions that never change, with labels that move.", "/prompts", ""),
    ("Make an agent", "Its draft says which prompt and model it runs.", "/new/agent", "/agents"),
    (
        "Create an environment",
        "Where agents run: variables, secrets, and who approves.",
        "/environments/new",
        "/environments",
    ),
    ("Deploy", "You see what changes before it does.", "/deployments/new", "/agents/deployments"),
    (
        "Make an API key",
        "With it agents and programs fetch what is live.",
        "/settings/keys/new",
        "/api-keys",
    ),
];

/// Returns the steps, for whoever may take them all, until they are done.
///
/// # Errors
/// Those of the routes.
pub async fn steps(visit: &Visit) -> Result<Vec<Step>> {
    if !visit.may(Method::Post, "/registries") {
        return Ok(Vec::new());
    }
    let registries: List<Registry> = visit.api.get("/registries", &[("limit", REGISTRIES)]).await?;
    let first = registries.items.first().map(|registry| registry.slug.as_str());
    let mut steps = Vec::new();
    for (title, reason, path, list) in STEPS {
        let is_done = match (list, path) {
            ("", "/prompts") => has_prompt(visit, &registries.items).await?,
            ("", _) => first.is_some(),
            (list, _) => !is_empty(visit, list, &[]).await?,
        };
        let path = match (path, first) {
            ("/prompts", Some(first)) => format!("/registries/{}/new", segment(first)),
            _ => path.to_string(),
        };
        steps.push(Step { is_done, title, reason, path: visit.in_org(&path) });
    }
    Ok(if steps.iter().all(|step| step.is_done) { Vec::new() } else { steps })
}

async fn has_prompt(visit: &Visit, registries: &[Registry]) -> Result<bool> {
    for registry in registries {
        let query = [("registryRef", registry.slug.as_str()), ("artifactType", "prompt")];
        if !is_empty(visit, "/registries/artifacts", &query).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn is_empty(visit: &Visit, list: &str, query: &[(&str, &str)]) -> Result<bool> {
    let query = [query, &[("limit", "1")]].concat();
    let found: List<IgnoredAny> = visit.api.get(list, &query).await?;
    Ok(found.items.is_empty())
}
