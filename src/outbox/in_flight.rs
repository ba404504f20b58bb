//! The running jobs, and the limits that keep one slow receiver, or one organization, from delaying the
//! others.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::task::{self, JoinError};

use super::jobs::Target;
use crate::base::Id;
use crate::store::Org;

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

/// The running jobs.
#[derive(Default)]
pub struct InFlight {
    running: HashMap<task::Id, (Option<Id<Target>>, Id<Org>)>,
    /// The keys whose last job was fast.
    fast: HashSet<Id<Target>>,
    /// The keys of which a job has ended: others of them may have waited for it.
    freed: HashSet<Id<Target>>,
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
        let Some((Some(key), _)) = self.running.remove(&task) else { return };
        self.freed.insert(key);
        if took >= FAST {
            self.fast.remove(&key);
            return;
        }
        if self.fast.len() >= MAX_FAST {
            self.fast.clear();
        }
        self.fast.insert(key);
    }

    /// Returns the keys of which a job has ended since the last call.
    pub fn take_freed(&mut self) -> HashSet<Id<Target>> {
        std::mem::take(&mut self.freed)
    }

    /// Returns the places that are taken.
    pub fn places(&self) -> Places<'_> {
        let mut places =
            Places { in_flight: self, keys: HashMap::new(), orgs: HashMap::new(), all: 0 };
        for (key, org) in self.running.values() {
            places.take(*key, *org);
        }
        places
    }
}

/// A limit of running jobs that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// No more of this key may run.
    Key(Id<Target>),
    /// No more of this organization may run.
    Org(Id<Org>),
}

/// How many jobs of each key and organization run or are about to.
pub struct Places<'a> {
    in_flight: &'a InFlight,
    keys: HashMap<Id<Target>, usize>,
    orgs: HashMap<Id<Org>, usize>,
    all: usize,
}

impl Places<'_> {
    /// Notes that a job of this key and organization is about to run.
    pub fn take(&mut self, key: Option<Id<Target>>, org: Id<Org>) {
        if let Some(key) = key {
            *self.keys.entry(key).or_default() += 1;
        }
        *self.orgs.entry(org).or_default() += 1;
        self.all += 1;
    }

    /// Returns the limit that keeps one more job of this key and organization from running; that of
    /// the key, if both do.
    pub fn full(&self, key: Option<Id<Target>>, org: Id<Org>) -> Option<Full> {
        let taken = |key: &Id<Target>| self.keys.get(key).copied().unwrap_or_default();
        let limit =
            |key: &Id<Target>| if self.in_flight.fast.contains(key) { MAX_PER_KEY } else { 1 };
        let full_key = key.filter(|key| taken(key) >= limit(key)).map(Full::Key);
        full_key.or_else(|| (!self.has_room(org)).then_some(Full::Org(org)))
    }

    /// Whether one more job of this organization may run, if its key allows. An organization has at
    /// most as many places as remain free: the first half of all, then half of the rest, and so on, so
    /// that there is always one for another.
    pub fn has_room(&self, org: Id<Org>) -> bool {
        let of_org = self.orgs.get(&org).copied().unwrap_or_default();
        of_org < MAX_IN_FLIGHT.saturating_sub(self.all)
    }
}
