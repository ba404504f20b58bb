//! From the first link on: setting up, signing in and out, invitations, one's account.

use serde_json::{Value, json};

use crate::client::{Caller, Reply, eventually, pick};
use crate::server::{PASSWORD, Running};

fn cookie(reply: &Reply, part: &str) -> Option<String> {
    let cookies = reply.headers.iter().filter(|(name, _)| name == "set-cookie");
    cookies.map(|(_, value)| value.clone()).find(|value| value.contains(part))
}

/// The names and roles of the members that are stored, newest first.
fn roles(api: &Caller) -> Vec<Value> {
    let members = api.get("/organizations/members").items();
    members.iter().map(|member| pick(member, "name role")).collect()
}

/// The status of signing in with this password.
fn try_password(server: &Running, email: &str, password: &str) -> u16 {
    let body = json!({"email": email, "password": password});
    server.anonymous().ask("POST", "/auth/sign-in").json(&body).send().status
}

#[test]
fn a_server_is_set_up_with_the_pasted_link() {
    let server = Running::bare();
    let visitor = server.visitor();
    let page = visitor.get("/setup");
    page.shows("Set up Roadstead");
    let link = format!("http://127.0.0.1:7420/setup#{}", server.setup_token());
    let short = [
        ("link", &*link),
        ("orgName", "Acme"),
        ("slug", "acme"),
        ("name", "Ada"),
        ("email", "ada@acme.test"),
        ("password", "short"),
    ];
    let again = visitor.send(&page, "/setup", &short);
    assert_eq!(again.status, 400);
    again.shows("Check what you entered").shows("Password must be at least 12 characters.");
    assert_eq!(again.field("/setup", "orgName"), "Acme");
    assert!(!again.text.contains("short\""), "a password is never shown");
    let late = server.visitor();
    let kept = late.get("/setup");
    let mut good = short;
    good[5].1 = PASSWORD;
    let home = visitor.submit(&again, "/setup", &good);
    assert_eq!(home.status, 200, "{}", home.words());
    home.shows("Today").shows("Acme");
    // Once.
    assert_eq!(server.visitor().send(&page, "/setup", &good).status, 200, "of another visitor");
    assert_eq!(late.send(&kept, "/setup", &good).status, 404);
    let api = server.api("ada@acme.test");
    let stored = api.get("/organizations").items();
    assert_eq!(stored.len(), 1);
    assert_eq!(pick(&stored[0], "slug name"), json!(["acme", "Acme"]));
    let members = api.get("/organizations/members").items();
    assert_eq!(members.len(), 1);
    assert_eq!(pick(&members[0], "name email role"), json!(["Ada", "ada@acme.test", "owner"]));
    // The link says so before six fields are filled.
    late.get("/setup").shows("This server is set up").hides("Setup link");
}

#[test]
fn a_new_organization_lists_its_first_steps_until_something_is_deployed() {
    let server = Running::new();
    server.add("ben", "member");
    let ada = server.signed_in("ada@acme.test");
    let todo = || ada.get("/o/acme").words().matches("To do").count();
    assert_eq!(todo(), 7);
    server.signed_in("ben@acme.test").get("/o/acme").hides("To do").shows("Nothing is here yet.");
    server.registry();
    assert_eq!(todo(), 6);
    // Newer ones without a prompt hide none.
    for number in 0..21 {
        let slug = format!("empty-{number}");
        server.ada().post("/registries", json!({"slug": slug, "name": slug})).ok();
    }
    server.publish("prompt", "notes", "1.0.0", "Hello.");
    assert_eq!(todo(), 5);
    let api = server.ada();
    let draft = json!({"registryRef": "acme/main", "promptName": "notes", "promptVersion": "*",
        "model": "m", "provider": "p"});
    api.post("/agents", json!({"stableKey": "scribe", "name": "Scribe", "draft": draft})).ok();
    api.post("/environments", json!({"slug": "production", "name": "Production"})).ok();
    assert_eq!(todo(), 3);
    api.post("/api-keys", json!({"name": "ci"})).ok();
    assert_eq!(todo(), 2);
    let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    api.post("/agents/deployments", job).ok();
    eventually("it is deployed", || {
        (!ada.get("/o/acme").words().contains("The first steps")).then_some(())
    });
}

