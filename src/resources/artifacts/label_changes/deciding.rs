//! Approving, denying and cancelling a label change, by the rule of all approvals
//! ([`approvals`](crate::resources::approvals)). The last approval moves the label.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::super::artifact::Artifact;
use super::super::label_change::{
    BY_EXPIRY, LabelChange, LabelChangeApproval, LabelChangeInfo, LabelChangeState, approvals,
};
use super::super::label_history::Mover;
use super::super::label_moves::move_label;
use super::access::{CHANGE_IN_PATH, fetch};
use super::asking::{end, publish_change};
use super::current::{info, obstacle};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Description, Email, Error, Id, Result, Time};
use crate::outbox::{EventType, RetentionSettings, Sweep, SweepProgress, due};
use crate::resources::approvals::{ApprovalDecision, Decider, Vote, approvers_and_keys, counted};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[EXPIRE],
    events: &[
        EventType::LabelChangeApproved,
        EventType::LabelChangeDenied,
        EventType::LabelChangeExpired,
    ],
    ..Resource::EMPTY
};

/// Ends changes that have waited too long for their approvals. It reads only those that are due.
const EXPIRE: Sweep =
    Sweep { name: "label change approvals", every_secs: 10, run: expire, installation: false };

/// A step of the sweep ends at most 100 changes: each has up to 50 approvals.
const MAX_EXPIRED: usize = 100;

/// A decision about a label change.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"comment": "Read it, and tried it", "contentHash": "that of the change"}],
))]
pub struct LabelChangeDecision {
    /// A comment on the decision.
    comment: Option<Description>,
    /// The hash of what was decided about. If the change has another one, nothing is decided.
    content_hash: Option<String>,
    /// The approver in whose name a key with `deployment:approve-as` decides; only such keys send it.
    acting_user_email: Option<Email>,
}

impl Input for LabelChangeDecision {}

type Decision<'a> = Req<'a, Id<LabelChange>, LabelChangeDecision>;

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn approve(tx: &mut Tx, req: &Decision<'_>) -> Result<LabelChangeInfo> {
    decide(tx, req, ApprovalDecision::Approved)
}

pub(super) fn deny(tx: &mut Tx, req: &Decision<'_>) -> Result<LabelChangeInfo> {
    decide(tx, req, ApprovalDecision::Denied)
}

fn decide(tx: &mut Tx, req: &Decision<'_>, decision: ApprovalDecision) -> Result<LabelChangeInfo> {
    let input = &req.input;
    let decider = Decider::of(req.caller(), input.acting_user_email.as_ref())?;
    let (change, _) = fetch(&tx.view(), req.caller(), req.params)?;
    let of = |user| tx.get::<LabelChangeApproval>(&(change.id, user));
    let asked = decider.approval(&tx.view(), "label change", of)?;
    check_pending(tx.now(), &change, &asked.vote, input.content_hash.as_deref())?;
    if decision == ApprovalDecision::Approved {
        check_current(&tx.view(), &change)?;
    }
    decider.decide(tx, &asked, decision, input.comment.clone())?;
    let change = match decision {
        ApprovalDecision::Denied => {
            let denied = end(tx, &change, LabelChangeState::Denied)?;
            let by = [("deniedBy", json!(asked.vote.user)), ("via", json!(decider.via))];
            publish_change(tx, EventType::LabelChangeDenied, &denied, &by)?;
            denied
        }
        _ => count(tx, change, decider.via)?,
    };
    // Only a key with the permission sends it.
    Ok(info(&tx.view(), change)?.decided_for(input.acting_user_email.as_ref()))
}

fn check_pending(
    now: Time,
    change: &LabelChange,
    vote: &Vote,
    content_hash: Option<&str>,
) -> Result<()> {
    if vote.decision != ApprovalDecision::Pending {
        return Err(Error::conflict(
            "label_change_decided",
            "this approver has already decided about the label change",
        ));
    }
    // The sweep may not have ended it yet.
    if !change.is_pending() || change.expires_at <= now {
        return Err(Error::conflict(
            "label_change_not_pending",
            "the label change does not wait for approvals",
        ));
    }
    if content_hash.is_some_and(|hash| change.content_hash.as_deref() != Some(hash)) {
        return Err(Error::conflict(
            "content_hash_differs",
            "the label change is about another text than the one decided about; look at it again",
        ));
    }
    Ok(())
}

/// Refuses to approve what would not be applied.
fn check_current(view: &View, change: &LabelChange) -> Result<()> {
    match obstacle(view, change)? {
        None => Ok(()),
        Some(why) => Err(Error::conflict(
            "label_change_outdated",
            format!("{why}; deny it, and ask again for what is still wanted"),
        )),
    }
}

/// Moves the label if enough approvers have approved it; `via` is that of the last approval.
fn count(tx: &mut Tx, change: LabelChange, via: Option<&str>) -> Result<LabelChange> {
    let all = approvals(&tx.view(), change.id)?;
    let approved = counted(&tx.view(), &all)?;
    if approved.len() < change.approvals.min_approvals as usize {
        // Two at once do not overlook each other: each has read the approvals of the other.
        return Ok(change);
    }
    let artifact: Artifact = tx.fetch(&change.of)?;
    let by = Mover { user: change.asked_by, via: change.via.clone() };
    move_label(tx, &artifact, &change.label, change.to.as_ref(), by)?;
    let change = end(tx, &change, LabelChangeState::Approved)?;
    let more = [("approvals", approvers_and_keys(&approved)), ("via", json!(via))];
    publish_change(tx, EventType::LabelChangeApproved, &change, &more)?;
    Ok(change)
}

pub(super) fn cancel(tx: &mut Tx, req: &Req<Id<LabelChange>>) -> Result<LabelChangeInfo> {
    let caller = req.caller();
    let (change, _) = fetch(&tx.view(), caller, req.params)?;
    if change.asked_by != caller.user() && !caller.is_admin() {
        return Err(Error::forbidden(
            "creator_required",
            "only who asked for it and organization admins cancel a label change",
        ));
    }
    if !change.is_pending() {
        return Err(Error::conflict("label_change_finished", "the label change has ended already"));
    }
    let cancelled = end(tx, &change, LabelChangeState::Cancelled)?;
    info(&tx.view(), cancelled)
}

pub(super) fn expire(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let now = tx.now();
    let (changes, progress) =
        due(&tx.view(), &BY_EXPIRY, |change: &LabelChange| change.expires_at <= now)?;
    for change in changes.iter().take(MAX_EXPIRED) {
        let expired = end(tx, change, LabelChangeState::Expired)?;
        publish_change(tx, EventType::LabelChangeExpired, &expired, &[])?;
    }
    Ok(if changes.len() <= MAX_EXPIRED { progress } else { SweepProgress::More })
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const APPROVE: &str = "/registries/artifacts/label-changes/{changeId}/approve";
    const DENY: &str = "/registries/artifacts/label-changes/{changeId}/deny";
    const CANCEL: &str = "/registries/artifacts/label-changes/{changeId}/cancel";
    vec![
        Route::post(APPROVE, MEMBER, "label_change.approve", op::write(approve))
            .needs_for(ScopeName::LabelDecide, &CHANGE_IN_PATH)
            .about("Approve a label change"),
        Route::post(DENY, MEMBER, "label_change.deny", op::write(deny))
            .needs_for(ScopeName::LabelDecide, &CHANGE_IN_PATH)
            .about("Deny a label change"),
        Route::post(CANCEL, MEMBER, "label_change.cancel", op::write(cancel))
            .needs_for(ScopeName::LabelMove, &CHANGE_IN_PATH)
            .about("Cancel a label change"),
    ]
}
