//! The second factor: a journey without scripts, from turning it on to losing it.

use serde_json::json;

use crate::client::Caller;
use crate::client::second_factor::code_of;
use crate::server::{PASSWORD, Running};
use crate::visitor::{Page, Visitor, press};

const PATH: &str = "/account/second-factor";

/// The texts of a page between these marks.
fn between<'p>(page: &'p Page, begin: &str, end: &str) -> Vec<&'p str> {
    let parts = page.text.split(begin).skip(1);
    parts.filter_map(|part| part.split_once(end)).map(|(text, _)| text).collect()
}

/// Sends a form of a page with its button.
#[track_caller]
fn act(visitor: &Visitor, page: &Page, action: &str, fields: &[(&str, &str)]) -> Page {
    visitor.send(page, PATH, &[&[("action", action)][..], fields].concat())
}

/// The key that a page shows.
fn secret_on(page: &Page) -> String {
    between(page, "<dt>Key</dt><dd><code>", "</code>")[0].to_string()
}

/// The API with a key of Ada: her sessions end when one of them turns it on.
fn with_key(server: &Running) -> Caller {
    let key = server.ada().post("/api-keys", json!({"name": "look"})).ok();
    server.anonymous().with_key(key["key"].as_str().unwrap())
}

/// Whether it is stored that somebody has one.
fn is_on(api: &Caller, email: &str) -> bool {
    let members = api.get("/organizations/members").items();
    let found = members.iter().find(|member| member["email"] == email).unwrap();
    found["secondFactor"].as_bool().unwrap()
}

/// Turns it on; returns the secret and the recovery codes.
#[track_caller]
fn turn_on(visitor: &Visitor) -> (String, Vec<String>) {
    let page = visitor.get("/account");
    assert!(page.links().contains(&PATH.to_string()));
    let begun = act(visitor, &visitor.get(PATH), "begin", &[("password", PASSWORD)]);
    begun.shows("type the key into it");
    let secret = secret_on(&begun);
    let code = code_of(&secret, 0);
    let on = act(visitor, &begun, "confirm", &[("code", &*code)]);
    on.shows("They are not shown again.");
    let codes = between(&on, "<li><code>", "</code>");
    assert_eq!(codes.len(), 10, "{codes:?}");
    visitor.get("/account").shows("10 recovery codes left");
    (secret, codes.into_iter().map(String::from).collect())
}

#[test]
fn a_person_turns_it_on_signs_in_with_it_and_turns_it_off() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), with_key(&server));
    assert!(!is_on(&api, "ada@acme.test"));
    let (secret, codes) = turn_on(&ada);
    assert!(is_on(&api, "ada@acme.test"));

    let visitor = server.visitor();
    let asked = visitor.get("/o/acme/prompts?type=prompt");
    let page = visitor.get(asked.location());
    let password = [("email", "ada@acme.test"), ("password", PASSWORD)];
    let step = visitor.send(&page, "/sign-in", &password);
    assert_eq!(step.status, 200);
    step.shows("Code of your second factor").hides("E-mail address");
    assert!(!step.text.contains(PASSWORD));
    let wrong = visitor.send(&step, "/sign-in", &[("code", "000000")]);
    assert_eq!(wrong.status, 403);
    wrong.shows("The code is wrong");
    let code = code_of(&secret, 1);
    let done = visitor.send(&wrong, "/sign-in", &[("code", &*code)]);
    assert_eq!(done.location(), "/o/acme/prompts?type=prompt");
    visitor.get("/o/acme").shows("Today");

    let page = ada.get(PATH);
    page.shows("10 of 10");
    let off = act(&ada, &page, "off", &[("password", PASSWORD), ("code", &*codes[0])]);
    assert_eq!(off.location(), "/account");
    ada.get("/account").shows("Your second factor is off.");
    assert!(!is_on(&api, "ada@acme.test"));
    server.signed_in("ada@acme.test").get("/o/acme").shows("Today");
}

