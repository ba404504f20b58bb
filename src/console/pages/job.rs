//! `/o/{org}/deployments/jobs/{id}`: the plan of a job, who decides about it, and what came of it.
//! An approval names the plan that was seen.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agent_versions::Change;
use super::deployments::{Environments, Target};
use super::environments::Approvals;
use super::plan::{Delivery, PlanTool, Shown, Target as ChangedTarget, entries, shown};
use crate::auth::Role;
use crate::base::{Error, Kind, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::texts;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/deployments/jobs/{job}")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

/// States in which a job is not finished.
const OPEN: [&str; 3] = ["pending_approval", "approved", "running"];
/// States after which it can be undone.
const APPLIED: [&str; 2] = ["complete", "partial"];

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    path: String,
    job: Job,
    title: String,
    environment: String,
    /// What changes for each target.
    targets: Vec<Shown>,
    /// Whether there is more of that than an answer may have.
    is_too_large: bool,
    /// How what is or was live is called.
    was: &'static str,
    approvals: Vec<Approval>,
    people: People,
    may_decide: bool,
    /// Why the visitor does not decide about what waits; empty if they do, or it does not.
    why_not: String,
    /// The visitor's own page, if they are asked and nobody vouches for their address.
    lacks_voucher: Option<String>,
    /// That fewer of those who are asked can approve than must.
    too_few: String,
    may_cancel: bool,
    may_roll_back: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    state: String,
    environment_id: String,
    prompt_name: Nullable<String>,
    version: Nullable<String>,
    provider: Nullable<String>,
    plan: Plan,
    plan_hash: String,
    targets: Vec<Target>,
    created_by: String,
    created_at: Time,
    finished_at: Nullable<Time>,
    obstacle: Nullable<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    invisible_characters: usize,
    targets: Vec<PlanTarget>,
    tools: Vec<PlanTool>,
    delivery: Nullable<Delivery>,
    approvals: Nullable<Approvals>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlanTarget {
    stable_key: Nullable<String>,
    version: String,
    compiled: Nullable<String>,
    config: Map<String, Value>,
}

impl PlanTarget {
    /// Its configuration, for people.
    fn config(&self) -> Vec<(String, String)> {
        entries(&self.config)
    }
}

/// The approval of what waits for it by one of its approvers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub user: Approver,
    pub decision: String,
    pub decided_at: Nullable<Time>,
    pub comment: Nullable<String>,
    pub via: Nullable<String>,
}

impl Approval {
    /// Whether a user has not decided yet.
    pub fn waits_for(&self, user: &str) -> bool {
        self.user.id == user && self.decision == "pending"
    }
}

/// Who is to approve.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approver {
    id: String,
    pub name: String,
    pub email_verified: bool,
    pub can_decide: bool,
}

impl Approver {
    /// Whether they are verified, and cannot decide all the same.
    pub fn is_viewer(&self) -> bool {
        self.email_verified && !self.can_decide
    }
}

/// Class, icon and word of a decision.
pub fn decision(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "approved" => ("good", "check", "Approved"),
        "denied" => ("bad", "octagon", "Denied"),
        _ => ("off", "clock", "Not decided"),
    }
}

fn api_path(visit: &Visit) -> String {
    format!("/agents/deployments/{}", segment(visit.param(1)))
}

/// What the job changes, and whether that is more than an answer may have.
async fn changes(visit: &Visit) -> Result<(Vec<ChangedTarget>, bool)> {
    match visit.api.items(&format!("{}/changes", api_path(visit)), &[]).await {
        Ok(changes) => Ok((changes, false)),
        Err(error) if error.kind() == Kind::TooLarge => Ok((Vec::new(), true)),
        Err(error) => Err(error),
    }
}

/// Why somebody who is not asked, or has decided, finds no buttons.
fn why_not(job: &Job, own: Option<&Approval>, me: &str) -> &'static str {
    let prevents = job.plan.approvals.as_ref().is_some_and(|policy| policy.prevent_self_approval);
    match own {
        Some(own) if own.decision == "pending" => "",
        Some(_) => "You have decided; it waits for others.",
        None if prevents && job.created_by == me => {
            "You do not decide about it: who deploys to this environment does not approve it."
        }
        None => "You are not asked: the environment says who approves.",
    }
}

/// Warns if fewer of those who are asked have approved, or can, than must.
fn too_few(job: &Job, approvals: &[Approval]) -> String {
    let can = |one: &&Approval| match one.decision.as_str() {
        "pending" | "approved" => one.user.can_decide,
        _ => false,
    };
    let needed = job.plan.approvals.as_ref().map_or(0, |policy| policy.min_approvals);
    texts::too_few(approvals.iter().filter(can).count(), needed)
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let job: Job = visit.api.get(&api_path(visit), &[]).await?;
    let approvals = format!("{}/approvals", api_path(visit));
    let approvals: List<Approval> = visit.api.get(&approvals, &[("limit", "100")]).await?;
    let (changes, is_too_large) = changes(visit).await?;
    let environments = Environments::read(&visit.api).await?;
    let me = &visit.signed_in().user.id;
    let own = approvals.items.iter().find(|one| one.user.id == *me);
    let asked = own.filter(|one| one.waits_for(me));
    let is_open = job.state == "pending_approval";
    let may_write = visit.member().role >= Role::Member;
    let may_decide = is_open && asked.is_some_and(|one| one.user.can_decide);
    let lacks_voucher = is_open && may_write && asked.is_some_and(|one| !one.user.email_verified);
    let why_not = if is_open { why_not(&job, own, me) } else { "" };
    let too_few = if is_open { too_few(&job, &approvals.items) } else { String::new() };
    let title = match (job.prompt_name.as_deref(), job.version.as_deref()) {
        (Some(name), Some(version)) => format!("Deploy {name} {version}"),
        _ => "Deployment".into(),
    };
    let frame = visit.frame(&title).crumb("Deployments", visit.in_org("/deployments"));
    let is_admin = visit.member().role >= Role::Admin;
    let page = JobPage {
        frame: frame.failed(error.as_ref()).live(),
        path: visit.path.clone(),
        title,
        environment: environments.name(&job.environment_id).into(),
        targets: shown(changes, &job.plan.tools),
        is_too_large,
        was: if OPEN.contains(&job.state.as_str()) { "now" } else { "before" },
        approvals: approvals.items,
        people: People::read(&visit.api).await?,
        may_decide,
        why_not: why_not.into(),
        too_few,
        lacks_voucher: lacks_voucher
            .then(|| visit.in_org(&format!("/settings/members/{}", segment(me)))),
        may_cancel: OPEN.contains(&job.state.as_str())
            && (is_admin || may_write && job.created_by == *me),
        may_roll_back: may_write && APPLIED.contains(&job.state.as_str()),
        job,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let (step, flash) = match visit.form.get("action") {
        "approve" => ("approve", Flash::Approved),
        "deny" => ("deny", Flash::Denied),
        "cancel" => ("cancel", Flash::Cancelled),
        "rollback" => ("rollback", Flash::RollbackBegun),
        _ => return show(visit, None).await,
    };
    let mut body = json!({});
    if matches!(step, "approve" | "deny") {
        body["planHash"] = json!(visit.form.get("planHash"));
        if let Some(comment) = visit.form.some("comment") {
            body["comment"] = json!(comment);
        }
    }
    let path = format!("{}/{step}", api_path(visit));
    match visit.api.post::<Done>(&path, body).await {
        Ok(done) => Ok(visit.done(&super::deployments::path(visit, &done.id), flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

/// The job after an action; a rollback's is a new one.
#[derive(Deserialize)]
struct Done {
    id: String,
}
