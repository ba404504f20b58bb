//! Tests of invitations.

use super::super::delete_expired;
use super::super::invitation::MAX_INVITATIONS;
use super::super::tests::{hashing, identity_of, session, signed_in, with_password};
use super::*;
use crate::api::Principal;
use crate::auth::{Authenticator, Caller, Identity, RawCredential, Tokens, supposed_caller};
use crate::base::Kind;
use crate::resources::testing::{Fixture, args, user};
use crate::store::Org;
use serde_json::json;

fn invite_as(
    fixture: &Fixture,
    who: &Principal,
    email: &str,
    role: Role,
) -> Result<InvitationCreated> {
    fixture.write_as(who, invite, (), NewMember { email: Email::parse(email).unwrap(), role })
}

fn invited(fixture: &Fixture, email: &str) -> InvitationCreated {
    invite_as(fixture, &fixture.owner, email, Role::Member).unwrap()
}

fn accept_as(fixture: &Fixture, who: &Principal, token: &str) -> Result<SessionInfo> {
    let body = json!({"token": token, "name": "Cy", "password": "battery staple"});
    hashing(&fixture.store, who, prepare, accept, Fixture::input(body).unwrap())
}

fn membership(fixture: &Fixture, user: Id<User>, org: Id<Org>) -> Option<Membership> {
    fixture.store.read_now(Id::NIL, |view| view.get(&(user, org))).unwrap()
}

#[test]
fn a_new_user_joins_once_with_a_name_and_a_password() {
    let fixture = Fixture::new();
    let made = invited(&fixture, "cy@acme.test");
    let url = format!("http://127.0.0.1:7420/invitations#{}", made.token);
    assert_eq!(made.invitation_url, url);

    let body = json!({"token": made.token, "name": "Cy", "password": "battery staple"});
    let body = args((), Fixture::input(body).unwrap());
    let req = Req::new(&body, &Principal::Anonymous);
    let plan = fixture.store.read_now(Id::NIL, |view| prepare(view, &req)).unwrap();
    let attempt = Attempt::Invited(user(&fixture.owner), fixture.org);
    assert_eq!(plan.attempt, Some(attempt));

    let bare = Fixture::input(json!({ "token": made.token })).unwrap();
    let refused =
        hashing(&fixture.store, &Principal::Anonymous, prepare, accept, bare).err().unwrap();
    let paths: Vec<_> = refused.issues().iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["name", "password"]);

    let session = accept_as(&fixture, &Principal::Anonymous, &made.token).unwrap();
    let user = identity_of(&fixture.store, &session.token).unwrap().user;
    let membership = membership(&fixture, user, fixture.org).unwrap();
    assert_eq!((membership.role, membership.email_verified), (Role::Member, false));
    let again = accept_as(&fixture, &Principal::Anonymous, &made.token).err().unwrap();
    assert_eq!(again.kind(), Kind::NotFound);
    fixture.assert_sound();
    fixture.assert_sound();
}

#[test]
fn an_existing_user_joins_only_in_their_own_session() {
    let fixture = Fixture::new();
    let (other, eve) = fixture.other_org("globex");
    let ben = with_password(&fixture, &fixture.member);
    let made = invite_as(&fixture, &eve, &ben.email, Role::Admin).unwrap();
    let ada = session(&fixture.store, &with_password(&fixture, &fixture.owner));
    for outsider in [Principal::Anonymous, signed_in(&fixture.store, &ada)] {
        let refused = accept_as(&fixture, &outsider, &made.token).err().unwrap();
        assert_eq!(refused.kind(), Kind::Unauthenticated);
    }
    let token = session(&fixture.store, &ben);
    let who = signed_in(&fixture.store, &token);
    let joined = accept_as(&fixture, &who, &made.token).unwrap();
    assert_eq!((joined.user.id, joined.token), (ben.id, token));
    assert_eq!(membership(&fixture, ben.id, other).unwrap().role, Role::Admin);
}

