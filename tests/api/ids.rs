//! Ids that the caller must not reach: of another organization, below another parent. They are not
//! found, in paths and in bodies, on every route.

use std::collections::{BTreeMap, BTreeSet};

use roadstead::api::{Method, Route};
use serde_json::{Value, json};

use crate::client::eventually;
use crate::exchange;
use crate::fixture::{Fixture, unknown_id};
use crate::routes::{all_routes, ask, ask_sample, id_name, path_with, sample};
use crate::schema;

/// An organization with one record of every kind, and their ids by the names used in paths and
/// bodies.
fn full(acme: &Fixture, suffix: &str) -> BTreeMap<&'static str, String> {
    let owner = &acme.owner;
    let stable_key = format!("agent-{suffix}");
    let mut ids = BTreeMap::new();
    owner.post("/agents", json!({"stableKey": stable_key, "name": "A"})).ok();
    owner.post(&format!("/agents/{stable_key}/versions"), json!({})).ok();
    let slug = format!("slug-{suffix}");
    let team = owner.post("/teams", json!({"slug": slug, "name": "T"})).id();
    let post = |path: &str, body: Value| owner.post(&format!("/teams/{team}{path}"), body).id();
    let agent = post("/agents", json!({"stableKey": stable_key, "role": "member"}));
    let task = post("/tasks", json!({"title": "t"}));
    let message = post("/inbox", json!({"fromAgentId": agent, "body": "b"}));
    let memory = post(&format!("/agents/{agent}/memories"), json!({"content": "c"}));
    let approval = post("/approvals", json!({"agentId": agent, "title": "t"}));
    let schedule = json!({"name": "s", "everySecs": 86_400, "task": {"title": "t"}});
    let schedule = post("/schedules", schedule);
    let rule = json!({"domain": "partner.example", "rule": "allow"});
    let rule = post("/exchange/domain-rules", rule);
    let peer = exchange::pending(acme, &slug, suffix);
    let tool = owner.post("/tools", json!({"name": "t", "type": "x"})).id();
    let environment = json!({"slug": slug, "name": "E", "access": "restricted"});
    let environment = owner.post("/environments", environment).id();
    let variable = format!("/environments/{environment}/variables/V_{suffix}");
    owner.put(&variable, json!({"value": "v"})).ok();
    // Secrets and credentials are named as the variable is.
    let secret = format!("/environments/{environment}/secrets/V_{suffix}");
    owner.put(&secret, json!({"value": "v"})).ok();
    let credential = format!("/environments/{environment}/provider-credentials/V_{suffix}");
    owner.put(&credential, json!({"apiKey": "k"})).ok();
    let fleet = owner.post("/fleets", json!({"name": "F", "access": "restricted"})).id();
    let registry = json!({"slug": slug, "name": "R", "access": "restricted"});
    let registry = owner.post("/registries", registry).id();
    let grant = json!({
        "userId": acme.member_id, "resourceType": "environment", "resourceId": environment,
    });
    let grant = owner.post("/access-grants", grant).id();
    let domain = json!({"domain": format!("{}-{suffix}.example", acme.slug)});
    let domain = owner.post("/organizations/domains", domain).id();
    let listing = json!({
        "stableKey": stable_key, "handle": format!("a-{suffix}@{}.example", acme.slug),
        "pubkey": "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
        "displayName": "L", "cardState": "published",
    });
    let listing = owner.post("/agent-index/listings", listing).id();
    let invitation = json!({"email": format!("new-{suffix}@{}.test", acme.slug), "role": "member"});
    let invitation = owner.post("/organizations/members", invitation).id();
    let key = owner.post("/api-keys", json!({"name": "k"})).id();
    let account = json!({"name": "Release"});
    let account = owner.post("/organizations/service-accounts", account).id();
    let channel = json!({"name": "C", "workflow": "webhook", "config": {"url": "https://a.test/"}});
    let channel = owner.post("/notifications/channels", channel).id();
    let subscription = json!({"channelId": channel, "eventType": "agent.error"});
    let subscription = owner.post("/notifications/subscriptions", subscription).id();
    let provider = json!({"name": "L", "provider": "openai"});
    let provider = owner.post("/llm-providers", provider).id();
    let rules = json!([{"type": "maxLength", "value": 0}]);
    let policy = json!({"name": "P", "severity": "warning", "rules": rules});
    let policy = owner.post("/governance/policies", policy).id();
    let assignments = format!("/governance/policies/{policy}/assignments");
    let assignment = owner.post(&assignments, json!({"registryRef": slug})).id();
    let prompt = format!("prompt-{suffix}");
    let version = json!({
        "registryRef": slug, "artifactType": "prompt", "name": prompt, "version": "1.0.0",
        "source": "It breaks the policy.",
    });
    owner.post("/registries/artifacts", version).ok();
    let flag = owner.get("/governance/flags").items()[0]["id"].as_str().unwrap().to_string();
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [acme.owner_id]}});
    let gated = format!("gated-{suffix}");
    owner.put(&format!("/registries/{slug}/protected-labels/{gated}"), protection).ok();
    let moved =
        json!({"registryRef": slug, "promptName": prompt, "label": gated, "version": "1.0.0"});
    let moved = owner.patch("/registries/artifacts/labels", moved).ok();
    let change = moved["pendingChange"]["id"].as_str().expect("it waits").to_string();
    let draft = json!({
        "registryRef": slug, "artifactType": "prompt", "draftVersion": "1.1.0", "body": "x",
    });
    let draft = owner.post(&format!("/prompts/{prompt}/drafts"), draft).id();
    let input = format!("input-{suffix}");
    let new = json!({"registryRef": slug, "name": input});
    owner.post(&format!("/prompts/{prompt}/inputs"), new).ok();
    let deployment = json!({
        "agentIds": [stable_key], "promptName": prompt, "version": "1.0.0", "provider": "p",
        "environment": slug, "registryRef": slug,
    });
    let job = owner.post("/agents/deployments", deployment).id();
    let base = owner.post("/knowledge-bases", json!({"name": "K"})).id();
    let document = json!({"name": "D", "content": "words"});
    let document = owner.post(&format!("/knowledge-bases/{base}/documents"), document).id();
    let done = eventually("the deployment is complete", || {
        let job = owner.get(&format!("/agents/deployments/{job}")).ok();
        (job["state"] == "complete").then_some(job)
    });
    let first = |path: &str| {
        eventually("there is an entry", || {
            let items = owner.get(path).items();
            items.first().map(|item| item["id"].as_str().unwrap().to_string())
        })
    };
    let (log, event) = (first("/notifications/logs"), first("/audit-logs"));
    let session = first("/auth/sessions");
    let deployment = done["targets"][0]["deploymentId"].as_str().unwrap().to_string();
    ids.extend([
        ("jobId", job),
        ("deploymentId", deployment),
        ("knowledgeBaseId", base),
        ("documentId", document),
        ("stableKey", stable_key),
        ("registrySlug", slug),
        ("teamId", team),
        ("agentId", agent),
        ("taskId", task),
        ("messageId", message),
        ("memoryId", memory),
        ("approvalId", approval),
        ("scheduleId", schedule),
        ("ruleId", rule),
        ("peerId", peer),
        ("toolId", tool),
        ("environmentId", environment),
        ("fleetId", fleet),
        ("name", format!("V_{suffix}")),
        ("grantId", grant),
        ("domainId", domain),
        ("listingId", listing),
        ("invitationId", invitation),
        ("keyId", key),
        ("serviceAccountId", account),
        ("sessionId", session),
        // Made by a provider alone: what is of others is tried beside the code.
        ("linkId", crate::fixture::unknown_id()),
        ("logId", log),
        ("eventId", event),
        ("channelId", channel),
        ("subscriptionId", subscription),
        ("id", provider),
        ("changeId", change),
        ("label", gated),
        ("policyId", policy),
        ("assignmentId", assignment),
        ("flagId", flag),
        ("registryRef", registry),
        ("promptName", prompt),
        ("draftId", draft),
        ("inputName", input),
        ("userId", acme.member_id.clone()),
        ("version", "1".into()),
    ]);
    ids
}

