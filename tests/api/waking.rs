//! Wakes: causes, long polls, streams, posts (reference: teams-and-wakes, "Wakes").

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Caller, Connection, eventually, pick};
use crate::fixture::{Running, config, key_of, unknown_id};
use crate::receiver::Receiver;
use crate::teams::Crew;

/// 50 ms are usual, and 5 s where a notification is lost; a test on a busy machine must not fail.
const SOON: Duration = Duration::from_secs(4);

fn wakes(crew: &Crew, agent: &str, query: &str) -> Vec<Value> {
    crew.get(&format!("/agents/{agent}/wakes?{query}")).items()
}

fn ack(crew: &Crew, agent: &str, ids: Value) -> Value {
    crew.post(&format!("/agents/{agent}/wakes/ack"), json!({"wakeIds": ids})).ok()
}

/// Begins to wait for an agent's wakes.
fn wait(crew: &Crew, caller: &Caller, agent: &str, secs: u32) -> Connection {
    let path = crew.path(&format!("/agents/{agent}/wakes?wait={secs}"));
    let mut connection = Connection::open(crew.acme.address).unwrap();
    connection.write(&caller.ask("GET", &caller.in_org(&path)).to_bytes()).unwrap();
    connection
}

#[test]
fn each_cause_wakes_the_one_it_concerns() {
    let crew = Crew::new();
    let (ann, bob) = (crew.hire("ann"), crew.hire("bob"));
    let sam = crew.hire_as("sam", json!({"role": "scrum_master"})).id();
    let peek = |agent: &str| {
        let wakes = wakes(&crew, agent, "peek=true");
        wakes.iter().map(|wake| pick(wake, "reason taskId messageId")).collect::<Vec<_>>()
    };
    let anns = crew.task(json!({"title": "t", "assigneeAgentId": ann}));
    assert_eq!(peek(&ann), [json!(["task_assigned", anns, null])]);
    let free = crew.task(json!({"title": "t"}));
    assert_eq!([peek(&bob).len(), peek(&sam).len()], [0, 0]);

    let mail = crew.post("/messages", json!({"body": "b", "toAgentId": bob})).id();
    assert_eq!(peek(&bob), [json!(["direct_message", null, mail])]);
    let note = crew.post("/messages", json!({"body": "b", "taskId": free})).id();
    assert_eq!(peek(&sam), [json!(["task_note", free, note])]);
    let note = crew.post("/messages", json!({"body": "b", "taskId": anns})).id();
    assert_eq!(peek(&ann)[1..], [json!(["task_note", anns, note])]);
    // Messages to the humans, and an agent's own actions, wake no agent.
    crew.post("/inbox", json!({"body": "b", "fromAgentId": bob})).ok();
    crew.post("/messages", json!({"body": "b", "toAgentId": bob, "fromAgentId": bob})).ok();
    crew.task(json!({"title": "t", "assigneeAgentId": bob, "fromAgentId": bob}));
    crew.post(&format!("/tasks/{free}/claim"), json!({"agentId": bob})).ok();
    // An assigned task does not wake the Scrum Master.
    assert_eq!(peek(&sam).len(), 0);
    assert_eq!([peek(&ann).len(), peek(&bob).len()], [2, 1]);
    crew.patch(&format!("/tasks/{anns}"), json!({"assigneeAgentId": bob})).ok();
    assert_eq!(peek(&bob)[1..], [json!(["task_assigned", anns, null])]);
}

#[test]
fn a_wake_is_leased_and_stays_until_it_is_acknowledged() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    for _ in 0..2 {
        crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    }
    assert_eq!(wakes(&crew, &ann, "peek=true").len(), 2);
    let taken = wakes(&crew, &ann, "");
    assert_eq!(taken.iter().map(|wake| &wake["attempts"]).collect::<Vec<_>>(), [1, 1]);
    // A leased wake is not returned again.
    assert_eq!(wakes(&crew, &ann, ""), Vec::<Value>::new());
    let first = taken[0]["id"].clone();
    assert_eq!(ack(&crew, &ann, json!([first, unknown_id(), "x"])), json!({"acknowledged": 1}));
    assert_eq!(ack(&crew, &ann, json!([first])), json!({"acknowledged": 0}));
    assert_eq!(ack(&crew, &ann, json!([])), json!({"acknowledged": 0}));
    let bob = crew.hire("bob");
    assert_eq!(ack(&crew, &bob, json!([taken[1]["id"]])), json!({"acknowledged": 0}));
}

