//! `/o/{org}/deployments/jobs/{id}`: the plan of a job, who decides about it, and what came of it.
//! An approval names the plan that was seen.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::approvals::{Decision, Question};
use super::change_lines::entries;
use super::deployments::{Environments, Target};
use super::environments::Approvals;
use super::plan::{Delivery, PlanTool, Shown, Target as ChangedTarget, shown};
use crate::auth::Role;
use crate::base::{Error, Kind, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
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
    decision: Decision,
    people: People,
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

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let job: Job = visit.api.get(&api_path(visit), &[]).await?;
    let question = Question {
        is_open: job.state == "pending_approval",
        policy: job.plan.approvals.as_ref(),
        asked_by: &job.created_by,
        own: "You do not decide about it: who deploys to this environment does not approve it.",
        others: "You are not asked: the environment says who approves.",
    };
    let decision = Decision::read(visit, &api_path(visit), &question).await?;
    let (changes, is_too_large) = changes(visit).await?;
    let environments = Environments::read(&visit.api).await?;
    let me = &visit.signed_in().user.id;
    let may_write = visit.member().role >= Role::Member;
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
        targets: shown(visit, changes, &job.plan.tools).await,
        is_too_large,
        was: if OPEN.contains(&job.state.as_str()) { "now" } else { "before" },
        decision,
        people: People::read(&visit.api).await?,
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
