//! A command line that is let in by a browser: how long it may wait, by whom, and what it gets.

use super::super::device_request::{MAX_OF_ADDRESS, VALID_SECS};
use super::super::tests::{counting, identity_of, session, signed_in, with_password};
use super::*;
use crate::api::Principal;
use crate::auth::{PROOF_REQUIRED, SESSION_SECS};
use crate::base::Kind;
use crate::resources::testing::Fixture;
use crate::store::ListSource;

fn begun(fixture: &Fixture) -> Result<DeviceSignInBegun> {
    let input = NewDeviceSignIn { client: Name::parse("roadstead on a laptop").unwrap() };
    fixture.write_as(&Principal::Anonymous, begin, (), input)
}

fn polled(
    fixture: &Fixture,
    begun: &DeviceSignInBegun,
) -> std::result::Result<String, &'static str> {
    let input = DeviceSignInPoll { device_code: Text::parse(begun.device_code.clone()).unwrap() };
    let done = counting(&fixture.store, &Principal::Anonymous, prepare, finish, input);
    done.map(|session| session.token).map_err(|error| error.code())
}

fn code(begun: &DeviceSignInBegun) -> String {
    begun.user_code.to_lowercase()
}

#[test]
fn a_command_line_gets_a_session_of_who_lets_it_in_and_once() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let who = signed_in(&fixture.store, &session(&fixture.store, &ada));
    let asked = begun(&fixture).unwrap();
    assert_eq!(asked.verification_uri, "http://127.0.0.1:7420/device");
    assert_eq!(polled(&fixture, &asked).err(), Some("authorization_pending"));
    let shown = fixture.write_as(&who, preview, code(&asked), ()).unwrap();
    assert_eq!((&*shown.client, &*shown.address), ("roadstead on a laptop", "127.0.0.1"));
    fixture.pass_secs(60);
    fixture.write_as(&who, approve, code(&asked), ()).unwrap();
    for again in [approve, deny] {
        let refused = fixture.write_as(&who, again, code(&asked), ()).err().unwrap();
        assert_eq!(refused.kind(), Kind::NotFound);
    }
    let token = polled(&fixture, &asked).unwrap();
    assert_eq!(polled(&fixture, &asked).err(), Some("expired_token"));
    let identity = identity_of(&fixture.store, &token).unwrap();
    assert_eq!(identity.user, ada.id);
    // The proof of who let it in is not its own, and it lets in no other.
    assert_eq!(identity.proved_at, Some(NEVER));
    let now = fixture.store.clock().now();
    assert_eq!(identity.require_recent_proof(now).err().map(|e| e.code()), Some(PROOF_REQUIRED));
    let other = begun(&fixture).unwrap();
    let line = signed_in(&fixture.store, &token);
    let refused = fixture.write_as(&line, approve, code(&other), ()).err().unwrap();
    assert_eq!(refused.code(), "browser_required");
    let id = require_session(&identity);
    let kept = fixture.store.read_now(Id::NIL, |view| view.fetch::<DeviceSession>(&id)).unwrap();
    assert_eq!(kept.client.as_str(), "roadstead on a laptop");
    fixture.assert_sound();
}

#[test]
fn who_asks_too_often_is_told_to_slow_down_which_writes_nothing() {
    let fixture = Fixture::new();
    let asked = begun(&fixture).unwrap();
    let poll = |secs| {
        fixture.pass_secs(secs);
        polled(&fixture, &asked).err().unwrap()
    };
    assert_eq!(poll(0), "authorization_pending");
    assert_eq!(poll(5), "authorization_pending");
    assert_eq!(poll(4), "slow_down");
    assert_eq!(poll(1), "authorization_pending", "the one too early was not noted");
}

#[test]
fn a_command_line_is_signed_in_no_longer_than_who_lets_it_in() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let who = signed_in(&fixture.store, &session(&fixture.store, &ada));
    let Principal::Identity(by) = &who else { panic!("no session") };
    let id = require_session(by);
    let session = fixture.store.read_now(Id::NIL, |view| view.fetch::<Session>(&id)).unwrap();
    fixture.pass_secs(SESSION_SECS - 60);
    let (early, late) = (begun(&fixture).unwrap(), begun(&fixture).unwrap());
    for asked in [&early, &late] {
        fixture.write_as(&who, approve, code(asked), ()).unwrap();
    }
    let made =
        require_session(&identity_of(&fixture.store, &polled(&fixture, &early).unwrap()).unwrap());
    let made = fixture.store.read_now(Id::NIL, |view| view.fetch::<Session>(&made)).unwrap();
    assert_eq!((made.user, made.expires_at), (by.user, session.expires_at));
    fixture.pass_secs(60);
    assert_eq!(polled(&fixture, &late).err(), Some("expired_token"));
}

