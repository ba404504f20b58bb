//! Jobs that were given up, and rows of jobs that cannot be read.

use bincode::{Decode, Encode};

use super::*;
use crate::outbox::jobs::DueKey;
use crate::outbox::{RETRY_DEAD, SweepProgress};
use crate::store::{AnyIndex, Index, Record};

const DAY_SECS: i64 = 24 * 3600;

/// Leaves a job that has failed for a day.
async fn give_up(runner: &Runner) {
    write_job(runner, &BROKEN).await;
    fail_until_given_up(runner).await;
}

async fn fail_until_given_up(runner: &Runner) {
    while let Some(job) = jobs(runner).iter().find(|job| !job.dead) {
        runner.store.clock().advance_secs(job.due_at.secs() - runner.store.clock().now().secs());
        run_due(runner).await;
    }
}

async fn run_due(runner: &Runner) {
    while let Some(job) = runner.lease_one().await {
        runner.execute(job).await;
    }
}

fn dead(runner: &Runner) -> u64 {
    runner.store.read_now(Id::NIL, dead_jobs).unwrap()
}

/// Does a round of the sweep; returns the number of its steps.
async fn retry(runner: &Runner) -> usize {
    let mut settings = RetentionSettings::default();
    for step in 1.. {
        let own = settings.clone();
        let run = move |tx: &mut Tx| (RETRY_DEAD.run)(tx, &own);
        match runner.store.write(Id::NIL, run).await.unwrap() {
            SweepProgress::Clean => return step,
            SweepProgress::More => panic!("it says behind what"),
            SweepProgress::MoreBehind(position) => settings.behind = Some(position),
        }
    }
    unreachable!()
}

#[tokio::test]
async fn a_job_that_was_given_up_is_tried_once_more_by_each_round_and_done_when_it_can_be() {
    let mut runner = runner();
    give_up(&runner).await;
    let attempts = jobs(&runner)[0].attempts;
    for round in 1..=2 {
        runner.store.clock().advance_secs(6 * 3600);
        retry(&runner).await;
        assert_eq!(dead(&runner), 0);
        run_due(&runner).await;
        assert_eq!((dead(&runner), jobs(&runner)[0].attempts), (1, attempts + round));
        // Not once more within the round.
        retry(&runner).await;
        assert_eq!(dead(&runner), 1);
    }
    // A new version of the server can do it.
    const MENDED: JobHandler = JobHandler { kind: BROKEN.kind, ..DONE };
    runner.jobs = vec![&MENDED];
    runner.store.clock().advance_secs(6 * 3600);
    retry(&runner).await;
    run_due(&runner).await;
    assert_eq!((events(&runner, org(1)), jobs(&runner).len()), (1, 0));
}

#[tokio::test]
async fn a_job_that_has_failed_for_a_month_is_only_counted_and_then_only_kept() {
    let runner = runner();
    give_up(&runner).await;
    runner.store.clock().advance_secs(28 * DAY_SECS);
    retry(&runner).await;
    run_due(&runner).await;
    runner.store.clock().advance_secs(2 * DAY_SECS);
    retry(&runner).await;
    assert_eq!(dead(&runner), 1, "it is not tried any more");
    runner.store.clock().advance_secs(29 * DAY_SECS);
    assert_eq!((dead(&runner), jobs(&runner).len()), (0, 1));
}

#[tokio::test]
async fn a_round_tries_many_in_steps() {
    let runner = runner();
    const JOBS: usize = 1_100;
    let write = |tx: &mut Tx| {
        for _ in 0..JOBS {
            let id = enqueue(tx, &DONE, Id::NIL, None, tx.now())?;
            let job: Job = tx.fetch(&id)?;
            tx.replace(&job, &Job { dead: true, failing_since: Some(tx.now()), ..job.clone() })?;
        }
        Ok(())
    };
    runner.store.write(org(1), write).await.unwrap();
    assert_eq!(dead(&runner), JOBS as u64);
    runner.store.clock().advance_secs(DAY_SECS);
    assert_eq!(retry(&runner).await, 3);
    assert_eq!(dead(&runner), 0);
}

/// A row of a job that a newer version wrote, or that is damaged.
#[derive(Clone, Debug, Encode, Decode)]
struct Unreadable {
    id: Id<Job>,
    due_at: Time,
}
crate::base::portable!(Unreadable { id, due_at });

static BY_DUE: Index<Unreadable, DueKey> =
    Index::non_unique("jobs.by_due", |row: &Unreadable| Some((row.due_at, None, Id::NIL)));
static DEAD: Index<Unreadable, Time> =
    Index::non_unique("jobs.dead", |row: &Unreadable| Some(row.due_at));

impl Record for Unreadable {
    const TABLE: &'static str = "jobs";
    const EXPORT: crate::store::Export<Self> = crate::store::Export::WHOLE;
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DUE, &DEAD];
    const VERSION: u8 = 200;
    type Key = Id<Job>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

#[tokio::test]
async fn a_job_that_cannot_be_read_delays_no_other() {
    let runner = runner();
    let damage = |tx: &mut Tx| {
        // One is due now; one is due within a lease, as if the last process had been executing it.
        for secs in [0, 30] {
            tx.insert(&Unreadable { id: tx.new_id(), due_at: tx.now().plus_secs(secs) })?;
        }
        Ok(())
    };
    runner.store.write(Id::NIL, damage).await.unwrap();
    runner.store.clock().advance_secs(1);
    let now = runner.store.clock().now();
    let write = move |tx: &mut Tx| enqueue(tx, &DONE, Id::NIL, None, now);
    runner.store.write(org(1), write).await.unwrap();
    // Killed before it executed the job.
    let leased = runner.lease(&InFlight::default(), &mut DueScan::default(), 9).await;
    assert_eq!(leased.len(), 1);
    runner.end_old_leases().await.unwrap();
    let again = runner.lease(&InFlight::default(), &mut DueScan::default(), 9).await;
    assert_eq!(again.len(), 1);
    runner.execute(again.into_iter().next().unwrap()).await;
    assert_eq!(events(&runner, org(1)), 1);
    runner.store.clock().advance_secs(3600);
    retry(&runner).await;
    assert!(runner.store.known_damage().is_some());
}