#[test]
fn later_causes_merge_with_a_pending_wake_and_settled_ones_are_dropped() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let task = crew.task(json!({"title": "t", "assigneeAgentId": ann}));
    let notes: Vec<_> =
        (0..3).map(|_| crew.post("/messages", json!({"body": "b", "taskId": task})).id()).collect();
    let pending = wakes(&crew, &ann, "peek=true");
    let reasons: Vec<_> = pending.iter().map(|wake| pick(wake, "reason messageId")).collect();
    assert_eq!(reasons, [json!(["task_assigned", null]), json!(["task_note", notes[2]])]);
    let mail = crew.post("/messages", json!({"body": "b", "toAgentId": ann})).id();
    crew.post(&format!("/messages/{mail}/consume"), json!({"agentId": ann})).ok();
    crew.patch(&format!("/tasks/{task}"), json!({"status": "done"})).ok();
    assert_eq!(wakes(&crew, &ann, ""), Vec::<Value>::new());
}

#[test]
fn a_long_poll_of_a_paused_agent_waits_and_gets_what_waits_when_it_is_resumed() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let team = crew.path("");
    let in_team = format!("{team}/agents/{ann}");
    for place in [in_team, "/agents/ann".into(), team, "/teams".into()] {
        let owner = &crew.acme.owner;
        let paused = owner.post(&format!("{place}/pause"), json!({"reason": "r"})).ok();
        assert_eq!(paused["paused"]["reason"], "r");
        let mut waiting = wait(&crew, owner, &ann, 20);
        let mail = crew.post("/messages", json!({"body": "b", "toAgentId": ann})).id();
        assert_eq!(wakes(&crew, &ann, ""), Vec::<Value>::new(), "{place}");
        assert_eq!(wakes(&crew, &ann, "peek=true").len(), 1);
        let resumed = owner.post(&format!("{place}/resume"), json!({})).ok();
        assert_eq!(resumed["paused"], json!(null));
        let reply = waiting.reply(false).unwrap();
        assert_eq!(reply.items()[0]["messageId"], json!(mail));
        ack(&crew, &ann, json!([reply.items()[0]["id"]]));
    }
}

#[test]
fn a_long_poll_returns_as_soon_as_there_is_a_wake() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    for _ in 0..3 {
        let mut waiting = wait(&crew, &crew.acme.owner, &ann, 20);
        // What is asked after it is answered: most likely it waits by now.
        crew.get("").ok();
        let mail = crew.post("/messages", json!({"body": "b", "toAgentId": ann})).id();
        let committed = Instant::now();
        let reply = waiting.reply(false).unwrap();
        assert!(committed.elapsed() < SOON, "{:?}", committed.elapsed());
        assert_eq!(reply.ok()["nextCursor"], Value::Null);
        assert_eq!(pick(&reply.items()[0], "reason messageId"), json!(["direct_message", mail]));
    }
}

#[test]
fn a_long_poll_without_a_wake_ends_with_an_empty_list() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let path = format!("/agents/{ann}/wakes");
    let begun = Instant::now();
    assert_eq!(crew.get(&path).ok(), json!({"items": [], "nextCursor": null}));
    assert!(begun.elapsed() < SOON);
    assert_eq!(crew.get(&format!("{path}?wait=1")).items().len(), 0);
    assert!((1..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    for bad in ["-1", "61", "x", ""] {
        crew.get(&format!("{path}?wait={bad}")).invalid(&["wait"]);
    }
    crew.get(&format!("/agents/{}/wakes?wait=20", unknown_id())).refused(404, "not_found");
}

#[test]
fn of_concurrent_long_polls_one_gets_the_wake() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let mut waiting: Vec<_> = (0..8).map(|_| wait(&crew, &crew.acme.owner, &ann, 2)).collect();
    crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    let got = waiting.iter_mut().map(|one| one.reply(false).unwrap().items().len());
    assert_eq!(got.sum::<usize>(), 1);
}

#[test]
fn a_long_poll_is_refused_once_access_is_revoked() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let mut waiting = wait(&crew, &key_of(&crew.acme.member), &ann, 20);
    crew.get("").ok();
    let member = format!("/organizations/members/{}", crew.acme.member_id);
    crew.acme.owner.delete(&member).ok();
    // What wakes it after that is not for it.
    crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    waiting.reply(false).unwrap().refused(401, "unauthenticated");
    assert_eq!(wakes(&crew, &ann, "")[0]["attempts"], 1);
}

