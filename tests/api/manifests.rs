//! Manifests that are posted to the endpoint of a provider by the real runner, and what the endpoint
//! may do: each target is recorded exactly once, or fails (reference: deployments, "Posted
//! manifests").

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::slice::from_ref;
use std::sync::mpsc::channel;
use std::time::Duration;

use roadstead::app::ServerConfig;
use serde_json::{Value, json};

use crate::client::{pick, within};
use crate::deployments::{acme, body, events, fill, path};
use crate::fixture::{Fixture, Running, config};
use crate::receiver::{self, Receiver};

const KEY: &str = "whsec_bWFuaWZlc3RzIGFyZSBzaWduZWQgd2l0aCB0aGlz";

/// Posts the manifests of the environment `dev` to an endpoint.
fn post_to(acme: &Fixture, endpoint: &str) {
    let dev = acme.admin.get("/environments").items().remove(0)["id"].clone();
    let dev = format!("/environments/{}/provider-credentials/p", dev.as_str().unwrap());
    acme.admin.put(&dev, json!({"apiKey": KEY, "endpoint": endpoint})).ok();
}

fn deploy(acme: &Fixture) -> Value {
    acme.member.post("/agents/deployments", body(&["ann"], json!({}))).ok()
}

/// Waits until a job has this state, after up to three tries.
fn until(acme: &Fixture, job: &Value, state: &str) -> Value {
    let get = || Some(acme.member.get(&path(job, "")).ok()).filter(|job| job["state"] == state);
    within(Duration::from_secs(30), state, get)
}

/// The deployments of `ann`.
fn history(acme: &Fixture) -> Vec<Value> {
    acme.member.get("/agents/ann/deployment-history").items()
}

#[test]
fn garbage_and_silence_are_tried_again_and_a_huge_or_double_answer_counts_once() {
    let acme = acme(&["ann"]);
    let mut answers = ["\u{0}\u{1}no http at all\r\n\r\n".to_string(), String::new()].into_iter();
    let huge = "x".repeat(100_000);
    let last = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n{huge}HTTP/1.1 500 Twice\r\n\r\n"
    );
    let endpoint = Receiver::responding(move |_| answers.next().unwrap_or(last.clone()));
    post_to(&acme, &endpoint.url);
    let job = deploy(&acme);
    let posts = [(); 3].map(|()| endpoint.next());
    let job = until(&acme, &job, "complete");
    let deployments = history(&acme);
    assert_eq!(deployments.len(), 1);
    assert_eq!(job["targets"][0]["deploymentId"], deployments[0]["id"]);
    for post in &posts {
        assert!(post.is_signed_with(KEY));
        assert_eq!(post.field("webhook-id"), deployments[0]["id"].as_str().unwrap());
        assert_eq!(pick(&post.json(), "type data"), json!(["deployment", deployments[0]]));
    }
    assert!(endpoint.is_idle());
    let live = acme.key.get("/agents/ann/deployed?environment=dev").ok();
    assert_eq!(from_ref(&live), deployments);
}

