//! What an answer of a provider proves, and that it is of use once.

use super::joining::{invite, spend};
use super::*;
use crate::auth::{NEVER, PROOF_REQUIRED};
use crate::base::Time;

const BEN: &str = "ben@acme.test";

/// Ben signs in, who proved to the provider at this time who he is; returns when he counts as having done so.
fn proved_at(world: &World, auth_time: Value) -> Option<Time> {
    let finished = world.sign_in(json!({"email": BEN, "auth_time": auth_time})).unwrap();
    identity_of(&world.fixture.store, &token_of(&finished)).unwrap().proved_at
}

#[test]
fn a_session_is_proved_when_the_provider_says_that_the_person_signed_in_there() {
    let world = World::new();
    let now = NOON.secs();
    for (auth_time, expected) in [
        (json!(now - 3600), NOON.minus_secs(3600)),
        (json!(now as f64 - 0.5), NOON.minus_secs(1)),
        (json!(now), NOON),
        // Of a clock that is ahead, and of one that is wrong, or not of one.
        (json!(now + 60), NOON),
        (json!(now + 61), NEVER),
        (json!(now * 1000), NEVER),
        (json!(1e300), NEVER),
        (json!(-1e300), NEVER),
        (json!(0), NEVER),
        // It does not say so.
        (Value::Null, NOON),
        // It does, but in no way that can be read.
        (json!("yesterday"), NEVER),
        (json!(""), NEVER),
        (json!(true), NEVER),
        (json!((now - 3600).to_string()), NOON.minus_secs(3600)),
    ] {
        assert_eq!(proved_at(&world, auth_time.clone()), Some(expected), "{auth_time}");
    }
    world.fixture.assert_sound();
}

#[test]
fn a_proof_is_as_old_as_the_older_of_both_clocks_says() {
    let world = World::new();
    let now = NOON.secs();
    for (clock, age, expected) in [(-250, 0, 250), (-250, 900, 1150), (60, 0, 0), (60, 900, 900)] {
        let iat = now + clock;
        let claims = json!({"email": BEN, "iat": iat, "exp": iat + 300, "auth_time": iat - age});
        let token = token_of(&world.sign_in(claims).unwrap());
        let proved_at = identity_of(&world.fixture.store, &token).unwrap().proved_at;
        assert_eq!(proved_at, Some(NOON.minus_secs(expected)), "{clock}");
    }
    // Some write an `iat` of five minutes before, and the time of the proof as it was.
    let early = json!({"email": BEN, "iat": now - 300, "exp": now + 300, "auth_time": now - 200});
    let token = token_of(&world.sign_in(early).unwrap());
    let proved_at = identity_of(&world.fixture.store, &token).unwrap().proved_at;
    assert_eq!(proved_at, Some(NOON.minus_secs(200)));
    // Nor is who was let through taken for somebody who has signed in again, whichever clock is ahead.
    for (clock, age, expected) in
        [(-250, 0, false), (-50, 0, true), (-250, 61, false), (60, 0, true), (60, 61, false)]
    {
        let iat = now + clock;
        world.says(json!({"email": BEN, "iat": iat, "exp": iat + 300, "auth_time": iat - age}));
        let begun = world.begin(json!({"provider": "kc", "again": true}));
        let answer = json!({"state": world.state(), "code": "good"});
        let finished = world.finish(&begun.attempt, answer);
        assert_eq!(finished.is_ok(), expected, "{clock} {age}");
    }
}

#[test]
fn who_is_let_through_by_an_open_browser_is_asked_again_who_they_are() {
    let world = World::new();
    let asked = |auth_time: i64| {
        let finished = world.sign_in(json!({"email": BEN, "auth_time": auth_time})).unwrap();
        let identity = identity_of(&world.fixture.store, &token_of(&finished)).unwrap();
        identity.require_recent_proof(NOON).err().map(|error| error.code())
    };
    assert_eq!(asked(NOON.secs() - 900), Some(PROOF_REQUIRED));
    assert_eq!(asked(NOON.secs() - 600), None);
}

#[test]
fn every_sign_in_has_a_max_age_with_which_a_provider_says_when_that_was() {
    let world = World::new();
    for (again, max_age) in
        [(json!(true), "0"), (json!(false), "31536000"), (Value::Null, "31536000")]
    {
        world.begin(json!({"provider": "kc", "again": again}));
        let sent = world.provider.lock().unwrap().begun["max_age"].clone();
        assert_eq!(sent, max_age, "{again}");
    }
}

#[test]
fn who_was_to_sign_in_again_and_was_let_through_is_refused_once_and_for_all() {
    let world = World::new();
    let answer = |auth_time: Value| {
        world.says(json!({"email": BEN, "auth_time": auth_time}));
        let begun = world.begin(json!({"provider": "kc", "again": true}));
        world.fixture.pass_secs(30);
        let answer = json!({"state": world.state(), "code": "good"});
        let first = world.finish(&begun.attempt, answer.clone());
        (first, refusal(world.finish(&begun.attempt, answer)).1)
    };
    let now = || world.fixture.store.clock().now().secs();
    for age in [61, 3600] {
        let (first, second) = answer(json!(now() - age));
        assert_eq!(refusal(first), (Kind::Forbidden, "sign_in_refused"), "{age}");
        assert_eq!(second, "sign_in_expired");
    }
    for nothing in [json!("yesterday"), json!((now() + 3600).to_string())] {
        let (first, _) = answer(nothing.clone());
        assert_eq!(refusal(first), (Kind::Forbidden, "sign_in_refused"), "{nothing}");
    }
    // There is a minute of leeway; and one that says nothing is believed.
    for auth_time in [json!(now() - 60), json!(now() + 60), json!(now() + 130), Value::Null] {
        let (first, _) = answer(auth_time.clone());
        assert!(first.unwrap().session.is_some(), "{auth_time}");
    }
    // Who was not to sign in again is let in, and counts as having done so then.
    let then = now() - 3600;
    assert_eq!(proved_at(&world, json!(then)), Some(Time::from_millis(then * 1000)));
    world.fixture.assert_sound();
}

#[test]
fn an_answer_by_which_nobody_is_let_in_is_of_use_once() {
    let unverified = json!({"email_verified": false});
    for (claims, may_come, expected) in [
        (unverified, false, (Kind::Forbidden, "address_not_verified")),
        (json!({}), false, (Kind::Forbidden, "not_invited")),
        (json!({}), true, (Kind::Limited, "too_many_accounts")),
    ] {
        let world = World::new();
        if may_come {
            invite(&world, &world.fixture.owner, "grace@acme.test");
            spend(&world, &world.fixture.owner);
        }
        world.says(claims);
        let begun = world.begin(json!({"provider": "kc"}));
        let answer = json!({"state": world.state(), "code": "good"});
        let asked = || world.provider.lock().unwrap().asked.len();
        assert_eq!(refusal(world.finish(&begun.attempt, answer.clone())), expected);
        let before = asked();
        let again = refusal(world.finish(&begun.attempt, answer));
        assert_eq!(again, (Kind::Conflict, "sign_in_expired"), "{expected:?}");
        assert_eq!(asked(), before, "the provider is not asked again");
        assert!(world.person("grace@acme.test").is_none());
        world.fixture.assert_sound();
    }
}
