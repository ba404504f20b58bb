//! `/`: leads to the visitor's organization. Someone who is a member of none may create one.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use crate::base::{Error, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::signed_in("/").get(|visit| Box::pin(async { go(visit) })),
    Page::signed_in("/organizations/new")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
];

#[derive(Template)]
#[template(path = "new_organization.html")]
struct NewOrganization {
    frame: Frame,
    is_first: bool,
}

#[derive(Deserialize)]
struct Created {
    slug: String,
}

fn go(visit: &Visit) -> Result<Reply> {
    let first = visit.signed_in().memberships.first();
    Ok(match first {
        Some(member) => Reply::see_other(format!("/o/{}", member.org_slug)),
        None => Reply::see_other("/organizations/new"),
    })
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("New organization").failed(error);
    let is_first = visit.signed_in().memberships.is_empty();
    render(frame.status, &NewOrganization { frame, is_first })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let body = json!({"slug": visit.form.get("slug"), "name": visit.form.get("name")});
    match visit.api.post::<Created>("/organizations", body).await {
        Ok(created) => Ok(visit.done(&format!("/o/{}", created.slug), Flash::OrganizationCreated)),
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}
