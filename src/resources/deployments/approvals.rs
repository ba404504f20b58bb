//! Approving and denying jobs, also on behalf of an approver through a key with
//! `deployment:approve-as` (reference: deployments, "Approvals"), and the other ends of a job before
//! all of its targets are applied.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::access::{JOB_IN_PATH, fetch_job, outdated};
use super::applying::skip;
use super::info::{JobInfo, job_info};
use super::job::{BY_EXPIRY, DeploymentJob, JobState, TargetState, save};
use super::running::{self, resume_next};
use super::target::{publish_job, targets};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{Description, Email, Error, Id, Result, Time};
use crate::outbox::{EventType, RetentionSettings, Sweep, SweepProgress, due};
use crate::resources::approvals::{
    self, Approval, ApprovalDecision, ApprovalInfo, ApprovalPolicy, Decider, Vote,
    approvers_and_keys, counted, to_info,
};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference, Tx,
    View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[EXPIRE],
    events: &[EventType::DeploymentApproved, EventType::DeploymentTimeout],
    ..Resource::EMPTY
};

/// Ends jobs that have waited too long for their approvals. It reads only those that are due.
const EXPIRE: Sweep =
    Sweep { name: "deployment approvals", every_secs: 10, run: expire, installation: false };

// ── What callers send ────────────────────────────────────────────────────────

/// A decision about a deployment job.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"comment": "Tried in staging", "planHash": "the planHash of the job"}],
))]
pub struct DeploymentDecision {
    /// A comment on the decision.
    comment: Option<Description>,
    /// The hash of the plan that was decided about. If the job has another one, nothing is decided.
    plan_hash: Option<String>,
    /// The approver in whose name a key with `deployment:approve-as` decides; only such keys send it.
    acting_user_email: Option<Email>,
}

impl Input for DeploymentDecision {}

// ── Records ──────────────────────────────────────────────────────────────────

crate::base::portable! {
/// The approval of a job by one of its approvers.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentApproval {
    pub id: Id<DeploymentApproval>,
    pub job: Id<DeploymentJob>,
    /// The approver.
    pub user: Id<User>,
    pub decision: ApprovalDecision,
    /// Whether it can still be decided.
    pub open: bool,
    /// When it was decided.
    pub decided_at: Option<Time>,
    /// The approver's comment.
    pub comment: Option<Description>,
    /// The name of the key that decided on the approver's behalf.
    pub via: Option<String>,
}
}

/// Approvals that wait for a user, by job.
pub static WAITING_FOR: Index<DeploymentApproval, (Id<User>, Id<DeploymentJob>)> = Index::unique(
    "deployment_approvals.open",
    "approval_exists",
    "the user is an approver of this deployment already",
    |approval| approval.open.then_some((approval.user, approval.job)),
);

static JOB: Reference<DeploymentApproval, DeploymentJob> = Reference::cascade(
    &["job"],
    |job: &DeploymentJob| job.id.to_bytes(),
    |approval: &DeploymentApproval, _| vec![approval.job.to_bytes()],
);

impl Record for DeploymentApproval {
    const TABLE: &'static str = "deployment_approvals";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&WAITING_FOR];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&JOB];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("user", "frozen: an approver who has left can no longer decide")];
    type Key = (Id<DeploymentJob>, Id<User>);
    fn key(&self) -> Self::Key {
        (self.job, self.user)
    }
}

impl Approval for DeploymentApproval {
    fn vote(&self) -> Vote {
        let DeploymentApproval { user, decision, open, decided_at, comment, via, .. } =
            self.clone();
        Vote { user, decision, open, decided_at, comment, via }
    }
    fn with(&self, vote: Vote) -> Self {
        DeploymentApproval::of(self.id, self.job, vote)
    }
}

impl DeploymentApproval {
    fn of(id: Id<DeploymentApproval>, job: Id<DeploymentJob>, vote: Vote) -> Self {
        let Vote { user, decision, open, decided_at, comment, via } = vote;
        DeploymentApproval { id, job, user, decision, open, decided_at, comment, via }
    }
}

/// Returns the approvals of a job.
pub fn approvals(view: &View, job: Id<DeploymentJob>) -> Result<Vec<DeploymentApproval>> {
    view.all(ListSource::TABLE, &job)
}

/// Creates the approvals of a job. Their ids have the order of their keys, which is that of lists.
pub fn open(tx: &mut Tx, job: Id<DeploymentJob>, policy: &ApprovalPolicy) -> Result<()> {
    policy.approvers().into_iter().try_for_each(|user| {
        let id = tx.new_id();
        tx.insert(&DeploymentApproval::of(id, job, Vote::asked(user)))
    })
}

