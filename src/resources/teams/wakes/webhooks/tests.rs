//! Posts, carried out as the runner does it, each call being answered here.

use serde_json::{Value, json};

use super::*;
use crate::outside::{Answer, Call};
use crate::resources::teams::members::update;
use crate::resources::teams::testing::{
    add_agent, add_agent_with, agent, events, message, repeat, take, task, team,
};
use crate::resources::teams::wakes::delivery::acknowledge;
use crate::resources::teams::{members, messages};
use crate::resources::testing::World;

const URL: &str = "https://agent.test/wake";

/// A team with ann in it, who is woken at [`URL`].
fn crew(world: &World) -> (Id<Team>, Id<Member>) {
    let crew = team(world, "crew", None);
    agent(world, "ann");
    let body = json!({"stableKey": "ann", "role": "member", "wakeUrl": URL});
    (crew, add_agent_with(world, crew, body))
}

fn mail(world: &World, (team, agent): (Id<Team>, Id<Member>)) {
    message(world, team, json!({"body": "x", "toAgentId": agent}));
}

fn set_url(world: &World, at: (Id<Team>, Id<Member>), url: Value) {
    world.write(update, at, World::input(json!({"wakeUrl": url})).unwrap()).unwrap();
}

fn jobs(world: &World) -> Vec<Job> {
    world.store.read_now(Id::NIL, |view| view.all(Source::TABLE, &())).unwrap()
}

fn wakes(world: &World) -> Vec<Wake> {
    world.store.read_now(world.org, |view| view.all(Source::TABLE, &())).unwrap()
}

fn answer(status: u16) -> EffectResult {
    EffectResult::Answer(Answer { status, headers: vec![], body: vec![] })
}

/// Begins every job that is due, as the runner does; what they call.
fn begin(world: &World) -> Vec<(Job, Call)> {
    let now = world.store.clock().now();
    let mut calls = Vec::new();
    for old in jobs(world).into_iter().filter(|job| job.due_at <= now) {
        let attempts = old.attempts + 1;
        let job = Job { due_at: now.plus_secs(60), attempts, ..old };
        let own = job.clone();
        let prepared = world.store.write_now(world.org, move |tx| {
            tx.put(&own)?;
            let handler = JOBS.iter().find(|handler| handler.kind == own.kind).unwrap();
            (handler.prepare)(tx, &own)
        });
        match prepared.unwrap() {
            Prepared::Done => finish(world, &job, Settled::Done),
            Prepared::RetryAt(at) => finish(world, &job, Settled::RetryAt(at)),
            Prepared::Effect(Effect::Call(call)) => calls.push((job, *call)),
            _ => panic!("a post is a call"),
        }
    }
    calls
}

/// Ends a job whose call was answered.
fn end(world: &World, job: &Job, result: EffectResult) {
    let own = job.clone();
    let settled = world.store.write_now(world.org, move |tx| settle(tx, &own, &result));
    finish(world, job, settled.unwrap());
}

fn finish(world: &World, job: &Job, settled: Settled) {
    let job = job.clone();
    let finished = world.store.write_now(Id::NIL, move |tx| match settled {
        Settled::Done => tx.remove(&job),
        Settled::RetryAt(due_at) => tx.put(&Job { due_at, ..job.clone() }),
    });
    finished.unwrap();
}

/// Does everything that is due, each call being answered with `status`; how many calls there were.
fn run(world: &World, status: u16) -> usize {
    let now = world.store.clock().now();
    let mut calls = 0;
    for _ in 0..20 {
        if jobs(world).iter().all(|job| job.due_at > now) {
            return calls;
        }
        for (job, _) in begin(world) {
            end(world, &job, answer(status));
            calls += 1;
        }
    }
    panic!("there is no end to what is due");
}

#[test]
fn a_wake_is_posted_signed_and_a_2xx_acknowledges_it() {
    let world = World::new();
    let ann = crew(&world);
    mail(&world, ann);
    let wake = wakes(&world).remove(0);
    let (job, call) = begin(&world).remove(0);

    let leased = wakes(&world).remove(0);
    assert!(take(&world, ann.0, ann.1).is_empty(), "it is in the post");
    assert_eq!(call.url, URL);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    let expected = json!({
        "type": "wake", "timestamp": "2026-01-15T12:00:00.000Z",
        "data": {
            "id": wake.id, "reason": "direct_message", "taskId": null,
            "messageId": wake.message_id, "peerId": null, "logId": null,
            "createdAt": "2026-01-15T12:00:00.000Z", "attempts": 1,
        },
    });
    assert_eq!(body, expected);
    let key = world.store.read_now(world.org, |view| {
        member::wake_key(view, &member::fetch_member(view, ann.0, ann.1)?)
    });
    let now = world.store.clock().now().secs();
    let signed = webhook::signed(&key.unwrap().unwrap(), &wake.id.to_string(), now, &call.body);
    assert_eq!(call.headers[..3], signed);

    end(&world, &job, answer(204));
    assert_eq!(leased.attempts, 1);
    assert!(wakes(&world).is_empty() && jobs(&world).is_empty());
}

#[test]
fn after_a_failed_post_the_wake_can_be_fetched_and_is_retried() {
    let world = World::new();
    let ann = crew(&world);
    mail(&world, ann);
    let (post, _) = begin(&world).remove(0);
    end(&world, &post, answer(500));
    assert_eq!(jobs(&world)[0].due_at, world.store.clock().now().plus_secs(5));
    let taken = take(&world, ann.0, ann.1);
    assert_eq!(taken[0].attempts, 2);

    // The post waits for the end of the lease, and finds it acknowledged.
    world.pass_secs(5);
    assert_eq!(run(&world, 200), 0);
    assert_eq!(jobs(&world).len(), 1);
    let ids = World::input(json!({"wakeIds": [taken[0].id]})).unwrap();
    world.write(acknowledge, ann, ids).unwrap();
    world.pass_secs(60);
    assert_eq!(run(&world, 200), 0);
    assert!(jobs(&world).is_empty());
}