#[test]
fn to_ask_with_a_token_whether_there_is_an_account_takes_what_making_one_takes() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let tokens = ["ben@acme.test", "cy@acme.test"]
        .map(|email| invite_as(&fixture, &eve, email, Role::Member).unwrap().token);
    let plan = |token: &String| {
        let body = json!({"token": token, "name": "Cy", "password": "battery staple"});
        let body = args((), Fixture::input(body).unwrap());
        let req = Req::new(&body, &Principal::Anonymous);
        fixture.store.read_now(Id::NIL, |view| prepare(view, &req))
    };
    for token in &tokens {
        assert!(plan(token).unwrap().hashing.make.is_some());
    }
    let refused = accept_as(&fixture, &Principal::Anonymous, &tokens[0]).err().unwrap();
    assert_eq!(refused.kind(), Kind::Unauthenticated);

    let inviter = user(&eve);
    let fill = move |tx: &mut Tx| {
        let known: User = tx.fetch(&inviter)?;
        while invited_accounts::require_room(&tx.view(), inviter).is_ok() {
            let id = tx.new_id();
            let email = Email::parse(format!("{id}@acme.test")).unwrap();
            tx.insert(&User { id, email, ..known.clone() })?;
            invited_accounts::note(tx, id, inviter)?;
        }
        Ok(())
    };
    fixture.store.write_blocking(Id::NIL, fill).unwrap();
    for token in &tokens {
        assert_eq!(plan(token).err().unwrap().code(), "too_many_accounts");
    }
}

#[test]
fn an_api_key_of_the_invited_user_is_no_session() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let made = invite_as(&fixture, &eve, "ben@acme.test", Role::Member).unwrap();
    let Principal::Caller(ben) = &fixture.member else { panic!("no caller of an organization") };
    let credential = Credential::Key {
        id: Id::NIL,
        name: "k".into(),
        org: fixture.org,
        approve_as: false,
        access: Default::default(),
    };
    let key = Principal::Identity(Identity { credential, ..ben.identity.clone() }.into());
    let refused = accept_as(&fixture, &key, &made.token).err().unwrap();
    assert_eq!(refused.kind(), Kind::Unauthenticated);
}

#[test]
fn only_the_newest_invitation_of_an_address_is_valid() {
    let fixture = Fixture::new();
    let old = invited(&fixture, "cy@acme.test");
    let new = invited(&fixture, "CY@acme.test");
    let open = fixture.read_as(&fixture.owner, list, (), ()).unwrap().items;
    assert_eq!(open.iter().map(|i| i.id).collect::<Vec<_>>(), [new.id]);
    let refused = accept_as(&fixture, &Principal::Anonymous, &old.token).err().unwrap();
    assert_eq!(refused.kind(), Kind::NotFound);
    assert!(accept_as(&fixture, &Principal::Anonymous, &new.token).is_ok());
    let member = invite_as(&fixture, &fixture.owner, "cy@acme.test", Role::Member).err().unwrap();
    assert_eq!((member.kind(), member.code()), (Kind::Conflict, "already_member"));
    fixture.assert_sound();
}

#[test]
fn an_invitation_expires_after_seven_days_and_can_be_revoked_before() {
    let fixture = Fixture::new();
    let first = invited(&fixture, "cy@acme.test");
    fixture.pass_secs(VALID_SECS);
    let second = invited(&fixture, "di@acme.test");
    let open = fixture.read_as(&fixture.owner, list, (), ()).unwrap().items;
    assert_eq!(open.iter().map(|i| i.id).collect::<Vec<_>>(), [second.id]);

    let late = accept_as(&fixture, &Principal::Anonymous, &first.token).err().unwrap();
    assert_eq!(late.kind(), Kind::NotFound);
    let gone = fixture.write_as(&fixture.owner, revoke, first.id, ()).err().unwrap();
    assert_eq!(gone.kind(), Kind::NotFound);
    let settings = crate::outbox::RetentionSettings::default();
    let sweep = move |tx: &mut Tx| delete_expired(tx, &settings);
    fixture.store.write_blocking(Id::NIL, sweep).unwrap();
    let left = |view: &View| view.count::<Invitation>(ListSource::TABLE, &(), 9);
    assert_eq!(fixture.store.read_now(Id::NIL, left).unwrap(), 1);

    let (_, eve) = fixture.other_org("globex");
    let foreign = fixture.write_as(&eve, revoke, second.id, ()).err().unwrap();
    assert_eq!(foreign.kind(), Kind::NotFound);
    fixture.write_as(&fixture.owner, revoke, second.id, ()).unwrap();
    assert!(accept_as(&fixture, &Principal::Anonymous, &second.token).is_err());
}

