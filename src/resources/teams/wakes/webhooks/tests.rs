//! Posts, carried out as the runner does it, each call being answered here.

mod given_up;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::api::Principal;
use crate::auth::{Caller, Grant, Membership, Role, Sponsor, User};
use crate::outside::{Call, Response};
use crate::resources::teams::members::update;
use crate::resources::teams::testing::{
    add_agent, add_agent_with, agent, events, message, repeat, take, task, team,
};
use crate::resources::teams::wakes::fetching::acknowledge;
use crate::resources::teams::{members, messages, pausing};
use crate::resources::testing::{Fixture, user};
use crate::resources::{agents, fleets};
use crate::store::View;

const URL: &str = "https://agent.test/wake";

/// A team with ann in it, who is woken at [`URL`].
fn crew(fixture: &Fixture) -> (Id<Team>, Id<Member>) {
    let crew = team(fixture, "crew", None);
    agent(fixture, "ann");
    let body = json!({"stableKey": "ann", "role": "member", "wakeUrl": URL});
    (crew, add_agent_with(fixture, crew, body))
}

fn mail(fixture: &Fixture, (team, agent): (Id<Team>, Id<Member>)) {
    message(fixture, team, json!({"body": "x", "toAgentId": agent}));
}

fn set_url(fixture: &Fixture, at: (Id<Team>, Id<Member>), url: Value) {
    fixture.write(update, at, Fixture::input(json!({"wakeUrl": url})).unwrap()).unwrap();
}

fn jobs(fixture: &Fixture) -> Vec<Job> {
    fixture.store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &())).unwrap()
}

fn wakes(fixture: &Fixture) -> Vec<Wake> {
    fixture.store.read_now(fixture.org, |view| view.all(ListSource::TABLE, &())).unwrap()
}

fn answer(status: u16) -> EffectResult {
    EffectResult::Response(Response { status, headers: vec![], body: vec![] })
}

/// Begins every job that is due, as the runner does; what they call.
fn begin(fixture: &Fixture) -> Vec<(Job, Call)> {
    let now = fixture.store.clock().now();
    let mut calls = Vec::new();
    for old in jobs(fixture).into_iter().filter(|job| job.due_at <= now) {
        let attempts = old.attempts + 1;
        let job = Job { due_at: now.plus_secs(60), attempts, ..old };
        let own = job.clone();
        let prepared = fixture.store.write_blocking(fixture.org, move |tx| {
            tx.put(&own)?;
            let handler = JOBS.iter().find(|handler| handler.kind == own.kind).unwrap();
            (handler.prepare)(tx, &own)
        });
        match prepared.unwrap() {
            Prepared::Done => finish(fixture, &job, Settled::Done),
            Prepared::RetryAt(at) => finish(fixture, &job, Settled::RetryAt(at)),
            Prepared::Effect(Effect::Call(call)) => calls.push((job, *call)),
            _ => panic!("a post is a call"),
        }
    }
    calls
}

/// Ends a job whose call was answered.
fn end(fixture: &Fixture, job: &Job, result: EffectResult) {
    let own = job.clone();
    let settled = fixture.store.write_blocking(fixture.org, move |tx| settle(tx, &own, &result));
    finish(fixture, job, settled.unwrap());
}

fn finish(fixture: &Fixture, job: &Job, settled: Settled) {
    let job = job.clone();
    let finished = fixture.store.write_blocking(Id::NIL, move |tx| match settled {
        Settled::Done | Settled::Warning(_) => tx.remove(&job),
        Settled::RetryAt(due_at) => tx.put(&Job { due_at, ..job.clone() }),
    });
    finished.unwrap();
}

/// Does everything that is due, each call being answered with `status`; how many calls there were.
fn run(fixture: &Fixture, status: u16) -> usize {
    let now = fixture.store.clock().now();
    let mut calls = 0;
    for _ in 0..20 {
        if jobs(fixture).iter().all(|job| job.due_at > now) {
            return calls;
        }
        for (job, _) in begin(fixture) {
            end(fixture, &job, answer(status));
            calls += 1;
        }
    }
    panic!("there is no end to what is due");
}