#[test]
fn what_was_let_in_with_a_provider_and_not_begun_goes_with_the_provider() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let token = session(&fixture.store, &ada);
    let id = require_session(&identity_of(&fixture.store, &token).unwrap());
    let (provider, subject, sid) = ("kc".into(), None, None);
    let noted = ProviderSession { session: id, provider, subject, sid };
    let note = move |tx: &mut Tx| tx.insert(&noted);
    fixture.store.write_blocking(Id::NIL, note).unwrap();
    let asked = begun(&fixture).unwrap();
    fixture.write_as(&signed_in(&fixture.store, &token), approve, code(&asked), ()).unwrap();
    for provider in ["other", "kc"] {
        let remove = move |tx: &mut Tx| {
            device_request::remove_of_provider(tx, ada.id, |name, _| name == provider)
        };
        let left = |view: &View| view.count::<DeviceRequest>(ListSource::TABLE, &(), 9);
        fixture.store.write_blocking(Id::NIL, remove).unwrap();
        let expected = usize::from(provider == "other");
        assert_eq!(fixture.store.read_now(Id::NIL, left).unwrap(), expected);
    }
    assert_eq!(polled(&fixture, &asked).err(), Some("expired_token"));
}

#[test]
fn a_request_ends_when_it_is_denied_and_after_ten_minutes() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let who = signed_in(&fixture.store, &session(&fixture.store, &ada));
    let denied = begun(&fixture).unwrap();
    fixture.write_as(&who, deny, code(&denied), ()).unwrap();
    assert_eq!(polled(&fixture, &denied).err(), Some("access_denied"));
    assert!(fixture.write_as(&who, approve, code(&denied), ()).is_err());
    let late = begun(&fixture).unwrap();
    fixture.pass_secs(VALID_SECS);
    assert_eq!(polled(&fixture, &late).err(), Some("expired_token"));
    assert!(fixture.write_as(&who, approve, code(&late), ()).is_err());
    let unknown = DeviceSignInBegun { device_code: "x".into(), ..late };
    assert_eq!(polled(&fixture, &unknown).err(), Some("expired_token"));
}

#[test]
fn what_ends_all_sessions_of_a_person_ends_what_they_let_in() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let who = signed_in(&fixture.store, &session(&fixture.store, &ada));
    let (early, late) = (begun(&fixture).unwrap(), begun(&fixture).unwrap());
    for asked in [&early, &late] {
        fixture.write_as(&who, approve, code(asked), ()).unwrap();
    }
    let token = polled(&fixture, &early).unwrap();
    let id = ada.id;
    let end_all = move |tx: &mut Tx| {
        let old: User = tx.fetch(&id)?;
        let session_generation = old.session_generation + 1;
        tx.replace(&old, &User { session_generation, ..old.clone() })
    };
    fixture.store.write_blocking(Id::NIL, end_all).unwrap();
    assert!(identity_of(&fixture.store, &token).is_err());
    assert_eq!(polled(&fixture, &late).err(), Some("expired_token"));
}

#[test]
fn a_session_of_a_provider_lets_in_one_of_the_same_provider() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let token = session(&fixture.store, &ada);
    let id = require_session(&identity_of(&fixture.store, &token).unwrap());
    let (subject, sid) = (Some([7; 32]), Some([8; 32]));
    let noted = ProviderSession { session: id, provider: "kc".into(), subject, sid };
    let note = move |tx: &mut Tx| tx.insert(&noted);
    fixture.store.write_blocking(Id::NIL, note).unwrap();
    let asked = begun(&fixture).unwrap();
    fixture.write_as(&signed_in(&fixture.store, &token), approve, code(&asked), ()).unwrap();
    let made =
        require_session(&identity_of(&fixture.store, &polled(&fixture, &asked).unwrap()).unwrap());
    let of = fixture.store.read_now(Id::NIL, |view| view.fetch::<ProviderSession>(&made)).unwrap();
    // By which the provider ends it, too.
    assert_eq!((of.provider.as_str(), of.subject, of.sid), ("kc", subject, sid));
}

#[test]
fn what_was_let_in_with_a_provider_and_not_begun_ends_with_the_session() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    for provider in [None, Some("kc")] {
        let token = session(&fixture.store, &ada);
        let id = require_session(&identity_of(&fixture.store, &token).unwrap());
        if let Some(name) = provider {
            let provider = name.to_string();
            let begun = ProviderSession { session: id, provider, subject: None, sid: None };
            fixture.store.write_blocking(Id::NIL, move |tx| tx.insert(&begun)).unwrap();
        }
        let asked = begun(&fixture).unwrap();
        fixture.write_as(&signed_in(&fixture.store, &token), approve, code(&asked), ()).unwrap();
        // As when the provider says that they have signed out.
        let end = move |tx: &mut Tx| {
            let ended: Session = tx.fetch(&id)?;
            tx.remove(&ended)
        };
        fixture.store.write_blocking(Id::NIL, end).unwrap();
        let refused = polled(&fixture, &asked).err();
        assert_eq!(refused, provider.map(|_| "expired_token"));
    }
    fixture.assert_sound();
}

#[test]
fn an_address_has_a_bounded_number_of_open_requests_and_room_again_when_they_end() {
    let fixture = Fixture::new();
    let all: Vec<_> = (0..MAX_OF_ADDRESS).map(|_| begun(&fixture).unwrap().user_code).collect();
    let mut different = all.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), MAX_OF_ADDRESS);
    assert_eq!(begun(&fixture).err().unwrap().kind(), Kind::Limited);
    fixture.pass_secs(VALID_SECS);
    assert!(begun(&fixture).is_ok());
    fixture.assert_sound();
}