#[test]
fn a_post_that_fails_for_a_day_is_an_event_and_the_wake_stays() {
    let world = World::new();
    let ann = crew(&world);
    mail(&world, ann);
    let mut calls = 0;
    for hour in 0..25 {
        calls += run(&world, 503);
        assert_eq!(events(&world).len() == 1, !jobs(&world).is_empty());
        assert!(hour > 18 || !jobs(&world).is_empty(), "given up after {hour} hours");
        world.pass_secs(3600);
    }
    assert!(jobs(&world).is_empty());
    assert!((6..=9).contains(&calls), "{calls} calls");
    let events = events(&world);
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].event_type, EventType::TeamRunFailed);
    assert_eq!(events[1].payload.0["error"], "the wakeUrl answered with status 503");
    assert_eq!(events[1].payload.0["agentId"], json!(ann.1));
    assert_eq!(take(&world, ann.0, ann.1).len(), 1);
    // A new address takes up what the old one gave up.
    world.pass_secs(60);
    set_url(&world, ann, json!("https://new.test/"));
    assert_eq!(run(&world, 200), 1);
    assert!(wakes(&world).is_empty());
}

#[test]
fn causes_that_join_are_posted_once() {
    let world = World::new();
    let (crew, ann) = crew(&world);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&world, crew, own);
    for _ in 0..3 {
        message(&world, crew, json!({"body": "x", "taskId": anns.id}));
    }
    assert_eq!(jobs(&world).len(), 1);
    assert_eq!(run(&world, 200), 1);
    assert!(wakes(&world).is_empty() && jobs(&world).is_empty());
}

#[test]
fn a_cause_after_a_failed_post_joins_the_next_attempt() {
    let world = World::new();
    let (crew, ann) = crew(&world);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&world, crew, own);
    message(&world, crew, json!({"body": "x", "taskId": anns.id}));
    let first = wakes(&world).remove(0);
    assert_eq!(run(&world, 500), 1);
    let newest = message(&world, crew, json!({"body": "x", "taskId": anns.id}));
    assert_eq!(run(&world, 500), 0, "the first one's next attempt is not due");
    world.pass_secs(5);
    let (post, call) = begin(&world).remove(0);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body["data"]["id"], json!(first.id));
    assert_eq!(body["data"]["messageId"], json!(newest.id));
    end(&world, &post, answer(200));
    assert!(wakes(&world).is_empty());
    world.pass_secs(60);
    assert_eq!(run(&world, 200), 0);
    assert!(jobs(&world).is_empty());
}

#[test]
fn a_cause_after_a_wake_was_given_up_is_posted_with_it() {
    let world = World::new();
    let (crew, ann) = crew(&world);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&world, crew, own);
    message(&world, crew, json!({"body": "x", "taskId": anns.id}));
    let first = wakes(&world).remove(0);
    for _ in 0..25 {
        run(&world, 500);
        world.pass_secs(3600);
    }
    assert!(jobs(&world).is_empty());
    message(&world, crew, json!({"body": "x", "taskId": anns.id}));
    assert!(begin(&world).is_empty(), "it sees to the older one");
    let (post, call) = begin(&world).remove(0);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body["data"]["id"], json!(first.id));
    end(&world, &post, answer(200));
    assert!(wakes(&world).is_empty());
}

#[test]
fn pending_wakes_are_enqueued_in_steps_once_there_is_a_wake_url() {
    let world = World::new();
    let crew = team(&world, "crew", None);
    let ann = (crew, add_agent(&world, crew, "ann"));
    let many = SWEEP_ROWS + 3;
    let body = json!({"body": "x", "toAgentId": ann.1});
    repeat(&world, messages::send, crew, body, many);
    assert!(jobs(&world).is_empty());
    set_url(&world, ann, json!(URL));
    let begins = jobs(&world).remove(0);
    for steps in [1, 2] {
        let begins = begins.clone();
        let prepared = world.store.write_now(world.org, move |tx| enqueue_pending(tx, &begins));
        assert_eq!(matches!(prepared.unwrap(), Prepared::Done), steps == 2);
        assert_eq!(jobs(&world).len(), 1 + many.min(steps * SWEEP_ROWS));
    }
}

#[test]
fn pending_wakes_are_posted() {
    let world = World::new();
    let crew = team(&world, "crew", None);
    let ann = (crew, add_agent(&world, crew, "ann"));
    for _ in 0..2 {
        mail(&world, ann);
    }
    assert_eq!(run(&world, 200), 0);
    set_url(&world, ann, json!(URL));
    assert_eq!(run(&world, 200), 2);
    assert!(wakes(&world).is_empty() && jobs(&world).is_empty());
}

#[test]
fn nothing_is_posted_without_a_wake_url_or_without_the_agent() {
    let world = World::new();
    let ann = crew(&world);
    mail(&world, ann);
    set_url(&world, ann, json!(null));
    assert_eq!(run(&world, 200), 0);
    assert!(jobs(&world).is_empty());
    assert_eq!(wakes(&world).len(), 1);

    set_url(&world, ann, json!(URL));
    world.write(members::delete, ann, ()).unwrap();
    assert_eq!(run(&world, 200), 0);
    assert!(jobs(&world).is_empty());
}
