//! `/o/{org}/settings/members`: members, service accounts and invitations; inviting.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::shown_once::ShownOnce;
use crate::api::Method;
use crate::auth::Role;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{Member, tabs};
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings")
        .get(|visit| Box::pin(async { Ok(Reply::see_other(visit.in_org("/settings/members"))) })),
    Page::of_org("/o/{org}/settings/members").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/settings/invite")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(invite(visit))),
    Page::of_org("/o/{org}/settings/invitations/revoke").post(|visit| Box::pin(revoke(visit))),
];

#[derive(Template)]
#[template(path = "members.html")]
struct Members {
    frame: Frame,
    base: String,
    me: String,
    members: List<Member>,
    invitations: Vec<Invitation>,
    may_invite: bool,
    next: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invitation {
    id: String,
    email: String,
    role: Role,
    expires_at: Time,
}

#[derive(Template)]
#[template(path = "invite.html")]
struct Invite {
    frame: Frame,
    roles: Vec<(&'static str, &'static str)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invited {
    email: String,
    invitation_url: String,
    mailed: bool,
}

/// The roles that a visitor may give, with what they may do.
pub fn roles(visit: &Visit) -> Vec<(&'static str, &'static str)> {
    let own = if visit.member().role == Role::Owner { 3 } else { 2 };
    ROLES.into_iter().take(own).collect()
}

/// The roles with what they may do.
pub const ROLES: [(&str, &str); 3] = [
    ("member", "Member: works with everything that is not restricted"),
    ("admin", "Admin: also manages members, environments and policies"),
    ("owner", "Owner: also appoints owners"),
];

async fn show(visit: &Visit) -> Result<Reply> {
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let may_invite = visit.may(Method::Post, "/organizations/members");
    let invitations = if visit.may(Method::Get, "/organizations/invitations") {
        visit.api.items("/organizations/invitations", &[]).await?
    } else {
        Vec::new()
    };
    let page = Members {
        frame: visit.frame("Members").tabs(&tabs(visit)),
        base: visit.in_org("/settings"),
        me: visit.signed_in().user.id.clone(),
        members: visit.api.get("/organizations/members", &query).await?,
        invitations,
        may_invite,
        next: format!("{}?", visit.path),
    };
    render(page.frame.status, &page)
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/organizations/members")?;
    let frame = visit.frame("Invite a person").crumb("Members", visit.in_org("/settings/members"));
    let page = Invite { frame: frame.failed(error), roles: roles(visit) };
    render(page.frame.status, &page)
}

async fn invite(visit: &Visit) -> Result<Reply> {
    let body = json!({
        "email": visit.form.get("email").trim(), "role": visit.form.get("role"),
    });
    match visit.api.post::<Invited>("/organizations/members", body).await {
        Ok(Invited { email, invitation_url, mailed }) => ShownOnce {
            frame: visit.frame("Invitation link"),
            lead: format!(
                "{}Give this link to {email}. Who opens it joins; it works once, for a week.",
                if mailed { "Another link is mailed to the address, and proves it. " } else { "" }
            ),
            secret: invitation_url,
            command: String::new(),
            next: (visit.in_org("/settings/members"), "Back to members"),
        }
        .show(),
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}

async fn revoke(visit: &Visit) -> Result<Reply> {
    let id = segment(visit.form.get("invitation"));
    visit.api.delete(&format!("/organizations/invitations/{id}"), &[]).await?;
    Ok(visit.done(&visit.in_org("/settings/members"), Flash::InvitationRevoked))
}
