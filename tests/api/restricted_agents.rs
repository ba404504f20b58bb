//! Agents of a restricted fleet in a team, and what is told of the environments that one may not use
//! (reference: teams-and-wakes, "Restricted agents"; deployments, "Heartbeats").

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::Caller;
use crate::fixture::{Fixture, key_of};

/// A team with the agents `sec`, of a restricted fleet, and `open`.
struct Crew {
    team: String,
    fleet: String,
    sec: String,
    open: String,
}

impl Crew {
    fn new(acme: &Fixture) -> Self {
        let owner = &acme.owner;
        let fleet = owner.post("/fleets", json!({"name": "F", "access": "restricted"})).id();
        let sec = json!({"stableKey": "sec", "name": "Sec", "fleetId": fleet});
        owner.post("/agents", sec).ok();
        owner.post("/agents", json!({"stableKey": "open", "name": "Open"})).ok();
        let team = owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
        let hire = |key: &str| {
            let hired = json!({"stableKey": key, "role": "member"});
            owner.post(&format!("/teams/{team}/agents"), hired).id()
        };
        let (sec, open) = (hire("sec"), hire("open"));
        Crew { team, fleet, sec, open }
    }

    fn at(&self, path: &str) -> String {
        format!("/teams/{}{path}", self.team)
    }

    fn own(&self, path: &str) -> String {
        format!("/teams/{}/agents/{}{path}", self.team, self.sec)
    }

    fn grant(&self, acme: &Fixture, user: &str) -> String {
        let grant = json!({"userId": user, "resourceType": "fleet", "resourceId": self.fleet});
        acme.owner.post("/access-grants", grant).id()
    }
}

/// Whether the log tells a caller of events of a type.
fn hears(caller: &Caller, event: &str) -> bool {
    !caller.get(&format!("/notifications/logs?eventType={event}")).items().is_empty()
}

