//! Role and grants by what a provider says, and sessions that it ends.

use std::sync::Arc;

use roadstead::app::ServerConfig;
use serde_json::{Value, json};

use crate::oidc_provider::{Provider, person};
use crate::outside::SITES;
use crate::server::Running;
use crate::visitor::Visitor;

/// A provider at this domain, and a server that trusts it and lets the people of `acme.test` in.
fn start(domain: &str) -> (Arc<Provider>, Running) {
    let provider = Provider::start(&SITES, domain);
    let config = ServerConfig { oidc: vec![provider.configured()], ..ServerConfig::default() };
    let server = Running::with(config);
    let joining = json!({"domain": "acme.test", "provider": "kc", "role": "member"});
    server.ada().put("/organizations/sign-in", json!({"domains": [joining]})).ok();
    (provider, server)
}

/// Signs Grace in, who is in these groups.
fn sign_in(provider: &Provider, server: &Running, groups: Value) -> Visitor {
    let visitor = server.visitor();
    let url = visitor.get("/sign-in/oidc/kc").location().to_string();
    let mut grace = person("grace");
    (grace["groups"], grace["sid"]) = (groups, json!("session-1"));
    let back = provider.sign_in(&url, grace, "ES256");
    visitor.request("GET", &back, &[("Sec-Fetch-Site", "cross-site")], "").location();
    visitor
}

fn grace(server: &Running) -> Value {
    let members = server.ada().get("/organizations/members").items();
    members.into_iter().find(|member| member["name"] == "grace").unwrap()
}

/// The reason of a rule of why Grace may do something.
fn reason(server: &Running, rule: &str, question: &str) -> String {
    let id = grace(server)["userId"].as_str().unwrap().to_string();
    let why = server.ada().get(&format!("/access/explain?userId={id}&{question}")).ok();
    let rules = why["rules"].as_array().unwrap();
    let found = rules.iter().find(|known| known["rule"] == rule).unwrap();
    found["reason"].as_str().unwrap().to_string()
}

#[test]
fn an_owner_says_which_groups_are_what_and_everybody_sees_why() {
    let (provider, server) = start("rules.test");
    let hidden = json!({"slug": "hidden", "name": "Hidden", "access": "restricted"});
    let registry = server.ada().post("/registries", hidden).id();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get("/o/acme/settings/sign-in");
    let lines = format!("kc admin groups=site ops\nkc registry:{registry} team=writers");
    let saved = ada.submit(&page, "/o/acme/settings/sign-in", &[("rules", &*lines)]);
    saved.shows("The settings were saved");
    let stored = server.ada().get("/organizations/sign-in").ok();
    let grant = json!({"resourceType": "registry", "resourceId": registry});
    let expected = json!([
        {"provider": "kc", "claim": "groups", "value": "site ops", "role": "admin", "grants": []},
        {"provider": "kc", "claim": "team", "value": "writers", "role": null, "grants": [grant]},
    ]);
    assert_eq!(stored["rules"], expected);
    assert_eq!(stored["domains"].as_array().unwrap().len(), 1, "the others stay");
    assert_eq!(saved.field("/o/acme/settings/sign-in", "rules"), lines);
    let wrong = ada.submit(&saved, "/o/acme/settings/sign-in", &[("rules", "kc groups=ops")]);
    wrong.shows("must have a role or grants");
    let twice = [("rules", "kc admin member groups=ops")];
    ada.submit(&saved, "/o/acme/settings/sign-in", &twice).shows("admin member");
    assert_eq!(server.ada().get("/organizations/sign-in").ok()["rules"], expected);

    sign_in(&provider, &server, json!(["staff"]));
    assert_eq!(grace(&server)["role"], "member");
    sign_in(&provider, &server, json!(["staff", "site ops"]));
    assert_eq!(grace(&server)["role"], "admin");
    let why = reason(&server, "role", "action=registry.create");
    assert!(why.contains("by the rule groups=site ops of kc"), "{why}");
    let entries = server.ada().get("/audit-logs?action=member.apply_rules").items();
    assert_eq!(entries.len(), 1, "{entries:?}");
    // Who is in no group any more has the role of before.
    sign_in(&provider, &server, json!([]));
    assert_eq!(grace(&server)["role"], "member");
    let why = reason(&server, "role", "action=artifact_version.publish");
    assert!(!why.contains("rule"), "{why}");
}

