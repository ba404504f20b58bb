//! The second factor of a person: turning it on and off, and what is wrong with codes.

use super::super::tests::{
    PASSWORD, counting, hashing, identity_of, session, signed_in, with_password,
};
use super::*;
use crate::auth::{RequiredProvider, totp};
use crate::base::Kind;
use crate::resources::testing::Fixture;

/// A person with a second factor.
pub struct Guarded {
    pub user: User,
    /// The secret of the app.
    pub secret: Vec<u8>,
    pub recovery_codes: Vec<String>,
    /// The token of the session that turned it on.
    pub token: String,
}

impl Guarded {
    /// The code that the app shows so many steps from now.
    pub fn code(&self, fixture: &Fixture, steps: i64) -> String {
        code_of(fixture, &self.secret, steps)
    }
}

fn code_of(fixture: &Fixture, secret: &[u8], steps: i64) -> String {
    let step = u64::try_from(fixture.store.clock().now().secs() / 30 + steps).unwrap();
    format!("{:06}", totp::code_at(secret, step))
}

fn begun(fixture: &Fixture, token: &str, password: &str) -> Result<SecondFactorBegun> {
    let who = signed_in(&fixture.store, token);
    let input = BeginSecondFactor { password: password.into() };
    hashing(&fixture.store, &who, prepare_begin, begin, input)
}

fn confirmed(fixture: &Fixture, token: &str, code: &str) -> Result<SecondFactorOn> {
    let who = signed_in(&fixture.store, token);
    let input = ConfirmSecondFactor { code: code.into() };
    counting(&fixture.store, &who, prepare_confirm, confirm, input)
}

fn ended(fixture: &Fixture, token: &str, password: &str, code: &str) -> Result<Empty> {
    let who = signed_in(&fixture.store, token);
    let input = EndSecondFactor { password: password.into(), code: code.into() };
    counting(&fixture.store, &who, prepare_end, end, input)
}

fn shown(fixture: &Fixture, token: &str) -> SecondFactorInfo {
    fixture.read_as(&signed_in(&fixture.store, token), get, (), ()).unwrap()
}

/// Turns the second factor of a user on, whose password it sets.
pub fn guarded(fixture: &Fixture, who: &crate::api::Principal) -> Guarded {
    let user = with_password(fixture, who);
    let token = session(&fixture.store, &user);
    let secret = begun(fixture, &token, PASSWORD).unwrap().secret;
    let secret = totp::from_base32(&secret).unwrap();
    let code = code_of(fixture, &secret, 0);
    let recovery_codes = confirmed(fixture, &token, &code).unwrap().recovery_codes;
    let user = fixture.store.read_now(Id::NIL, |view| view.fetch(&user.id)).unwrap();
    Guarded { user, secret, recovery_codes, token }
}

fn refusal<T>(done: Result<T>) -> (Kind, &'static str) {
    let error = done.err().expect("it is refused");
    (error.kind(), error.code())
}

const WRONG: (Kind, &str) = (Kind::Forbidden, "wrong_code");

#[test]
fn it_is_on_once_a_code_confirms_it_and_ends_other_sessions_then() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let [token, other] = [(); 2].map(|()| session(&fixture.store, &ada));
    let wrong = refusal(begun(&fixture, &token, "wrong horse"));
    assert_eq!(wrong, (Kind::Forbidden, "wrong_password"));
    let none = refusal(confirmed(&fixture, &token, "123456"));
    assert_eq!(none, (Kind::Conflict, "second_factor_not_begun"));

    let first = begun(&fixture, &token, PASSWORD).unwrap();
    let new = begun(&fixture, &token, PASSWORD).unwrap();
    assert_ne!(first.secret, new.secret);
    assert!(new.otpauth_uri.contains(&format!("secret={}&issuer=", new.secret)));
    assert!(new.qr_svg.starts_with("<svg "));
    let secret = totp::from_base32(&new.secret).unwrap();
    assert_eq!(refusal(confirmed(&fixture, &token, &code_of(&fixture, &secret, 5))), WRONG);
    assert_eq!(refusal(confirmed(&fixture, &token, "aaaa-bbbb-cccc-dddd")), WRONG);
    assert!(shown(&fixture, &token).on_since.is_none());
    assert!(identity_of(&fixture.store, &other).is_ok());

    let codes = confirmed(&fixture, &token, &code_of(&fixture, &secret, 0)).unwrap().recovery_codes;
    let distinct: std::collections::BTreeSet<_> = codes.iter().collect();
    assert!(distinct.len() == 10 && codes.iter().all(|code| code.len() == 19), "{codes:?}");
    let info = shown(&fixture, &token);
    assert!(info.on_since.is_some() && info.recovery_codes_left == 10);
    assert!(identity_of(&fixture.store, &other).is_err());
    let again = refusal(begun(&fixture, &token, PASSWORD));
    assert_eq!(again, (Kind::Conflict, "second_factor_exists"));
    fixture.assert_sound();
}

#[test]
fn a_secret_is_confirmed_within_a_quarter_of_an_hour() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let token = session(&fixture.store, &ada);
    let secret = totp::from_base32(&begun(&fixture, &token, PASSWORD).unwrap().secret).unwrap();
    fixture.pass_secs(15 * 60);
    let late = refusal(confirmed(&fixture, &token, &code_of(&fixture, &secret, 0)));
    assert_eq!(late, (Kind::Conflict, "second_factor_not_begun"));
}