#[test]
fn a_wake_is_posted_signed_and_a_2xx_acknowledges_it() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    mail(&fixture, ann);
    let wake = wakes(&fixture).remove(0);
    let (job, call) = begin(&fixture).remove(0);

    let leased = wakes(&fixture).remove(0);
    assert!(take(&fixture, ann.0, ann.1).is_empty(), "it is in the post");
    assert_eq!(call.url, URL);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    let expected = json!({
        "type": "wake", "timestamp": "2026-01-15T12:00:00.000Z",
        "data": {
            "id": wake.id, "reason": "direct_message", "taskId": null,
            "messageId": wake.message_id, "peerId": null, "logId": null,
            "createdAt": "2026-01-15T12:00:00.000Z", "attempts": 1,
            "scheduleId": null, "text": null, "nextAttemptAt": null, "failedAgentId": null,
        },
    });
    assert_eq!(body, expected);
    let key = fixture.store.read_now(fixture.org, |view| {
        member::wake_key(view, &member::fetch_member(view, ann.0, ann.1)?)
    });
    let now = fixture.store.clock().now().secs();
    let signed = webhook::signed(&key.unwrap().unwrap(), &wake.id.to_string(), now, &call.body);
    assert_eq!(call.headers[..3], signed);

    end(&fixture, &job, answer(204));
    assert_eq!(leased.attempts, 1);
    assert!(wakes(&fixture).is_empty() && jobs(&fixture).is_empty());
}

#[test]
fn after_a_failed_post_the_wake_can_be_fetched_and_is_retried() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    mail(&fixture, ann);
    let (post, _) = begin(&fixture).remove(0);
    end(&fixture, &post, answer(500));
    assert_eq!(jobs(&fixture)[0].due_at, fixture.store.clock().now().plus_secs(5));
    let taken = take(&fixture, ann.0, ann.1);
    assert_eq!(taken[0].attempts, 2);

    // The post waits for the end of the lease, and finds it acknowledged.
    fixture.pass_secs(5);
    assert_eq!(run(&fixture, 200), 0);
    assert_eq!(jobs(&fixture).len(), 1);
    let ids = Fixture::input(json!({"wakeIds": [taken[0].id]})).unwrap();
    fixture.write(acknowledge, ann, ids).unwrap();
    fixture.pass_secs(60);
    assert_eq!(run(&fixture, 200), 0);
    assert!(jobs(&fixture).is_empty());
}

#[test]
fn a_post_that_fails_for_a_day_is_an_event_and_the_wake_stays() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    mail(&fixture, ann);
    let mut calls = 0;
    for hour in 0..25 {
        calls += run(&fixture, 503);
        assert_eq!(events(&fixture).len() == 1, !jobs(&fixture).is_empty());
        assert!(hour > 18 || !jobs(&fixture).is_empty(), "given up after {hour} hours");
        fixture.pass_secs(3600);
    }
    assert!(jobs(&fixture).is_empty());
    assert!((6..=9).contains(&calls), "{calls} calls");
    let events = events(&fixture);
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].event_type, EventType::TeamRunFailed);
    assert_eq!(events[1].payload.0["error"], "the wakeUrl answered with status 503");
    assert_eq!(events[1].payload.0["agentId"], json!(ann.1));
    assert_eq!(take(&fixture, ann.0, ann.1).len(), 1);
    // A new address gets the wakes that the old one failed to receive.
    fixture.pass_secs(60);
    set_url(&fixture, ann, json!("https://new.test/"));
    assert_eq!(run(&fixture, 200), 1);
    assert!(wakes(&fixture).is_empty());
}

#[test]
fn causes_that_join_are_posted_once() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    for _ in 0..3 {
        message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    }
    assert_eq!(jobs(&fixture).len(), 1);
    let (post, call) = begin(&fixture).remove(0);
    let newest = wakes(&fixture).remove(0);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body["data"]["id"], json!(newest.id));
    assert_ne!(newest.id, newest.position, "each cause gave it a new id");
    end(&fixture, &post, answer(200));
    assert!(wakes(&fixture).is_empty() && jobs(&fixture).is_empty());
}

