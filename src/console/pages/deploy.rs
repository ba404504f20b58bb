//! `/o/{org}/deployments/new`: deploying a prompt to agents. First what would change and who must
//! approve is shown; what is deployed then is exactly that, by the hash of its plan.

use std::collections::BTreeSet;

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agents::Agent;
use super::deployments::path;
use super::environments::Approvals;
use super::plan::{Delivery, PlanTool, Shown, Target, shown};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::LISTED;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/deployments/new")
    .get(|visit| Box::pin(form(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

/// So many agents can be ticked; others are named.
const OFFERED: &str = "100";
/// A deployment has at most so many agents.
const MOST_TICKED: usize = 100;
/// The prefix of fields with values of variables, which is the API's.
const VARIABLES: &str = "agentVariables.";

#[derive(Template)]
#[template(path = "deploy.html")]
struct Deploy {
    frame: Frame,
    here: String,
    agents: Vec<Choice>,
    environments: Vec<(String, String)>,
    defaults: Defaults,
    /// Variables that need a value, or were given one: the field, and the name.
    variables: Vec<(String, String)>,
    /// Where there are more environments than a choice has.
    environment: Option<Chooser>,
    others: Chooser,
    registry: Chooser,
    prompt: Chooser,
    version: Chooser,
    provider: Chooser,
}

const ENVIRONMENT: Chooser = Chooser::one("environment", Kind::Environment);
const OTHERS: Chooser = Chooser::one("others", Kind::Agent).many();
const REGISTRY: Chooser = Chooser::one("registryRef", Kind::Registry);
const PROMPT: Chooser = Chooser::one("promptName", Kind::Prompt).from(REGISTRY.name, "");
const VERSION: Chooser = Chooser::one("version", Kind::Version).from(REGISTRY.name, PROMPT.name);
const PROVIDER: Chooser = Chooser::one("provider", Kind::Provider);

/// An agent that can be ticked.
struct Choice {
    key: String,
    name: String,
    is_chosen: bool,
}

/// What the form is filled with at first: the draft of the agent that it was opened for.
#[derive(Default)]
struct Defaults {
    registry: String,
    prompt: String,
    version: String,
    provider: String,
    environment: String,
}

#[derive(Template)]
#[template(path = "deploy_preview.html")]
struct DeployPreview {
    frame: Frame,
    here: String,
    /// The fields of the form, which are sent once more.
    sent: Vec<(String, String)>,
    title: String,
    preview: Preview,
    targets: Vec<Shown>,
    members: Vec<Member>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Preview {
    plan: Plan,
    plan_hash: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    invisible_characters: usize,
    tools: Vec<PlanTool>,
    delivery: Nullable<Delivery>,
    approvals: Nullable<Approvals>,
}

#[derive(Deserialize)]
struct Environment {
    slug: String,
    name: String,
}

#[derive(Deserialize)]
struct Job {
    id: String,
}

/// The agents that were ticked or named.
fn chosen(visit: &Visit) -> Vec<String> {
    let fields = if visit.form.is_empty() { &visit.query } else { &visit.form };
    let ticked = fields.all("agent").map(String::from);
    let named =
        crate::console::field::words(visit.form.get("others")).into_iter().map(String::from);
    ticked.chain(named).collect()
}

async fn defaults(visit: &Visit, chosen: &[String]) -> Result<Defaults> {
    let of = |name: &str| visit.query.get(name).to_string();
    let asked = Defaults {
        registry: of("registry"),
        prompt: of("prompt"),
        version: of("version"),
        environment: of("environment"),
        provider: String::new(),
    };
    let [only] = chosen else { return Ok(asked) };
    let agent: Agent = visit.api.get(&format!("/agents/{}", segment(only)), &[]).await?;
    let or = |asked: String, own: Nullable<String>| {
        if asked.is_empty() { own.0.unwrap_or_default() } else { asked }
    };
    Ok(Defaults {
        registry: or(asked.registry, agent.draft.registry_ref),
        prompt: or(asked.prompt, agent.draft.prompt_name),
        version: or(asked.version, agent.draft.prompt_version),
        provider: agent.draft.provider.0.unwrap_or_default(),
        environment: asked.environment,
    })
}

/// The agents that can be ticked: those that are ticked already, and the newest.
async fn choices(visit: &Visit) -> Result<Vec<Choice>> {
    let fields = if visit.form.is_empty() { &visit.query } else { &visit.form };
    let ticked: BTreeSet<_> = fields.all("agent").collect();
    let newest: List<Agent> = visit.api.get("/agents", &[("limit", OFFERED)]).await?;
    let others = ticked.iter().filter(|key| newest.items.iter().all(|one| one.stable_key != **key));
    let mut choices = Vec::new();
    for key in others.take(MOST_TICKED) {
        let found = visit.api.get::<Agent>(&format!("/agents/{}", segment(key)), &[]).await;
        // One that is gone, or that the visitor may not use, is shown as it was named: the API refuses it.
        let name = match found {
            Ok(agent) => agent.name,
            Err(error) => visit.failed(error).map(|_| String::new())?,
        };
        choices.push(Choice { key: (*key).into(), name, is_chosen: true });
    }
    choices.extend(newest.items.into_iter().map(|agent| Choice {
        is_chosen: ticked.contains(agent.stable_key.as_str()),
        name: agent.name,
        key: agent.stable_key,
    }));
    Ok(choices)
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/agents/deployments")?;
    let chosen = chosen(visit);
    let environments: List<Environment> =
        visit.api.get("/environments", &[("limit", LISTED)]).await?;
    let missing = error.iter().flat_map(|error| error.issues()).map(|issue| issue.path.as_str());
    let given = visit.form.pairs().map(|(name, _)| name);
    let defaults =
        if visit.form.is_empty() { defaults(visit, &chosen).await? } else { Defaults::default() };
    let variables = missing.chain(given).filter_map(|name| name.strip_prefix(VARIABLES));
    let variables: BTreeSet<_> = variables.map(String::from).collect();
    let variables: Vec<_> =
        variables.into_iter().map(|one| (format!("{VARIABLES}{one}"), one)).collect();
    let frame = visit.frame("Deploy").crumb("Deployments", visit.in_org("/deployments"));
    let frame = frame
        .failed(error.as_ref())
        .rename("agentIds", "others")
        .label("others", "Agents")
        .label("registryRef", "Registry")
        .label("promptName", "Prompt")
        .choosing();
    let frame = variables.iter().fold(frame, |frame, (field, name)| frame.label(field, name));
    let page = Deploy {
        frame: frame.offering(visit, &[OTHERS, REGISTRY, PROMPT, VERSION, ENVIRONMENT]).await?,
        here: visit.in_org("/deployments/new"),
        agents: choices(visit).await?,
        environment: environments.next_cursor.is_some().then_some(ENVIRONMENT),
        environments: choices_of(environments.items, &defaults.environment),
        defaults,
        variables,
        others: OTHERS,
        registry: REGISTRY,
        prompt: PROMPT,
        version: VERSION,
        provider: PROVIDER,
    };
    render(page.frame.status, &page)
}

/// What can be selected among environments: nothing is at first, unless there is only one, or the visitor
/// came for one.
fn choices_of(environments: Vec<Environment>, asked: &str) -> Vec<(String, String)> {
    let is_clear = environments.len() <= 1 || environments.iter().any(|one| one.slug == asked);
    let none = (!is_clear).then(|| (String::new(), "Choose one".to_string()));
    none.into_iter().chain(environments.into_iter().map(|one| (one.slug, one.name))).collect()
}

/// The request of the form.
fn request(visit: &Visit) -> Value {
    let of = |name: &str| visit.form.get(name).trim();
    let mut body = json!({
        "agentIds": chosen(visit), "promptName": of("promptName"), "version": of("version"),
        "provider": of("provider"),
    });
    for name in ["registryRef", "model", "environment"] {
        if let Some(text) = visit.form.some(name) {
            body[name] = json!(text);
        }
    }
    let variables = visit.form.pairs().filter_map(|(name, value)| {
        Some((name.strip_prefix(VARIABLES)?.to_string(), json!(value)))
    });
    let variables: Map<_, _> = variables.collect();
    if !variables.is_empty() {
        body["agentVariables"] = variables.into();
    }
    body
}

async fn act(visit: &Visit) -> Result<Reply> {
    let body = request(visit);
    match visit.form.get("action") {
        "preview" => preview(visit, body, None).await,
        "deploy" => deploy(visit, body).await,
        _ => form(visit, None).await,
    }
}

async fn deploy(visit: &Visit, body: Value) -> Result<Reply> {
    let mut planned = body.clone();
    planned["planHash"] = json!(visit.form.get("planHash"));
    match visit.api.post::<Job>("/agents/deployments", planned).await {
        Ok(job) => Ok(visit.done(&path(visit, &job.id), Flash::Deployed)),
        Err(error) if error.code() == "plan_changed" => preview(visit, body, Some(error)).await,
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

/// Shows what would change; `error` says why what was shown before was not deployed.
async fn preview(visit: &Visit, body: Value, error: Option<Error>) -> Result<Reply> {
    let mut preview: Preview = match visit.api.post("/agents/deployments/preview", body).await {
        Ok(preview) => preview,
        Err(error) => return form(visit, visit.failed(error)?).await,
    };
    let targets = std::mem::take(&mut preview.targets);
    let targets = shown(visit, targets, &preview.plan.tools).await;
    let kept = visit.form.kept().filter(|(name, _)| !matches!(*name, "action" | "planHash"));
    let of = |name: &str| visit.form.get(name).trim();
    let title = format!("Deploy {} {} to {}", of("promptName"), of("version"), of("environment"));
    let frame = visit.frame(&title).crumb("Deployments", visit.in_org("/deployments"));
    let page = DeployPreview {
        frame: frame.failed(error.as_ref()),
        here: visit.in_org("/deployments/new"),
        sent: kept.map(|(name, value)| (name.into(), value.into())).collect(),
        title,
        preview,
        targets,
        members: roster::members(&visit.api).await?,
    };
    render(page.frame.status, &page)
}
