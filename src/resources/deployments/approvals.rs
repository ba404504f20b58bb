//! Approving and denying jobs, also on behalf of an approver through a key with
//! `deployment:approve-as` (reference: deployments, "Approvals"), and the other ends of a job before
//! all of its targets are applied.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::{JOB_IN_PATH, fetch_job, outdated};
use super::applying::skip;
use super::info::{JobInfo, job_info};
use super::job::{BY_EXPIRY, DeploymentJob, JobState, TargetState, save};
use super::running::{self, resume_next};
use super::target::{publish_job, targets};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, Credential, MEMBER, Membership, Role, ScopeName, User, find_person};
use crate::base::{Description, Email, Error, Id, Name, Result, Time};
use crate::outbox::{EventType, RetentionSettings, Sweep, SweepProgress, due};
use crate::resources::environments::ApprovalPolicy;
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

// ── What callers send and see ────────────────────────────────────────────────

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

/// The approval of a job by one of its approvers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeploymentApproval")]
pub struct ApprovalInfo {
    id: Id<DeploymentApproval>,
    /// The approver.
    user: ApproverInfo,
    pub decision: ApprovalDecision,
    /// When it was decided; null while it is pending.
    decided_at: Option<Time>,
    /// The comment on the decision.
    comment: Option<Description>,
    /// Name of the key that decided on the approver's behalf; null if the approver decided.
    pub via: Option<String>,
}

impl Output for ApprovalInfo {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A required approver.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApproverInfo {
    id: Id<User>,
    name: Name,
    email: Email,
    /// URL of a picture of the user.
    image: Option<String>,
    /// Whether the organization considers the e-mail address verified; false for users who have left.
    email_verified: bool,
    /// Whether what they decide counts: they are a member, no viewer, and the address is verified.
    can_decide: bool,
}

fn to_info(view: &View, approval: DeploymentApproval) -> Result<ApprovalInfo> {
    let user: User = view.fetch(&approval.user)?;
    let membership = view.get::<Membership>(&(user.id, view.org()))?;
    let user = ApproverInfo {
        email_verified: membership.as_ref().is_some_and(|membership| membership.email_verified),
        can_decide: membership.is_some_and(|membership| can_decide(&membership)),
        id: user.id,
        name: user.name,
        email: user.email,
        image: user.image,
    };
    let DeploymentApproval { id, decision, decided_at, comment, via, .. } = approval;
    Ok(ApprovalInfo { id, user, decision, decided_at, comment, via })
}

// ── Records ──────────────────────────────────────────────────────────────────

/// The decision of an approver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDecision {
    /// Not decided.
    Pending,
    /// Decided: yes.
    Approved,
    /// Decided: no.
    Denied,
}
crate::store::stored_enum!(ApprovalDecision { Pending = 0, Approved = 1, Denied = 2 });

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

/// Returns the approvals of a job.
pub fn approvals(view: &View, job: Id<DeploymentJob>) -> Result<Vec<DeploymentApproval>> {
    view.all(ListSource::TABLE, &job)
}

/// Creates the approvals of a job. Their ids have the order of their keys, which is that of lists.
pub fn open(tx: &mut Tx, job: Id<DeploymentJob>, policy: &ApprovalPolicy) -> Result<()> {
    let mut users = policy.approver_ids.clone();
    users.sort();
    users.into_iter().try_for_each(|user| {
        tx.insert(&DeploymentApproval {
            id: tx.new_id(),
            job,
            user,
            decision: ApprovalDecision::Pending,
            open: true,
            decided_at: None,
            comment: None,
            via: None,
        })
    })
}

