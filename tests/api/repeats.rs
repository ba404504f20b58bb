//! `Idempotency-Key` (reference: conventions, "Idempotency").

use serde_json::{Value, json};

use crate::client::{Caller, Reply, at_once};
use crate::fixture::{Fixture, Running, config, key_of};

fn keyed(caller: &Caller, key: &str, path: &str, body: Value) -> Reply {
    caller.ask("POST", path).with("Idempotency-Key", key).org_json(body).send()
}

fn tool(name: &str) -> Value {
    json!({"name": name, "type": "function"})
}

#[test]
fn a_repeated_request_gets_the_same_response_without_side_effects() {
    let acme = Fixture::new();
    let first = keyed(&acme.key, "once", "/tools", tool("a"));
    first.ok();
    assert_eq!(first.header("idempotency-replayed"), None);
    let second = keyed(&acme.key, "once", "/tools", tool("a"));
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!((second.status, &second.body), (200, &first.body));
    assert_eq!(second.header("content-type"), Some("application/json"));
    assert_eq!(acme.key.get("/tools").items().len(), 1);
    // What it made may be long gone.
    acme.key.delete(&format!("/tools/{}", first.id())).ok();
    assert_eq!(keyed(&acme.key, "once", "/tools", tool("a")).body, first.body);
}

#[test]
fn an_idempotency_key_with_another_body_is_refused() {
    let acme = Fixture::new();
    keyed(&acme.key, "once", "/tools", tool("a")).ok();
    let other = keyed(&acme.key, "once", "/tools", tool("b"));
    other.refused(409, "idempotency_key_reused");
    assert_eq!(acme.key.get("/tools").items().len(), 1);
}

#[test]
fn idempotency_is_per_path_credential_and_key() {
    let acme = Fixture::new();
    let body = json!({"name": "a", "type": "function"});
    keyed(&acme.key, "once", "/tools", body.clone()).ok();
    keyed(&acme.key, "once", "/teams", json!({"name": "a", "slug": "a"})).ok();
    keyed(&acme.key, "twice", "/tools", body.clone()).ok();
    keyed(&acme.owner, "once", "/tools", body.clone()).ok();
    keyed(&key_of(&acme.owner), "once", "/tools", body.clone()).ok();
    assert_eq!(acme.key.get("/tools").items().len(), 4);
    let replayed = keyed(&acme.key, "once", "/tools", body);
    assert_eq!(replayed.header("idempotency-replayed"), Some("true"));
}

#[test]
fn failures_are_not_replayed() {
    let acme = Fixture::new();
    let team = json!({"slug": "t", "name": "T"});
    let first = keyed(&acme.key, "once", "/teams", team.clone()).id();
    assert_eq!(keyed(&acme.key, "again", "/teams", team.clone()).status, 409);
    acme.owner.delete(&format!("/teams/{first}")).ok();
    let second = keyed(&acme.key, "again", "/teams", team);
    assert_eq!(second.header("idempotency-replayed"), None);
    assert_ne!(second.id(), first);
    keyed(&acme.key, "bad", "/teams", json!({})).invalid(&["slug", "name"]);
    keyed(&acme.key, "bad", "/teams", json!({"slug": "u", "name": "U"})).ok();
}

#[test]
fn a_response_with_a_secret_is_not_stored() {
    let acme = Fixture::new();
    let ask = || keyed(&acme.owner, "once", "/api-keys", json!({"name": "ci"}));
    let first = ask();
    assert_eq!(first.header("idempotency-stored"), Some("false"));
    let secret = first.ok()["key"].as_str().unwrap().to_string();
    let again = ask();
    again.refused(409, "answer_not_kept");
    assert!(!again.text().contains(&secret));
    assert_eq!(acme.owner.get("/api-keys").items().len(), 2);
}

#[test]
fn an_idempotency_key_has_1_to_255_printable_characters() {
    let acme = Fixture::new();
    for good in ["x", "with blanks ~", &"k".repeat(255)] {
        keyed(&acme.key, good, "/tools", tool("a")).ok();
    }
    for bad in ["", "\t", "tab\there", "ümlaut", &"k".repeat(256)] {
        keyed(&acme.key, bad, "/tools", tool("a")).invalid(&["Idempotency-Key"]);
    }
    assert_eq!(acme.key.get("/tools").items().len(), 3);
}

#[test]
fn only_post_uses_the_idempotency_key() {
    let acme = Fixture::new();
    let path = format!("/tools/{}", acme.key.post("/tools", tool("a")).id());
    let rename = |name: &str| {
        let ask = acme.key.ask("PATCH", &path).with("Idempotency-Key", "once");
        ask.org_json(json!({"name": name})).send().ok()["name"].clone()
    };
    assert_eq!([rename("b"), rename("c")], ["b", "c"]);
    let get = acme.key.in_org(&path);
    assert_eq!(acme.key.ask("GET", &get).with("Idempotency-Key", "").send().status, 200);
}

