//! Scans of the due jobs, in parts: which of them may run beside those in flight.
//!
//! Many may be due that have to wait, for a receiver that does not respond or behind others of a long
//! backlog, and looking at all of them whenever a job ends would take longer the more there are. So
//! it is remembered for each key and organization at which limit jobs were skipped which was the first.
//! When there is a place again, the scan goes on from there, for that key or organization alone.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::in_flight::{Full, InFlight, Places};
use super::jobs::{BY_DUE, DueKey, Job, Target};
use crate::base::{Id, Result, Time};
use crate::store::{Order, Org, View};

/// A part of a scan looks at this many entries, less than a millisecond; the next one continues
/// there.
const MAX_SCANNED: usize = 2_000;

/// All due jobs are looked at this often; less often if that takes more than a tenth of the time.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
const WHOLE_SHARE: u32 = 10;

/// A job that is enqueued while others are committed can be due a little before what was seen.
const MARGIN_SECS: i64 = 2;

/// So many keys and so many organizations are remembered, in some 100 bytes each. Jobs of others that
/// are skipped wait for the next scan of all.
const MAX_WAITING: usize = 10_000;

/// A position among the due jobs.
type Position = (DueKey, Id<Job>);

/// The position before all.
const START: Position = ((Time::from_millis(i64::MIN), None, Id::NIL), Id::NIL);

/// Scans of the due jobs. Each due job is running, at or behind `next`, or at or behind what `waiting`
/// has of its key or its organization.
#[derive(Default)]
pub struct DueScan {
    /// Where the scan of all goes on; none at the start.
    next: Option<Position>,
    is_at_end: bool,
    /// When that scan began, by the clock of the store.
    began_at: Option<Time>,
    /// When the last scan from the first entry began, and how long it took, once it has ended.
    whole: Option<(Instant, Option<Duration>)>,
    waiting: Waiting,
    /// The keys of which a job has ended, and which have not been looked at since.
    freed: HashSet<Id<Target>>,
    is_over: bool,
    /// Jobs that cannot be read: they take no place from others.
    skipped: HashSet<Id<Job>>,
}

/// The first job of each key and organization that was skipped because as many run as may.
#[derive(Default)]
struct Waiting {
    keys: HashMap<Id<Target>, Position>,
    orgs: HashMap<Id<Org>, Position>,
}

impl Waiting {
    /// Notes that a job was skipped at this limit.
    fn add(&mut self, full: Full, place: Position) {
        match full {
            Full::Key(key) => add_first(&mut self.keys, key, place),
            Full::Org(org) => add_first(&mut self.orgs, org, place),
        }
    }
}

fn add_first<K: Eq + Hash>(places: &mut HashMap<K, Position>, of: K, place: Position) {
    let has_room = places.len() < MAX_WAITING;
    match places.entry(of) {
        Entry::Occupied(mut first) if place < *first.get() => drop(first.insert(place)),
        Entry::Vacant(first) if has_room => drop(first.insert(place)),
        _ => {}
    }
}

/// What a part of a scan is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Key(Id<Target>),
    Org(Id<Org>),
}

impl Scope {
    fn has(self, key: Option<Id<Target>>, org: Id<Org>) -> bool {
        match self {
            Scope::All => true,
            Scope::Key(only) => key == Some(only),
            Scope::Org(only) => org == only,
        }
    }
}

/// Why a part of a scan ended before the last due job.
enum Cut {
    /// It is long enough.
    Long(Position),
    /// There is no place for this one, nor for any other within the scope.
    Full(Position),
}

impl DueScan {
    /// Begins another round: with all due jobs once a second; else with those that `freed` keys and
    /// organizations kept waiting, and, if `is_new`, those that became due since.
    pub fn begin(&mut self, freed: HashSet<Id<Target>>, is_new: bool, now: Instant) {
        let is_due = match self.whole {
            None => true,
            Some((_, None)) => false,
            Some((at, Some(took))) => {
                now.duration_since(at) >= WHOLE_EVERY.max(took * (WHOLE_SHARE + 1))
            }
        };
        if is_due {
            let skipped = std::mem::take(&mut self.skipped);
            *self = DueScan { whole: Some((now, None)), skipped, ..DueScan::default() };
            return;
        }
        self.is_over = false;
        self.freed.extend(freed);
        if let Some(at) = self.began_at.filter(|_| is_new) {
            let new = ((at.minus_secs(MARGIN_SECS), None, Id::NIL), Id::NIL);
            if self.is_at_end || self.next.is_some_and(|next| next > new) {
                (self.next, self.is_at_end, self.began_at) = (Some(new), false, None);
            }
        }
    }