#[test]
fn a_cause_after_a_failed_post_joins_the_next_attempt() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    let first = wakes(&fixture).remove(0);
    assert_eq!(run(&fixture, 500), 1);
    let newest = message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    assert_eq!(run(&fixture, 500), 0, "the first one's next attempt is not due");
    let second = wakes(&fixture).remove(1);
    fixture.pass_secs(5);
    let (post, call) = begin(&fixture).remove(0);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    // With another id: an acknowledgement of one of them does not include the other.
    let merged = wakes(&fixture).remove(0);
    assert!(merged.id != first.id && merged.id != second.id);
    assert_eq!((&body["data"]["id"], &body["data"]["attempts"]), (&json!(merged.id), &json!(2)));
    assert_eq!(body["data"]["messageId"], json!(newest.id));
    end(&fixture, &post, answer(200));
    assert!(wakes(&fixture).is_empty());
    fixture.pass_secs(60);
    assert_eq!(run(&fixture, 200), 0);
    assert!(jobs(&fixture).is_empty());
}

#[test]
fn a_cause_after_a_wake_was_given_up_is_posted_with_it() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    let first = wakes(&fixture).remove(0);
    for _ in 0..25 {
        run(&fixture, 500);
        fixture.pass_secs(3600);
    }
    assert!(jobs(&fixture).is_empty());
    message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    let (post, call) = begin(&fixture).remove(0);
    let merged = wakes(&fixture);
    assert_eq!(merged.len(), 1, "{} has joined", first.id);
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body["data"]["id"], json!(merged[0].id));
    end(&fixture, &post, answer(200));
    assert!(wakes(&fixture).is_empty());
}

/// Its job is that of the cause it joined, and ends with it.
#[test]
fn a_wake_that_joined_while_there_was_no_url_is_posted_once_there_is_one() {
    let fixture = Fixture::new();
    let (crew, ann) = crew(&fixture);
    let own = json!({"title": "x", "assigneeAgentId": ann, "fromAgentId": ann});
    let anns = task(&fixture, crew, own);
    message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    assert_eq!(run(&fixture, 500), 1);
    set_url(&fixture, (crew, ann), Value::Null);
    message(&fixture, crew, json!({"body": "x", "taskId": anns.id}));
    assert_eq!(take(&fixture, crew, ann).len(), 1, "both causes are one wake");
    set_url(&fixture, (crew, ann), json!(URL));
    fixture.pass_secs(LEASE_SECS);
    assert_eq!(run(&fixture, 200), 1);
    assert!(wakes(&fixture).is_empty());
}

#[test]
fn another_url_has_its_own_24_hours() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    mail(&fixture, ann);
    // The attempts are after 0, 1, 2, 3, 5, 10, 15 and 20 hours.
    for _ in 0..16 {
        run(&fixture, 500);
        fixture.pass_secs(3600);
    }
    set_url(&fixture, ann, json!("https://new.test/"));
    let before = events(&fixture).len();
    for _ in 0..9 {
        run(&fixture, 500);
        fixture.pass_secs(3600);
    }
    assert_eq!(events(&fixture).len(), before, "it is not given up");
    assert_eq!(run(&fixture, 200), 1);
    assert!(wakes(&fixture).is_empty());
}

#[test]
fn a_410_removes_the_wake_url_and_the_wakes_stay() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    let before = events(&fixture).len();
    fixture.pass_secs(1);
    for _ in 0..3 {
        mail(&fixture, ann);
    }
    let posts = begin(&fixture);
    assert_eq!(posts.len(), 3);
    for (post, _) in &posts {
        end(&fixture, post, answer(410));
    }
    let shown =
        fixture.store.read_now(fixture.org, |view| member::fetch_member(view, ann.0, ann.1));
    let shown = shown.unwrap();
    assert!(shown.wake_url.is_none() && shown.wake_secret.is_some());
    assert!(jobs(&fixture).is_empty(), "none is retried");
    let events = events(&fixture).split_off(before);
    assert_eq!(events.len(), 1, "one event, however many posts were on their way");
    assert_eq!(events[0].event_type, EventType::TeamRunFailed);
    assert_eq!(events[0].payload.0["error"], "the wakeUrl answered with status 410");
    assert_eq!(events[0].guards(), [shown.agent.cast::<()>()], "for those who may use the agent");
    assert_eq!(take(&fixture, ann.0, ann.1).len(), 3);
    mail(&fixture, ann);
    assert!(jobs(&fixture).is_empty());
}

