//! Confirming who one is before something sensitive, and letting a command line in.

use roadstead::app::ServerConfig;
use roadstead::auth::{SESSION_SECS, Session};
use roadstead::base::{Id, Result};
use roadstead::store::{ListSource, Tx};
use serde_json::json;

use crate::oidc_provider::{Provider, person};
use crate::outside::SITES;
use crate::server::{PASSWORD, Running};
use crate::visitor::Visitor;

/// Makes all sessions begin 16 minutes earlier.
fn age_sessions(server: &Running) {
    fn age(tx: &mut Tx) -> Result<()> {
        for old in tx.view().all::<Session>(ListSource::TABLE, &())? {
            let created_at = old.created_at.minus_secs(16 * 60);
            let expires_at = created_at.plus_secs(SESSION_SECS);
            tx.replace(&old, &Session { created_at, expires_at, ..old.clone() })?;
        }
        Ok(())
    }
    server.store.write_blocking(Id::NIL, age).unwrap();
}

#[test]
fn a_sensitive_form_asks_for_the_password_and_comes_back_as_it_was_filled() {
    let server = Running::new();
    let made = server.ada().post("/api-keys", json!({"name": "CI"})).ok();
    let rotate = format!("/o/acme/settings/keys/{}/rotate", made["id"].as_str().unwrap());
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(&rotate);
    age_sessions(&server);
    let asked = ada.send(&page, &rotate, &[("overlapSecs", "3600")]);
    assert_eq!(asked.status, 401);
    asked
        .shows("Confirm that it is you")
        .shows("Nothing was done yet")
        .hides("Code of your second");
    let confirm = "/confirm-identity";
    let wrong = ada.send(&asked, confirm, &[("password", "wrong horse battery")]);
    assert_eq!(wrong.status, 403);
    wrong.shows("The password is wrong");
    let resumed = ada.send(&wrong, confirm, &[("password", PASSWORD)]);
    assert_eq!(resumed.status, 200);
    resumed.shows("You have confirmed that it is you.").shows("Rotate the key CI");
    assert!(!resumed.text.contains(PASSWORD));
    let key = server.anonymous().with_key(made["key"].as_str().unwrap());
    assert!(key.get("/whoami").ok()["expiresAt"].is_null(), "it was not sent yet");
    let done = ada.send(&resumed, &rotate, &[("overlapSecs", "3600")]);
    done.shows("It is not shown again.");
    assert!(key.get("/whoami").ok()["expiresAt"].is_string());
}

#[test]
fn who_has_signed_in_again_meanwhile_goes_on_without_a_password() {
    let server = Running::new();
    let made = server.ada().post("/api-keys", json!({"name": "CI"})).ok();
    let rotate = format!("/o/acme/settings/keys/{}/rotate", made["id"].as_str().unwrap());
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(&rotate);
    age_sessions(&server);
    let asked = ada.send(&page, &rotate, &[("overlapSecs", "3600")]);
    // As in another tab, which shares the cookies.
    let out = ada.send(&ada.get("/account"), "/sign-out", &[]);
    assert_eq!(out.location(), "/sign-in");
    let fields = [("email", "ada@acme.test"), ("password", PASSWORD)];
    ada.send(&ada.get("/sign-in"), "/sign-in", &fields);
    let kept = ada.send(&asked, "/confirm-identity", &[]);
    kept.shows("Nothing was done");
    let resumed = ada.send(&kept, "/confirm-identity", &[]);
    resumed.shows("You have confirmed that it is you.").shows("Rotate the key CI");
    ada.send(&resumed, &rotate, &[("overlapSecs", "3600")]).shows("It is not shown again.");
}

/// Signs somebody in with a provider, from this link on; returns where that leads.
fn sign_in_with(provider: &Provider, visitor: &Visitor, link: &str) -> String {
    let url = visitor.get(link).location().to_string();
    let back = provider.sign_in(&url, person("grace"), "ES256");
    let from_there = [("Sec-Fetch-Site", "cross-site")];
    visitor.request("GET", &back, &from_there, "").location().to_string()
}

