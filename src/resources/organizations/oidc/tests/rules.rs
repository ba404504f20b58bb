//! Rules by which what a provider says gives role and grants.

use super::*;
use crate::api::audit::AuditEntry;
use crate::auth::{Grant, ResourceType};
use crate::resources::environments;
use crate::resources::organizations::members;
use crate::resources::organizations::rule_rights::RuleRights;
use crate::store::View;

/// Sets rules as the owner.
pub(super) fn set(world: &World, rules: Value) -> Result<settings::Settings> {
    world.settings(&world.fixture.owner, json!({"domains": [], "rules": rules}))
}

/// Ben signs in, who is in these groups.
pub(super) fn sign_in(world: &World, groups: Value) -> Role {
    world.sign_in(json!({"email": "ben@acme.test", "groups": groups})).unwrap();
    world.role("ben@acme.test").unwrap()
}

pub(super) fn rule(value: &str, role: &str) -> Value {
    json!({"provider": "kc", "value": value, "role": role})
}

pub(super) fn grants(world: &World) -> Vec<Grant> {
    let read = |view: &View| view.all::<Grant>(ListSource::TABLE, &());
    world.fixture.store.read_now(world.fixture.org, read).unwrap()
}

#[test]
fn a_claim_gives_a_role_and_takes_no_more_than_it_gave() {
    let world = World::new();
    set(&world, json!([rule("ops", "admin"), rule("looks", "member"), rule("boss", "owner")]))
        .unwrap();
    assert_eq!(sign_in(&world, json!(["staff"])), Role::Member);
    assert_eq!(sign_in(&world, json!(["staff", "ops"])), Role::Admin);
    // The highest counts, and none lowers what somebody has.
    assert_eq!(sign_in(&world, json!(["looks", "ops", "boss"])), Role::Owner);
    assert_eq!(sign_in(&world, json!("ops")), Role::Admin, "a text");
    assert_eq!(sign_in(&world, json!(["looks"])), Role::Member);
    for groups in
        [json!([["ops"]]), json!({"ops": true}), json!([1, null]), json!(["OPS"]), Value::Null]
    {
        assert_eq!(sign_in(&world, groups.clone()), Role::Member, "{groups}");
    }
    world.fixture.assert_sound();
}

#[test]
fn a_role_that_somebody_has_chosen_stays_when_the_claim_goes() {
    // Another one and that of before, or at once the one that they have by the rule.
    for roles in [&[Role::Owner, Role::Admin][..], &[Role::Admin]] {
        let world = World::new();
        let (ada, ben) = (&world.fixture.owner, &world.fixture.member);
        set(&world, json!([rule("ops", "admin")])).unwrap();
        assert_eq!(sign_in(&world, json!(["ops"])), Role::Admin);
        for role in roles {
            members::tests::make(&world.fixture, ada, ben, *role).unwrap();
        }
        assert_eq!(sign_in(&world, json!([])), Role::Admin, "{roles:?}");
        world.fixture.assert_sound();
    }
}

#[test]
fn the_last_owner_stays_one_whatever_a_provider_says() {
    let world = World::new();
    let (org, ada) = (world.fixture.org, user(&world.fixture.owner));
    set(&world, json!([rule("boss", "owner")])).unwrap();
    assert_eq!(sign_in(&world, json!(["boss"])), Role::Owner);
    let leave = move |tx: &mut Tx| {
        let membership: Membership = tx.fetch(&(ada, org))?;
        tx.remove(&membership)
    };
    world.fixture.store.write_blocking(org, leave).unwrap();
    assert_eq!(sign_in(&world, json!([])), Role::Owner);
    // Once there is another one, the claim that has gone counts.
    let (role, joined_at) = (Role::Owner, NOON);
    let back = Membership { user: ada, org, role, email_verified: true, joined_at };
    world.fixture.store.write_blocking(org, move |tx| tx.insert(&back)).unwrap();
    assert_eq!(sign_in(&world, json!([])), Role::Member);
    world.fixture.assert_sound();
}