#[test]
fn a_410_of_an_earlier_wake_url_leaves_the_present_one() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    mail(&fixture, ann);
    let (post, _) = begin(&fixture).remove(0);
    set_url(&fixture, ann, json!("https://new.test/"));
    end(&fixture, &post, answer(410));
    assert_eq!(run(&fixture, 200), 0, "it is retried later");
    fixture.pass_secs(5);
    assert_eq!(run(&fixture, 200), 1);
    assert!(wakes(&fixture).is_empty());
}

/// Puts ann into a restricted fleet for which the member has a grant.
fn restrict(fixture: &Fixture) {
    let closed = json!({"name": "Closed", "access": "restricted"});
    let closed = fleets::tests::make(fixture, closed).id;
    fleets::tests::grant(fixture, &fixture.member, closed);
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(fixture, &fixture.owner, "ann", fleet).unwrap();
}

fn url(fixture: &Fixture, ann: (Id<Team>, Id<Member>)) -> Option<String> {
    let fetch = |view: &View| member::fetch_member(view, ann.0, ann.1);
    fixture.store.read_now(fixture.org, fetch).unwrap().wake_url.map(|url| url.to_string())
}

fn withdraw_grants(fixture: &Fixture) {
    let withdraw = |tx: &mut Tx| {
        let grants: Vec<Grant> = tx.all(ListSource::TABLE, &())?;
        grants.iter().try_for_each(|grant| tx.remove(grant))
    };
    fixture.store.write_blocking(fixture.org, withdraw).unwrap();
}

/// Ends a person's membership.
fn remove(fixture: &Fixture, who: &Principal) {
    let (user, org) = (user(who), fixture.org);
    let leave = move |tx: &mut Tx| {
        let membership: Membership = tx.fetch(&(user, org))?;
        tx.remove(&membership)
    };
    fixture.store.write_blocking(org, leave).unwrap();
}

#[test]
fn wakes_of_a_restricted_agent_are_posted_while_who_set_the_url_may_use_it() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    let before = events(&fixture).len();
    restrict(&fixture);
    // The same one, set again by somebody else, stays with who set it.
    let again = || Fixture::input(json!({"wakeUrl": URL, "skills": []})).unwrap();
    let kept = fixture.write_as(&fixture.owner, update, ann, again()).unwrap();
    assert_eq!(json!(kept)["wakeSecret"], Value::Null);
    mail(&fixture, ann);
    assert_eq!(run(&fixture, 200), 1);

    mail(&fixture, ann);
    mail(&fixture, ann);
    withdraw_grants(&fixture);
    // Something else that is changed leaves the URL as it is.
    let skills = Fixture::input(json!({"skills": ["writing"]})).unwrap();
    let kept = fixture.write_as(&fixture.owner, update, ann, skills).unwrap();
    assert_eq!(json!(kept)["wakeSecret"], Value::Null);
    assert_eq!((run(&fixture, 200), url(&fixture, ann)), (0, None));
    let mut events = events(&fixture).split_off(before);
    events.retain(|event| event.event_type == EventType::TeamRunFailed);
    assert_eq!(events.len(), 1, "one event, however many wakes there were");
    let error = events[0].payload.0["error"].as_str().unwrap();
    assert!(error.contains("may not use the agent"), "{error}");
    assert_eq!(wakes(&fixture).len(), 2, "they can be fetched");

    // Somebody else sets it on their own account.
    let set = fixture.write_as(&fixture.owner, update, ann, again()).unwrap();
    assert!(json!(set)["wakeSecret"].is_string());
    assert_eq!(run(&fixture, 200), 2);
}

