//! Jobs that were written while the clock was ahead.

use super::*;
use crate::outbox::MAX_DELAY_SECS;

const MONTH_SECS: i64 = 30 * 24 * 3600;

async fn enqueue_at(runner: &Runner, number: usize, due_at: Time) {
    let write = move |tx: &mut Tx| {
        (0..number).try_for_each(|_| enqueue(tx, &DONE, Id::NIL, None, due_at).map(drop))
    };
    runner.store.write(org(1), write).await.unwrap();
}

#[tokio::test]
async fn what_was_enqueued_leased_or_retried_while_the_clock_was_ahead_is_due_once_it_is_right() {
    let runner = runner();
    write_job(&runner, &DONE).await;
    runner.store.clock().advance_secs(MONTH_SECS);
    let leased = runner.lease_one().await.unwrap();
    write_job(&runner, &BROKEN).await;
    let broken = runner.lease_one().await.unwrap();
    runner.execute(broken).await;
    write_job(&runner, &DONE).await;
    runner.store.clock().advance_secs(-MONTH_SECS);
    assert!(runner.lease_one().await.is_none(), "they wait for a month");

    runner.correct_times_once().await;
    let now = runner.store.clock().now();
    for job in jobs(&runner) {
        let failing_since = job.failing_since.unwrap_or(now);
        assert!(job.due_at <= now && job.created_at <= now && failing_since <= now, "{job:?}");
    }
    let again = [runner.lease_one().await, runner.lease_one().await, runner.lease_one().await];
    assert!(again.iter().flatten().any(|job| job.id == leased.id && job.attempts == 2));
    assert_eq!(again.iter().flatten().count(), 3);
    // What the first attempt of it says does not count any more.
    runner.execute(leased).await;
    assert_eq!(events(&runner, org(1)), 0);
}

#[tokio::test]
async fn a_job_waits_for_its_time_if_the_clock_was_right() {
    let runner = runner();
    let now = runner.store.clock().now();
    enqueue_at(&runner, 1, now.plus_secs(MAX_DELAY_SECS)).await;
    write_job(&runner, &DONE).await;
    runner.lease_one().await.unwrap();
    // Servers that share a store may differ a little.
    runner.store.clock().advance_secs(-50);
    let before: Vec<_> = jobs(&runner).iter().map(|job| (job.due_at, job.created_at)).collect();
    runner.correct_times_once().await;
    let after: Vec<_> = jobs(&runner).iter().map(|job| (job.due_at, job.created_at)).collect();
    assert_eq!(before, after);
}

#[tokio::test]
async fn many_are_corrected_at_once_and_only_once() {
    let runner = runner();
    runner.store.clock().advance_secs(MONTH_SECS);
    let ahead = runner.store.clock().now();
    enqueue_at(&runner, 1200, ahead).await;
    runner.store.clock().advance_secs(-MONTH_SECS);
    // Each time that there are some is a line of the log.
    assert_eq!(misdated::correct(&runner.store).await.unwrap(), 1200);
    assert_eq!(misdated::correct(&runner.store).await.unwrap(), 0);
}
