//! Deleting one record of each kind leaves no dangling reference.

use std::collections::BTreeSet;

use roadstead::resources;
use serde_json::json;

use crate::client::Caller;
use crate::fixture::{Running, config};
use crate::https::SITES;
use crate::records::{KEY, fill_organization};
use crate::sites::names;

/// Kinds of records that can be deleted: the table, the list, and the field that a path refers to.
/// Referring kinds come before those they refer to.
const REMOVED: [(&str, &str, &str); 17] = [
    ("schedules", "/teams/{team}/schedules", "id"),
    ("peers", "/teams/{team}/exchange/peers", "id"),
    ("listings", "/agent-index/listings", "id"),
    ("domains", "/organizations/domains", "id"),
    ("team_agents", "/teams/{team}/agents", "id"),
    ("teams", "/teams", "id"),
    ("fleets", "/fleets", "id"),
    ("agents", "/agents", "stableKey"),
    ("knowledge_bases", "/knowledge-bases", "id"),
    ("tools", "/tools", "id"),
    ("policies", "/governance/policies", "id"),
    ("llm_providers", "/llm-providers", "id"),
    ("environments", "/environments", "id"),
    ("artifact_versions", "/registries/artifacts", "name"),
    ("registries", "/registries", "slug"),
    ("api_keys", "/api-keys", "id"),
    ("memberships", "/organizations/members", "userId"),
];

/// Kinds that no route deletes yet, or that end by other means: events and label changes with their
/// retention, public listings with those they are copies of, contents of documents with their knowledge
/// base, tasks with their team, sessions by signing out.
const STAYS: [&str; 10] = [
    "channels",
    "deployment_jobs",
    "document_contents",
    "events",
    "label_changes",
    "organizations",
    "public_listings",
    "sessions",
    "tasks",
    "users",
];

fn remove_one(owner: &Caller, table: &str, list: &str, field: &str) {
    let list = match list.split_once("{team}") {
        Some((before, after)) => {
            let team = owner.get("/teams").items()[0]["id"].as_str().unwrap().to_string();
            format!("{before}{team}{after}")
        }
        None => list.to_string(),
    };
    if table == "artifact_versions" {
        let label = "registryRef=texts&promptName=answer&label=live";
        owner.delete(&format!("/registries/artifacts/labels?{label}")).ok();
        let version = "registryRef=texts&promptName=answer&version=1.0.0";
        owner.delete(&format!("/registries/artifact-versions?{version}")).ok();
        return;
    }
    if table == "agents" {
        for job in owner.get("/agents/deployments?state=pending_approval").items() {
            let job = job["id"].as_str().unwrap();
            owner.post(&format!("/agents/deployments/{job}/cancel"), json!({})).ok();
        }
    }
    let items = owner.get(&list).items();
    let is_member = |item: &&serde_json::Value| table != "memberships" || item["role"] == "member";
    let mut items = items.iter().filter(is_member);
    let first = items.next().unwrap_or_else(|| panic!("{list} is empty"));
    // All policies, so that no judge refers to the provider, which is next; all agents, so that
    // none is live in the environment.
    let others = items.filter(|_| ["agents", "policies"].contains(&table));
    for item in [first].into_iter().chain(others) {
        owner.delete(&format!("{list}/{}", item[field].as_str().unwrap())).ok();
    }
}

#[test]
fn no_record_refers_to_a_deleted_one() {
    SITES.serve("acme.test", |name| names(name, KEY));
    let running = Running::start(config());
    let fixture = running.fixture();
    fill_organization(&fixture, true);
    let tables = resources::tables();
    let assert_sound = |after: &str| {
        let findings = running.store.check(&tables).unwrap();
        assert_eq!(findings.messages, Vec::<String>::new(), "after {after}");
    };
    assert_sound("all was made");
    for (table, list, field) in REMOVED {
        remove_one(&fixture.owner, table, list, field);
        assert_sound(table);
    }

    // The rest is for the sweep.
    let org = fixture.org;
    while running.store.write_blocking(org, |tx| tx.continue_removals()).unwrap() {}
    assert_sound("the sweep");
    let pending = roadstead::store::TABLES.iter().find(|table| table.name == "removals").unwrap();
    assert_eq!(running.store.check(&[*pending]).unwrap().records, 0);

    let targets = tables.iter().flat_map(|table| (table.references)());
    let targets: BTreeSet<&str> = targets.map(|reference| reference.to()).collect();
    let known = REMOVED.iter().map(|(table, ..)| *table).chain(STAYS).collect();
    assert_eq!(targets, known, "a kind that is referred to is removed here");
}
