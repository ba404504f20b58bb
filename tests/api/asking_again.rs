//! What asks a person again who they are, when, and how they prove it (reference: identity-and-rights,
//! "Asking again").

use roadstead::api::AsksAgain;
use roadstead::app::ServerConfig;
use roadstead::auth::oidc::OidcProvider;
use roadstead::auth::passwords::{HashRequest, run};
use roadstead::auth::{Role, SecondFactor, User, begin_second_factor};
use roadstead::base::{Id, Keys, Time};
use roadstead::resources;
use roadstead::store::engine::LoggedRedb;
use roadstead::store::{Clock, Store, Tx, build_indexes, table_names};
use serde_json::{Value, json};

use crate::client::nostr::fresh_address;
use crate::client::{Caller, Reply};
use crate::fixture::{Fixture, Running, config};
use crate::routes::all_routes;

const PASSWORD: &str = "correct horse battery";
const CODE: &str = "insufficient_user_authentication";
const PROOF_SECS: i64 = 900;

/// A server whose clock moves by hand.
fn serve() -> Running {
    let noon = Time::parse("2026-03-02T12:00:00Z").unwrap();
    let (place, tables) = (tempfile::tempdir().unwrap(), resources::tables());
    let file = place.path().join("test.redb");
    let mut storage = LoggedRedb::create(&file, table_names(&tables)).unwrap();
    build_indexes(&mut storage, &tables, &|_| {}).unwrap();
    let store = Store::start(storage, Clock::at(noon), Keys::new([7; 32]), &tables).unwrap();
    Running::serve(store, "127.0.0.1:0", ServerConfig { oidc: vec![provider()], ..config() })
}

/// A provider that is asked for nothing.
fn provider() -> OidcProvider {
    OidcProvider {
        name: "kc".into(),
        label: "Keycloak".into(),
        issuer: "https://id.test".into(),
        client_id: "roadstead".into(),
        secret: None,
        trusts_addresses: false,
        signs_out: false,
        session_secs: 3600,
    }
}

/// Gives the owner a password.
fn with_password(acme: &Fixture) {
    let made = run(&HashRequest { verify: None, make: Some(PASSWORD.into()) }).unwrap().made;
    let id = Id::<User>::parse(&acme.owner_id);
    let give = move |tx: &mut Tx| {
        let old: User = tx.fetch(&id)?;
        tx.replace(&old, &User { password: made.clone(), ..old.clone() })
    };
    acme.store.write_blocking(Id::NIL, give).unwrap();
}

/// The same caller, at an address that no other test has: what is entered counts for it.
fn from_elsewhere(caller: &Caller) -> Caller {
    caller.with_more_fields(&[("X-Forwarded-For", &*fresh_address())])
}

fn confirm(acme: &Fixture, body: Value) -> Reply {
    acme.owner.ask("POST", "/auth/session/confirm").json(&body).send()
}