#[test]
fn a_grant_of_a_rule_says_so() {
    let (provider, server) = start("granted.test");
    let hidden = json!({"slug": "hidden", "name": "Hidden", "access": "restricted"});
    let registry = server.ada().post("/registries", hidden).id();
    let joining = json!({"domain": "acme.test", "provider": "kc", "role": "member"});
    let grant = json!({"resourceType": "registry", "resourceId": registry});
    let rule = json!({"provider": "kc", "value": "writers", "grants": [grant]});
    let settings = json!({"domains": [joining], "rules": [rule]});
    server.ada().put("/organizations/sign-in", settings).ok();
    sign_in(&provider, &server, json!(["writers"]));
    let question =
        format!("action=artifact_version.publish&resourceType=registry&resourceId={registry}");
    let why = reason(&server, "grant", &question);
    assert!(why.contains("by the rule groups=writers of kc"), "{why}");
}

#[test]
fn a_provider_ends_the_sessions_of_who_has_signed_out_there() {
    let (provider, server) = start("logout.test");
    let grace = sign_in(&provider, &server, json!([]));
    grace.get("/account").shows("grace@acme.test");
    let path = "/sign-in/oidc/kc/logout";
    let somebody = server.visitor();
    let post = |body: &str| somebody.post(path, &[], body).status;
    // What is no token, of another issuer, or about somebody else, ends nothing.
    assert_eq!(post("logout_token=x"), 400);
    assert_eq!(post(""), 400);
    let other = json!({"sub": "grace", "iss": "https://evil.test"});
    assert_eq!(post(&provider.logout("1", &other)), 400);
    assert_eq!(post(&provider.logout("2", &json!({"sub": "henry"}))), 200);
    assert_eq!(somebody.post("/sign-in/oidc/nobody/logout", &[], "logout_token=x").status, 404);
    grace.get("/account").shows("grace@acme.test");
    let token = provider.logout("3", &json!({"sub": "grace", "sid": "session-1"}));
    assert_eq!(post(&token), 200);
    assert!(grace.get("/account").location().starts_with("/sign-in"));
    assert_eq!(post(&token), 400, "it is of use once");
    let entries = server.ada().get("/audit-logs?action=provider_session.end").items();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["actor"]["name"], "grace");
}

#[test]
fn an_owner_says_what_those_of_a_domain_are_granted_when_they_join() {
    let (provider, server) = start("joined.test");
    let hidden = json!({"slug": "hidden", "name": "Hidden", "access": "restricted"});
    let registry = server.ada().post("/registries", hidden).id();
    let (ada, path) = (server.signed_in("ada@acme.test"), "/o/acme/settings/sign-in");
    let line = format!("acme.test kc member registry:{registry}");
    let page = ada.get(path);
    let saved = ada.submit(&page, path, &[("domains", &*line)]);
    saved.shows("The settings were saved");
    assert_eq!(saved.field(path, "domains"), line);
    let unknown = [("domains", "acme.test kc member registry:none")];
    ada.submit(&saved, path, &unknown).shows("no such resource of the organization");
    ada.submit(&saved, path, &[("domains", "acme.test kc member admin")]).shows("member admin");
    let grant = json!({"resourceType": "registry", "resourceId": registry});
    let stored = server.ada().get("/organizations/sign-in").ok();
    assert_eq!(stored["domains"][0]["grants"], json!([grant]));
    sign_in(&provider, &server, json!([]));
    let grants = server.ada().get("/access-grants").items();
    assert_eq!((grants.len(), &grants[0]["userId"]), (1, &grace(&server)["userId"]));
}
