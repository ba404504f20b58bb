//! The keys of the pages, and what they do while somebody is at work in them, in a real browser.

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
    // So do they through what a search in the list has found, "two" and "three".
    browser.open(&format!("{list}?q=t"));
    for (key, at) in [("j", 0), ("j", 1), ("k", 0)] {
        browser.keys(key);
        let found = "return [...document.querySelectorAll('.hits a')].map((a) => a.textContent)";
        assert_eq!(focused(&browser), browser.run(found)[at].as_str().unwrap(), "{key}");
    }
    browser.open(&list);
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
fn n_and_p_walk_through_the_changes_of_a_comparison() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.registry();
    let text = |first: &str, last: &str| format!("{first}\nb\nc\nd\ne\nf\ng\nh\ni\n{last}");
    server.publish("prompt", "notes", "1.0.0", &text("a", "j"));
    server.publish("prompt", "notes", "1.1.0", &text("one", "ten"));
    let browser = driver.browser(1280, 800, true);
    sign_in(&browser, &server, "ada@acme.test");
    let path = "prompts/main/notes/compare?from=1.0.0&to=1.1.0";
    browser.open(&format!("http://{}/o/acme/{path}", server.address));
    for (key, text) in [("n", "one"), ("n", "ten"), ("n", "ten"), ("p", "one"), ("p", "one")] {
        browser.keys(key);
        assert!(focused(&browser).ends_with(text), "{key}: {}", focused(&browser));
    }
}

#[test]
fn what_has_the_focus_or_is_pointed_at_stays_until_it_is_left_and_then_all_is_new() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.registry();
    let send = |name: &str| {
        server.publish("prompt", name, "1.0.0", "Text.");
    };
    send("first");
    let browser = driver.browser(1280, 800, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}/o/acme/prompts/main", server.address));
    browser.shows("first");
    browser.point_at("h1");
    // How often the page was asked for again.
    let asked = || {
        let count = "return performance.getEntriesByType('resource') \
                     .filter((one) => one.initiatorType === 'xmlhttprequest').length";
        browser.run(count).as_u64().unwrap()
    };
    let told_of = |name: &str| {
        let before = asked();
        send(name);
        eventually("the page is asked for again", || (asked() > before).then_some(()));
        assert!(!browser.text().contains(name), "{}", browser.text());
    };
    browser.run("document.querySelector('#artifacts a').focus()");
    told_of("second");
    assert_eq!(focused(&browser), "first");
    browser.run("document.activeElement.blur()");
    browser.shows("second");

    browser.point_at("#artifacts a");
    told_of("third");
    browser.point_at("h1");
    browser.shows("third");
}