/// A request that asks again: the route, its path, and its body.
type Sample = (&'static str, String, Value);

/// What asks a person without a password, and one with a second factor: tested beside the operations.
const ELSEWHERE: [&str; 2] = ["PATCH /organizations", "POST /auth/links"];

/// A request for each route that asks again, in an order in which all can be done.
fn samples(running: &Running, acme: &Fixture) -> Vec<Sample> {
    let owner = &acme.owner;
    let key = owner.post("/api-keys", json!({"name": "ci"})).id();
    let config =
        json!({"name": "h", "workflow": "webhook", "config": {"url": "http://127.0.0.1:9/"}});
    let channel = owner.post("/notifications/channels", config).id();
    let account = |role: &str| {
        owner.post("/organizations/service-accounts", json!({"name": "pipe", "role": role})).id()
    };
    let (account, gone) = (account("member"), account("admin"));
    let (_, eve) = running.person(acme, "eve", Role::Owner);
    let user = Id::parse(&eve);
    let turn_on = move |tx: &mut Tx| {
        begin_second_factor(tx, user)?;
        tx.fetch::<SecondFactor>(&user)?.turn_on(tx)
    };
    running.store.write_blocking(Id::NIL, turn_on).unwrap();
    let asked = json!({"client": "roadstead on a laptop"});
    let asked = acme.anonymous.ask("POST", "/auth/device-sign-ins").json(&asked).send().ok();
    let code = asked["userCode"].as_str().unwrap();
    let member = |id: &str| format!("/organizations/members/{id}");
    vec![
        ("POST /api-keys", "/api-keys".into(), json!({"name": "k", "allowApproveAs": true})),
        ("POST /api-keys/{keyId}/rotate", format!("/api-keys/{key}/rotate"), json!({})),
        (
            "POST /notifications/channels/{channelId}/rotate-secret",
            format!("/notifications/channels/{channel}/rotate-secret"),
            json!({}),
        ),
        (
            "POST /organizations/members",
            "/organizations/members".into(),
            json!({"email": "new@acme.test", "role": "admin"}),
        ),
        (
            "POST /organizations/members/{userId}/password-reset",
            member(&eve) + "/password-reset",
            json!({}),
        ),
        (
            "DELETE /organizations/members/{userId}/second-factor",
            member(&eve) + "/second-factor",
            Value::Null,
        ),
        (
            "PATCH /organizations/members/{userId}",
            member(&acme.member_id),
            json!({"role": "admin"}),
        ),
        ("DELETE /organizations/members/{userId}", member(&eve), Value::Null),
        (
            "POST /organizations/service-accounts",
            "/organizations/service-accounts".into(),
            json!({"name": "deployer", "role": "admin"}),
        ),
        (
            "PATCH /organizations/service-accounts/{serviceAccountId}",
            format!("/organizations/service-accounts/{account}"),
            json!({"role": "admin"}),
        ),
        (
            "DELETE /organizations/service-accounts/{serviceAccountId}",
            format!("/organizations/service-accounts/{gone}"),
            Value::Null,
        ),
        (
            "PUT /organizations/sign-in",
            "/organizations/sign-in".into(),
            json!({"domains": [],
                "rules": [{"provider": "kc", "value": "boss", "role": "owner"}]}),
        ),
        (
            "POST /auth/device-sign-ins/{userCode}/approve",
            format!("/auth/device-sign-ins/{code}/approve"),
            json!({}),
        ),
    ]
}

fn send(acme: &Fixture, (route, path, body): &Sample) -> Reply {
    match route.split(' ').next().unwrap() {
        "DELETE" => acme.owner.delete(path),
        "PUT" => acme.owner.put(path, body.clone()),
        "PATCH" => acme.owner.patch(path, body.clone()),
        _ if path.starts_with("/auth/") => acme.owner.ask("POST", path).json(body).send(),
        _ => acme.owner.post(path, body.clone()),
    }
}

#[test]
fn each_route_that_asks_again_does_so_after_fifteen_minutes_and_until_the_password_is_given() {
    let running = serve();
    let acme = running.fixture();
    with_password(&acme);
    running.store.clock().advance_secs(PROOF_SECS - 300);
    let samples = samples(&running, &acme);
    let routes = all_routes();
    let asking = routes.iter().filter(|route| route.asks_again != AsksAgain::Never);
    let mut asking: Vec<_> =
        asking.map(|route| format!("{} {}", route.method.as_str(), route.path)).collect();
    let mut listed: Vec<_> = samples.iter().map(|(route, ..)| route.to_string()).collect();
    asking.sort();
    listed.sort();
    listed.extend(ELSEWHERE.map(String::from));
    listed.sort();
    assert_eq!(asking, listed);

    running.store.clock().advance_secs(300);
    for sample in &samples {
        let refused = send(&acme, sample);
        refused.refused(401, CODE);
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"insufficient_user_authentication\""), "{challenge}");
        assert!(challenge.contains("max_age=\"900\""), "{challenge}");
    }
    confirm(&acme, json!({"password": "wrong horse battery"})).refused(403, "wrong_password");
    confirm(&acme, json!({})).invalid(&["password"]);
    send(&acme, &samples[1]).refused(401, CODE);
    confirm(&acme, json!({"password": PASSWORD})).ok();
    let session = acme.owner.get("/auth/session").ok();
    assert_eq!(session["provedAt"], "2026-03-02T12:15:00.000Z");
    assert_eq!(session["hasPassword"], true);
    for sample in &samples {
        let done = send(&acme, sample);
        assert_eq!(done.status, 200, "{}: {}", sample.0, done.text());
    }
}

#[test]
fn what_does_no_such_thing_is_not_asked_for_nor_are_keys() {
    let running = serve();
    let acme = running.fixture();
    let config =
        json!({"name": "h", "workflow": "webhook", "config": {"url": "http://127.0.0.1:9/"}});
    let channel = acme.owner.post("/notifications/channels", config).id();
    let (_, dan) = running.person(&acme, "dan", Role::Member);
    running.store.clock().advance_secs(PROOF_SECS);
    acme.owner.post("/api-keys", json!({"name": "plain"})).ok();
    let invited = json!({"email": "new@acme.test", "role": "member"});
    acme.owner.post("/organizations/members", invited).ok();
    let member = format!("/organizations/members/{dan}");
    acme.owner.patch(&member, json!({"role": "viewer"})).ok();
    acme.owner.delete(&member).ok();
    let rotate = format!("/notifications/channels/{channel}/rotate-secret");
    acme.owner.post(&rotate, json!({})).refused(401, CODE);
    acme.key.post(&rotate, json!({})).ok();
    // Who may not do it at all is told that.
    acme.member.post(&rotate, json!({})).refused(403, "admin_required");
}

