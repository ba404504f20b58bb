//! Scopes of API keys: every route × every scope, by walking the declarations; scopes narrowed to one
//! resource; what needs no scope (reference: identity-and-rights, "Scopes of keys").

use std::collections::BTreeMap;

use roadstead::api::audit::{AuditEntry, AuditOutcome};
use roadstead::api::{Route, ScopeReach};
use roadstead::auth::{RequiredCredential, ScopeName, TargetForm};
use serde_json::{Value, json};

use crate::client::{Caller, Connection, Reply, eventually, raw};
use crate::deployments::{self, body, path};
use crate::fixture::{Fixture, Running, config, key_of, unknown_id};
use crate::registries::{publish, registry};
use crate::routes::{all_routes, ask, path_with, sample};

/// A key of a user in a session, with this access.
#[track_caller]
fn key_with(session: &Caller, access: Value) -> Caller {
    let made = session.post("/api-keys", json!({"name": "a key", "access": access})).ok();
    assert_eq!(made["access"], access);
    session.with_key(made["key"].as_str().unwrap())
}

fn takes_keys(route: &Route) -> bool {
    route.policy.credential == RequiredCredential::KeyOrSession
}

fn needed(route: &Route) -> Vec<ScopeName> {
    route.required_scopes.iter().map(|required| required.name).collect()
}

// ── Declarations ─────────────────────────────────────────────────────────────

#[test]
fn every_route_that_takes_keys_declares_a_scope_and_no_other_does() {
    let mut used = vec![ScopeName::MetricsRead];
    for route in all_routes() {
        let scopes = needed(&route);
        let needs_some = takes_keys(&route) && !route.needs_no_scope;
        assert_eq!(!scopes.is_empty(), needs_some, "{}", route.name);
        for required in &route.required_scopes {
            // Narrowing is possible only where the scope has targets.
            let is_all = matches!(required.reach, ScopeReach::All);
            let has_targets = required.name.target() != TargetForm::Nothing;
            assert!(is_all || has_targets, "{}: {}", route.name, required.name);
        }
        used.extend(scopes);
    }
    for name in ScopeName::all() {
        assert!(used.contains(&name), "no route needs {name}");
    }
}

#[test]
fn what_read_includes_changes_nothing() {
    for route in all_routes().iter().filter(|route| takes_keys(route)) {
        let is_read = needed(route).iter().all(|name| name.is_read());
        assert!(!is_read || !route.changes(), "{}", route.name);
    }
}

// ── Every route with every scope ─────────────────────────────────────────────

/// Sends the smallest valid request to a route, about a private registry that exists: who may know of
/// one is decided before scopes are.
fn ask_route(caller: &Caller, route: &Route) -> Reply {
    let ids = BTreeMap::from([("registrySlug", "main".to_string())]);
    let mut fields = sample(route);
    if fields.get("registryRef").is_some() {
        fields["registryRef"] = json!(format!("{}/main", caller.org));
    }
    ask(caller, route, &path_with(route, &ids), &fields)
}

#[track_caller]
fn assert_let_in(route: &Route, who: &str, reply: &Reply) {
    let text = reply.text();
    assert!(![400, 401, 403].contains(&reply.status), "{} with {who}: {text}", route.name);
}

/// Fails unless the request lacks one of these scopes, and says so.
#[track_caller]
fn assert_lacks(route: &Route, who: &str, lacking: &[ScopeName], reply: &Reply) {
    let context = format!("{} with {who}: {} {}", route.name, reply.status, reply.text());
    assert_eq!(
        (reply.status, &reply.problem()["code"]),
        (403, &json!("scope_missing")),
        "{context}"
    );
    let message = reply.json()["message"].as_str().unwrap().to_string();
    assert!(lacking.iter().any(|name| message.contains(name.text())), "{context}");
}