fn names_of(route: &Route) -> Vec<&'static str> {
    let parts = route.path.split('/');
    let names = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| id_name(route, name)).collect()
}

#[test]
fn ids_of_another_organization_are_not_found() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    let theirs = full(&other, "theirs");
    other.chained();
    let before = state_of(&other);
    let mut walked = 0;
    for route in all_routes() {
        let names = names_of(&route);
        // The usage of a variable, and the price of a model, are by a name that another organization may
        // use too.
        // Agents outside name organizations and teams by their slugs. The code of a command line is of no
        // organization.
        if names.is_empty()
            || names == ["variableName"]
            || names == ["model"]
            || names == ["userCode"]
            || route.policy.is_signed()
        {
            continue;
        }
        for name in &names {
            assert!(theirs.contains_key(name), "{}: say what {name} is in `full`", route.name);
        }
        let with = |ids| ask(&acme.owner, &route, &path_with(&route, ids), &sample(&route));
        let (foreign, never) = (with(&theirs), with(&BTreeMap::new()));
        assert_eq!(foreign.likeness(), never.likeness(), "{}", route.name);
        assert_eq!(foreign.status, 404, "{}: {}", route.name, foreign.text());
        let path = foreign.problem()["path"].as_str().unwrap_or_default().to_string();
        let is_named = names.contains(&id_name(&route, &path)) || path == "registryRef";
        assert!(is_named, "{}: {path}", route.name);
        walked += 1;
    }
    assert!(walked > 40, "{walked}");
    assert_eq!(state_of(&other), before);
}

