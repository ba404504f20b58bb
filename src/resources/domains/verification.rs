//! The verification of a domain by NIP-05: the domain is asked for the public key of every listing
//! with a handle on it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::domain::{Domain, DomainState, VerifiedDomain};
use crate::api::{Output, ResourceRef};
use crate::base::{self, Handle, Id, Result, Time};
use crate::outside::nip05::Nip05Answer;
use crate::resources::listings::{
    self, ListedHandle, Listing, Outcome, VerificationRecord, VerificationRun, handles_of_domain,
};
use crate::store::{Tx, View};

/// The time for all look-ups of a verification, in seconds. Handles that were not looked up by then
/// are unreachable.
pub const VERIFY_SECS: u64 = 25;

/// A successful verification is repeated after a day, in seconds.
pub const REPEAT_SECS: i64 = 24 * 3600;

/// A verification of a domain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DomainVerification")]
pub struct Verification {
    pub id: Id<VerificationRun>,
    /// The domain.
    pub domain_id: Id<Domain>,
    /// The state of the domain after this verification.
    pub state: DomainState,
    /// When the verification was completed.
    pub checked_at: Time,
    /// What the domain said of each handle on it, by name.
    pub results: Vec<HandleResult>,
}

impl Verification {
    /// What stands for a verification whose look-ups are pending.
    pub fn pending(domain: &Domain, now: Time) -> Self {
        Verification {
            id: Id::NIL,
            domain_id: domain.id,
            state: domain.state,
            checked_at: now,
            results: Vec::new(),
        }
    }
}

impl Output for Verification {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.domain_id)
    }
}

/// What a domain said of a handle.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HandleVerification")]
pub struct HandleResult {
    /// The listing with this handle.
    pub listing_id: Id<Listing>,
    /// The handle that was looked up.
    pub handle: Handle,
    pub outcome: Outcome,
    /// Why the domain was unreachable or its answer invalid.
    pub reason: Option<String>,
}

/// A handle that was looked up.
#[derive(Clone, Debug)]
pub struct Checked {
    listed: ListedHandle,
    pub outcome: Outcome,
    reason: Option<String>,
}

/// Looks up every handle of the view's organization on a domain. `None` while an answer is pending;
/// all of them are requested before.
///
/// # Errors
/// If the store fails.
pub fn look_up(
    view: &View,
    domain: &base::Domain,
    mut ask: impl FnMut(&Handle) -> Option<Arc<Nip05Answer>>,
) -> Result<Option<Vec<Checked>>> {
    let handles = handles_of_domain(view, domain)?;
    let answers: Vec<_> = handles.iter().map(|listed| ask(&listed.handle)).collect();
    let checked = |(listed, answer): (ListedHandle, Option<Arc<Nip05Answer>>)| {
        answer.map(|answer| check(listed, &answer))
    };
    Ok(handles.into_iter().zip(answers).map(checked).collect())
}

/// Compares the answer of a domain with the key of a listing.
pub fn check(listed: ListedHandle, answer: &Nip05Answer) -> Checked {
    let (outcome, reason) = match answer {
        Nip05Answer::Key(_) if answer.confirms(&listed.pubkey) => (Outcome::Match, None),
        Nip05Answer::Key(_) => (Outcome::Mismatch, None),
        Nip05Answer::Missing => (Outcome::Missing, None),
        Nip05Answer::Unreachable(reason) => (Outcome::Unreachable, Some(reason.clone())),
        Nip05Answer::Invalid(reason) => (Outcome::Invalid, Some(reason.clone())),
    };
    Checked { listed, outcome, reason }
}

/// Returns the state of a domain whose handles gave these results.
pub fn state(checked: &[Checked]) -> DomainState {
    match checked {
        [] => DomainState::Unverified,
        all if all.iter().all(|one| one.outcome == Outcome::Match) => DomainState::Verified,
        _ => DomainState::Failed,
    }
}

/// Stores a verification: the state of the domain, which handles are verified, and the history of
/// their listings. No other organization's claim of the domain may be verified.
///
/// # Errors
/// If the store fails.
pub fn store(tx: &mut Tx, old: &Domain, checked: Vec<Checked>) -> Result<Verification> {
    let (state, now) = (state(&checked), tx.now());
    let is_verified = state == DomainState::Verified;
    let new = Domain {
        state,
        verified_at: if is_verified { Some(now) } else { old.verified_at },
        repeat_at: is_verified.then(|| now.plus_secs(REPEAT_SECS)),
        ..old.clone()
    };
    tx.replace(old, &new)?;
    store_holder(tx, &new)?;

    let verification_id = tx.new_id();
    for Checked { listed, outcome, .. } in &checked {
        let entry = VerificationRecord { verification_id, checked_at: now, outcome: *outcome };
        listings::record(tx, listed.listing, entry)?;
    }
    let listed = checked.iter().map(|one| one.listed.clone());
    let verified: Vec<_> = if is_verified { listed.collect() } else { Vec::new() };
    listings::set_verified(tx, &new.domain, &verified)?;
    Ok(Verification {
        id: verification_id,
        domain_id: new.id,
        state,
        checked_at: now,
        results: checked.into_iter().map(result).collect(),
    })
}

/// Makes the claim the verified one of its domain, or no longer.
fn store_holder(tx: &mut Tx, claim: &Domain) -> Result<()> {
    let old: Option<VerifiedDomain> = tx.get(&claim.domain)?;
    match (old, claim.state == DomainState::Verified) {
        (None, true) => tx.insert(&VerifiedDomain {
            domain: claim.domain.clone(),
            claim: claim.id,
            org: tx.org(),
        }),
        (Some(old), false) if old.claim == claim.id => tx.remove(&old),
        _ => Ok(()),
    }
}

fn result(checked: Checked) -> HandleResult {
    let Checked { listed, outcome, reason } = checked;
    HandleResult { listing_id: listed.listing, handle: listed.handle, outcome, reason }
}