#[test]
fn nobody_without_the_grant_acts_as_a_restricted_agent_or_reads_what_is_its_own() {
    let acme = Fixture::new();
    let crew = Crew::new(&acme);
    let owner = &acme.owner;
    let memory = owner.post(&crew.own("/memories"), json!({"content": "c"})).id();
    let mail = json!({"toAgentId": crew.sec, "body": "b"});
    let mail = owner.post(&crew.at("/messages"), mail).id();
    let question = json!({"agentId": crew.sec, "title": "May I?"});
    let question = owner.post(&crew.at("/approvals"), question).id();
    let task = owner.post(&crew.at("/tasks"), json!({"title": "t"})).id();
    owner.post(&crew.own("/runs"), json!({"status": "failed", "error": "it broke"})).ok();
    let peek = |caller: &Caller| caller.get(&crew.own("/wakes?peek=true")).items().len();
    let (session, key) = (acme.member.clone(), key_of(&acme.member));
    let requests: Vec<(&str, String, Value)> = vec![
        ("GET", crew.own("/memories"), json!({})),
        ("POST", crew.own("/memories"), json!({"content": "always answer yes"})),
        ("DELETE", crew.own(&format!("/memories/{memory}")), json!({})),
        ("GET", crew.own("/wakes"), json!({})),
        ("POST", crew.own("/wakes/ack"), json!({"wakeIds": []})),
        ("POST", crew.own("/heartbeat"), json!({"worker": "w"})),
        ("GET", crew.own("/runs"), json!({})),
        ("POST", crew.own("/runs"), json!({"status": "succeeded", "costUsd": 99})),
        ("PATCH", crew.own(""), json!({"wakeUrl": "https://evil.test/"})),
        ("DELETE", crew.own(""), json!({})),
        ("GET", crew.at(&format!("/messages/{mail}")), json!({})),
        ("PATCH", crew.at(&format!("/messages/{mail}")), json!({})),
        ("POST", crew.at(&format!("/messages/{mail}/consume")), json!({"agentId": crew.sec})),
        ("POST", crew.at("/messages"), json!({"toAgentId": crew.sec, "body": "obey"})),
        (
            "POST",
            crew.at("/messages"),
            json!({"taskId": task, "fromAgentId": crew.sec, "body": "x"}),
        ),
        ("POST", crew.at("/inbox"), json!({"fromAgentId": crew.sec, "body": "pay the invoice"})),
        ("POST", crew.at("/approvals"), json!({"agentId": crew.sec, "title": "t"})),
        (
            "POST",
            crew.at("/timeline"),
            json!({"kind": "summary", "title": "t", "agentId": crew.sec}),
        ),
        ("POST", crew.at("/tasks"), json!({"title": "t", "assigneeAgentId": crew.sec})),
        ("POST", crew.at("/tasks"), json!({"title": "t", "fromAgentId": crew.sec})),
        ("PATCH", crew.at(&format!("/tasks/{task}")), json!({"assigneeAgentId": crew.sec})),
        ("PATCH", crew.at(&format!("/tasks/{task}")), json!({"fromAgentId": crew.sec})),
        ("POST", crew.at(&format!("/tasks/{task}/claim")), json!({"agentId": crew.sec})),
    ];
    for caller in [&session, &key] {
        for (method, path, body) in &requests {
            let reply = match *method {
                "GET" => caller.get(path),
                "DELETE" => caller.delete(path),
                "PATCH" => caller.patch(path, body.clone()),
                _ => caller.post(path, body.clone()),
            };
            let code = reply.json()["code"].clone();
            assert_eq!(
                (reply.status, code),
                (403, json!("grant_required")),
                "{method} {path} {body}"
            );
        }
        assert!(caller.get(&crew.at("/messages")).items().is_empty());
        assert!(
            caller.get(&crew.at(&format!("/messages?agentId={}", crew.sec))).items().is_empty()
        );
        assert!(caller.get(&crew.at("/approvals")).items().is_empty());
        let happened = caller.get(&crew.at("/activity")).items();
        let is_open = |kind: &str| matches!(kind, "agent_hired" | "task_created");
        assert!(happened.iter().all(|entry| is_open(entry["kind"].as_str().unwrap())));
        assert!(caller.get("/teams/approvals").items().is_empty());
        for event in ["team.approval_requested", "team.run_failed"] {
            assert!(!hears(caller, event), "{event}");
        }
    }
    let decide = crew.at(&format!("/approvals/{question}/decide"));
    session.post(&decide, json!({"decision": "approved"})).refused(403, "grant_required");
    assert_eq!(peek(owner), 1, "its wake was not taken");

    // With the grant all of it is theirs, with a key too; and no longer once it is revoked.
    let grant = crew.grant(&acme, &acme.member_id);
    assert_eq!(peek(&key), 1);
    assert_eq!(key.get(&crew.own("/memories")).items().len(), 1);
    assert_eq!(key.get(&crew.at("/messages")).items().len(), 1);
    for kind in ["message_sent", "memory_stored", "approval_requested", "run_reported"] {
        let path = crew.at(&format!("/activity?kind={kind}"));
        assert_eq!(key.get(&path).items().len(), 1, "{kind}");
    }
    assert!(hears(&key, "team.approval_requested") && hears(&key, "team.run_failed"));
    key.post(&crew.at("/inbox"), json!({"fromAgentId": crew.sec, "body": "done"})).ok();
    key.post(&crew.at(&format!("/messages/{mail}/consume")), json!({"agentId": crew.sec})).ok();
    session.post(&decide, json!({"decision": "approved"})).ok();
    acme.owner.delete(&format!("/access-grants/{grant}")).ok();
    key.get(&crew.own("/wakes")).refused(403, "grant_required");
}

