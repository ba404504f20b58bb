//! Jobs that were written while the clock was ahead.

use super::*;
use crate::outbox::MAX_DELAY_SECS;
use crate::outbox::misdated::{CONFIRM_TIME, Misdated};

const MONTH_SECS: i64 = 30 * 24 * 3600;

async fn enqueue_at(runner: &Runner, number: usize, due_at: Time) {
    let write = move |tx: &mut Tx| {
        (0..number).try_for_each(|_| enqueue(tx, &DONE, Id::NIL, None, due_at).map(drop))
    };
    runner.store.write(org(1), write).await.unwrap();
}

/// Looks twice, so far apart that what is found counts.
async fn corrected(runner: &Runner) -> usize {
    let (mut misdated, now) = (Misdated::default(), Instant::now());
    assert_eq!(misdated.look(&runner.store, now).await.unwrap(), 0, "seen for the first time");
    misdated.look(&runner.store, now + CONFIRM_TIME).await.unwrap()
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

    assert_eq!(corrected(&runner).await, 3);
    let again = [runner.lease_one().await, runner.lease_one().await, runner.lease_one().await];
    assert!(again.iter().flatten().any(|job| job.id == leased.id && job.attempts == 2));
    assert_eq!(again.iter().flatten().count(), 3);
    // What the first attempt of it says does not count any more.
    runner.execute(leased).await;
    assert_eq!(events(&runner, org(1)), 0);
}

#[tokio::test]
async fn a_clock_that_was_some_hours_ahead_delays_nothing_by_hours() {
    let runner = runner();
    let hours = MAX_DELAY_SECS - 3600;
    let later = runner.store.clock().now().plus_secs(hours + 1800);
    // What waits for a time within the longest delay, as was decided by a right clock.
    enqueue_at(&runner, 1, later).await;
    runner.store.clock().advance_secs(hours);
    write_job(&runner, &BROKEN).await;
    let broken = runner.lease_one().await.unwrap();
    runner.execute(broken).await;
    write_job(&runner, &DONE).await;
    runner.store.clock().advance_secs(-hours);
    assert!(runner.lease_one().await.is_none(), "they wait for hours");

    assert_eq!(corrected(&runner).await, 2);
    let again = [runner.lease_one().await, runner.lease_one().await, runner.lease_one().await];
    assert_eq!(again.iter().flatten().count(), 2);
    assert!(jobs(&runner).iter().any(|job| job.due_at == later));
}

#[tokio::test]
async fn those_behind_many_that_are_right_are_found() {
    let runner = runner();
    let hours = MAX_DELAY_SECS - 3600;
    enqueue_at(&runner, 1_200, runner.store.clock().now().plus_secs(1800)).await;
    runner.store.clock().advance_secs(hours);
    write_job(&runner, &DONE).await;
    runner.store.clock().advance_secs(-hours);
    assert_eq!(corrected(&runner).await, 1);
    assert!(runner.lease_one().await.is_some());
}

#[tokio::test]
async fn a_job_waits_for_its_time_if_the_clock_was_right() {
    let runner = runner();
    let now = runner.store.clock().now();
    enqueue_at(&runner, 1, now.plus_secs(MAX_DELAY_SECS)).await;
    // Servers that share a store may differ a little.
    runner.store.clock().advance_secs(-50);
    assert_eq!(corrected(&runner).await, 0);
    assert_eq!(jobs(&runner)[0].due_at, now.plus_secs(MAX_DELAY_SECS));
}

#[tokio::test]
async fn a_clock_that_is_behind_for_some_minutes_changes_no_job() {
    let runner = runner();
    let due_at = runner.store.clock().now().plus_secs(60);
    enqueue_at(&runner, 1, due_at).await;
    let (mut misdated, now) = (Misdated::default(), Instant::now());
    runner.store.clock().advance_secs(-MONTH_SECS);
    assert_eq!(misdated.look(&runner.store, now).await.unwrap(), 0);
    let soon = now + CONFIRM_TIME / 2;
    assert_eq!(misdated.look(&runner.store, soon).await.unwrap(), 0);
    runner.store.clock().advance_secs(MONTH_SECS);
    assert_eq!(misdated.look(&runner.store, now + CONFIRM_TIME).await.unwrap(), 0);
    // It counts from the next time on.
    runner.store.clock().advance_secs(-MONTH_SECS);
    assert_eq!(misdated.look(&runner.store, now + 2 * CONFIRM_TIME).await.unwrap(), 0);
    assert_eq!(jobs(&runner)[0].due_at, due_at);
}

#[tokio::test]
async fn many_are_corrected_at_once_and_only_once() {
    let runner = runner();
    runner.store.clock().advance_secs(MONTH_SECS);
    let ahead = runner.store.clock().now();
    enqueue_at(&runner, 1200, ahead).await;
    runner.store.clock().advance_secs(-MONTH_SECS);
    assert_eq!(corrected(&runner).await, 1200);
    assert_eq!(corrected(&runner).await, 0);
}
