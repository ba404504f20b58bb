//! `/reset-password`: sets a new password with a link. The token is in the link's fragment, as that of
//! `/setup`.

use askama::Template;
use serde_json::{Value, json};

use super::setup::token;
use crate::base::{Error, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/reset-password")
    .get(|visit| Box::pin(async { form(visit, None) }))
    .post(|visit| Box::pin(reset(visit)))];

#[derive(Template)]
#[template(path = "reset_password.html")]
struct ResetPassword {
    frame: Frame,
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("Set a new password").failed(error).script("fragment");
    render(frame.status, &ResetPassword { frame: frame.rename("token", "link") })
}

async fn reset(visit: &Visit) -> Result<Reply> {
    let body = json!({
        "token": token(visit.form.get("link")),
        "newPassword": visit.form.get("newPassword"),
    });
    match visit.api.post::<Value>("/auth/password/reset", body).await {
        Ok(_) => Ok(Reply::see_other("/sign-in").flash(Flash::PasswordChanged)),
        Err(error) => form(visit, Some(&error)),
    }
}