/// Closes the undecided approvals of a job, which no longer waits for them.
pub fn close(tx: &mut Tx, job: Id<DeploymentJob>) -> Result<()> {
    let open = approvals(&tx.view(), job)?.into_iter().filter(|approval| approval.open);
    open.into_iter().try_for_each(|approval| {
        tx.replace(&approval, &DeploymentApproval { open: false, ..approval.clone() })
    })
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists the approvals of a job.
pub(super) fn list(view: &View, req: &Req<Id<DeploymentJob>>) -> Result<Page<ApprovalInfo>> {
    let job = fetch_job(view, req.caller(), req.params)?;
    let order = Order::Descending;
    view.page_map(ListSource::TABLE, &job.id, order, &req.page, |_| true, to_info)
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
    let via = delegate(req.caller());
    if via.is_some() && req.input.acting_user_email.is_none() {
        let message = "must be sent: this key decides on behalf of an approver";
        return Err(Error::invalid_at("actingUserEmail", message));
    }
    let job = fetch_job(&tx.view(), req.caller(), req.params)?;
    let pending = approver(&tx.view(), req, &job, via)?;
    check_pending(tx.now(), &job, &pending, req.input.plan_hash.as_deref())?;
    if decision == ApprovalDecision::Approved {
        check_current(&tx.view(), &job)?;
    }
    let decided = DeploymentApproval {
        decision,
        open: false,
        decided_at: Some(tx.now()),
        comment: req.input.comment.clone(),
        via: via.map(String::from),
        ..pending.clone()
    };
    tx.replace(&pending, &decided)?;
    let job = match decision {
        ApprovalDecision::Denied => {
            end_early(tx, &job, JobState::Denied, "the deployment was denied")?
        }
        _ => count(tx, &job, via)?,
    };
    let mut info = job_info(&tx.view(), job)?;
    // Only a key with the permission sends it.
    info.decided_for = req.input.acting_user_email.clone();
    Ok(info)
}

/// The name of the key by which the caller decides on behalf of approvers. The permission holds only
/// while the key's user is an admin; otherwise the key is an ordinary one.
fn delegate(caller: &Caller) -> Option<&str> {
    match &caller.identity.credential {
        Credential::Key { name, approve_as: true, .. } if caller.is_admin() => Some(name),
        _ => None,
    }
}

/// Returns the approval that the request decides.
///
/// # Errors
/// 403 if it names or comes from nobody who is a required, verified approver of the job.
fn approver(
    view: &View,
    req: &Req<Id<DeploymentJob>, DeploymentDecision>,
    job: &DeploymentJob,
    via: Option<&str>,
) -> Result<DeploymentApproval> {
    let user = match (via, &req.input.acting_user_email) {
        (Some(_), Some(email)) => find_person(view, email)?.map(|user| user.id),
        (_, None) => Some(req.caller().user()),
        (None, Some(_)) => {
            return Err(Error::forbidden(
                "approve_as_required",
                "only a key with the permission deployment:approve-as, of an admin, decides on \
                 behalf of an approver; leave actingUserEmail out",
            ));
        }
    };
    let required = match user {
        Some(user) => view.get::<DeploymentApproval>(&(job.id, user))?,
        None => None,
    };
    match required {
        Some(required) if is_approver(view, required.user)? => Ok(required),
        _ => Err(Error::forbidden(
            "approver_required",
            "only a required approver of this deployment with a verified e-mail address, who is no viewer, \
             decides",
        )),
    }
}

/// Whether a member may approve: the organization considers the e-mail address verified, and a viewer
/// decides nothing.
fn can_decide(membership: &Membership) -> bool {
    membership.email_verified && membership.role >= Role::Member
}

/// Whether a user is a member who may approve.
///
/// # Errors
/// If the store fails.
pub fn is_approver(view: &View, user: Id<User>) -> Result<bool> {
    let membership = view.get::<Membership>(&(user, view.org()))?;
    Ok(membership.is_some_and(|membership| can_decide(&membership)))
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
    let mut approved = approvals(&tx.view(), job.id)?;
    approved.retain(|approval| approval.decision == ApprovalDecision::Approved);
    let mut counted = Vec::new();
    for approval in approved {
        if is_approver(&tx.view(), approval.user)? {
            counted.push(approval);
        }
    }
    let approved = counted;
    let required = job.approvals.as_ref().map_or(0, |policy| policy.min_approvals);
    if approved.len() < required as usize {
        // Two at once do not overlook each other: each has read the approvals of the other.
        return Ok(job.clone());
    }
    let by: Value = approved
        .iter()
        .map(|approval| json!({"userId": approval.user, "via": approval.via}))
        .collect();
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
