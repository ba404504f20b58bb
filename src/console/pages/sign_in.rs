//! `/sign-in`, in two steps for who has a second factor. A form that was sent when its session was over
//! comes along as hidden fields, and is shown again, filled, once there is a new session.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::base::{Error, Result};
use crate::console::cookies::Cookie;
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
    /// The challenge of a sign-in whose password was right; empty before.
    challenge: String,
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
    pub issuer: String,
}

impl Provider {
    /// The page that leads to it, and back to `return_to`.
    pub fn link(&self, return_to: &str) -> String {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("return", return_to)
            .finish();
        format!("/sign-in/oidc/{}?{query}", self.name)
    }

    /// The same, to sign in although one is signed in.
    pub fn link_again(&self) -> String {
        format!("/sign-in/oidc/{}?again=yes&return=%2Faccount", self.name)
    }

    /// The same, to link an account of it.
    pub fn link_account(&self) -> String {
        format!("/sign-in/oidc/{}?link=yes", self.name)
    }
}

/// The providers that people can sign in with.
pub async fn providers(visit: &Visit) -> Result<Vec<Provider>> {
    visit.api.items("/auth/providers", &[]).await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Setup {
    is_set_up: bool,
}

/// Whether the server is set up.
pub async fn is_set_up(visit: &Visit) -> Result<bool> {
    let Setup { is_set_up } = visit.api.get("/setup", &[]).await?;
    Ok(is_set_up)
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
    let providers = Vec::new();
    let (forgets, challenge) = (false, String::new());
    render(
        frame.status,
        &SignIn { frame, return_to, carried, providers, is_open, forgets, challenge },
    )
}

async fn show(visit: &Visit) -> Result<Reply> {
    if visit.session.is_some() {
        return Ok(Reply::see_other(local(visit.query.get("return"))));
    }
    if !is_set_up(visit).await? {
        return Ok(Reply::see_other("/setup"));
    }
    form(visit, visit.query.get("return"), "", None).await
}

/// The page, with what went wrong; for the code if there is a challenge.
///
/// # Errors
/// If the page cannot be shown.
pub async fn form(
    visit: &Visit,
    return_to: &str,
    challenge: &str,
    error: Option<&Error>,
) -> Result<Reply> {
    let carried = visit.form.below(CARRIED);
    let carried: Vec<(String, String)> =
        carried.kept().map(|(name, value)| (name.into(), value.into())).collect();
    let mut frame = visit.frame("Sign in").failed(error);
    let return_to = local(return_to);
    let is_back = is_back(visit);
    if is_back {
        frame.flash = Some("You are signed out.");
    }
    let (is_open, forgets) = (!visit.is_private, visit.flash.is_some() || is_back);
    // Going to a provider would lose what comes along.
    let begins = carried.is_empty() && challenge.is_empty();
    let providers = if begins { providers(visit).await? } else { Vec::new() };
    let challenge = challenge.into();
    let page = SignIn { frame, return_to, carried, providers, is_open, forgets, challenge };
    let reply = render(page.frame.status, &page)?;
    Ok(if is_back { reply.keep(Cookie::Attempt, "") } else { reply })
}

/// Whether a provider has led here who has signed out there, too (`sign_out.rs`).
fn is_back(visit: &Visit) -> bool {
    !visit.attempt.is_empty() && visit.query.some("state") == Some(visit.attempt.as_str())
}

async fn sign_in(visit: &Visit) -> Result<Reply> {
    let (return_to, challenge) = (visit.form.get("return"), visit.form.get("challenge"));
    let (path, body) = if challenge.is_empty() {
        let (email, password) = (visit.form.get("email").trim(), visit.form.get("password"));
        ("/auth/sign-in", json!({"email": email, "password": password}))
    } else {
        let code = visit.form.get("code");
        ("/auth/sign-in/code", json!({"challenge": challenge, "code": code}))
    };
    match visit.api.post::<Begun>(path, body).await {
        Ok(begun) => {
            let mut reply = Reply::see_other(local(return_to));
            if !visit.form.below(CARRIED).is_empty() {
                reply.resumes = Some(return_to.into());
            }
            Ok(reply.session(SessionChange::Begun(begun.token)))
        }
        Err(error) => match error.continuation() {
            Some(challenge) => form(visit, return_to, challenge, None).await,
            // What else is wrong begins again.
            None if matches!(error.code(), "wrong_code" | "rate_limited") => {
                form(visit, return_to, challenge, Some(&error)).await
            }
            None => form(visit, return_to, "", Some(&error)).await,
        },
    }
}
