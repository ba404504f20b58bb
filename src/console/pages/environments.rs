//! `/o/{org}/environments`: where agents run; creating, changing and deleting an environment.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::confirm::Confirm;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::conflict::Edited;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::strict::{List, Nullable};
use crate::console::texts::ACCESSES;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/environments").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/environments/new")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/environments/{id}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/environments/{id}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

/// Who may use one.
#[derive(Template)]
#[template(path = "environments.html")]
struct Environments {
    frame: Frame,
    base: String,
    environments: List<Environment>,
    may_create: bool,
    next: String,
}

/// An environment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    pub id: String,
    pub slug: String,
    pub name: String,
    pub description: Nullable<String>,
    pub access: String,
    pub approvals: Nullable<Approvals>,
    pub approval_timeout_hours: u32,
}

/// Who must approve deployments.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    pub approver_ids: Vec<String>,
    pub min_approvals: u32,
    pub prevent_self_approval: bool,
}

#[derive(Template)]
#[template(path = "new_environment.html")]
struct NewEnvironment {
    frame: Frame,
    accesses: &'static [(&'static str, &'static str)],
}

#[derive(Template)]
#[template(path = "edit_environment.html")]
struct EditEnvironment {
    frame: Frame,
    back: String,
    environment: Environment,
    accesses: &'static [(&'static str, &'static str)],
    members: Vec<Member>,
    approvers: Vec<String>,
    min_approvals: String,
    timeout: String,
    prevent: bool,
}

/// The path of an environment in the API.
pub fn api_path(visit: &Visit) -> String {
    format!("/environments/{}", segment(visit.param(1)))
}

/// Adds the pages above that of an environment.
pub fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Environments", visit.in_org("/environments"))
}

async fn show(visit: &Visit) -> Result<Reply> {
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let page = Environments {
        frame: visit.frame("Environments"),
        base: visit.in_org("/environments"),
        environments: visit.api.get("/environments", &query).await?,
        may_create: visit.may(Method::Post, "/environments"),
        next: format!("{}?", visit.path),
    };
    render(page.frame.status, &page)
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/environments")?;
    let frame = crumbs(visit, visit.frame("New environment")).failed(error);
    render(frame.status, &NewEnvironment { frame, accesses: &ACCESSES })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let of = |name| visit.form.get(name);
    let mut body = json!({"slug": of("slug"), "name": of("name"), "access": of("access")});
    if let Some(description) = visit.form.some("description") {
        body["description"] = json!(description);
    }
    match visit.api.post::<Environment>("/environments", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/environments/{}", segment(&made.id)));
            Ok(visit.done(&path, Flash::EnvironmentCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}

/// What the form edits.
fn edited(visit: &Visit, members: &[Member], stored: &Environment) -> Vec<Edited> {
    let names = |ids: &[String]| {
        let mut names: Vec<_> = ids.iter().map(|id| roster::name(members, id)).collect();
        names.sort_unstable();
        names.join("\n")
    };
    let own = stored.approvals.as_ref();
    let ids = own.map(|own| own.approver_ids.clone()).unwrap_or_default();
    let least = own.map_or_else(String::new, |own| own.min_approvals.to_string());
    let prevents = own.is_some_and(|own| own.prevent_self_approval);
    let word = |is_on: bool| if is_on { "Yes" } else { "No" };
    let hours = stored.approval_timeout_hours.to_string();
    let description = stored.description.as_deref().unwrap_or_default();
    vec![
        Edited::text(visit, "name", "Name", &stored.name),
        Edited::text(visit, "description", "Description", description),
        Edited::choice(visit, "access", "Who uses it", &stored.access, &ACCESSES),
        Edited::new("Who approves", names(&ids), names(&approvers(visit))),
        Edited::text(visit, "minApprovals", "Approvals needed", &least),
        Edited::text(visit, "approvalTimeoutHours", "Hours until it times out", &hours),
        Edited::new(
            "Nobody approves their own deployment",
            word(prevents),
            word(visit.form.sent("preventSelfApproval").is_some()),
        ),
    ]
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/environments/id")?;
    let environment: Environment = visit.api.get(&api_path(visit), &[]).await?;
    let approvals = environment.approvals.0.clone();
    let sent: Vec<String> = approvers(visit);
    let is_sent = visit.form.sent("name").is_some();
    let stored = approvals.as_ref().map(|own| own.approver_ids.clone()).unwrap_or_default();
    let members = roster::members(&visit.api).await?;
    let back = visit.in_org(&format!("/environments/{}", segment(&environment.id)));
    let frame = crumbs(visit, visit.frame(&format!("Change {}", environment.name)));
    let frame = frame
        .crumb(environment.name.clone(), back.clone())
        .failed(error.as_ref())
        .rename("approvals.minApprovals", "minApprovals")
        .rename("approvals", "approver")
        .edits(visit, error.as_ref(), &edited(visit, &members, &environment));
    let page = EditEnvironment {
        frame,
        back,
        accesses: &ACCESSES,
        members: members.into_iter().filter(|member| !member.is_service()).collect(),
        approvers: if is_sent { sent } else { stored },
        min_approvals: approvals
            .as_ref()
            .map_or_else(String::new, |own| own.min_approvals.to_string()),
        timeout: environment.approval_timeout_hours.to_string(),
        prevent: approvals.is_some_and(|own| own.prevent_self_approval),
        environment,
    };
    render(page.frame.status, &page)
}

fn approvers(visit: &Visit) -> Vec<String> {
    let chosen = visit.form.pairs().filter(|(name, _)| *name == "approver");
    chosen.map(|(_, id)| id.to_string()).collect()
}

/// A number, as the API takes it; what is none is for the API to refuse.
fn number(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

async fn save(visit: &Visit) -> Result<Reply> {
    let of = |name| visit.form.get(name);
    let approvers = approvers(visit);
    let approvals = if approvers.is_empty() {
        Value::Null
    } else {
        let mut approvals = json!({
            "approverIds": approvers,
            "preventSelfApproval": visit.form.sent("preventSelfApproval").is_some(),
        });
        if let Some(least) = visit.form.some("minApprovals") {
            approvals["minApprovals"] = number(least);
        }
        approvals
    };
    let body = json!({
        "name": of("name"), "access": of("access"), "approvals": approvals,
        "description": visit.form.some("description"),
        "approvalTimeoutHours": number(of("approvalTimeoutHours")),
    });
    let members = roster::members(&visit.api).await?;
    match visit.save(&api_path(visit), body, |stored| edited(visit, &members, stored)).await {
        Ok(_) => {
            let path = visit.in_org(&format!("/environments/{}", segment(visit.param(1))));
            Ok(visit.done(&path, Flash::EnvironmentSaved))
        }
        Err(error) => edit(visit, visit.failed(error)?).await,
    }
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Delete, "/environments/id")?;
    let environment: Environment = visit.api.get(&api_path(visit), &[]).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Delete {}?", environment.name))),
        consequences: "Its variables, secrets, credentials and grants go with it. An environment \
                       in which something is live is not deleted."
            .into(),
        label: format!("Delete {}", environment.name),
        back: visit.path.trim_end_matches("/delete").into(),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    match visit.api.delete(&api_path(visit), &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/environments"), Flash::EnvironmentDeleted)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