    /// Ends the round before it has seen all due jobs: the next one begins with the first.
    pub fn abort(&mut self) {
        (self.is_over, self.whole) = (true, None);
    }

    /// Leaves out a job that cannot be read until the server starts again.
    pub fn skip(&mut self, job: Id<Job>) {
        if self.skipped.len() < MAX_WAITING && self.skipped.insert(job) {
            tracing::error!(%job, "a job cannot be read and is not done; see `roadstead check`");
        }
    }

    /// Whether no other job may run now.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the jobs of the next part, at most `limit`, that may run now beside those in flight:
    /// what has been due longest first.
    pub fn next(
        &mut self,
        view: &View,
        in_flight: &InFlight,
        limit: usize,
    ) -> Result<Vec<Id<Job>>> {
        let mut places = in_flight.places();
        let Some((from, scope)) = self.next_scope(&places) else {
            self.is_over = true;
            return Ok(Vec::new());
        };
        if scope == Scope::All {
            self.began_at.get_or_insert(view.now());
        }
        let end = view.now().plus_millis(1);
        let (mut due, mut scanned, mut cut) = (Vec::new(), 0, None);
        let (waiting, skipped) = (&mut self.waiting, &self.skipped);
        view.entries(&BY_DUE, &from, &end, Order::Ascending, |entry, job| {
            let place = (entry, job);
            if scanned == MAX_SCANNED || due.len() == limit {
                cut = Some(Cut::Long(place));
                return Ok(ControlFlow::Break(()));
            }
            scanned += 1;
            let (_, key, org) = entry;
            if !scope.has(key, org) || skipped.contains(&job) {
                return Ok(ControlFlow::Continue(()));
            }
            let Some(full) = places.full(key, org) else {
                places.take(key, org);
                due.push(job);
                return Ok(ControlFlow::Continue(()));
            };
            waiting.add(full, place);
            // Behind it are only others of the same key or organization.
            let is_all_full = match scope {
                Scope::All => false,
                Scope::Key(_) => true,
                // Also if it is the key of this one that is full: what is behind stays behind the mark.
                Scope::Org(org) => !places.has_room(org),
            };
            if is_all_full {
                cut = Some(Cut::Full(place));
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.note_end(scope, cut);
        Ok(due)
    }

    /// Returns what to look at next, and from where: what has been due longest of what may run.
    fn next_scope(&mut self, places: &Places<'_>) -> Option<(Position, Scope)> {
        let waiting = &mut self.waiting;
        self.freed.retain(|key| {
            let Some(first) = waiting.keys.get(key).copied() else { return false };
            let ((_, _, org), _) = first;
            let full = places.full(Some(*key), org);
            if let Some(full @ Full::Org(_)) = full {
                // No job of the key has to end before this one can run, so it is not the key's.
                waiting.add(full, first);
            }
            full.is_none()
        });
        let keys = self.freed.iter().map(|key| (self.waiting.keys[key], Scope::Key(*key)));
        let orgs = self.waiting.orgs.iter().filter(|(org, _)| places.has_room(**org));
        let orgs = orgs.map(|(org, first)| (*first, Scope::Org(*org)));
        let all = (!self.is_at_end).then_some((self.next.unwrap_or(START), Scope::All));
        keys.chain(orgs).chain(all).min_by_key(|(from, _)| *from)
    }

    /// Notes where a part ended; `None`: with the last due job.
    fn note_end(&mut self, scope: Scope, cut: Option<Cut>) {
        let place = match cut {
            Some(Cut::Long(place) | Cut::Full(place)) => Some(place),
            None => None,
        };
        match scope {
            Scope::All => {
                (self.next, self.is_at_end) = (place, place.is_none());
                if let Some((at, took @ None)) = self.whole.as_mut().filter(|_| place.is_none()) {
                    *took = Some(at.elapsed());
                }
            }
            Scope::Key(key) => {
                if !matches!(cut, Some(Cut::Long(_))) {
                    self.freed.remove(&key);
                }
                set(&mut self.waiting.keys, key, place);
            }
            Scope::Org(org) => set(&mut self.waiting.orgs, org, place),
        }
    }
}

fn set<K: Eq + Hash>(places: &mut HashMap<K, Position>, of: K, place: Option<Position>) {
    match place {
        Some(place) => drop(places.insert(of, place)),
        None => drop(places.remove(&of)),
    }
}
