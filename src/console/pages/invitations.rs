//! `/invitations`: accepts an invitation, as a new user or in one's session. The token is in the
//! link's fragment, as that of `/setup`.

use askama::Template;
use serde_json::json;

use super::setup::token;
use super::sign_in::Begun;
use crate::base::{Error, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/invitations")
    .get(|visit| Box::pin(async { form(visit, None) }))
    .post(|visit| Box::pin(accept(visit)))];

#[derive(Template)]
#[template(path = "invitation.html")]
struct Invitation {
    frame: Frame,
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("Accept an invitation").failed(error).script("fragment");
    render(frame.status, &Invitation { frame: frame.rename("token", "link") })
}

async fn accept(visit: &Visit) -> Result<Reply> {
    let mut body = json!({"token": token(visit.form.get("link"))});
    if visit.session.is_none() {
        for name in ["name", "password"] {
            if let Some(value) = visit.form.sent(name).filter(|value| !value.is_empty()) {
                body[name] = json!(value);
            }
        }
    }
    match visit.api.post::<Begun>("/auth/invitations/accept", body).await {
        Ok(begun) => Ok(Reply::see_other("/")
            .flash(Flash::Joined)
            .session(SessionChange::Begun(begun.token))),
        Err(error) => form(visit, Some(&error)),
    }
}
