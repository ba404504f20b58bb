//! Fleets: their agents, access and deletion.

use serde_json::{Value, json};

use super::super::agents;
use super::super::teams::testing::{
    hire, hire_with_url, member_names, redirect_wakes, team, wake_urls,
};
use super::*;
use crate::api::Principal;
use crate::auth::{Grant, ResourceType};
use crate::base::Kind;
use crate::resources::testing::Fixture;

/// Creates a fleet as an admin.
pub fn make(fixture: &Fixture, body: Value) -> FleetInfo {
    fixture.write_as(&fixture.owner, create, (), Fixture::input(body).unwrap()).unwrap()
}

fn shown(fixture: &Fixture, who: &Principal, id: Id<Fleet>) -> Result<Value> {
    fixture.read_as(who, get, id, ()).map(|fleet| json!(fleet))
}

/// Grants a member access to a fleet.
pub fn grant(fixture: &Fixture, who: &Principal, id: Id<Fleet>) {
    let Principal::Caller(caller) = who else { panic!("no caller of an organization") };
    let user = caller.user();
    let grant = move |tx: &mut Tx| {
        tx.insert(&Grant {
            id: tx.new_id(),
            user_id: user,
            resource_type: ResourceType::Fleet,
            resource_id: id.cast(),
            created_by: user,
            created_at: tx.now(),
        })
    };
    fixture.store.write_blocking(fixture.org, grant).unwrap();
}

#[test]
fn a_fleet_is_created_updated_and_deleted() {
    let fixture = Fixture::new();
    let made = make(&fixture, json!({"name": "F"}));
    let mut value = json!(made);
    assert_eq!(value["id"].take(), json!(made.id));
    assert_eq!(
        value,
        json!({
            "id": null, "name": "F", "description": null, "access": "organization", "agents": [],
            "createdAt": "2026-01-15T12:00:00.000Z", "updatedAt": "2026-01-15T12:00:00.000Z",
            "updatedBy": made.updated_by,
        })
    );
    fixture.pass_secs(60);
    let patch = |body: Value| {
        let patch = Fixture::input::<FleetPatch>(body).unwrap();
        fixture.write_as(&fixture.owner, update, made.id, patch).unwrap()
    };
    assert_eq!(patch(json!({})), made);
    let changed = patch(json!({"name": "G", "description": "d", "access": "restricted"}));
    assert!(changed.updated_at > made.updated_at);
    assert_eq!(patch(json!({"description": null})).description, None);
    fixture.write_as(&fixture.owner, delete, made.id, ()).unwrap();
    let again = fixture.write_as(&fixture.owner, delete, made.id, ()).unwrap_err();
    assert_eq!(again.kind(), Kind::NotFound);
}

#[test]
fn a_fleet_lists_its_agents_by_stable_key_and_leaves_them_without_one_when_deleted() {
    let fixture = Fixture::new();
    let fleet = make(&fixture, json!({"name": "F"})).id;
    let agent = |key: &str, fleet: Value| {
        let body = json!({"stableKey": key, "name": key.to_uppercase(), "fleetId": fleet});
        json!(agents::tests::make(&fixture, body).unwrap())
    };
    agent("b", json!(fleet));
    agent("a", json!(fleet));
    agent("c", Value::Null);
    let listed = shown(&fixture, &fixture.member, fleet).unwrap()["agents"].clone();
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(listed, ["A", "B"]);
    let in_fleet = || agents::tests::listed(&fixture, &fixture.member, json!({"fleetId": fleet}));
    assert_eq!(in_fleet(), ["a", "b"]);
    fixture.write_as(&fixture.owner, delete, fleet, ()).unwrap();
    assert_eq!(in_fleet(), [] as [&str; 0]);
    fixture.complete_removals();
    for key in ["a", "b", "c"] {
        let shown = agents::tests::shown(&fixture, &fixture.member, key).unwrap();
        assert_eq!(shown["fleetId"], Value::Null);
    }
    fixture.assert_sound();
}

#[test]
fn the_agents_of_a_representation_are_bounded() {
    let fixture = Fixture::new();
    let fleet = make(&fixture, json!({"name": "F"})).id;
    let name = "ä".repeat(200);
    for n in 0..100 {
        let body = json!({"stableKey": format!("a{n}"), "name": name, "fleetId": fleet});
        agents::tests::make(&fixture, body).unwrap();
    }
    let shown = shown(&fixture, &fixture.member, fleet).unwrap();
    let agents = shown["agents"].as_array().unwrap();
    let bytes = shown["agents"].to_string().len();
    assert!(agents.len() > 50 && agents.len() < 100, "{}", agents.len());
    assert!(bytes <= MAX_AGENTS_BYTES, "{bytes}");
}

