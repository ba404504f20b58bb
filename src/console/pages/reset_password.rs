//! `/reset-password`: sets a new password with a link. The token is in the link's fragment, as that of
//! `/setup`. `/forgot-password` has one mailed.

use askama::Template;
use serde_json::{Value, json};

use super::setup::token;
use crate::base::{Error, Result};
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::open("/reset-password")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(reset(visit))),
    Page::open("/forgot-password").form(|visit| Box::pin(async { Ok(forgot(visit)) })),
];

#[derive(Template)]
#[template(path = "reset_password.html")]
struct ResetPassword {
    frame: Frame,
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("Set a new password").failed(error).script("fragment");
    render(frame.status, &ResetPassword { frame: frame.rename("token", "link") })
}

fn forgot(visit: &Visit) -> FormPage {
    let email = Field::text("email", "E-mail address").kind("email").complete("username");
    Form::create("/auth/password/forgot", vec![email], "Mail me a link")
        .done("/sign-in", Flash::ResetMailed)
        .back("/sign-in")
        .page(visit.frame("Forgotten password"))
        .lead("A link by which you choose a new password is mailed to you.")
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
