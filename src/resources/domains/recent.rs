//! When an organization has verified a domain: apart from its claim and its listings, so that who
//! deletes these and makes them anew is counted on.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use crate::base::{Domain as DomainName, Error, Kind, Result, Time};
use crate::store::{AnyIndex, Export, Index, Order, Record, Tx, View};

/// A domain is verified at most so often for an organization within so many seconds.
const MAX_VERIFICATIONS: usize = 5;
const VERIFICATIONS_SECS: i64 = 300;

/// Verifications are remembered for an hour, at most as many of a domain as are counted.
const KEPT_SECS: i64 = 3600;

/// Each verification forgets up to so many others that are over: more than it adds.
const FORGOTTEN_AT_ONCE: usize = 2;

/// The last verifications of a domain for an organization.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct RecentVerifications {
    domain: DomainName,
    /// Newest first.
    times: Vec<Time>,
}

static BY_NEWEST: Index<RecentVerifications, Time> =
    Index::non_unique("domains.verifications.by_newest", |recent| recent.times.first().copied());

impl Record for RecentVerifications {
    const TABLE: &'static str = "domains.verifications";
    const NOUN: &'static str = "verification of a domain";
    const EXPORT: Export<Self> =
        Export::LeftOut("for an hour, of verifications by this installation");
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_NEWEST];
    type Key = DomainName;
    fn key(&self) -> Self::Key {
        self.domain.clone()
    }
}

/// Returns when the domain was verified for the view's organization within so many seconds, an hour
/// at most, newest first.
pub fn recent(view: &View, domain: &DomainName, secs: i64) -> Result<Vec<Time>> {
    let (since, now) = (view.now().minus_secs(secs), view.now());
    let times = view.get::<RecentVerifications>(domain)?.map_or_else(Vec::new, |one| one.times);
    // Those of a clock that was ahead do not count.
    Ok(times.into_iter().filter(|at| since < *at && *at <= now).collect())
}

/// Notes a verification of a domain that asked its host.
pub fn note(tx: &mut Tx, domain: &DomainName) -> Result<()> {
    let mut times = recent(&tx.view(), domain, KEPT_SECS)?;
    times.insert(0, tx.now());
    times.truncate(MAX_VERIFICATIONS);
    tx.put(&RecentVerifications { domain: domain.clone(), times })?;

    let since = tx.now().minus_secs(KEPT_SECS);
    let mut over = Vec::new();
    tx.view().for_each(&BY_NEWEST, &(), Order::Ascending, |one: RecentVerifications| {
        if over.len() == FORGOTTEN_AT_ONCE || one.times.first().is_some_and(|at| *at > since) {
            return Ok(ControlFlow::Break(()));
        }
        over.push(one);
        Ok(ControlFlow::Continue(()))
    })?;
    over.iter().try_for_each(|one| tx.remove(one))
}

/// Refuses a verification of a domain that follows too many others: its host did not ask for them.
///
/// # Errors
/// 429 `verified_too_often`.
pub fn check_pause(view: &View, domain: &DomainName) -> Result<()> {
    let recent = recent(view, domain, VERIFICATIONS_SECS)?;
    let Some(oldest) = recent.get(MAX_VERIFICATIONS - 1) else { return Ok(()) };
    let wait = (oldest.plus_secs(VERIFICATIONS_SECS).secs() - view.now().secs()).max(1);
    let message = "this domain was verified several times just now; wait as Retry-After says";
    Err(Error::new(Kind::Limited, "verified_too_often", message)
        .retry_after(u32::try_from(wait).unwrap_or(u32::MAX)))
}
