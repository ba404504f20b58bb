//! `/device`: lets a command line in that shows a code (reference: identity-and-rights, "Signing in on the
//! command line").
//!
//! The code is typed here, never taken from a link, and what it lets in is shown before a second form does
//! it: nobody is led by a link to let somebody else in.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::fields::Fields;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::{Membership, Visit};

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::signed_in("/device")
    .get(|visit| Box::pin(ask(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

const PATH: &str = "/auth/device-sign-ins";

#[derive(Template)]
#[template(path = "device.html")]
struct DevicePage {
    frame: Frame,
    email: String,
    memberships: Vec<Membership>,
    /// When the session of this browser ends, and that of the command line with it.
    expires_at: Time,
    /// What waits, once its code was entered.
    waiting: Option<Waiting>,
    /// Whether it asked from the address that this browser has.
    is_same_address: bool,
}

/// A command line that waits, as the API describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    user_code: String,
    client: String,
    address: String,
    created_at: Time,
}

fn page(visit: &Visit) -> DevicePage {
    let session = visit.signed_in();
    DevicePage {
        frame: visit.frame("Sign in a command line").crumb("Your account", "/account"),
        email: session.user.email.clone(),
        memberships: session.memberships.clone(),
        expires_at: session.expires_at,
        waiting: None,
        is_same_address: false,
    }
}

/// Asks for the code.
async fn ask(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let page = page(visit);
    let page = DevicePage { frame: page.frame.failed(error.as_ref()), ..page };
    render(page.frame.status, &page)
}

/// Shows what waits for this code, and asks whether to let it in.
async fn show(visit: &Visit, code: &str) -> Result<Reply> {
    let found =
        visit.api.post::<Waiting>(&format!("{PATH}/{}/preview", segment(code)), json!({})).await;
    match found {
        Ok(waiting) => {
            let own = visit.api.calls.origin.address.to_canonical().to_string();
            let mut page = page(visit);
            page.is_same_address = waiting.address == own;
            page.frame.form = Fields::default();
            page.waiting = Some(waiting);
            render(page.frame.status, &page)
        }
        Err(error) => ask(visit, visit.failed(error)?).await,
    }
}

async fn act(visit: &Visit) -> Result<Reply> {
    let Some(code) = visit.form.some("userCode") else {
        return ask(visit, Some(Error::invalid_at("userCode", "is required"))).await;
    };
    let (verb, flash) = match visit.form.get("action") {
        "approve" => ("approve", Flash::CommandLineLetIn),
        "deny" => ("deny", Flash::CommandLineRefused),
        _ => return show(visit, code).await,
    };
    let path = format!("{PATH}/{}/{verb}", segment(code));
    match visit.api.post::<Value>(&path, json!({})).await {
        Ok(_) => Ok(visit.done("/account", flash)),
        Err(error) => ask(visit, visit.failed(error)?).await,
    }
}
