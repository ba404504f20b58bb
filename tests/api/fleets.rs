//! Fleets over HTTP: who may call, grants, and what a restricted one hides.

use serde_json::json;

use crate::fixture::{Fixture, key_of, unknown_id};

#[test]
fn fleets_take_a_session_only() {
    let acme = Fixture::new();
    let fleet = acme.admin.post("/fleets", json!({"name": "F"})).id();
    let path = format!("/fleets/{fleet}");
    assert_eq!(acme.member.get(&path).ok()["agents"], json!([]));
    for reply in [
        acme.key.get("/fleets"),
        acme.key.get(&path),
        acme.key.post("/fleets", json!({"name": "F"})),
        acme.key.patch(&path, json!({"name": "G"})),
        acme.key.delete(&path),
    ] {
        assert_eq!(reply.status, 401, "{}", reply.text());
    }
    for reply in [
        acme.member.post("/fleets", json!({"name": "F"})),
        acme.member.patch(&path, json!({"name": "G"})),
        acme.member.delete(&path),
    ] {
        reply.refused(403, "admin_required");
    }
    assert_eq!(acme.admin.delete(&path).ok(), json!({"id": fleet, "deleted": true}));
    acme.admin.get(&path).refused(404, "not_found");
}

#[test]
fn a_grant_for_a_fleet_opens_its_agents_for_keys_too() {
    let acme = Fixture::new();
    let fleet = acme.admin.post("/fleets", json!({"name": "F", "access": "restricted"})).id();
    let agent = json!({"stableKey": "ann", "name": "Ann", "fleetId": fleet});
    acme.admin.post("/agents", agent).ok();
    let bens_key = key_of(&acme.member);
    let sees = || {
        let agents = acme.member.get(&format!("/agents?fleetId={fleet}")).items().len();
        let fleets = acme.member.get("/fleets").items().len();
        (fleets, agents, bens_key.get("/agents/ann").status, bens_key.get("/agents").items().len())
    };
    assert_eq!(sees(), (0, 0, 403, 0));
    acme.member.get("/agents/ann/versions").refused(403, "grant_required");
    let grant = |id: &str| {
        let grant = json!({"userId": acme.member_id, "resourceType": "fleet", "resourceId": id});
        acme.admin.post("/access-grants", grant)
    };
    grant(&unknown_id()).refused(404, "not_found");
    let granted = grant(&fleet).id();
    assert_eq!(sees(), (1, 1, 200, 1));
    acme.admin.delete(&format!("/access-grants/{granted}")).ok();
    assert_eq!(sees(), (0, 0, 403, 0));

    acme.admin.delete(&format!("/fleets/{fleet}")).ok();
    assert_eq!(bens_key.get("/agents/ann").ok()["fleetId"], json!(null));
}
