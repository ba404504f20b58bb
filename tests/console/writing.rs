//! The editor at its edges: a caret that moves, keys while it saves, what a draft does not keep, large
//! texts, and what of others is not on its page.

use serde_json::json;

use crate::editing::{
    CONTROL, EDIT, ENTER, NOTES, RELEASE, drafts, holds, opened, source, versions,
};
use crate::server::Running;
use crate::webdriver::{Browser, driver};

/// The key End of the protocol.
const END: char = '\u{E010}';
/// The list of names, once it is open.
const OPEN: &str = "document.querySelector('[role=listbox]:not([hidden])')";

/// An environment with the variable AUDIENCE.
fn environment(server: &Running, access: &str) {
    let body = json!({"slug": "production", "name": "Production", "access": access});
    let environment = server.ada().post("/environments", body).id();
    let path = format!("/environments/{environment}/variables/AUDIENCE");
    server.ada().put(&path, json!({"value": "sailors"})).ok();
}

/// Fills the text, and puts the caret there.
fn write(browser: &Browser, text: &str, caret: usize) {
    browser.run(&format!(
        "const field = document.querySelector('#f-source');
         field.focus();
         field.value = {};
         field.dispatchEvent(new Event('input', {{ bubbles: true }}));
         field.setSelectionRange({caret}, {caret});",
        json!(text)
    ));
}

#[test]
fn a_name_is_taken_where_the_caret_was_and_replaces_nothing_else() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    environment(&server, "organization");
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "Hello.", EDIT);
    let text = "Hello . And the rest of this line is long.";
    write(&browser, text, 6);
    browser.keys("{{au");
    holds(&browser, "the list", OPEN);
    browser.keys(&END.to_string());
    holds(&browser, "it is closed", &format!("!{OPEN}"));
    browser.keys(&ENTER.to_string());
    let text = "Hello {{au. And the rest of this line is long.\n";
    assert_eq!(browser.value("#f-source"), text);
    // In the middle of a name that is closed.
    write(&browser, "Say {{ AUDNCE }} now", 10);
    browser.keys("I");
    holds(&browser, "the list", OPEN);
    browser.keys(&ENTER.to_string());
    assert_eq!(browser.value("#f-source"), "Say {{ AUDIENCE }} now");
    holds(&browser, "it stays closed", &format!("!{OPEN}"));
}

#[test]
fn names_are_completed_at_the_end_of_a_line_longer_than_the_field() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    environment(&server, "organization");
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "Hello.", EDIT);
    browser.click("button[value=nowrap]");
    let line = "many words ".repeat(100);
    write(&browser, &line, line.len());
    browser.keys("{{au");
    browser.run_async(
        "const done = arguments[0];
         requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));",
    );
    holds(&browser, "the list", OPEN);
    browser.keys(&ENTER.to_string());
    assert_eq!(browser.value("#f-source"), format!("{line}{{{{AUDIENCE}}}}"));
}

#[test]
fn what_a_draft_does_not_keep_is_not_called_saved_and_the_model_stays() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "One.", EDIT);
    browser.fill("#f-model", "gpt");
    browser.fill("#f-message", "Why");
    browser.press("#f-source", " Two.");
    browser.press("#f-source", &format!("{CONTROL}s{RELEASE}"));
    browser.shows("The draft was saved.");
    holds(&browser, "it is still said", "!document.querySelector('.unsaved').hidden");
    let kept = "Object.keys(localStorage).some((k) => k.startsWith('draft:'))";
    holds(&browser, "the browser keeps it", kept);
    let url = browser.url();
    assert!(url.contains("model=gpt") && !url.contains("saved="), "{url}");
    // The browser would ask whether to leave.
    browser
        .run("addEventListener('beforeunload', (event) => event.stopImmediatePropagation(), true)");
    browser.open(&url);
    browser.shows("Restore what you typed before");
    assert_eq!(browser.value("#f-model"), "gpt");
    browser.press("#f-source", &format!("{CONTROL}{ENTER}{RELEASE}"));
    browser.shows("The version was published.");
    let path = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
    let content = server.ada().get(&format!("{path}&version=1.1.0&model=gpt")).ok();
    assert_eq!(content["model"], "gpt");
}

#[test]
fn ctrl_enter_publishes_from_the_form_alone() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "One.", EDIT);
    for target in ["body", "a[href='/o/acme/prompts']", "#save a, .facts-line a"] {
        let is_taken = browser.run(&format!(
            "return !document.querySelector(\"{target}\").dispatchEvent(new KeyboardEvent('keydown',
               {{ key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true }}));"
        ));
        assert_eq!(is_taken, false, "{target}");
    }
    assert_eq!(versions(&server), 1);
}

