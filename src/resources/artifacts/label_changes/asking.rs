//! Asking for a change of a protected label, and ending one that waits.

use serde_json::{Value, json};

use super::super::artifact::Artifact;
use super::super::id::ArtifactId;
use super::super::label_change::{
    LabelChange, LabelChangeApproval, LabelChangeState, PENDING, approvals,
};
use super::super::label_history::Mover;
use super::super::label_moves::require_room;
use super::current::{content_hash, obstacle};
use crate::api::Resource;
use crate::auth::Caller;
use crate::base::{Error, Label, Result, Version};
use crate::outbox::{About, EventType, publish};
use crate::resources::approvals::{ApprovalPolicy, Vote, close};
use crate::resources::registries::{ProtectedLabel, Registry};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { events: &[EventType::LabelChangeRequested], ..Resource::EMPTY };

/// Asks for a change of a label, in place of another one that waits. A caller who has asked for the same
/// already gets that, if it can still be approved: a pipeline may run twice.
///
/// # Errors
/// 409 if nobody could approve it, or the artifact has no room for the label.
pub fn ask(
    tx: &mut Tx,
    caller: &Caller,
    (registry, protection): (&Registry, &ProtectedLabel),
    artifact: &Artifact,
    to: Option<&Version>,
) -> Result<LabelChange> {
    require_room(artifact, &protection.label, to)?;
    let Mover { user, via } = Mover::of(caller);
    let content_hash = match to {
        Some(to) => content_hash(&tx.view(), &artifact.id, to)?,
        None => None,
    };
    let hours = i64::from(protection.approval_timeout_hours);
    let change = LabelChange {
        id: tx.new_id(),
        of: artifact.id.clone(),
        registry_ref: registry.reference.clone(),
        label: protection.label.clone(),
        from: artifact.labels.get(&protection.label).cloned(),
        to: to.cloned(),
        content_hash,
        approvals: frozen_approvals(protection, caller)?,
        state: LabelChangeState::Pending,
        asked_by: user,
        sponsor: caller.identity.sponsor.as_ref().map(|sponsor| sponsor.user),
        via,
        created_at: tx.now(),
        finished_at: None,
        expires_at: tx.now().plus_secs(hours * 3600),
    };
    if let Some(waiting) = tx.find(&PENDING, &(change.of.clone(), change.label.clone()))? {
        if is_same(&waiting, &change) && can_be_approved(&tx.view(), &waiting)? {
            return Ok(waiting);
        }
        end(tx, &waiting, LabelChangeState::Superseded)?;
    }
    tx.insert(&change)?;
    for user in change.approvals.approvers() {
        let approval =
            LabelChangeApproval { id: tx.new_id(), change: change.id, vote: Vote::asked(user) };
        tx.insert(&approval)?;
    }
    let approvers = json!(change.approvals.approver_ids);
    let more = [("approverIds", approvers), ("expiresAt", json!(change.expires_at))];
    publish_change(tx, EventType::LabelChangeRequested, &change, &more)?;
    Ok(change)
}

/// Whether a change that waits is what is asked for again, be it in a session or through a key.
fn is_same(waiting: &LabelChange, asked: &LabelChange) -> bool {
    let again = LabelChange {
        id: asked.id,
        created_at: asked.created_at,
        expires_at: asked.expires_at,
        via: asked.via.clone(),
        ..waiting.clone()
    };
    again == *asked
}

/// Whether a change that waits is still to be approved: it holds, and an approver has not decided. Somebody's
/// decision may count for nothing now, and is not counted again when it does.
fn can_be_approved(view: &View, waiting: &LabelChange) -> Result<bool> {
    let has_open = || -> Result<bool> {
        Ok(approvals(view, waiting.id)?.iter().any(|approval| approval.vote.open))
    };
    Ok(waiting.expires_at > view.now() && obstacle(view, waiting)?.is_none() && has_open()?)
}

/// Returns who must approve what a caller asks for.
fn frozen_approvals(protection: &ProtectedLabel, caller: &Caller) -> Result<ApprovalPolicy> {
    let frozen = protection.approvals.as_ref().and_then(|policy| policy.frozen_for(caller));
    frozen.ok_or_else(|| {
        Error::conflict(
            "no_approver",
            format!(
                "you are the only approver of the protected label {}, which prevents self-approval; \
                 an admin names another approver in the registry",
                protection.label
            ),
        )
    })
}

/// Ends the change of a label that waits, if one does: the label is moved otherwise.
pub fn supersede(tx: &mut Tx, of: &ArtifactId, label: &Label) -> Result<()> {
    match tx.find(&PENDING, &(of.clone(), label.clone()))? {
        Some(waiting) => end(tx, &waiting, LabelChangeState::Superseded).map(drop),
        None => Ok(()),
    }
}

/// Ends a change in this state; its undecided approvals are closed.
pub fn end(tx: &mut Tx, change: &LabelChange, state: LabelChangeState) -> Result<LabelChange> {
    let all = approvals(&tx.view(), change.id)?;
    close(tx, &all)?;
    let ended = LabelChange { state, finished_at: Some(tx.now()), ..change.clone() };
    tx.replace(change, &ended)?;
    Ok(ended)
}

/// Publishes an event about a change, with more in its payload.
pub fn publish_change(
    tx: &mut Tx,
    event: EventType,
    change: &LabelChange,
    more: &[(&str, Value)],
) -> Result<()> {
    let mut payload = json!({
        "changeId": change.id, "registryId": change.of.registry,
        "registryRef": change.registry_ref, "artifactType": change.of.kind,
        "name": change.of.name, "label": change.label, "from": change.from, "to": change.to,
        "askedBy": change.asked_by,
    });
    for (name, value) in more {
        payload[*name] = value.clone();
    }
    let registry = change.of.registry;
    let about = About::resource("label_change", change.id).guarded_by("registry", registry);
    publish(tx, event, about, payload)
}
