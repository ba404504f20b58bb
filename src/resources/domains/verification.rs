//! The verification of a domain by NIP-05: the domain is asked for the public key of every listing
//! with a handle on it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::domain::{Domain, DomainState, VerifiedDomain};
use super::recent;
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

/// So many handles are looked up in each round of a verification: fewer where it may be the first
/// that is not confirmed. There are few rounds, since each runs the operation again.
const AT_ONCE: [usize; 4] = [1, 8, 64, usize::MAX];

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
    /// What the domain said of the handles on it, by name, up to those that were looked up with the
    /// first that it does not confirm.
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

/// Looks up the handles of the view's organization on a domain, more of them at once the more were
/// confirmed, and no further ones after one that was not: a domain that confirms none is asked once.
/// `None` while an answer is pending.
pub fn look_up(
    view: &View,
    domain: &base::Domain,
    mut ask: impl FnMut(&Handle) -> Option<Arc<Nip05Answer>>,
) -> Result<Option<Vec<Checked>>> {
    let mut handles = handles_of_domain(view, domain)?.into_iter();
    let mut checked = Vec::new();
    for at_once in AT_ONCE {
        let batch: Vec<_> = handles.by_ref().take(at_once).collect();
        let answers: Vec<_> = batch.iter().map(|listed| ask(&listed.handle)).collect();
        for (listed, answer) in batch.into_iter().zip(answers) {
            let Some(answer) = answer else { return Ok(None) };
            checked.push(check(listed, &answer));
        }
        if checked.iter().any(|one| one.outcome != Outcome::Match) {
            break;
        }
    }
    Ok(Some(checked))
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

/// What the results of a verification say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is no handle.
    NoHandles,
    /// The domain confirms every handle.
    Confirmed,
    /// The domain says that a handle is not its own, or has another key.
    Denied,
    /// The domain does not say. Anybody can wait for that, or cause it: it decides against nobody.
    NoAnswer,
}

impl Verdict {
    /// Returns what these results say.
    pub fn of(checked: &[Checked]) -> Self {
        let has = |outcomes: &[Outcome]| checked.iter().any(|one| outcomes.contains(&one.outcome));
        match checked {
            [] => Verdict::NoHandles,
            _ if has(&[Outcome::Mismatch, Outcome::Missing]) => Verdict::Denied,
            _ if has(&[Outcome::Unreachable, Outcome::Invalid]) => Verdict::NoAnswer,
            _ => Verdict::Confirmed,
        }
    }

    /// Returns the state of a domain after them.
    fn state(self, before: DomainState) -> DomainState {
        match self {
            Verdict::NoHandles => DomainState::Unverified,
            Verdict::Confirmed => DomainState::Verified,
            Verdict::NoAnswer if before == DomainState::Verified => DomainState::Verified,
            Verdict::Denied | Verdict::NoAnswer => DomainState::Failed,
        }
    }
}

/// Stores a verification: the state of the domain, which handles are verified, and the history of
/// their listings. What is verified stays so, as it was, unless the domain denies it. No other
/// organization's claim of the domain may be verified.
pub fn store(tx: &mut Tx, old: &Domain, checked: Vec<Checked>) -> Result<Verification> {
    let (verdict, now) = (Verdict::of(&checked), tx.now());
    let state = verdict.state(old.state);
    let is_confirmed = verdict == Verdict::Confirmed;
    let is_kept = state == DomainState::Verified && !is_confirmed;
    let new = Domain {
        state,
        verified_at: if is_confirmed { Some(now) } else { old.verified_at },
        repeat_at: if is_kept {
            old.repeat_at
        } else {
            is_confirmed.then(|| now.plus_secs(REPEAT_SECS))
        },
        ..old.clone()
    };
    tx.replace(old, &new)?;
    store_holder(tx, &new)?;
    if verdict != Verdict::NoHandles {
        recent::note(tx, &new.domain)?;
    }

    let verification_id = tx.new_id();
    for Checked { listed, outcome, .. } in &checked {
        let entry = VerificationRecord { verification_id, checked_at: now, outcome: *outcome };
        listings::record(tx, listed.listing, entry)?;
    }
    if !is_kept {
        let listed = checked.iter().map(|one| one.listed.clone());
        let verified: Vec<_> = if is_confirmed { listed.collect() } else { Vec::new() };
        listings::set_verified(tx, &new.domain, &verified)?;
    }
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