#[test]
fn a_key_is_let_in_exactly_where_it_has_the_scopes_of_the_route() {
    // Whose owner administers the whole server.
    let running = Running::start(config());
    let acme = running.fixture();
    registry(&acme, "main", json!({}));
    let mut routes = all_routes();
    routes.retain(|route| takes_keys(route) && !route.needs_no_scope);
    let single: Vec<_> =
        ScopeName::all().map(|name| (name, key_with(&acme.owner, json!([name.text()])))).collect();
    let others: BTreeMap<&str, Caller> = ScopeName::all()
        .map(|name| {
            let rest: Vec<_> = ScopeName::all().filter(|other| *other != name).collect();
            let rest: Vec<_> = rest.into_iter().map(ScopeName::text).collect();
            (name.text(), key_with(&acme.owner, json!(rest)))
        })
        .collect();
    let (full, read) = (key_with(&acme.owner, json!("full")), key_with(&acme.owner, json!("read")));
    let mut cells = 0;
    for route in &routes {
        let needed = needed(route);
        for (name, key) in &single {
            let reply = ask_route(key, route);
            if needed == [*name] {
                assert_let_in(route, name.text(), &reply);
            } else {
                let lacking: Vec<_> =
                    needed.iter().filter(|needed| *needed != name).copied().collect();
                assert_lacks(route, name.text(), &lacking, &reply);
            }
            cells += 1;
        }
        for name in &needed {
            let reply = ask_route(&others[name.text()], route);
            assert_lacks(route, "all others", &[*name], &reply);
        }
        let exact: Vec<_> = needed.iter().map(|name| name.text()).collect();
        if exact.len() > 1 {
            let key = key_with(&acme.owner, json!(exact));
            assert_let_in(route, "exactly its scopes", &ask_route(&key, route));
        }
        assert_let_in(route, "full", &ask_route(&full, route));
        if needed.iter().all(|name| name.is_read()) {
            assert_let_in(route, "read", &ask_route(&read, route));
        } else {
            assert_lacks(route, "read", &needed, &ask_route(&read, route));
        }
    }
    assert_eq!(cells, routes.len() * single.len());
}

#[test]
fn a_session_and_a_key_without_access_have_every_scope() {
    let acme = Fixture::new();
    let made = acme.owner.post("/api-keys", json!({"name": "old"})).ok();
    assert_eq!(made["access"], "full");
    let listed = acme.owner.get("/api-keys").items();
    assert!(listed.iter().all(|key| key["access"] == "full"), "{listed:?}");
    let old = acme.owner.with_key(made["key"].as_str().unwrap());
    for caller in [&acme.owner, &acme.member, &old, &key_of(&acme.member)] {
        caller.post("/tools", json!({"name": "t", "type": "function"})).ok();
    }
    assert_eq!(acme.owner.get("/api-keys").items().len(), 3);
}

#[test]
fn a_scope_gives_no_right_that_its_user_lacks() {
    let acme = Fixture::new();
    let key = key_with(&acme.member, json!(["environment:write", "environment:read"]));
    let new = json!({"slug": "staging", "name": "S", "access": "restricted"});
    key.post("/environments", new.clone()).refused(403, "admin_required");
    acme.admin.post("/environments", new).ok();
    assert!(key.get("/environments").items().is_empty());
}

// ── Narrowed scopes ──────────────────────────────────────────────────────────

#[track_caller]
fn lacks(reply: &Reply, scope: &str) {
    let problem = reply.refused(403, "scope_missing");
    assert!(problem["message"].as_str().unwrap().contains(scope), "{problem}");
}

