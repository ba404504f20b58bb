//! Tests of what no client can see: times, records, and what happens during hashing.

use serde_json::json;

use super::super::delete_expired;
use super::super::password_reset::{VALID_SECS, issue_password_reset};
use super::super::rule_rights::{GivenRole, RuleRights};
use super::super::sign_in_link::link;
use super::super::tests::{hashing, with_password};
use super::*;
use crate::api::Principal;
use crate::auth::oidc::Confirmation;
use crate::auth::{AddressProof, name_installation_admins, passwords};
use crate::base::{Email, Kind};
use crate::outbox::RetentionSettings;
use crate::resources::testing::Fixture;

const NEW: &str = "another horse battery";

fn user_of(who: &Principal) -> Id<User> {
    let Principal::Caller(caller) = who else { panic!("no caller of an organization") };
    caller.user()
}

fn make(fixture: &Fixture) -> String {
    fixture.write_as(&fixture.owner, create, user_of(&fixture.member), ()).unwrap().token
}

fn operator(fixture: &Fixture) -> String {
    let user = user_of(&fixture.member);
    let made = fixture.store.write_blocking(Id::NIL, move |tx| {
        let user = tx.fetch(&user)?;
        issue_password_reset(tx, &user)
    });
    made.unwrap().token
}

fn use_link(fixture: &Fixture, token: &str) -> Result<Empty> {
    let body = json!({"token": token, "newPassword": NEW});
    let input = Fixture::input(body).unwrap();
    hashing(&fixture.store, &Principal::Anonymous, prepare, reset, input)
}

fn count(fixture: &Fixture) -> usize {
    let count = |view: &View| view.count::<PasswordReset>(ListSource::TABLE, &(), 9);
    fixture.store.read_now(Id::NIL, count).unwrap()
}

#[test]
fn a_link_expires_after_half_an_hour_and_is_deleted() {
    let fixture = Fixture::new();
    let token = make(&fixture);
    fixture.pass_secs(VALID_SECS - 1);
    let late = operator(&fixture);
    assert_eq!(use_link(&fixture, &token).err().unwrap().kind(), Kind::NotFound, "it is replaced");
    fixture.pass_secs(VALID_SECS);
    assert_eq!(use_link(&fixture, &late).err().unwrap().kind(), Kind::NotFound);
    assert_eq!(count(&fixture), 1);
    let settings = RetentionSettings::default();
    let sweep = move |tx: &mut Tx| delete_expired(tx, &settings);
    fixture.store.write_blocking(Id::NIL, sweep).unwrap();
    assert_eq!(count(&fixture), 0);
    fixture.assert_sound();
}

#[test]
fn a_link_opens_the_account_of_who_never_had_a_password() {
    let fixture = Fixture::new();
    use_link(&fixture, &operator(&fixture)).unwrap();
    let user: User =
        fixture.store.read_now(Id::NIL, |view| view.fetch(&user_of(&fixture.member))).unwrap();
    let verify = Some((NEW.to_string(), user.password.clone()));
    let hashed = passwords::run(&HashRequest { verify, make: None }).unwrap();
    assert_eq!((hashed.fits, user.session_generation), (user.password, 1));
    fixture.assert_sound();
}

#[test]
fn what_rules_of_a_provider_gave_goes_with_the_links_when_an_account_is_taken_back() {
    for by_admin in [false, true] {
        let fixture = Fixture::new();
        let (org, user) = (fixture.org, user_of(&fixture.member));
        let give = move |tx: &mut Tx| {
            let own: Membership = tx.fetch(&(user, org))?;
            tx.replace(&own, &Membership { role: Role::Admin, ..own.clone() })?;
            let role = Some(GivenRole { own: Role::Member, given: Role::Admin });
            tx.insert(&RuleRights { role, ..RuleRights::none(user, org) })
        };
        fixture.store.write_blocking(Id::NIL, give).unwrap();
        let token = if by_admin { make(&fixture) } else { operator(&fixture) };
        use_link(&fixture, &token).unwrap();
        let read = |view: &View| view.fetch::<Membership>(&(user, org));
        assert_eq!(fixture.store.read_now(Id::NIL, read).unwrap().role, Role::Member);
        assert_eq!(count(&fixture), 0);
        fixture.assert_sound();
    }
}

#[test]
fn an_admin_of_an_organization_lets_nobody_in_who_administers_the_installation() {
    let fixture = Fixture::new();
    let token = make(&fixture);
    let named = |tx: &mut Tx| {
        let ben = Email::parse("ben@acme.test").map_err(Error::internal)?;
        name_installation_admins(tx, Some(vec![ben]))
    };
    fixture.store.write_blocking(Id::NIL, named).unwrap();
    assert_eq!(use_link(&fixture, &token).err().unwrap().kind(), Kind::NotFound);
    let again = fixture.write_as(&fixture.owner, create, user_of(&fixture.member), ());
    let refused = again.err().unwrap();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "installation_admin_required"));
    use_link(&fixture, &operator(&fixture)).unwrap();
}

#[test]
fn the_first_password_of_an_account_leaves_what_belongs_to_it() {
    let fixture = Fixture::new();
    let ben = user_of(&fixture.member);
    let arrived = move |tx: &mut Tx| {
        let user: User = tx.fetch(&ben)?;
        let proof = AddressProof::Unproved;
        tx.replace(&user, &User { proof, password: None, ..user.clone() })
    };
    fixture.store.write_blocking(Id::NIL, arrived).unwrap();
    use_link(&fixture, &operator(&fixture)).unwrap();
    let user: User = fixture.store.read_now(Id::NIL, |view| view.fetch(&ben)).unwrap();
    assert_eq!((user.proof, user.keys_from), (AddressProof::Proved, None));
}

