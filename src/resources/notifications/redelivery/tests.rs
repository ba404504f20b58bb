//! Redelivery and tests of channels.

use super::*;
use crate::outbox::{About, EventType, Job};
use crate::outside::{CallResult, Failure, Response};
use crate::resources::notifications::testing::{channel, code, hook};
use crate::resources::testing::{Fixture, args, user};
use crate::store::ListSource;

/// Tests a channel with this result of its call; returns the answer and how often it was called.
fn tested(fixture: &Fixture, id: Id<Channel>, answer: Result<u16, Failure>) -> ChannelTest {
    let (owner, args) = (fixture.owner.clone(), args(id, ()));
    let tag = test_tag(user(&owner));
    let run = move |tx: &mut Tx| {
        let mut calls = Calls::default();
        let req = Req::new(&args, &owner);
        test(tx, &req, &mut calls)?;
        let heard = answer.clone();
        let answer = heard.map(|status| Response { status, headers: vec![], body: vec![] });
        calls.hear_as(tag, CallResult { answer, took: std::time::Duration::ZERO });
        test(tx, &req, &mut calls)?.done()
    };
    fixture.store.write_blocking(fixture.org, run).unwrap()
}

#[test]
fn a_test_reports_what_the_receiver_answered() {
    let fixture = Fixture::new();
    let id = channel(&fixture, hook());
    assert!(tested(&fixture, id, Ok(204)).ok);
    let refused = tested(&fixture, id, Ok(500));
    assert!(!refused.ok && refused.message.contains("status 500"), "{refused:?}");
    let failed = tested(&fixture, id, Err(Failure::Busy));
    assert!(!failed.ok && failed.message.contains("in flight"), "{failed:?}");
    // Nothing of it is kept, and a 410 to a test disables nothing.
    assert!(!tested(&fixture, id, Ok(410)).ok);
    let read = |view: &crate::store::View| {
        let events = view.count::<crate::outbox::Event>(ListSource::TABLE, &(), 1)?;
        Ok((events, view.fetch::<Channel>(&id)?.enabled))
    };
    assert_eq!(fixture.store.read_now(fixture.org, read).unwrap(), (0, true));
}

#[test]
fn an_entry_whose_channel_is_deleted_is_not_delivered_again() {
    let fixture = Fixture::new();
    let id = channel(&fixture, hook());
    let publish = move |tx: &mut Tx| {
        outbox::publish(tx, EventType::AgentError, About::resource("a", tx.org()), json!({}))?;
        let event = tx.all::<crate::outbox::Event>(ListSource::TABLE, &())?.remove(0);
        let delivery = Delivery {
            id: tx.new_id(),
            channel: id,
            event: event.id,
            event_type: event.event_type,
            guarded_by: vec![],
            created_at: event.created_at,
            status: DeliveryStatus::Dead,
            attempts: 3,
            error: None,
            sent_at: None,
            next_attempt_at: None,
            job: None,
        };
        tx.insert(&delivery)?;
        Ok((event.id.cast::<LogEntry>(), delivery.id))
    };
    let (of_log, of_hook) = fixture.store.write_blocking(fixture.org, publish).unwrap();
    let again = |entry| fixture.write_as(&fixture.owner, redeliver, entry, ());
    assert_eq!(again(of_log).unwrap().attempts, 2);
    let scheduled = again(of_hook).unwrap();
    assert_eq!((scheduled.status, scheduled.attempts), (DeliveryStatus::Failed, 3));
    assert!(scheduled.next_attempt_at.is_some());
    let remove = move |tx: &mut Tx| tx.remove(&tx.fetch::<Channel>(&id)?);
    fixture.store.write_blocking(fixture.org, remove).unwrap();
    assert_eq!(code(again(of_hook)), "channel_deleted");
    assert_eq!(code(again(Id::NIL)), "not_found");
}

#[test]
fn one_redelivery_of_a_channel_is_under_way_at_a_time() {
    let fixture = Fixture::new();
    let [a, b] = [channel(&fixture, hook()), channel(&fixture, hook())];
    let start =
        |id, body| fixture.write_as(&fixture.owner, redeliver_range, id, Fixture::input(body)?);
    let body = json!({"from": "2026-01-01T00:00:00Z"});
    let begun = start(a, body.clone()).unwrap();
    assert_eq!((begun.channel_id, begun.status), (a, None));
    assert_eq!(code(start(a, body.clone())), "redelivery_under_way");
    start(b, body.clone()).unwrap();
    // One that was given up, or whose job was lost, is not under way any more.
    let give_up = |tx: &mut Tx, job: &Job| tx.replace(job, &Job { dead: true, ..job.clone() });
    let lose = |tx: &mut Tx, job: &Job| tx.remove(job);
    for end in [give_up as fn(&mut Tx, &Job) -> Result<()>, lose] {
        let end = move |tx: &mut Tx| {
            let jobs: Vec<Job> = tx.all(ListSource::TABLE, &())?;
            jobs.iter().filter(|job| job.target == a.cast()).try_for_each(|job| end(tx, job))
        };
        fixture.store.write_blocking(fixture.org, end).unwrap();
        start(a, body.clone()).unwrap();
        assert_eq!(code(start(a, body.clone())), "redelivery_under_way");
    }
    let built_in = outbox::in_app(fixture.org);
    assert_eq!(code(start(built_in, body)), "channel_built_in");
    let backwards = json!({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"});
    assert_eq!(start(b, backwards).unwrap_err().issues()[0].path, "to");
    fixture.assert_sound();
}