#[test]
fn who_has_neither_password_nor_second_factor_signs_in_again() {
    let running = serve();
    let acme = running.fixture();
    let key = acme.owner.post("/api-keys", json!({"name": "ci"})).id();
    let rotate = format!("/api-keys/{key}/rotate");
    running.store.clock().advance_secs(PROOF_SECS);
    acme.owner.post(&rotate, json!({})).refused(401, CODE);
    confirm(&acme, json!({})).refused(409, "nothing_to_confirm_with");
    assert_eq!(acme.owner.get("/auth/session").ok()["hasPassword"], false);
    let again = running.session(Id::parse(&acme.owner_id));
    acme.anonymous.with_bearer(&again).post(&rotate, json!({})).ok();
}

#[test]
fn a_command_line_is_let_in_by_its_code_and_is_one_more_session() {
    let acme = Fixture::new();
    let anybody = &acme.anonymous;
    let from = |path: &str, body: Value| {
        let address = [("X-Forwarded-For", "198.51.100.7")];
        anybody.with_fields(&address).ask("POST", path).json(&body).send()
    };
    let begun = from("/auth/device-sign-ins", json!({"client": "roadstead on a laptop"})).ok();
    let code = begun["userCode"].as_str().unwrap();
    let finish =
        || from("/auth/device-sign-ins/finish", json!({"deviceCode": begun["deviceCode"]}));
    finish().refused(400, "authorization_pending");
    finish().refused(400, "slow_down");
    let path = format!("/auth/device-sign-ins/{}", code.to_lowercase().replace('-', ""));
    let member = from_elsewhere(&acme.member);
    let look = |caller: &Caller, path: &str| {
        caller.ask("POST", &format!("{path}/preview")).json(&json!({})).send()
    };
    let shown = look(&member, &path).ok();
    assert_eq!((&shown["userCode"], &shown["address"]), (&json!(code), &json!("198.51.100.7")));
    look(&acme.key, &path).refused(401, "session_required");
    look(anybody, &path).refused(401, "unauthenticated");
    look(&member, "/auth/device-sign-ins/BBBBBBBB").refused(404, "not_found");

    let approve = |path: &str| member.ask("POST", path).json(&json!({})).send();
    approve(&format!("{path}/approve")).ok();
    approve(&format!("{path}/approve")).refused(404, "not_found");
    let token = finish().ok()["token"].clone();
    finish().refused(400, "expired_token");
    let line = anybody.with_bearer(token.as_str().unwrap());
    assert_eq!(line.get("/auth/session").ok()["user"]["id"], json!(acme.member_id));
    // It makes no key, which would outlast it. It may what the person may, and no more.
    line.post("/api-keys", json!({"name": "k"})).refused(401, CODE);
    line.post("/registries", json!({"slug": "x", "name": "X"})).refused(403, "admin_required");
    let sessions = acme.member.get("/auth/sessions").items();
    let made = sessions.iter().find(|one| !one["device"].is_null()).unwrap();
    let device = json!({"client": "roadstead on a laptop", "address": "198.51.100.7"});
    assert_eq!(made["device"], device);
    acme.member.delete(&format!("/auth/sessions/{}", made["id"].as_str().unwrap())).ok();
    line.get("/auth/session").refused(401, "unauthenticated");
}

#[test]
fn codes_are_not_tried_one_after_another() {
    let acme = Fixture::new();
    let path = "/auth/device-sign-ins/BBBBBBBB/preview";
    let address = fresh_address();
    let fields = [("X-Forwarded-For", &*address)];
    let [member, owner] = [&acme.member, &acme.owner].map(|one| one.with_more_fields(&fields));
    let codes =
        (0..12).map(|_| member.ask("POST", path).json(&json!({})).send().json()["code"].clone());
    let codes: Vec<_> = codes.collect();
    assert_eq!((&codes[0], &codes[11]), (&json!("not_found"), &json!("rate_limited")), "{codes:?}");
    // Nor by one account after another from the same address.
    owner.ask("POST", path).json(&json!({})).send().refused(429, "rate_limited");
}

#[test]
fn a_refused_command_line_is_told_so() {
    let acme = Fixture::new();
    let ask = |path: &str, body: Value| acme.anonymous.ask("POST", path).json(&body).send();
    let begun = ask("/auth/device-sign-ins", json!({"client": "roadstead"})).ok();
    let deny = format!("/auth/device-sign-ins/{}/deny", begun["userCode"].as_str().unwrap());
    from_elsewhere(&acme.member).ask("POST", &deny).json(&json!({})).send().ok();
    let finish = json!({"deviceCode": begun["deviceCode"]});
    ask("/auth/device-sign-ins/finish", finish).refused(400, "access_denied");
    let unknown = json!({"deviceCode": "unknown"});
    ask("/auth/device-sign-ins/finish", unknown).refused(400, "expired_token");
}