#[test]
fn what_was_said_of_a_refused_form_goes_once_its_draft_is_saved() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "One.", EDIT);
    browser.fill("#f-source", "Hello {{ import \"none\" }}");
    browser.click("button[value=publish]");
    browser.shows("Check what you entered");
    browser.press("#f-source", &format!("{CONTROL}s{RELEASE}"));
    browser.shows("The draft was saved.");
    let said = "document.querySelector('.problems, .conflict, [aria-invalid]')";
    holds(&browser, "it goes", &format!("!{said} && !document.title.includes('Error')"));
}

#[test]
fn what_is_typed_and_pressed_while_a_draft_is_saved_waits_for_it() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "One.", EDIT);
    browser.press("#f-source", " Two.");
    // The draft is on its way until it is let go.
    browser.run(
        "const send = XMLHttpRequest.prototype.send;
         XMLHttpRequest.prototype.send = function (body) {
           if (String(body).includes('then=stay')) window.release = () => send.call(this, body);
           else send.call(this, body);
         };",
    );
    browser.press("#f-source", &format!("{CONTROL}s{RELEASE}"));
    holds(&browser, "it is under way", "window.release");
    browser.press("#f-source", " Three.");
    browser.press("#f-source", &format!("{CONTROL}{ENTER}{RELEASE}"));
    assert!(browser.url().ends_with("/edit"), "{}", browser.url());
    browser.run("window.release()");
    browser.shows("The version was published.");
    assert_eq!(source(&server, "1.1.0"), "One. Two. Three.");
    assert!(drafts(&server).is_empty());
}

#[test]
fn a_draft_that_somebody_saves_before_the_page_is_read_is_another_one() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "One.");
    let ada = server.signed_in("ada@acme.test");
    let fields = [("source", "Mine."), ("then", "stay"), ("action", "draft")];
    let reply = ada.send(&ada.get(EDIT), EDIT, &fields);
    assert_eq!(reply.status, 303, "{}", reply.text);
    let location = reply.location().to_string();
    let saved = location.split("saved=").nth(1).unwrap();
    assert_eq!(ada.get(&location).field(EDIT, "was"), saved);
    let other = json!({"registryRef": "main", "artifactType": "prompt", "draftVersion": "1.1.0",
        "body": "Another."});
    server.ada().post("/prompts/notes/drafts", other).ok();
    let page = ada.get(&location);
    assert_ne!(page.field(EDIT, "was"), saved);
    let fields =
        [("source", "Mine, too."), ("was", saved), ("version", "1.1.0"), ("action", "draft")];
    let refused = ada.send(&page, EDIT, &fields);
    assert_eq!(refused.status, 409);
    refused.shows("There is another draft of 1.1.0");
}

#[test]
fn a_difference_of_long_lines_is_a_small_part_and_none_unless_asked_for() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", &"a".repeat(300_000));
    let ada = server.signed_in("ada@acme.test");
    let editor = ada.get(EDIT);
    assert!(!editor.text.contains("The text is that of"), "nobody asked");
    let mut form = editor.form(EDIT);
    form.action = format!("{EDIT}/check");
    let long = "b".repeat(300_000);
    let fields = [("source", long.as_str()), ("against", "1.0.0")];
    let part = ada.send_form(&form, &fields);
    part.shows("aaaa").shows("bbbb").shows("This is the beginning.");
    assert!(part.text.len() < 40_000, "{}", part.text.len());
}

#[test]
fn the_page_of_a_prompt_lists_fifty_variables_of_the_text_for_every_model() {
    let server = Running::new();
    server.registry();
    let text: String = (0..60).map(|number| format!("{{{{V{number}}}}} ")).collect();
    server.publish("prompt", "notes", "1.0.0", &text);
    for number in 0..101 {
        let body = json!({"registryRef": "main", "artifactType": "prompt", "name": "notes",
            "version": "1.0.0", "source": "Own.", "model": format!("a{number:03}")});
        server.ada().post("/registries/artifacts", body).ok();
    }
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(NOTES);
    page.shows("And 10 more");
    let variables = page.links().iter().filter(|link| link.contains("/variables/")).count();
    assert_eq!(variables, 50);
    assert_eq!(ada.get(&format!("{NOTES}/versions/1.0.0")).status, 200);
}

#[test]
fn a_choice_of_lines_alone_renders_no_editor() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let mut form = ada.get(EDIT).form(EDIT);
    form.fields.retain(|(name, _)| name == "_token");
    let reply = ada.send_form(&form, &[("action", "nowrap")]);
    assert_eq!((reply.status, reply.text.as_str()), (303, ""));
    assert!(ada.get(EDIT).text.contains("whole-lines"));
}

#[test]
fn names_of_a_restricted_environment_are_not_on_the_page_of_who_may_not_use_it() {
    let server = Running::new();
    server.add("ben", "member");
    server.registry();
    environment(&server, "restricted");
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    assert!(ada.get(EDIT).text.contains("AUDIENCE"));
    let page = ben.get(EDIT);
    assert_eq!(page.status, 200);
    assert!(!page.text.contains("AUDIENCE"), "{}", page.text);
}
