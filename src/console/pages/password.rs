//! `/account/password`: chooses a new password.

use askama::Template;
use serde_json::{Value, json};

use crate::base::{Error, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::signed_in("/account/password")
    .get(|visit| Box::pin(async { form(visit, None) }))
    .post(|visit| Box::pin(change(visit)))];

#[derive(Template)]
#[template(path = "password.html")]
struct Password {
    frame: Frame,
    email: String,
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("New password").crumb("Your account", "/account").failed(error);
    render(frame.status, &Password { email: visit.signed_in().user.email.clone(), frame })
}

async fn change(visit: &Visit) -> Result<Reply> {
    let body = json!({
        "currentPassword": visit.form.get("currentPassword"),
        "newPassword": visit.form.get("newPassword"),
    });
    match visit.api.post::<Value>("/auth/password", body).await {
        Ok(_) => Ok(visit.done("/account", Flash::PasswordChanged)),
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}