#[test]
fn a_redirect_is_not_followed_and_a_refusal_fails_the_target() {
    let acme = acme(&["ann"]);
    let elsewhere = Receiver::answering(&[200]);
    let location = elsewhere.url.clone();
    let endpoint = Receiver::responding(move |_| {
        format!("HTTP/1.1 307 X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
    });
    post_to(&acme, &endpoint.url);
    let job = deploy(&acme);
    let ids = [(); 3].map(|()| endpoint.next().field("webhook-id").to_string());
    assert!(ids.iter().all(|id| *id == ids[0]));
    let job = until(&acme, &job, "error");
    let error = json!("the provider's endpoint answered with status 307");
    assert_eq!(
        pick(&job["targets"][0], "state error deploymentId"),
        json!(["failed", error, null])
    );
    assert!(elsewhere.is_idle() && endpoint.is_idle() && history(&acme).is_empty());
    acme.key.get("/agents/ann/deployed?environment=dev").refused(404, "not_found");
    assert_eq!(acme.member.get("/agents/ann").ok()["status"], "undeployed");
    let event = events(&acme, "agent.error").remove(0);
    assert_eq!(pick(&event["payload"], "stableKey error jobId"), json!(["ann", error, job["id"]]));
    let failures = &events(&acme, "deployment.error").remove(0)["payload"]["failures"];
    assert_eq!(failures, &json!([{"stableKey": "ann", "toolId": null, "error": error}]));
    // It was reached.
    assert!(events(&acme, "environment.inaccessible").is_empty());
}

#[test]
fn an_endpoint_that_cannot_be_reached_makes_the_environment_inaccessible() {
    let acme = acme(&["ann"]);
    // The port was free a moment ago.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    post_to(&acme, &format!("http://{closed}/secret-path"));
    let job = deploy(&acme);
    until(&acme, &job, "error");
    let event = events(&acme, "environment.inaccessible").remove(0);
    let endpoint = format!("http://{closed}");
    assert_eq!(pick(&event["payload"], "provider endpoint"), json!(["p", endpoint]));
}

#[test]
fn a_name_that_cannot_be_resolved_makes_the_environment_inaccessible() {
    let acme = acme(&["ann"]);
    post_to(&acme, "http://there.invalid/secret-path");
    let job = until(&acme, &deploy(&acme), "error");
    let target = job["targets"][0].to_string();
    assert!(target.contains("cannot be resolved") && !target.contains("secret-path"), "{target}");
    let event = events(&acme, "environment.inaccessible").remove(0);
    assert_eq!(event["payload"]["endpoint"], "http://there.invalid");
    assert!(history(&acme).is_empty());
}

#[test]
fn a_private_address_is_posted_to_only_if_the_operator_allows_it() {
    let running = Running::start(ServerConfig { allow_private: vec![], ..config() });
    let acme = running.fixture();
    fill(&acme, &["ann"]);
    let there = Receiver::answering(&[200]);
    for url in [there.url.clone(), there.url.replace("127.0.0.1", "localhost")] {
        post_to(&acme, &url);
        let job = until(&acme, &deploy(&acme), "error");
        let target = job["targets"][0].to_string();
        assert!(target.contains("--allow-private-network"), "{target}");
    }
    assert!(there.is_idle() && history(&acme).is_empty());
}

/// The status is the answer; what follows it is not waited for.
#[test]
fn a_body_that_breaks_off_or_never_ends_holds_up_no_target() {
    let acme = acme(&["ann"]);
    let breaks_off = Receiver::responding(|_| {
        "HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"items\": [".into()
    });
    post_to(&acme, &breaks_off.url);
    until(&acme, &deploy(&acme), "complete");
    assert_eq!((breaks_off.arrived().len(), history(&acme).len()), (1, 1));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    post_to(&acme, &format!("http://{}/", listener.local_addr().unwrap()));
    let (note, noted) = channel();
    // The thread ends with the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            receiver::read(&mut stream).unwrap();
            note.send(()).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            while stream.write_all(&[b' '; 64 * 1024]).is_ok() {}
        }
    });
    until(&acme, &deploy(&acme), "complete");
    assert_eq!((noted.try_iter().count(), history(&acme).len()), (1, 2));
}

/// The first request is answered after its time, when the second one has been.
#[test]
fn an_answer_after_its_time_changes_nothing() {
    let acme = acme(&["ann"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    post_to(&acme, &format!("http://{}/", listener.local_addr().unwrap()));
    let job = deploy(&acme);
    let (note, noted) = channel();
    let accept = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 8192];
        let read = stream.read(&mut head).unwrap();
        (stream, String::from_utf8_lossy(&head[..read]).into_owned())
    };
    // The thread ends with the test.
    std::thread::spawn(move || {
        let (mut late, first) = accept();
        let (mut second, again) = accept();
        second.write_all(b"HTTP/1.1 204 Done\r\n\r\n").unwrap();
        // The connection may be closed already.
        let _ = late.write_all(b"HTTP/1.1 500 Late\r\n\r\n");
        note.send([first, again]).unwrap();
    });
    let id = |request: &String| {
        let line = request.lines().find(|line| line.to_lowercase().starts_with("webhook-id"));
        line.unwrap().to_string()
    };
    let requests = noted.recv_timeout(Duration::from_secs(30)).expect("two tries");
    assert_eq!(id(&requests[0]), id(&requests[1]));
    let job = until(&acme, &job, "complete");
    assert_eq!(pick(&job["targets"][0], "state error"), json!(["applied", null]));
    assert_eq!(history(&acme).len(), 1);
}
