//! The first hour in a real browser: what is to be done ticks itself off, and the demo's link signs in once.

use std::sync::Arc;

use roadstead::app::ServerConfig;
use roadstead::base::Time;
use roadstead::console::FirstVisit;
use serde_json::json;

use crate::client::{eventually, pick};
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::{PASSWORD, Running};
use crate::webdriver::driver;

#[test]
fn the_first_steps_lead_to_where_they_are_done_tick_themselves_off_and_go() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let api = server.ada();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let home = format!("http://{}/o/acme", server.address);
    browser.shows("The first steps");
    let left = || browser.run("return document.querySelectorAll('#steps li a').length");
    let all = left().as_u64().unwrap();
    assert!(all > 5, "{all}");
    let are_done = |number: u64| {
        let what = format!("{number} steps of {all} are done");
        eventually(&what, || (left() == all - number).then_some(()));
    };
    browser.click("#steps li a");
    browser.fill("#f-name", "Main");
    browser.click("main button.primary");
    browser.shows("The registry was created.");
    assert_eq!(api.get("/registries").items()[0]["slug"], "main");
    browser.open(&home);
    are_done(1);
    browser.click("#steps li a");
    browser.fill("#f-name", "notes");
    browser.click("main button.primary");
    browser.fill("#f-source", "Hello.");
    browser.click("button[value=publish]");
    browser.shows("The version was published.");
    let prompts = api.get("/registries/artifacts?registryRef=main").items();
    assert_eq!(pick(&prompts[0], "name latestVersion"), json!(["notes", "1.0.0"]));
    browser.open(&home);
    are_done(2);
    // What others do is ticked off while one looks; nothing is replaced under the pointer.
    browser.point_at("h1");
    let draft = json!({"registryRef": "acme/main", "promptName": "notes", "promptVersion": "*",
        "model": "m", "provider": "p"});
    api.post("/agents", json!({"stableKey": "scribe", "name": "Scribe", "draft": draft})).ok();
    are_done(3);
    api.post("/environments", json!({"slug": "production", "name": "Production"})).ok();
    are_done(4);
    api.post("/api-keys", json!({"name": "ci"})).ok();
    are_done(5);
    let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    api.post("/agents/deployments", job).ok();
    are_done(all);
    assert!(!browser.text().contains("The first steps"), "{}", browser.text());
}

#[test]
fn the_link_of_a_demo_opens_its_organization_once() {
    with_and_without_scripts(|driver, scripts| {
        let visit = Arc::new(FirstVisit::default());
        let first_visit = Some(visit.clone());
        let server = Running::with(ServerConfig { first_visit, ..ServerConfig::default() });
        let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
        let session = server.anonymous().ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
        let token = session["token"].as_str().unwrap();
        let offered = server.anonymous().with_bearer(token);
        visit.offer("the-token", token.into(), Time::from_millis(i64::MAX));
        let link = format!("http://{}/first-visit#the-token", server.address);
        let follow = || {
            let browser = driver.browser(1280, 800, scripts);
            browser.open(&link);
            if !scripts {
                browser.fill("#f-link", &link);
                browser.click("main button.primary");
            }
            browser
        };
        let first = follow();
        first.shows("Today");
        assert!(!first.url().contains("the-token"), "{}", first.url());
        let second = follow();
        second.shows("was used already");
        second.open(&format!("http://{}/o/acme", server.address));
        second.shows("E-mail address");
        // The browser has the session that was offered, and no other: signing out ends it.
        assert_eq!(offered.get("/auth/session").ok()["user"]["email"], "ada@acme.test");
        first.click(".side form[action='/sign-out'] button");
        first.shows("You are signed out.");
        assert_eq!(offered.get("/auth/session").status, 401);
    });
}