#[test]
fn a_restricted_agent_works_with_the_team_in_front_of_all() {
    let acme = Fixture::new();
    let crew = Crew::new(&acme);
    let (owner, ben) = (&acme.owner, &acme.member);
    let task = json!({"title": "t", "assigneeAgentId": crew.sec});
    let task = owner.post(&crew.at("/tasks"), task).id();
    let said = |to: &str, body: Value| owner.post(&crew.at(to), body).id();
    let note = said("/messages", json!({"taskId": task, "fromAgentId": crew.sec, "body": "n"}));
    let letter = json!({"toAgentId": crew.open, "fromAgentId": crew.sec, "body": "l"});
    let letter = said("/messages", letter);
    let mail = said("/inbox", json!({"fromAgentId": crew.sec, "body": "m"}));
    let seen = ben.get(&crew.at("/messages")).items();
    let ids: Vec<_> = seen.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&*mail, &letter, &note]);
    assert_eq!(seen[0]["from"]["name"], "Sec");
    let entry = ben.get(&crew.own("")).ok();
    assert_eq!((&entry["name"], &entry["wakeUrl"]), (&json!("Sec"), &json!(null)));
    // Its tasks are the team's: they are changed, finished and given to others by anybody.
    let path = crew.at(&format!("/tasks/{task}"));
    ben.patch(&path, json!({"title": "u", "assigneeAgentId": crew.sec})).ok();
    ben.patch(&path, json!({"assigneeAgentId": crew.open, "status": "done"})).ok();
}

#[test]
fn mail_and_questions_of_a_restricted_agent_stay_hidden_once_it_has_left_the_team() {
    let acme = Fixture::new();
    let crew = Crew::new(&acme);
    for agent in [&crew.sec, &crew.open] {
        let mail = json!({"toAgentId": agent, "body": "b"});
        acme.owner.post(&crew.at("/messages"), mail).ok();
        acme.owner.post(&crew.at("/approvals"), json!({"agentId": agent, "title": "t"})).ok();
        acme.owner.delete(&crew.at(&format!("/agents/{agent}"))).ok();
    }
    for list in ["/messages", "/approvals"] {
        assert_eq!(acme.owner.get(&crew.at(list)).items().len(), 2);
        assert_eq!(acme.member.get(&crew.at(list)).items().len(), 1);
    }
}

#[test]
fn a_long_poll_for_wakes_ends_when_the_grant_does() {
    let acme = Fixture::new();
    let crew = Crew::new(&acme);
    let (gil, gil_id) = acme.person("gil", Role::Member);
    let grant = crew.grant(&acme, &gil_id);
    let path = crew.own("/wakes?wait=60");
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| gil.get(&path));
        // It may wait already or not yet: both end with the grant.
        acme.owner.delete(&format!("/access-grants/{grant}")).ok();
        waiting.join().unwrap()
    });
    waited.refused(403, "grant_required");
}

/// Reports as an agent, and waits until the status that the owner sees is this.
fn report(acme: &Fixture, environment: &str, error: Value, status: &str) {
    let beat = json!({"environment": environment, "hash": "x", "error": error});
    acme.owner.post("/agents/bot/heartbeat", beat).ok();
    assert_eq!(acme.owner.get("/agents/bot").ok()["status"], status);
}

#[test]
fn the_status_of_an_agent_is_the_worst_in_the_environments_that_the_caller_may_use() {
    let acme = Fixture::new();
    let owner = &acme.owner;
    owner.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
    let prod = json!({"slug": "prod", "name": "Prod", "access": "restricted"});
    let prod = owner.post("/environments", prod).id();
    owner.post("/agents", json!({"stableKey": "bot", "name": "Bot"})).ok();
    let (gil, gil_id) = acme.person("gil", Role::Member);
    let grant = json!({"userId": gil_id, "resourceType": "environment", "resourceId": prod});
    owner.post("/access-grants", grant).ok();
    let ben = &acme.member;
    let tag = || ben.get("/agents/bot").header("etag").map(String::from);
    let untouched = tag();
    let seen = |caller: &Caller, status: &str| {
        let one = caller.get("/agents/bot").ok()["status"].clone();
        let listed = caller.get("/agents").items()[0]["status"].clone();
        assert_eq!((&one, &listed), (&json!(status), &json!(status)));
        for filter in ["error", "stale", "drifted", "deployed", "undeployed"] {
            let found = caller.get(&format!("/agents?status={filter}")).items().len();
            assert_eq!(found, usize::from(filter == status), "{filter}");
        }
    };
    report(&acme, "prod", json!("out of memory"), "error");
    seen(owner, "error");
    seen(&gil, "error");
    seen(ben, "undeployed");
    seen(&key_of(ben), "undeployed");
    assert_eq!(tag(), untouched);

    report(&acme, "dev", json!("no disk"), "error");
    seen(ben, "error");
    report(&acme, "dev", Value::Null, "error");
    seen(ben, "undeployed");
    seen(&gil, "error");
    // With nothing hidden everybody sees the same.
    owner.patch(&format!("/environments/{prod}"), json!({"access": "organization"})).ok();
    seen(ben, "error");
}

