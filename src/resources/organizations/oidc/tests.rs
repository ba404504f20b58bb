//! Sign-ins with a provider of the test's own, which may be hostile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use super::records::UsedAttempt;
use super::sign_in::{BegunSignIn, NewSignIn, ProviderAnswer, begin, finish};
use super::{links, person::Finished, settings};
use crate::api::{Calls, Outcome, Principal, Req, ServerInfo};
use crate::auth::oidc::testing::{Key, token};
use crate::auth::oidc::{Oidc, OidcProvider};
use crate::auth::{
    AddressProof, Authenticator, Membership, ProviderSession, RawCredential, Role,
    SecondFactorRule, Tokens, User, find_person,
};
use crate::base::{Email, Error, Id, Keys, Kind, Result};
use crate::outbox::{Effect, Job, Prepared};
use crate::outside::{Call, CallResult, Response};
use crate::resources::organizations::invitation::Invitation;
use crate::resources::organizations::second_factor::tests::guarded;
use crate::resources::organizations::sessions::require_session;
use crate::resources::organizations::sign_in_link::SignInLink;
use crate::resources::organizations::tests::{
    PASSWORD, counting, identity_of, session, signed_in, with_password,
};
use crate::resources::organizations::{accounts, invited_accounts};
use crate::resources::testing::{Fixture, NOON, args, user};
use crate::store::{ListSource, Tx};

mod answers;
mod domain_grants;
mod foreign_provider;
mod intruded;
mod joining;
mod leaving;
mod linking;
mod members;
mod logout;
mod requiring;
mod rules;
mod withdrawing;

const ISSUER: &str = "https://id.test";

/// How long sessions of the provider last.
const SESSION_HOURS: i64 = 8;

/// A provider, and what it says next.
struct Provider {
    key: Key,
    kid: &'static str,
    /// Fields of its discovery document.
    discovery: Value,
    /// Claims of the next token.
    claims: Value,
    /// The challenge and the nonce of the sign-in under way.
    begun: BTreeMap<String, String>,
    /// The paths that were asked for.
    asked: Vec<String>,
}

impl Provider {
    fn answer(&mut self, call: &Call) -> Response {
        let path = call.url.strip_prefix(ISSUER).unwrap_or(&call.url).to_string();
        self.asked.push(path.clone());
        let (status, body) = match path.as_str() {
            "/.well-known/openid-configuration" => (200, self.document()),
            "/keys" => (200, json!({"keys": [self.key.jwk(self.kid)]})),
            "/token" => self.token(&String::from_utf8(call.body.clone()).unwrap()),
            _ => (404, json!({})),
        };
        Response { status, headers: vec![], body: body.to_string().into_bytes() }
    }

    fn document(&self) -> Value {
        let mut document = json!({"issuer": ISSUER, "authorization_endpoint": "https://id.test/auth",
            "token_endpoint": "https://id.test/token", "jwks_uri": "https://id.test/keys"});
        let fields = document.as_object_mut().unwrap();
        fields.extend(self.discovery.as_object().unwrap().clone());
        document
    }

    fn token(&self, form: &str) -> (u16, Value) {
        let sent: BTreeMap<String, String> =
            form_urlencoded::parse(form.as_bytes()).into_owned().collect();
        let challenge = BASE64.encode(digest(&SHA256, sent["code_verifier"].as_bytes()));
        if sent["code"] != "good" || challenge != self.begun["code_challenge"] {
            return (400, json!({"error": "invalid_grant"}));
        }
        assert_eq!(sent["redirect_uri"], self.begun["redirect_uri"]);
        let mut claims = json!({"iss": ISSUER, "sub": "s-1", "aud": "roadstead",
            "nonce": self.begun["nonce"], "email": "grace@acme.test", "email_verified": true,
            "name": "Grace"});
        claims.as_object_mut().unwrap().extend(self.claims.as_object().unwrap().clone());
        let header = json!({"alg": self.key.alg(), "kid": self.kid});
        (200, json!({"id_token": token(&self.key, header, &claims)}))
    }
}

struct World {
    fixture: Fixture,
    provider: Mutex<Provider>,
    server: Arc<ServerInfo>,
}

/// An operation that asks a provider.
type Asking<I, O> = fn(&mut Tx, &Req<(), I>, &mut Calls) -> Result<Outcome<O>>;

impl World {
    fn new() -> Self {
        Self::trusting(false)
    }

    fn trusting(trusts_addresses: bool) -> Self {
        let provider = Provider {
            key: Key::es(),
            kid: "k",
            discovery: json!({}),
            claims: json!({}),
            begun: BTreeMap::new(),
            asked: Vec::new(),
        };
        let (provider, server) = (Mutex::new(provider), configured("kc", trusts_addresses));
        World { fixture: Fixture::new(), provider, server }
    }

