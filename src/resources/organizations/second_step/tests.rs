//! The second step of signing in: challenges and codes.

use super::super::second_factor::tests::{Guarded, guarded};
use super::super::tests::{counting, identity_of};
use super::*;
use crate::api::Principal;
use crate::resources::testing::Fixture;
use crate::store::ListSource;

/// The challenge that a right password is answered with.
fn challenge(fixture: &Fixture, who: &Guarded) -> String {
    let user = who.user.clone();
    let ask = move |tx: &mut Tx| sign_in_challenge::challenged(tx, &user);
    let refused = fixture.store.write_blocking(Id::NIL, ask).unwrap();
    assert_eq!(refused.code(), "code_required");
    refused.continuation().unwrap().to_string()
}

fn complete(fixture: &Fixture, challenge: &str, code: &str) -> Result<SessionInfo> {
    let input = SignInCode { challenge: challenge.into(), code: code.into() };
    counting(&fixture.store, &Principal::Anonymous, prepare, sign_in, input)
}

fn refusal<T>(done: Result<T>) -> (Kind, &'static str) {
    let error = done.err().expect("it is refused");
    (error.kind(), error.code())
}

const WRONG: (Kind, &str) = (Kind::Forbidden, "wrong_code");
const ENDED: (Kind, &str) = (Kind::Unauthenticated, "challenge_ended");

#[test]
fn a_code_completes_a_sign_in_once() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    fixture.pass_secs(60);
    let (first, second) = (challenge(&fixture, &ada), challenge(&fixture, &ada));
    let code = ada.code(&fixture, 0);
    let begun = complete(&fixture, &first, &code).unwrap();
    assert_eq!(identity_of(&fixture.store, &begun.token).unwrap().user, ada.user.id);
    let next = ada.code(&fixture, 1);
    assert_eq!(refusal(complete(&fixture, &first, &next)), ENDED, "a challenge twice");
    assert_eq!(refusal(complete(&fixture, &second, &code)), WRONG, "a code twice");
    complete(&fixture, &second, &next).unwrap();
    // An earlier step than the last one.
    let third = challenge(&fixture, &ada);
    assert_eq!(refusal(complete(&fixture, &third, &ada.code(&fixture, -1))), WRONG);
    fixture.assert_sound();
}

#[test]
fn a_recovery_code_signs_in_once() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    for code in &ada.recovery_codes {
        complete(&fixture, &challenge(&fixture, &ada), code).unwrap();
        let again = complete(&fixture, &challenge(&fixture, &ada), code);
        assert_eq!(refusal(again), WRONG);
    }
}

#[test]
fn a_challenge_ends_with_its_fifth_wrong_code_and_after_five_minutes() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    fixture.pass_secs(60);
    let mistaken = challenge(&fixture, &ada);
    for wrong in ["000000", "", "aaaa-bbbb-cccc-dddd", "not a code", "1234567"] {
        assert_eq!(refusal(complete(&fixture, &mistaken, wrong)), WRONG, "{wrong}");
    }
    assert_eq!(refusal(complete(&fixture, &mistaken, &ada.code(&fixture, 0))), ENDED);
    let late = challenge(&fixture, &ada);
    fixture.pass_secs(5 * 60);
    assert_eq!(refusal(complete(&fixture, &late, &ada.code(&fixture, 0))), ENDED);
    assert_eq!(refusal(complete(&fixture, "nonsense", &ada.code(&fixture, 0))), ENDED);
}

#[test]
fn a_challenge_takes_no_code_of_another_person() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    let ben = guarded(&fixture, &fixture.member);
    fixture.pass_secs(60);
    let bens = challenge(&fixture, &ben);
    assert_eq!(refusal(complete(&fixture, &bens, &ada.code(&fixture, 0))), WRONG);
    assert_eq!(refusal(complete(&fixture, &bens, &ada.recovery_codes[0])), WRONG);
    let begun = complete(&fixture, &bens, &ben.code(&fixture, 0)).unwrap();
    assert_eq!(begun.user.id, ben.user.id);
}

#[test]
fn a_change_of_the_password_ends_challenges_and_an_eleventh_the_first() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    fixture.pass_secs(60);
    let all: Vec<_> = (0..11).map(|_| challenge(&fixture, &ada)).collect();
    let stored = |fixture: &Fixture| {
        let count = |view: &View| view.count::<SignInChallenge>(ListSource::TABLE, &(), 99);
        fixture.store.read_now(Id::NIL, count).unwrap()
    };
    assert_eq!(stored(&fixture), 10);
    let ended = all.iter().filter(|token| {
        let find = |view: &View| sign_in_challenge::find(view, token);
        fixture.store.read_now(Id::NIL, find).unwrap().is_none()
    });
    assert_eq!(ended.count(), 1);
    let user = ada.user.clone();
    let change = move |tx: &mut Tx| {
        let session_generation = user.session_generation + 1;
        tx.replace(&user, &User { session_generation, ..user.clone() })
    };
    fixture.store.write_blocking(Id::NIL, change).unwrap();
    assert_eq!(refusal(complete(&fixture, &all[10], &ada.code(&fixture, 0))), ENDED);
    fixture.pass_secs(5 * 60);
    let settings = crate::outbox::RetentionSettings::default();
    let sweep = move |tx: &mut Tx| super::super::delete_expired(tx, &settings);
    fixture.store.write_blocking(Id::NIL, sweep).unwrap();
    assert_eq!(stored(&fixture), 0);
}

#[test]
fn attempts_count_as_those_with_a_password() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    let token = challenge(&fixture, &ada);
    let attempt = |challenge: &str| {
        let input = SignInCode { challenge: challenge.into(), code: String::new() };
        let parts = crate::resources::testing::args((), input);
        let plan = |view: &View| prepare(view, &Req::new(&parts, &Principal::Anonymous));
        fixture.store.read_now(Id::NIL, plan).unwrap().attempt.unwrap()
    };
    // The session that turned it on has made the address known.
    assert_eq!(attempt(&token), Attempt::Email(ada.user.email.clone(), true));
    assert_eq!(attempt("nonsense"), Attempt::Address);
}
