//! `/o/{org}/fleets`: groups of agents, which may be restricted; creating, changing and deleting one.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::confirm::Confirm;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::conflict::Edited;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::or_null;
use crate::console::texts::ACCESSES;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/fleets").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/new/fleet")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/fleets/{fleet}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/fleets/{fleet}/delete")
        .get(|visit| Box::pin(ask(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "fleets.html")]
struct Fleets {
    frame: Frame,
    base: String,
    fleets: List<Fleet>,
    may_create: bool,
    next: String,
}

#[derive(Template)]
#[template(path = "new_fleet.html")]
struct NewFleet {
    frame: Frame,
    here: String,
    accesses: [(&'static str, &'static str); 2],
}

#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage {
    frame: Frame,
    base: String,
    fleet: Fleet,
    description: String,
    accesses: [(&'static str, &'static str); 2],
    may_change: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fleet {
    id: String,
    name: String,
    description: Nullable<String>,
    access: String,
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    stable_key: String,
    name: String,
}

async fn list(visit: &Visit) -> Result<Reply> {
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let page = Fleets {
        frame: visit.frame("Fleets").crumb("Agents", visit.in_org("/agents")),
        base: visit.in_org(""),
        fleets: visit.api.get("/fleets", &query).await?,
        may_create: visit.may(Method::Post, "/fleets"),
        next: format!("{}?", visit.path),
    };
    render(page.frame.status, &page)
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/fleets")?;
    let frame = visit.frame("New fleet").crumb("Fleets", visit.in_org("/fleets")).failed(error);
    let page = NewFleet { frame, here: visit.in_org("/new/fleet"), accesses: ACCESSES };
    render(page.frame.status, &page)
}

async fn create(visit: &Visit) -> Result<Reply> {
    let mut body = json!({"name": visit.form.get("name"), "access": visit.form.get("access")});
    if let Some(description) = visit.form.some("description") {
        body["description"] = json!(description);
    }
    match visit.api.post::<Fleet>("/fleets", body).await {
        Ok(fleet) => {
            let path = visit.in_org(&format!("/fleets/{}", segment(&fleet.id)));
            Ok(visit.done(&path, Flash::FleetCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}

fn api_path(visit: &Visit) -> String {
    format!("/fleets/{}", segment(visit.param(1)))
}

/// What the form edits.
fn edited(visit: &Visit, fleet: &Fleet) -> Vec<Edited> {
    let description = fleet.description.0.as_deref().unwrap_or_default();
    vec![
        Edited::text(visit, "name", "Name", &fleet.name),
        Edited::text(visit, "description", "Description", description),
        Edited::choice(visit, "access", "Who uses its agents", &fleet.access, &ACCESSES),
    ]
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let fleet: Fleet = visit.api.get(&api_path(visit), &[]).await?;
    let frame = visit.frame(&fleet.name).crumb("Agents", visit.in_org("/agents"));
    let frame = frame.crumb("Fleets", visit.in_org("/fleets")).failed(error.as_ref());
    let page = FleetPage {
        frame: frame.edits(visit, error.as_ref(), &edited(visit, &fleet)),
        base: visit.in_org(""),
        description: fleet.description.0.clone().unwrap_or_default(),
        accesses: ACCESSES,
        may_change: visit.may(Method::Patch, &api_path(visit)),
        fleet,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let body = json!({
        "name": visit.form.get("name"), "description": or_null(visit, "description"),
        "access": visit.form.get("access"),
    });
    match visit.save(&api_path(visit), body, |stored| edited(visit, stored)).await {
        Ok(_) => Ok(visit.done(&visit.path, Flash::FleetSaved)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

async fn ask(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Delete, &api_path(visit))?;
    let fleet: Fleet = visit.api.get(&api_path(visit), &[]).await?;
    let frame = visit.frame(&format!("Delete {}?", fleet.name));
    Confirm {
        frame: frame.crumb("Fleets", visit.in_org("/fleets")),
        consequences:
            "Its agents stay, without a fleet: if the fleet is restricted, every member may use \
                       them from then on. Grants for it are deleted."
                .into(),
        label: format!("Delete {}", fleet.name),
        back: visit.in_org(&api_path(visit)),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    match visit.api.delete(&api_path(visit), &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/fleets"), Flash::FleetDeleted)),
        Err(error) => ask(visit, visit.failed(error)?).await,
    }
}
