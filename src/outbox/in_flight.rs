//! Which due jobs may run now: those that are running, and the limits that keep one slow receiver, or
//! one organization, from delaying the others.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tokio::task::{self, JoinError};

use super::jobs::{BY_DUE, DueKey, Job, Target};
use crate::base::{Id, Result, Time};
use crate::store::{Order, Org, View};

/// At most 208 jobs at once: each may hold a connection. Half of them are more than an organization
/// has channels, so that it has a place for each of them even if none responds. Fewer than the calls
/// that the process may make at once, so that requests can always make some.
pub const MAX_IN_FLIGHT: usize = 208;

/// At most 4 of them have the same concurrency key: a receiver takes several messages at a time, and
/// not all of them.
pub const MAX_PER_KEY: usize = 4;

/// A key has one job at a time until one took less than this: a receiver that does not respond holds
/// one place and not four.
const FAST: Duration = Duration::from_secs(1);

/// So many fast keys are remembered; then all are forgotten, and found fast again. Keys whose
/// receiver was deleted stay among them.
const MAX_FAST: usize = 10_000;

/// A part of a scan looks at this many entries, less than a millisecond; the next one continues
/// there. Of a receiver that does not respond very many can be due.
const MAX_SCANNED: usize = 2_000;

/// All due jobs are looked at this often at least.
const WHOLE_EVERY: Duration = Duration::from_secs(1);

/// A job that is enqueued while others are committed can be due a little before what was seen.
const MARGIN_SECS: i64 = 2;

/// The running jobs.
#[derive(Default)]
pub struct InFlight {
    running: HashMap<task::Id, (Option<Id<Target>>, Id<Org>)>,
    /// The keys whose last job was fast.
    fast: HashSet<Id<Target>>,
    /// Whether a job ended that kept others from running.
    freed: bool,
}

impl InFlight {
    /// Returns the number of running jobs.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Notes that a job runs.
    pub fn begin(&mut self, task: task::Id, key: Option<Id<Target>>, org: Id<Org>) {
        self.running.insert(task, (key, org));
    }

    /// Notes that a job has ended, after this time.
    pub fn end(&mut self, ended: Result<(task::Id, Duration), JoinError>) {
        let (task, took) = match ended {
            Ok((task, took)) => (task, took),
            Err(error) => (error.id(), Duration::ZERO),
        };
        let Some((key, org)) = self.running.get(&task).copied() else { return };
        self.freed |= !self.places().is_free(key, org);
        self.running.remove(&task);
        let Some(key) = key else { return };
        if took >= FAST {
            self.fast.remove(&key);
            return;
        }
        if self.fast.len() >= MAX_FAST {
            self.fast.clear();
        }
        // Others of its key were kept from running until now.
        self.freed |= self.fast.insert(key);
    }

    /// Returns whether a job ended since that kept others from running.
    pub fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// Returns the places that are taken.
    fn places(&self) -> Places<'_> {
        let mut places =
            Places { in_flight: self, keys: HashMap::new(), orgs: HashMap::new(), all: 0 };
        for (key, org) in self.running.values() {
            places.take(*key, *org);
        }
        places
    }
}

/// How many jobs of each key and organization run or are about to.
struct Places<'a> {
    in_flight: &'a InFlight,
    keys: HashMap<Id<Target>, usize>,
    orgs: HashMap<Id<Org>, usize>,
    all: usize,
}

impl Places<'_> {
    fn take(&mut self, key: Option<Id<Target>>, org: Id<Org>) {
        if let Some(key) = key {
            *self.keys.entry(key).or_default() += 1;
        }
        *self.orgs.entry(org).or_default() += 1;
        self.all += 1;
    }

    /// Whether one more job of this key and organization may run. An organization has at most as
    /// many places as remain free: the first half of all, then half of the rest, and so on, so that
    /// there is always one for another.
    fn is_free(&self, key: Option<Id<Target>>, org: Id<Org>) -> bool {
        let taken = |key: Id<Target>| self.keys.get(&key).copied().unwrap_or_default();
        let limit = |key| if self.in_flight.fast.contains(&key) { MAX_PER_KEY } else { 1 };
        let of_org = self.orgs.get(&org).copied().unwrap_or_default();
        let free = MAX_IN_FLIGHT.saturating_sub(self.all);
        key.is_none_or(|key| taken(key) < limit(key)) && of_org < free
    }
}

/// Scans of the due jobs, in parts. Most scans begin where the one before ended: a long backlog of a
/// receiver that does not respond is not looked at each time another job ends.
#[derive(Default)]
pub struct DueScan {
    /// The last entry of the part before.
    after: Option<(DueKey, Id<Job>)>,
    is_at_end: bool,
    /// When the scan began, by the clock of the store.
    began_at: Option<Time>,
    /// When the last scan from the first entry began.
    whole_at: Option<Instant>,
}

impl DueScan {
    /// Begins another scan: of all due jobs if the one before did not reach the end, if `freed`, and
    /// once a second; else of those that became due since.
    pub fn begin(&mut self, freed: bool) {
        let is_recent = self.whole_at.is_some_and(|at| at.elapsed() < WHOLE_EVERY);
        self.after = match self.began_at {
            Some(at) if is_recent && self.is_at_end && !freed => {
                Some(((at.minus_secs(MARGIN_SECS), None, Id::NIL), Id::NIL))
            }
            _ => {
                self.whole_at = Some(Instant::now());
                None
            }
        };
        (self.is_at_end, self.began_at) = (false, None);
    }

    /// Ends the scan before it has seen all due jobs.
    pub fn abort(&mut self) {
        (self.is_at_end, self.whole_at) = (true, None);
    }

    /// Whether it has looked at all due jobs.
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Returns the jobs of the next part, at most `limit`, that may run now beside those in flight.
    ///
    /// # Errors
    /// If the store fails.
    pub fn next(
        &mut self,
        view: &View,
        in_flight: &InFlight,
        limit: usize,
    ) -> Result<Vec<Id<Job>>> {
        let mut places = in_flight.places();
        let mut due = Vec::new();
        let start = ((Time::from_millis(i64::MIN), None, Id::NIL), Id::NIL);
        let from = self.after.unwrap_or(start);
        let end = view.now().plus_millis(1);
        self.began_at.get_or_insert(view.now());
        let mut scanned = 0;
        self.is_at_end = true;
        view.entries(&BY_DUE, &from, &end, Order::Ascending, |entry, job| {
            if self.after == Some((entry, job)) {
                return Ok(ControlFlow::Continue(()));
            }
            if scanned == MAX_SCANNED || due.len() == limit {
                self.is_at_end = false;
                return Ok(ControlFlow::Break(()));
            }
            scanned += 1;
            self.after = Some((entry, job));
            let (_, key, org) = entry;
            if places.is_free(key, org) {
                places.take(key, org);
                due.push(job);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(due)
    }
}