#[test]
fn who_has_a_provider_alone_signs_in_there_again_and_goes_on() {
    let provider = Provider::start(&SITES, "asked-again.test");
    let config = ServerConfig { oidc: vec![provider.configured()], ..ServerConfig::default() };
    let server = Running::with(config);
    server.invite("grace@acme.test", "admin");
    let grace = server.visitor();
    assert_eq!(sign_in_with(&provider, &grace, "/sign-in/oidc/kc"), "/");
    let (keys, new) = ("/o/acme/settings/keys", "/o/acme/settings/keys/new");
    grace.send(&grace.get(new), new, &[("name", "CI"), ("access", "full")]);
    let links = grace.get(keys).links();
    let rotate = links.into_iter().find(|link| link.ends_with("/rotate")).unwrap();
    let page = grace.get(&rotate);
    age_sessions(&server);
    let asked = grace.send(&page, &rotate, &[("overlapSecs", "3600")]);
    assert_eq!(asked.status, 401);
    asked.shows("You have neither a password nor a second factor here.");
    let refused = grace.send(&asked, "/confirm-identity", &[]);
    assert_eq!(refused.status, 409);
    refused.shows("sign in again with your provider");
    let links = refused.links();
    let again = links.iter().find(|link| link.starts_with("/sign-in/oidc/kc")).unwrap();
    assert!(grace.get(again).location().contains("max_age=0"));
    assert_eq!(sign_in_with(&provider, &grace, again), "/account");
    let kept = grace.send(&refused, "/confirm-identity", &[]);
    kept.shows("Nothing was done");
    let resumed = grace.send(&kept, "/confirm-identity", &[]);
    resumed.shows("You have confirmed that it is you.").shows("Rotate the key CI");
    grace.send(&resumed, &rotate, &[("overlapSecs", "3600")]).shows("It is not shown again.");
}

#[test]
fn a_command_line_is_shown_before_it_is_let_in_and_is_signed_out_on_the_account_page() {
    let server = Running::new();
    let ask = |path: &str, body| server.anonymous().ask("POST", path).json(&body).send();
    let begun = ask("/auth/device-sign-ins", json!({"client": "roadstead on a laptop"})).ok();
    let code = begun["userCode"].as_str().unwrap();
    let finish = || ask("/auth/device-sign-ins/finish", json!({"deviceCode": begun["deviceCode"]}));
    let visitor = server.visitor();
    assert_eq!(visitor.get("/device").location(), "/sign-in?return=%2Fdevice");

    let ada = server.signed_in("ada@acme.test");
    assert!(ada.get("/account").links().contains(&"/device".to_string()));
    // A link neither fills in the code nor does anything.
    let page = ada.get(&format!("/device?userCode={code}&action=approve"));
    assert_eq!(page.field("/device", "userCode"), "");
    page.shows("Enter only a code that your own terminal shows");
    finish().refused(400, "authorization_pending");
    let wrong = ada.send(&page, "/device", &[("userCode", "BBBB-BBBB")]);
    assert_eq!(wrong.status, 404);
    wrong.shows("There is no such code");
    let shown = ada.send(&wrong, "/device", &[("userCode", &code.to_lowercase())]);
    assert_eq!(shown.status, 200);
    shown.shows(code).shows("roadstead on a laptop").shows("Acme").shows("ada@acme.test");
    shown.shows("If you have not just run").shows("127.0.0.1");
    let done = ada.send(&shown, "/device", &[("action", "approve")]);
    assert_eq!(done.location(), "/account");
    let account = ada.get("/account");
    account.shows("The command line is signed in");

    let token = finish().ok()["token"].clone();
    let line = server.anonymous().with_bearer(token.as_str().unwrap());
    assert_eq!(line.get("/auth/session").ok()["user"]["email"], "ada@acme.test");
    ada.get("/account").shows("Command line: roadstead on a laptop");
    let sessions = server.ada().get("/auth/sessions").items();
    let made = sessions.iter().find(|one| !one["device"].is_null()).unwrap();
    let end = "/account/sessions/end";
    ada.send(&ada.get("/account"), end, &[("session", made["id"].as_str().unwrap())]);
    line.get("/auth/session").refused(401, "unauthenticated");
}

#[test]
fn a_command_line_is_refused_and_an_old_session_confirms_first() {
    let server = Running::new();
    let ask = |path: &str, body| server.anonymous().ask("POST", path).json(&body).send();
    let begun = ask("/auth/device-sign-ins", json!({"client": "roadstead"})).ok();
    let code = begun["userCode"].as_str().unwrap();
    let ada = server.signed_in("ada@acme.test");
    age_sessions(&server);
    let shown = ada.send(&ada.get("/device"), "/device", &[("userCode", code)]);
    let asked = ada.send(&shown, "/device", &[("action", "approve")]);
    assert_eq!(asked.status, 401);
    asked.shows("Confirm that it is you");
    let denied = ada.send(&shown, "/device", &[("action", "deny")]);
    assert_eq!(denied.location(), "/account");
    ada.get("/account").shows("The command line was not let in.");
    let finish = json!({"deviceCode": begun["deviceCode"]});
    ask("/auth/device-sign-ins/finish", finish).refused(400, "access_denied");
}
