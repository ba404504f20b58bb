//! `/o/{org}/agents/{key}/edit`: the draft of an agent; `/o/{org}/new/agent`: creating one.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agent::{api_path, page_path};
use super::agents::{Agent, Draft, Fleets};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::conflict::Edited;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::or_null;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/new/agent")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/agents/{key}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
];

/// So many tools can be chosen from.
const TOOLS: &str = "100";

#[derive(Template)]
#[template(path = "new_agent.html")]
struct NewAgent {
    frame: Frame,
    here: String,
    fleets: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "agent_draft.html")]
struct EditAgent {
    frame: Frame,
    path: String,
    agent: Agent,
    description: String,
    fleet: String,
    fleets: Vec<(String, String)>,
    fields: Vec<Field>,
    variables: String,
    config: String,
    /// The tools, and whether each is chosen.
    tools: Vec<(Tool, bool)>,
}

/// A text of the draft.
struct Field {
    name: &'static str,
    label: &'static str,
    value: String,
    hint: &'static str,
}

#[derive(Deserialize)]
struct Tool {
    id: String,
    name: String,
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/agents")?;
    let frame = visit.frame("New agent").crumb("Agents", visit.in_org("/agents"));
    let page = NewAgent {
        frame: frame.failed(error.as_ref()),
        here: visit.in_org("/new/agent"),
        fleets: Fleets::read(&visit.api).await?.choices("No fleet"),
    };
    render(page.frame.status, &page)
}

async fn create(visit: &Visit) -> Result<Reply> {
    let mut body =
        json!({"stableKey": visit.form.get("stableKey"), "name": visit.form.get("name")});
    for name in ["description", "fleetId"] {
        if let Some(text) = visit.form.some(name) {
            body[name] = json!(text);
        }
    }
    match visit.api.post::<Agent>("/agents", body).await {
        Ok(agent) => {
            let path = visit.in_org(&format!("/agents/{}/edit", segment(&agent.stable_key)));
            Ok(visit.done(&path, Flash::AgentCreated))
        }
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

fn fields(draft: &Draft) -> Vec<Field> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let field = |name, label, value, hint| Field { name, label, value, hint };
    vec![
        field("draft.registryRef", "Registry", text(&draft.registry_ref), "Such as acme/main."),
        field("draft.promptName", "Prompt", text(&draft.prompt_name), ""),
        field(
            "draft.promptVersion",
            "Version",
            text(&draft.prompt_version),
            "A version, a range such as ^1, or a label.",
        ),
        field("draft.model", "Model", text(&draft.model), ""),
        field("draft.provider", "Provider", text(&draft.provider), ""),
    ]
}

/// What the form edits.
fn edited(visit: &Visit, agent: &Agent) -> Vec<Edited> {
    let text = |name: &str, label, theirs: &str| Edited::text(visit, name, label, theirs);
    let chosen = |ids: Vec<&str>| ids.iter().map(|id| format!("{id}\n")).collect::<String>();
    let draft = &agent.draft;
    let mut all = vec![
        text("name", "Name", &agent.name),
        text("description", "Description", agent.description.as_deref().unwrap_or_default()),
        text("fleetId", "Fleet", agent.fleet_id.as_deref().unwrap_or_default()),
    ];
    all.extend(fields(draft).into_iter().map(|one| text(one.name, one.label, &one.value)));
    let stored = draft.tool_refs.iter().map(|one| one.tool_id.as_str()).collect();
    let sent = tools(visit, agent);
    let sent = sent.iter().filter_map(|one| one["toolId"].as_str()).collect();
    all.push(Edited::new("Tools", chosen(stored), chosen(sent)));
    all.push(text("draft.variables", "Variables", &pretty(&json!(draft.variables))));
    let settings = pretty(&json!(draft.provider_config));
    all.push(text("draft.providerConfig", "Settings for the provider", &settings));
    all
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let agent: Agent = visit.api.get(&api_path(visit, ""), &[]).await?;
    let tools: List<Tool> = visit.api.get("/tools", &[("limit", TOOLS)]).await?;
    let sent: Vec<_> = visit.form.pairs().filter(|(name, _)| *name == "tool").collect();
    let is_chosen = |tool: &Tool| match visit.form.is_empty() {
        true => agent.draft.tool_refs.iter().any(|one| one.tool_id == tool.id),
        false => sent.iter().any(|(_, id)| *id == tool.id),
    };
    let frame = visit.frame(&format!("Edit {}", agent.name));
    let frame = frame.crumb("Agents", visit.in_org("/agents"));
    let page = EditAgent {
        frame: frame.crumb(agent.name.clone(), page_path(visit)).failed(error.as_ref()).edits(
            visit,
            error.as_ref(),
            &edited(visit, &agent),
        ),
        path: page_path(visit),
        description: agent.description.0.clone().unwrap_or_default(),
        fleet: agent.fleet_id.0.clone().unwrap_or_default(),
        fleets: Fleets::read(&visit.api).await?.choices("No fleet"),
        fields: fields(&agent.draft),
        variables: pretty(&json!(agent.draft.variables)),
        config: pretty(&json!(agent.draft.provider_config)),
        tools: tools
            .items
            .into_iter()
            .map(|tool| {
                let chosen = is_chosen(&tool);
                (tool, chosen)
            })
            .collect(),
        agent,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let agent: Agent = visit.api.get(&api_path(visit, ""), &[]).await?;
    let body = match body(visit, &agent) {
        Ok(body) => body,
        Err(error) => return edit(visit, Some(error)).await,
    };
    match visit.save(&api_path(visit, ""), body, |agent| edited(visit, agent)).await {
        Ok(_) => Ok(visit.done(&page_path(visit), Flash::AgentSaved)),
        Err(error) => edit(visit, visit.failed(error)?).await,
    }
}

fn body(visit: &Visit, agent: &Agent) -> Result<Value> {
    let mut draft = json!({
        "variables": object(visit, "draft.variables")?,
        "providerConfig": object(visit, "draft.providerConfig")?,
        "toolRefs": tools(visit, agent),
    });
    for field in fields(&agent.draft) {
        let name = field.name.trim_start_matches("draft.");
        draft[name] = or_null(visit, field.name);
    }
    Ok(json!({
        "name": visit.form.get("name"), "description": or_null(visit, "description"),
        "fleetId": or_null(visit, "fleetId"), "draft": draft,
    }))
}

/// The chosen tools: one that the draft has already keeps its version, and so does one that is not
/// among those that can be chosen from.
fn tools(visit: &Visit, agent: &Agent) -> Vec<Value> {
    let sent = |name| visit.form.pairs().filter(move |(key, _)| *key == name).map(|(_, id)| id);
    let offered: Vec<_> = sent("offered").collect();
    let kept = agent.draft.tool_refs.iter().map(|one| one.tool_id.as_str());
    let kept: Vec<_> = kept.filter(|id| !offered.contains(id)).collect();
    let tool = |id: &str| {
        let old = agent.draft.tool_refs.iter().find(|one| one.tool_id == id);
        json!({"toolId": id, "version": old.and_then(|old| old.version.0.clone())})
    };
    kept.into_iter().chain(sent("tool")).map(tool).collect()
}

/// The JSON object in a field; empty if it is.
fn object(visit: &Visit, name: &str) -> Result<Map<String, Value>> {
    match visit.form.some(name) {
        None => Ok(Map::new()),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| Error::invalid_at(name, format!("must be a JSON object: {error}"))),
    }
}
