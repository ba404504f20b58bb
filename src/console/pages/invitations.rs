//! `/invitations`: says what an invitation is to, and accepts it, as a new user or in one's session. The
//! token is in the link's fragment, as that of `/setup`: a script sends it at once, or a person pastes
//! the link.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::setup::token;
use super::sign_in::Begun;
use crate::auth::Role;
use crate::base::{Error, Kind, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::{Reply, SessionChange};
use crate::console::texts;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::open("/invitations")
    .get(|visit| Box::pin(async { form(visit, None, None) }))
    .post(|visit| Box::pin(act(visit)))];

#[derive(Template)]
#[template(path = "invitation.html")]
struct InvitationPage {
    frame: Frame,
    /// What it is to, once its token was sent.
    invitation: Option<Invitation>,
    /// The token that was sent.
    token: String,
    /// Whether it is for the account that the visitor is signed in with.
    is_mine: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invitation {
    org_name: String,
    inviter_name: String,
    email: String,
    role: Role,
}

impl Invitation {
    /// What it says.
    fn sentence(&self) -> String {
        let Invitation { inviter_name, email, org_name, role } = self;
        let role = texts::role(role).to_lowercase();
        let article = if role.starts_with(['a', 'o']) { "an" } else { "a" };
        format!("{inviter_name} invites {email} to {org_name}, as {article} {role}.")
    }
}

fn form(visit: &Visit, invitation: Option<Invitation>, error: Option<&Error>) -> Result<Reply> {
    let frame = visit.frame("Accept an invitation").failed(error).script("fragment");
    let own = visit.session.as_ref().map(|session| session.user.email.as_str());
    let page = InvitationPage {
        frame: frame.rename("token", "link"),
        is_mine: invitation.as_ref().is_some_and(|one| own == Some(one.email.as_str())),
        invitation,
        token: token(visit.form.get("link")).into(),
    };
    render(page.frame.status, &page)
}

/// What the invitation of the form is to.
async fn preview(visit: &Visit) -> Result<Invitation> {
    let body = json!({"token": token(visit.form.get("link"))});
    visit.api.post("/auth/invitations/preview", body).await
}

async fn act(visit: &Visit) -> Result<Reply> {
    if visit.form.get("action") != "look" {
        return accept(visit).await;
    }
    match preview(visit).await {
        Ok(invitation) => form(visit, Some(invitation), None),
        Err(error) => form(visit, None, Some(&error)),
    }
}

async fn accept(visit: &Visit) -> Result<Reply> {
    let mut body = json!({"token": token(visit.form.get("link"))});
    if visit.session.is_none() {
        for name in ["name", "password"] {
            if let Some(value) = visit.form.sent(name).filter(|value| !value.is_empty()) {
                body[name] = json!(value);
            }
        }
    }
    match visit.api.post::<Begun>("/auth/invitations/accept", body).await {
        Ok(begun) => Ok(Reply::see_other("/")
            .flash(Flash::Joined)
            .session(SessionChange::Begun(begun.token))),
        Err(error) if error.kind() == Kind::NotFound => form(visit, None, Some(&error)),
        Err(error) => form(visit, preview(visit).await.ok(), Some(&error)),
    }
}
