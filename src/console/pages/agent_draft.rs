//! `/o/{org}/agents/{key}/edit`: the draft of an agent; `/o/{org}/new/agent`: creating one.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::{api_path, page_path};
use super::agents::{Agent, Fleets, ToolRef};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::conflict::Edited;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::tags;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/new/agent").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/agents/{key}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
];

/// So many tools can be chosen from.
const TOOLS: &str = "100";

#[derive(Template)]
#[template(path = "agent_draft.html")]
struct EditAgent {
    frame: Frame,
    form: Form,
    /// The tools, and whether each is chosen.
    tools: Vec<(Tool, bool)>,
}

#[derive(Deserialize)]
struct Tool {
    id: String,
    name: String,
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let fields = vec![
        Field::text("name", "Name"),
        Field::text("stableKey", "Stable key").hint(
            "By which programs refer to it: lower-case letters, digits and hyphens. It never changes.",
        ),
        Field::text("description", "Description").optional(),
        Field::select("fleetId", "Fleet", Fleets::read(&visit.api).await?.choices("No fleet")),
        tags::field(),
    ];
    Ok(Form::create("/agents", fields, "Create agent")
        .done(visit.in_org("/agents/{stableKey}/edit"), Flash::AgentCreated)
        .page(visit.frame("New agent").script("slug").crumb("Agents", visit.in_org("/agents"))))
}

/// The form of an agent with its draft.
async fn draft(visit: &Visit) -> Result<Form> {
    let fields = vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        Field::select("fleetId", "Fleet", Fleets::read(&visit.api).await?.choices("No fleet")),
        tags::field(),
        Field::text("draft.registryRef", "Registry").optional().hint("Such as acme/main."),
        Field::text("draft.promptName", "Prompt").optional(),
        Field::text("draft.promptVersion", "Version")
            .optional()
            .hint("A version, a range such as ^1, or a label."),
        Field::text("draft.model", "Model").optional(),
        Field::text("draft.provider", "Provider").optional(),
        Field::special(),
        Field::area("draft.variables", "Variables, as a JSON object", 4).object().optional(),
        Field::area("draft.providerConfig", "Settings for the provider, as a JSON object", 4)
            .object()
            .optional(),
    ];
    let form = Form::change(visit, &api_path(visit, ""), fields).await?;
    let page = page_path(visit);
    let form = form.button("Save draft").back(page.as_str()).done(page, Flash::AgentSaved);
    Ok(form
        .refined(|visit, stored, body| {
            let tools = tools(visit, &tool_refs(stored)).into_iter();
            let tool = |(id, version)| json!({"toolId": id, "version": version});
            body["draft"]["toolRefs"] = tools.map(tool).collect();
        })
        .special(|visit, stored| {
            let stored = tool_refs(stored);
            let lines =
                |ids: Vec<String>| ids.iter().map(|id| format!("{id}\n")).collect::<String>();
            let theirs = stored.iter().map(|one| one.tool_id.clone()).collect();
            let mine = tools(visit, &stored).into_iter().map(|(id, _)| id).collect();
            vec![Edited::new("Tools", lines(theirs), lines(mine))]
        }))
}

/// The tools of a stored draft.
fn tool_refs(stored: &Value) -> Vec<ToolRef> {
    Vec::deserialize(&stored["draft"]["toolRefs"]).unwrap_or_default()
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/agents/key")?;
    let mut form = draft(visit).await?;
    let agent: Agent = form.stored()?;
    let tools: List<Tool> = visit.api.get("/tools", &[("limit", TOOLS)]).await?;
    let sent: Vec<_> = visit.form.pairs().filter(|(name, _)| *name == "tool").collect();
    let is_chosen = |tool: &Tool| match visit.form.is_empty() {
        true => agent.draft.tool_refs.iter().any(|one| one.tool_id == tool.id),
        false => sent.iter().any(|(_, id)| *id == tool.id),
    };
    let frame = visit.frame(&format!("Edit {}", agent.name));
    let frame = frame.crumb("Agents", visit.in_org("/agents"));
    let frame = frame.crumb(agent.name.clone(), page_path(visit)).failed(error.as_ref());
    let page = EditAgent {
        frame: form.ready(frame, visit, error.as_ref()),
        form,
        tools: tools
            .items
            .into_iter()
            .map(|tool| {
                let chosen = is_chosen(&tool);
                (tool, chosen)
            })
            .collect(),
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    match draft(visit).await?.send(visit).await {
        Err(error) => edit(visit, visit.failed(error)?).await,
        done => done,
    }
}

/// The chosen tools with their versions: one that the draft has already keeps its version, and so does
/// one that is not among those that can be chosen from.
fn tools(visit: &Visit, stored: &[ToolRef]) -> Vec<(String, Option<String>)> {
    let sent = |name| visit.form.pairs().filter(move |(key, _)| *key == name).map(|(_, id)| id);
    let offered: Vec<_> = sent("offered").collect();
    let kept = stored.iter().map(|one| one.tool_id.as_str()).filter(|id| !offered.contains(id));
    let tool = |id: &str| {
        let old = stored.iter().find(|one| one.tool_id == id);
        (id.to_string(), old.and_then(|old| old.version.0.clone()))
    };
    kept.chain(sent("tool")).map(tool).collect()
}
