//! The order of checks (reference: conventions, "Order of checks"), one test for each step and the
//! next, and what refusals must not give away.

use std::collections::BTreeSet;

use roadstead::auth::Role;
use roadstead::auth::key_text;
use roadstead::base::Id;
use serde_json::json;

use crate::client::{Caller, while_limited};
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};

#[test]
fn an_unknown_path_is_checked_before_anything_else() {
    let acme = Fixture::new();
    for (method, path) in [
        ("GET", "/nothing"),
        ("BREW", "/nothing"),
        ("GET", "/tools/"),
        ("GET", "//tools"),
        ("GET", "/Tools"),
        ("GET", "/tools/a/b"),
        ("GET", "/%74ools/"),
        ("GET", "/tools/../tools"),
        ("GET", ""),
    ] {
        for caller in [&acme.anonymous, &acme.owner, &acme.anonymous.with_key("bad")] {
            caller.ask(method, path).send().refused(404, "no_such_path");
        }
    }
}

#[test]
fn the_method_is_checked_before_the_credential() {
    let acme = Fixture::new();
    let reply = acme.anonymous.ask("PUT", "/tools").send();
    reply.refused(405, "method_not_allowed");
    assert_eq!(reply.header("allow"), Some("GET, HEAD, POST"));
    for method in ["OPTIONS", "TRACE", "BREW"] {
        acme.anonymous.ask(method, "/tools").send().refused(405, "method_not_allowed");
    }
    let reply = acme.anonymous.ask("HEAD", "/tools").send();
    assert_eq!(
        (reply.status, reply.header("www-authenticate")),
        (401, Some("Bearer realm=\"roadstead\""))
    );
}

#[test]
fn the_credential_is_checked_before_the_request() {
    let acme = Fixture::new();
    let ask = |caller: &Caller| {
        caller
            .ask("POST", "/tools")
            .with("Content-Type", "text/plain")
            .with("Idempotency-Key", "")
            .bytes(vec![b'x'; 2 << 20])
            .send()
    };
    ask(&acme.anonymous).refused(401, "unauthenticated");
    ask(&acme.anonymous.with_bearer("nonsense")).refused(401, "unauthenticated");
    ask(&acme.anonymous.with_key("rsk_nonsense")).refused(401, "unauthenticated");
    ask(&acme.owner).refused(415, "unsupported_media_type");
}

#[test]
fn session_only_routes_give_the_same_response_to_every_key() {
    let acme = Fixture::new();
    let gone = acme.owner.post("/api-keys", json!({"name": "gone"})).ok();
    acme.owner.delete(&format!("/api-keys/{}", gone["id"].as_str().unwrap())).ok();
    let never = key_text([7; 32]);
    let keys = [&never, gone["key"].as_str().unwrap(), "rsk_nonsense", "nonsense", ""];
    let mut callers: Vec<_> = keys.iter().map(|key| acme.anonymous.with_key(key)).collect();
    callers.push(acme.key.clone());
    callers.push(key_of(&acme.member));
    let bearer = |key: &str| acme.anonymous.with_bearer(key);
    callers.extend([bearer(&never), bearer("rsk_nonsense"), bearer(acme.key.credential())]);
    for (method, path) in [("GET", "/api-keys"), ("POST", "/api-keys"), ("PATCH", "/organizations")]
    {
        let answers = callers.iter().map(|caller| {
            let reply = caller.ask(method, path).bytes("nonsense").send();
            reply.refused(401, "session_required");
            reply.likeness()
        });
        assert_eq!(answers.collect::<BTreeSet<_>>().len(), 1, "{method} {path}");
    }
}

#[test]
fn the_credential_is_checked_before_the_rate_and_the_rate_before_the_request() {
    let running = Running::start(roadstead::app::ServerConfig { rate_limit: 1, ..config() });
    let acme = running.fixture();
    let malformed = || acme.key.ask("POST", "/tools").with("Content-Type", "text/plain").send();
    let reply = while_limited(|| acme.key.get("/tools"), malformed);
    reply.refused(429, "rate_limited");
    let wait: u32 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&wait), "{wait}");
    assert_eq!(reply.header("ratelimit-policy"), Some("\"default\";q=1;w=1"));
    assert_eq!(reply.header("ratelimit"), Some(format!("\"default\";r=0;t={wait}").as_str()));
    acme.key.get("/api-keys").refused(401, "session_required");
    acme.key.ask("GET", "/nothing").send().refused(404, "no_such_path");
    // Every other credential has its own bucket.
    assert_eq!(acme.owner.get("/tools").status, 200);
}

