//! Deciding: who may, on whose behalf through a key with `deployment:approve-as`, and which approvals
//! count (reference: deployments, "Approvals").

use std::ops::ControlFlow;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{Output, ResourceRef};
use crate::auth::{Caller, Credential, Membership, Role, User, find_person};
use crate::base::{Description, Email, Error, Id, Name, Result, Time};
use crate::store::{Index, Order, Record, Tx, View};

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
/// What an approver has decided, or is asked to.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Vote {
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

impl Vote {
    /// The vote of an approver who is asked.
    pub fn asked(user: Id<User>) -> Self {
        let (decision, open) = (ApprovalDecision::Pending, true);
        Vote { user, decision, open, decided_at: None, comment: None, via: None }
    }
}

/// A record with the vote of one approver.
pub trait Approval: Record {
    /// Returns the vote.
    fn vote(&self) -> Vote;
    /// Returns the record with another vote of the same approver.
    fn with(&self, vote: Vote) -> Self;
}

// ── What callers send and see ────────────────────────────────────────────────

/// The approver of what is listed.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "JobApprover")]
pub enum Waiting {
    /// The caller.
    Me,
}

/// The approval of one approver.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeploymentApproval")]
pub struct ApprovalInfo {
    id: Id<()>,
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

/// Returns the representation of a vote, whose record has this id.
pub fn to_info<A: ?Sized>(view: &View, id: Id<A>, vote: Vote) -> Result<ApprovalInfo> {
    let user: User = view.fetch(&vote.user)?;
    let membership = view.get::<Membership>(&(user.id, view.org()))?;
    let user = ApproverInfo {
        email_verified: membership.as_ref().is_some_and(|membership| membership.email_verified),
        can_decide: membership.is_some_and(|membership| can_decide(&membership)),
        id: user.id,
        name: user.name,
        email: user.email,
        image: user.image,
    };
    let Vote { decision, decided_at, comment, via, .. } = vote;
    Ok(ApprovalInfo { id: id.cast(), user, decision, decided_at, comment, via })
}

// ── Who decides ──────────────────────────────────────────────────────────────

/// Who decides in a request.
pub struct Decider<'a> {
    caller: &'a Caller,
    /// The approver who is named.
    acting: Option<&'a Email>,
    /// The name of the key that decides on behalf of approvers.
    pub via: Option<&'a str>,
}

impl<'a> Decider<'a> {
    /// Reads who decides: the caller, or the approver whom it names, on whose behalf its key decides.
    ///
    /// # Errors
    /// 400 if a key that decides on behalf of approvers names none.
    pub fn of(caller: &'a Caller, acting: Option<&'a Email>) -> Result<Self> {
        let via = delegate(caller);
        if via.is_some() && acting.is_none() {
            let message = "must be sent: this key decides on behalf of an approver";
            return Err(Error::invalid_at("actingUserEmail", message));
        }
        Ok(Decider { caller, acting, via })
    }

    /// Returns the approval that the request decides, of `what`; `get` returns that of a user.
    ///
    /// # Errors
    /// 403 if it names or comes from nobody who is a required, verified approver.
    pub fn approval<A: Approval>(
        &self,
        view: &View,
        what: &str,
        get: impl FnOnce(Id<User>) -> Result<Option<A>>,
    ) -> Result<A> {
        let user = match (self.via, self.acting) {
            (Some(_), Some(email)) => find_person(view, email)?.map(|user| user.id),
            (_, None) => Some(self.caller.user()),
            (None, Some(_)) => {
                return Err(Error::forbidden(
                    "approve_as_required",
                    "only a key with the permission deployment:approve-as, of an admin, decides on \
                     behalf of an approver; leave actingUserEmail out",
                ));
            }
        };
        let required = user.map_or(Ok(None), get)?;
        match required {
            Some(required) if is_approver(view, required.vote().user)? => Ok(required),
            _ => Err(Error::forbidden(
                "approver_required",
                format!(
                    "only a required approver of this {what} with a verified e-mail address, who is no \
                     viewer, decides"
                ),
            )),
        }
    }

    /// Records a decision.
    pub fn decide<A: Approval>(
        &self,
        tx: &mut Tx,
        pending: &A,
        decision: ApprovalDecision,
        comment: Option<Description>,
    ) -> Result<()> {
        let (decided_at, via) = (Some(tx.now()), self.via.map(String::from));
        let user = pending.vote().user;
        let vote = Vote { user, decision, open: false, decided_at, comment, via };
        tx.replace(pending, &pending.with(vote))
    }
}

/// The name of the key by which the caller decides on behalf of approvers. The permission holds only
/// while the key's user is an admin; otherwise the key is an ordinary one.
fn delegate(caller: &Caller) -> Option<&str> {
    match &caller.identity.credential {
        Credential::Key { name, approve_as: true, .. } if caller.is_admin() => Some(name),
        _ => None,
    }
}

/// Whether a member may approve: the organization considers the e-mail address verified, and a viewer
/// decides nothing.
fn can_decide(membership: &Membership) -> bool {
    membership.email_verified && membership.role >= Role::Member
}

/// Whether a user is a member who may approve.
fn is_approver(view: &View, user: Id<User>) -> Result<bool> {
    let membership = view.get::<Membership>(&(user, view.org()))?;
    Ok(membership.is_some_and(|membership| can_decide(&membership)))
}

/// Counts what waits for a caller's approval and is listed, to `at_most`; none if they cannot decide.
pub fn count_open<A: Record, T>(
    view: &View,
    caller: &Caller,
    waiting_for: &'static Index<A, (Id<User>, Id<T>)>,
    at_most: usize,
    mut is_listed: impl FnMut(A) -> Result<bool>,
) -> Result<usize> {
    let user = caller.user();
    if !is_approver(view, user)? {
        return Ok(0);
    }
    let mut count = 0;
    view.for_each(waiting_for, &user, Order::Descending, |approval: A| {
        count += usize::from(is_listed(approval)?);
        Ok(if count < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(count)
}

// ── What counts ──────────────────────────────────────────────────────────────

/// Returns the votes that count of these approvals: a yes counts as long as it is one of a verified
/// member, who is no viewer.
pub fn counted<A: Approval>(view: &View, approvals: &[A]) -> Result<Vec<Vote>> {
    let mut counted = Vec::new();
    for vote in approvals.iter().map(Approval::vote) {
        if vote.decision == ApprovalDecision::Approved && is_approver(view, vote.user)? {
            counted.push(vote);
        }
    }
    Ok(counted)
}

/// Returns who approved and through which keys, as events say it.
pub fn approvers_and_keys(votes: &[Vote]) -> Value {
    votes.iter().map(|vote| json!({"userId": vote.user, "via": vote.via})).collect()
}

/// Closes those of these approvals that are undecided: nothing waits for them any more.
pub fn close<A: Approval>(tx: &mut Tx, approvals: &[A]) -> Result<()> {
    let open = approvals.iter().filter(|approval| approval.vote().open);
    open.into_iter().try_for_each(|approval| {
        tx.replace(approval, &approval.with(Vote { open: false, ..approval.vote() }))
    })
}