#[test]
fn after_signing_out_the_old_cookie_opens_nothing() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme").shows("Today");
    let stolen = ada.clone();
    let page = ada.get("/account");
    let out = ada.send(&page, "/sign-out", &[]);
    assert_eq!(out.location(), "/sign-in");
    assert_eq!(out.reply.header("clear-site-data"), Some("\"cache\", \"storage\""));
    let forgets = |page: &crate::visitor::Page| page.reply.header("clear-site-data").is_some();
    let picture = stolen.get("/signed-out");
    let cleared = picture.reply.header("clear-site-data");
    assert_eq!(cleared, Some("\"cache\""));
    assert_eq!(picture.reply.header("content-type"), Some("image/svg+xml"));
    let page = ada.get("/sign-in");
    assert!(page.shows("You are signed out.").text.contains("src=\"/signed-out\""));
    assert!(!ada.get("/sign-in").text.contains("/signed-out"), "once");
    assert!(!forgets(&server.signed_in("ada@acme.test").get("/signed-out")));
    for visitor in [&ada, &stolen] {
        assert_eq!(visitor.get("/o/acme").location(), "/sign-in?return=%2Fo%2Facme");
    }
    let set = server.visitor();
    let page = set.get("/sign-in");
    let fields = [("email", "ada@acme.test"), ("password", PASSWORD)];
    let session = set.send(&page, "/sign-in", &fields).reply;
    let session = cookie(&session, "roadstead_").unwrap();
    assert!(session.contains("HttpOnly; SameSite=Strict"), "{session}");
    assert!(!session.contains("Secure"), "on loopback: {session}");
}

#[test]
fn signing_in_leads_to_the_page_that_was_asked_for_and_never_elsewhere() {
    let server = Running::new();
    let visitor = server.visitor();
    let asked = visitor.get("/o/acme/prompts?type=prompt");
    let page = visitor.get(asked.location());
    let wrong = [("email", "ada@acme.test"), ("password", "wrong horse battery")];
    let again = visitor.send(&page, "/sign-in", &wrong);
    assert_eq!(again.status, 401);
    again.shows("The e-mail address or the password is wrong.");
    let fields = [("email", "ada@acme.test"), ("password", PASSWORD)];
    let reply = visitor.send(&again, "/sign-in", &fields);
    assert_eq!(reply.location(), "/o/acme/prompts?type=prompt");
    let visitor = server.visitor();
    let page = visitor.get("/sign-in?return=//evil.test");
    assert_eq!(visitor.send(&page, "/sign-in", &fields).location(), "/");
}

#[test]
fn cookies_are_for_tls_only_unless_the_host_is_this_machine() {
    let server = Running::new();
    let visitor = server.visitor();
    let request = |headers: &[(&str, &str)]| visitor.request("GET", "/sign-in", headers, "");
    let plain = request(&[]);
    plain.hides("not encrypted");
    let proxied = request(&[("X-Forwarded-Proto", "https"), ("Sec-Fetch-Site", "none")]);
    let set = cookie(&proxied.reply, "__Host-roadstead-visitor=").unwrap();
    assert!(set.ends_with("; Secure"), "{set}");
    let transport = "strict-transport-security";
    assert!(proxied.reply.header(transport).is_some());
    assert!(plain.reply.header(transport).is_none());
    // What browsers are told is of all ports of a host.
    let ask = |host: &str| {
        let head = format!("GET /sign-in HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: https\r\n");
        crate::client::raw(server.address, format!("{head}Connection: close\r\n\r\n").as_bytes())
    };
    for (host, is_told) in
        [("agents.test", true), ("agents.test:443", true), ("agents.test:8443", false)]
    {
        assert_eq!(ask(host).header(transport).is_some(), is_told, "{host}");
    }
    let bytes = b"GET /sign-in HTTP/1.1\r\nHost: agents.test\r\nConnection: close\r\n\r\n";
    let open = crate::client::raw(server.address, bytes);
    let words = crate::html::text(&open.text());
    for part in ["not encrypted", "--tls-cert", "--tls acme", "--tls self-signed", "a proxy"] {
        assert!(words.contains(part), "no {part} in {words}");
    }
}

#[test]
fn an_invited_person_joins_once() {
    let server = Running::new();
    let token = server.invite("ben@acme.test", "member");
    let ben = server.visitor();
    let page = ben.get("/invitations");
    let said = ben.send(&page, "/invitations", &[("link", &*token), ("action", "look")]);
    said.shows("Ada invites ben@acme.test to Acme, as a member.");
    let fields = [("link", &*token), ("name", "Ben"), ("password", PASSWORD)];
    let home = ben.submit(&page, "/invitations", &fields);
    home.shows("Welcome").shows("Acme");
    assert_eq!(roles(&server.ada()), [json!(["Ben", "member"]), json!(["Ada", "owner"])]);
    let other = server.visitor();
    let page = other.get("/invitations");
    for more in [&[][..], &[("action", "look")]] {
        let again = other.send(&page, "/invitations", &[&fields[..], more].concat());
        assert_eq!(again.status, 404);
        again.shows("There is no such invitation").shows("ask for a new one");
    }
    let again = other.send(&page, "/invitations", &fields);
    again.shows("There is no such invitation");
    assert_eq!(roles(&server.ada()), [json!(["Ben", "member"]), json!(["Ada", "owner"])]);
}