#[test]
fn the_request_is_checked_before_the_organization() {
    let acme = Fixture::new();
    let outsider = Fixture::new().key.about(&acme.slug);
    outsider.post("/tools", json!({})).invalid(&["name", "type"]);
    outsider.ask("POST", "/tools").bytes("{").send().invalid(&[""]);
    outsider.get("/tools?limit=0").invalid(&["limit"]);
    outsider.ask("GET", "/tools").send().invalid(&["orgSlug"]);
    let large = outsider.ask("POST", "/tools").bytes(vec![b' '; (1 << 20) + 1]).send();
    large.refused(413, "body_too_large");
    // As large as one may be, which is no object.
    let largest = outsider.ask("POST", "/tools").bytes(vec![b' '; 1 << 20]).send();
    largest.refused(400, "invalid_request");
    let plain = outsider.ask("POST", "/tools").with("Content-Type", "text/plain").send();
    plain.refused(415, "unsupported_media_type");
    let good = json!({"name": "a", "type": "function"});
    let keyed = outsider.ask("POST", "/tools").with("Idempotency-Key", "ü").org_json(good);
    keyed.send().invalid(&["Idempotency-Key"]);
}

#[test]
fn the_organization_is_checked_before_the_role_and_the_role_before_the_resource() {
    let acme = Fixture::new();
    let outsider = Fixture::new().member.about(&acme.slug);
    let path = format!("/teams/{}", unknown_id());
    outsider.delete(&path).refused(404, "organization_not_found");
    acme.member.delete(&path).refused(403, "admin_required");
    acme.admin.delete(&path).refused(404, "not_found");
}

#[test]
fn the_role_is_checked_before_a_response_is_replayed_and_that_before_the_resource() {
    let acme = Fixture::new();
    let boss = acme.person("eve", Role::Admin);
    let key = key_of(&boss.0);
    let again = |caller: &Caller, path: &str, body: &serde_json::Value| {
        caller.ask("POST", path).with("Idempotency-Key", "k").org_json(body.clone()).send()
    };
    let environment = json!({"slug": "e", "name": "E"});
    let first = again(&key, "/environments", &environment);
    first.ok();
    assert_eq!(again(&key, "/environments", &environment).body, first.body);

    let team = acme.member.post("/teams", json!({"slug": "t", "name": "T"})).id();
    let (tasks, task) = (format!("/teams/{team}/tasks"), json!({"title": "a"}));
    let first = again(&key, &tasks, &task);
    acme.admin.delete(&format!("/teams/{team}")).ok();
    let second = again(&key, &tasks, &task);
    assert_eq!((&second.body, second.status), (&first.body, 200));
    key.post(&tasks, task).refused(404, "not_found");

    let member = format!("/organizations/members/{}", boss.1);
    acme.owner.patch(&member, json!({"role": "member"})).ok();
    again(&key, "/environments", &environment).refused(403, "admin_required");
}

#[test]
fn the_resource_is_checked_before_the_grant_and_the_grant_before_the_state() {
    let acme = Fixture::new();
    let environment = json!({
        "slug": "prod", "name": "Prod", "access": "restricted",
        "approvals": {"approverIds": [acme.owner_id]},
    });
    let environment = acme.admin.post("/environments", environment).id();
    let tool = acme.member.post("/tools", json!({"name": "a", "type": "function"})).id();
    let patch = json!({"bumpVersion": "major", "updateEnvironmentVersions": [environment]});
    let unknown = format!("/tools/{}", unknown_id());
    acme.member.patch(&unknown, patch.clone()).refused(404, "not_found");
    let path = format!("/tools/{tool}");
    acme.member.patch(&path, patch.clone()).refused(403, "grant_required");
    let reply = acme.admin.patch(&path, patch);
    assert_eq!(reply.status, 409, "{}", reply.text());
    assert_eq!(acme.member.get(&path).ok()["version"], "1.0.0");
}

#[test]
fn the_resource_is_checked_before_its_etag() {
    let acme = Fixture::new();
    let ask = |method: &str, caller: &Caller, id: &str| {
        let path = caller.in_org(&format!("/teams/{id}"));
        let ask = caller.ask(method, &path).with("If-Match", "\"other\"");
        ask.org_json(json!({"name": "B"})).send()
    };
    for method in ["PATCH", "DELETE"] {
        ask(method, &acme.admin, &unknown_id()).refused(404, "not_found");
    }
    let team = acme.member.post("/teams", json!({"slug": "t", "name": "T"})).id();
    ask("DELETE", &acme.member, &team).refused(403, "admin_required");
    ask("PATCH", &acme.admin, &team).refused(412, "changed_meanwhile");
    ask("DELETE", &acme.admin, &team).refused(412, "changed_meanwhile");
}

#[test]
fn a_foreign_organization_looks_like_a_missing_one() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    // A user of both, with a key of the first.
    let both = acme.key.clone();
    other.admit(Id::parse(&acme.owner_id));
    let member = key_of(&acme.member);
    let slugs = [other.slug.as_str(), "never-was", "NO SLUG", "", "%00", "a--b"];
    let mut answers = BTreeSet::new();
    for caller in [&both, &acme.member, &member, &acme.admin] {
        for slug in slugs {
            let query = slug.replace(' ', "%20");
            let path = format!("/tools?orgSlug={query}");
            let reply = caller.ask("GET", &path).send();
            reply.refused(404, "organization_not_found");
            answers.insert(reply.likeness());
            let body = json!({"slug": "e", "name": "E", "orgSlug": slug});
            answers.insert(caller.post("/environments", body).likeness());
        }
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    // The owner's session is valid for both.
    assert_eq!(acme.owner.about(&other.slug).get("/tools").status, 200);
}

