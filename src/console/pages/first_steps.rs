//! What is to be done in a new organization, in its order: each step is ticked off by what there is, and
//! the list goes with the last, the first deployment that was applied.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::environments::Environment;
use crate::api::Method;
use crate::auth::Role;
use crate::base::Result;
use crate::console::api::segment;
use crate::console::place::Registry;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// A step.
pub struct Step {
    pub is_done: bool,
    pub title: &'static str,
    pub reason: &'static str,
    /// Where it is done.
    pub path: String,
}

/// What the page of today says of a new organization.
pub struct FirstSteps {
    /// Whether it has something of its own.
    pub is_begun: bool,
    /// What is to be done, for whoever may do it all.
    pub steps: Vec<Step>,
}

/// Registries that are looked through for a prompt: as many as one request lists.
const REGISTRIES: &str = "100";

/// The list that has something in one of these states when the last step is done: one that waits, was
/// denied or has failed brought nothing anywhere.
const DEPLOYED: &str = "/agents/deployments";
const APPLIED: [&str; 2] = ["complete", "partial"];

/// The list of those that may have approvers.
const ENVIRONMENTS: &str = "/environments";

/// The step that is done on the page of an environment, once there is one.
const APPROVERS: &str = "/environments";

/// The keys, of which those of viewers do not count: they change nothing.
const KEYS: &str = "/api-keys";

/// A key, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiKey {
    created_by_role: Nullable<Role>,
}

/// Title, reason, path below the organization's, and the list that has something once it is done.
const STEPS: [(&str, &str, &str, &str); 7] = [
    (
        "Create a registry",
        "It keeps prompts, and says who reads and uses them.",
        "/registries/new",
        "",
    ),
    ("Publish a prompt", "In versions that never change, with labels that move.", "/prompts", ""),
    ("Create an agent", "Its draft says which prompt and model it runs.", "/new/agent", "/agents"),
    (
        "Create an environment",
        "Where agents run, with their variables and secrets.",
        "/environments/new",
        ENVIRONMENTS,
    ),
    (
        "Choose who approves",
        "Members who must agree before something is live in an environment; invite them first.",
        APPROVERS,
        ENVIRONMENTS,
    ),
    (
        "Create an API key",
        "With it agents and programs fetch what is live.",
        "/settings/keys/new",
        KEYS,
    ),
    ("Deploy", "You see what changes before it does.", "/deployments/new", DEPLOYED),
];

/// Reads what is to be done, until something is deployed: then it is asked for nothing else.
pub async fn read(visit: &Visit) -> Result<FirstSteps> {
    for state in APPLIED {
        if !is_empty(visit, DEPLOYED, &[("state", state)]).await? {
            return Ok(FirstSteps { is_begun: true, steps: Vec::new() });
        }
    }
    let may_do_all = visit.may(Method::Post, "/registries");
    let limit = if may_do_all { REGISTRIES } else { "1" };
    let registries: List<Registry> = visit.api.get("/registries", &[("limit", limit)]).await?;
    let is_begun = !registries.items.is_empty();
    let steps = if may_do_all { steps(visit, &registries.items).await? } else { Vec::new() };
    Ok(FirstSteps { is_begun, steps })
}

async fn steps(visit: &Visit, registries: &[Registry]) -> Result<Vec<Step>> {
    let first = registries.first().map(|registry| registry.slug.as_str());
    let environments: List<Environment> = visit.api.get(ENVIRONMENTS, &[("limit", "100")]).await?;
    let environments = environments.items;
    let is_deploying = !is_empty(visit, DEPLOYED, &[]).await?;
    let mut steps = Vec::new();
    for (title, mut reason, path, list) in STEPS {
        let is_done = match (list, path) {
            ("", "/prompts") => has_prompt(visit, registries).await?,
            (_, APPROVERS) => environments.iter().any(|one| one.approvals.is_some()),
            (ENVIRONMENTS, _) => !environments.is_empty(),
            ("", _) => first.is_some(),
            (DEPLOYED, _) => false,
            (KEYS, _) => has_key(visit).await?,
            (list, _) => !is_empty(visit, list, &[]).await?,
        };
        let path = match (path, first) {
            ("/prompts", Some(first)) => format!("/registries/{}/new", segment(first)),
            (APPROVERS, _) => match environments.first() {
                Some(newest) => format!("{APPROVERS}/{}/edit", segment(&newest.id)),
                None => "/environments/new".into(),
            },
            _ if list == DEPLOYED && is_deploying => {
                reason = "One was begun, and is not applied: see what became of it.";
                "/deployments".into()
            }
            _ => path.to_string(),
        };
        steps.push(Step { is_done, title, reason, path: visit.in_org(&path) });
    }
    Ok(steps)
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

async fn has_key(visit: &Visit) -> Result<bool> {
    let keys: List<ApiKey> = visit.api.get(KEYS, &[("limit", "100")]).await?;
    Ok(keys.items.iter().any(|key| key.created_by_role.is_some_and(|role| role >= Role::Member)))
}

async fn is_empty(visit: &Visit, list: &str, query: &[(&str, &str)]) -> Result<bool> {
    let query = [query, &[("limit", "1")]].concat();
    let found: List<IgnoredAny> = visit.api.get(list, &query).await?;
    Ok(found.items.is_empty())
}