#[test]
fn someone_with_an_account_joins_another_organization_in_their_session() {
    let server = Running::new();
    server.add("ben", "member");
    let ben = server.signed_in("ben@acme.test");
    let page = ben.get("/organizations/new");
    let fields = [("name", "Globex"), ("slug", "globex")];
    ben.submit(&page, "/organizations/new", &fields).shows("Globex").shows("Acme");
    let globex = server.api("ben@acme.test").about("globex");
    let invited = json!({"email": "ada@acme.test", "role": "member"});
    let made = globex.post("/organizations/members", invited).ok();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get("/invitations");
    page.shows("You are signed in as ada@acme.test");
    assert_eq!(roles(&globex).len(), 1);
    let fields = [("link", made["token"].as_str().unwrap())];
    ada.submit(&page, "/invitations", &fields).shows("Globex");
    let stored = roles(&globex);
    assert!(stored.len() == 2 && stored.contains(&json!(["Ada", "member"])), "{stored:?}");
}

#[test]
fn a_person_sees_and_ends_their_sessions_and_changes_their_password() {
    let server = Running::new();
    let (ada, other) = (server.signed_in("ada@acme.test"), server.signed_in("ada@acme.test"));
    let page = ada.get("/account");
    page.shows("This one");
    let named = ada.submit(&page, "/account", &[("name", "Ada Lovelace")]);
    named.shows("Your account was saved.").shows("Ada Lovelace");
    let refused = ada.send(&named, "/account", &[("name", "")]);
    assert_eq!(refused.status, 400);
    refused.shows("Must not be empty.");
    let stored = server.ada().get("/auth/user").ok()["name"].clone();
    assert_eq!(stored, "Ada Lovelace");
    let ended = ada.submit(&named, "/account/sessions/end", &[]);
    ended.shows("The session was signed out.");
    assert_eq!(other.get("/account").status, 303);

    let other = server.signed_in("ada@acme.test");
    let page = ada.get("/account/password");
    let fields = [("currentPassword", "wrong"), ("newPassword", "another battery staple")];
    let wrong = ada.send(&page, "/account/password", &fields);
    assert_eq!(wrong.status, 403);
    wrong.shows("The current password is wrong.");
    let fields = [("currentPassword", PASSWORD), ("newPassword", "another battery staple")];
    ada.submit(&wrong, "/account/password", &fields).shows("Your password was changed");
    assert_eq!(other.get("/account").status, 303);
    assert_eq!(try_password(&server, "ada@acme.test", PASSWORD), 401);
    assert_eq!(try_password(&server, "ada@acme.test", "another battery staple"), 200);
}

#[test]
fn a_form_sent_after_its_session_ended_is_shown_again_filled() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let edit = "/o/acme/prompts/main/notes/edit";
    let page = ada.get(edit);
    server.api("ada@acme.test").delete("/auth/sessions").ok();
    let text = "First line\n\n  <b>second</b> & \"third\" line";
    let fields = [("source", text), ("version", "2.0.0"), ("action", "publish")];
    let over = ada.send(&page, edit, &fields);
    assert_eq!(over.status, 401);
    over.shows("Your session is over.");
    let wrong = [("email", "ada@acme.test"), ("password", "wrong horse battery")];
    let again = ada.send(&over, "/sign-in", &wrong);
    let signed = [("email", "ada@acme.test"), ("password", PASSWORD)];
    let shown = ada.send(&again, "/sign-in", &signed);
    assert_eq!(shown.status, 200, "{}", shown.words());
    shown.shows("was not sent yet");
    // A script gives it its own address, by which the browser also keeps what is typed.
    assert!(
        shown.text.contains(&format!(" data-at=\"{edit}\"")) && !page.text.contains("data-at=")
    );
    assert_eq!(shown.field(edit, "source"), text);
    assert_eq!(shown.field(edit, "version"), "2.0.0");
    ada.submit(&shown, edit, &[("action", "publish")]).shows("The version was published.");
    let path = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
    assert_eq!(server.api("ada@acme.test").get(path).ok()["source"], text);
}

#[test]
fn a_link_sets_a_new_password_once() {
    let server = Running::new();
    server.add("ben", "member");
    let api = server.api("ada@acme.test").about("acme");
    let members = api.get("/organizations/members").items();
    let ben = members.iter().find(|one| one["email"] == "ben@acme.test").unwrap();
    let link = format!("/organizations/members/{}/password-reset", ben["userId"].as_str().unwrap());
    let token = api.post(&link, json!({})).ok()["token"].as_str().unwrap().to_string();
    let visitor = server.visitor();
    let page = visitor.get("/reset-password");
    let short = [("link", &*token), ("newPassword", "short")];
    visitor.send(&page, "/reset-password", &short).shows("12");
    assert_eq!(try_password(&server, "ben@acme.test", PASSWORD), 200);
    let fields = [("link", &*token), ("newPassword", "another long password")];
    visitor.submit(&page, "/reset-password", &fields).shows("Sign in");
    let again = visitor.send(&page, "/reset-password", &fields);
    assert_eq!(again.status, 404);
    assert_eq!(try_password(&server, "ben@acme.test", PASSWORD), 401);
    let page = visitor.get("/sign-in");
    let fields = [("email", "ben@acme.test"), ("password", "another long password")];
    visitor.submit(&page, "/sign-in", &fields).shows("Acme");
}
