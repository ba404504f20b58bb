//! Signing out.
//!
//! A browser keeps the page that one leaves, for Back; Chromium does even with `no-store`. The answer
//! to the form comes before it does so, and the cookies that it removes and its `Clear-Site-Data` have
//! no effect on that page. So the page to sign in asks for a picture, which comes afterwards.
//!
//! A provider at which one signs out, too, is another site: what a form leads to must not be one, so a
//! page is between them. The session here has ended by then.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Kind, Result};
use crate::console::api::segment;
use crate::console::assets;
use crate::console::cookies::Cookie;
use crate::console::flash::Flash;
use crate::console::frame::render;
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::open("/sign-out").post(|visit| Box::pin(sign_out(visit))),
    Page::open("/sign-out/{provider}").get(|visit| Box::pin(leave(visit))),
    Page::open("/signed-out").get(|visit| Box::pin(async { Ok(forget(visit)) })),
];

/// A picture of nothing.
const NOTHING: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>";

#[derive(Deserialize)]
struct SignOut {
    label: String,
    url: Nullable<String>,
    state: Nullable<String>,
}

#[derive(Template)]
#[template(path = "leaving.html")]
struct Leaving {
    label: String,
    url: String,
    styles: &'static str,
    icon: &'static str,
}

async fn sign_out(visit: &Visit) -> Result<Reply> {
    if visit.session.is_some() {
        match visit.api.post::<Value>("/auth/sign-out", json!({})).await {
            // It has ended already.
            Err(error) if error.kind() != Kind::Unauthenticated => return Err(error),
            _ => {}
        }
    }
    let provider = visit.session.as_ref().and_then(|session| session.sign_out_provider.0.as_ref());
    let next = provider.map(|provider| format!("/sign-out/{}", segment(provider)));
    let next = next.unwrap_or_else(|| "/sign-in".into());
    let done = Reply::see_other(next).flash(Flash::SignedOut);
    Ok(done.session(SessionChange::Ended))
}

/// Leads to the provider that has let in who has signed out here: the text for the next page, which no other
/// site can have the browser bring along, says so.
async fn leave(visit: &Visit) -> Result<Reply> {
    let here = Reply::see_other("/sign-in");
    if visit.session.is_some() || visit.flash.is_none() {
        return Ok(here);
    }
    let body = json!({"provider": visit.param(0)});
    let (label, url, state) = match visit.api.post("/auth/providers/sign-out", body).await {
        Ok(SignOut { label, url: Nullable(Some(url)), state }) => (label, url, state.0),
        Ok(_) => return Ok(here.flash(Flash::SignedOut)),
        Err(_) => return Ok(here.flash(Flash::SignedOutHere)),
    };
    let (styles, icon) = (assets::path("console"), assets::path("icon"));
    let page = render(StatusCode::OK, &Leaving { label, url, styles, icon })?;
    Ok(page.keep(Cookie::Attempt, state.unwrap_or_default()))
}

fn forget(visit: &Visit) -> Reply {
    let picture = Reply::picture(NOTHING);
    if visit.session.is_some() {
        return picture;
    }
    picture.session(SessionChange::Forgotten)
}