#[test]
fn a_stream_sends_each_wake_as_an_event() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let path = crew.acme.owner.in_org(&crew.path(&format!("/agents/{ann}/wakes")));
    let ask = crew.acme.owner.ask("GET", &path).with("Accept", "text/event-stream").to_bytes();
    let first = crew.post("/messages", json!({"body": "b", "toAgentId": ann})).id();
    let mut stream = Connection::open(crew.acme.address).unwrap();
    stream.write(&ask).unwrap();
    let (status, headers) = stream.head().unwrap();
    let field = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!((status, field("content-type")), (200, Some("text/event-stream")));
    assert!(field("x-request-id").is_some());
    assert_eq!(field("cache-control"), Some("no-cache"));
    assert_eq!(field("x-accel-buffering"), Some("no"));
    assert!(stream.chunk().unwrap().starts_with("retry: "));

    let mut next = || {
        let event = stream.chunk().unwrap();
        let lines: Vec<_> = event.split('\n').collect();
        let ["event: wake", id, data, "", ""] = lines[..] else { panic!("{event:?}") };
        let wake: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(id.strip_prefix("id: "), wake["id"].as_str());
        wake
    };
    assert_eq!(pick(&next(), "messageId attempts"), json!([first, 1]));
    let begun = Instant::now();
    let second = crew.post("/messages", json!({"body": "b", "toAgentId": ann})).id();
    assert_eq!(next()["messageId"], second);
    assert!(begun.elapsed() < SOON);

    // An agent that goes away ends it.
    crew.delete(&format!("/agents/{ann}")).ok();
    let last = stream.chunk().unwrap();
    assert!(last.starts_with("event: error\ndata: {\"code\":\"not_found\""), "{last}");
    assert_eq!(stream.chunk().unwrap(), "");
}

#[test]
fn a_stream_is_refused_like_any_request() {
    let crew = Crew::new();
    let path = crew.path(&format!("/agents/{}/wakes", unknown_id()));
    let ask = |caller: &Caller| {
        caller.ask("GET", &caller.in_org(&path)).with("Accept", "text/event-stream").send()
    };
    ask(&crew.acme.owner).refused(404, "not_found");
    ask(&crew.acme.anonymous).refused(401, "unauthenticated");
}

#[test]
fn a_wake_is_posted_signed_and_a_2xx_acknowledges_it() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[204]);
    let made = crew.hire_as("ann", json!({"role": "member", "wakeUrl": receiver.url})).ok();
    let (ann, secret) = (made["id"].as_str().unwrap(), made["wakeSecret"].as_str().unwrap());
    assert!(secret.starts_with("whsec_"));
    assert!(!crew.get(&format!("/agents/{ann}")).text().contains("wakeSecret"));
    let task = crew.task(json!({"title": "t", "assigneeAgentId": ann}));

    let sent = receiver.next();
    assert!(sent.head.starts_with("post /hook http/1.1"), "{}", sent.head);
    assert!(sent.is_signed_with(secret));
    assert!(!sent.is_signed_with("whsec_AAAA"));
    let body = sent.json();
    assert_eq!(body["type"], "wake");
    let wake = pick(&body["data"], "id reason taskId attempts");
    assert_eq!(wake, json!([sent.field("webhook-id"), "task_assigned", task, 1]));
    eventually("acknowledging", || Some(()).filter(|()| wakes(&crew, ann, "peek=true").is_empty()));
    assert!(receiver.is_idle());
}

#[test]
fn a_wake_whose_post_fails_can_still_be_fetched() {
    let crew = Crew::new();
    let receiver = Receiver::answering(&[500]);
    let made = crew.hire_as("ann", json!({"role": "member", "wakeUrl": receiver.url}));
    let ann = made.id();
    crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    receiver.next();
    let wake = eventually("failing", || wakes(&crew, &ann, "").pop());
    assert_eq!(wake["attempts"], 2);
    assert_eq!(ack(&crew, &ann, json!([wake["id"]])), json!({"acknowledged": 1}));
}

#[test]
fn a_private_wake_url_is_not_called() {
    let running =
        Running::start(roadstead::app::ServerConfig { allow_private: Vec::new(), ..config() });
    let receiver = Receiver::answering(&[204]);
    let crew = Crew::of(running.fixture());
    let made = crew.hire_as("ann", json!({"role": "member", "wakeUrl": receiver.url}));
    let ann = made.id();
    crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    let tried = |wake: &Value| wake["attempts"] == 1;
    eventually("refusing", || wakes(&crew, &ann, "peek=true").pop().filter(tried));
    assert!(receiver.is_idle());
}

#[test]
fn a_stopping_server_answers_long_polls() {
    let running = Running::start(config());
    let crew = Crew::of(running.fixture());
    let ann = crew.hire("ann");
    let mut polling: Vec<_> = (0..20).map(|_| wait(&crew, &crew.acme.owner, &ann, 60)).collect();
    let path = crew.acme.owner.in_org(&crew.path(&format!("/agents/{ann}/wakes")));
    let stream = crew.acme.owner.ask("GET", &path).with("Accept", "text/event-stream").to_bytes();
    let mut streaming = Connection::open(crew.acme.address).unwrap();
    streaming.write(&stream).unwrap();
    streaming.head().unwrap();
    assert!(streaming.chunk().unwrap().starts_with("retry: "));
    let begun = Instant::now();
    running.stop();
    for connection in &mut polling {
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.ok(), json!({"items": [], "nextCursor": null}));
        assert!(connection.is_closed());
    }
    assert_eq!(streaming.chunk().unwrap(), "");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(Connection::open(crew.acme.address).is_err());
}