#[test]
fn the_open_invitations_of_an_inviter_are_limited() {
    let fixture = Fixture::new();
    let Principal::Caller(ada) = &fixture.owner else { panic!("no caller of an organization") };
    let inviter = ada.user();
    let fill = move |tx: &mut Tx| {
        (1..MAX_INVITATIONS).try_for_each(|n| {
            tx.insert(&Invitation {
                id: tx.new_id(),
                org: tx.org(),
                email: Email::parse(format!("{n}@acme.test")).unwrap(),
                role: Role::Member,
                inviter,
                token: hash_of(&invitation_token(tx.keys(), tx.new_id())),
                expires_at: tx.now().plus_secs(VALID_SECS),
                mail_base: None,
                mailed: None,
            })
        })
    };
    fixture.store.write_blocking(fixture.org, fill).unwrap();
    let last = invited(&fixture, "cy@acme.test");
    let invite = |email| invite_as(&fixture, &fixture.owner, email, Role::Member);
    let refused = invite("di@acme.test").err().unwrap();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "too_many_invitations"));
    assert!(invite("cy@acme.test").is_ok(), "it replaces {}", last.id);
    fixture.assert_sound();
}

#[test]
fn only_an_owner_invites_an_owner() {
    let fixture = Fixture::new();
    let Principal::Caller(ben) = &fixture.member else { panic!("no caller of an organization") };
    let admin = Principal::Caller(Caller { role: Role::Admin, ..(**ben).clone() }.into());
    let refused = invite_as(&fixture, &admin, "cy@acme.test", Role::Owner).err().unwrap();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "owner_required"));
    assert!(invite_as(&fixture, &admin, "cy@acme.test", Role::Admin).is_ok());
    assert!(invite_as(&fixture, &fixture.owner, "cy@acme.test", Role::Owner).is_ok());
}

#[test]
fn an_invitation_says_who_invited_and_ends_when_they_leave() {
    let fixture = Fixture::new();
    let Principal::Caller(ben) = &fixture.member else { panic!("no caller of an organization") };
    let admin = Principal::Caller(Caller { role: Role::Admin, ..(**ben).clone() }.into());
    let made = invite_as(&fixture, &admin, "cy@acme.test", Role::Member).unwrap();
    let previewed = || {
        let body = args((), Fixture::input(json!({"token": made.token})).unwrap());
        let req = Req::new(&body, &Principal::Anonymous);
        fixture.store.read_now(Id::NIL, |view| preview(view, &req))
    };
    let ben: User = fixture.store.read_now(Id::NIL, |view| view.fetch(&ben.user())).unwrap();
    assert_eq!(previewed().unwrap().inviter_name, ben.name);
    fixture.leave(&fixture.member).unwrap();
    assert_eq!(previewed().err().unwrap().kind(), Kind::NotFound);
}

/// Accepts with the mailed token, as somebody who is called Real.
fn prove(fixture: &Fixture, made: &InvitationCreated) -> Result<SessionInfo> {
    let token = mailed_token(fixture.store.keys(), made.id);
    assert_ne!(token, made.token, "the inviter does not see it");
    let body = json!({"token": token, "name": "Real", "password": "real password"});
    hashing(&fixture.store, &Principal::Anonymous, prepare, accept, Fixture::input(body).unwrap())
}

/// Invites an address by mail.
fn mailed(fixture: &Fixture, who: &Principal, email: &str) -> InvitationCreated {
    let made = invite_as(fixture, who, email, Role::Admin).unwrap();
    assert!(made.mailed);
    made
}

fn person(fixture: &Fixture, email: &str) -> User {
    let email = Email::parse(email).unwrap();
    fixture.store.read_now(Id::NIL, |view| find_person(view, &email)).unwrap().unwrap()
}

