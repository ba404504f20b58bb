//! Deployments posted to endpoints that answer late, twice, or after their time is up: each is recorded
//! once. And deployments of an agent whose draft changes at the same moment.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{eventually, pick};
use crate::fixture::Fixture;
use crate::receiver::{Receiver, Sent, read};
use crate::registries::{publish, registry};

const ACCEPTED: &str = "HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n";

/// An organization with the agent `ann`, and an endpoint for the provider `p` in `dev`.
fn acme(url: &str) -> Fixture {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    publish(&acme, ["main", "prompt", "hello", "1.0.0"], "Hello {{NAME}}.");
    let dev = acme.admin.post("/environments", json!({"slug": "dev", "name": "Dev"})).id();
    let credential = json!({"apiKey": "k", "endpoint": url});
    acme.admin.put(&format!("/environments/{dev}/provider-credentials/p"), credential).ok();
    acme.member.post("/agents", json!({"stableKey": "ann", "name": "Ann"})).ok();
    acme
}

fn deploy(acme: &Fixture, name: &str) -> Value {
    let body = json!({
        "agentIds": ["ann"], "promptName": "hello", "version": "1.0.0", "environment": "dev",
        "provider": "p", "registryRef": "main", "agentVariables": {"NAME": name},
    });
    acme.member.post("/agents/deployments", body).ok()
}

/// The present state of a job.
fn job(acme: &Fixture, job: &Value) -> Value {
    acme.member.get(&format!("/agents/deployments/{}", job["id"].as_str().unwrap())).ok()
}

fn complete(acme: &Fixture, made: &Value) {
    eventually("it is complete", || (job(acme, made)["state"] == "complete").then_some(()));
}

/// Fails unless these messages, and no others, are recorded, in this order.
fn assert_recorded(acme: &Fixture, messages: &[&Sent]) {
    let history = acme.member.get("/agents/ann/deployment-history").items();
    let recorded: Vec<_> = history.iter().rev().map(|one| one["id"].as_str().unwrap()).collect();
    let sent: Vec<_> = messages.iter().map(|message| message.field("webhook-id")).collect();
    assert_eq!(recorded, sent);
}

/// A listener that gives each connection with its request to the test, which answers when it likes.
fn patient() -> (String, Channel<(TcpStream, Sent)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (note, arrived) = channel();
    // The thread ends with the process, or with the test.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let Some(request) = read(&mut stream) else { continue };
            if note.send((stream, request)).is_err() {
                return;
            }
        }
    });
    (url, arrived)
}

/// Longer than an endpoint has for its answer.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_late_answer_records_the_deployment_once_and_the_next_job_waits_for_it() {
    let (url, arrived) = patient();
    let acme = acme(&url);
    // An endpoint that was fast is sent several messages at once.
    let fast = deploy(&acme, "zero");
    let (mut stream, zeroth) = arrived.recv_timeout(PATIENCE).unwrap();
    stream.write_all(ACCEPTED.as_bytes()).unwrap();
    complete(&acme, &fast);
    let first = deploy(&acme, "one");
    let (mut stream, message) = arrived.recv_timeout(PATIENCE).unwrap();
    let second = deploy(&acme, "two");
    eventually("it was tried", || {
        let second = job(&acme, &second);
        (second["updatedAt"] != second["createdAt"]).then_some(())
    });
    let deployed = acme.member.get("/agents/ann/deployed?environment=dev").ok();
    assert_eq!(deployed["compiled"], "Hello zero.");
    assert!(arrived.try_recv().is_err(), "the second job waits");
    stream.write_all(ACCEPTED.as_bytes()).unwrap();
    complete(&acme, &first);
    let (mut stream, next) = arrived.recv_timeout(PATIENCE).unwrap();
    stream.write_all(ACCEPTED.as_bytes()).unwrap();
    complete(&acme, &second);
    let texts = [&message, &next].map(|message| message.json()["data"]["compiled"].clone());
    assert_eq!(texts, ["Hello one.", "Hello two."]);
    assert_recorded(&acme, &[&zeroth, &message, &next]);
    assert!(arrived.try_recv().is_err());
}

#[test]
fn the_first_of_two_answers_counts() {
    for (answers, recorded) in [([ACCEPTED, REFUSED], 1), ([REFUSED, ACCEPTED], 2)] {
        let mut left = [answers.concat(), ACCEPTED.to_string()].into_iter();
        let receiver = Receiver::responding(move |_| left.next().unwrap());
        let acme = acme(&receiver.url);
        let made = deploy(&acme, "you");
        complete(&acme, &made);
        let messages = receiver.arrived();
        assert_eq!(messages.len(), recorded);
        assert!(messages.iter().all(|message| message.body == messages[0].body));
        assert_recorded(&acme, &[&messages[0]]);
    }
}

#[test]
fn an_answer_after_its_time_is_ignored_and_the_message_repeated() {
    let (url, arrived) = patient();
    let acme = acme(&url);
    let made = deploy(&acme, "you");
    let (mut late, first) = arrived.recv_timeout(PATIENCE).unwrap();
    let (mut stream, second) = arrived.recv_timeout(PATIENCE).unwrap();
    // The server has given up the first connection.
    assert!(matches!(late.read(&mut [0]), Ok(0) | Err(_)));
    let _ = late.write_all(REFUSED.as_bytes());
    assert_eq!(job(&acme, &made)["targets"][0]["state"], "waiting");
    stream.write_all(ACCEPTED.as_bytes()).unwrap();
    complete(&acme, &made);
    assert_eq!(first.field("webhook-id"), second.field("webhook-id"));
    assert_eq!(first.body, second.body);
    assert_recorded(&acme, &[&first]);
    assert!(arrived.try_recv().is_err());
}

#[test]
fn a_deployment_while_the_draft_changes_takes_all_of_one_draft() {
    let acme = acme("http://127.0.0.1:9/");
    let draft = |n: u64| {
        let name = format!("number {n}");
        json!({"draft": {"model": name, "variables": {"NAME": name}}})
    };
    acme.member.patch("/agents/ann", draft(0)).ok();
    std::thread::scope(|scope| {
        let deploying = scope.spawn(|| {
            for _ in 0..30 {
                let body = json!({
                    "agentIds": ["ann"], "promptName": "hello", "version": "1.0.0",
                    "environment": "dev", "provider": "q", "registryRef": "main",
                });
                let made = acme.member.post("/agents/deployments", body).ok();
                complete(&acme, &made);
            }
        });
        for n in 1.. {
            if deploying.is_finished() {
                break;
            }
            acme.member.patch("/agents/ann", draft(n)).ok();
        }
        deploying.join().unwrap();
    });
    let history = acme.member.walk("/agents/ann/deployment-history", 50);
    assert_eq!(history.len(), 30);
    for one in &history {
        let model = one["model"].as_str().unwrap();
        assert_eq!(one["compiled"], format!("Hello {model}."));
        assert_eq!(pick(&one["config"], "model variables"), json!([model, {"NAME": model}]));
    }
    let different: std::collections::BTreeSet<_> =
        history.iter().map(|one| one["model"].to_string()).collect();
    assert!(different.len() > 3, "the draft hardly changed: {different:?}");
}