/// Closes the undecided approvals of a job, which no longer waits for them.
pub fn close(tx: &mut Tx, job: Id<DeploymentJob>) -> Result<()> {
    let all = approvals(&tx.view(), job)?;
    approvals::close(tx, &all)
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists the approvals of a job.
pub(super) fn list(view: &View, req: &Req<Id<DeploymentJob>>) -> Result<Page<ApprovalInfo>> {
    let job = fetch_job(view, req.caller(), req.params)?;
    let order = Order::Descending;
    let info =
        |view: &View, approval: DeploymentApproval| to_info(view, approval.id, approval.vote());
    view.page_map(ListSource::TABLE, &job.id, order, &req.page, |_| true, info)
}

pub(super) fn approve(
    tx: &mut Tx,
    req: &Req<Id<DeploymentJob>, DeploymentDecision>,
) -> Result<JobInfo> {
    decide(tx, req, ApprovalDecision::Approved)
}

pub(super) fn deny(
    tx: &mut Tx,
    req: &Req<Id<DeploymentJob>, DeploymentDecision>,
) -> Result<JobInfo> {
    decide(tx, req, ApprovalDecision::Denied)
}

fn decide(
    tx: &mut Tx,
    req: &Req<Id<DeploymentJob>, DeploymentDecision>,
    decision: ApprovalDecision,
) -> Result<JobInfo> {
    let decider = Decider::of(req.caller(), req.input.acting_user_email.as_ref())?;
    let job = fetch_job(&tx.view(), req.caller(), req.params)?;
    let of = |user| tx.get::<DeploymentApproval>(&(job.id, user));
    let pending = decider.approval(&tx.view(), "deployment", of)?;
    check_pending(tx.now(), &job, &pending, req.input.plan_hash.as_deref())?;
    if decision == ApprovalDecision::Approved {
        check_current(&tx.view(), &job)?;
    }
    decider.decide(tx, &pending, decision, req.input.comment.clone())?;
    let job = match decision {
        ApprovalDecision::Denied => {
            end_early(tx, &job, JobState::Denied, "the deployment was denied")?
        }
        _ => count(tx, &job, decider.via)?,
    };
    let mut info = job_info(&tx.view(), job)?;
    // Only a key with the permission sends it.
    info.decided_for = req.input.acting_user_email.clone();
    Ok(info)
}

fn check_pending(
    now: Time,
    job: &DeploymentJob,
    approval: &DeploymentApproval,
    plan_hash: Option<&str>,
) -> Result<()> {
    if approval.decision != ApprovalDecision::Pending {
        return Err(Error::conflict(
            "deployment_decided",
            "this approver has already decided about the deployment",
        ));
    }
    // The sweep may not have ended it yet.
    let is_over = job.expires_at.is_some_and(|end| end <= now);
    if job.state != JobState::PendingApproval || is_over {
        return Err(Error::conflict(
            "deployment_not_pending",
            "the deployment does not wait for approvals",
        ));
    }
    if plan_hash.is_some_and(|hash| hash != job.plan_hash) {
        return Err(Error::conflict(
            "plan_hash_differs",
            "the deployment has another plan than the one decided about; look at it again",
        ));
    }
    Ok(())
}

/// Refuses to approve what would not be applied.
fn check_current(view: &View, job: &DeploymentJob) -> Result<()> {
    match outdated(view, job)? {
        None => Ok(()),
        Some(why) => Err(Error::conflict(
            "deployment_outdated",
            format!("{why}; deny it, and deploy again what is still wanted"),
        )),
    }
}

/// Starts the job if enough approvers have approved it; `via` is that of the last approval. An approval
/// counts as long as it is one of a verified member, who is no viewer.
fn count(tx: &mut Tx, job: &DeploymentJob, via: Option<&str>) -> Result<DeploymentJob> {
    let approved = approvals(&tx.view(), job.id)?;
    let approved = counted(&tx.view(), &approved)?;
    let required = job.approvals.as_ref().map_or(0, |policy| policy.min_approvals);
    if approved.len() < required as usize {
        // Two at once do not overlook each other: each has read the approvals of the other.
        return Ok(job.clone());
    }
    let by = approvers_and_keys(&approved);
    close(tx, job.id)?;
    let job = save(tx, job, DeploymentJob { state: JobState::Approved, ..job.clone() })?;
    let more = [("approvals", by), ("via", json!(via))];
    publish_job(tx, EventType::DeploymentApproved, &job, &more)?;
    running::start(tx, &job)
}

fn expire(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let now = tx.now();
    let is_due = |job: &DeploymentJob| job.expires_at.is_some_and(|end| end <= now);
    let (jobs, progress) = due(&tx.view(), &BY_EXPIRY, is_due)?;
    for job in jobs.iter().take(MAX_EXPIRED) {
        let why = "the deployment was not approved in time";
        let job = end_early(tx, job, JobState::Timeout, why)?;
        publish_job(tx, EventType::DeploymentTimeout, &job, &[])?;
    }
    Ok(if jobs.len() <= MAX_EXPIRED { progress } else { SweepProgress::More })
}

/// A step of the sweep ends at most 20 jobs: each has up to 100 targets.
const MAX_EXPIRED: usize = 20;

/// Ends a job before all of its targets are applied; those that have not begun are skipped.
pub fn end_early(
    tx: &mut Tx,
    job: &DeploymentJob,
    state: JobState,
    why: &str,
) -> Result<DeploymentJob> {
    close(tx, job.id)?;
    let ended = save(tx, job, DeploymentJob { state, ..job.clone() })?;
    for target in targets(&tx.view(), job.id)? {
        let is_posted = job.push.is_some() && target.position == job.next;
        if target.state == TargetState::Waiting && !is_posted {
            skip(tx, &target, why)?;
            if target.ticket.is_some() {
                resume_next(tx, job.environment, target.planned.subject_id())?;
            }
        }
    }
    Ok(ended)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/agents/deployments/{jobId}/approvals",
            MEMBER,
            "deployment_approval.list",
            op::list(list),
        )
        .needs_for(ScopeName::DeploymentRead, &JOB_IN_PATH)
        .about("List approvals of a deployment job"),
        Route::post(
            "/agents/deployments/{jobId}/approve",
            MEMBER,
            "deployment.approve",
            op::write(approve),
        )
        .needs_for(ScopeName::DeploymentDecide, &JOB_IN_PATH)
        .about("Approve a deployment job"),
        Route::post("/agents/deployments/{jobId}/deny", MEMBER, "deployment.deny", op::write(deny))
            .needs_for(ScopeName::DeploymentDecide, &JOB_IN_PATH)
            .about("Deny a deployment job"),
    ]
}
