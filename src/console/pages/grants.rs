//! `/o/{org}/settings/grants`: which members may use what is restricted.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use crate::api::Method;
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::people::People;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member, Thing};
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/grants").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/settings/grants/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/settings/grants/remove").post(|visit| Box::pin(remove(visit))),
];

/// The field for who gets a grant, and for whose are listed.
const MEMBER: Chooser = Chooser::one("userId", Kind::Member);

#[derive(Template)]
#[template(path = "grants.html")]
struct Grants {
    frame: Frame,
    base: String,
    grants: List<Grant>,
    who: Field,
    members: Vec<Member>,
    things: Vec<Thing>,
    may_write: bool,
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

async fn show(visit: &Visit) -> Result<Reply> {
    let (grants, error) = roster::filtered(visit, MEMBER, "/access-grants").await?;
    let members = roster::members(&visit.api).await?;
    let who = roster::filter(visit, "Member", MEMBER, &members);
    let frame = visit.frame("Grants").tabs(&roster::tabs(visit)).failed(error.as_ref());
    let page = Grants {
        frame: frame.picking(visit, &[&who]).await?,
        base: visit.in_org("/settings"),
        grants,
        who,
        members,
        things: roster::things(&visit.api).await?,
        may_write: visit.may(Method::Post, "/access-grants"),
    };
    render(page.frame.status, &page)
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let people = People::default().typed(visit, MEMBER).await?;
    let fields = vec![
        Field::choose("Member", MEMBER).hint("A name or an address.").named(people.named()),
        roster::thing(visit, "May use", None, |thing| thing.is_restricted)
            .await?
            .at("resourceId")
            .also("resourceType"),
    ];
    Ok(Form::create("/access-grants", fields, "Grant access")
        .refined(|visit, _, body| {
            let sent = visit.form.get("resource");
            // A text that is no choice is for the API to refuse.
            let (kind, id) = sent.trim().split_once(':').unwrap_or(("registry", sent));
            body["resourceType"] = json!(kind);
            body["resourceId"] = json!(id);
        })
        .done(visit.in_org("/settings/grants"), Flash::GrantCreated)
        .page(visit.frame("New grant").crumb("Grants", visit.in_org("/settings/grants"))))
}

async fn remove(visit: &Visit) -> Result<Reply> {
    let path = format!("/access-grants/{}", segment(visit.form.get("grant")));
    visit.api.delete(&path, &[]).await?;
    Ok(visit.done(&visit.in_org("/settings/grants"), Flash::GrantRemoved))
}
