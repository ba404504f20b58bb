//! `/confirm-identity`: asks somebody again who they are, before what they have sent is done. The form comes
//! along as hidden fields, as through `sign_in.rs`, and is shown again, filled, for them to send it.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::second_factor;
use super::sign_in::{CARRIED, Provider, providers};
use crate::auth::is_recent;
use crate::base::{Error, Result};
use crate::console::fields::Fields;
use crate::console::frame::{Frame, render};
use crate::console::guard::local;
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::signed_in("/confirm-identity")
    .get(|visit| Box::pin(show(visit)))
    .post(|visit| Box::pin(confirm(visit)))
    .carries_forms()];

#[derive(Template)]
#[template(path = "confirm_identity.html")]
struct ConfirmIdentity {
    frame: Frame,
    email: String,
    /// Where to go then.
    return_to: String,
    /// The fields of the form that was sent.
    carried: Vec<(String, String)>,
    /// Whether they have proved who they are meanwhile, as by signing in in another tab.
    is_confirmed: bool,
    /// Whether a password and a code are asked for.
    has_password: bool,
    has_factor: bool,
    /// The providers with which they can sign in again.
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
struct Link {
    issuer: String,
}

/// The answer to a form whose sender has to prove again who they are: this page, with what was entered.
pub async fn carrying(visit: &Visit, error: &Error) -> Result<Reply> {
    let mut page = page(visit, visit.form.get("_return"), &visit.form).await?;
    page.frame.status = crate::http::status(error.kind());
    page.frame.form = Fields::default();
    page.frame.flash = None;
    render(page.frame.status, &page)
}

async fn page(visit: &Visit, return_to: &str, carried: &Fields) -> Result<ConfirmIdentity> {
    let (session, is_confirmed) = (visit.signed_in(), is_confirmed(visit));
    let has_factor = second_factor::own(visit).await?.on_since.0.is_some();
    let linked: Vec<Link> = visit.api.items("/auth/links", &[]).await?;
    let mut providers = providers(visit).await?;
    // By the issuer: the name is the operator's, who may have chosen another one since.
    providers.retain(|provider| linked.iter().any(|link| link.issuer == provider.issuer));
    let mut frame = visit.frame("Confirm that it is you");
    // A form of this page that was sent in an earlier session comes back here, with all that it carries.
    frame.here = "/confirm-identity".into();
    Ok(ConfirmIdentity {
        frame,
        email: session.user.email.clone(),
        return_to: local(return_to),
        carried: carried.kept().map(|(name, value)| (name.into(), value.into())).collect(),
        is_confirmed,
        has_password: session.has_password && !is_confirmed,
        has_factor: has_factor && !is_confirmed,
        providers,
    })
}

/// Also where a form of this page ends up that was sent in an earlier session: it is kept.
async fn show(visit: &Visit) -> Result<Reply> {
    let sent = visit.form.some("return").or_else(|| visit.query.some("return"));
    let page = page(visit, sent.unwrap_or("/"), &visit.form.below(CARRIED)).await?;
    render(page.frame.status, &page)
}

/// Whether the person has just signed in again, as with a provider in another tab.
fn is_confirmed(visit: &Visit) -> bool {
    let now = visit.api.calls.executor.store.clock().now();
    is_recent(visit.signed_in().proved_at, now)
}

async fn confirm(visit: &Visit) -> Result<Reply> {
    let return_to = visit.form.get("return");
    let mut body = json!({});
    for name in ["password", "code"] {
        // A password may begin and end with blanks.
        if !visit.form.get(name).is_empty() {
            body[name] = json!(visit.form.get(name));
        }
    }
    if !is_confirmed(visit)
        && let Err(error) = visit.api.post::<Value>("/auth/session/confirm", body).await
    {
        let error = visit.failed(error)?;
        let mut page = page(visit, return_to, &visit.form.below(CARRIED)).await?;
        page.frame = page.frame.failed(error.as_ref());
        return render(page.frame.status, &page);
    }
    let mut reply = Reply::see_other(local(return_to));
    if !visit.form.below(CARRIED).is_empty() {
        reply.resumes = Some(return_to.into());
    }
    Ok(reply)
}