#[test]
fn password_and_code_turn_it_off() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    fixture.pass_secs(30);
    let code = ada.code(&fixture, 0);
    let wrong = refusal(ended(&fixture, &ada.token, "wrong horse", &code));
    assert_eq!(wrong, (Kind::Forbidden, "wrong_password"));
    assert_eq!(refusal(ended(&fixture, &ada.token, PASSWORD, "000000")), WRONG);
    // The one that confirmed it.
    assert_eq!(refusal(ended(&fixture, &ada.token, PASSWORD, &ada.code(&fixture, -1))), WRONG);
    ended(&fixture, &ada.token, PASSWORD, &code).unwrap();
    assert!(shown(&fixture, &ada.token).on_since.is_none());
    let off = refusal(ended(&fixture, &ada.token, PASSWORD, &code));
    assert_eq!(off, (Kind::Conflict, "second_factor_off"));

    let ben = guarded(&fixture, &fixture.member);
    // However it is typed.
    let code = ben.recovery_codes[3].to_uppercase().replace('-', " ");
    ended(&fixture, &ben.token, PASSWORD, &code).unwrap();
    fixture.assert_sound();
}

#[test]
fn after_twenty_wrong_codes_in_an_hour_recovery_codes_alone_are_read() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    fixture.pass_secs(60);
    for _ in 0..20 {
        let wrong = ada.code(&fixture, 7);
        assert_eq!(refusal(ended(&fixture, &ada.token, PASSWORD, &wrong)), WRONG);
    }
    let right = ended(&fixture, &ada.token, PASSWORD, &ada.code(&fixture, 0)).err().unwrap();
    assert_eq!((right.kind(), right.code()), (Kind::Limited, "rate_limited"));
    let wait = right.retry_after_secs().unwrap();
    assert!((3590..=3601).contains(&wait), "{wait}");
    assert_eq!(refusal(ended(&fixture, &ada.token, PASSWORD, "aaaa-bbbb-cccc-dddd")), WRONG);
    fixture.pass_secs(i64::from(wait));
    ended(&fixture, &ada.token, PASSWORD, &ada.code(&fixture, 0)).unwrap();
}

#[test]
fn a_rotation_of_the_key_seals_the_secret_again() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    fixture.pass_secs(60);
    let (tables, next) = (crate::resources::tables(), crate::base::MasterKey::new([0xEE; 32]));
    let mut rotation = crate::store::Rotation::begin(&fixture.store, &tables, &next).unwrap();
    let mut resealed = 0;
    while let Some(progress) = rotation.step().unwrap() {
        resealed = progress.resealed;
    }
    rotation.end();
    assert!(resealed > 0);
    let token = session(&fixture.store, &ada.user);
    ended(&fixture, &token, PASSWORD, &ada.code(&fixture, 0)).unwrap();
}

#[test]
fn who_proves_the_address_of_an_account_is_not_asked_for_what_others_set_up() {
    use super::super::accounts::set_password;
    use crate::auth::AddressProof;
    for (proof, stays) in [(AddressProof::Unproved, false), (AddressProof::Proved, true)] {
        let fixture = Fixture::new();
        let user = guarded(&fixture, &fixture.owner).user;
        let is_on = fixture.store.write_blocking(Id::NIL, move |tx| {
            let before = User { proof, ..user.clone() };
            tx.replace(&user, &before)?;
            set_password(tx, &before, Some("another".into()), true)?;
            Ok(second_factor_of(&tx.view(), user.id)?.is_some())
        });
        assert_eq!(is_on.unwrap(), stays, "{proof:?}");
        fixture.assert_sound();
    }
}

#[test]
fn the_owner_who_is_let_in_with_a_password_keeps_it() {
    let fixture = Fixture::new();
    let ada = guarded(&fixture, &fixture.owner);
    let (org, break_glass) = (fixture.org, ada.user.id);
    let require = move |tx: &mut Tx| {
        let (providers, required_at) = (vec!["kc".into()], tx.now());
        tx.insert(&RequiredProvider { org, break_glass, providers, required_at })
    };
    fixture.store.write_blocking(org, require).unwrap();
    fixture.pass_secs(60);
    let refused = refusal(ended(&fixture, &ada.token, PASSWORD, &ada.code(&fixture, 0)));
    assert_eq!(refused, (Kind::Conflict, "is_break_glass_owner"));
    assert!(shown(&fixture, &ada.token).on_since.is_some());
}

#[test]
fn who_has_no_recovery_codes_yet_is_told_of_none() {
    let fixture = Fixture::new();
    let ada = with_password(&fixture, &fixture.owner);
    let token = session(&fixture.store, &ada);
    begun(&fixture, &token, PASSWORD).unwrap();
    for wrong in ["000000", "no code"] {
        let refused = confirmed(&fixture, &token, wrong).err().unwrap();
        assert_eq!(refused.code(), "wrong_code");
        assert!(!refused.message().contains("recovery"), "{}", refused.message());
    }
    let ben = guarded(&fixture, &fixture.member);
    let refused = ended(&fixture, &ben.token, PASSWORD, "000000").err().unwrap();
    assert!(refused.message().contains("recovery"), "{}", refused.message());
}

#[test]
fn an_app_keeps_the_secret_under_the_host_without_its_port() {
    for (link_base, name) in [
        ("https://agents.test", "agents.test"),
        ("https://agents.test:8443", "agents.test"),
        ("http://127.0.0.1:7420", "127.0.0.1"),
        ("http://[::1]:7420", "Roadstead"),
        ("https://[2001:db8::1]", "Roadstead"),
        ("", "Roadstead"),
    ] {
        assert_eq!(issuer(link_base), name, "{link_base}");
    }
}