#[test]
fn a_claim_grants_what_is_restricted_beside_what_was_granted_by_hand() {
    let world = World::new();
    let fixture = &world.fixture;
    let make = |slug: &str| {
        let body = json!({"slug": slug, "name": slug, "access": "restricted"});
        environments::tests::make(fixture, body).unwrap().id
    };
    let (live, test) = (make("live"), make("test"));
    environments::tests::grant(fixture, &fixture.member, test);
    let by_hand = grants(&world);
    let both =
        [live, test].map(|id| json!({"resourceType": "environment", "resourceId": id.to_string()}));
    let rule = json!({"provider": "kc", "claim": "teams", "value": "ship", "grants": both});
    set(&world, json!([rule])).unwrap();
    let sign_in = |teams: Value| {
        world.sign_in(json!({"email": "ben@acme.test", "teams": teams})).unwrap();
        let granted: Vec<_> = grants(&world).iter().map(|grant| grant.resource_id).collect();
        granted
    };
    assert_eq!(sign_in(json!([])), [test.cast()]);
    let mut granted = sign_in(json!(["ship"]));
    granted.sort();
    assert_eq!(granted, [live.cast(), test.cast()]);
    assert!(grants(&world).iter().all(|grant| grant.resource_type == ResourceType::Environment));
    // Twice makes nothing twice, and only what the rule has made goes with it.
    assert_eq!(sign_in(json!(["ship"])).len(), 2);
    assert_eq!(sign_in(json!(["other"])), [test.cast()]);
    assert_eq!(grants(&world)[0].id, by_hand[0].id);
    let read = |view: &View| view.all::<RuleRights>(ListSource::TABLE, &user(&fixture.member));
    assert!(fixture.store.read_now(Id::NIL, read).unwrap().is_empty());
    // What is gone is granted to nobody, and hinders nobody from signing in.
    let gone = move |tx: &mut Tx| {
        let stored: crate::auth::Restricted<environments::Environment> = tx.fetch(&live)?;
        tx.remove(&stored)
    };
    fixture.store.write_blocking(fixture.org, gone).unwrap();
    assert_eq!(sign_in(json!(["ship"])), [test.cast()]);
    fixture.assert_sound();
}

#[test]
fn what_rules_give_goes_with_the_rule_and_with_the_membership() {
    let world = World::new();
    set(&world, json!([rule("ops", "admin")])).unwrap();
    assert_eq!(sign_in(&world, json!(["ops"])), Role::Admin);
    set(&world, json!([])).unwrap();
    assert_eq!(sign_in(&world, json!(["ops"])), Role::Member);
    set(&world, json!([rule("ops", "admin")])).unwrap();
    assert_eq!(sign_in(&world, json!(["ops"])), Role::Admin);
    world.fixture.leave(&world.fixture.member).unwrap();
    // Rules let nobody in.
    world.sign_in(json!({"email": "ben@acme.test", "groups": ["ops"]})).unwrap();
    assert_eq!(world.role("ben@acme.test"), None);
    world.fixture.assert_sound();
}

#[test]
fn what_rules_have_changed_is_in_the_audit_log() {
    let world = World::new();
    set(&world, json!([rule("ops", "admin")])).unwrap();
    for groups in [json!(["ops"]), json!(["ops"]), json!([])] {
        sign_in(&world, groups);
    }
    let read = |view: &View| view.all::<AuditEntry>(ListSource::TABLE, &());
    let mut entries = world.fixture.store.read_now(world.fixture.org, read).unwrap();
    entries.retain(|entry| entry.action == "member.apply_rules");
    let details: Vec<_> = entries.iter().filter_map(|entry| entry.detail.clone()).collect();
    assert_eq!(details.len(), 2, "{details:?}");
    assert!(
        details[0].contains("role admin") && details[0].contains("groups=ops of kc"),
        "{details:?}"
    );
    assert!(details[1].contains("role member") && details[1].contains("no rule"), "{details:?}");
}

#[test]
fn a_rule_is_of_an_owner_and_names_what_there_is() {
    let world = World::new();
    let body = json!({"domains": [], "rules": [rule("ops", "admin")]});
    let refused = world.settings(&world.fixture.member, body);
    assert_eq!(refusal(refused).1, "owner_required");
    let missing = "01890a5d-ac96-774b-bcce-b302099a8057";
    let grant = json!({"resourceType": "registry", "resourceId": missing});
    let many: Vec<_> = (0..51).map(|n| rule(&format!("g{n}"), "admin")).collect();
    for rules in [
        json!([{"provider": "other", "value": "ops", "role": "admin"}]),
        json!([{"provider": "kc", "value": "ops"}]),
        json!([rule("ops", "viewer")]),
        json!([{"provider": "kc", "value": "", "role": "admin"}]),
        json!([{"provider": "kc", "claim": "email", "value": "a@b.test", "role": "owner"}]),
        json!([{"provider": "kc", "claim": "a=b", "value": "ops", "role": "admin"}]),
        json!([rule("ops\nstaff", "admin")]),
        json!([rule(" ops", "admin")]),
        json!([rule("ops", "admin"), rule("ops", "member")]),
        json!([{"provider": "kc", "value": "ops", "grants": [grant]}]),
        json!(many),
    ] {
        assert_eq!(refusal(set(&world, rules.clone())).0, Kind::Invalid, "{rules}");
    }
    let stored = set(&world, json!([rule("ops", "admin")])).unwrap();
    let stored = serde_json::to_value(stored).unwrap();
    let expected = json!({"provider": "kc", "claim": "groups", "value": "ops", "role": "admin",
        "grants": []});
    assert_eq!(stored["rules"], json!([expected]));
}
