//! The second factor over the API (reference: identity-and-rights, "Second factor").

use roadstead::auth::Role;
use serde_json::{Value, json};

use crate::client::nostr::fresh_address;
use crate::client::second_factor::App;
use crate::client::{Caller, Reply, eventually};
use crate::fixture::{Fixture, key_of};

const PASSWORD: &str = "correct horse battery";

/// Somebody with a password, in a session. Each sign-in is from an address of its own.
struct Person {
    email: String,
    id: String,
    anybody: Caller,
    session: Caller,
}

fn from(caller: &Caller, address: &str) -> Caller {
    caller.with_fields(&[("X-Forwarded-For", address)])
}

impl Person {
    fn of(acme: &Fixture, name: &str) -> Self {
        let (_, id) = acme.person(name, Role::Member);
        let email = format!("{name}@{}.test", acme.slug);
        let anybody = acme.anonymous.clone();
        let reset = format!("/organizations/members/{id}/password-reset");
        let token = acme.owner.post(&reset, json!({})).ok()["token"].clone();
        let set = json!({"token": token, "newPassword": PASSWORD});
        from(&anybody, &fresh_address()).ask("POST", "/auth/password/reset").json(&set).send().ok();
        let session = from(&anybody, &fresh_address());
        let mut person = Person { email, id, session, anybody };
        person.session = person.signed_in(&person.sign_in(PASSWORD, None));
        person
    }

    fn sign_in(&self, password: &str, code: Option<&str>) -> Reply {
        let mut body = json!({"email": self.email, "password": password});
        if let Some(code) = code {
            body["code"] = json!(code);
        }
        from(&self.anybody, &fresh_address()).ask("POST", "/auth/sign-in").json(&body).send()
    }

    fn complete(&self, challenge: &Value, code: &str) -> Reply {
        self.complete_from(&fresh_address(), challenge, code)
    }

    fn complete_from(&self, address: &str, challenge: &Value, code: &str) -> Reply {
        let body = json!({"challenge": challenge, "code": code});
        from(&self.anybody, address).ask("POST", "/auth/sign-in/code").json(&body).send()
    }

    fn signed_in(&self, reply: &Reply) -> Caller {
        let token = reply.ok()["token"].as_str().unwrap().to_string();
        from(&self.anybody, &fresh_address()).with_bearer(&token)
    }
}

#[test]
fn signing_in_takes_a_password_and_then_a_code() {
    let acme = Fixture::new();
    let dan = Person::of(&acme, "dan");
    let earlier = dan.signed_in(&dan.sign_in(PASSWORD, None));
    let app = App::turned_on(&dan.session, PASSWORD);
    earlier.get("/auth/session").refused(401, "unauthenticated");
    dan.session.get("/auth/session").ok();

    let first = dan.sign_in(PASSWORD, None);
    first.refused(401, "code_required");
    let challenge = &first.json()["challenge"];
    dan.complete(challenge, "000000").refused(403, "wrong_code");
    // That which confirmed it.
    dan.complete(challenge, &app.code(0)).refused(403, "wrong_code");
    dan.signed_in(&dan.complete(challenge, &app.code(1))).get("/auth/session").ok();
    dan.complete(challenge, &app.recovery_codes[0]).refused(401, "challenge_ended");

    let wrong = dan.sign_in("wrong horse battery", Some(&app.recovery_codes[0]));
    wrong.refused(401, "unauthenticated");
    assert!(wrong.json().get("challenge").is_none());
    dan.signed_in(&dan.sign_in(PASSWORD, Some(&app.recovery_codes[0])));
    dan.sign_in(PASSWORD, Some(&app.recovery_codes[0])).refused(403, "wrong_code");
    let info = dan.session.get("/auth/second-factor").ok();
    assert_eq!((&info["recoveryCodesLeft"], &info["resetAt"]), (&json!(9), &Value::Null));
    assert!(info["onSince"].is_string());

    let off = json!({"password": PASSWORD, "code": app.recovery_codes[1]});
    dan.session.ask("POST", "/auth/second-factor/off").json(&off).send().ok();
    assert_eq!(dan.session.get("/auth/second-factor").ok()["onSince"], Value::Null);
}

#[test]
fn wrong_codes_reach_the_limit_of_sign_ins() {
    let acme = Fixture::new();
    let dan = Person::of(&acme, "dan");
    App::turned_on(&dan.session, PASSWORD);
    let first = dan.sign_in(PASSWORD, None);
    let (challenge, address) = (&first.json()["challenge"], fresh_address());
    let wrong = || dan.complete_from(&address, challenge, "000000");
    let answers: Vec<_> = (0..12).map(|_| wrong()).collect();
    let codes: Vec<String> =
        answers.iter().map(|reply| reply.json()["code"].as_str().unwrap().into()).collect();
    let expected = [vec!["wrong_code"; 5], vec!["challenge_ended"]].concat();
    assert_eq!(codes[..6], expected[..]);
    assert_eq!(codes[11], "rate_limited", "{codes:?}");
}

