//! What rules have given goes when the person does not sign in with the provider any more, and what somebody
//! has given by hand stays.

use super::rules::{grants, rule, set, sign_in};
use super::*;
use crate::auth::Grant;
use crate::auth::{Granted, ResourceType};
use crate::resources::environments;
use crate::resources::organizations::grants as given;
use crate::resources::organizations::members;
use crate::resources::organizations::oidc::rules::{
    WITHDRAW, set_grants, withdraw_all, withdraw_some,
};
use crate::resources::organizations::rule_rights::RuleRights;
use crate::store::View;

const BEN: &str = "ben@acme.test";

/// Ben's links, the oldest first.
pub(super) fn links_of_ben(world: &World) -> Vec<Id<SignInLink>> {
    let ben = user(&world.fixture.member);
    let read = |view: &View| view.all::<SignInLink>(ListSource::TABLE, &ben);
    let links = world.fixture.store.read_now(Id::NIL, read).unwrap();
    links.iter().map(|link| link.id).collect()
}

/// Ben, who has a password too, unlinks an account of the provider.
pub(super) fn unlink(world: &World, link: Id<SignInLink>) {
    let fixture = &world.fixture;
    let ben = with_password(fixture, &fixture.member);
    let who = signed_in(&fixture.store, &session(&fixture.store, &ben));
    let mut args = args(link, ());
    args.server = world.server.clone();
    let unlink = move |tx: &mut Tx| links::delete(tx, &Req::new(&args, &who)).map(|_| ());
    fixture.store.write_blocking(Id::NIL, unlink).unwrap();
}

#[test]
fn who_unlinks_the_provider_loses_what_it_gave() {
    let world = World::new();
    set(&world, json!([rule("ops", "admin")])).unwrap();
    assert_eq!(sign_in(&world, json!(["ops"])), Role::Admin);
    unlink(&world, links_of_ben(&world)[0]);
    assert_eq!(world.role(BEN), Some(Role::Member));
    world.fixture.assert_sound();
}

#[test]
fn a_last_owner_who_unlinks_the_provider_stays_one_until_another_owner_says_otherwise() {
    let world = World::new();
    let (org, ada) = (world.fixture.org, user(&world.fixture.owner));
    set(&world, json!([rule("boss", "owner")])).unwrap();
    assert_eq!(sign_in(&world, json!(["boss"])), Role::Owner);
    let leave = move |tx: &mut Tx| {
        let membership: Membership = tx.fetch(&(ada, org))?;
        tx.remove(&membership)
    };
    world.fixture.store.write_blocking(org, leave).unwrap();
    unlink(&world, links_of_ben(&world)[0]);
    assert_eq!(world.role(BEN), Some(Role::Owner));
    let (role, joined_at) = (Role::Owner, NOON);
    let back = Membership { user: ada, org, role, email_verified: true, joined_at };
    world.fixture.store.write_blocking(org, move |tx| tx.insert(&back)).unwrap();
    let (ada, ben) = (&world.fixture.owner, &world.fixture.member);
    members::tests::make(&world.fixture, ada, ben, Role::Member).unwrap();
    assert_eq!(world.role(BEN), Some(Role::Member));
    world.fixture.assert_sound();
}

#[test]
fn who_unlinks_one_of_two_accounts_has_what_the_other_gives_from_its_next_sign_in_on() {
    let world = World::new();
    let store = &world.fixture.store;
    set(&world, json!([rule("ops", "admin")])).unwrap();
    let token = token_of(&world.sign_in(json!({"email": BEN})).unwrap());
    let second = world.sign_in(json!({"sub": "s-2", "email": BEN})).unwrap();
    let body = json!({"confirmation": second.confirmation.unwrap()});
    let who = signed_in(store, &token);
    let body = Fixture::input(body).unwrap();
    counting(store, &who, links::prepare, links::create, body).unwrap();
    assert_eq!(sign_in(&world, json!(["ops"])), Role::Admin);
    unlink(&world, links_of_ben(&world)[0]);
    assert_eq!(world.role(BEN), Some(Role::Member));
    world.sign_in(json!({"sub": "s-2", "groups": ["ops"]})).unwrap();
    assert_eq!(world.role(BEN), Some(Role::Admin));
    world.fixture.assert_sound();
}

#[test]
fn a_rule_of_a_provider_that_has_another_name_now_gives_nothing() {
    let world = || {
        let mut world = World::new();
        set(&world, json!([rule("ops", "admin")])).unwrap();
        assert_eq!(sign_in(&world, json!(["ops"])), Role::Admin);
        world.server = configured("keycloak", false);
        world
    };
    let unlinks = world();
    unlink(&unlinks, links_of_ben(&unlinks)[0]);
    assert_eq!(unlinks.role(BEN), Some(Role::Member));
    let signs_in = world();
    signs_in.says(json!({"groups": ["ops"]}));
    let begun = signs_in.begin(json!({"provider": "keycloak"}));
    let answer = json!({"provider": "keycloak", "state": signs_in.state(), "code": "good"});
    signs_in.finish(&begun.attempt, answer).unwrap();
    assert_eq!(signs_in.role(BEN), Some(Role::Member));
}

#[test]
fn who_takes_an_account_over_has_nothing_that_rules_gave_another() {
    let world = World::new();
    let ben = user(&world.fixture.member);
    set(&world, json!([rule("ops", "admin")])).unwrap();
    assert_eq!(sign_in(&world, json!(["ops"])), Role::Admin);
    let take_over = move |tx: &mut Tx| {
        let old: User = tx.fetch(&ben)?;
        let unproved = User { proof: AddressProof::Unproved, ..old.clone() };
        tx.replace(&old, &unproved)?;
        accounts::set_password(tx, &unproved, Some("hash".into()), true).map(|_| ())
    };
    world.fixture.store.write_blocking(Id::NIL, take_over).unwrap();
    assert!(links_of_ben(&world).is_empty());
    assert_eq!(world.role(BEN), Some(Role::Member));
    world.fixture.assert_sound();
}