#[test]
fn of_concurrent_repeats_one_runs_and_all_get_its_response() {
    let acme = Fixture::new();
    let replies = at_once(16, |_| keyed(&acme.key, "once", "/tools", tool("a")));
    let replayed = replies.iter().filter(|r| r.header("idempotency-replayed").is_some()).count();
    assert_eq!(replayed, 15);
    assert!(replies.iter().all(|reply| reply.ok() == replies[0].ok()));
    assert_eq!(acme.key.get("/tools").items().len(), 1);
}

#[test]
fn publishing_without_external_calls_is_idempotent_like_other_writes() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let new = json!({
        "registryRef": format!("{}/main", acme.slug), "artifactType": "prompt", "name": "p",
        "version": "1.0.0", "source": "x",
    });
    let publish = |_| keyed(&acme.key, "once", "/registries/artifacts", new.clone());
    let replies = at_once(16, publish);
    let replayed = replies.iter().filter(|r| r.header("idempotency-replayed").is_some()).count();
    assert!(replies.iter().all(|reply| reply.ok() == replies[0].ok()));
    assert_eq!(replayed, 15);
}

#[test]
fn a_response_too_large_to_store_is_sent_once_and_reads_may_be_repeated() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let new = |kind: &str, source: &str| {
        json!({
            "registryRef": format!("{}/main", acme.slug), "artifactType": kind, "name": "p",
            "version": "1.0.0", "source": source,
        })
    };
    // As JSON, each of these characters takes six bytes.
    let part = "\u{1}".repeat(150_000);
    acme.key.post("/registries/artifacts", new("promptlet", &part)).ok();
    let large = new("prompt", &"{{ import \"p\" }}".repeat(6));
    let publish = || keyed(&acme.key, "once", "/registries/artifacts", large.clone());
    publish().ok();
    publish().refused(409, "answer_not_kept");
    let mut compile = large.clone();
    for field in ["name", "version"] {
        compile.as_object_mut().unwrap().remove(field);
    }
    for _ in 0..2 {
        keyed(&acme.key, "once", "/prompts/p/compile", compile.clone()).ok();
    }
}

#[test]
fn a_post_that_changes_nothing_is_done_again_and_keeps_nothing() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let registry = format!("{}/main", acme.slug);
    let compile = |source: &str| {
        let body = json!({"registryRef": registry, "source": source});
        let reply = keyed(&acme.key, "once", "/prompts/p/compile", body);
        assert_eq!(reply.header("idempotency-replayed"), None);
        reply.ok().clone()
    };
    let first = compile("one");
    // Nothing remembers the body.
    assert_ne!(compile("two"), first);
    assert_eq!(compile("one"), first);
}

#[test]
fn answers_beyond_64_mib_of_a_credential_are_not_kept_and_say_so_also_after_a_restart() {
    let running = Running::start(config());
    let acme = running.fixture();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    // As JSON, each of these characters takes six bytes; the answer has the text twice.
    let source = "\u{1}".repeat(160_000);
    let publish = |caller: &Caller, n: usize| {
        let new = json!({
            "registryRef": format!("{}/main", acme.slug), "artifactType": "prompt", "name": "p",
            "version": format!("{n}.0.0"), "source": source,
        });
        keyed(caller, &n.to_string(), "/registries/artifacts", new)
    };
    let replies: Vec<Reply> = (1..=40).map(|n| publish(&acme.key, n)).collect();
    let bytes: usize = replies.iter().map(|reply| reply.text().len()).sum();
    assert!(bytes > 64 << 20, "{bytes}");
    assert_eq!(replies[0].header("idempotency-stored"), None);
    let last = replies.last().unwrap();
    assert_eq!((last.status, last.header("idempotency-stored")), (200, Some("false")));
    let replayed = publish(&acme.key, 1);
    assert_eq!(replayed.header("idempotency-replayed"), Some("true"));
    let refused = publish(&acme.key, 40);
    refused.refused(409, "answer_not_kept");
    assert!(refused.text().contains("64 MiB"), "{}", refused.text());
    // Another credential has its own.
    assert_eq!(publish(&key_of(&acme.owner), 41).header("idempotency-stored"), None);

    let (store, address) = (running.store.clone(), running.address.to_string());
    running.stop();
    let _running = Running::serve(store, &address, config());
    let refused = publish(&acme.key.clone(), 42);
    assert_eq!((refused.status, refused.header("idempotency-stored")), (200, Some("false")));
}