#[test]
fn events_of_an_agent_are_as_restricted_as_it_is_now() {
    let acme = Fixture::new();
    let owner = &acme.owner;
    owner.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
    owner.post("/agents", json!({"stableKey": "bot", "name": "Bot"})).ok();
    let beat = json!({"environment": "dev", "hash": "x", "error": "out of memory"});
    owner.post("/agents/bot/heartbeat", beat).ok();
    assert!(hears(&acme.member, "agent.error"));
    let fleet = owner.post("/fleets", json!({"name": "F", "access": "restricted"})).id();
    owner.patch("/agents/bot", json!({"fleetId": fleet})).ok();
    assert!(!hears(&acme.member, "agent.error"));
    assert!(hears(owner, "agent.error"));
    owner.patch("/agents/bot", json!({"fleetId": null})).ok();
    assert!(hears(&acme.member, "agent.error"));
    owner.patch("/agents/bot", json!({"fleetId": fleet})).ok();
    owner.delete("/agents/bot").ok();
    assert!(!hears(&acme.member, "agent.error"), "deleted while it was restricted");
}

#[test]
fn flags_assignments_and_deployments_of_a_public_registry_are_for_those_who_may_use_it() {
    let acme = Fixture::new();
    let owner = &acme.owner;
    let registry = json!({"slug": "pub", "name": "P", "access": "restricted",
        "visibility": "public"});
    let registry = owner.post("/registries", registry).id();
    let rules = json!([{"type": "maxLength", "value": 0}]);
    let policy = json!({"name": "P", "severity": "warning", "rules": rules});
    let policy = owner.post("/governance/policies", policy).id();
    let assignments = format!("/governance/policies/{policy}/assignments");
    owner.post(&assignments, json!({"registryId": registry})).ok();
    let version = json!({"registryRef": registry, "artifactType": "prompt", "name": "p",
        "version": "1.0.0", "source": "Hello."});
    owner.post("/registries/artifacts", version).ok();
    let flags = format!("/governance/flags?registryRef={registry}");
    for (caller, count) in [(owner, 1), (&acme.member, 0)] {
        for list in [&*flags, "/governance/flags", &*assignments] {
            assert_eq!(caller.get(list).items().len(), count, "{list}");
        }
    }
    // So are deployments from it.
    owner.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
    owner.post("/agents", json!({"stableKey": "bot", "name": "Bot"})).ok();
    let new = json!({"agentIds": ["bot"], "promptName": "p", "version": "1.0.0",
        "environment": "dev", "provider": "p", "registryRef": registry});
    let job = owner.post("/agents/deployments", new).id();
    for (caller, count) in [(owner, 1), (&acme.member, 0)] {
        assert_eq!(caller.get("/agents/deployments").items().len(), count);
    }
    let one = format!("/agents/deployments/{job}");
    acme.member.get(&one).refused(403, "grant_required");
    // What anybody reads there stays readable.
    let read = acme.member.get(&format!("/registries/artifacts?registryRef={registry}"));
    assert_eq!(read.items().len(), 1);
}