fn ids(items: &[Value], field: &str) -> Vec<String> {
    items.iter().map(|item| item[field].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_scope_for_a_registry_is_for_it_alone_however_it_is_named() {
    let acme = Fixture::new();
    let made = ["main", "other"].map(|slug| registry(&acme, slug, json!({})));
    for slug in ["main", "other"] {
        publish(&acme, [slug, "prompt", "p", "1.0.0"], "Hello");
    }
    let own = format!("{}/main", acme.slug);
    let mut minor = 0;
    for named in ["main", own.as_str()] {
        let (read, publish) =
            (format!("artifact:read@{named}"), format!("artifact:publish@{named}"));
        let key = key_with(&acme.member, json!([read, publish, format!("registry:read@{named}")]));
        let version = |reference: &str, version: &str| {
            json!({"registryRef": reference, "artifactType": "prompt", "name": "p",
                "version": version, "source": "Bye"})
        };
        let content = |reference: &str| {
            key.get(&format!(
                "/registries/artifact-versions/content?promptName=p&registryRef={reference}"
            ))
        };
        for reference in ["main", &own, made[0]["id"].as_str().unwrap()] {
            content(reference).ok();
            minor += 1;
            key.post("/registries/artifacts", version(reference, &format!("1.{minor}.0"))).ok();
        }
        for reference in ["other", &own.replace("main", "other"), made[1]["id"].as_str().unwrap()] {
            lacks(&content(reference), "artifact:read");
            lacks(
                &key.post("/registries/artifacts", version(reference, "9.0.0")),
                "artifact:publish",
            );
        }
        // It lists what it may read, and nothing else.
        assert_eq!(ids(&key.get("/registries").items(), "slug"), ["main"]);
        key.get("/registries/main").ok();
        lacks(&key.get("/registries/other"), "registry:read");
        // A registry that never was is not told from one that the key is not for.
        content("never").refused(403, "scope_missing");
    }
}

#[test]
fn a_clone_takes_reading_one_registry_and_publishing_into_the_other() {
    let acme = Fixture::new();
    for slug in ["from", "to"] {
        registry(&acme, slug, json!({}));
    }
    publish(&acme, ["from", "prompt", "p", "1.0.0"], "Hello");
    let clone = |access: Value, to: Value| {
        let body = json!({"registryRef": "from", "promptName": "p", "version": "1.0.0", "to": to});
        key_with(&acme.member, access).post("/registries/artifact-versions/clone", body)
    };
    let there = json!({"registryRef": "to"});
    lacks(&clone(json!(["artifact:publish@to"]), there.clone()), "artifact:read");
    lacks(
        &clone(json!(["artifact:publish@from", "artifact:read"]), there.clone()),
        "artifact:publish",
    );
    clone(json!(["artifact:publish@to", "artifact:read@from"]), there).ok();
    clone(json!(["artifact:publish@from"]), json!({"promptName": "q"})).ok();
}

#[test]
fn a_scope_for_a_label_moves_that_label_alone() {
    let acme = Fixture::new();
    for slug in ["main", "other"] {
        registry(&acme, slug, json!({}));
        publish(&acme, [slug, "prompt", "p", "1.0.0"], "Hello");
    }
    const LABELS: &str = "/registries/artifacts/labels";
    let key = key_with(&acme.member, json!([format!("label:move@{}/main#staging", acme.slug)]));
    let all = key_with(&acme.member, json!(["label:move@main"]));
    let set = |key: &Caller, registry: &str, label: &str| {
        let body =
            json!({"registryRef": registry, "promptName": "p", "label": label, "version": "1.0.0"});
        key.patch(LABELS, body)
    };
    set(&key, "main", "staging").ok();
    for (registry, label) in [("main", "production"), ("main", "Staging"), ("other", "staging")] {
        lacks(&set(&key, registry, label), "label:move");
    }
    set(&all, "main", "production").ok();
    lacks(&set(&all, "other", "staging"), "label:move");
    let remove =
        |label: &str| key.delete(&format!("{LABELS}?registryRef=main&promptName=p&label={label}"));
    lacks(&remove("production"), "label:move");
    remove("staging").ok();
}

#[test]
fn a_scope_for_a_team_is_for_everything_below_it_and_for_no_other() {
    let acme = Fixture::new();
    let [shipping, sales] = ["shipping", "sales"]
        .map(|slug| acme.owner.post("/teams", json!({"slug": slug, "name": slug})).id());
    let access = json!(["team:work@shipping", "team:read@shipping", "exchange:write@shipping"]);
    let key = key_with(&acme.owner, access);
    let task = |team: &str| key.post(&format!("/teams/{team}/tasks"), json!({"title": "t"}));
    task(&shipping).ok();
    assert_eq!(key.get(&format!("/teams/{shipping}/tasks")).items().len(), 1);
    for team in [&sales, &unknown_id(), "shipping"] {
        lacks(&task(team), "team:work");
        lacks(&key.get(&format!("/teams/{team}/tasks")), "team:read");
    }
    assert_eq!(ids(&key.get("/teams").items(), "slug"), ["shipping"]);
    lacks(&key.post("/teams", json!({"slug": "new", "name": "N"})), "team:write");
    lacks(&key.patch(&format!("/teams/{shipping}"), json!({"name": "N"})), "team:write");
    // A rule for the whole organization takes the scope for all teams.
    let rules = format!("/teams/{shipping}/exchange/domain-rules");
    let rule = |wide: bool| {
        let rule = json!({"domain": "a.test", "rule": "allow", "orgWide": wide});
        key.post(&rules, rule)
    };
    rule(false).ok();
    lacks(&rule(true), "exchange:write");
    let wide = json!({"domain": "b.test", "rule": "allow", "orgWide": true});
    let wide = acme.owner.post(&rules, wide).id();
    lacks(&key.delete(&format!("{rules}/{wide}")), "exchange:write");
}

#[test]
fn a_scope_for_an_environment_is_for_it_alone_by_slug_by_id_and_through_its_jobs() {
    let acme = deployments::acme(&["ann"]);
    let staging = acme.admin.post("/environments", json!({"slug": "staging", "name": "S"})).id();
    let dev = acme.admin.get("/environments").items();
    let dev = dev.iter().find(|one| one["slug"] == "dev").unwrap()["id"].as_str().unwrap();
    let names = [
        "environment:read",
        "variable:read",
        "variable:write",
        "secret:read",
        "deployment:read",
        "deployment:create",
        "deployment:cancel",
        "deployment:preview",
        "deployment:report",
    ];
    let access: Vec<_> = names.iter().map(|name| format!("{name}@staging")).collect();
    let key = key_with(&acme.admin, json!(access));
    let jobs = ["dev", "staging"].map(|slug| {
        let job =
            acme.admin.post("/agents/deployments", body(&["ann"], json!({"environment": slug})));
        deployments::until(&acme.admin, &job.ok(), "complete")
    });

    key.get(&format!("/environments/{staging}")).ok();
    key.put(&format!("/environments/{staging}/variables/A"), json!({"value": "b"})).ok();
    lacks(&key.get(&format!("/environments/{dev}")), "environment:read");
    lacks(&key.get(&format!("/environments/{dev}/secrets")), "secret:read");
    let set = key.put(&format!("/environments/{dev}/variables/A"), json!({"value": "b"}));
    lacks(&set, "variable:write");
    assert_eq!(ids(&key.get("/environments").items(), "slug"), ["staging"]);
    lacks(&key.get("/environments/variables/A/usage"), "variable:read");

    for named in ["staging", &staging] {
        let new = body(&["ann"], json!({"environment": named}));
        key.post("/agents/deployments/preview", new.clone()).ok();
        deployments::until(&key, &key.post("/agents/deployments", new).ok(), "complete");
        key.get(&format!("/agents/ann/deployed?environment={named}")).ok();
        let beat = json!({"environment": named, "hash": "h"});
        key.post("/agents/ann/heartbeat", beat).ok();
    }
    for named in ["dev", dev, "never"] {
        let new = body(&["ann"], json!({"environment": named}));
        lacks(&key.post("/agents/deployments/preview", new.clone()), "deployment:preview");
        lacks(&key.post("/agents/deployments", new), "deployment:create");
        let deployed = format!("/agents/ann/deployed?environment={named}");
        lacks(&key.get(&deployed), "deployment:read");
        let beat = json!({"environment": named, "hash": "h"});
        lacks(&key.post("/agents/ann/heartbeat", beat), "deployment:report");
    }
    let [there, here] = &jobs;
    key.get(&path(here, "")).ok();
    key.post(&path(here, "/cancel"), json!({})).refused(409, "deployment_finished");
    lacks(&key.get(&path(there, "")), "deployment:read");
    lacks(&key.post(&path(there, "/cancel"), json!({})), "deployment:cancel");
    lacks(&key.post(&path(there, "/rollback"), json!({})), "deployment:create");
    for list in ["/agents/deployments", "/agents/ann/deployment-history"] {
        let listed = key.get(list).items();
        assert!(listed.iter().all(|one| one["environmentId"] == json!(staging)), "{listed:?}");
        assert_eq!(listed.len() + 1, acme.admin.get(list).items().len());
    }
    let history = acme.admin.get("/agents/ann/deployment-history").items();
    for deployment in history {
        let id = deployment["id"].as_str().unwrap();
        let again = format!("/agents/ann/deployment-history/{id}/redeploy");
        let again = key.post(&again, json!({}));
        if deployment["environmentId"] == json!(staging) {
            deployments::until(&key, &again.ok(), "complete");
        } else {
            lacks(&again, "deployment:create");
        }
    }
}

#[test]
fn what_a_request_takes_besides_needs_a_scope_of_its_own() {
    let acme = deployments::acme(&[]);
    let render = |access: Value| {
        let body = json!({"registryRef": "main", "environment": "dev"});
        key_with(&acme.member, access).post("/prompts/hello/render", body)
    };
    lacks(&render(json!(["artifact:read"])), "variable:read");
    lacks(&render(json!(["artifact:read", "variable:read@staging"])), "variable:read");
    render(json!(["artifact:read", "variable:read@dev"])).ok();

    let tool = acme.member.post("/tools", json!({"name": "t", "type": "function"})).id();
    let update = |access: Value| {
        let body = json!({"bumpVersion": "minor", "updateEnvironmentVersions": ["dev"]});
        key_with(&acme.member, access).patch(&format!("/tools/{tool}"), body)
    };
    lacks(&update(json!(["tool:write"])), "deployment:create");
    update(json!(["tool:write", "deployment:create@dev"])).ok();
}

#[test]
fn a_scope_holds_for_what_bears_its_name_at_that_moment() {
    let acme = Fixture::new();
    // It may be created before what it names.
    let key = key_with(&acme.member, json!(["team:work@shipping", "team:read@shipping"]));
    let new = json!({"slug": "shipping", "name": "S"});
    let tasks = |team: &str| key.get(&format!("/teams/{team}/tasks"));
    let first = acme.owner.post("/teams", new.clone()).id();
    tasks(&first).ok();
    acme.owner.delete(&format!("/teams/{first}")).ok();
    lacks(&tasks(&first), "team:read");
    assert!(key.get("/teams").items().is_empty());
    let second = acme.owner.post("/teams", new).id();
    tasks(&second).ok();
    lacks(&tasks(&first), "team:read");
}

// ── Around scopes ────────────────────────────────────────────────────────────

#[test]
fn what_is_public_takes_no_scope_and_what_is_private_does() {
    let acme = Fixture::new();
    for (slug, visibility) in [("open", "public"), ("closed", "private")] {
        registry(&acme, slug, json!({"visibility": visibility}));
        publish(&acme, [slug, "prompt", "p", "1.0.0"], "Hello");
    }
    let stranger = Fixture::new();
    let content = |key: &Caller, slug: &str| {
        let reference = format!("{}/{slug}", acme.slug);
        let query = format!("promptName=p&registryRef={reference}");
        key.ask("GET", &format!("/registries/artifact-versions/content?{query}")).send()
    };
    for access in [json!(["tool:read"]), json!(["artifact:read@other", "registry:read@other"])] {
        let key = key_with(&acme.member, access.clone());
        content(&key, "open").ok();
        key.get("/registries/open").ok();
        lacks(&content(&key, "closed"), "artifact:read");
        lacks(&key.get("/registries/closed"), "registry:read");
        let foreign = key_with(&stranger.member, access);
        content(&foreign, "open").ok();
        content(&foreign, "closed").refused(404, "organization_not_found");
        // A credential that counts is checked all the same.
        content(&acme.anonymous.with_key("nonsense"), "open").refused(401, "unauthenticated");
    }
    content(&acme.anonymous, "open").ok();
}

#[test]
fn a_scope_is_checked_before_a_stored_answer_is_replayed() {
    let acme = Fixture::new();
    let key = key_with(&acme.owner, json!(["team:work@shipping"]));
    let team = acme.owner.post("/teams", json!({"slug": "shipping", "name": "S"})).id();
    let send = || {
        key.ask("POST", &format!("/teams/{team}/tasks"))
            .with("Idempotency-Key", "once")
            .org_json(json!({"title": "t"}))
            .send()
    };
    send().ok();
    assert_eq!(send().header("idempotency-replayed"), Some("true"));
    acme.owner.delete(&format!("/teams/{team}")).ok();
    lacks(&send(), "team:work");
}

#[test]
fn a_stream_of_wakes_takes_the_scope_for_its_team_and_ends_with_it() {
    let acme = Fixture::new();
    acme.member.post("/agents", json!({"stableKey": "ann", "name": "Ann"})).ok();
    let [shipping, sales] = ["shipping", "sales"].map(|slug| {
        let team = acme.owner.post("/teams", json!({"slug": slug, "name": slug})).id();
        let hired = json!({"stableKey": "ann", "role": "member"});
        let ann = acme.owner.post(&format!("/teams/{team}/agents"), hired).id();
        (team.clone(), format!("/teams/{team}/agents/{ann}/wakes"))
    });
    let key = key_with(&acme.member, json!(["team:work@shipping"]));
    let stream = |path: &str| {
        key.ask("GET", &key.in_org(path)).with("Accept", "text/event-stream").to_bytes()
    };
    lacks(&raw(acme.address, &stream(&sales.1)), "team:work");
    lacks(&key.get(&format!("{}?wait=5", sales.1)), "team:work");
    let reading = key_with(&acme.member, json!("read"));
    lacks(&reading.get(&format!("{}?peek=true", shipping.1)), "team:work");

    let mut open = Connection::open(acme.address).unwrap();
    open.write(&stream(&shipping.1)).unwrap();
    assert_eq!(open.head().unwrap().0, 200);
    assert!(open.chunk().unwrap().starts_with("retry: "));
    acme.owner.delete(&format!("/teams/{}", shipping.0)).ok();
    let end = open.chunk().unwrap();
    assert!(end.contains("event: error") && end.contains("scope_missing"), "{end}");
}

#[test]
fn the_metrics_take_an_admins_key_with_their_scope() {
    let running = Running::start(config());
    let acme = running.fixture();
    let scrape = |key: &Caller| {
        let head = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-API-Key: {}\r\n\r\n",
            key.credential()
        );
        raw(acme.address, head.as_bytes())
    };
    for access in [json!(["metrics:read"]), json!("read"), json!("full")] {
        assert_eq!(scrape(&key_with(&acme.owner, access.clone())).status, 200, "{access}");
        let other = scrape(&key_with(&acme.admin, access.clone()));
        other.refused(403, "installation_admin_required");
        scrape(&key_with(&acme.member, access)).refused(403, "admin_required");
    }
    lacks(&scrape(&key_with(&acme.owner, json!(["tool:read"]))), "metrics:read");
    lacks(&scrape(&key_with(&acme.admin, json!(["tool:read"]))), "metrics:read");
    running.stop();
}

#[test]
fn deciding_as_others_takes_the_scope_beside_the_permission() {
    let acme = Fixture::new();
    let new = |access: Value| json!({"name": "bot", "allowApproveAs": true, "access": access});
    acme.admin.post("/api-keys", new(json!(["deployment:read"]))).invalid(&["allowApproveAs"]);
    acme.admin.post("/api-keys", new(json!("read"))).invalid(&["allowApproveAs"]);
    let made = acme.admin.post("/api-keys", new(json!(["deployment:decide"]))).ok();
    assert_eq!(made["permissions"], json!(["deployment:approve-as"]));
    let plain = json!(["deployment:approve-as"]);
    acme.admin.post("/api-keys", json!({"name": "k", "access": plain})).invalid(&["access[0]"]);
}

#[test]
fn every_problem_of_an_access_is_reported_where_it_is() {
    let acme = Fixture::new();
    let elsewhere = Fixture::new().slug;
    let create =
        |access: Value| acme.member.post("/api-keys", json!({"name": "k", "access": access}));
    let access = json!(["artifact:read", "artefact:read", "tool:raed", "team:work@"]);
    let problem = create(access).invalid(&["access[1]", "access[2]", "access[3]"]);
    assert_eq!(problem["issues"][0]["message"], "has an unknown kind; did you mean artifact?");
    assert_eq!(problem["issues"][1]["message"], "has an unknown verb; did you mean tool:read?");
    for access in [json!("everything"), json!([]), json!({"scopes": []}), json!(7)] {
        create(access).invalid(&["access"]);
    }
    let twice = json!(["tool:read", "tool:read"]);
    create(twice).invalid(&["access"]);
    let many: Vec<_> = (0..101).map(|n| format!("team:read@t{n}")).collect();
    create(json!(many)).invalid(&["access"]);
    create(json!(many[1..])).ok();
    let foreign = format!("artifact:read@{elsewhere}/main");
    create(json!(["tool:read", foreign])).invalid(&["access[1]"]);
}

#[test]
fn a_refusal_for_a_missing_scope_is_in_the_audit_log() {
    let acme = Fixture::new();
    let key = key_with(&acme.admin, json!(["tool:read"]));
    lacks(&key.post("/tools", json!({"name": "t", "type": "function"})), "tool:write");
    eventually("the refusal is recorded", || {
        let entries = acme.audited();
        let is_it = |entry: &AuditEntry| {
            entry.action == "tool.create" && entry.outcome == AuditOutcome::Refused
        };
        entries.iter().any(is_it).then_some(())
    });
}