#[test]
fn an_admin_lets_nobody_in_who_is_named_and_has_not_proved_the_address_yet() {
    for proof in [AddressProof::Unproved, AddressProof::Unknown] {
        let fixture = Fixture::new();
        let token = make(&fixture);
        let ben = user_of(&fixture.member);
        let named = move |tx: &mut Tx| {
            let user: User = tx.fetch(&ben)?;
            name_installation_admins(tx, Some(vec![user.email.clone()]))?;
            tx.replace(&user, &User { proof, ..user.clone() })
        };
        fixture.store.write_blocking(Id::NIL, named).unwrap();
        assert_eq!(use_link(&fixture, &token).err().unwrap().kind(), Kind::NotFound, "{proof:?}");
        let refused = fixture.write_as(&fixture.owner, create, ben, ()).err().unwrap();
        assert_eq!(refused.code(), "installation_admin_required", "{proof:?}");
    }
}

#[test]
fn a_link_is_void_once_somebody_else_has_the_account_of_who_made_it() {
    let fixture = Fixture::new();
    let token = make(&fixture);
    let ada = user_of(&fixture.owner);
    let prove = move |tx: &mut Tx| {
        let (user, now) = (tx.fetch::<User>(&ada)?, tx.now());
        tx.replace(&user, &User { keys_from: Some(now), ..user.clone() })
    };
    fixture.store.write_blocking(Id::NIL, prove).unwrap();
    assert_eq!(use_link(&fixture, &token).err().unwrap().kind(), Kind::NotFound);
    fixture.pass_secs(1);
    use_link(&fixture, &make(&fixture)).unwrap();
}

#[test]
fn only_a_link_that_no_admin_has_seen_proves_the_address() {
    let fixture = Fixture::new();
    let ben = user_of(&fixture.member);
    let unproved = move |tx: &mut Tx| {
        let user: User = tx.fetch(&ben)?;
        tx.replace(&user, &User { proof: AddressProof::Unproved, ..user.clone() })
    };
    fixture.store.write_blocking(Id::NIL, unproved).unwrap();
    let read = |view: &View| Ok(view.fetch::<User>(&ben)?.proof);
    let proof = || fixture.store.read_now(Id::NIL, read).unwrap();
    use_link(&fixture, &make(&fixture)).unwrap();
    assert_eq!(proof(), AddressProof::Unproved);
    use_link(&fixture, &operator(&fixture)).unwrap();
    assert_eq!(proof(), AddressProof::Proved);
}

#[test]
fn a_link_voided_during_hashing_changes_nothing() {
    let fixture = Fixture::new();
    let before = with_password(&fixture, &fixture.member);
    let token = make(&fixture);
    let body = json!({"token": token, "newPassword": NEW});
    let args = crate::resources::testing::args((), Fixture::input(body).unwrap());
    let anonymous = Principal::Anonymous;
    let plan = fixture.store.read_now(Id::NIL, |view| prepare(view, &Req::new(&args, &anonymous)));
    let hashed = passwords::run(&plan.unwrap().hashing).unwrap();
    make(&fixture);
    let late = fixture.store.write_blocking(Id::NIL, move |tx| {
        reset(tx, &Req::new(&args, &Principal::Anonymous), &hashed).map(drop)
    });
    assert_eq!(late.err().unwrap().kind(), Kind::NotFound);
    let now: User = fixture.store.read_now(Id::NIL, |view| view.fetch(&before.id)).unwrap();
    assert_eq!(now.password, before.password);
}

#[test]
fn the_record_holds_neither_the_token_nor_its_plain_hash() {
    let fixture = Fixture::new();
    let token = make(&fixture);
    let stored: PasswordReset =
        fixture.store.read_now(Id::NIL, |view| view.fetch(&user_of(&fixture.member))).unwrap();
    assert_ne!(stored.hash, *blake3::hash(token.as_bytes()).as_bytes());
    assert_eq!(stored.hash, hash_of(fixture.store.keys(), &token));
}

/// Links an account of a provider to the member.
fn link_account(fixture: &Fixture, subject: &'static str) {
    let user = user_of(&fixture.member);
    let link = move |tx: &mut Tx| {
        let (provider, issuer) = ("kc".to_string(), "https://id.test".to_string());
        let mut confirmed = Confirmation::new(tx.random(), provider, issuer, tx.now());
        confirmed.subject = subject.into();
        link(tx, user, &confirmed)
    };
    fixture.store.write_blocking(Id::NIL, link).unwrap();
}

#[test]
fn who_takes_an_account_back_unlinks_what_others_have_linked() {
    let fixture = Fixture::new();
    let ben = with_password(&fixture, &fixture.member);
    let is_linked = || fixture.store.read_now(Id::NIL, |view| has_any(view, ben.id)).unwrap();
    for make in [operator, make] {
        link_account(&fixture, "s-1");
        let token = make(&fixture);
        assert!(is_linked());
        use_link(&fixture, &token).unwrap();
        assert!(!is_linked());
    }
    fixture.assert_sound();
}

#[test]
fn an_admin_gives_no_password_to_who_signs_in_with_a_provider_alone() {
    let fixture = Fixture::new();
    let before = make(&fixture);
    link_account(&fixture, "s-1");
    assert_eq!(use_link(&fixture, &before).err().unwrap().kind(), Kind::NotFound);
    let refused = fixture.write_as(&fixture.owner, create, user_of(&fixture.member), ());
    let error = refused.err().unwrap();
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "signs_in_with_provider"));
    use_link(&fixture, &operator(&fixture)).unwrap();
    make(&fixture);
}