    fn says(&self, claims: Value) {
        self.provider.lock().unwrap().claims = claims;
    }

    /// Runs an operation as the pipeline does: again with the answers that it asked for.
    fn run<I: crate::api::Input + Send + 'static, O: Send + 'static>(
        &self,
        operation: Asking<I, O>,
        body: Value,
    ) -> Result<O> {
        let mut heard: Vec<(Call, CallResult)> = Vec::new();
        for _ in 0..8 {
            let mut args = args((), Fixture::input::<I>(body.clone())?);
            args.server = self.server.clone();
            let pending = Arc::new(Mutex::new(Vec::new()));
            let (asked, known) = (pending.clone(), heard.clone());
            let ran = self.fixture.store.write_blocking(Id::NIL, move |tx| {
                let mut calls = Calls::default();
                known.iter().for_each(|(call, result)| calls.hear(call, result.clone()));
                let outcome = operation(tx, &Req::new(&args, &Principal::Anonymous), &mut calls);
                *asked.lock().unwrap() = calls.asked().into_iter().cloned().collect();
                // A refusal is committed, too.
                if calls.asked().is_empty() { outcome } else { Err(Error::internal("pending")) }
            });
            let pending = std::mem::take(&mut *pending.lock().unwrap());
            if pending.is_empty() {
                return ran?.done();
            }
            for call in pending {
                let now = self.fixture.store.clock().now().secs();
                let mut provider = self.provider.lock().unwrap();
                let said = provider.claims.clone();
                if said.get("iat").is_none() {
                    provider.claims["iat"] = json!(now);
                    provider.claims["exp"] = json!(now + 300);
                }
                let answer = Ok(provider.answer(&call));
                provider.claims = said;
                drop(provider);
                heard.push((call, CallResult { answer, took: Duration::ZERO }));
            }
        }
        panic!("it asks for ever");
    }

    /// Begins a sign-in, as the browser is led to the provider.
    fn begin(&self, body: Value) -> BegunSignIn {
        let begun = self.run::<NewSignIn, _>(begin, body).unwrap();
        let (endpoint, query) = begun.url.split_once('?').unwrap();
        assert_eq!(endpoint, "https://id.test/auth");
        let params = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        self.provider.lock().unwrap().begun = params;
        begun
    }

    fn state(&self) -> String {
        self.provider.lock().unwrap().begun["state"].clone()
    }

    fn finish(&self, attempt: &str, answer: Value) -> Result<Finished> {
        let mut body = json!({"provider": "kc", "attempt": attempt});
        body.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        self.run::<ProviderAnswer, _>(finish, body)
    }

    fn sign_in(&self, claims: Value) -> Result<Finished> {
        self.says(claims);
        let begun = self.begin(json!({"provider": "kc"}));
        self.finish(&begun.attempt, json!({"state": self.state(), "code": "good"}))
    }

    fn person(&self, email: &str) -> Option<User> {
        let email = Email::parse(email).unwrap();
        self.fixture.store.read_now(Id::NIL, |view| find_person(view, &email)).unwrap()
    }

    fn role(&self, email: &str) -> Option<Role> {
        let (user, org) = (self.person(email)?.id, self.fixture.org);
        let get = |view: &crate::store::View| view.get::<Membership>(&(user, org));
        self.fixture.store.read_now(Id::NIL, get).unwrap().map(|membership| membership.role)
    }

    /// Lets the people of a domain in, as the owner.
    fn settings(&self, who: &Principal, body: Value) -> Result<settings::Settings> {
        let mut args = args((), Fixture::input(body)?);
        args.server = self.server.clone();
        let who = who.clone();
        self.fixture.store.write_blocking(self.fixture.org, move |tx| {
            settings::replace(tx, &Req::new(&args, &who))
        })
    }
}

/// A server that has the provider under this name.
fn configured(name: &str, trusts_addresses: bool) -> Arc<ServerInfo> {
    let (name, label) = (name.to_string(), "Keycloak".to_string());
    let (issuer, client_id) = (ISSUER.to_string(), "roadstead".to_string());
    let secret = Some("hush".into());
    let session_secs = SESSION_HOURS * 3600;
    let own = OidcProvider {
        name,
        label,
        issuer,
        client_id,
        secret,
        trusts_addresses,
        signs_out: true,
        session_secs,
    };
    let oidc = Arc::new(Oidc::new(vec![own]));
    Arc::new(ServerInfo { oidc, ..ServerInfo::bare(Keys::new([7; 32])) })
}

fn token_of(finished: &Finished) -> String {
    finished.session.as_ref().expect("a session").token.clone()
}

fn refusal<T>(result: Result<T>) -> (Kind, &'static str) {
    let error = result.err().expect("it is refused");
    (error.kind(), error.code())
}

