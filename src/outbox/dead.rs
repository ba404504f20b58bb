//! Dead jobs: those that were given up. They are counted for a time, and replaced when what they were to
//! do is begun again. They stay: records may say that they have a job by them.

use std::ops::ControlFlow;

use uuid::Uuid;

use super::handlers::JobHandler;
use super::jobs::{DEAD, Job, Target};
use crate::base::{Id, Kind, Result, Time};
use crate::store::{Order, Tx, View};

/// More dead jobs than this are not looked at to count them: those of the newest records are.
const MAX_LOOKED_AT: usize = 10_000;

/// A dead job is counted for 30 days: time enough to hear of it.
const COUNTED_SECS: i64 = 30 * 24 * 3600;

/// Returns how many jobs have died lately, of all organizations and of the installation.
pub fn dead_jobs(view: &View) -> Result<u64> {
    let since = view.now().minus_secs(COUNTED_SECS);
    let (mut looked_at, mut lately) = (0, 0);
    let start = (Id::<Target>::new(Uuid::nil()), Time::from_millis(i64::MIN));
    let end = (Id::<Target>::new(Uuid::max()), Time::from_millis(i64::MAX));
    view.entries(&DEAD, &start, &end, Order::Descending, |(_, at), _| {
        looked_at += 1;
        lately += u64::from(at >= since);
        let is_enough = looked_at == MAX_LOOKED_AT;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(lately)
}

/// Removes the dead jobs of a kind that are about this record, in whose place another one is enqueued.
/// Returns whether there were any.
pub fn remove_dead(tx: &mut Tx, handler: &JobHandler, target: Id<Target>) -> Result<bool> {
    let mut dead = Vec::new();
    let [start, end] = [i64::MIN, i64::MAX].map(|millis| (target, Time::from_millis(millis)));
    tx.view().entries(&DEAD, &start, &end, Order::Ascending, |_, id| {
        dead.push(id);
        Ok(ControlFlow::Continue(()))
    })?;
    let mut is_any = false;
    for id in dead {
        // One that cannot be read has been noted as damage, and is in the way of nothing else.
        let job: Job = match tx.fetch(&id) {
            Err(error) if error.kind() == Kind::Internal => continue,
            job => job?,
        };
        if job.kind == handler.kind {
            tx.remove(&job)?;
            is_any = true;
        }
    }
    Ok(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{Prepared, Settled, TABLES, enqueue};
    use crate::store::{Clock, ListSource, Store};

    const KIND: JobHandler = JobHandler {
        kind: "test.kind",
        prepare: |_, _| Ok(Prepared::Done),
        settle: |_, _, _| Ok(Settled::Done),
    };
    const OTHER: JobHandler = JobHandler { kind: "test.other", ..KIND };

    fn store() -> Store {
        Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), TABLES)
    }

    /// Leaves a dead job of an organization (0: of the installation) about a record.
    fn leave(store: &Store, org: u128, handler: &'static JobHandler, target: u128) {
        let [org, target] = [org, target].map(Uuid::from_u128);
        let write = move |tx: &mut Tx| {
            let now = tx.now();
            let id = enqueue(tx, handler, Id::new(target), None, now)?;
            let job: Job = tx.fetch(&id)?;
            tx.replace(&job, &Job { dead: true, ..job.clone() })
        };
        store.write_blocking(Id::new(org), write).unwrap();
    }

    fn count(store: &Store) -> u64 {
        store.read_now(Id::NIL, dead_jobs).unwrap()
    }

    #[test]
    fn all_dead_jobs_are_counted_also_those_of_the_installation() {
        let store = store();
        for org in [0, 1, 1, 2] {
            leave(&store, org, &KIND, 7);
        }
        assert_eq!(count(&store), 4);
    }

    #[test]
    fn a_dead_job_is_replaced_by_one_of_its_kind_about_the_same_record() {
        let store = store();
        for (handler, target) in [(&KIND, 7), (&KIND, 8), (&OTHER, 7)] {
            leave(&store, 1, handler, target);
        }
        let remove = |tx: &mut Tx| remove_dead(tx, &KIND, Id::new(Uuid::from_u128(7)));
        for (removed, left) in [(true, 2), (false, 2)] {
            assert_eq!(store.write_blocking(Id::NIL, remove).unwrap(), removed);
            assert_eq!(count(&store), left);
        }
    }

    #[test]
    fn dead_jobs_are_counted_for_30_days_and_kept() {
        const DAY_SECS: i64 = 24 * 3600;
        let store = store();
        leave(&store, 1, &KIND, 0);
        store.clock().advance_secs(29 * DAY_SECS);
        leave(&store, 0, &KIND, 3);
        assert_eq!(count(&store), 2);
        store.clock().advance_secs(2 * DAY_SECS);
        assert_eq!(count(&store), 1);
        let kept = store.read_now(Id::NIL, |view| view.all::<Job>(ListSource::TABLE, &()));
        assert_eq!(kept.unwrap().len(), 2);
    }
}
