//! Deliveries: an effect of each kind, failures, and recovery after a crash.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::harness::*;
use super::*;
use crate::base::Keys;
use crate::outbox::{DeliveryStatus, Event, JOBS, LogEntry, redeliver, redeliver_range};
use crate::outside::webhook;
use crate::store::engine::Redb;
use crate::store::table_names;

#[tokio::test]
async fn an_event_is_delivered_by_a_call_a_mail_and_a_row() {
    let mailbox = Arc::new(Mailbox::default());
    let runner = runner_over(Store::in_memory(Clock::at(NOON), TABLES), mailbox.clone());
    let mut receiver = Receiver::answering(&[204]).await;
    let webhook = runner.webhook(&receiver).await;
    runner.channel(&EMAIL, json!({})).await;
    runner.channel(&ROW, json!({})).await;
    runner.publish(json!({"name": "ann"})).await;
    // Visible before any job ran.
    let log = runner.log();
    assert_eq!((log.len(), log[0].status, log[0].attempts), (1, DeliveryStatus::Sent, 1));
    runner.run_due().await;

    let deliveries = runner.deliveries();
    let posted = deliveries.iter().find(|delivery| delivery.channel == webhook).unwrap();
    let request = receiver.next().await;
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let expected: Value = json!({
        "type": "agent.error", "timestamp": "2027-01-15T08:00:00.000Z", "data": {"name": "ann"},
    });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
    let key = webhook::secret_key(SECRET).unwrap();
    for (name, value) in webhook::signed(&key, &posted.id.to_string(), NOON.secs(), body.as_bytes())
    {
        assert!(head.contains(&format!("{name}: {value}\r\n")), "{name} in {head}");
    }
    assert_eq!(mailbox.mails.lock().unwrap()[0].text, r#"{"name":"ann"}"#);
    let rows =
        runner.store.read_now(org(1), |view| view.all::<Row>(ListSource::TABLE, &())).unwrap();
    assert!(deliveries.iter().any(|delivery| delivery.id == rows[0].delivery));
    assert_eq!((receiver.count(), rows.len(), mailbox.mails.lock().unwrap().len()), (0, 1, 1));

    let log = runner.log();
    assert_eq!(log.len(), 4);
    for LogEntry { status, attempts, error, sent_at, next_attempt_at, payload, .. } in log {
        assert_eq!((status, attempts, error), (DeliveryStatus::Sent, 1, None));
        assert_eq!((sent_at, next_attempt_at), (Some(NOON), None));
        assert_eq!(payload.0, json!({"name": "ann"}));
    }
    assert!(jobs(&runner).is_empty());
}

#[tokio::test]
async fn an_event_without_subscriptions_costs_its_row_and_one_index_entry() {
    let runner = in_memory();
    // One that every member sees.
    let publish = |tx: &mut Tx| {
        let about = About::resource("team", tx.org());
        publish(tx, EventType::TeamTimelineSummary, about, json!({}))
    };
    runner.write(publish).await;
    let findings = runner.store.check(TABLES).unwrap();
    assert_eq!((findings.records, findings.entries, findings.wrong), (1, 1, 0));
}

#[tokio::test]
async fn a_failed_delivery_is_retried_until_it_succeeds() {
    let runner = in_memory();
    let receiver = Receiver::answering(&[500, 404, 302, 429, 503, 200]).await;
    runner.webhook(&receiver).await;
    runner.publish(json!({})).await;
    let fan_out = runner.lease_one().await.unwrap();
    runner.execute(fan_out).await;
    let untried = runner.only_delivery();
    assert_eq!((untried.status, untried.attempts), (DeliveryStatus::Failed, 0));
    assert_eq!((untried.error, untried.next_attempt_at), (None, Some(NOON)));

    let failures = [(500, 5), (404, 300), (302, 1_800), (429, 7_200), (503, 18_000)];
    for (attempts, (status, delay_secs)) in (1..).zip(failures) {
        let delay_millis = delay_secs * 1000;
        runner.run_due().await;
        let failed = runner.only_delivery();
        assert_eq!((failed.status, failed.attempts), (DeliveryStatus::Failed, attempts));
        let error = format!("the channel's address answered with status {status}");
        assert_eq!((failed.error, failed.sent_at), (Some(error), None));
        let now = runner.store.clock().now().millis();
        let delay = failed.next_attempt_at.unwrap().millis() - now;
        assert!((delay_millis * 9 / 10..=delay_millis).contains(&delay), "{delay}");
        assert_eq!(jobs(&runner)[0].due_at, failed.next_attempt_at.unwrap());
        runner.pass_secs(delay_secs);
    }
    runner.run_due().await;
    let sent = runner.only_delivery();
    assert_eq!((sent.status, sent.attempts, sent.error), (DeliveryStatus::Sent, 6, None));
    assert_eq!((sent.sent_at, sent.next_attempt_at), (Some(NOON.plus_secs(27_305)), None));
}

#[tokio::test]
async fn a_delivery_that_fails_for_a_day_is_dead_until_redelivered() {
    let mailbox = Arc::new(Mailbox::default());
    mailbox.refuses.store(true, Ordering::SeqCst);
    let runner = runner_over(Store::in_memory(Clock::at(NOON), TABLES), mailbox.clone());
    runner.channel(&EMAIL, json!({})).await;
    runner.publish(json!({})).await;
    for hour in 0..25 {
        runner.run_due().await;
        assert!(hour > 18 || !jobs(&runner).is_empty(), "given up after {hour} hours");
        runner.pass_secs(3600);
    }
    let dead = runner.only_delivery();
    assert_eq!(dead.status, DeliveryStatus::Dead);
    assert_eq!(dead.error.as_deref(), Some("mail.test refused the mail"));
    assert_eq!(dead.next_attempt_at, None);
    assert!((6..=9).contains(&dead.attempts), "{}", dead.attempts);
    assert!(jobs(&runner).is_empty());

    mailbox.refuses.store(false, Ordering::SeqCst);
    let entry = runner.write(move |tx| redeliver(tx, dead.id)).await;
    assert_eq!((entry.status, entry.attempts), (DeliveryStatus::Failed, dead.attempts));
    runner.run_due().await;
    // A sent delivery can be redelivered too.
    for again in 1..3 {
        let sent = runner.only_delivery();
        assert_eq!((sent.status, sent.attempts), (DeliveryStatus::Sent, dead.attempts + again));
        assert_eq!(sent.error, None);
        runner.write(move |tx| redeliver(tx, dead.id)).await;
        runner.run_due().await;
    }
    assert_eq!(mailbox.mails.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn deliveries_that_failed_together_are_not_retried_together() {
    let runner = in_memory();
    runner.channel(&UNABLE, json!({})).await;
    for _ in 0..20 {
        runner.publish(json!({})).await;
    }
    runner.run_due().await;
    let delay = |at: Time| at.millis() - NOON.millis();
    let delays: BTreeSet<_> =
        runner.deliveries().iter().map(|one| delay(one.next_attempt_at.unwrap())).collect();
    assert!(delays.len() > 5, "{delays:?}");
    assert!(delays.iter().all(|delay| (4_500..=5_000).contains(delay)), "{delays:?}");
}

#[tokio::test]
async fn an_entry_of_the_built_in_channel_is_redelivered_at_once() {
    let runner = in_memory();
    runner.publish(json!({})).await;
    runner.pass_secs(1);
    let id = runner.log()[0].id;
    runner.write(move |tx| redeliver(tx, id)).await;
    let again = runner.log().remove(0);
    assert_eq!((again.status, again.attempts), (DeliveryStatus::Sent, 2));
    assert_eq!((again.created_at, again.sent_at), (NOON, Some(NOON.plus_secs(1))));
    let unknown = runner.store.write(org(1), |tx| redeliver(tx, Id::NIL)).await;
    assert_eq!(unknown.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn a_range_is_redelivered_in_steps_and_each_entry_once() {
    let runner = in_memory();
    let channel = runner.channel(&ROW, json!({})).await;
    let other = runner.channel(&ROW, json!({})).await;
    // 250 that are dead or failed, of every time, and as many that were sent; more than two steps.
    for _ in 0..5 {
        runner.write(|tx| (0..50).try_for_each(|_| leave_event(tx))).await;
        runner.pass_secs(1);
    }
    let fan_outs = jobs(&runner).len();
    for _ in 0..fan_outs {
        let job = runner.lease_one().await.unwrap();
        runner.execute(job).await;
    }
    let spoil = |tx: &mut Tx| {
        for (n, job) in tx.all::<Job>(ListSource::TABLE, &())?.into_iter().enumerate() {
            let old: crate::outbox::Delivery = tx.fetch(&job.target.cast())?;
            let status =
                [DeliveryStatus::Dead, DeliveryStatus::Failed, DeliveryStatus::Sent][n % 3];
            let sent_at = (status == DeliveryStatus::Sent).then(|| tx.now());
            let job_id = (status == DeliveryStatus::Failed).then_some(job.id);
            let due_at = tx.now().plus_secs(9_000);
            tx.replace(&job, &Job { due_at, ..job.clone() })?;
            if job_id.is_none() {
                tx.remove(&tx.fetch::<Job>(&job.id)?)?;
            }
            let spoilt = crate::outbox::Delivery {
                status,
                sent_at,
                job: job_id,
                next_attempt_at: None,
                ..old.clone()
            };
            tx.replace(&old, &spoilt)?;
        }
        Ok(())
    };
    runner.write(spoil).await;
    runner.pass_secs(1);
    let (from, to) = (NOON.plus_secs(1), NOON.plus_secs(4));
    let wanted = |delivery: &&crate::outbox::Delivery| {
        delivery.channel == channel
            && (from..to).contains(&delivery.created_at)
            && delivery.status != DeliveryStatus::Sent
    };
    let expected: Vec<_> = runner.deliveries().iter().filter(wanted).map(|one| one.id).collect();
    assert!(expected.len() > 90, "{}", expected.len());
    runner.write(move |tx| redeliver_range(tx, channel, (from, to), None)).await;
    runner.run_due().await;
    let again = |runner: &Runner| -> Vec<_> {
        let all = runner.deliveries();
        all.iter().filter(|one| one.attempts == 1).map(|one| one.id).collect()
    };
    assert_eq!(again(&runner), expected);
    assert!(runner.deliveries().iter().all(|one| one.channel != other || one.attempts == 0));
    // Another one finds none that failed in that range, and those that were sent once more.
    let sent = Some(DeliveryStatus::Sent);
    runner.write(move |tx| redeliver_range(tx, channel, (from, to), None)).await;
    runner.run_due().await;
    assert_eq!(again(&runner), expected);
    runner.pass_secs(1);
    runner.write(move |tx| redeliver_range(tx, channel, (from, to), sent)).await;
    runner.run_due().await;
    let attempts =
        |runner: &Runner, id| runner.deliveries().iter().find(|one| one.id == id).unwrap().attempts;
    assert!(expected.iter().all(|id| attempts(&runner, *id) == 2));
}

#[tokio::test]
async fn a_redelivery_of_a_range_leaves_out_what_was_sent_since_it_was_requested() {
    let runner = in_memory();
    let channel = runner.channel(&ROW, json!({})).await;
    runner.publish(json!({"n": 1})).await;
    runner.run_due().await;
    runner.pass_secs(1);
    runner.publish(json!({"n": 2})).await;
    let fan_out = runner.lease_one().await.unwrap();
    runner.execute(fan_out).await;
    let statuses = |runner: &Runner| -> Vec<_> {
        runner.deliveries().iter().map(|one| (one.status, one.attempts)).collect()
    };
    assert_eq!(statuses(&runner), [(DeliveryStatus::Sent, 1), (DeliveryStatus::Failed, 0)]);

    runner.pass_secs(1);
    let (range, sent) = ((NOON, NOON.plus_secs(9)), Some(DeliveryStatus::Sent));
    runner.write(move |tx| redeliver_range(tx, channel, range, sent)).await;
    // The second one has been due longer than the redelivery, which finds it sent.
    let due = runner.lease_one().await.unwrap();
    runner.execute(due).await;
    assert_eq!(statuses(&runner), [(DeliveryStatus::Sent, 1), (DeliveryStatus::Sent, 1)]);
    runner.run_due().await;
    assert_eq!(statuses(&runner), [(DeliveryStatus::Sent, 2), (DeliveryStatus::Sent, 1)]);
}

#[tokio::test]
async fn redelivery_ends_the_attempt_in_flight() {
    let runner = in_memory();
    let mut receiver = Receiver::answering(&[200]).await;
    runner.webhook(&receiver).await;
    runner.publish(json!({})).await;
    let fan_out = runner.lease_one().await.unwrap();
    runner.execute(fan_out).await;
    let late = runner.lease_one().await.unwrap();
    let id = runner.only_delivery().id;
    runner.write(move |tx| redeliver(tx, id)).await;
    runner.execute(late).await;
    assert_eq!(receiver.count(), 0);
    runner.run_due().await;
    assert_eq!((receiver.count(), runner.only_delivery().attempts), (1, 1));
}

#[tokio::test]
async fn refused_rows_leave_nothing_and_are_retried() {
    let runner = in_memory();
    runner.channel(&ROW, json!({})).await;
    runner.publish(json!({"refuse": true})).await;
    runner.run_due().await;
    let failed = runner.only_delivery();
    assert_eq!((failed.status, failed.attempts), (DeliveryStatus::Failed, 1));
    assert_eq!(failed.error.as_deref(), Some("the row was refused"));
    let rows = |view: &View| view.count::<Row>(ListSource::TABLE, &(), 9);
    assert_eq!(runner.store.read_now(org(1), rows).unwrap(), 0);
    assert_eq!(jobs(&runner)[0].failures, 0, "the job itself is in order");
}

#[tokio::test]
async fn a_failing_workflow_fails_the_delivery() {
    let runner = in_memory();
    runner.channel(&UNABLE, json!({})).await;
    runner.publish(json!({})).await;
    runner.run_due().await;
    let failed = runner.only_delivery();
    assert_eq!((failed.status, failed.attempts), (DeliveryStatus::Failed, 1));
    assert_eq!(failed.error.as_deref(), Some(Error::no_such("thing").message()));
}

#[tokio::test]
async fn a_mail_without_a_mail_server_fails_with_the_reason() {
    let store = Store::in_memory(Clock::at(NOON), TABLES);
    let runner = runner_over(store, Arc::new(mail::NotConfigured));
    runner.channel(&EMAIL, json!({})).await;
    runner.publish(json!({})).await;
    runner.run_due().await;
    let error = runner.only_delivery().error;
    let expected = "mail cannot be sent: this server has no mail server configured";
    assert!(error.unwrap().starts_with(expected));
}

#[tokio::test]
async fn nothing_is_lost_in_a_restart_and_unsettled_attempts_are_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let tables = || {
        let rows = crate::store::TableInfo::of::<Row>();
        table_names(&[TABLES, &[rows]].concat())
    };
    drop(Redb::create(&path, tables()).unwrap());
    let mut now = NOON;
    // Each run is another process without the memory of the previous one.
    let mut restart = |secs: i64| {
        now = now.plus_secs(secs);
        let disk = Redb::open(&path, tables()).unwrap();
        let store = Store::start(disk, Clock::at(now), Keys::new([7; 32]), &[]).unwrap();
        runner_over(store, Arc::new(Mailbox::default()))
    };
    let mut receiver = Receiver::answering(&[200]).await;

    let runner = restart(0);
    runner.webhook(&receiver).await;
    runner.channel(&ROW, json!({})).await;
    runner.publish(json!({})).await;
    assert!(runner.deliveries().is_empty(), "the event is committed, its deliveries are not");
    drop(runner);

    let runner = restart(0);
    let fan_out = runner.lease_one().await.unwrap();
    let handler = JOBS.iter().find(|handler| handler.kind == fan_out.kind).unwrap();
    assert!(runner.prepare(handler, &fan_out).await.unwrap().is_none());
    assert_eq!(runner.deliveries().len(), 2);
    drop(runner);

    // Both effects are executed or prepared, neither is settled.
    let runner = restart(0);
    for _ in 0..2 {
        let job = runner.lease_one().await.unwrap();
        let handler = JOBS.iter().find(|handler| handler.kind == job.kind).unwrap();
        match runner.prepare(handler, &job).await.unwrap().unwrap() {
            Effect::Call(call) => assert!(runner.outside.send(*call).await.unwrap().is_success()),
            effect => assert!(matches!(effect, Effect::Rows(_))),
        }
    }
    drop(runner);

    let runner = restart(0);
    assert!(runner.lease_one().await.is_none(), "the leases are not over");
    drop(runner);
    let runner = restart(LEASE_SECS);
    runner.run_due().await;
    let id = |request: String| {
        let line = request.lines().find_map(|line| line.strip_prefix("webhook-id: "));
        line.unwrap().to_string()
    };
    assert_eq!(id(receiver.next().await), id(receiver.next().await), "the receiver can tell");
    assert_eq!(receiver.count(), 0);
    let rows = |view: &View| view.count::<Row>(ListSource::TABLE, &(), 9);
    assert_eq!(runner.store.read_now(org(1), rows).unwrap(), 1);
    assert!(runner.deliveries().iter().all(|delivery| delivery.status == DeliveryStatus::Sent));
    assert!(jobs(&runner).is_empty());
}

#[tokio::test]
async fn a_channel_that_does_not_respond_delays_no_other() {
    let runner = in_memory();
    let (slow, mut fast) = (Receiver::answering(&[0]).await, Receiver::answering(&[200]).await);
    let slow = runner.webhook(&slow).await;
    // As many as may run at once, all due before that of the other channel.
    let publish_many = |tx: &mut Tx| (0..MAX_IN_FLIGHT).try_for_each(|_| leave_event(tx));
    runner.write(publish_many).await;
    runner.pass_secs(1);
    runner.webhook(&fast).await;
    runner.publish(json!({})).await;
    let store = runner.store.clone();
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(runner.run(stopping));
    fast.next().await;
    assert_eq!(fast.count(), 0, "it was not subscribed when the others happened");
    let all: Vec<crate::outbox::Delivery> =
        store.read_now(org(1), |view| view.all(ListSource::TABLE, &())).unwrap();
    let mut of_slow = all.iter().filter(|delivery| delivery.channel == slow);
    assert!(of_slow.all(|delivery| delivery.attempts == 0), "none of them has an answer");
    // Dropping it closes the waiting connections; a stop would wait for them.
    running.abort();
    drop(stop);
}

#[tokio::test]
async fn a_removed_event_takes_its_own_deliveries_along() {
    let runner = in_memory();
    runner.channel(&ROW, json!({})).await;
    runner.publish(json!({"n": 1})).await;
    runner.publish(json!({"n": 2})).await;
    runner.run_due().await;
    let [first, second] = runner.deliveries().try_into().unwrap();
    assert_eq!(first.created_at, second.created_at);
    let key = (first.created_at, first.event);
    runner.write(move |tx| tx.remove(&tx.fetch::<Event>(&key)?)).await;
    assert_eq!(runner.deliveries(), [second]);
}