#[test]
fn an_organization_that_requires_one_is_closed_to_sessions_without_and_to_no_key() {
    let acme = Fixture::new();
    let (eva, eva_id) = acme.person("eva", Role::Member);
    let dan = Person::of(&acme, "dan");
    let appoint = |role: &str| {
        let path = format!("/organizations/members/{}", dan.id);
        acme.owner.patch(&path, json!({ "role": role })).ok();
    };
    let require = |by: &Caller, required: bool| {
        by.patch("/organizations", json!({"secondFactorRequired": required}))
    };
    let public = json!({"slug": "open", "name": "Open", "visibility": "public"});
    acme.owner.post("/registries", public).ok();
    let key = key_of(&eva);
    require(&acme.admin, true).refused(403, "owner_required");
    require(&dan.session, true).refused(403, "admin_required");
    appoint("owner");
    require(&dan.session, true).refused(409, "no_second_factor");
    let app = App::turned_on(&dan.session, PASSWORD);
    assert_eq!(require(&dan.session, true).ok()["secondFactorRequired"], true);

    for path in ["/tools", "/teams", "/organizations/members", "/api-keys"] {
        eva.get(path).refused(403, "second_factor_required");
        acme.owner.get(path).refused(403, "second_factor_required");
        dan.session.get(path).ok();
    }
    eva.post("/tools", json!({"name": "t", "type": "function"}))
        .refused(403, "second_factor_required");
    key.get("/tools").ok();
    let why =
        |id: &str| dan.session.get(&format!("/access/explain?userId={id}&action=tool.list")).ok();
    let rule = |answer: &Value| {
        let rules = answer["rules"].as_array().unwrap().clone();
        rules.into_iter().find(|rule| rule["rule"] == "second_factor").unwrap()
    };
    assert_eq!(why(&eva_id)["allowed"], false);
    assert_eq!(rule(&why(&eva_id))["code"], "second_factor_required");
    assert_eq!(
        (&why(&dan.id)["allowed"], &rule(&why(&dan.id))["met"]),
        (&json!(true), &json!(true))
    );
    // What is about nobody's organization stays open, so that one can be turned on.
    for path in ["/auth/session", "/auth/user", "/auth/second-factor", "/organizations"] {
        eva.get(path).ok();
    }
    let memberships = eva.get("/auth/session").ok()["memberships"].clone();
    assert_eq!(memberships[0]["secondFactorRequired"], true);
    // What is public is open to her as to anybody.
    let open = format!("/registries/artifacts?registryRef={}/open", acme.slug);
    eva.get(&open).ok();

    let members = dan.session.get("/organizations/members").items();
    let of = |id: &str| members.iter().find(|member| member["userId"] == id).unwrap();
    assert_eq!(of(&dan.id)["secondFactor"], true);
    assert_eq!(of(&acme.member_id)["secondFactor"], false);
    let shown = key.get("/organizations/members").items();
    assert!(shown.iter().all(|member| member["secondFactor"].is_null()));
    assert!(shown.iter().all(|member| member["signInProviders"].is_null()));
    assert_eq!(of(&dan.id)["signInProviders"], json!([]));

    let log = eventually("the refusal is in the log", || {
        let log = dan.session.get("/audit-logs?action=tool.create").items();
        log.into_iter().find(|entry| entry["outcome"] == "refused")
    });
    assert_eq!(log["outcome"], "refused");
    let off = json!({"password": PASSWORD, "code": app.recovery_codes[0]});
    dan.session.ask("POST", "/auth/second-factor/off").json(&off).send().ok();
    dan.session.get("/tools").refused(403, "second_factor_required");
    App::turned_on(&dan.session, PASSWORD);
    require(&dan.session, false).ok();
    eva.get("/tools").ok();
}

#[test]
fn an_admin_resets_the_one_of_a_member_who_is_shown_that() {
    let acme = Fixture::new();
    let dan = Person::of(&acme, "dan");
    App::turned_on(&dan.session, PASSWORD);
    let path = format!("/organizations/members/{}/second-factor", dan.id);
    acme.member.delete(&path).refused(403, "admin_required");
    acme.admin.delete(&path).ok();
    acme.admin.delete(&path).refused(404, "not_found");
    dan.signed_in(&dan.sign_in(PASSWORD, None));
    assert!(dan.session.get("/auth/second-factor").ok()["resetAt"].is_string());
    let entry = eventually("the entry is in the log", || {
        acme.owner.get("/audit-logs?action=second_factor.reset").items().into_iter().next()
    });
    assert_eq!(
        (&entry["resource"]["type"], &entry["resource"]["id"]),
        (&json!("member"), &json!(dan.id))
    );
}