#[test]
fn an_organization_in_the_query_of_a_write_is_that_of_its_body() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    let body = json!({"orgSlug": acme.slug, "name": "t", "type": "function"});
    let create =
        |slug: &str| acme.key.ask("POST", &format!("/tools?orgSlug={slug}")).json(&body).send();
    for slug in [&*other.slug, "never-was", ""] {
        create(slug).invalid(&["orgSlug"]);
    }
    create(&acme.slug).ok();
}

#[test]
fn a_foreign_resource_looks_like_a_missing_one() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    let team = json!({"slug": "t", "name": "T"});
    let tool = json!({"name": "a", "type": "function"});
    let foreign = other.owner.post("/teams", team.clone()).id();
    let foreign_tool = other.owner.post("/tools", tool.clone()).id();
    let gone = acme.owner.post("/teams", team).id();
    acme.owner.delete(&format!("/teams/{gone}")).ok();
    let gone_tool = acme.owner.post("/tools", tool).id();
    acme.owner.delete(&format!("/tools/{gone_tool}")).ok();
    let unknown_ids = [unknown_id(), "1".into(), "%FF".into(), "a%2Fb".into(), "x".repeat(5000)];
    let teams = [foreign.clone(), gone].into_iter().chain(unknown_ids.clone());
    let tools = [foreign_tool, gone_tool, foreign].into_iter().chain(unknown_ids);
    let [mut of_teams, mut of_tools] = [BTreeSet::new(), BTreeSet::new()];
    for id in teams {
        for (method, below) in [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/tasks")] {
            let path = acme.owner.in_org(&format!("/teams/{id}{below}"));
            let reply = acme.owner.ask(method, &path).org_json(json!({"name": "N"})).send();
            reply.refused(404, "not_found");
            of_teams.insert(reply.likeness());
        }
    }
    for id in tools {
        for method in ["GET", "PATCH", "DELETE"] {
            let path = acme.key.in_org(&format!("/tools/{id}"));
            let reply = acme.key.ask(method, &path).org_json(json!({"name": "N"})).send();
            reply.refused(404, "not_found");
            of_tools.insert(reply.likeness());
        }
    }
    assert_eq!((of_teams.len(), of_tools.len()), (1, 1), "{of_teams:?} {of_tools:?}");
}

#[test]
fn x_api_key_wins_over_authorization() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    let (good, bad) = (acme.key.credential().to_string(), key_text([8; 32]));
    let both = |key: &str, bearer: &str| {
        let fields = [("X-API-Key", key), ("Authorization", &format!("Bearer {bearer}"))];
        acme.anonymous.with_fields(&fields).get("/tools")
    };
    assert_eq!(both(&good, &bad).status, 200);
    assert_eq!(both(&good, "nonsense").status, 200);
    both(&bad, &good).refused(401, "unauthenticated");
    // A variable that is not set: no key was sent.
    assert_eq!(both("", &good).status, 200);
    both("", &bad).refused(401, "unauthenticated");
    let theirs = other.key.credential();
    assert_eq!(both(&good, theirs).status, 200);
    both(theirs, &good).refused(404, "organization_not_found");
    // With a key, a valid session is ignored even on session-only routes.
    let session = format!("Bearer {}", acme.owner.credential());
    let fields = [("X-API-Key", good.as_str()), ("Authorization", &session)];
    acme.anonymous.with_fields(&fields).get("/api-keys").refused(401, "session_required");
}

#[test]
fn a_key_is_the_same_as_a_bearer_token() {
    let acme = Fixture::new();
    let key = acme.key.credential();
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let caller = acme.anonymous.with_fields(&[("Authorization", &format!("{scheme} {key}"))]);
        assert_eq!(caller.get("/tools").status, 200);
        caller.get("/api-keys").refused(401, "session_required");
    }
    for value in [format!("Basic {key}"), key.to_string(), format!("Bearer{key}"), "Bearer".into()]
    {
        let caller = acme.anonymous.with_fields(&[("Authorization", &value)]);
        caller.get("/tools").refused(401, "unauthenticated");
    }
}

#[test]
fn an_invalid_credential_is_refused_even_where_none_is_needed() {
    let acme = Fixture::new();
    let sign_in = json!({"email": "nobody@nowhere.test", "password": "wrong"});
    for caller in [acme.anonymous.with_bearer("nonsense"), acme.anonymous.with_key("rsk_nonsense")]
    {
        let reply = caller.post("/auth/sign-in", sign_in.clone());
        assert!(reply.problem()["message"].as_str().unwrap().contains("credential"));
    }
}
