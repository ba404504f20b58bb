//! What people of a listed domain are granted when they join.

use super::foreign_provider::set;
use super::rules::{grants, rule};
use super::*;
use crate::api::audit::AuditEntry;
use crate::auth::{Grant, Restricted};
use crate::resources::environments::{self, Environment};
use crate::resources::organizations::grants::tests::by_hand;
use crate::resources::organizations::oidc::records::JoiningDomain;
use crate::store::{Record, View};

fn restricted(world: &World, slug: &str) -> Id<Environment> {
    let body = json!({"slug": slug, "name": slug, "access": "restricted"});
    environments::tests::make(&world.fixture, body).unwrap().id
}

fn grant_of(id: Id<Environment>) -> Value {
    json!({"resourceType": "environment", "resourceId": id.to_string()})
}

/// Settings that list a domain whose people are granted this.
fn listing(domain: &str, grants: Value) -> Value {
    json!({"domains": [
        {"domain": domain, "provider": "kc", "role": "member", "grants": grants}]})
}

/// Removes a grant, as somebody who withdraws it by hand.
fn withdraw(world: &World, grant: Grant) {
    world.fixture.store.write_blocking(world.fixture.org, move |tx| tx.remove(&grant)).unwrap();
}

fn stored_domains(world: &World) -> Vec<JoiningDomain> {
    let org = world.fixture.org;
    let read = move |view: &View| view.all::<JoiningDomain>(ListSource::TABLE, &org);
    world.fixture.store.read_now(Id::NIL, read).unwrap()
}

#[test]
fn who_joins_by_a_domain_is_granted_what_it_names_once() {
    let world = World::new();
    let (live, owner) = (restricted(&world, "live"), &world.fixture.owner);
    // Twice is once.
    let body = listing("acme.test", json!([grant_of(live), grant_of(live)]));
    let stored = serde_json::to_value(world.settings(owner, body.clone()).unwrap()).unwrap();
    assert_eq!(stored["domains"][0]["grants"], json!([grant_of(live)]));
    world.sign_in(json!({})).unwrap();
    let grace = world.person("grace@acme.test").unwrap().id;
    let [made] = &grants(&world)[..] else { panic!("one grant") };
    assert_eq!((made.user_id, made.resource_id), (grace, live.cast()));
    assert_eq!(made.created_by, user(owner));
    let read = |view: &View| view.all::<AuditEntry>(ListSource::TABLE, &());
    let entries = world.fixture.store.read_now(world.fixture.org, read).unwrap();
    let detail = "joined by the domain acme.test of kc: role member, 1 grants made";
    let is_it = |entry: &&AuditEntry| entry.detail.as_deref() == Some(detail);
    assert_eq!(entries.iter().filter(is_it).count(), 1);
    // It is theirs like one by hand: the domain takes nothing back, and gives nothing again.
    world.settings(owner, json!({"domains": []})).unwrap();
    world.sign_in(json!({})).unwrap();
    assert_eq!(grants(&world).len(), 1);
    world.settings(owner, body).unwrap();
    withdraw(&world, grants(&world).remove(0));
    world.sign_in(json!({})).unwrap();
    assert!(grants(&world).is_empty());
    // Nor to who was a member before.
    world.sign_in(json!({"sub": "s-2", "email": "ben@acme.test"})).unwrap();
    assert!(grants(&world).is_empty());
    world.fixture.assert_sound();
}

#[test]
fn what_a_domain_has_granted_stays_when_a_claim_goes_that_gives_the_same() {
    let world = World::new();
    let live = restricted(&world, "live");
    let mut body = listing("acme.test", json!([grant_of(live)]));
    let ships = json!({"provider": "kc", "value": "ship", "grants": [grant_of(live)]});
    body["rules"] = json!([ships, rule("ops", "admin")]);
    world.settings(&world.fixture.owner, body).unwrap();
    world.sign_in(json!({"groups": ["ship", "ops"]})).unwrap();
    assert_eq!(world.role("grace@acme.test"), Some(Role::Admin));
    let made: Vec<_> = grants(&world).iter().map(Record::key).collect();
    assert_eq!(made.len(), 1);
    world.sign_in(json!({"groups": []})).unwrap();
    assert_eq!(world.role("grace@acme.test"), Some(Role::Member));
    let left: Vec<_> = grants(&world).iter().map(Record::key).collect();
    assert_eq!(left, made);
    // One by hand of the same is the same.
    let again = by_hand(&world.fixture, &world.fixture.owner, &grants(&world)[0]);
    assert_eq!(refusal(again).1, "grant_exists");
    world.fixture.assert_sound();
}

#[test]
fn a_domain_names_what_there_is_and_who_joins_is_not_kept_out_by_what_is_gone() {
    let world = World::new();
    let (globex, eve) = world.fixture.other_org("globex");
    let (live, test) = (restricted(&world, "live"), restricted(&world, "test"));
    let owner = &world.fixture.owner;
    let wrong = |grants: Value| {
        let error = world.settings(owner, listing("acme.test", grants)).err().unwrap();
        assert_eq!(error.kind(), Kind::Invalid);
        assert_eq!(error.issues()[0].path, "domains[0].grants");
        assert!(stored_domains(&world).is_empty());
    };
    wrong(json!([{"resourceType": "registry", "resourceId": live.to_string()}]));
    wrong(json!([{"resourceType": "environment", "resourceId": user(&eve).to_string()}]));
    wrong(Value::Array(vec![grant_of(live); 21]));
    let both = listing("acme.test", json!([grant_of(live), grant_of(test)]));
    world.settings(owner, both.clone()).unwrap();
    let gone = move |tx: &mut Tx| {
        let stored: Restricted<Environment> = tx.fetch(&live)?;
        tx.remove(&stored)
    };
    world.fixture.store.write_blocking(world.fixture.org, gone).unwrap();
    // It stays until somebody changes the grants, and hinders nobody.
    world.settings(owner, both).unwrap();
    assert_eq!(stored_domains(&world)[0].grants.len(), 2);
    world.sign_in(json!({})).unwrap();
    let granted: Vec<_> = grants(&world).iter().map(|grant| grant.resource_id).collect();
    assert_eq!(granted, [test.cast()]);
    // An owner who does not administer the installation changes the grants of a listed domain, to what is of
    // their organization.
    let theirs = move |tx: &mut Tx| {
        let (domain, provider) = (crate::base::Domain::parse("globex.test").unwrap(), "kc".into());
        let (role, grants, set_by) = (Role::Member, Vec::new(), Id::NIL);
        tx.put(&JoiningDomain { org: globex, domain, provider, role, grants, set_by })
    };
    world.fixture.store.write_blocking(globex, theirs).unwrap();
    let refused = set(&world, &eve, listing("globex.test", json!([grant_of(test)])));
    assert_eq!(refusal(refused).0, Kind::Invalid);
    let body = json!({"slug": "own", "name": "own", "access": "restricted"});
    let own = environments::tests::make_as(&world.fixture, &eve, body).unwrap().id;
    let mut body = listing("globex.test", json!([grant_of(own)]));
    let stored = set(&world, &eve, body.clone()).unwrap();
    assert_eq!(stored["domains"][0]["grants"], json!([grant_of(own)]));
    // Not the role of who joins.
    body["domains"][0]["role"] = json!("admin");
    let refused = refusal(set(&world, &eve, body));
    assert_eq!(refused, (Kind::Forbidden, "installation_admin_required"));
    world.fixture.assert_sound();
}
