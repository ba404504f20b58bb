//! Deliveries whose channel is disabled, enabled or deleted.

use serde_json::json;

use super::harness::*;
use super::*;
use crate::outbox::{Channel, DeliveryStatus, SUBSCRIPTIONS, SWEEP_ROWS, set_channel_enabled};

async fn switch(runner: &Runner, id: Id<Channel>, enabled: bool) {
    let switch = move |tx: &mut Tx| set_channel_enabled(tx, &tx.fetch(&id)?, enabled, None);
    runner.write(switch).await;
}

async fn delete(runner: &Runner, id: Id<Channel>) {
    runner.write(move |tx| tx.remove(&tx.fetch::<Channel>(&id)?)).await;
}

fn is_enabled(runner: &Runner, id: Id<Channel>) -> bool {
    runner.store.read_now(org(1), |view| Ok(view.fetch::<Channel>(&id)?.enabled)).unwrap()
}

/// The number of deliveries with this status.
fn count(runner: &Runner, status: DeliveryStatus) -> usize {
    runner.deliveries().iter().filter(|delivery| delivery.status == status).count()
}

#[tokio::test]
async fn events_wait_while_a_channel_is_disabled() {
    let runner = in_memory();
    let mut receiver = Receiver::answering(&[200]).await;
    let channel = runner.webhook(&receiver).await;
    runner.publish(json!({})).await;
    switch(&runner, channel, false).await;
    runner.publish(json!({})).await;
    runner.run_due().await;
    for waiting in runner.deliveries() {
        assert_eq!((waiting.status, waiting.attempts), (DeliveryStatus::Failed, 0));
        assert_eq!((waiting.error, waiting.next_attempt_at, waiting.job), (None, None, None));
    }
    runner.pass_secs(48 * 3600);
    runner.run_due().await;
    assert_eq!(receiver.count(), 0);
    assert!(jobs(&runner).is_empty(), "nothing polls the channel");

    switch(&runner, channel, true).await;
    runner.run_due().await;
    assert_eq!((receiver.count(), count(&runner, DeliveryStatus::Sent)), (2, 2));
}

#[tokio::test]
async fn status_410_ends_the_delivery_and_disables_the_channel() {
    let runner = in_memory();
    let mut receiver = Receiver::answering(&[410, 200]).await;
    let channel = runner.webhook(&receiver).await;
    runner.publish(json!({})).await;
    runner.publish(json!({})).await;
    runner.run_due().await;
    assert_eq!(receiver.count(), 1);
    assert!(!is_enabled(&runner, channel));
    let [first, second] = runner.deliveries().try_into().unwrap();
    assert_eq!((first.status, first.attempts), (DeliveryStatus::Dead, 1));
    let error = "the channel's address answered with status 410";
    assert_eq!(first.error.as_deref(), Some(error));
    assert_eq!((second.status, second.attempts), (DeliveryStatus::Failed, 0));

    switch(&runner, channel, true).await;
    runner.run_due().await;
    let [first, second] = runner.deliveries().try_into().unwrap();
    assert_eq!((first.status, second.status), (DeliveryStatus::Dead, DeliveryStatus::Sent));
}

#[tokio::test]
async fn undelivered_entries_of_a_deleted_channel_are_dead() {
    let runner = in_memory();
    let receiver = Receiver::answering(&[200]).await;
    let channels = [runner.webhook(&receiver).await, runner.webhook(&receiver).await];
    runner.publish(json!({})).await;
    let fan_out = runner.lease_one().await.unwrap();
    runner.execute(fan_out).await;
    // One is due, the other waits.
    switch(&runner, channels[1], false).await;
    let waits = runner.lease_one().await.unwrap();
    let job = if waits.concurrency_key == Some(channels[1].cast()) {
        waits
    } else {
        runner.lease_one().await.unwrap()
    };
    runner.execute(job).await;
    runner.pass_secs(LEASE_SECS);
    for channel in channels {
        delete(&runner, channel).await;
    }
    runner.run_due().await;
    for dead in runner.deliveries() {
        assert_eq!((dead.status, dead.attempts), (DeliveryStatus::Dead, 0));
        assert_eq!(dead.error.as_deref(), Some("the channel was deleted"));
    }
    assert!(jobs(&runner).is_empty());
    let left = runner.store.read_now(org(1), |view| view.count(&SUBSCRIPTIONS, &(), 9)).unwrap();
    assert_eq!(left, 0);
    // Later events are only in the log.
    runner.publish(json!({})).await;
    assert!(jobs(&runner).is_empty());
}

