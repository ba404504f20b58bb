//! Dead jobs: those that were given up. They are counted, replaced when what they were to do is begun
//! again, and forgotten after a time.

use std::ops::ControlFlow;

use uuid::Uuid;

use super::handlers::JobHandler;
use super::jobs::{DEAD, Job, Target};
use super::sweeps::{RetentionSettings, SWEEP_ROWS, Sweep, SweepProgress};
use crate::base::{Id, Result, Time};
use crate::store::{Order, Tx, View};

/// More dead jobs than this are not counted, nor looked at in a step of a sweep.
const MAX_COUNTED: usize = 10_000;

/// Returns how many jobs are dead, of all organizations and of the installation.
pub fn dead_jobs(view: &View) -> Result<u64> {
    Ok(view.count(&DEAD, &(), MAX_COUNTED)? as u64)
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
        let job: Job = tx.fetch(&id)?;
        if job.kind == handler.kind {
            tx.remove(&job)?;
            is_any = true;
        }
    }
    Ok(is_any)
}

/// Dead jobs are kept for 30 days, so that somebody can find out why.
const DEAD_KEPT_SECS: i64 = 30 * 24 * 3600;

/// Removes dead jobs that are older.
pub const FORGET_DEAD_JOBS: Sweep =
    Sweep { name: "forget dead jobs", every_secs: 3600, run: forget_dead, installation: true };

fn forget_dead(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let before = tx.now().minus_secs(DEAD_KEPT_SECS);
    let (mut old, mut looked_at) = (Vec::new(), 0);
    let [start, end] = [Uuid::nil(), Uuid::max()].map(|id| (Id::<Target>::new(id), before));
    tx.view().entries(&DEAD, &start, &end, Order::Ascending, |(_, at), id| {
        looked_at += 1;
        if at < before {
            old.push(id);
        }
        let is_enough = old.len() == SWEEP_ROWS || looked_at == MAX_COUNTED;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for id in &old {
        let job: Job = tx.fetch(id)?;
        tx.remove(&job)?;
    }
    Ok(SweepProgress::after(old.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{Prepared, Settled, TABLES, enqueue};
    use crate::store::{Clock, Store};

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
    fn dead_jobs_are_forgotten_after_30_days_and_not_before() {
        const DAY_SECS: i64 = 24 * 3600;
        let store = store();
        let sweep = || {
            let step = |tx: &mut Tx| (FORGET_DEAD_JOBS.run)(tx, &RetentionSettings::default());
            assert_eq!(store.write_blocking(Id::NIL, step).unwrap(), SweepProgress::Clean);
        };
        leave(&store, 1, &KIND, 9);
        store.clock().advance_secs(29 * DAY_SECS);
        leave(&store, 0, &KIND, 3);
        sweep();
        assert_eq!(count(&store), 2);
        store.clock().advance_secs(2 * DAY_SECS);
        sweep();
        assert_eq!(count(&store), 1);
    }
}