#[test]
fn an_account_that_an_inviter_has_made_gives_way_to_who_reads_the_mail() {
    let fixture = Fixture::new();
    let (other, eve) = fixture.other_org("globex");
    let squatted = mailed(&fixture, &eve, "ceo@acme.test");
    let session = accept_as(&fixture, &Principal::Anonymous, &squatted.token).unwrap();
    let squatter = signed_in(&fixture.store, &session.token);
    let before = person(&fixture, "ceo@acme.test");
    assert_eq!(before.proof, AddressProof::Unproved);
    let made = move |tx: &mut Tx| {
        let name = Name::parse("key").unwrap();
        let settings = super::super::keys::KeySettings::full(&name, false);
        super::super::keys::create_key(tx, other, before.id, before.id, settings)
    };
    let (stored, key) = fixture.store.write_blocking(other, made).unwrap();
    let works = |raw: &RawCredential| {
        let authenticator = Authenticator::new(Tokens::new(fixture.store.keys()));
        fixture.store.read_now(Id::NIL, |view| authenticator.identify(view, raw)).is_ok()
    };
    let theirs = move |tx: &mut Tx| {
        tx.insert(&Invitation {
            id: tx.new_id(),
            org: other,
            email: Email::parse("accomplice@else.test").unwrap(),
            role: Role::Member,
            inviter: before.id,
            token: hash_of("theirs"),
            expires_at: tx.now().plus_secs(VALID_SECS),
            mail_base: None,
            mailed: None,
        })
    };
    fixture.store.write_blocking(other, theirs).unwrap();
    let is_open = || fixture.store.read_now(Id::NIL, |view| open(view, "theirs")).is_ok();
    assert!(is_open());
    let key = RawCredential::Key(crate::auth::key_hash(&key).unwrap());
    let token = RawCredential::Token(session.token);
    assert!(works(&key) && works(&token));

    // Only a mailed token is a proof: not the one that the inviter sees, whoever has the account.
    let invitation = mailed(&fixture, &fixture.owner, "ceo@acme.test");
    let refused = accept_as(&fixture, &Principal::Anonymous, &invitation.token).err().unwrap();
    assert_eq!(refused.kind(), Kind::Unauthenticated);
    drop(squatter);
    let joined = prove(&fixture, &invitation).unwrap();
    let after = person(&fixture, "ceo@acme.test");
    assert_eq!(
        (joined.user.id, &*after.name, after.proof),
        (before.id, "Real", AddressProof::Proved)
    );
    assert_eq!(membership(&fixture, after.id, fixture.org).unwrap().role, Role::Admin);
    assert!(!works(&key) && !works(&token), "what the inviter held is of no use");
    let explained = |view: &View| supposed_caller(view, &after, Some(&stored)).map(drop);
    let refused = fixture.store.read_now(other, explained).unwrap_err();
    assert_eq!(refused.kind(), Kind::Unauthenticated, "nor is it explained otherwise");
    assert!(!is_open(), "nor is what they have handed out");

    // An account that is proved gives way to nobody.
    let third = fixture.other_org("initech").1;
    let again = mailed(&fixture, &third, "ceo@acme.test");
    assert_eq!(prove(&fixture, &again).err().unwrap().kind(), Kind::Unauthenticated);
    fixture.assert_sound();
}

#[test]
fn who_accepts_a_mailed_invitation_first_has_proved_the_address() {
    let fixture = Fixture::new();
    let made = mailed(&fixture, &fixture.owner, "cy@acme.test");
    prove(&fixture, &made).unwrap();
    let cy = person(&fixture, "cy@acme.test");
    assert_eq!(cy.proof, AddressProof::Proved);
    // The organization that invited the address vouches for it, and no other.
    assert!(membership(&fixture, cy.id, fixture.org).unwrap().email_verified);
    let (globex, eve) = fixture.other_org("globex");
    let made = mailed(&fixture, &eve, "dan@acme.test");
    let session = accept_as(&fixture, &Principal::Anonymous, &made.token).unwrap();
    // In the session of the account, a mailed token proves it without ending anything.
    let made = mailed(&fixture, &fixture.owner, "dan@acme.test");
    let who = signed_in(&fixture.store, &session.token);
    accept_as(&fixture, &who, &mailed_token(fixture.store.keys(), made.id)).unwrap();
    let dan = person(&fixture, "dan@acme.test");
    assert_eq!(dan.proof, AddressProof::Proved);
    let is_vouched = |org| membership(&fixture, dan.id, org).unwrap().email_verified;
    assert!(is_vouched(fixture.org) && !is_vouched(globex));
    assert!(identity_of(&fixture.store, &session.token).is_ok());
}

#[test]
fn the_same_is_answered_whether_or_not_the_invited_address_has_an_account() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let answer = |email: &str, fields: serde_json::Value| {
        let made = invite_as(&fixture, &eve, email, Role::Member).unwrap();
        let mut body = json!({"token": made.token});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let input = Fixture::input(body).unwrap();
        let refused = hashing(&fixture.store, &Principal::Anonymous, prepare, accept, input);
        let refused = refused.err().unwrap();
        (refused.kind(), format!("{:?} {}", refused.issues(), refused.message()))
    };
    for fields in [json!({}), json!({"name": "Cy"}), json!({"password": "battery staple"})] {
        let (known, unknown) =
            (answer("ben@acme.test", fields.clone()), answer("nobody@acme.test", fields));
        assert_eq!(known, unknown);
        assert_eq!(known.0, Kind::Invalid);
    }
}

#[test]
fn an_address_is_mailed_three_invitations_an_hour_and_the_inviter_is_told() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let mails =
        |who: &Principal| invite_as(&fixture, who, "v@else.test", Role::Member).unwrap().mailed;
    let sent = [&fixture.owner, &eve, &eve, &eve, &fixture.owner].map(mails);
    assert_eq!(sent, [true, true, true, false, false]);
    fixture.pass_secs(3600);
    assert!(mails(&eve));
}