#[test]
fn a_url_that_is_not_posted_to_any_more_is_taken_over_with_a_new_secret() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    restrict(&fixture);
    withdraw_grants(&fixture);
    let again = Fixture::input(json!({"wakeUrl": URL})).unwrap();
    let set = fixture.write_as(&fixture.owner, update, ann, again).unwrap();
    assert!(json!(set)["wakeSecret"].is_string());
    let body = json!({"body": "x", "toAgentId": ann.1});
    let body = Fixture::input(body).unwrap();
    fixture.write_as(&fixture.owner, messages::send, ann.0, body).unwrap();
    assert_eq!(run(&fixture, 200), 1);
}

#[test]
fn a_url_of_somebody_who_left_gets_a_new_secret_with_its_next_setter_also_of_an_open_agent() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    let set = |path: &str| {
        let url = Fixture::input(json!({"wakeUrl": format!("{URL}{path}")})).unwrap();
        json!(fixture.write_as(&fixture.owner, update, ann, url).unwrap())["wakeSecret"].clone()
    };
    let body = Fixture::input(json!({"wakeUrl": URL})).unwrap();
    fixture.write_as(&fixture.member, update, ann, body).unwrap();
    assert_eq!(set(""), Value::Null, "it stays with the member");
    remove(&fixture, &fixture.member);
    assert!(set("").is_string());
    assert_eq!(set("/2"), Value::Null, "of the same host, by the same one");
}

#[test]
fn a_url_that_was_set_before_the_address_was_proved_gets_a_new_secret_also_from_the_same_account() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    let set = || {
        let url = Fixture::input(json!({"wakeUrl": URL})).unwrap();
        json!(fixture.write_as(&fixture.member, update, ann, url).unwrap())["wakeSecret"].clone()
    };
    set();
    assert_eq!(set(), Value::Null);
    // Somebody else may have had the account until then.
    let (user, org) = (user(&fixture.member), fixture.org);
    let prove = move |tx: &mut Tx| {
        let unproved: User = tx.fetch(&user)?;
        tx.replace(&unproved, &User { keys_from: Some(tx.now()), ..unproved.clone() })
    };
    fixture.store.write_blocking(org, prove).unwrap();
    fixture.pass_secs(1);
    assert!(set().is_string());
    assert_eq!(set(), Value::Null);
}

#[test]
fn who_sets_another_url_after_somebody_else_gets_a_secret_that_only_they_know() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    let set = |who: &Principal, url: &str| {
        let url = Fixture::input(json!({"wakeUrl": url})).unwrap();
        json!(fixture.write_as(who, update, ann, url).unwrap())["wakeSecret"].clone()
    };
    assert_eq!(set(&fixture.owner, URL), Value::Null, "it stays with who has set it");
    assert!(set(&fixture.owner, "https://agent.test/2").is_string());
    assert_eq!(set(&fixture.owner, "https://agent.test/3"), Value::Null);
    assert!(set(&fixture.member, URL).is_string());
}

#[test]
fn nor_are_they_after_who_set_the_url_or_answered_for_the_key_has_left() {
    for leaves in ["the member", "the sponsor", "nobody"] {
        let fixture = Fixture::new();
        let ann = crew(&fixture);
        restrict(&fixture);
        let Principal::Caller(caller) = &fixture.member else { panic!("a caller") };
        let mut caller = Caller::clone(caller);
        let sponsor = user(&fixture.owner);
        let name = "ada".into();
        caller.identity.sponsor = Some(Sponsor { user: sponsor, name, role: Role::Owner });
        let other = Fixture::input(json!({"wakeUrl": "https://other.test/"})).unwrap();
        fixture.write_as(&Principal::Caller(Arc::new(caller)), update, ann, other).unwrap();
        mail(&fixture, ann);
        match leaves {
            "the member" => remove(&fixture, &fixture.member),
            "the sponsor" => remove(&fixture, &fixture.owner),
            _ => {}
        }
        assert_eq!(run(&fixture, 200), usize::from(leaves == "nobody"), "{leaves}");
    }
}

