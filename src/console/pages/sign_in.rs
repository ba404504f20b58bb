//! `/sign-in`. A form that was sent when its session was over comes along as hidden fields, and is
//! shown again, filled, once there is a new session.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::base::{Error, Result};
use crate::console::frame::{Frame, render};
use crate::console::guard::local;
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/sign-in")
    .get(|visit| Box::pin(show(visit)))
    .post(|visit| Box::pin(sign_in(visit)))
    .carries_forms()];

/// The beginning of the names of fields that come along.
pub const CARRIED: &str = "carried.";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Frame,
    /// Where to go then.
    return_to: String,
    /// The fields of the form that was sent without a session.
    carried: Vec<(String, String)>,
    /// The providers that one can sign in with instead.
    providers: Vec<Provider>,
    /// Whether what is entered could be read on the way.
    is_open: bool,
    /// Whether the browser is to forget the pages that it has (`sign_out.rs`).
    forgets: bool,
}

/// A session that was begun.
#[derive(Deserialize)]
pub struct Begun {
    pub token: String,
}

/// A provider of sign-ins.
#[derive(Deserialize)]
pub struct Provider {
    pub name: String,
    pub label: String,
}

impl Provider {
    /// The page that leads to it, and back to `return_to`.
    pub fn link(&self, return_to: &str) -> String {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("return", return_to)
            .finish();
        format!("/sign-in/oidc/{}?{query}", self.name)
    }

    /// The same, to link an account of it.
    pub fn link_account(&self) -> String {
        format!("/sign-in/oidc/{}?link=yes", self.name)
    }
}

/// The providers that people can sign in with.
///
/// # Errors
/// Those of the route.
pub async fn providers(visit: &Visit) -> Result<Vec<Provider>> {
    visit.api.items("/auth/providers", &[]).await
}

/// Leads here, and from here to `target`.
pub fn redirect(target: &str) -> Reply {
    if target == "/" {
        return Reply::see_other("/sign-in");
    }
    let query =
        form_urlencoded::Serializer::new(String::new()).append_pair("return", target).finish();
    Reply::see_other(format!("/sign-in?{query}"))
}

/// The answer to a form whose session is over: this page, with what was entered.
///
/// # Errors
/// If the page cannot be shown.
pub fn carrying(visit: &Visit) -> Result<Reply> {
    let carried = visit.form.kept();
    let carried: Vec<_> = carried.map(|(name, value)| (name.into(), value.into())).collect();
    let return_to = local(visit.form.get("_return"));
    let mut frame = visit.frame("Sign in");
    frame.status = StatusCode::UNAUTHORIZED;
    frame.form = crate::console::fields::Fields::default();
    frame.flash = Some("Your session is over. Sign in to go on; what you entered comes along.");
    let is_open = !visit.is_private;
    // Going to a provider would lose what was entered.
    let (providers, forgets) = (Vec::new(), false);
    render(frame.status, &SignIn { frame, return_to, carried, providers, is_open, forgets })
}

async fn show(visit: &Visit) -> Result<Reply> {
    if visit.session.is_some() {
        return Ok(Reply::see_other(local(visit.query.get("return"))));
    }
    form(visit, visit.query.get("return"), None).await
}

/// The page, with what went wrong.
///
/// # Errors
/// If the page cannot be shown.
pub async fn form(visit: &Visit, return_to: &str, error: Option<&Error>) -> Result<Reply> {
    let carried = visit.form.below(CARRIED);
    let carried: Vec<(String, String)> =
        carried.kept().map(|(name, value)| (name.into(), value.into())).collect();
    let frame = visit.frame("Sign in").failed(error);
    let return_to = local(return_to);
    let (is_open, forgets) = (!visit.is_private, visit.flash.is_some());
    // Going to a provider would lose what comes along.
    let providers = if carried.is_empty() { providers(visit).await? } else { Vec::new() };
    render(frame.status, &SignIn { frame, return_to, carried, providers, is_open, forgets })
}

async fn sign_in(visit: &Visit) -> Result<Reply> {
    let body =
        json!({"email": visit.form.get("email").trim(), "password": visit.form.get("password")});
    let return_to = visit.form.get("return");
    match visit.api.post::<Begun>("/auth/sign-in", body).await {
        Ok(begun) => {
            let mut reply = Reply::see_other(local(return_to));
            if !visit.form.below(CARRIED).is_empty() {
                reply.resumes = Some(return_to.into());
            }
            Ok(reply.session(SessionChange::Begun(begun.token)))
        }
        Err(error) => form(visit, return_to, Some(&error)).await,
    }
}
