//! `/o/{org}/settings/members/{user}`: a member's role, a link for a new password, leaving; service
//! accounts.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::{Key, sponsored_by};
use super::members::roles;
use super::shown_once::ShownOnce;
use crate::api::Method;
use crate::auth::Role;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/members/{user}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/settings/members/{user}/delete").form(|visit| Box::pin(remove(visit))),
    Page::of_org("/o/{org}/settings/service-accounts/new").form(|visit| Box::pin(new(visit))),
];

#[derive(Template)]
#[template(path = "member.html")]
struct MemberPage {
    frame: Frame,
    base: String,
    member: Member,
    /// None for who may not change it.
    form: Option<Form>,
    is_me: bool,
    may_vouch: bool,
    may_remove: bool,
    may_explain: bool,
    /// The keys of service accounts that they answer for.
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResetLink {
    reset_url: String,
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

/// What a service account has. It is no owner.
fn account_fields(visit: &Visit) -> Vec<Field> {
    let roles = roles(visit).into_iter().filter(|(name, _)| *name != "owner");
    vec![Field::text("name", "Name"), Field::select("role", "Role", roles)]
}

/// The path of a member in the API.
fn api_path(member: &Member) -> String {
    let kind = if member.is_service() { "service-accounts" } else { "members" };
    format!("/organizations/{kind}/{}", segment(&member.user_id))
}

/// The form of a member. The name of a person is their own.
async fn settings(visit: &Visit, member: &Member) -> Result<Form> {
    let (fields, action) = match member.is_service() {
        true => (account_fields(visit), "account"),
        false => (vec![Field::select("role", "Role", roles(visit))], "role"),
    };
    let form = Form::change(visit, &api_path(member), fields).await?;
    Ok(form.action(action).done(visit.path.as_str(), Flash::MemberSaved))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let member = roster::member(&visit.api, visit.param(1)).await?;
    let may_change = may_change(visit, &member);
    let is_me = member.user_id == visit.signed_in().user.id;
    let keys = sponsored_by(visit, &member.user_id).await?;
    let error = error.as_ref();
    let mut frame = crumbs(visit, visit.frame(&member.name)).failed(error);
    // Who may not change it, or not any more, has no form to save.
    let mut form = if may_change { Some(settings(visit, &member).await?) } else { None };
    if let Some(form) = &mut form {
        frame = form.ready(frame, visit, error);
    }
    let page = MemberPage {
        keys,
        frame,
        form,
        base: visit.in_org("/settings"),
        is_me,
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
        "role" | "account" => {
            let member = roster::member(&visit.api, visit.param(1)).await?;
            match settings(visit, &member).await?.send(visit).await {
                Err(error) => show(visit, visit.failed(error)?).await,
                done => done,
            }
        }
        action @ ("vouch" | "withdraw") => {
            let body = json!({"emailVerified": action == "vouch"});
            let path = format!("/organizations/members/{id}");
            match visit.api.patch::<Value>(&path, body).await {
                Ok(_) => Ok(visit.done(&visit.path, Flash::MemberSaved)),
                Err(error) => show(visit, visit.failed(error)?).await,
            }
        }
        "password" => {
            let path = format!("/organizations/members/{id}/password-reset");
            match visit.api.post::<ResetLink>(&path, json!({})).await {
                Ok(link) => password_link(visit, link.reset_url).await,
                Err(error) => show(visit, visit.failed(error)?).await,
            }
        }
        "second-factor" => {
            let path = format!("/organizations/members/{id}/second-factor");
            match visit.api.delete(&path, &[]).await {
                Ok(()) => Ok(visit.done(&visit.path, Flash::SecondFactorReset)),
                Err(error) => show(visit, visit.failed(error)?).await,
            }
        }
        _ => show(visit, None).await,
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

async fn remove(visit: &Visit) -> Result<FormPage> {
    let found = roster::member(&visit.api, visit.param(1)).await;
    let Some(member) = Form::unless_gone(visit, found)? else {
        let form = Form::gone().done(visit.in_org("/settings/members"), Flash::MemberRemoved);
        return Ok(form.page(crumbs(visit, visit.frame("Remove the member?"))));
    };
    let is_me = member.user_id == visit.signed_in().user.id;
    if !is_me && !may_change(visit, &member) {
        visit.require(Method::Patch, "/organizations/members/id")?;
    }
    let name = &member.name;
    let (title, consequences) = if is_me {
        let org = &visit.member().org_name;
        let consequences =
            "Your API keys and access grants here go with it. To come back you need an invitation.";
        (format!("Leave {org}?"), consequences)
    } else if member.is_service() {
        let consequences = "Its API keys stop working at once, and its access grants go with it.";
        (format!("Delete {name}?"), consequences)
    } else {
        let consequences = "Their API keys here stop working at once, and their access grants go \
                            with it. Their account stays.";
        (format!("Remove {name}?"), consequences)
    };
    let keys = sponsored_by(visit, &member.user_id).await?;
    let form = Form::delete(visit, &api_path(&member)).await?;
    let form = match is_me {
        true => form.done("/", Flash::Left),
        false => form.done(visit.in_org("/settings/members"), Flash::MemberRemoved),
    };
    let page = form.page(crumbs(visit, visit.frame(&title)));
    Ok(page.lead(format!("{consequences}{}", stopped(&keys))))
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

async fn new(visit: &Visit) -> Result<FormPage> {
    let path = "/organizations/service-accounts";
    let form = Form::create(path, account_fields(visit), "Create service account")
        .done(visit.in_org("/settings/members/{id}"), Flash::ServiceAccountCreated);
    let page = form.page(crumbs(visit, visit.frame("New service account")));
    Ok(page.lead(
        "A member without a password, as which programs act: its keys do not depend on a person.",
    ))
}
