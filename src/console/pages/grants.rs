//! `/o/{org}/settings/grants`: which members may use what is restricted.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member, Thing};
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/grants").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/settings/grants/new")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/settings/grants/remove").post(|visit| Box::pin(remove(visit))),
];

#[derive(Template)]
#[template(path = "grants.html")]
struct Grants {
    frame: Frame,
    base: String,
    grants: List<Grant>,
    members: Vec<Member>,
    things: Vec<Thing>,
    may_write: bool,
    next: String,
}

impl Grants {
    fn thing(&self, grant: &Grant) -> String {
        let found = self.things.iter().find(|thing| thing.id == grant.resource_id);
        found.map_or_else(|| format!("a deleted {}", grant.resource_type), Thing::label)
    }

    fn has_restricted(&self) -> bool {
        self.things.iter().any(|thing| thing.is_restricted)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Grant {
    id: String,
    user_id: String,
    resource_type: String,
    resource_id: String,
    created_by: String,
    created_at: Time,
}

#[derive(Template)]
#[template(path = "new_grant.html")]
struct NewGrant {
    frame: Frame,
    members: Vec<(String, String)>,
    things: Vec<(String, String)>,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let page = Grants {
        frame: visit.frame("Grants").tabs(&roster::tabs(visit)),
        base: visit.in_org("/settings"),
        grants: visit.api.get("/access-grants", &query).await?,
        members: roster::members(&visit.api).await?,
        things: roster::things(&visit.api).await?,
        may_write: visit.may(Method::Post, "/access-grants"),
        next: format!("{}?", visit.path),
    };
    render(page.frame.status, &page)
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/access-grants")?;
    let frame = visit.frame("New grant").crumb("Grants", visit.in_org("/settings/grants"));
    let members = roster::members(&visit.api).await?.into_iter();
    let things = roster::things(&visit.api).await?.into_iter();
    let page = NewGrant {
        frame: frame.failed(error.as_ref()).rename("resourceId", "resource"),
        members: members.map(|member| (member.user_id, member.name)).collect(),
        things: things
            .filter(|thing| thing.is_restricted)
            .map(|thing| (thing.key(), thing.label()))
            .collect(),
    };
    render(page.frame.status, &page)
}

async fn create(visit: &Visit) -> Result<Reply> {
    let (kind, id) = visit.form.get("resource").split_once(':').unwrap_or_default();
    let body = json!({
        "userId": visit.form.get("userId"), "resourceType": kind, "resourceId": id,
    });
    match visit.api.post::<Value>("/access-grants", body).await {
        Ok(_) => Ok(visit.done(&visit.in_org("/settings/grants"), Flash::GrantCreated)),
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

async fn remove(visit: &Visit) -> Result<Reply> {
    let path = format!("/access-grants/{}", segment(visit.form.get("grant")));
    visit.api.delete(&path, &[]).await?;
    Ok(visit.done(&visit.in_org("/settings/grants"), Flash::GrantRemoved))
}