#[test]
fn a_url_that_an_earlier_release_stored_is_posted_to() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    restrict(&fixture);
    let unknown = move |tx: &mut Tx| {
        let stored = member::fetch_member(&tx.view(), ann.0, ann.1)?;
        tx.replace(&stored, &Member { wake_url_by: None, ..stored.clone() })
    };
    fixture.store.write_blocking(fixture.org, unknown).unwrap();
    mail(&fixture, ann);
    withdraw_grants(&fixture);
    assert_eq!(run(&fixture, 200), 1);
    // Who sets it again, also to the same one, is known from then on; the receiver's secret stays.
    let again = Fixture::input(json!({"wakeUrl": URL})).unwrap();
    let set = fixture.write_as(&fixture.owner, update, ann, again).unwrap();
    assert_eq!(json!(set)["wakeSecret"], Value::Null);
    let stored =
        fixture.store.read_now(fixture.org, |view| member::fetch_member(view, ann.0, ann.1));
    assert_eq!(stored.unwrap().wake_url_by, Some(user(&fixture.owner)));
}

#[test]
fn pending_wakes_are_enqueued_in_steps_once_there_is_a_wake_url() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    let many = SWEEP_ROWS + 3;
    let body = json!({"body": "x", "toAgentId": ann.1});
    repeat(&fixture, messages::send, crew, body, many);
    assert!(jobs(&fixture).is_empty());
    set_url(&fixture, ann, json!(URL));
    let begins = jobs(&fixture).remove(0);
    for steps in [1, 2] {
        let begins = begins.clone();
        let prepared =
            fixture.store.write_blocking(fixture.org, move |tx| enqueue_pending(tx, &begins));
        assert_eq!(matches!(prepared.unwrap(), Prepared::Done), steps == 2);
        assert_eq!(jobs(&fixture).len(), 1 + many.min(steps * SWEEP_ROWS));
    }
}

#[test]
fn no_pending_wake_of_a_paused_agent_is_enqueued_until_it_is_resumed() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    mail(&fixture, ann);
    fixture.write(pausing::pause_team, crew, Fixture::input(json!({})).unwrap()).unwrap();
    set_url(&fixture, ann, json!(URL));
    let begins = jobs(&fixture).remove(0);
    let posts = || {
        let begins = begins.clone();
        let prepared =
            fixture.store.write_blocking(fixture.org, move |tx| enqueue_pending(tx, &begins));
        assert!(matches!(prepared.unwrap(), Prepared::Done));
        jobs(&fixture).iter().filter(|job| job.kind == POST_WAKE.kind).count()
    };
    assert_eq!(posts(), 0);
    fixture.write(pausing::resume_team, crew, Fixture::input(json!({})).unwrap()).unwrap();
    assert_eq!(posts(), 1);
}

#[test]
fn pending_wakes_are_posted() {
    let fixture = Fixture::new();
    let crew = team(&fixture, "crew", None);
    let ann = (crew, add_agent(&fixture, crew, "ann"));
    for _ in 0..2 {
        mail(&fixture, ann);
    }
    assert_eq!(run(&fixture, 200), 0);
    set_url(&fixture, ann, json!(URL));
    assert_eq!(run(&fixture, 200), 2);
    assert!(wakes(&fixture).is_empty() && jobs(&fixture).is_empty());
}

#[test]
fn nothing_is_posted_without_a_wake_url_or_without_the_agent() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    mail(&fixture, ann);
    set_url(&fixture, ann, json!(null));
    assert_eq!(run(&fixture, 200), 0);
    assert!(jobs(&fixture).is_empty());
    assert_eq!(wakes(&fixture).len(), 1);

    set_url(&fixture, ann, json!(URL));
    fixture.write(members::delete, ann, ()).unwrap();
    assert_eq!(run(&fixture, 200), 0);
    assert!(jobs(&fixture).is_empty());
}
