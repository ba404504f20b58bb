//! `/o/{org}/settings/members`: members, service accounts and invitations; inviting.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::shown_once::ShownOnce;
use crate::api::Method;
use crate::auth::Role;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::choice::MAX_TEXT;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member, tabs, without_second_factor};
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings")
        .get(|visit| Box::pin(async { Ok(Reply::see_other(visit.in_org("/settings/members"))) })),
    Page::of_org("/o/{org}/settings/members")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(require_second_factor(visit))),
    Page::of_org("/o/{org}/settings/invite").form(|visit| Box::pin(invite(visit))),
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
    is_owner: bool,
    needs_second_factor: bool,
    /// Whom it would keep out, if it were required.
    without_factor: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invitation {
    id: String,
    email: String,
    role: Role,
    expires_at: Time,
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
    let is_owner = visit.member().role == Role::Owner;
    ROLES.into_iter().filter(|(name, _)| is_owner || *name != "owner").collect()
}

/// The roles with what they may do.
pub const ROLES: [(&str, &str); 4] = [
    ("member", "Member: works with everything that is not restricted"),
    ("admin", "Admin: also manages members, environments and policies"),
    ("owner", "Owner: also appoints owners"),
    ("viewer", "Viewer: only reads"),
];

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let may_invite = visit.may(Method::Post, "/organizations/members");
    let invitations = if visit.may(Method::Get, "/organizations/invitations") {
        visit.api.items("/organizations/invitations", &[]).await?
    } else {
        Vec::new()
    };
    let is_owner = visit.member().role == Role::Owner;
    let needs_second_factor = visit.member().second_factor_required;
    let without_factor = if is_owner && !needs_second_factor {
        without_second_factor(&roster::members(&visit.api).await?)
    } else {
        String::new()
    };
    let mut query = visit.walk();
    let words: String = visit.query.get("q").trim().chars().take(MAX_TEXT).collect();
    query.extend((!words.is_empty()).then_some(("q", words.as_str())));
    let page = Members {
        frame: visit.frame("Members").tabs(&tabs(visit)).failed(error.as_ref()),
        base: visit.in_org("/settings"),
        me: visit.signed_in().user.id.clone(),
        members: visit.api.get("/organizations/members", &query).await?,
        invitations,
        may_invite,
        is_owner,
        needs_second_factor,
        without_factor,
    };
    render(page.frame.status, &page)
}

async fn require_second_factor(visit: &Visit) -> Result<Reply> {
    let required = visit.form.get("action") == "require";
    let body = json!({"secondFactorRequired": required});
    match visit.api.patch::<Value>("/organizations", body).await {
        Ok(_) if required => Ok(visit.done(&visit.path, Flash::SecondFactorRequired)),
        Ok(_) => Ok(visit.done(&visit.path, Flash::SecondFactorOptional)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

async fn invite(visit: &Visit) -> Result<FormPage> {
    let fields = vec![
        Field::text("email", "E-mail address").kind("email"),
        Field::select("role", "Role", roles(visit)),
    ];
    let frame = visit.frame("Invite a person").crumb("Members", visit.in_org("/settings/members"));
    let form = Form::create("/organizations/members", fields, "Invite").answered(invited);
    let lead = "You get a link to pass on. An older invitation of the same address is replaced. Who \
                joins by it cannot approve before an admin vouches for the address.";
    Ok(form.page(frame).lead(lead))
}

fn invited(visit: &Visit, answer: &Value) -> Result<Reply> {
    let Invited { email, invitation_url, mailed } =
        Invited::deserialize(answer).map_err(Error::internal)?;
    ShownOnce {
        frame: visit.frame("Invitation link"),
        lead: format!(
            "{}Give this link to {email}. Who opens it joins; it works once, for a week.",
            if mailed { "Another link is mailed to the address, and proves it. " } else { "" }
        ),
        secret: invitation_url,
        command: String::new(),
        next: (visit.in_org("/settings/members"), "Back to members"),
    }
    .show()
}

async fn revoke(visit: &Visit) -> Result<Reply> {
    let id = segment(visit.form.get("invitation"));
    visit.api.delete(&format!("/organizations/invitations/{id}"), &[]).await?;
    Ok(visit.done(&visit.in_org("/settings/members"), Flash::InvitationRevoked))
}
