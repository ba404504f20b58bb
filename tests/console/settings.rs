//! Members, keys, grants and providers; why someone may do something.

use serde_json::json;

use crate::client::eventually;
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::Running;

const KEYS: &str = "/o/acme/settings/keys";
const NEW_KEY: &str = "/o/acme/settings/keys/new";
const ACCESS: &str = "/o/acme/settings/access";

/// The key that a page shows.
fn key_on(words: &str) -> String {
    let found = words.split_whitespace().find(|word| word.starts_with("rsk_"));
    found.unwrap().to_string()
}

/// What a page shows once, as it is copied.
fn shown_once(page: &crate::visitor::Page) -> String {
    let tags = crate::html::tags(&page.text);
    tags.iter().find_map(|tag| tag.get("data-copy")).unwrap().to_string()
}

#[test]
fn a_key_is_shown_once_and_works_until_it_is_revoked() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    ada.get(KEYS).shows("There are no keys yet.");
    let form = ada.get(NEW_KEY).form(NEW_KEY);
    let mut fields = form.fields.clone();
    fields.retain(|(name, _)| !name.contains("allowApproveAs"));
    for (name, value) in [("name", "CI"), ("access", "scopes"), ("scopes", "member:read")] {
        fields.iter_mut().find(|(known, _)| known == name).unwrap().1 = value.into();
    }
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let headers = [("Sec-Fetch-Site", "same-origin"), ("Accept-Encoding", "gzip, br")];
    let made = ada.post(NEW_KEY, &headers, &body);
    made.shows("It is not shown again.");
    assert_eq!(made.reply.header("content-encoding"), None, "a secret beside what others choose");
    assert_eq!(made.reply.header("cache-control"), Some("no-store"));
    let key = shown_once(&made);
    let api = server.anonymous().with_key(&key);
    assert_eq!(api.get("/organizations/members").status, 200);
    assert_eq!(api.get("/tools").status, 403, "it has the scope alone");

    let list = ada.get(KEYS);
    list.shows("CI").shows("member:read");
    assert!(!list.text.contains(&key));
    let revoke = list.links().into_iter().find(|link| link.ends_with("/delete")).unwrap();
    let page = ada.get(&revoke);
    page.shows("Revoke the key CI?").shows("refused from the next request on");
    ada.submit(&page, &revoke, &[]).shows("The key was revoked.");
    assert_eq!(api.get("/organizations/members").status, 401);
}

#[test]
fn a_key_is_rotated_and_the_list_says_whether_the_old_one_is_still_used() {
    let server = Running::new();
    let made = server.ada().post("/api-keys", json!({"name": "CI"})).ok();
    let old = server.anonymous().with_key(made["key"].as_str().unwrap());
    let rotate = format!("{KEYS}/{}/rotate", made["id"].as_str().unwrap());
    let ada = server.signed_in("ada@acme.test");
    assert!(ada.get(KEYS).links().contains(&rotate));
    let page = ada.get(&rotate);
    page.shows("Rotate the key CI").shows("The old key goes on working for");
    let done = ada.submit(&page, &rotate, &[("overlapSecs", "3600")]);
    done.shows("It is not shown again.");
    let new = server.anonymous().with_key(&shown_once(&done));
    let list = ada.get(KEYS);
    list.shows("Rotated, and not used since");
    assert!(!list.links().contains(&rotate));
    assert_eq!([old.get("/tools").status, new.get("/tools").status], [200, 200]);
    eventually("noting the use", || {
        ada.get(KEYS).words().contains("Rotated, and still used").then_some(())
    });
}

#[test]
fn what_is_wrong_with_a_key_is_said_at_its_field() {
    let server = Running::new();
    server.add("ben", "member");
    let ben = server.signed_in("ben@acme.test");
    let page = ben.get(NEW_KEY);
    page.hides("Approves deployments in the name");
    let fields =
        [("name", ""), ("access", "scopes"), ("scopes", "artifact:publish, artefact:read")];
    let refused = ben.send(&page, NEW_KEY, &fields);
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("href=\"#f-scopes\""), "{}", refused.text);
    assert!(refused.text.contains("href=\"#f-name\""), "{}", refused.text);
    assert_eq!(refused.field(NEW_KEY, "scopes"), "artifact:publish, artefact:read");
}

#[test]
fn a_person_is_invited_appointed_and_removed() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let invite = "/o/acme/settings/invite";
    let page = ada.get(invite);
    let made = ada.send(&page, invite, &[("email", "ben@acme.test"), ("role", "member")]);
    made.shows("It is not shown again.");
    let link = shown_once(&made);
    assert!(link.contains("/invitations#"), "{link}");
    let ben = server.visitor();
    let page = ben.get("/invitations");
    let fields = [("link", link.as_str()), ("name", "Ben"), ("password", crate::server::PASSWORD)];
    ben.submit(&page, "/invitations", &fields).shows("You are a member now.");

    let member = |name: &str| {
        let list = ada.get("/o/acme/settings/members");
        let tags = crate::html::tags(&list.text);
        let link = tags.iter().find(|tag| tag.name == "a" && tag.text == name).unwrap();
        link.get("href").unwrap().to_string()
    };
    let path = member("Ben");
    let page = ada.get(&path);
    let saved = ada.submit(&page, &path, &[("role", "admin"), ("action", "role")]);
    saved.shows("The member was saved.").shows("Admin");
    let stored = || {
        let members = server.ada().get("/organizations/members").items();
        members.into_iter().find(|member| member["email"] == "ben@acme.test")
    };
    assert_eq!(stored().unwrap()["role"], "admin");
    ben.get("/o/acme/settings/access").shows("Explain access");
    let link = ada.send(&saved, &path, &[("action", "password")]);
    link.shows("/reset-password#");
    let own = member("Ada");
    ada.get(&own).hides("Make a link").shows("Leave the organization");
    let page = ada.get(&format!("{own}/delete"));
    ada.send(&page, &format!("{own}/delete"), &[]).shows("owner");
    let page = ada.get(&format!("{path}/delete"));
    ada.submit(&page, &format!("{path}/delete"), &[]).shows("The member was removed.");
    assert_eq!((ben.get("/o/acme").status, stored()), (404, None));
}

