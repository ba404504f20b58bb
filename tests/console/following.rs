//! What waits is followed on every page of an organization, beside whatever the page is about.

use serde_json::json;

use crate::client::eventually;
use crate::journeys::sign_in;
use crate::server::Running;
use crate::webdriver::driver;

#[test]
fn every_page_of_an_organization_is_told_of_changes() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let main = |path: &str| {
        let page = ada.open(path);
        let tags = crate::html::tags(&page.text);
        let listens = tags
            .iter()
            .any(|tag| tag.get("src").is_some_and(|source| source.starts_with("/assets/live.")));
        let main = tags.into_iter().find(|tag| tag.name == "main").unwrap();
        let stream = main.get("data-stream").map(String::from);
        assert_eq!(listens, stream.is_some(), "{path}");
        (stream, main.get("data-changes").is_some())
    };
    let stream = || Some("/o/acme/live".to_string());
    for path in ["/o/acme", "/o/acme/deployments", "/o/acme/prompts/main"] {
        assert_eq!(main(path), (stream(), true), "{path}");
    }
    // Forms are not shown again while they are filled.
    for path in ["/o/acme/registries/new", "/o/acme/settings/organization", "/o/acme/search"] {
        assert_eq!(main(path), (stream(), false), "{path}");
    }
    assert_eq!(main("/account"), (None, false));
}

#[test]
fn a_form_that_is_being_filled_stays_and_says_how_much_waits() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}/o/acme/registries/new", server.address));
    browser.fill("#f-name", "Harbour");
    let title = || browser.run("return document.title");
    assert!(title().as_str().unwrap().starts_with("New registry"), "{}", title());
    let begins = |with: &str| {
        eventually("it is counted", || title().as_str().unwrap().starts_with(with).then_some(()));
    };
    let count = || browser.run("return document.getElementById('waits').textContent");
    let mail = |subject: &str| {
        let mail = json!({"fromAgentId": agent, "subject": subject, "body": "b"});
        server.ada().post(&format!("/teams/{team}/inbox"), mail).id()
    };
    let first = mail("the first");
    begins("(1) New registry");
    assert_eq!(count(), json!("1 for you"));
    mail("the second");
    begins("(2) New registry");
    server.ada().patch(&format!("/teams/{team}/messages/{first}"), json!({})).ok();
    begins("(1) New registry");
    assert_eq!(browser.value("#f-name"), "Harbour");
}
