//! What people do from the first link on, in a real browser, with scripts on and off.

use serde_json::json;

use crate::client::pick;
use crate::server::{PASSWORD, Running};
use crate::webdriver::{Browser, Driver, driver};

/// Runs a journey twice.
pub fn with_and_without_scripts(journey: fn(&Driver, bool)) {
    let Some(driver) = driver() else { return };
    for scripts in [true, false] {
        journey(&driver, scripts);
    }
}

/// Signs in through the page.
pub fn sign_in(browser: &Browser, server: &Running, email: &str) {
    browser.open(&format!("http://{}/sign-in", server.address));
    browser.fill("#f-email", email);
    browser.fill("#f-password", PASSWORD);
    browser.click("main button.primary");
    browser.shows("Today");
}

/// Fills the form of the setup for Ada of Acme, and sends it.
pub fn set_up(browser: &Browser) {
    for (field, text) in [
        ("orgName", "Acme"),
        ("slug", "acme"),
        ("name", "Ada"),
        ("email", "ada@acme.test"),
        ("password", PASSWORD),
    ] {
        browser.fill(&format!("#f-{field}"), text);
    }
    browser.click("main button.primary");
    browser.shows("Today");
}

#[test]
fn a_person_sets_the_server_up_and_signs_out() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::bare();
        let browser = driver.browser(1280, 800, scripts);
        let home = format!("http://{}", server.address);
        let link = format!("{home}/setup#{}", server.setup_token());
        browser.open(&link);
        if scripts {
            browser.shows("Organization");
            assert_eq!(browser.url(), format!("{home}/setup"), "no token in the address");
        } else {
            browser.fill("#f-link", &link);
        }
        set_up(&browser);
        assert_eq!(browser.url(), format!("{home}/o/acme"));
        let api = server.api("ada@acme.test");
        let organizations = api.get("/organizations").items();
        assert_eq!(organizations.len(), 1);
        assert_eq!(pick(&organizations[0], "slug name"), json!(["acme", "Acme"]));
        let owner = &api.get("/organizations/members").items()[0];
        let stored = pick(owner, "name email role");
        assert_eq!(stored, json!(["Ada", "ada@acme.test", "owner"]));
        assert_eq!(api.get("/auth/sessions").items().len(), 2);
        browser.click(".side form[action='/sign-out'] button");
        browser.shows("Sign in");
        // The page that was left is not shown again, although the browser has kept it.
        browser.shows("You are signed out.");
        browser.back();
        browser.shows("E-mail address");
        assert!(!browser.text().contains("Today"), "{}", browser.text());
        browser.open(&format!("{home}/o/acme"));
        browser.shows("E-mail address");
        assert_eq!(api.get("/auth/sessions").items().len(), 1, "that of the API");
        // The link says that it was used before six fields are filled.
        browser.open(&link);
        browser.shows("The setup link has been used, and there is no other.");
        assert_eq!(browser.run("return document.querySelector('main form')"), json!(null));
        assert_eq!(api.get("/organizations").items().len(), 1);
    });
}

