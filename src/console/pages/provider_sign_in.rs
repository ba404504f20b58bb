//! `/sign-in/oidc/…`: to a provider, which signs people in, and back, and where it says that somebody has
//! signed out there; `/account/links`: the accounts of providers that are linked.
//!
//! The provider leads back from another site: the browser sends the attempt (`SameSite=Lax`) and not the
//! session, which an account that is linked needs. So that is confirmed on a page of its own.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{second_factor, sign_in};
use crate::auth::oidc::Confirmation;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::cookies::Cookie;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::guard::local;
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::open("/sign-in/oidc/{provider}").get(|visit| Box::pin(begin(visit))),
    Page::open("/sign-in/oidc/{provider}/callback").get(|visit| Box::pin(finish(visit))),
    Page::open("/sign-in/oidc/{provider}/logout")
        .of_servers()
        .post(|visit| Box::pin(log_out(visit))),
    Page::signed_in("/account/links/new")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(link(visit))),
    Page::signed_in("/account/links/remove").post(|visit| Box::pin(remove(visit))),
];

/// The longest path that the API takes to return to.
const MAX_RETURN_TO: usize = 1000;

#[derive(Deserialize)]
struct BegunSignIn {
    url: String,
    attempt: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Finished {
    session: Nullable<sign_in::Begun>,
    confirmation: Nullable<String>,
    return_to: String,
}

#[derive(Template)]
#[template(path = "confirm_link.html")]
struct ConfirmLink {
    frame: Frame,
    provider: String,
    /// Who it is there.
    email: String,
    /// Whose account it is linked to.
    own: String,
    /// Whether that has a second factor.
    has_factor: bool,
}

async fn begin(visit: &Visit) -> Result<Reply> {
    let return_to = local(visit.query.get("return"));
    let return_to = if return_to.len() > MAX_RETURN_TO { "/".into() } else { return_to };
    let body = json!({
        "provider": visit.param(0), "link": visit.query.some("link").is_some(),
        "again": visit.query.some("again").is_some(), "returnTo": return_to,
    });
    match visit.api.post::<BegunSignIn>("/auth/providers/begin", body).await {
        Ok(begun) => Ok(Reply::see_other(begun.url).keep(Cookie::Attempt, begun.attempt)),
        Err(error) => sign_in::form(visit, &return_to, "", Some(&error)).await,
    }
}

async fn finish(visit: &Visit) -> Result<Reply> {
    let (provider, state) = (visit.param(0), visit.query.get("state"));
    // Without the cookie the API says what it says of an attempt of another browser.
    let attempt = if visit.attempt.is_empty() { "none" } else { visit.attempt.as_str() };
    let mut body = json!({"provider": provider, "attempt": attempt, "state": state});
    for name in ["code", "iss", "error"] {
        if let Some(value) = visit.query.some(name) {
            body[name] = json!(value);
        }
    }
    match visit.api.post::<Finished>("/auth/providers/finish", body).await {
        Ok(Finished { session: Nullable(Some(begun)), return_to, .. }) => {
            let reply = Reply::see_other(local(&return_to)).keep(Cookie::Attempt, "");
            Ok(reply.session(SessionChange::Begun(begun.token)))
        }
        Ok(Finished { confirmation, .. }) => {
            let confirmation = confirmation.0.unwrap_or_default();
            let reply = Reply::see_other("/account/links/new").flash(Flash::ConfirmLink);
            Ok(reply.keep(Cookie::Attempt, "").keep(Cookie::Confirmation, confirmation))
        }
        Err(error) => {
            Ok(sign_in::form(visit, "/", "", Some(&error)).await?.keep(Cookie::Attempt, ""))
        }
    }
}

/// Answers a provider, which takes 200 for done (OpenID Connect Back-Channel Logout 1.0, 2.8).
async fn log_out(visit: &Visit) -> Result<Reply> {
    let token = visit.form.get("logout_token");
    let body = json!({"provider": visit.param(0), "logoutToken": token});
    visit.api.post::<Value>("/auth/providers/end", body).await?;
    Ok(Reply::html(StatusCode::OK, String::new()))
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let store = &visit.api.calls.executor.store;
    let found = Confirmation::read(&visit.confirmation, store.keys(), store.clock().now());
    let Some(Confirmation { provider, email, subject, .. }) = found else {
        return Ok(Reply::see_other("/account").keep(Cookie::Confirmation, ""));
    };
    let mut frame =
        visit.frame("Link an account").crumb("Your account", "/account").failed(error.as_ref());
    // It asks to sign in, which has been done.
    frame.flash = None;
    let email = email.map_or(subject, |email| email.into_string());
    let own = visit.signed_in().user.email.clone();
    let has_factor = second_factor::own(visit).await?.on_since.0.is_some();
    render(frame.status, &ConfirmLink { provider, email, own, has_factor, frame })
}

async fn link(visit: &Visit) -> Result<Reply> {
    let mut body = json!({"confirmation": visit.confirmation});
    for name in ["password", "code"] {
        if let Some(value) = visit.form.some(name) {
            body[name] = json!(value);
        }
    }
    match visit.api.post::<Value>("/auth/links", body).await {
        Ok(_) => Ok(visit.done("/account", Flash::Linked).keep(Cookie::Confirmation, "")),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}

async fn remove(visit: &Visit) -> Result<Reply> {
    let id = segment(visit.form.get("link"));
    visit.api.delete(&format!("/auth/links/{id}"), &[]).await?;
    Ok(visit.done("/account", Flash::Unlinked))
}