#[test]
fn every_action_that_can_be_asked_about_is_one() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(ACCESS);
    let tags = crate::html::tags(&page.text);
    let values = tags.iter().filter(|tag| tag.name == "option").filter_map(|tag| tag.get("value"));
    let who = values.clone().find(|value| value.starts_with("user:")).unwrap();
    let actions: Vec<_> = values.clone().filter(|value| value.contains('.')).collect();
    assert!(actions.len() > 10, "{actions:?}");
    for action in actions {
        ada.get(&format!("{ACCESS}?who={who}&action={action}")).shows("Allowed");
    }
    ada.get(&format!("{ACCESS}?who={who}&action=no.such")).shows("must be the name of an action");
}

#[test]
fn a_grant_answers_why_a_member_may_use_what_is_restricted() {
    let server = Running::new();
    server.add("ben", "member");
    let body = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
    let id = server.ada().post("/environments", body).id();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(ACCESS);
    let tags = crate::html::tags(&page.text);
    let ben = tags.iter().find(|tag| tag.name == "option" && tag.text == "ben").unwrap();
    let ask = format!(
        "{ACCESS}?who={}&action=environment.get&resource=environment:{id}",
        ben.get("value").unwrap()
    );
    ada.get(&ask).shows("Refused").shows("ask an organization admin").hides("See the grants");
    let new = "/o/acme/settings/grants/new";
    let page = ada.get(new);
    let user = ben.get("value").unwrap().trim_start_matches("user:");
    let granted = ada.submit(&page, new, &[("userId", user)]);
    granted.shows("Access was granted.").shows("Vault (environment)");
    ada.get(&ask).shows("Allowed").shows("there is a grant for it");
    // What is wrong with its kind is said where it is chosen.
    let refused = ada.send(&ada.get(new), new, &[("resource", "nothing:1")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("resource") && refused.text.contains("href=\"#f-resource\""));
    let stored = || server.ada().get("/access-grants").items();
    assert_eq!((stored().len(), &stored()[0]["resourceId"]), (1, &json!(id)));
    let remove = "/o/acme/settings/grants/remove";
    ada.submit(&granted, remove, &[]).shows("The grant was removed.");
    assert!(stored().is_empty());
    ada.get(&ask).shows("Refused");
    let other = server.signed_in("ben@acme.test");
    assert_eq!(other.get(&ask).status, 403);
    other.get("/o/acme/settings/members").hides("Explain access").hides("Invite a person");
}

#[test]
fn a_person_makes_a_key_uses_it_and_revokes_it() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}{KEYS}", server.address));
        browser.click("main a.primary");
        browser.fill("#f-name", "CI");
        browser.click("main button.primary");
        browser.shows("It is not shown again.");
        let key = key_on(&browser.text());
        let api = server.anonymous().with_key(&key);
        assert_eq!(api.get("/organizations/members").status, 200);
        browser.click("main a.primary");
        browser.shows("CI");
        assert!(!browser.text().contains(&key));
        browser.click("main td a.danger");
        browser.shows("Revoke the key CI?");
        browser.click("main button.danger");
        browser.shows("The key was revoked.");
        assert_eq!(api.get("/organizations/members").status, 401);
        // Who did it is in the audit log.
        eventually("an entry", || {
            let entries = server.ada().get("/audit-logs?action=api_key.delete").items();
            (entries.len() == 1).then_some(())
        });
        browser.open(&format!("http://{}/o/acme/operations/audit", server.address));
        browser.shows("api_key.delete");
    });
}

#[test]
fn a_person_asks_why_another_may() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.add("ben", "member");
        let body = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
        server.ada().post("/registries", body).ok();
        let browser = driver.browser(390, 844, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}{ACCESS}", server.address));
        let choose = |field: &str, label: &str| {
            browser.run(&format!(
                "for (const o of document.querySelector('#f-{field}').options) \
                 if (o.text === '{label}') o.selected = true;"
            ));
        };
        choose("who", "ben");
        choose("action", "Publish a version");
        choose("resource", "Vault (registry)");
        browser.click("main button.primary");
        browser.shows("Refused");
        browser.shows("This is restricted");
        choose("who", "Ada");
        browser.click("main button.primary");
        browser.shows("Allowed");
        browser.shows("open to owners and admins");
    });
}

#[test]
fn a_member_sees_who_a_service_account_is_and_no_form_for_it() {
    let server = Running::new();
    server.add("ben", "member");
    let account = server.ada().post("/organizations/service-accounts", json!({"name": "Release"}));
    let path = format!("/o/acme/settings/members/{}", account.id());
    let has_form =
        |page: &crate::visitor::Page| page.forms().iter().any(|form| form.action == path);
    let page = server.signed_in("ben@acme.test").get(&path);
    assert_eq!(page.status, 200, "{}", page.words());
    assert!(!has_form(page.shows("Release")));
    assert!(has_form(&server.signed_in("ada@acme.test").get(&path)));
}
