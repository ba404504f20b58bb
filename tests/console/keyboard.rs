//! The keys of the pages, and what they do while somebody is at work in them, in a real browser.

use serde_json::json;

use crate::client::eventually;
use crate::journeys::sign_in;
use crate::server::Running;
use crate::webdriver::{Browser, driver};

/// The letters after `g`, and where they lead below the organization's path.
const LETTERS: [(char, &str); 12] = [
    ('p', "/prompts"),
    ('a', "/agents"),
    ('d', "/deployments"),
    ('m', "/teams"),
    ('l', "/tools"),
    ('e', "/environments"),
    ('g', "/governance"),
    ('k', "/knowledge"),
    ('i', "/directory"),
    ('o', "/operations"),
    ('s', "/settings"),
    ('t', ""),
];

/// What has the focus.
fn focused(browser: &Browser) -> String {
    browser.run("return document.activeElement.textContent").as_str().unwrap().into()
}

#[test]
fn g_and_a_letter_lead_to_each_section_wide_and_narrow() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    for width in [1280, 390] {
        let browser = driver.browser(width, 800, true);
        sign_in(&browser, &server, "ada@acme.test");
        let home = format!("http://{}/o/acme", server.address);
        for (letter, path) in LETTERS {
            browser.keys(&format!("g{letter}"));
            let target = format!("{home}{path}");
            let is_there = || match path {
                "" => browser.url() == target,
                _ => browser.url().starts_with(&target),
            };
            eventually(&format!("g {letter} at {width} px"), || is_there().then_some(()));
            let marked = "return document.querySelector('.side [aria-current]') !== null";
            eventually("the section", || (browser.run(marked) == true).then_some(()));
        }
        // A letter that is nobody's leads nowhere, and neither does one of them alone.
        browser.keys("gzpg");
        browser.keys("?");
        browser.shows("Next row");
        assert_eq!(browser.url(), home);
        let listed = browser.run("return document.querySelector('dialog').innerText");
        for word in ["g m", "Teams", "g l", "Tools", "g i", "Directory", "Search"] {
            assert!(listed.as_str().unwrap().contains(word), "{word}: {listed}");
        }
    }
}

#[test]
fn j_and_k_walk_through_a_list_and_keys_are_switched_off() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.registry();
    for name in ["one", "two", "three"] {
        server.publish("prompt", name, "1.0.0", "Text.");
    }
    let browser = driver.browser(1280, 800, true);
    sign_in(&browser, &server, "ada@acme.test");
    let list = format!("http://{}/o/acme/prompts/main", server.address);
    browser.open(&list);
    let rows = browser.run(
        "return [...document.querySelectorAll('[data-rows] tbody a')].map((a) => a.textContent)",
    );
    let row = |at: usize| rows[at].as_str().unwrap().to_string();
    for (key, at) in [("j", 0), ("j", 1), ("j", 2), ("j", 2), ("k", 1), ("k", 0), ("k", 0)] {
        browser.keys(key);
        assert_eq!(focused(&browser), row(at), "{key}");
    }
    // What is typed in a field is text.
    browser.keys("/");
    assert_eq!(browser.run("return document.activeElement.matches('[data-find]')"), true);
    browser.press(".side [data-find]", "gp?j");
    assert_eq!(browser.value(".side [data-find]"), "gp?j");

    browser.open(&list);
    browser.keys("?");
    browser.click("dialog button:last-child");
    browser.keys("jgt");
    assert_ne!(focused(&browser), row(0));
    // They stay off, and the help that switches them on is still there.
    browser.open(&list);
    browser.keys("gt?");
    browser.shows("Switch keys on");
    assert_eq!(browser.url(), list);
    browser.click("dialog button:last-child");
    browser.keys("j");
    assert_eq!(focused(&browser), row(0));
}

#[test]
fn what_has_the_focus_or_is_pointed_at_stays_until_it_is_left_and_then_all_is_new() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let send = |subject: &str| {
        let mail = json!({"fromAgentId": agent, "subject": subject, "body": "Text."});
        server.ada().post(&format!("/teams/{team}/inbox"), mail).ok();
    };
    send("First");
    let browser = driver.browser(1280, 800, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.shows("First");
    browser.point_at("h1");
    // How often the page was asked for again.
    let asked = || {
        let count = "return performance.getEntriesByType('resource') \
                     .filter((one) => one.initiatorType === 'xmlhttprequest').length";
        browser.run(count).as_u64().unwrap()
    };
    let told_of = |subject: &str| {
        let before = asked();
        send(subject);
        eventually("the page is asked for again", || (asked() > before).then_some(()));
        assert!(!browser.text().contains(subject), "{}", browser.text());
    };
    browser.run("document.querySelector('#groups a').focus()");
    told_of("Second");
    assert_eq!(focused(&browser), "First");
    browser.run("document.activeElement.blur()");
    browser.shows("Second");

    browser.point_at("#groups a[href*='/inbox/']");
    told_of("Third");
    browser.point_at("h1");
    browser.shows("Third");
}
