//! `/setup`: creates the first organization and its owner. The token is in the link's fragment,
//! which browsers do not send: a script moves it into the form, or a person pastes the link.

use askama::Template;
use serde_json::json;

use super::sign_in::{Begun, is_set_up};
use crate::base::{Error, Kind, Result};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/setup")
    .get(|visit| Box::pin(show(visit)))
    .post(|visit| Box::pin(set_up(visit)))
    .open_before_setup()];

#[derive(Template)]
#[template(path = "setup.html")]
struct Setup {
    frame: Frame,
    /// Whether that was done, so that no link is valid.
    is_set_up: bool,
    /// Whether what is entered could be read on the way.
    is_open: bool,
}

async fn show(visit: &Visit) -> Result<Reply> {
    if !is_set_up(visit).await? {
        return form(visit, None);
    }
    let frame = visit.frame("This server is set up");
    render(frame.status, &Setup { frame, is_set_up: true, is_open: false })
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("Set up Roadstead").failed(error).script("fragment").script("slug");
    let frame = frame
        .rename("organization.name", "orgName")
        .rename("organization.slug", "slug")
        .rename("user.name", "name")
        .rename("user.email", "email")
        .rename("user.password", "password")
        .label("link", "Setup link")
        .label("orgName", "Name")
        .label("slug", "Short name")
        .label("email", "E-mail address");
    render(frame.status, &Setup { frame, is_set_up: false, is_open: !visit.is_private })
}

/// The token of a link, or the token itself.
pub fn token(pasted: &str) -> &str {
    pasted.trim().rsplit('#').next().unwrap_or_default()
}

async fn set_up(visit: &Visit) -> Result<Reply> {
    let form_of = |name| visit.form.get(name);
    let body = json!({
        "token": token(form_of("link")),
        "organization": {"slug": form_of("slug"), "name": form_of("orgName")},
        "user": {
            "name": form_of("name"), "email": form_of("email").trim(),
            "password": form_of("password"),
        },
    });
    match visit.api.post::<Begun>("/setup", body).await {
        Ok(begun) => {
            let home = format!("/o/{}", form_of("slug"));
            Ok(Reply::see_other(home).session(SessionChange::Begun(begun.token)))
        }
        // The link has been used: whoever has it already can sign in.
        Err(error) if error.kind() == Kind::NotFound => Err(error),
        // It has expired, or another one was made since: what else was entered stays.
        Err(error) if error.kind() == Kind::Unauthenticated => form(visit, Some(&error.at("link"))),
        Err(error) => form(visit, Some(&error)),
    }
}
