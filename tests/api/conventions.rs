//! What clients and proxies rely on for every route: HEAD, Host, challenges, encodings, the paths of
//! a 404, text instead of JSON (reference: conventions).

use std::io::Read as _;

use serde_json::{Value, json};

use crate::client::{Reply, raw};
use crate::fixture::{Fixture, unknown_id};

/// Header fields that may differ between two responses.
const VARYING: [&str; 2] = ["date", "x-request-id"];

fn headers(reply: &Reply) -> Vec<(String, String)> {
    let mut headers = reply.headers.clone();
    headers.retain(|(name, _)| !VARYING.contains(&name.as_str()));
    headers
}

#[test]
fn head_is_get_without_a_body() {
    let acme = Fixture::new();
    let tool = acme.owner.post("/tools", json!({"name": "a", "type": "x"})).id();
    for path in ["/tools".to_string(), format!("/tools/{tool}"), "/organizations/members".into()] {
        let path = acme.owner.in_org(&path);
        let get = acme.owner.ask("GET", &path).send();
        let head = acme.owner.ask("HEAD", &path).send();
        assert_eq!((get.status, head.status, head.body.len()), (200, 200, 0), "{path}");
        assert_eq!(headers(&head), headers(&get), "{path}");
        assert_eq!(head.header("content-length"), Some(&*get.body.len().to_string()), "{path}");
    }
    let gone =
        acme.owner.ask("HEAD", &acme.owner.in_org(&format!("/tools/{}", unknown_id()))).send();
    assert_eq!((gone.status, gone.body.len()), (404, 0));
}

#[test]
fn head_of_wakes_takes_none() {
    let acme = Fixture::new();
    let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    acme.owner.post("/agents", json!({"stableKey": "ann", "name": "Ann"})).ok();
    let ann = json!({"stableKey": "ann", "role": "member"});
    let ann = acme.owner.post(&format!("/teams/{team}/agents"), ann).id();
    let task = json!({"title": "t", "assigneeAgentId": ann});
    acme.owner.post(&format!("/teams/{team}/tasks"), task).ok();
    let path = acme.owner.in_org(&format!("/teams/{team}/agents/{ann}/wakes"));
    for accept in ["application/json", "text/event-stream"] {
        let head = acme.owner.ask("HEAD", &path).with("Accept", accept).try_send();
        // Without a length, the end of the connection is the end of the response.
        let head = head.unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some(accept)));
    }
    let both = "application/json, text/event-stream";
    let head = acme.owner.ask("HEAD", &path).with("Accept", both).try_send().unwrap();
    assert_eq!(head.header("content-type"), Some("application/json"));
    let wakes = acme.owner.ask("GET", &path).send().items();
    assert_eq!((wakes.len(), &wakes[0]["attempts"]), (1, &json!(1)));
}

#[test]
fn a_request_has_one_host() {
    let acme = Fixture::new();
    let ask = |fields: &str| {
        raw(acme.address, format!("GET /healthz HTTP/1.1\r\n{fields}\r\n").as_bytes())
    };
    ask("Host: a:80\r\n").ok();
    for bad in ["", "Host: a\r\nHost: a\r\n", "Host: \r\n", "Host: a b\r\n", "Host: a/b\r\n"] {
        ask(bad).invalid(&["Host"]);
    }
    raw(acme.address, b"GET /healthz HTTP/1.0\r\n\r\n").ok();
}

#[test]
fn a_401_says_how_to_authenticate() {
    let acme = Fixture::new();
    for reply in [acme.anonymous.get("/tools"), acme.key.get("/api-keys")] {
        assert_eq!(reply.status, 401);
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"roadstead\""));
    }
    assert_eq!(acme.owner.get("/tools").header("www-authenticate"), None);
}

#[test]
fn an_encoded_body_is_415() {
    let acme = Fixture::new();
    for encoding in ["gzip", "identity"] {
        let ask = acme.owner.ask("POST", "/tools").with("Content-Encoding", encoding);
        let reply = ask.org_json(json!({"name": "a", "type": "x"})).send();
        reply.refused(415, "unsupported_content_encoding");
    }
}

#[test]
fn encoded_unreserved_characters_of_a_path_are_the_characters() {
    let acme = Fixture::new();
    acme.owner.post("/agents", json!({"stableKey": "ann-1", "name": "Ann"})).ok();
    for path in ["/%61gents/ann%2D1", "/agents/%61nn-1"] {
        assert_eq!(acme.owner.get(path).ok()["stableKey"], "ann-1", "{path}");
    }
    acme.owner.get("/agents%2Fann-1").refused(404, "no_such_path");
}

