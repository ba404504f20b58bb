//! New people, and accounts that are taken over.

use super::*;
use crate::auth::{has_second_factor, user_organizations};
use crate::resources::organizations::invitation::BY_EMAIL;
use crate::store::{Org, View};

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
pub(super) fn invite(world: &World, who: &Principal, email: &str) {
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

/// Has somebody cause as many accounts as one may.
pub(super) fn spend(world: &World, who: &Principal) {
    let spender = user(who);
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
}

/// The organizations into which an address is invited.
fn invited_into(world: &World, email: &str) -> Vec<Id<Org>> {
    let email = Email::parse(email).unwrap();
    let read = |view: &View| view.all::<Invitation>(&BY_EMAIL, &email);
    let invitations = world.fixture.store.read_now(Id::NIL, read).unwrap();
    invitations.iter().map(|invitation| invitation.org).collect()
}

fn organizations(world: &World, email: &str) -> Vec<Id<Org>> {
    let id = world.person(email).unwrap().id;
    let read = |view: &View| user_organizations(view, id);
    world.fixture.store.read_now(Id::NIL, read).unwrap()
}

#[test]
fn who_signs_in_first_joins_by_the_oldest_invitation_with_room_and_leaves_the_others_open() {
    let world = World::new();
    let (globex, eve) = world.fixture.other_org("globex");
    let (initech, bill) = world.fixture.other_org("initech");
    spend(&world, &eve);
    for who in [&eve, &world.fixture.owner, &bill] {
        invite(&world, who, "grace@acme.test");
        world.fixture.pass_secs(1);
    }
    world.sign_in(json!({})).unwrap();
    assert_eq!(organizations(&world, "grace@acme.test"), [world.fixture.org]);
    assert_eq!(world.role("grace@acme.test"), Some(Role::Member));
    let (mut open, mut others) = (invited_into(&world, "grace@acme.test"), [globex, initech]);
    open.sort();
    others.sort();
    assert_eq!(open, others);
    world.fixture.assert_sound();
}

#[test]
fn a_listed_domain_admits_its_people_whatever_others_have_invited() {
    let world = World::new();
    let (globex, eve) = world.fixture.other_org("globex");
    invite(&world, &eve, "grace@acme.test");
    spend(&world, &eve);
    assert_eq!(refusal(world.sign_in(json!({}))), (Kind::Limited, "too_many_accounts"));
    list_acme(&world);
    world.sign_in(json!({})).unwrap();
    assert_eq!(organizations(&world, "grace@acme.test"), [world.fixture.org]);
    assert_eq!(invited_into(&world, "grace@acme.test"), [globex]);
    world.fixture.assert_sound();
}

fn list_acme(world: &World) {
    let rule = json!({"domain": "acme.test", "provider": "kc", "role": "member"});
    world.settings(&world.fixture.owner, json!({"domains": [rule]})).unwrap();
}

fn unprove(world: &World, id: Id<User>) {
    let unprove = move |tx: &mut Tx| {
        let old: User = tx.fetch(&id)?;
        tx.replace(&old, &User { proof: AddressProof::Unproved, ..old.clone() })
    };
    world.fixture.store.write_blocking(Id::NIL, unprove).unwrap();
}

#[test]
fn an_account_that_nobody_has_proved_gives_way_where_its_domain_is_listed_and_it_is_no_member() {
    let world = World::new();
    let fixture = &world.fixture;
    let ben = guarded(fixture, &fixture.member);
    let id = ben.user.id;
    unprove(&world, id);
    let (globex, eve) = fixture.other_org("globex");
    invite(&world, &eve, "ben@acme.test");
    let sign_in = || world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    let is_kept = |finished: &Finished| {
        let user = world.person("ben@acme.test").unwrap();
        finished.session.is_none()
            && finished.confirmation.is_some()
            && user.password.is_some()
            && identity_of(&fixture.store, &ben.token).is_ok()
    };
    // Whoever administers a provider is not everybody who was invited.
    assert!(is_kept(&sign_in()));
    // Nor is a member of the organization somebody who has only taken the address.
    list_acme(&world);
    assert!(is_kept(&sign_in()));
    fixture.leave(&fixture.member).unwrap();
    let finished = sign_in();
    assert_eq!(signed_in_user(&world, &finished), id);
    assert!(identity_of(&fixture.store, &ben.token).is_err());
    let user = world.person("ben@acme.test").unwrap();
    assert!(user.password.is_none() && user.proof == AddressProof::Proved);
    assert!(user.keys_from.is_some());
    let has = |view: &View| has_second_factor(view, id);
    assert!(!fixture.store.read_now(Id::NIL, has).unwrap());
    // It has joined by the rule, and by no invitation of somebody else.
    assert_eq!(organizations(&world, "ben@acme.test"), [fixture.org]);
    assert_eq!(invited_into(&world, "ben@acme.test"), [globex]);
    // Once it is proved, nobody comes back by signing in.
    fixture.leave(&fixture.member).unwrap();
    sign_in();
    assert!(organizations(&world, "ben@acme.test").is_empty());
    fixture.assert_sound();
}

#[test]
fn an_unproved_account_that_nobody_can_sign_in_to_is_linked_where_its_domain_is_listed() {
    let world = World::new();
    let id = user(&world.fixture.member);
    unprove(&world, id);
    let sign_in = || world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    assert!(sign_in().session.is_none());
    list_acme(&world);
    assert_eq!(signed_in_user(&world, &sign_in()), id);
    assert_eq!(organizations(&world, "ben@acme.test"), [world.fixture.org]);
    world.fixture.assert_sound();
}