#[test]
fn a_restricted_fleet_restricts_its_agents() {
    let fixture = Fixture::new();
    let open = make(&fixture, json!({"name": "Open"})).id;
    let closed = make(&fixture, json!({"name": "Closed", "access": "restricted"})).id;
    let crew = team(&fixture, "crew", None);
    let (ada, ben) = (&fixture.owner, &fixture.member);
    let body = |key: &str, fleet| json!({"stableKey": key, "name": "A", "fleetId": fleet});
    agents::tests::make(&fixture, body("open", open)).unwrap();
    let refused = agents::tests::make(&fixture, body("closed", closed)).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "grant_required"));
    agents::tests::make_as(&fixture, ada, body("closed", closed)).unwrap();
    let refused = agents::tests::patch_as(&fixture, ben, "open", json!({"fleetId": closed}));
    assert_eq!(refused.unwrap_err().code(), "grant_required");

    let all = |who| agents::tests::listed(&fixture, who, json!({}));
    let of_closed = |who| agents::tests::listed(&fixture, who, json!({"fleetId": closed}));
    assert_eq!((all(ben), all(ada)), (vec!["open".into()], vec!["closed".into(), "open".into()]));
    assert_eq!((of_closed(ben), of_closed(ada)), (vec![], vec!["closed".to_string()]));
    assert_eq!(shown(&fixture, ben, closed).unwrap_err().code(), "grant_required");
    let fleets = |who| fixture.read_as(who, list, (), ()).unwrap().items.len();
    assert_eq!((fleets(ben), fleets(ada)), (1, 2));
    for refused in agents::tests::every_use(&fixture, ben, "closed") {
        assert_eq!(refused.unwrap_err().code(), "grant_required");
    }
    assert_eq!(hire(&fixture, crew, "closed").unwrap_err().code(), "grant_required");

    grant(&fixture, ben, closed);
    assert_eq!(all(ben), ["closed", "open"]);
    shown(&fixture, ben, closed).unwrap();
    agents::tests::shown(&fixture, ben, "closed").unwrap();
    hire(&fixture, crew, "closed").unwrap();
    fixture.assert_sound();
}

#[test]
fn everybody_sees_the_name_of_a_restricted_agent_in_a_team() {
    let fixture = Fixture::new();
    let closed = make(&fixture, json!({"name": "Closed", "access": "restricted"})).id;
    let crew = team(&fixture, "crew", None);
    let body = json!({"stableKey": "closed", "name": "A", "description": "d"});
    agents::tests::make(&fixture, body).unwrap();
    let name = json!(hire(&fixture, crew, "closed").unwrap())["name"].clone();
    assert_eq!(name, json!("A"));
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(&fixture, &fixture.owner, "closed", fleet).unwrap();
    assert!(agents::tests::shown(&fixture, &fixture.member, "closed").is_err());
    assert_eq!(member_names(&fixture, crew), ["A"]);
}

#[test]
fn where_the_wakes_of_a_restricted_agent_go_is_shown_with_a_grant_alone() {
    let fixture = Fixture::new();
    let closed = make(&fixture, json!({"name": "Closed", "access": "restricted"})).id;
    let crew = team(&fixture, "crew", None);
    agents::tests::make(&fixture, json!({"stableKey": "closed", "name": "A"})).unwrap();
    hire_with_url(&fixture, crew, "closed", "http://a.test/");
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(&fixture, &fixture.owner, "closed", fleet).unwrap();
    let urls = |who| wake_urls(&fixture, who, crew);
    assert_eq!(urls(&fixture.member), [Value::Null]);
    assert_eq!(urls(&fixture.owner), ["http://a.test/"]);
    let redirect = || redirect_wakes(&fixture, crew, "http://b.test/");
    assert_eq!(redirect().unwrap_err().code(), "grant_required");
    grant(&fixture, &fixture.member, closed);
    assert_eq!(urls(&fixture.member), ["http://a.test/"]);
    redirect().unwrap();
    assert_eq!(urls(&fixture.owner), ["http://b.test/"]);
}
