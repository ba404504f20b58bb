//! Who last changed a thing is in its answer, whoever made it (reference: conventions, "Who changed it").

use serde_json::{Value, json};

use crate::client::eventually;
use crate::fixture::Fixture;
use crate::registries::registry;

/// Makes a thing of each kind as the owner; returns its path, and what changes it.
fn made(acme: &Fixture) -> Vec<(String, Value)> {
    let owner = &acme.owner;
    registry(acme, "main", json!({}));
    let by_id = |list: &str, body: Value| format!("{list}/{}", owner.post(list, body).id());
    let named = json!({"name": "A"});
    let custom = json!({"name": "A", "provider": "custom", "baseUrl": "http://127.0.0.1:9/"});
    let hook = json!({"name": "A", "workflow": "webhook",
        "config": {"url": "https://hooks.test/"}});
    let rules = json!([{"type": "maxLength", "value": 9}]);
    let team = by_id("/teams", json!({"slug": "crew", "name": "A"}));
    let base = by_id("/knowledge-bases", named.clone());
    owner.post("/agents", json!({"stableKey": "ann", "name": "A"})).ok();
    let renamed = json!({"name": "B"});
    let mut all = vec![
        ("/registries/main".to_string(), renamed.clone()),
        ("/agents/ann".into(), renamed.clone()),
        (team.clone(), renamed.clone()),
        (by_id(&format!("{team}/tasks"), json!({"title": "A"})), json!({"title": "B"})),
        (base, renamed.clone()),
    ];
    let policy = json!({"name": "A", "severity": "warning", "rules": rules});
    let http = json!({"name": "A", "kind": "http", "baseUrl": "http://127.0.0.1:9/"});
    for (list, body) in [
        ("/environments", json!({"slug": "dev", "name": "A"})),
        ("/fleets", named),
        ("/governance/policies", policy),
        ("/tools", json!({"name": "A", "type": "http"})),
        ("/notifications/channels", hook),
        ("/llm-providers", custom),
        ("/prompt-providers", http),
    ] {
        all.push((by_id(list, body), renamed.clone()));
    }
    all
}

#[test]
fn every_thing_says_who_changed_it_last() {
    let acme = Fixture::new();
    let admin = acme.admin.get("/auth/user").ok()["id"].clone();
    for (path, change) in made(&acme) {
        let first = acme.owner.get(&path).ok();
        assert_eq!(first["updatedBy"], acme.owner_id, "{path}");
        // Nothing changes, so nobody has changed it.
        acme.admin.patch(&path, json!({})).ok();
        assert_eq!(acme.owner.get(&path).ok()["updatedBy"], acme.owner_id, "{path}");
        acme.admin.patch(&path, change).ok();
        let second = acme.owner.get(&path).ok();
        assert_eq!(second["updatedBy"], admin, "{path}");
        let list = path.rsplit_once('/').unwrap().0;
        let is_it = |item: &&Value| item["updatedAt"] == second["updatedAt"];
        let items = acme.owner.get(list).items();
        let listed = items.iter().find(is_it).unwrap_or_else(|| panic!("{path} is listed"));
        assert_eq!(listed["updatedBy"], admin, "{path}");
    }
}

#[test]
fn a_change_that_follows_from_another_is_nobodys() {
    let acme = Fixture::new();
    let fleet = acme.owner.post("/fleets", json!({"name": "A"})).id();
    let agent = json!({"stableKey": "ann", "name": "A", "fleetId": fleet});
    assert_eq!(acme.owner.post("/agents", agent).ok()["updatedBy"], acme.owner_id);
    acme.admin.delete(&format!("/fleets/{fleet}")).ok();
    let agent = eventually("the fleet is taken from its agent", || {
        Some(acme.owner.get("/agents/ann").ok()).filter(|agent| agent["updatedBy"].is_null())
    });
    assert_eq!(agent["fleetId"], json!(null));
}

#[test]
fn what_is_set_says_who_set_it_and_its_environment_too() {
    let acme = Fixture::new();
    let environment = acme.owner.post("/environments", json!({"slug": "dev", "name": "Dev"})).id();
    let path = format!("/environments/{environment}");
    let admin = acme.admin.get("/auth/user").ok()["id"].clone();
    for (below, body) in [
        ("variables/A", json!({"value": "1"})),
        ("secrets/A", json!({"value": "1"})),
        ("provider-credentials/a", json!({})),
    ] {
        let one = format!("{path}/{below}");
        assert_eq!(acme.owner.put(&one, body.clone()).ok()["updatedBy"], acme.owner_id, "{below}");
        assert_eq!(acme.owner.get(&path).ok()["updatedBy"], acme.owner_id, "{below}");
        assert_eq!(acme.admin.put(&one, body).ok()["updatedBy"], admin, "{below}");
        assert_eq!(acme.owner.get(&path).ok()["updatedBy"], admin, "{below}");
    }
    let price = json!({"inputUsd": 1, "outputUsd": 2});
    assert_eq!(acme.admin.put("/model-prices/m", price).ok()["updatedBy"], admin);
}

#[test]
fn a_change_by_a_key_is_one_of_its_user() {
    let acme = Fixture::new();
    let account = acme.owner.post("/organizations/service-accounts", json!({"name": "bot"})).id();
    let key = json!({"name": "k", "serviceAccountId": account});
    let key = acme.owner.post("/api-keys", key).ok()["key"].as_str().unwrap().to_string();
    acme.owner.post("/agents", json!({"stableKey": "ann", "name": "A"})).ok();
    let bot = acme.anonymous.with_key(&key);
    let changed = bot.patch("/agents/ann", json!({"name": "B"})).ok();
    assert_eq!(changed["updatedBy"], account);
    // A version of its draft changes it as well.
    acme.member.post("/agents/ann/versions", json!({"message": "As it is."})).ok();
    assert_eq!(acme.owner.get("/agents/ann").ok()["updatedBy"], acme.member_id);
}

#[test]
fn a_listing_says_who_changed_it_to_its_own_organization() {
    let acme = Fixture::new();
    acme.owner.post("/agents", json!({"stableKey": "ann", "name": "A"})).ok();
    let pubkey = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";
    let handle = format!("ann@{}.test", acme.slug);
    let new = json!({"stableKey": "ann", "handle": handle, "pubkey": pubkey, "displayName": "A",
        "visibility": "public"});
    let made = acme.owner.post("/agent-index/listings", new).ok();
    assert_eq!(made["updatedBy"], acme.owner_id);
    let path = format!("/agent-index/listings/{}", made["id"].as_str().unwrap());
    let admin = acme.admin.get("/auth/user").ok()["id"].clone();
    let changed = acme.admin.patch(&path, json!({"displayName": "B"})).ok();
    assert_eq!(changed["updatedBy"], admin);
    assert_eq!(acme.owner.get(&path).ok()["updatedBy"], admin);
    let other = Fixture::new();
    assert_eq!(other.owner.get(&path).ok().get("updatedBy"), None);
}
