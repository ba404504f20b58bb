//! `/o/{org}/fleets`: groups of agents, which may be restricted; creating, changing and deleting one.

use askama::Template;
use serde::Deserialize;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::texts::ACCESSES;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/fleets").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/new/fleet").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/fleets/{fleet}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/fleets/{fleet}/delete").form(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "fleets.html")]
struct Fleets {
    frame: Frame,
    base: String,
    fleets: Listed<Fleet>,
    may_create: bool,
}

#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage {
    frame: Frame,
    base: String,
    fleet: Fleet,
    form: Form,
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
    let page = Fleets {
        frame: visit.frame("Fleets").crumb("Agents", visit.in_org("/agents")),
        base: visit.in_org(""),
        fleets: Listed::read(visit, &[("kind", "fleet")], "/fleets", &[]).await?,
        may_create: visit.may(Method::Post, "/fleets"),
    };
    render(page.frame.status, &page)
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Agents", visit.in_org("/agents")).crumb("Fleets", visit.in_org("/fleets"))
}

fn fields() -> Vec<Field> {
    vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        Field::select("access", "Who uses its agents", ACCESSES),
    ]
}

async fn new(visit: &Visit) -> Result<FormPage> {
    Ok(Form::create("/fleets", fields(), "Create fleet")
        .done(visit.in_org("/fleets/{id}"), Flash::FleetCreated)
        .page(crumbs(visit, visit.frame("New fleet"))))
}

fn api_path(visit: &Visit) -> String {
    format!("/fleets/{}", segment(visit.param(1)))
}

async fn settings(visit: &Visit) -> Result<Form> {
    let form = Form::change(visit, &api_path(visit), fields()).await?;
    Ok(form.done(visit.path.as_str(), Flash::FleetSaved))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let mut form = settings(visit).await?;
    let fleet: Fleet = form.stored()?;
    let frame = crumbs(visit, visit.frame(&fleet.name)).failed(error.as_ref());
    let page = FleetPage {
        frame: form.ready(frame, visit, error.as_ref()),
        base: visit.in_org(""),
        form,
        may_change: visit.may(Method::Patch, &api_path(visit)),
        fleet,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    match settings(visit).await?.send(visit).await {
        Err(error) => show(visit, visit.failed(error)?).await,
        done => done,
    }
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let name = form.known("name");
    let page = form
        .done(visit.in_org("/fleets"), Flash::FleetDeleted)
        .page(crumbs(visit, visit.frame(&format!("Delete {name}?"))));
    Ok(page.lead(
        "Its agents stay, without a fleet: if the fleet is restricted, every member may use them from \
         then on. Grants for it are deleted.",
    ))
}