/// Two restricted environments that a group opens, in which Ben is.
fn granted(world: &World) -> [Grant; 2] {
    let make = |slug: &str| {
        let body = json!({"slug": slug, "name": slug, "access": "restricted"});
        let id = environments::tests::make(&world.fixture, body).unwrap().id;
        json!({"resourceType": "environment", "resourceId": id.to_string()})
    };
    let opened = [make("live"), make("test")];
    set(world, json!([{"provider": "kc", "value": "ship", "grants": opened}])).unwrap();
    sign_in(world, json!(["ship"]));
    grants(world).try_into().unwrap()
}

#[test]
fn a_grant_by_hand_over_one_of_a_rule_stays_when_the_claim_goes() {
    let world = World::new();
    let (fixture, [live, test]) = (&world.fixture, granted(&world));
    let made = given::tests::by_hand(fixture, &fixture.owner, &live).unwrap();
    let many = given::tests::many_by_hand(fixture, &fixture.owner, &test).unwrap();
    assert_eq!(many, (1, 0));
    // It is one by hand now: again it is there already.
    let twice = given::tests::by_hand(fixture, &fixture.owner, &live);
    assert_eq!(refusal(twice), (Kind::Conflict, "grant_exists"));
    assert_eq!(given::tests::many_by_hand(fixture, &fixture.owner, &test).unwrap(), (0, 1));
    for groups in [json!(["ship"]), json!([])] {
        sign_in(&world, groups);
        assert_eq!(grants(&world).len(), 2);
    }
    assert_eq!(made.resource_id, live.resource_id);
    fixture.assert_sound();
}

#[test]
fn grants_for_whose_withdrawal_there_is_no_room_are_withdrawn_the_next_time() {
    let world = World::new();
    granted(&world);
    let key = (user(&world.fixture.member), world.fixture.org);
    let withdraw = move |tx: &mut Tx| {
        let stored: RuleRights = tx.fetch(&key)?;
        let mut after = RuleRights { rules: Vec::new(), ..stored.clone() };
        let done = set_grants(tx, &mut after, &mut 1)?;
        tx.replace(&stored, &after)?;
        Ok((done, after.grants.len()))
    };
    let store = &world.fixture.store;
    assert_eq!(store.write_blocking(key.1, withdraw).unwrap(), ((0, 1), 1));
    assert_eq!(store.write_blocking(key.1, withdraw).unwrap(), ((0, 1), 0));
    assert!(grants(&world).is_empty());
    world.fixture.assert_sound();
}

/// So many grants that rules have given Ben, of which none applies any more.
fn many_given(world: &World, number: usize) {
    let (org, ben) = (world.fixture.org, user(&world.fixture.member));
    let ada = user(&world.fixture.owner);
    let mut given: Vec<Id<Grant>> = Vec::new();
    for part in (0..number).collect::<Vec<_>>().chunks(500) {
        let size = part.len();
        let make = move |tx: &mut Tx| {
            let mut made = Vec::new();
            for _ in 0..size {
                let (id, resource_id) = (tx.new_id(), tx.new_id::<Granted>());
                let (resource_type, created_at) = (ResourceType::Environment, tx.now());
                let (user_id, created_by) = (ben, ada);
                let grant =
                    Grant { id, user_id, resource_type, resource_id, created_by, created_at };
                tx.insert(&grant)?;
                made.push(id);
            }
            Ok(made)
        };
        given.extend(world.fixture.store.write_blocking(org, make).unwrap());
    }
    let rights = RuleRights { grants: given, ..RuleRights::none(ben, org) };
    world.fixture.store.write_blocking(org, move |tx| tx.insert(&rights)).unwrap();
}

/// Runs the jobs that withdraw until there is none; returns how often one ran.
fn finish_withdrawing(world: &World) -> usize {
    let store = &world.fixture.store;
    let mut runs = 0;
    loop {
        let jobs: Vec<Job> =
            store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &())).unwrap();
        let Some(job) = jobs.into_iter().find(|job| job.kind == WITHDRAW.kind) else {
            return runs;
        };
        let run = move |tx: &mut Tx| match withdraw_some(tx, &job)? {
            Prepared::RetryAt(_) => Ok(()),
            _ => tx.remove(&job),
        };
        store.write_blocking(world.fixture.org, run).unwrap();
        runs += 1;
    }
}

#[test]
fn what_one_request_has_no_room_to_withdraw_a_job_withdraws() {
    let world = World::new();
    let ben = user(&world.fixture.member);
    many_given(&world, 2001);
    let store = &world.fixture.store;
    store.write_blocking(Id::NIL, move |tx| withdraw_all(tx, ben)).unwrap();
    assert_eq!(grants(&world).len(), 1001);
    assert_eq!(finish_withdrawing(&world), 2);
    assert!(grants(&world).is_empty());
    let key = (ben, world.fixture.org);
    let left = store.read_now(key.1, |view| view.get::<RuleRights>(&key)).unwrap();
    assert_eq!(left, None);
}

#[test]
fn what_there_is_room_for_leaves_no_job() {
    let world = World::new();
    let ben = user(&world.fixture.member);
    many_given(&world, 10);
    world.fixture.store.write_blocking(Id::NIL, move |tx| withdraw_all(tx, ben)).unwrap();
    assert!(grants(&world).is_empty());
    assert_eq!(finish_withdrawing(&world), 0);
}
