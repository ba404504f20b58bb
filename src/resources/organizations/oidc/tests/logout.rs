//! How long sessions of a provider last, and providers that end them.

use super::*;
use crate::auth::SESSION_SECS;
use crate::auth::oidc::Discovery;
use crate::resources::organizations::oidc::calls;
use crate::resources::organizations::oidc::logout::{EndedSessions, ProviderLogout, end};

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Has the provider say that somebody has signed out.
fn log_out(world: &World, jti: &str, claims: Value) -> Result<EndedSessions> {
    let body = json!({"provider": "kc", "logoutToken": logout_token(world, jti, claims)});
    world.run::<ProviderLogout, _>(end, body)
}

fn logout_token(world: &World, jti: &str, claims: Value) -> String {
    let now = world.fixture.store.clock().now().secs();
    let mut all = json!({"iss": ISSUER, "aud": "roadstead", "iat": now, "exp": now + 120, "jti": jti,
        "events": {EVENT: {}}});
    all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
    let provider = world.provider.lock().unwrap();
    token(&provider.key, json!({"alg": provider.key.alg(), "kid": provider.kid}), &all)
}

#[test]
fn who_signs_out_there_is_signed_out_here() {
    let world = World::new();
    let begin = |sid: Value| {
        let claims = json!({"email": "ben@acme.test", "sid": sid});
        token_of(&world.sign_in(claims).unwrap())
    };
    let is_valid = |token: &String| identity_of(&world.fixture.store, token).is_ok();
    let sessions = [begin(json!("d-1")), begin(json!("d-2")), begin(Value::Null)];
    let valid = || sessions.iter().map(is_valid).collect::<Vec<_>>();
    // Another person, another session, and another kind of token.
    assert_eq!(log_out(&world, "1", json!({"sub": "s-2"})).unwrap().ended, 0);
    assert_eq!(log_out(&world, "2", json!({"sid": "d-9"})).unwrap().ended, 0);
    let nonce = log_out(&world, "3", json!({"sub": "s-1", "nonce": "n"}));
    assert_eq!(refusal(nonce).0, Kind::Invalid);
    assert_eq!(valid(), [true; 3]);
    assert_eq!(log_out(&world, "4", json!({"sid": "d-1"})).unwrap().ended, 1);
    assert_eq!(valid(), [false, true, true]);
    // Of which session there the last one is, is not known.
    assert_eq!(log_out(&world, "5", json!({"sub": "s-1", "sid": "d-9"})).unwrap().ended, 1);
    assert_eq!(valid(), [false, true, false]);
    assert_eq!(log_out(&world, "6", json!({"sub": "s-1"})).unwrap().ended, 1);
    assert_eq!(valid(), [false; 3]);
    world.fixture.assert_sound();
}

#[test]
fn a_logout_token_is_of_use_once_and_of_its_provider() {
    let world = World::new();
    let ben = json!({"email": "ben@acme.test"});
    world.sign_in(ben.clone()).unwrap();
    assert_eq!(log_out(&world, "1", json!({"sub": "s-1"})).unwrap().ended, 1);
    let again = token_of(&world.sign_in(ben).unwrap());
    assert_eq!(refusal(log_out(&world, "1", json!({"sub": "s-1"}))).0, Kind::Invalid);
    let old = logout_token(&world, "2", json!({"sub": "s-1"}));
    world.fixture.pass_secs(300);
    let old = json!({"provider": "kc", "logoutToken": old});
    assert_eq!(refusal(world.run::<ProviderLogout, _>(end, old)).0, Kind::Invalid);
    for wrong in [json!({"iss": "https://evil.test"}), json!({"aud": "another"})] {
        let mut claims = wrong.clone();
        claims["sub"] = json!("s-1");
        assert_eq!(refusal(log_out(&world, "3", claims)).0, Kind::Invalid, "{wrong}");
    }
    let unknown = json!({"provider": "other", "logoutToken": "x"});
    assert_eq!(refusal(world.run::<ProviderLogout, _>(end, unknown)).0, Kind::NotFound);
    let none = json!({"provider": "kc", "logoutToken": "x"});
    assert_eq!(refusal(world.run::<ProviderLogout, _>(end, none)).0, Kind::Invalid);
    assert!(identity_of(&world.fixture.store, &again).is_ok());
}

#[test]
fn keys_that_cannot_be_read_are_asked_for_again_after_ten_seconds() {
    let world = World::new();
    world.provider.lock().unwrap().discovery = json!({"jwks_uri": "https://id.test/none"});
    let asked = || {
        let provider = world.provider.lock().unwrap();
        provider.asked.iter().filter(|asked| *asked == "/none").count()
    };
    for jti in ["1", "2", "3"] {
        let refused = refusal(log_out(&world, jti, json!({"sub": "s-1"})));
        assert_eq!(refused, (Kind::Upstream, "sign_in_provider_failed"));
    }
    assert_eq!(asked(), 1);
    world.fixture.pass_secs(10);
    assert_eq!(refusal(log_out(&world, "4", json!({"sub": "s-1"}))).0, Kind::Upstream);
    assert_eq!(asked(), 2);
}

#[test]
fn a_session_of_a_provider_lasts_as_long_as_the_operator_says() {
    let world = World::new();
    let ben = token_of(&world.sign_in(json!({"email": "ben@acme.test"})).unwrap());
    let user = world.person("ben@acme.test").unwrap();
    let other = session(&world.fixture.store, &user);
    let is_valid = |token: &String| identity_of(&world.fixture.store, token).is_ok();
    const { assert!(SESSION_HOURS * 3600 < SESSION_SECS) };
    world.fixture.pass_secs(SESSION_HOURS * 3600 - 1);
    assert!(is_valid(&ben) && is_valid(&other));
    world.fixture.pass_secs(1);
    assert!(!is_valid(&ben) && is_valid(&other));
}

#[test]
fn keys_that_this_request_was_told_count_although_another_one_has_just_failed() {
    let world = World::new();
    let (oidc, now) = (&world.server.oidc, NOON);
    let provider = oidc.provider("kc").unwrap();
    let document = world.provider.lock().unwrap().document().to_string();
    let discovery = Discovery::parse(document.as_bytes(), ISSUER).unwrap();
    let ask = |calls: &mut Calls| {
        calls::keys(oidc, (provider, &discovery), Some("k"), now, calls).map(|keys| keys.is_some())
    };
    let mut first = Calls::default();
    assert!(!ask(&mut first).unwrap());
    let asked = first.asked()[0].clone();
    oidc.keep_failure("kc", now, Error::internal("it does not answer"));
    assert!(ask(&mut Calls::default()).is_err(), "nobody asks again at once");
    let mut again = Calls::default();
    let answer = Ok(world.provider.lock().unwrap().answer(&asked));
    again.hear(&asked, CallResult { answer, took: Duration::ZERO });
    assert!(ask(&mut again).unwrap());
}
