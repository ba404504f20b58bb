//! `/o/{org}/settings/members/{user}`: a member's role, a link for a new password, leaving; service
//! accounts.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::confirm::Confirm;
use super::keys::{Key, sponsored_by};
use super::members::{ROLES, roles};
use super::shown_once::ShownOnce;
use crate::api::Method;
use crate::auth::Role;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::conflict::{self, Edited};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::texts::role_key;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/members/{user}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/settings/members/{user}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(remove(visit))),
    Page::of_org("/o/{org}/settings/service-accounts/new")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
];

#[derive(Template)]
#[template(path = "member.html")]
struct MemberPage {
    frame: Frame,
    base: String,
    member: Member,
    roles: Vec<(&'static str, &'static str)>,
    /// The value of the button that saves the form.
    action: &'static str,
    is_me: bool,
    may_change: bool,
    may_vouch: bool,
    may_remove: bool,
    may_explain: bool,
    /// The keys of service accounts that they answer for.
    keys: Vec<Key>,
}

#[derive(Template)]
#[template(path = "new_service_account.html")]
struct NewServiceAccount {
    frame: Frame,
    roles: Vec<(&'static str, &'static str)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResetLink {
    reset_url: String,
}

#[derive(Deserialize)]
struct ServiceAccount {
    name: String,
    role: Role,
}

#[derive(Deserialize)]
struct Created {
    id: String,
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Members", visit.in_org("/settings/members"))
}

/// Whether the visitor may change a member: owners are for owners.
fn may_change(visit: &Visit, member: &Member) -> bool {
    let own = visit.member().role;
    visit.may(Method::Patch, "/organizations/members/id")
        && (member.role != Role::Owner || own == Role::Owner)
}

/// What the form of a person edits: their name is their own.
fn edited_role(visit: &Visit, role: Role) -> Vec<Edited> {
    vec![Edited::choice(visit, "role", "Role", role_key(&role), &ROLES)]
}

/// What the form of a service account edits.
fn edited_account(visit: &Visit, name: &str, role: Role) -> Vec<Edited> {
    let mut edited = edited_role(visit, role);
    edited.push(Edited::text(visit, "name", "Name", name));
    edited
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let member = roster::member(&visit.api, visit.param(1)).await?;
    let may_change = may_change(visit, &member);
    let is_me = member.user_id == visit.signed_in().user.id;
    let mut roles = roles(visit);
    if member.is_service() {
        roles.truncate(2);
    }
    let keys = sponsored_by(visit, &member.user_id).await?;
    let action = if member.is_service() { "account" } else { "role" };
    let edited = match member.is_service() {
        true => edited_account(visit, &member.name, member.role),
        false => edited_role(visit, member.role),
    };
    let error = error.as_ref();
    let frame = crumbs(visit, visit.frame(&member.name)).failed(error);
    // Who may not change it any more has no form to save.
    let mut frame = if may_change { frame.against(error, &edited, "save", action) } else { frame };
    frame.was = conflict::was(visit, error, &edited, visit.form.get("action") == action);
    let page = MemberPage {
        keys,
        frame,
        action,
        base: visit.in_org("/settings"),
        roles,
        is_me,
        may_change,
        may_vouch: !member.is_service() && visit.may(Method::Patch, "/organizations/members/id"),
        may_remove: may_change || is_me,
        may_explain: visit.may(Method::Get, "/access/explain"),
        member,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let id = segment(visit.param(1));
    match visit.form.get("action") {
        "role" => {
            let body = json!({"role": visit.form.get("role")});
            let path = format!("/organizations/members/{id}");
            let edited = |stored: &Member| edited_role(visit, stored.role);
            saved(visit, visit.save(&path, body, edited).await).await
        }
        action @ ("vouch" | "withdraw") => {
            let body = json!({"emailVerified": action == "vouch"});
            let path = format!("/organizations/members/{id}");
            saved(visit, visit.api.patch::<Value>(&path, body).await).await
        }
        "account" => {
            let body = json!({"role": visit.form.get("role"), "name": visit.form.get("name")});
            let path = format!("/organizations/service-accounts/{id}");
            let edited = |stored: &ServiceAccount| edited_account(visit, &stored.name, stored.role);
            saved(visit, visit.save(&path, body, edited).await).await
        }
        "password" => {
            let path = format!("/organizations/members/{id}/password-reset");
            match visit.api.post::<ResetLink>(&path, json!({})).await {
                Ok(link) => password_link(visit, link.reset_url).await,
                Err(error) => show(visit, visit.failed(error)?).await,
            }
        }
        _ => show(visit, None).await,
    }
}

async fn saved(visit: &Visit, outcome: Result<Value>) -> Result<Reply> {
    match outcome {
        Ok(_) => Ok(visit.done(&visit.path, Flash::MemberSaved)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

async fn password_link(visit: &Visit, url: String) -> Result<Reply> {
    let member = roster::member(&visit.api, visit.param(1)).await?;
    ShownOnce {
        frame: crumbs(visit, visit.frame("Link for a new password")),
        lead: format!("Give this link to {}. It works once, for 30 minutes.", member.name),
        secret: url,
        command: String::new(),
        next: (visit.path.clone(), "Back"),
    }
    .show()
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let member = roster::member(&visit.api, visit.param(1)).await?;
    let is_me = member.user_id == visit.signed_in().user.id;
    if !is_me && !may_change(visit, &member) {
        visit.require(Method::Patch, "/organizations/members/id")?;
    }
    let name = &member.name;
    let (title, consequences, label) = if is_me {
        let org = &visit.member().org_name;
        let consequences =
            "Your API keys and access grants here go with it. To come back you need an invitation.";
        (format!("Leave {org}?"), consequences, format!("Leave {org}"))
    } else if member.is_service() {
        let consequences = "Its API keys stop working at once, and its access grants go with it.";
        (format!("Delete {name}?"), consequences, format!("Delete {name}"))
    } else {
        let consequences = "Their API keys here stop working at once, and their access grants go \
                            with it. Their account stays.";
        (format!("Remove {name}?"), consequences, format!("Remove {name}"))
    };
    let keys = sponsored_by(visit, &member.user_id).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&title)),
        consequences: format!("{consequences}{}", stopped(&keys)),
        label,
        back: visit.in_org(&format!("/settings/members/{}", segment(&member.user_id))),
    }
    .show(error.as_ref())
}

/// Says which keys of service accounts are refused when who answers for them leaves.
fn stopped(keys: &[Key]) -> String {
    if keys.is_empty() {
        return String::new();
    }
    let names: Vec<_> = keys.iter().map(|key| format!("{} ({}…)", key.name, key.start)).collect();
    format!(
        " These keys of service accounts are refused from then on, until an admin takes them over: \
         {}.",
        names.join(", ")
    )
}

async fn remove(visit: &Visit) -> Result<Reply> {
    let member = roster::member(&visit.api, visit.param(1)).await?;
    let kind = if member.is_service() { "service-accounts" } else { "members" };
    let path = format!("/organizations/{kind}/{}", segment(&member.user_id));
    match visit.api.delete(&path, &[]).await {
        Ok(()) if member.user_id == visit.signed_in().user.id => Ok(visit.done("/", Flash::Left)),
        Ok(()) => Ok(visit.done(&visit.in_org("/settings/members"), Flash::MemberRemoved)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/organizations/service-accounts")?;
    let mut roles = roles(visit);
    roles.truncate(2);
    let frame = crumbs(visit, visit.frame("New service account")).failed(error);
    render(frame.status, &NewServiceAccount { frame, roles })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let body = json!({"name": visit.form.get("name"), "role": visit.form.get("role")});
    match visit.api.post::<Created>("/organizations/service-accounts", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/settings/members/{}", segment(&made.id)));
            Ok(visit.done(&path, Flash::ServiceAccountCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}