#[test]
fn a_person_without_a_password_is_linked_and_stays_the_same_whatever_their_address_becomes() {
    let world = World::new();
    let ben = user(&world.fixture.member);
    let first = world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    assert_eq!(signed_in_user(&world, &first), ben);
    // Another address of somebody else, and one that is not verified: the subject counts.
    for email in ["ada@acme.test", "new@elsewhere.test"] {
        let claims = json!({"email": email, "email_verified": false});
        assert_eq!(signed_in_user(&world, &world.sign_in(claims).unwrap()), ben);
    }
    // Another subject with the address that was Ben's must be confirmed by Ben.
    let other = world.sign_in(json!({"sub": "s-2", "email": "ben@acme.test"})).unwrap();
    assert!(other.session.is_none() && other.confirmation.is_some());
    world.fixture.assert_sound();
}

fn signed_in_user(world: &World, finished: &Finished) -> Id<User> {
    match signed_in(&world.fixture.store, &token_of(finished)) {
        Principal::Identity(identity) => identity.user,
        _ => unreachable!("a session"),
    }
}

#[test]
fn an_address_that_is_not_verified_finds_nobody_unless_the_operator_trusts_the_provider() {
    let claims = || json!({"email": "ben@acme.test", "email_verified": false});
    let world = World::new();
    assert_eq!(refusal(world.sign_in(claims())), (Kind::Forbidden, "address_not_verified"));
    let none = json!({"email": null});
    assert_eq!(refusal(world.sign_in(none)), (Kind::Forbidden, "address_not_verified"));
    assert!(World::trusting(true).sign_in(claims()).unwrap().session.is_some());
}

#[test]
fn an_answer_is_of_the_browser_that_asked_and_of_use_once() {
    let world = World::new();
    let ben = || json!({"email": "ben@acme.test"});
    world.says(ben());
    let expired = (Kind::Conflict, "sign_in_expired");
    // The state of another sign-in, none, and an attempt that is none.
    let theirs = world.begin(json!({"provider": "kc"}));
    let foreign = world.state();
    let begun = world.begin(json!({"provider": "kc", "returnTo": "/o/acme"}));
    let own = world.state();
    for (attempt, state) in
        [(&begun.attempt, &foreign), (&theirs.attempt, &own), (&begun.attempt, &String::new())]
    {
        let answer = json!({"state": state, "code": "good"});
        assert_eq!(refusal(world.finish(attempt, answer)), expired);
    }
    assert_eq!(refusal(world.finish("x.y", json!({"state": own, "code": "good"}))), expired);
    // Nor of the redirect URI of another provider.
    let mixed = json!({"provider": "other", "state": own, "code": "good"});
    assert_eq!(refusal(world.finish(&begun.attempt, mixed)), expired);
    // A code of somebody else is refused by the provider, and the attempt is over.
    let asked = || world.provider.lock().unwrap().asked.len();
    let wrong = json!({"state": own, "code": "stolen"});
    let refused = world.finish(&begun.attempt, wrong.clone());
    assert_eq!(refusal(refused), (Kind::Forbidden, "sign_in_refused"));
    let before = asked();
    assert_eq!(refusal(world.finish(&begun.attempt, wrong)), expired);
    assert_eq!(asked(), before, "the provider is not asked again");
    let begun = world.begin(json!({"provider": "kc", "returnTo": "/o/acme"}));
    let answer = json!({"state": world.state(), "code": "good"});
    let finished = world.finish(&begun.attempt, answer.clone()).unwrap();
    assert_eq!(finished.return_to, "/o/acme");
    assert_eq!(refusal(world.finish(&begun.attempt, answer)), expired);
    let begun = world.begin(json!({"provider": "kc"}));
    world.fixture.pass_secs(600);
    let late = json!({"state": world.state(), "code": "good"});
    assert_eq!(refusal(world.finish(&begun.attempt, late)), expired);
}

#[test]
fn a_token_of_another_sign_in_issuer_client_or_time_signs_nobody_in() {
    let now = NOON.secs();
    for claims in [
        json!({"nonce": "another"}),
        json!({"iss": "https://evil.test"}),
        json!({"aud": "another"}),
        json!({"iat": now, "exp": now - 100}),
        json!({"iat": now + 100, "exp": now + 400}),
    ] {
        let world = World::new();
        let mut said = claims.clone();
        said["email"] = json!("ben@acme.test");
        let refused = refusal(world.sign_in(said));
        assert_eq!(refused, (Kind::Upstream, "sign_in_provider_failed"), "{claims}");
    }
}

