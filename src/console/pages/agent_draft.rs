//! `/o/{org}/agents/{key}/edit`: the draft of an agent; `/o/{org}/new/agent`: creating one.

use std::collections::BTreeSet;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::{api_path, page_path};
use super::agents::{Agent, ToolRef};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::pick;
use crate::console::conflict::Edited;
use crate::console::field::{Field, words};
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

const FLEET: Chooser = Chooser::one("fleetId", Kind::Fleet);
const REGISTRY: Chooser = Chooser::one("draft.registryRef", Kind::Registry);
const PROMPT: Chooser = Chooser::one("draft.promptName", Kind::Prompt).from(REGISTRY.name, "");
const PROVIDER: Chooser = Chooser::one("draft.provider", Kind::Provider);
const VERSION: Chooser =
    Chooser::one("draft.promptVersion", Kind::Version).from(REGISTRY.name, PROMPT.name);

const OTHER_TOOLS: Chooser = Chooser::one("otherTools", Kind::Tool).many();

/// What an agent has that is in no fleet.
const NO_FLEET: &str = "No fleet";

/// So many tools can be ticked.
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
        pick(visit, "Fleet", FLEET, Some(NO_FLEET)).await?,
        tags::field(),
    ];
    Ok(Form::create("/agents", fields, "Create agent")
        .done(visit.in_org("/agents/{stableKey}/edit"), Flash::AgentCreated)
        .page(visit.frame("New agent").script("slug").crumb("Agents", visit.in_org("/agents"))))
}

/// The form of an agent with its draft, and the tools that can be ticked.
async fn draft(visit: &Visit) -> Result<(Form, Vec<Tool>)> {
    let mut fields = vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        pick(visit, "Fleet", FLEET, Some(NO_FLEET)).await?,
        tags::field(),
        Field::choose("Registry", REGISTRY).optional().hint("Such as acme/main."),
        Field::choose("Prompt", PROMPT).optional(),
        Field::choose("Version", VERSION)
            .optional()
            .hint("A version, a range such as ^1, or a label."),
        Field::text("draft.model", "Model").optional(),
        Field::choose("Provider", PROVIDER).optional(),
        Field::special(),
    ];
    // Those that cannot be ticked are looked for.
    let newest: List<Tool> = visit.api.get("/tools", &[("limit", TOOLS)]).await?;
    if newest.next_cursor.is_some() {
        let others = Field::choose("Other tools", OTHER_TOOLS).words().optional().unstored();
        fields.push(others.also("draft.toolRefs").hint("Their ids, with commas between them."));
    }
    fields.extend([
        Field::area("draft.variables", "Variables, as a JSON object", 4).object().optional(),
        Field::area("draft.providerConfig", "Settings for the provider, as a JSON object", 4)
            .object()
            .optional(),
    ]);
    let form = Form::change(visit, &api_path(visit, ""), fields).await?;
    let page = page_path(visit);
    let form = form.button("Save draft").back(page.as_str()).done(page, Flash::AgentSaved);
    let form = form
        .refined(|visit, stored, body| {
            if let Some(fields) = body.as_object_mut() {
                fields.remove(OTHER_TOOLS.name);
            }
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
        });
    Ok((form, newest.items))
}

/// The tools that can be ticked: those of the draft that are not among the newest, and the newest.
async fn offered(visit: &Visit, stored: &[ToolRef], newest: Vec<Tool>) -> Result<Vec<Tool>> {
    let mut all: Vec<Tool> = Vec::new();
    for ToolRef { tool_id: id, .. } in stored {
        if newest.iter().chain(&all).any(|tool| tool.id == *id) {
            continue;
        }
        // One that is gone is shown by its id: it can be removed.
        all.push(match visit.api.get(&format!("/tools/{}", segment(id)), &[]).await {
            Ok(tool) => tool,
            Err(error) => {
                visit.failed(error)?;
                Tool { id: id.clone(), name: id.clone() }
            }
        });
    }
    all.extend(newest);
    Ok(all)
}

/// The tools of a stored draft.
fn tool_refs(stored: &Value) -> Vec<ToolRef> {
    Vec::deserialize(&stored["draft"]["toolRefs"]).unwrap_or_default()
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/agents/key")?;
    let (mut form, newest) = draft(visit).await?;
    let agent: Agent = form.stored()?;
    let tools = offered(visit, &agent.draft.tool_refs, newest).await?;
    let sent: Vec<_> = visit.form.all("tool").collect();
    let is_chosen = |tool: &Tool| match visit.form.is_empty() {
        true => agent.draft.tool_refs.iter().any(|one| one.tool_id == tool.id),
        false => sent.iter().any(|id| *id == tool.id),
    };
    let frame = visit.frame(&format!("Edit {}", agent.name));
    let frame = frame.crumb("Agents", visit.in_org("/agents"));
    let frame = frame.crumb(agent.name.clone(), page_path(visit)).failed(error.as_ref());
    let frame = form.ready(frame, visit, error.as_ref());
    let page = EditAgent {
        frame: form.offer(frame, visit).await?,
        form,
        tools: tools
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
    let (form, _) = draft(visit).await?;
    let sent = match require_prompt(visit, &form).await {
        Ok(()) => form.send(visit).await,
        Err(error) => Err(error),
    };
    match sent {
        Err(error) => edit(visit, visit.failed(error)?).await,
        done => done,
    }
}

/// Refuses a registry or a prompt that is not there, where it is entered: the API keeps a draft of what is
/// still to be made.
async fn require_prompt(visit: &Visit, form: &Form) -> Result<()> {
    let names = [REGISTRY.name, PROMPT.name];
    let [registry, prompt] = names.map(|name| visit.form.get(name).trim());
    let draft = form.stored::<Agent>()?.draft;
    let stored = [&draft.registry_ref, &draft.prompt_name];
    let is_stored = stored.map(|name| name.as_deref().unwrap_or_default()) == [registry, prompt];
    if registry.is_empty() || is_stored {
        return Ok(());
    }
    let mut query = vec![("registryRef", registry), ("artifactType", "prompt"), ("limit", "1")];
    query.extend((!prompt.is_empty()).then_some(("promptName", prompt)));
    let found: List<Value> = match visit.api.get("/registries/artifacts", &query).await {
        Ok(found) => found,
        Err(error) => {
            visit.failed(error)?;
            let message = "must be one that you may use, such as acme/main";
            return Err(Error::invalid_at(REGISTRY.name, message));
        }
    };
    if found.items.is_empty() && !prompt.is_empty() {
        let message =
            "must be a prompt of this registry; publish it there first, or choose another";
        return Err(Error::invalid_at(PROMPT.name, message));
    }
    Ok(())
}

/// The chosen tools with their versions: one that the draft has already keeps its version, and so does
/// one that is not among those that can be chosen from.
fn tools(visit: &Visit, stored: &[ToolRef]) -> Vec<(String, Option<String>)> {
    let offered: Vec<_> = visit.form.all("offered").collect();
    let kept = stored.iter().map(|one| one.tool_id.as_str()).filter(|id| !offered.contains(id));
    let tool = |id: &str| {
        let old = stored.iter().find(|one| one.tool_id == id);
        (id.to_string(), old.and_then(|old| old.version.0.clone()))
    };
    let named = words(visit.form.get(OTHER_TOOLS.name));
    let mut all: Vec<_> = kept.chain(visit.form.all("tool")).chain(named).collect();
    let mut known = BTreeSet::new();
    all.retain(|id| known.insert(*id));
    all.into_iter().map(tool).collect()
}
