//! Posts to a `replyUrl`, carried out as the runner does it.

use super::*;
use crate::outbox::{Effect, EffectResult, Job, Prepared, Settled};
use crate::outside::{Call, webhook};
use crate::resources::teams::exchange::posts::{PeerPost, RESOURCE};
use crate::resources::teams::exchange::threads::answer;

fn jobs(crew: &Crew) -> Vec<Job> {
    crew.fixture.store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &())).unwrap()
}

/// Runs a job; answers its call with this status. Returns the call, if there was one.
fn run(crew: &Crew, job: &Job, status: u16) -> (Option<Call>, Settled) {
    let handler = &RESOURCE.jobs[0];
    let own = Job { attempts: job.attempts + 1, ..job.clone() };
    let prepared = {
        let own = own.clone();
        let prepare = move |tx: &mut crate::store::Tx| (handler.prepare)(tx, &own);
        crew.fixture.store.write_blocking(crew.fixture.org, prepare).unwrap()
    };
    let Prepared::Effect(Effect::Call(call)) = prepared else { return (None, Settled::Done) };
    let result = EffectResult::Response(Response { status, headers: vec![], body: vec![] });
    let settle = move |tx: &mut crate::store::Tx| (handler.settle)(tx, &own, &result);
    let settled = crew.fixture.store.write_blocking(crew.fixture.org, settle).unwrap();
    (Some(*call), settled)
}

fn posts(crew: &Crew) -> usize {
    let count = |view: &crate::store::View| view.count::<PeerPost>(ListSource::TABLE, &(), 99);
    crew.fixture.store.read_now(crew.fixture.org, count).unwrap()
}

const URL: &str = "https://a.test/replies";

fn asked(crew: &Crew) -> Value {
    crew.ask(&Sender::new(1, "a@a.test"), json!({ "replyUrl": URL })).unwrap()
}

#[test]
fn a_decision_is_posted_signed_with_the_id_of_the_request() {
    let crew = Crew::new();
    let peer = asked(&crew);
    assert!(jobs(&crew).is_empty());
    crew.refuse(&peer, "We are too few.");
    let (call, settled) = run(&crew, &jobs(&crew)[0], 204);
    let call = call.unwrap();
    assert_eq!((call.url.as_str(), settled, posts(&crew)), (URL, Settled::Done, 0));
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body["type"], "exchange.request_decided");
    let data = json!({
        "id": peer["id"], "state": "refused", "reason": "We are too few.",
        "createdAt": peer["createdAt"], "decidedAt": "2026-01-15T12:00:00.000Z",
    });
    assert_eq!(body["data"], data);
    let header = |name: &str| &call.headers.iter().find(|(key, _)| key == name).unwrap().1;
    let key = peer["id"].as_str().unwrap().as_bytes();
    let secs: i64 = header("webhook-timestamp").parse().unwrap();
    let signed = webhook::signed(key, header("webhook-id"), secs, &call.body);
    assert_eq!(header("webhook-signature"), &signed[2].1);
}

#[test]
fn a_message_to_a_peer_is_posted_as_the_peer_sees_it() {
    let crew = Crew::new();
    let peer = asked(&crew);
    crew.accept(&peer);
    let (decision, _) = run(&crew, &jobs(&crew)[0], 200);
    let decision: Value = serde_json::from_slice(&decision.unwrap().body).unwrap();
    assert_eq!(decision["data"]["state"], "accepted");
    let input = Fixture::input(json!({"body": "Hi"})).unwrap();
    let message = crew.fixture.write(answer, (crew.team, id(&peer)), input).unwrap();
    let (call, _) = run(&crew, &jobs(&crew)[1], 200);
    let body: Value = serde_json::from_slice(&call.unwrap().body).unwrap();
    assert_eq!(body["type"], "exchange.message");
    let data = json!({"id": message.id, "from": "us", "subject": null, "body": "Hi",
        "createdAt": message.created_at});
    assert_eq!(body["data"], data);
}

#[test]
fn a_failed_post_is_retried_for_a_day_and_a_410_ends_all() {
    let crew = Crew::new();
    let peer = asked(&crew);
    crew.accept(&peer);
    let mut job = jobs(&crew).remove(0);
    let began = crew.fixture.store.clock().now();
    loop {
        let (call, settled) = run(&crew, &job, 500);
        assert!(call.is_some());
        let Settled::RetryAt(at) = settled else { break };
        job.attempts += 1;
        crew.fixture.pass_secs(at.secs() - crew.fixture.store.clock().now().secs());
    }
    let took = crew.fixture.store.clock().now().secs() - began.secs();
    assert!((20 * 3600..=24 * 3600).contains(&took), "{took}");
    assert_eq!(posts(&crew), 0);

    let send = || {
        let input = Fixture::input(json!({"body": "Hi"})).unwrap();
        crew.fixture.write(answer, (crew.team, id(&peer)), input).unwrap();
    };
    send();
    send();
    let sent = jobs(&crew);
    assert_eq!(run(&crew, &sent[1], 410).1, Settled::Done);
    assert!(run(&crew, &sent[2], 200).0.is_none(), "the replyUrl is gone");
    assert!(crew.peers()[0].reply_url.is_none());
    send();
    assert_eq!((posts(&crew), jobs(&crew).len()), (0, sent.len()));
    crew.fixture.assert_sound();
}

#[test]
fn nothing_is_posted_to_a_peer_that_was_forgotten() {
    let crew = Crew::new();
    let peer = asked(&crew);
    crew.accept(&peer);
    crew.fixture.write(forget, (crew.team, id(&peer)), ()).unwrap();
    assert!(run(&crew, &jobs(&crew)[0], 200).0.is_none());
    crew.fixture.complete_removals();
    assert_eq!(posts(&crew), 0);
}