/// Everything that a member can list; what the server measures about itself changes with time.
fn state_of(fixture: &Fixture) -> String {
    let lists = all_routes().into_iter().filter(|route| {
        route.method == Method::Get
            && names_of(route).is_empty()
            && !route.path.starts_with("/auth")
            && route.path != "/system"
    });
    let read = |route: Route| {
        format!("{} {}\n", route.name, ask_sample(&fixture.owner, &route).likeness())
    };
    lists.map(read).collect()
}

#[test]
fn ids_of_another_organization_in_bodies_are_not_found() {
    let (acme, other) = (Fixture::new(), Fixture::new());
    let (ours, theirs) = (full(&acme, "ours"), full(&other, "theirs"));
    // Fields of bodies whose path parameter has another name.
    let meaning = |field: &str| match field {
        "assigneeAgentId" | "toAgentId" | "fromAgentId" => "agentId",
        "supersedes" => "memoryId",
        "resourceId" => "environmentId",
        "registryId" => "registryRef",
        other => BTreeSet::from(["agentId", "taskId", "userId", "stableKey", "registryRef"])
            .get(other)
            .copied()
            .unwrap_or_default(),
    };
    let mut tried = BTreeSet::new();
    let routes = all_routes();
    let is_members = |route: &&Route| route.method.has_body() && !route.policy.is_signed();
    for route in routes.iter().filter(is_members) {
        for (field, _) in schema::inputs(route) {
            let Some(foreign) = theirs.get(meaning(&field)) else { continue };
            if route.path == "/agents" {
                continue; // It names a new one.
            }
            let with = |id: &str| {
                let mut fields = sample(route);
                for (name, value) in fields.as_object_mut().unwrap() {
                    // All other ids are of the own organization.
                    if let Some(own) = ours.get(meaning(name)) {
                        *value = json!(own);
                    }
                }
                if route.path == "/access-grants" {
                    fields["resourceType"] = json!("environment");
                }
                fields[&field] = json!(id);
                ask(&acme.owner, route, &path_with(route, &ours), &fields)
            };
            let context = format!("{} {field}", route.name);
            let reply = with(foreign);
            assert_eq!(reply.status, 404, "{context}: {}", reply.text());
            let unknown = if field == "stableKey" { "never-was".into() } else { unknown_id() };
            assert_eq!(reply.likeness(), with(&unknown).likeness(), "{context}");
            tried.insert(context);
        }
    }
    assert!(tried.len() >= 15, "{tried:?}");
}

#[test]
fn ids_below_another_parent_are_not_found() {
    let acme = Fixture::new();
    let (here, there) = (full(&acme, "here"), full(&acme, "there"));
    let mut walked = 0;
    for route in all_routes().iter().filter(|route| !route.policy.is_signed()) {
        let names = names_of(route);
        // Only the last id is foreign.
        let Some((last, parents)) = names.split_last().filter(|(_, parents)| !parents.is_empty())
        else {
            continue;
        };
        // Both agents have a version 1, and PUT creates missing records.
        if *last == "version" || route.method == Method::Put {
            continue;
        }
        let mut mixed: BTreeMap<_, _> = parents.iter().map(|n| (*n, here[n].clone())).collect();
        let never = ask(&acme.owner, route, &path_with(route, &mixed), &sample(route));
        mixed.insert(last, there[last].clone());
        let reply = ask(&acme.owner, route, &path_with(route, &mixed), &sample(route));
        assert_eq!(reply.status, 404, "{}: {}", route.name, reply.text());
        assert_eq!(reply.likeness(), never.likeness(), "{}", route.name);
        walked += 1;
    }
    assert!(walked >= 18, "{walked}");
}
