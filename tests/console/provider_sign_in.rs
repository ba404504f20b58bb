//! Signing in with a provider of the test's own, over TLS with an authority of its own.

use std::sync::Arc;

use roadstead::app::ServerConfig;
use roadstead::auth::oidc::OidcProvider;
use roadstead::auth::{SecondFactor, begin_second_factor};
use roadstead::base::Id;
use roadstead::store::Tx;
use serde_json::json;

use crate::oidc_provider::{Provider, person};
use crate::outside::SITES;
use crate::server::{PASSWORD, Running};
use crate::visitor::{Page, Visitor};

/// A provider at this domain, and a server that trusts it.
fn start(domain: &str) -> (Arc<Provider>, Running) {
    let provider = Provider::start(&SITES, domain);
    let config = ServerConfig { oidc: vec![provider.configured()], ..ServerConfig::default() };
    (provider, Running::with(config))
}

/// Opens a page as a browser does that another site leads there.
fn led_to(visitor: &Visitor, path: &str) -> Page {
    visitor.request("GET", path, &[("Sec-Fetch-Site", "cross-site")], "")
}

#[test]
fn the_invited_and_those_of_a_listed_domain_sign_in_without_a_password() {
    let (provider, server) = start("new-people.test");
    let visitor = server.visitor();
    let page = visitor.get("/sign-in?return=%2Fo%2Facme%2Fteams");
    page.shows("Sign in with Keycloak");
    let link = page.links().into_iter().find(|link| link.starts_with("/sign-in/oidc/kc")).unwrap();
    // Nobody has invited Grace.
    let url = visitor.get(&link).location().to_string();
    let back = provider.sign_in(&url, person("grace"), "ES256");
    let refused = led_to(&visitor, &back);
    assert_eq!(refused.status, 403);
    refused.shows("no account here and no open invitation");
    server.invite("grace@acme.test", "admin");
    let url = visitor.get(&link).location().to_string();
    let back = provider.sign_in(&url, person("grace"), "ES256");
    let done = led_to(&visitor, &back);
    assert_eq!(done.location(), "/o/acme/teams");
    // The browser, which another site has led here, keeps the session back at first.
    visitor.get("/o/acme/teams").shows("Teams");
    visitor.get("/account").shows("Sign-in with a provider").shows("grace@acme.test");
    let members = server.ada().get("/organizations/members").items();
    let grace = members.iter().find(|member| member["name"] == "grace").unwrap();
    assert_eq!(
        (grace["role"].clone(), grace["addressProved"].clone()),
        (json!("admin"), json!(true))
    );
    assert_eq!(grace["signInProviders"], json!(["kc"]));

    let rules = json!({"domains": [{"domain": "acme.test", "provider": "kc", "role": "member"}]});
    server.ada().put("/organizations/sign-in", rules).ok();
    let henry = server.visitor();
    let url = henry.get("/sign-in/oidc/kc").location().to_string();
    let back = provider.sign_in(&url, person("henry"), "RS256");
    assert_eq!(led_to(&henry, &back).location(), "/");
    henry.get("/o/acme").shows("Today");
    let entries = server.ada().get("/audit-logs?action=provider_session.sign_in").items();
    let detail = entries[0]["resource"]["detail"].as_str().unwrap();
    assert_eq!(entries[0]["actor"]["name"], "henry");
    assert!(detail.contains("kc: henry, joined"), "{detail}");
}

#[test]
fn who_has_a_password_signs_in_once_to_link_the_account_of_the_provider() {
    let (provider, server) = start("linked.test");
    let visitor = server.visitor();
    let begin = || visitor.get("/sign-in/oidc/kc").location().to_string();
    let back = provider.sign_in(&begin(), person("ada"), "ES256");
    assert_eq!(led_to(&visitor, &back).location(), "/account/links/new");
    let page = visitor.open("/account/links/new");
    page.shows("Sign in to it as usual once");
    let fields = [("email", "ada@acme.test"), ("password", PASSWORD)];
    let confirm = visitor.submit(&page, "/sign-in", &fields);
    confirm.shows("Link an account").shows("ada@acme.test");
    let wrong = visitor.send(&confirm, "/account/links/new", &[("password", "wrong horse")]);
    wrong.shows("The password is wrong");
    let account = visitor.submit(&wrong, "/account/links/new", &[("password", PASSWORD)]);
    account.shows("The account is linked").shows("Keycloak");
    visitor.send(&account, "/sign-out", &[]);
    // From then on the provider is enough, whatever the address there becomes.
    let mut moved = person("ada");
    moved["email"] = json!("elsewhere@acme.test");
    let back = provider.sign_in(&begin(), moved, "RS256");
    assert_eq!(led_to(&visitor, &back).location(), "/");
    let account = visitor.get("/account");
    let gone = visitor.submit(&account, "/account/links/remove", &[]);
    gone.shows("The account is not linked any more");
    for action in ["sign_in_link.create", "sign_in_link.delete", "provider_session.sign_in"] {
        let mut entries = server.ada().get(&format!("/audit-logs?action={action}")).items();
        entries.retain(|entry| entry["outcome"] == "success");
        assert_eq!(entries.len(), 1, "{action}");
    }
}

