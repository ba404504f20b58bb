//! Jobs that were given up, and rows of jobs that cannot be read.

use std::collections::HashSet;

use bincode::{Decode, Encode};

use super::*;
use crate::outbox::jobs::DueKey;
use crate::outbox::{RETRY_DEAD, SweepProgress};
use crate::store::{AnyIndex, Index, Record};

const DAY_SECS: i64 = 24 * 3600;

/// Of jobs that run one after the other.
const KEY: Option<Id<Target>> = Some(Id::new(uuid::Uuid::from_u128(9)));

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

/// Does a round of the sweep of a server that started at this time.
async fn retry_since(runner: &Runner, started_at: Time) {
    let settings = RetentionSettings { started_at, ..RetentionSettings::default() };
    let run = move |tx: &mut Tx| (RETRY_DEAD.run)(tx, &settings);
    assert_eq!(runner.store.write(Id::NIL, run).await.unwrap(), SweepProgress::Clean);
}

/// The same of one that has run for long.
async fn retry(runner: &Runner) {
    retry_since(runner, Time::from_millis(0)).await;
}

#[tokio::test]
async fn a_job_that_was_given_up_is_tried_once_more_after_a_time_and_done_when_it_can_be() {
    let mut runner = runner();
    give_up(&runner).await;
    let attempts = jobs(&runner)[0].attempts;
    for round in 1..=2 {
        runner.store.clock().advance_secs(6 * 3600 + LEASE_SECS + 1);
        retry(&runner).await;
        assert_eq!(dead(&runner), 0);
        run_due(&runner).await;
        assert_eq!((dead(&runner), jobs(&runner)[0].attempts), (1, attempts + round));
        // Not once more at once.
        runner.store.clock().advance_secs(5 * 3600);
        retry(&runner).await;
        assert_eq!(dead(&runner), 1);
    }
    // A new version of the server can do it.
    const MENDED: JobHandler = JobHandler { kind: BROKEN.kind, ..DONE };
    runner.jobs = vec![&MENDED];
    let now = runner.store.clock().now();
    retry_since(&runner, now).await;
    run_due(&runner).await;
    assert_eq!((events(&runner, org(1)), jobs(&runner).len()), (1, 0));
}

#[tokio::test]
async fn a_server_that_starts_again_and_again_tries_no_job_each_time() {
    let runner = runner();
    give_up(&runner).await;
    runner.store.clock().advance_secs(LEASE_SECS + 60);
    let now = runner.store.clock().now();
    retry_since(&runner, now).await;
    assert_eq!(dead(&runner), 1);
    runner.store.clock().advance_secs(300);
    retry_since(&runner, runner.store.clock().now()).await;
    assert_eq!(dead(&runner), 0);
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
async fn a_job_that_was_given_up_while_the_clock_was_ahead_is_tried_when_it_is_right() {
    let runner = runner();
    runner.store.clock().advance_secs(400 * DAY_SECS);
    give_up(&runner).await;
    runner.store.clock().advance_secs(-400 * DAY_SECS);
    retry(&runner).await;
    assert_eq!(dead(&runner), 0);
}

#[tokio::test]
async fn a_round_tries_500_those_first_that_were_tried_longest_ago() {
    let runner = runner();
    let leave = |number: usize, failing_since: Time| {
        let write = move |tx: &mut Tx| {
            for _ in 0..number {
                let id = enqueue(tx, &BROKEN, Id::NIL, None, tx.now())?;
                let job: Job = tx.fetch(&id)?;
                let failing_since = Some(failing_since);
                tx.replace(&job, &Job { dead: true, failing_since, failures: 9, ..job.clone() })?;
            }
            Ok(())
        };
        runner.store.write(org(1), write)
    };
    // Those that have failed for too long are in nobody's way.
    leave(600, NOON.minus_secs(40 * DAY_SECS)).await.unwrap();
    runner.store.clock().advance_secs(1);
    leave(600, NOON).await.unwrap();
    runner.store.clock().advance_secs(DAY_SECS);
    for left in [700, 600] {
        retry(&runner).await;
        assert_eq!(dead(&runner), left);
    }
}

#[tokio::test]
async fn a_delivery_that_the_server_could_not_do_for_a_day_is_dead_and_not_sent_late() {
    let runner = harness::in_memory();
    let channel = runner.channel(&harness::ROW, json!({})).await;
    runner.publish(json!({})).await;
    let fan_out = runner.lease_one().await.unwrap();
    runner.execute(fan_out).await;
    let give_up = |tx: &mut Tx| {
        let delivery = tx.all::<crate::outbox::Delivery>(ListSource::TABLE, &())?.remove(0);
        let job: Job = tx.fetch(&delivery.job.unwrap())?;
        let since = Some(tx.now().minus_secs(DAY_SECS));
        let dead = Job { failing_since: since, failures: 9, dead: true, ..job.clone() };
        tx.replace(&job, &dead)
    };
    runner.write(give_up).await;
    runner.pass_secs(7 * 3600);
    retry(&runner).await;
    runner.run_due().await;
    let delivery = runner.only_delivery();
    assert_eq!((delivery.channel, delivery.status), (channel, crate::outbox::DeliveryStatus::Dead));
    assert!(delivery.error.unwrap().contains("for a day"));
    assert_eq!(jobs(&runner).len(), 0);
}

crate::base::portable! {
/// A row of a job that a newer version wrote, or that is damaged.
#[derive(Clone, Debug, Encode, Decode)]
struct Unreadable {
    id: Id<Job>,
    due_at: Time,
}
}

static BY_DUE: Index<Unreadable, DueKey> =
    Index::non_unique("jobs.by_due", |row: &Unreadable| Some((row.due_at, KEY, org(1))));
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
    let write = move |tx: &mut Tx| enqueue(tx, &DONE, Id::NIL, KEY, now);
    runner.store.write(org(1), write).await.unwrap();
    // Nor one with the same key, of which one runs at a time.
    let mut scan = DueScan::default();
    assert_eq!(runner.lease(&InFlight::default(), &mut scan, 9).await.len(), 0);
    scan.abort();
    scan.begin(HashSet::new(), true, Instant::now());
    let leased = runner.lease(&InFlight::default(), &mut scan, 9).await;
    assert_eq!(leased.len(), 1);
    // Killed before it executed the job.
    runner.end_old_leases().await.unwrap();
    scan.abort();
    scan.begin(HashSet::new(), true, Instant::now());
    let again = runner.lease(&InFlight::default(), &mut scan, 9).await;
    assert_eq!(again.len(), 1);
    runner.execute(again.into_iter().next().unwrap()).await;
    assert_eq!(events(&runner, org(1)), 1);
    runner.store.clock().advance_secs(3600);
    retry(&runner).await;
    assert!(runner.store.known_damage().is_some());
}