#[test]
fn a_number_may_be_written_with_a_zero_fraction() {
    let acme = Fixture::new();
    let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let ask = |priority: &str| {
        let body =
            format!(r#"{{"orgSlug": "{}", "title": "t", "priority": {priority}}}"#, acme.slug);
        acme.owner.ask("POST", &format!("/teams/{team}/tasks")).bytes(body).send()
    };
    for priority in ["2", "2.0", "2e0"] {
        assert_eq!(ask(priority).ok()["priority"], 2);
    }
    ask("2.5").invalid(&["priority"]);
}

/// What a 404 says: message and path.
fn said(reply: &Reply) -> Value {
    let problem = reply.problem();
    assert_eq!(reply.status, 404, "{problem}");
    json!([problem["message"], problem["path"]])
}

#[test]
fn a_404_says_what_there_is_none_of_and_what_named_it() {
    let (acme, globex) = (Fixture::new(), Fixture::new());
    let team = acme.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let theirs = globex.owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    for id in [theirs, unknown_id(), "nonsense".into()] {
        let reply = acme.owner.get(&format!("/teams/{id}"));
        assert_eq!(said(&reply), json!(["there is no such team", "teamId"]));
        let task = json!({"title": "t", "projectId": "x", "assigneeAgentId": id});
        let reply = acme.owner.post(&format!("/teams/{team}/tasks"), task);
        assert_eq!(said(&reply), json!(["there is no such agent", "assigneeAgentId"]));
        let draft = json!({"toolRefs": [{"toolId": id}]});
        let agent = json!({"stableKey": "ann", "name": "Ann", "draft": draft});
        let reply = acme.owner.post("/agents", agent);
        assert_eq!(said(&reply), json!(["there is no such tool", "draft.toolRefs[0].toolId"]));
        let reply = acme.owner.patch(&format!("/tools/{id}"), json!({}));
        assert_eq!(said(&reply), json!(["there is no such tool", "toolId"]));
    }
    let reply = acme.owner.get("/agents/nobody");
    assert_eq!(said(&reply), json!(["there is no such agent", "stableKey"]));
    for org in [&*globex.slug, "never"] {
        let organization = json!(["there is no such organization", "orgSlug"]);
        assert_eq!(said(&acme.owner.about(org).get("/tools")), organization);
        let path = format!("/registries/artifacts?registryRef={org}/main");
        let reply = acme.owner.ask("GET", &path).send();
        assert_eq!(said(&reply), json!(["there is no such organization", "registryRef"]));
    }
    let reply = acme.owner.get(&format!("/registries/artifacts?registryRef={}/never", acme.slug));
    assert_eq!(said(&reply), json!(["there is no such registry", "registryRef"]));
}

fn publish(acme: &Fixture, version: &str, source: &str) -> Reply {
    let body = json!({
        "registryRef": format!("{}/main", acme.slug), "artifactType": "prompt", "name": "p",
        "version": version, "source": source,
    });
    acme.owner.post("/registries/artifacts", body)
}

#[test]
fn a_diff_is_text_for_those_who_prefer_it() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    publish(&acme, "1.0.0", "a\nb\n").ok();
    publish(&acme, "1.1.0", "a\nc\n").ok();
    let query = format!("registryRef={}/main&promptName=p&from=1.0.0&to=1.1.0", acme.slug);
    let path = format!("/registries/artifact-versions/diff?{query}");
    let json = acme.owner.ask("GET", &path).send();
    let text = acme.owner.ask("GET", &path).with("Accept", "text/plain").send();
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(json.ok()["diff"], text.text());
    assert!(text.text().starts_with("--- 1.0.0\n+++ 1.1.0\n@@ "));
    for reply in [&json, &text] {
        assert_eq!(reply.header("vary"), Some("accept"));
    }
    let tag = text.header("etag").unwrap();
    assert_ne!(json.header("etag"), Some(tag));
    let ask = acme.owner.ask("GET", &path).with("Accept", "text/plain").with("If-None-Match", tag);
    assert_eq!(ask.send().status, 304);
    let missing = path.replace("to=1.1.0", "to=9");
    let refused = acme.owner.ask("GET", &missing).with("Accept", "text/plain").send();
    assert_eq!(said(&refused), json!(["there is no such version", "to"]));
}

#[test]
fn publishing_the_same_again_is_answered_and_not_told() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let made = publish(&acme, "1.0.0", "a").ok();
    let events = || acme.owner.get("/notifications/logs").ok()["items"].as_array().unwrap().len();
    let before = events();
    assert_eq!(publish(&acme, "1.0.0", "a").ok(), made);
    assert_eq!(events(), before);
    publish(&acme, "1.0.0", "b").refused(409, "version_exists");
}

#[test]
fn the_document_is_compressed_and_sent_once() {
    let acme = Fixture::new();
    let ask = |fields: &[(&str, &str)]| {
        acme.anonymous.with_fields(fields).ask("GET", "/openapi.json").send()
    };
    let plain = ask(&[]);
    let gzip = ask(&[("Accept-Encoding", "br, gzip")]);
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    assert!(gzip.body.len() * 5 < plain.body.len(), "{} {}", gzip.body.len(), plain.body.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&*gzip.body).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    let tags = [plain.header("etag").unwrap(), gzip.header("etag").unwrap()];
    assert_ne!(tags[0], tags[1]);
    assert_eq!(ask(&[("If-None-Match", tags[0])]).status, 304);
    let again = ask(&[("Accept-Encoding", "gzip"), ("If-None-Match", tags[1])]);
    assert_eq!((again.status, again.body.len()), (304, 0));
    for reply in [&plain, &gzip, &again] {
        assert_eq!(reply.header("vary"), Some("accept-encoding"));
    }
}