#[test]
fn an_answer_that_was_used_or_is_of_another_browser_signs_nobody_in() {
    let (provider, server) = start("replayed.test");
    server.invite("grace@acme.test", "member");
    let (grace, mallory) = (server.visitor(), server.visitor());
    let url = grace.get("/sign-in/oidc/kc?return=https%3A%2F%2Fevil.test").location().to_string();
    let back = provider.sign_in(&url, person("grace"), "ES256");
    // Mallory has intercepted it, and has begun a sign-in of their own, or none.
    led_to(&mallory, &back).shows("begun in another browser");
    mallory.get("/sign-in/oidc/kc").location();
    assert_eq!(led_to(&mallory, &back).status, 409);
    let attempt = grace.cookies.borrow().clone();
    assert_eq!(led_to(&grace, &back).location(), "/", "no other server");
    // The same again, with the attempt that the browser has forgotten.
    let again = server.visitor();
    again.cookies.borrow_mut().extend(attempt);
    let refused = led_to(&again, &back);
    assert_eq!(refused.status, 409);
    refused.shows("begin again");
}

#[test]
fn answers_for_which_a_provider_is_asked_are_limited_as_sign_ins_are() {
    let (provider, server) = start("guessed.test");
    let visitor = server.visitor();
    let mut statuses = Vec::new();
    for _ in 0..13 {
        let url = visitor.get("/sign-in/oidc/kc").location().to_string();
        let back = provider.sign_in(&url, person("ada"), "ES256");
        let guessed = back.replace("code=code-", "code=guessed-");
        statuses.push(led_to(&visitor, &guessed).status);
    }
    assert_eq!(statuses[0], 403, "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
}

/// Turns the second factor of somebody on, without their sessions noticing.
fn turn_on(server: &Running, user: &str) {
    let user = Id::parse(user);
    let turn_on = move |tx: &mut Tx| {
        begin_second_factor(tx, user)?;
        tx.fetch::<SecondFactor>(&user)?.turn_on(tx)
    };
    server.store.write_blocking(Id::NIL, turn_on).unwrap();
}

#[test]
fn before_a_provider_is_required_it_says_whom_that_one_keeps_out() {
    let provider = Provider::start(&SITES, "two.test");
    let (name, issuer) = ("other".to_string(), "https://other-of-two.test".to_string());
    let other = OidcProvider { name, issuer, ..provider.configured() };
    let oidc = vec![provider.configured(), other];
    let server = Running::with(ServerConfig { oidc, ..ServerConfig::default() });
    server.invite("grace@acme.test", "owner");
    let grace = server.visitor();
    let url = grace.get("/sign-in/oidc/kc").location().to_string();
    led_to(&grace, &provider.sign_in(&url, person("grace"), "ES256")).location();
    let settings = "/o/acme/settings/sign-in";
    let page = server.signed_in("ada@acme.test").get(settings);
    page.shows("at kc: Ada; at other: grace, Ada.");
    // Who administers only the organization is told of those alone of which it asks something.
    let untold = "not told before it is required";
    grace.get(settings).shows(&format!("at kc: {untold}; at other: {untold}."));
    let listed = json!({"domains": [{"domain": "acme.test", "provider": "kc", "role": "member"}]});
    server.ada().put("/organizations/sign-in", listed).ok();
    grace.get(settings).shows(&format!("at kc: Ada; at other: {untold}."));
}

#[test]
fn an_organization_that_requires_a_provider_refuses_passwords() {
    let (_, server) = start("required.test");
    server.add("ben", "member");
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get("/o/acme/settings/sign-in");
    page.shows("Providers of this server: kc.").shows("at kc: ben, Ada.");
    let session = server.ada().get("/auth/session").ok();
    let owner = session["user"]["id"].as_str().unwrap();
    turn_on(&server, owner);
    let fields =
        [("breakGlassUserId", owner), ("providers", "kc"), ("domains", "acme.test kc member\n")];
    let saved = ada.submit(&page, "/o/acme/settings/sign-in", &fields);
    saved.shows("The settings were saved");
    let expected =
        json!([{"domain": "acme.test", "provider": "kc", "role": "member", "grants": []}]);
    let stored = server.ada().get("/organizations/sign-in").ok();
    assert_eq!((&stored["domains"], &stored["providers"]), (&expected, &json!(["kc"])));
    let ben = server.api("ben@acme.test");
    ben.get("/teams").refused(403, "provider_required");
    let members = server.ada().get("/organizations/members").items();
    for (name, allowed) in [("ben", false), ("Ada", true)] {
        let member = members.iter().find(|member| member["name"] == name).unwrap();
        let id = member["userId"].as_str().unwrap();
        let path = format!("/access/explain?userId={id}&action=team.list");
        let why = server.ada().get(&path).ok();
        let rule = why["rules"].as_array().unwrap()[0].clone();
        assert_eq!(
            (&rule["rule"], &why["allowed"]),
            (&json!("provider"), &json!(allowed)),
            "{why}"
        );
    }
    // What is public is open to him as to anybody.
    let public = json!({"slug": "open", "name": "Open", "visibility": "public"});
    server.ada().post("/registries", public).ok();
    ben.get("/registries/artifacts?registryRef=acme/open").ok();
    ben.get("/auth/session").ok();
    server.ada().get("/teams").ok();
}