#[tokio::test]
async fn many_waiting_deliveries_are_scheduled_in_steps() {
    let runner = in_memory();
    let channel = runner.channel(&ROW, json!({})).await;
    let many = SWEEP_ROWS + 3;
    let publish_many = move |tx: &mut Tx| (0..many).try_for_each(|_| leave_event(tx));
    runner.write(publish_many).await;
    switch(&runner, channel, false).await;
    runner.run_due().await;
    assert_eq!(count(&runner, DeliveryStatus::Failed), many);
    switch(&runner, channel, true).await;
    let release = runner.lease_one().await.unwrap();
    runner.execute(release).await;
    assert_eq!(jobs(&runner).len(), SWEEP_ROWS + 1);
    runner.run_due().await;
    assert_eq!(count(&runner, DeliveryStatus::Sent), many);
}

#[tokio::test]
async fn waiting_deliveries_of_a_deleted_channel_end_in_steps() {
    let runner = in_memory();
    let channel = runner.channel(&ROW, json!({})).await;
    let many = SWEEP_ROWS + 3;
    let publish_many = move |tx: &mut Tx| (0..many).try_for_each(|_| leave_event(tx));
    runner.write(publish_many).await;
    switch(&runner, channel, false).await;
    runner.run_due().await;
    delete(&runner, channel).await;
    let at_once = count(&runner, DeliveryStatus::Dead);
    assert!(at_once > 0 && at_once < many, "{at_once}");
    for _ in 0..3 {
        runner.write(|tx| tx.continue_removals().map(drop)).await;
    }
    assert_eq!((count(&runner, DeliveryStatus::Dead), jobs(&runner).len()), (many, 0));
}

#[tokio::test]
async fn a_receiver_that_is_gone_does_not_end_a_channel_that_has_another_since() {
    let runner = in_memory();
    let mut receiver = Receiver::answering(&[410, 200]).await;
    let channel = runner.webhook(&receiver).await;
    runner.publish(json!({})).await;
    let fan_out = runner.lease_one().await.unwrap();
    runner.execute(fan_out).await;
    let late = runner.lease_one().await.unwrap();
    runner.pass_secs(1);
    let change = move |tx: &mut Tx| {
        let old = tx.fetch::<Channel>(&channel)?;
        tx.replace(&old, &Channel { updated_at: tx.now(), ..old.clone() })
    };
    runner.write(change).await;
    runner.execute(late).await;
    assert!(is_enabled(&runner, channel));
    assert_eq!(runner.only_delivery().status, DeliveryStatus::Failed);
    runner.pass_secs(5);
    runner.run_due().await;
    assert_eq!(runner.only_delivery().status, DeliveryStatus::Sent);
    assert_eq!(receiver.count(), 2);
}

#[tokio::test]
async fn a_disabled_subscription_delivers_nothing() {
    let runner = in_memory();
    runner.channel(&ROW, json!({})).await;
    let switch_off = |tx: &mut Tx| {
        let subscription: crate::outbox::Subscription = tx.all(ListSource::TABLE, &())?.remove(0);
        tx.replace(
            &subscription,
            &crate::outbox::Subscription { enabled: false, ..subscription.clone() },
        )
    };
    runner.write(switch_off).await;
    runner.publish(json!({})).await;
    assert!(jobs(&runner).is_empty());
}