#[test]
fn an_invited_person_joins_once_from_the_link() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let ada = driver.browser(1280, 800, scripts);
        sign_in(&ada, &server, "ada@acme.test");
        ada.open(&format!("http://{}/o/acme/settings/members", server.address));
        ada.click(".head a.primary");
        ada.fill("#f-email", "ben@acme.test");
        ada.click("main button.primary");
        ada.shows("It is not shown again.");
        let link = ada.run("return document.querySelector('[data-copy]').dataset.copy");
        let link = link.as_str().unwrap().to_string();
        assert!(link.contains("/invitations#"), "{link}");
        let look = |browser: &Browser| {
            browser.open(&link);
            if !scripts {
                browser.fill("#f-link", &link);
                browser.click("main button.primary");
            }
        };
        let join = |browser: &Browser| {
            look(browser);
            // Who invites where is said before anything is entered.
            browser.shows("Ada invites ben@acme.test to Acme, as a member.");
            browser.fill("#f-name", "Ben");
            browser.fill("#f-password", PASSWORD);
            browser.click("main button.primary");
        };
        let ben = driver.browser(390, 844, scripts);
        join(&ben);
        ben.shows("You are a member now.");
        ben.shows("Today");
        let stored = || {
            let members = server.ada().get("/organizations/members").items();
            let of_ben = members.iter().filter(|member| member["email"] == "ben@acme.test");
            of_ben.map(|member| pick(member, "name role emailVerified")).collect::<Vec<_>>()
        };
        assert_eq!(stored(), [json!(["Ben", "member", false])]);
        assert!(server.ada().get("/organizations/invitations").items().is_empty());
        let other = driver.browser(390, 844, scripts);
        look(&other);
        other.shows("There is no such invitation");
        assert_eq!(stored(), [json!(["Ben", "member", false])]);
    });
}

#[test]
fn a_prompt_with_a_mistake_is_mended_and_published() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.registry();
        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}/o/acme/registries/main/new", server.address));
        browser.fill("#f-name", "notes");
        browser.click("main button.primary");
        browser.fill("#f-source", "Hello {{WHO}}.\n{{ import \"tone\" }}");
        if scripts {
            // While one types, without sending anything.
            browser.shows("Line 2, column 1");
            browser.click("#checked [data-line]");
            let at = browser.run("return document.getElementById('f-source').selectionStart");
            assert_eq!(at, 15);
        }
        browser.click("button[value=publish]");
        browser.shows("Check what you entered");
        browser.shows("Line 2, column 1");
        let text = "Hello {{WHO}}.\n{{ import \"tone\" }}";
        assert_eq!(browser.value("#f-source"), text);
        assert!(server.ada().get("/registries/artifacts?registryRef=main").items().is_empty());
        server.publish("promptlet", "tone", "1.0.0", "Be brief.");
        browser.click("button[value=check]");
        browser.shows("Policies accept it");
        browser.click("button[value=publish]");
        browser.shows("The version was published.");
        let path = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
        let stored = server.ada().get(path).ok();
        assert_eq!(pick(&stored, "source version"), json!([text, "1.0.0"]));
        browser.fill("[name='v.WHO']", "you");
        browser.click(".preview button");
        browser.shows("Hello you.");
    });
}

#[test]
fn unsent_text_is_kept_by_the_browser_until_signing_out() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.registry();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let editor = format!("http://{}/o/acme/prompts/main/notes/edit", server.address);
    browser.open(&editor);
    browser.fill("#f-source", "Not sent.");
    browser.shows("Not saved yet");
    let kept = || {
        browser.run("return Object.keys(localStorage).filter(k => k.startsWith('draft:')).length")
    };
    crate::client::eventually("a draft", || (kept() == 1).then_some(()));
    browser.run("addEventListener('beforeunload', (e) => e.stopImmediatePropagation(), true)");
    browser.open(&editor);
    browser.click("form[data-draft] > button");
    assert_eq!(browser.value("#f-source"), "Not sent.");
    // An answer that accepts nothing, as of a registry that was deleted meanwhile, leaves it.
    browser.run("document.querySelector('#save').action = '/o/acme/prompts/none/notes/edit'");
    browser.click("button[value=draft]");
    browser.shows("Not found");
    assert_eq!(kept(), 1);
    let drafts = "/prompts/notes/drafts?registryRef=main&artifactType=prompt";
    assert!(server.ada().get(drafts).items().is_empty());
    browser.open(&editor);
    browser.click("form[data-draft] > button");
    assert_eq!(browser.value("#f-source"), "Not sent.");
    browser.click("button[value=draft]");
    browser.shows("The draft was saved.");
    assert_eq!(kept(), 0);
    assert_eq!(server.ada().get(drafts).items()[0]["body"], "Not sent.");
}
