//! The `standardwebhooks` package accepts what the server posts, and nothing else.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::environment;
use crate::optional::run;
use crate::server::Acme;

/// Reads a request and answers it; returns its headers and its body.
fn receive(listener: &TcpListener) -> (String, String) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut request = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_some_and(|length| length.parse() == Ok(body.len())) {
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
                let headers = head.lines().skip(1).map(|line| format!("{line}\n"));
                return (headers.collect(), body.into());
            }
        }
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{text}");
        request.extend_from_slice(&bytes[..read]);
    }
}

const VERIFY: &str = "
import os, sys
from standardwebhooks import Webhook, WebhookVerificationError
headers = dict(line.split(': ', 1) for line in os.environ['HEADERS'].splitlines())
body = os.environ['BODY']
hook = Webhook(os.environ['SECRET'])
assert hook.verify(body, headers)['type'] == os.environ['TYPE']
for changed in (body + ' ', body.replace('\"type\"', '\"kind\"')):
    try:
        hook.verify(changed, headers)
        sys.exit('a changed body was accepted')
    except WebhookVerificationError:
        pass
";

#[test]
fn a_posted_wake_has_a_signature_that_standardwebhooks_accepts() {
    let Some(place) = environment("WEBHOOKS", "the package standardwebhooks") else { return };
    let acme = Acme::start(&["--allow-private-network", "127.0.0.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/wake", listener.local_addr().unwrap());
    let team = acme.team("shipping", Some(&url));
    acme.assign(&team, "Be signed");
    let (headers, body) = receive(&listener);
    verify(&place, "wake", &(headers, body), &team.wake_secret);
}

/// Fails unless the package accepts a request with this secret.
fn verify(place: &Path, kind: &str, (headers, body): &(String, String), secret: &Value) {
    run(Command::new(place.join("bin/python"))
        .args(["-c", VERIFY])
        .env("HEADERS", headers)
        .env("BODY", body)
        .env("TYPE", kind)
        .env("SECRET", secret.as_str().unwrap()));
}

#[test]
fn an_event_has_a_signature_that_standardwebhooks_accepts_with_the_old_and_the_new_secret() {
    let Some(place) = environment("WEBHOOKS", "the package standardwebhooks") else { return };
    let acme = Acme::start(&["--allow-private-network", "127.0.0.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let body = json!({"name": "Hook", "workflow": "webhook", "config": {"url": url}});
    let made = acme.owner.post("/notifications/channels", body).ok();
    let kind = "team.timeline_milestone";
    let subscription = json!({"channelId": made["id"], "eventType": kind});
    acme.owner.post("/notifications/subscriptions", subscription).ok();
    let channel = format!("/notifications/channels/{}", made["id"].as_str().unwrap());
    let rotated = acme.owner.post(&format!("{channel}/rotate-secret"), json!({})).ok();
    let team = acme.team("shipping", None);
    let entry = json!({"kind": "milestone", "title": "Shipped"});
    acme.owner.post(&format!("/teams/{}/timeline", team.id), entry).ok();
    let request = receive(&listener);
    for secret in [&made["secret"], &rotated["secret"]] {
        verify(&place, kind, &request, secret);
    }
    // A test of the channel is signed in the same way.
    let tested = std::thread::spawn({
        let owner = acme.owner.clone();
        move || owner.post(&format!("{channel}/test"), json!({})).ok()
    });
    verify(&place, "channel.test", &receive(&listener), &rotated["secret"]);
    assert_eq!(tested.join().unwrap()["ok"], true);
}
