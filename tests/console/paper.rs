//! Pages on paper, and for those who prefer less motion.

use serde_json::json;

use crate::journeys::sign_in;
use crate::server::Running;
use crate::webdriver::driver;

#[test]
fn a_printed_page_has_what_is_read_and_nothing_that_is_pressed() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let task = json!({"title": "Write the notes", "description": "Of what changed."});
    server.ada().post(&format!("/teams/{team}/tasks"), task).ok();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Lead with news.");
    server.publish("prompt", "notes", "1.1.0", "Begin with news.");
    let home = format!("http://{}", server.address);
    // As wide as a sheet of A4.
    let browser = driver.browser(718, 1000, true);
    browser.open(&format!("{home}/sign-in"));
    browser.click(".theme button[value=dark]");
    browser.shows("Sign in");
    sign_in(&browser, &server, "ada@acme.test");
    browser.show_on("print", false);
    for (path, text) in [
        ("/o/acme/teams/crew/board", "Write the notes"),
        ("/o/acme/teams/crew/tasks/1", "Of what changed."),
        ("/o/acme/prompts/main/notes", "1.1.0"),
        ("/o/acme/prompts/main/notes/versions/1.1.0", "Begin with news."),
        ("/o/acme/prompts/main/notes/compare?from=1.0.0&to=1.1.0", "Lead with news."),
        ("/o/acme/prompts/main/notes/edit", "Text"),
        ("/o/acme/operations/system", "What is kept how long"),
    ] {
        browser.open(&format!("{home}{path}"));
        browser.shows(text);
        let pressed = "return [...document.querySelectorAll('nav, button, .button, select')] \
                       .filter((one) => one.checkVisibility()).map((one) => one.outerHTML)";
        assert_eq!(browser.run(pressed), json!([]), "{path}");
        let colours = "const style = getComputedStyle(document.body); \
                       return [style.color, style.backgroundColor]";
        let colours = browser.run(colours);
        assert_eq!(colours, json!(["rgb(26, 32, 39)", "rgb(255, 255, 255)"]), "{path}");
        let wide = "return [...document.querySelectorAll('main *')].filter((one) => \
                    one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1) \
                    .map((one) => one.outerHTML.slice(0, 200))";
        assert_eq!(browser.run(wide), json!([]), "{path}");
    }
    // All of a text, not only what the field shows.
    browser.open(&format!("{home}/o/acme/prompts/main/notes/edit"));
    browser.fill("#f-source", &"A line.\n".repeat(80));
    let rest = "const text = document.getElementById('f-source'); \
                return text.scrollHeight - text.clientHeight";
    assert_eq!(browser.run(rest), 0);
}

#[test]
fn nothing_moves_for_those_who_prefer_less_motion() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 800, true);
    sign_in(&browser, &server, "ada@acme.test");
    let moving = "return [...document.querySelectorAll('*')].filter((one) => { \
                  const style = getComputedStyle(one); \
                  return style.transitionDuration !== '0s' || style.animationName !== 'none'; \
                  }).length";
    browser.show_on("", false);
    assert_ne!(browser.run(moving), 0);
    browser.show_on("", true);
    assert_eq!(browser.run(moving), 0);
}