#[test]
fn the_answer_names_its_issuer_where_the_provider_says_that_it_does() {
    let world = World::new();
    world.says(json!({"email": "ben@acme.test"}));
    world.provider.lock().unwrap().discovery =
        json!({"authorization_response_iss_parameter_supported": true});
    let answer = |iss: Option<&str>| {
        let begun = world.begin(json!({"provider": "kc"}));
        let mut answer = json!({"state": world.state(), "code": "good"});
        if let Some(iss) = iss {
            answer["iss"] = json!(iss);
        }
        world.finish(&begun.attempt, answer)
    };
    for iss in [None, Some("https://evil.test"), Some("https://id.test/")] {
        assert_eq!(refusal(answer(iss)), (Kind::Forbidden, "sign_in_refused"));
    }
    assert!(answer(Some(ISSUER)).unwrap().session.is_some());
    let cancelled = world.begin(json!({"provider": "kc"}));
    let body = json!({"state": world.state(), "error": "access_denied", "iss": ISSUER});
    assert_eq!(refusal(world.finish(&cancelled.attempt, body)).1, "sign_in_refused");
}

#[test]
fn an_answer_with_which_the_provider_is_not_asked_writes_nothing() {
    let world = World::new();
    world.begin(json!({"provider": "kc"}));
    world.fixture.pass_secs(3500);
    let begun = world.begin(json!({"provider": "kc"}));
    let answer = |field: &str, value: &str| {
        let mut answer = json!({"state": world.state()});
        answer[field] = json!(value);
        refusal(world.finish(&begun.attempt, answer))
    };
    for (field, value) in [("error", "access_denied"), ("iss", "https://evil.test")] {
        assert_eq!(answer(field, value), (Kind::Forbidden, "sign_in_refused"));
    }
    // What the provider publishes is asked for again, and it does not answer as it must.
    world.fixture.pass_secs(200);
    world.provider.lock().unwrap().discovery = json!({"issuer": "https://evil.test"});
    for _ in 0..2 {
        assert_eq!(answer("code", "good").0, Kind::Upstream);
    }
    let used = || {
        let read = |view: &crate::store::View| view.all::<UsedAttempt>(ListSource::TABLE, &());
        world.fixture.store.read_now(Id::NIL, read).unwrap().len()
    };
    assert_eq!(used(), 0);
    world.provider.lock().unwrap().discovery = json!({});
    world.fixture.pass_secs(10);
    assert_eq!(answer("code", "stolen"), (Kind::Forbidden, "sign_in_refused"));
    assert_eq!(used(), 1);
}

#[test]
fn documents_are_asked_for_once_and_a_new_key_is_found_after_a_minute() {
    let world = World::new();
    let ben = || json!({"email": "ben@acme.test"});
    let asked = |path: &str| {
        let provider = world.provider.lock().unwrap();
        provider.asked.iter().filter(|asked| *asked == path).count()
    };
    for _ in 0..3 {
        world.sign_in(ben()).unwrap();
    }
    let discovery = "/.well-known/openid-configuration";
    assert_eq!((asked(discovery), asked("/keys"), asked("/token")), (1, 1, 3));
    let rotate = |kid| {
        let mut provider = world.provider.lock().unwrap();
        (provider.key, provider.kid) = (Key::es(), kid);
    };
    rotate("k2");
    assert_eq!(refusal(world.sign_in(ben())).0, Kind::Upstream);
    assert_eq!(asked("/keys"), 1);
    world.fixture.pass_secs(60);
    world.sign_in(ben()).unwrap();
    assert_eq!(asked("/keys"), 2);
    world.fixture.pass_secs(3600);
    world.sign_in(ben()).unwrap();
    assert_eq!((asked(discovery), asked("/keys")), (2, 3));
}

#[test]
fn a_provider_whose_document_cannot_be_read_is_asked_again_after_ten_seconds() {
    let world = World::new();
    world.provider.lock().unwrap().discovery = json!({"issuer": "https://evil.test"});
    let begin = || world.run::<NewSignIn, _>(begin, json!({"provider": "kc"}));
    let asked = || world.provider.lock().unwrap().asked.len();
    for _ in 0..3 {
        assert_eq!(refusal(begin()), (Kind::Upstream, "sign_in_provider_failed"));
    }
    assert_eq!(asked(), 1);
    world.provider.lock().unwrap().discovery = json!({});
    world.fixture.pass_secs(10);
    begin().unwrap();
    assert_eq!(asked(), 2);
}

#[test]
fn nobody_is_led_to_another_server() {
    for path in ["//evil.test", "/\\evil.test", "https://evil.test", "evil", "/a b", "/a\r\nb"] {
        let body = json!({"provider": "kc", "returnTo": path});
        assert!(Fixture::input::<NewSignIn>(body).is_err(), "{path}");
    }
    let world = World::new();
    let unknown = world.run::<NewSignIn, _>(begin, json!({"provider": "other"}));
    assert_eq!(refusal(unknown).0, Kind::NotFound);
}
