//! New people, and accounts that are taken over.

use super::*;
use crate::auth::has_second_factor;

#[test]
fn new_people_are_those_of_a_listed_domain_and_of_no_other_nor_below_it() {
    let world = World::new();
    let refused = || refusal(world.sign_in(json!({})));
    assert_eq!(refused(), (Kind::Forbidden, "not_invited"));
    let rule = |domain: &str, provider: &str| {
        let rule = json!({"domain": domain, "provider": provider, "role": "admin"});
        json!({"domains": [rule]})
    };
    let owner = &world.fixture.owner;
    assert_eq!(
        refusal(world.settings(&world.fixture.member, rule("a.test", "kc"))).1,
        "owner_required"
    );
    assert_eq!(refusal(world.settings(owner, rule("acme.test", "other"))).0, Kind::Invalid);
    let of_owner = json!({"domains": [{"domain": "a.test", "provider": "kc", "role": "owner"}]});
    assert_eq!(refusal(world.settings(owner, of_owner)).0, Kind::Invalid);
    world.settings(owner, rule("test", "kc")).unwrap_err();
    world.settings(owner, rule("elsewhere.test", "kc")).unwrap();
    assert_eq!(refused(), (Kind::Forbidden, "not_invited"));
    world.settings(owner, rule("acme.test", "kc")).unwrap();
    let below = json!({"sub": "s-3", "email": "x@sub.acme.test"});
    assert_eq!(refusal(world.sign_in(below)).1, "not_invited");
    assert!(world.person("grace@acme.test").is_none());
    let finished = world.sign_in(json!({})).unwrap();
    let grace = world.person("grace@acme.test").unwrap();
    assert_eq!(signed_in_user(&world, &finished), grace.id);
    assert_eq!((grace.name.as_str(), grace.password.is_none()), ("Grace", true));
    assert_eq!(world.role("grace@acme.test"), Some(Role::Admin));
    // What is listed by another owner of the server than its administrator is refused.
    let (_, eve) = world.fixture.other_org("globex");
    assert_eq!(
        refusal(world.settings(&eve, rule("globex.test", "kc"))).1,
        "installation_admin_required"
    );
    world.fixture.assert_sound();
}

/// Invites an address into another organization, or the fixture's.
fn invite(world: &World, who: &Principal, email: &str) {
    let Principal::Caller(caller) = who else { unreachable!("a caller") };
    let (org, inviter) = (caller.org, caller.user());
    let email = Email::parse(email).unwrap();
    let insert = move |tx: &mut Tx| {
        let (id, expires_at) = (tx.new_id(), tx.now().plus_secs(3600));
        let (role, token) = (Role::Member, tx.random());
        let (mail_base, mailed) = (None, None);
        let made = Invitation {
            id,
            org,
            email: email.clone(),
            role,
            inviter,
            token,
            expires_at,
            mail_base,
            mailed,
        };
        tx.insert(&made)
    };
    world.fixture.store.write_blocking(org, insert).unwrap();
}

#[test]
fn who_signs_in_first_joins_by_the_oldest_invitation_with_room_and_leaves_the_others_open() {
    let world = World::new();
    let (globex, eve) = world.fixture.other_org("globex");
    invite(&world, &world.fixture.owner, "grace@acme.test");
    world.fixture.pass_secs(1);
    invite(&world, &eve, "grace@acme.test");
    world.sign_in(json!({})).unwrap();
    assert_eq!(world.role("grace@acme.test"), Some(Role::Member));
    let grace = world.person("grace@acme.test").unwrap();
    let elsewhere = |view: &crate::store::View| view.get::<Membership>(&(grace.id, globex));
    assert!(world.fixture.store.read_now(Id::NIL, elsewhere).unwrap().is_none());
    world.fixture.assert_sound();
}

#[test]
fn a_listed_domain_admits_its_people_whatever_others_have_invited() {
    let world = World::new();
    let (globex, eve) = world.fixture.other_org("globex");
    invite(&world, &eve, "grace@acme.test");
    let spender = user(&eve);
    // The inviter has caused as many accounts as one may.
    let spend = move |tx: &mut Tx| {
        let known: User = tx.fetch(&spender)?;
        for _ in 0..500 {
            let id = tx.new_id();
            let email = Email::parse(format!("{id}@globex.test")).unwrap();
            tx.insert(&User { id, email, created_at: tx.now(), ..known.clone() })?;
            invited_accounts::note(tx, id, spender)?;
        }
        Ok(())
    };
    world.fixture.store.write_blocking(Id::NIL, spend).unwrap();
    assert_eq!(refusal(world.sign_in(json!({}))), (Kind::Limited, "too_many_accounts"));
    let rule = json!({"domain": "acme.test", "provider": "kc", "role": "member"});
    world.settings(&world.fixture.owner, json!({"domains": [rule]})).unwrap();
    world.sign_in(json!({})).unwrap();
    assert_eq!(world.role("grace@acme.test"), Some(Role::Member));
    let grace = world.person("grace@acme.test").unwrap();
    let elsewhere = |view: &crate::store::View| view.get::<Membership>(&(grace.id, globex));
    assert!(world.fixture.store.read_now(Id::NIL, elsewhere).unwrap().is_none());
    world.fixture.assert_sound();
}

#[test]
fn an_account_that_nobody_has_proved_gives_way_to_who_signs_in_with_its_address() {
    let world = World::new();
    let fixture = &world.fixture;
    let ben = guarded(fixture, &fixture.member);
    let id = ben.user.id;
    let unprove = move |tx: &mut Tx| {
        let old: User = tx.fetch(&id)?;
        tx.replace(&old, &User { proof: AddressProof::Unproved, ..old.clone() })
    };
    fixture.store.write_blocking(Id::NIL, unprove).unwrap();
    let rule = json!({"domain": "acme.test", "provider": "kc", "role": "member"});
    world.settings(&fixture.owner, json!({"domains": [rule]})).unwrap();
    let finished = world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    assert_eq!(signed_in_user(&world, &finished), id);
    assert!(identity_of(&fixture.store, &ben.token).is_err());
    let user = world.person("ben@acme.test").unwrap();
    assert!(user.password.is_none() && user.proof == AddressProof::Proved);
    assert!(user.keys_from.is_some());
    let has = |view: &crate::store::View| has_second_factor(view, id);
    assert!(!fixture.store.read_now(Id::NIL, has).unwrap());
    fixture.assert_sound();
}