#[test]
fn a_wrong_password_and_a_wrong_code_turn_nothing_on_and_the_key_stays_on_the_page() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), with_key(&server));
    let wrong = act(&ada, &ada.get(PATH), "begin", &[("password", "wrong horse battery")]);
    assert_eq!(wrong.status, 403);
    wrong.shows("The password is wrong");
    let begun = act(&ada, &wrong, "begin", &[("password", PASSWORD)]);
    let secret = secret_on(&begun);
    assert!(begun.text.contains("aria-label=\"QR code of the key below\""));
    let wrong = act(&ada, &begun, "confirm", &[("code", "000000")]);
    assert_eq!(wrong.status, 403);
    wrong.shows("The code is wrong").shows(&secret);
    let other = act(&ada, &wrong, "confirm", &[("code", "1"), ("uri", "javascript:alert(1)")]);
    assert!(!other.text.contains("javascript:"), "{}", other.text);
    assert!(!is_on(&api, "ada@acme.test"));
    let code = code_of(&secret, 0);
    act(&ada, &wrong, "confirm", &[("code", &*code)]).shows("They are not shown again.");
    assert!(is_on(&api, "ada@acme.test"));
}

#[test]
fn what_was_entered_when_a_session_ended_comes_along_past_the_code() {
    let server = Running::new();
    let (ada, api) = (server.signed_in("ada@acme.test"), with_key(&server));
    let (secret, _) = turn_on(&ada);
    let form = ada.get("/o/acme/registries/new");
    let page = ada.get("/account");
    ada.send(&page, "/sign-out", &[]);
    let fields = [("name", "Kept"), ("slug", "kept")];
    let page = ada.send(&form, "/o/acme/registries/new", &fields);
    assert_eq!(page.status, 401);
    let password = [("email", "ada@acme.test"), ("password", PASSWORD)];
    let step = ada.send(&page, "/sign-in", &password);
    let code = code_of(&secret, 1);
    let resumed = ada.send(&step, "/sign-in", &[("code", &*code)]);
    resumed.shows("What you had entered is below");
    assert_eq!(resumed.field("/o/acme/registries/new", "name"), "Kept");
    assert!(api.get("/registries").items().is_empty(), "nothing is sent by itself");
    ada.submit(&resumed, "/o/acme/registries/new", &[]).shows("The registry was created.");
    assert_eq!(api.get("/registries").items()[0]["slug"], "kept");
}

#[test]
fn an_owner_requires_one_and_an_admin_resets_one() {
    let server = Running::new();
    server.add("ben", "member");
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    let api = with_key(&server);
    let members = "/o/acme/settings/members";
    let page = ada.get(members);
    let refused = press(&ada, &page, ("action", "require"), &[]);
    assert_eq!(refused.status, 409);
    refused.shows("Turn your own second factor on first");
    turn_on(&ada);
    let done = press(&ada, &ada.get(members), ("action", "require"), &[]);
    assert_eq!(done.path, members);
    done.shows("No longer require it");

    let shut = ben.get("/o/acme/prompts");
    assert_eq!(shut.status, 403);
    shut.shows("requires a second factor of its members");
    assert!(shut.links().contains(&PATH.to_string()));
    turn_on(&ben);
    assert_eq!(ben.get("/o/acme/prompts").status, 200);
    assert!(is_on(&api, "ben@acme.test"));

    let link = ada
        .get(members)
        .links()
        .into_iter()
        .filter(|link| link.starts_with(&format!("{members}/")));
    let of_ben = link.map(|link| ada.get(&link)).find(|page| page.words().contains("ben@"));
    let of_ben = of_ben.expect("a page of ben");
    of_ben.shows("Reset the second factor");
    let path = of_ben.path.clone();
    let reset = ada.send(&of_ben, &path, &[("action", "second-factor")]);
    assert_eq!(reset.location(), path);
    ada.get(&path).shows("The second factor was reset.");
    assert!(!is_on(&api, "ben@acme.test"));
    assert_eq!(ben.get("/o/acme/prompts").status, 403);
    ben.get("/account").shows("An admin has turned it off");
}

#[test]
fn an_owner_sees_whom_a_required_second_factor_would_keep_out() {
    let server = Running::new();
    server.add("ben", "member");
    let ada = server.signed_in("ada@acme.test");
    let members = "/o/acme/settings/members";
    ada.open(members).shows("until they set one up: ben, Ada.");
    turn_on(&ada);
    let page = ada.open(members);
    page.shows("until they set one up: ben.");
    let required = press(&ada, &page, ("action", "require"), &[]);
    assert_eq!(required.path, members);
    ada.open(members).hides("until they set one up:");
}
