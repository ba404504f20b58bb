//! `reset-password`: beside a running server and without one.

use serde_json::json;

use crate::client::Caller;
use crate::client::second_factor::App;
use crate::process::{PASSWORD, Place, Serving};

const NEW: &str = "another horse battery";

fn anonymous(serving: &Serving) -> Caller {
    Caller::anonymous(serving.address, "acme").with_fields(&[])
}

fn sign_in(serving: &Serving, password: &str) -> crate::client::Reply {
    anonymous(serving)
        .ask("POST", "/auth/sign-in")
        .json(&json!({"email": "ada@acme.test", "password": password}))
        .send()
}

fn reset(serving: &Serving, link: &str) -> crate::client::Reply {
    let token = link.split_once("/reset-password#").unwrap().1;
    let body = json!({"token": token, "newPassword": NEW});
    anonymous(serving).ask("POST", "/auth/password/reset").json(&body).send()
}

#[test]
fn a_link_is_printed_beside_a_running_server() {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let made = place.run(&["reset-password", "--email", "Ada@Acme.test", "--json"]).succeeds();
    let old = made["resetUrl"].as_str().unwrap();
    assert!(old.starts_with(&format!("http://{}/reset-password#", serving.address)), "{old}");
    assert!(made["expiresAt"].as_str().unwrap().ends_with('Z'), "{made}");

    let ended = place.run(&[
        "reset-password",
        "--email",
        "ada@acme.test",
        "--public-url",
        "https://a.test/",
    ]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let new = ended.stdout.trim_end();
    assert!(new.starts_with("https://a.test/reset-password#"), "{new}");

    reset(&serving, old).refused(404, "not_found");
    sign_in(&serving, PASSWORD).ok();
    reset(&serving, new).ok();
    reset(&serving, new).refused(404, "not_found");
    sign_in(&serving, PASSWORD).refused(401, "unauthenticated");
    let session = sign_in(&serving, NEW).ok();
    assert_eq!(serving.caller(&key).get("/tools").status, 200);

    let ada = anonymous(&serving).with_bearer(session["token"].as_str().unwrap());
    let made = crate::client::eventually("the entries are in the log", || {
        let log = ada.get("/audit-logs?action=password_reset.create").items();
        Some(log).filter(|log| log.len() == 2)
    });
    assert_eq!(made[0]["actor"]["type"], "system");
    assert_eq!(made[0]["resource"]["id"], session["user"]["id"]);
}

#[test]
fn the_second_factor_is_reset_if_that_is_asked_for() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let session = sign_in(&serving, PASSWORD).ok()["token"].clone();
    App::turned_on(&anonymous(&serving).with_bearer(session.as_str().unwrap()), PASSWORD);
    let reset = ["reset-password", "--email", "ada@acme.test", "--json"];
    assert_eq!(place.run(&reset).succeeds()["secondFactorReset"], false);
    sign_in(&serving, PASSWORD).refused(401, "code_required");
    let reset = [&reset[..], &["--reset-second-factor"]].concat();
    assert_eq!(place.run(&reset).succeeds()["secondFactorReset"], true);
    assert_eq!(place.run(&reset).succeeds()["secondFactorReset"], false);
    let session = sign_in(&serving, PASSWORD).ok()["token"].clone();
    let ada = anonymous(&serving).with_bearer(session.as_str().unwrap());
    let log = crate::client::eventually("the entry is in the log", || {
        let log = ada.get("/audit-logs?action=second_factor.reset").items();
        Some(log).filter(|log| log.len() == 1)
    });
    assert_eq!(log[0]["actor"]["type"], "system");
}

#[test]
fn a_link_is_printed_without_a_server() {
    let (place, _) = Place::founded();
    let ended = place.run(&["reset-password", "--email", "ada@acme.test"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("Put before it the URL"), "{ended:?}");
    assert!(ended.stdout.starts_with("/reset-password#"), "{ended:?}");
    let url = "https://agents.acme.test";
    let named = place.run(&["reset-password", "--email", "ada@acme.test", "--public-url", url]);
    assert!(named.stderr.is_empty() && named.stdout.starts_with(url), "{named:?}");
    let ended = place.run(&["reset-password", "--email", "ada@acme.test"]);
    let serving = Serving::start(&place, &[]);
    reset(&serving, ended.stdout.trim_end()).ok();
    sign_in(&serving, NEW).ok();
}

#[test]
fn what_is_wrong_is_said_and_nothing_printed() {
    let (place, _) = Place::founded();
    let refused = |place: &Place| {
        let reset = |email: &str| place.run(&["reset-password", "--email", email]);
        reset("nobody@acme.test").fails(1, "there is no such user");
        reset("nobody").fails(1, "--email");
        place.run(&["reset-password"]).fails(2, "--email");
    };
    refused(&place);
    let serving = Serving::start(&place, &[]);
    refused(&place);
    drop(serving);
    let nowhere = Place::new();
    nowhere.run(&["reset-password", "--email", "ada@acme.test"]).fails(2, "roadstead init");
}
