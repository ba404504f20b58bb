//! `/confirm-mail`: agrees to the mails of an organization. The token is in the link's fragment, as that
//! of `/invitations`.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::setup::token;
use crate::base::{Error, Result};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/confirm-mail")
    .get(|visit| Box::pin(async { show(visit, None, None) }))
    .post(|visit| Box::pin(confirm(visit)))];

#[derive(Template)]
#[template(path = "confirm_mail.html")]
struct ConfirmMail {
    frame: Frame,
    confirmed: Option<Confirmed>,
}

#[derive(Deserialize)]
struct Confirmed {
    email: String,
    organization: String,
}

fn show(visit: &Visit, confirmed: Option<Confirmed>, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("Confirm notifications").failed(error).script("fragment");
    let frame = frame.rename("token", "link");
    render(frame.status, &ConfirmMail { frame, confirmed })
}

async fn confirm(visit: &Visit) -> Result<Reply> {
    let body = json!({"token": token(visit.form.get("link"))});
    match visit.api.post::<Confirmed>("/notifications/recipients/confirm", body).await {
        Ok(confirmed) => show(visit, Some(confirmed), None),
        Err(error) => show(visit, None, Some(&error)),
    }
}
