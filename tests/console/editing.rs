//! Writing a prompt in a real browser: what is said beside the text, keys, lines, names and differences,
//! and what of it is stored.

use serde_json::{Value, json};

use crate::client::eventually;
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::Running;
use crate::webdriver::{Browser, driver};
use crate::wide::look;

pub const NOTES: &str = "/o/acme/prompts/main/notes";
pub const EDIT: &str = "/o/acme/prompts/main/notes/edit";
/// Keys of the protocol.
pub const CONTROL: char = '\u{E009}';
pub const RELEASE: char = '\u{E000}';
pub const ENTER: char = '\u{E007}';
const ESCAPE: char = '\u{E00C}';
const DOWN: char = '\u{E015}';

/// A server with the registry, the prompt `notes` 1.0.0 with this text, and a browser on a page of it.
pub fn opened(server: &Running, browser: &Browser, text: &str, path: &str) {
    server.registry();
    server.publish("prompt", "notes", "1.0.0", text);
    sign_in(browser, server, "ada@acme.test");
    browser.open(&format!("http://{}{path}", server.address));
}

pub fn drafts(server: &Running) -> Vec<Value> {
    server.ada().get("/prompts/notes/drafts?registryRef=main&artifactType=prompt").items()
}

pub fn source(server: &Running, version: &str) -> Value {
    let path = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
    server.ada().get(&format!("{path}&version={version}")).ok()["source"].clone()
}

/// How many versions there are.
pub fn versions(server: &Running) -> usize {
    let path = "/registries/artifact-versions?registryRef=main&promptName=notes";
    server.ada().get(path).items().len()
}

/// Waits until a script of the driver returns true.
#[track_caller]
pub fn holds(browser: &Browser, what: &str, expression: &str) {
    let script = format!("return Boolean({expression})");
    eventually(what, || (browser.run(&script) == true).then_some(()));
}

#[test]
fn what_was_said_of_a_text_goes_once_it_compiles() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let browser = driver.browser(1280, 900, scripts);
        opened(&server, &browser, "Hello.", EDIT);
        browser.fill("#f-source", "Hello {{ import \"none\" }}");
        browser.click("button[value=publish]");
        browser.shows("Check what you entered");
        browser.shows("cannot be compiled");
        browser.fill("#f-source", "Hello again.");
        if !scripts {
            browser.click("button[value=check]");
        }
        browser.shows("It compiles");
        holds(&browser, "the summary goes", "!document.querySelector('.problems, #e-source')");
        let is_marked = "return document.querySelector('#f-source').ariaInvalid === 'true'";
        assert_eq!(browser.run(is_marked), false);
        assert_eq!(browser.run("return document.title.includes('Error')"), false);
        browser.click("button[value=publish]");
        browser.shows("The version was published.");
        assert_eq!(source(&server, "1.1.0"), "Hello again.");
    });
}

#[test]
fn what_is_wrong_with_another_field_is_still_said_when_the_text_is_mended() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "Hello.", EDIT);
    browser.fill("#f-version", "soon");
    browser.click("button[value=publish]");
    browser.shows("Check what you entered");
    browser.fill("#f-source", "Hello again.");
    browser.shows("It compiles");
    assert!(browser.text().contains("Check what you entered"), "{}", browser.text());
}

#[test]
fn ctrl_s_saves_the_draft_and_one_goes_on_writing() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "One.", EDIT);
    let save = format!("{CONTROL}s{RELEASE}");
    let body = || drafts(&server).first().map(|draft| draft["body"].clone());
    browser.press("#f-source", " Two.");
    browser.shows("Not saved yet");
    browser.press("#f-source", &save);
    browser.shows("The draft was saved.");
    assert_eq!(body(), Some(json!("One. Two.")));
    assert!(browser.url().contains("/edit?draft="), "{}", browser.url());
    holds(&browser, "nothing is unsaved", "document.querySelector('.unsaved').hidden");
    // Again, in the same page.
    browser.press("#f-source", " Three.");
    browser.shows("Not saved yet");
    browser.press("#f-source", &save);
    eventually("the draft", || (body() == Some(json!("One. Two. Three."))).then_some(()));
    assert_eq!(drafts(&server).len(), 1);
    browser.shows("The draft was saved.");
    holds(
        &browser,
        "nothing is kept",
        "!Object.keys(localStorage).some((k) => k.startsWith('draft:'))",
    );
    let url = browser.url();
    browser.open(&url);
    assert_eq!(browser.value("#f-source"), "One. Two. Three.");

    // It was saved in another window since.
    let other = json!({"registryRef": "main", "artifactType": "prompt", "draftVersion": "1.1.0",
        "body": "Another."});
    server.ada().post("/prompts/notes/drafts", other).ok();
    browser.press("#f-source", " Four.");
    browser.press("#f-source", &save);
    browser.shows("There is another draft of 1.1.0");
    assert_eq!(browser.value("#f-source"), "One. Two. Three. Four.");
    assert_eq!(body(), Some(json!("Another.")));
}

#[test]
fn ctrl_enter_publishes_what_the_form_accepts() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    opened(&server, &browser, "One.", EDIT);
    let publish = format!("{CONTROL}{ENTER}{RELEASE}");
    browser.press("#f-source", " Two.");
    // Without a version the browser itself refuses it, as with the button.
    browser.run("document.querySelector('#f-version').value = ''");
    browser.press("#f-source", &publish);
    holds(&browser, "the field", "document.activeElement.id === 'f-version'");
    assert!(browser.url().ends_with("/edit"), "{}", browser.url());
    browser.fill("#f-version", "1.1.0");
    browser.press("#f-version", &publish);
    browser.shows("The version was published.");
    assert_eq!(source(&server, "1.1.0"), "One. Two.");

    browser.open(&format!("http://{}{EDIT}", server.address));
    browser.keys("?");
    browser.shows("Save the draft");
    browser.shows("Ctrl+Enter");
}

#[test]
fn names_of_promptlets_and_variables_are_completed_with_keys() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    let environment = json!({"slug": "production", "name": "Production"});
    let environment = server.ada().post("/environments", environment).id();
    let path = format!("/environments/{environment}/variables/AUDIENCE");
    server.ada().put(&path, json!({"value": "sailors"})).ok();
    server.registry();
    server.publish("promptlet", "tone", "1.0.0", "Be brief.");
    server.publish("promptlet", "tonic", "1.0.0", "Be well.");
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}{EDIT}", server.address));
    let open = "document.querySelector('[role=listbox]:not([hidden])')";
    let listed = || {
        let all = "[...document.querySelectorAll('[role=option]')].map((one) => one.textContent)";
        browser.run(&format!("return {open} ? {all} : []"))
    };
    browser.press("#f-source", "{{ import \"to");
    holds(&browser, "the list", open);
    assert_eq!(listed(), json!(["tone", "tonic"]));
    let active = "document.getElementById(
        document.activeElement.getAttribute('aria-activedescendant'))?.textContent";
    browser.press("#f-source", &DOWN.to_string());
    holds(&browser, "the second", &format!("{active} === 'tonic'"));
    browser.press("#f-source", &ENTER.to_string());
    assert_eq!(browser.value("#f-source"), "{{ import \"tonic\" }}");
    holds(&browser, "it is closed", &format!("!{open}"));

    browser.press("#f-source", " {{aud");
    holds(&browser, "the list", open);
    // It is within the window, below what is written.
    let place =
        "(() => { const one = document.querySelector('[role=listbox]').getBoundingClientRect();
        return one.left >= 0 && one.right <= innerWidth && one.top > 0; })()";
    holds(&browser, "its place", place);
    browser.press("#f-source", &ENTER.to_string());
    assert_eq!(browser.value("#f-source"), "{{ import \"tonic\" }} {{AUDIENCE}}");

    // What is dismissed stays so while the name is written, and Enter is a line.
    browser.press("#f-source", " {{a");
    holds(&browser, "the list", open);
    browser.press("#f-source", &format!("{ESCAPE}u"));
    assert_eq!(listed(), json!([]));
    browser.press("#f-source", &format!("d}}}}{ENTER}"));
    // Braces that stand for themselves begin no name.
    browser.press("#f-source", "\\{{A");
    assert_eq!(listed(), json!([]));
    let text = "{{ import \"tonic\" }} {{AUDIENCE}} {{aud}}\n\\{{A";
    assert_eq!(browser.value("#f-source"), text);
    browser.press("#f-source", &format!("{CONTROL}s{RELEASE}"));
    browser.shows("The draft was saved.");
    assert_eq!(drafts(&server)[0]["body"], text);
}

#[test]
fn the_module_that_completes_names_is_small() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(EDIT);
    let scripts = crate::html::tags(&page.text).into_iter().filter(|tag| tag.name == "script");
    let mut scripts = scripts.filter_map(|tag| tag.get("src").map(String::from));
    let module = scripts.find(|path| path.contains("/complete.")).unwrap();
    let bytes = ada.get(&module).reply.body.len();
    assert!(bytes <= 5632, "{bytes}");
}

#[test]
fn what_a_text_changes_of_a_label_is_shown_while_it_is_written() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let browser = driver.browser(1280, 900, scripts);
        server.registry();
        server.publish("prompt", "notes", "1.0.0", "Lead with news.");
        server.publish("prompt", "notes", "1.1.0", "Begin with news.");
        for (label, version) in [("production", "1.0.0"), ("next", "1.1.0")] {
            let body = json!({"registryRef": "main", "promptName": "notes", "label": label,
                "version": version});
            server.ada().patch("/registries/artifacts/labels", body).ok();
        }
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!("http://{}{EDIT}?from=1.0.0", server.address));
        if scripts {
            browser.click(".against summary");
            browser.shows("The text is that of 1.0.0.");
        }
        let check = || {
            if !scripts {
                browser.click("button[value=check]");
            }
        };
        browser.fill("#f-source", "Begin with news.");
        check();
        let word = "document.querySelector('#difference ins')?.textContent.startsWith('Begin')";
        holds(&browser, "the difference", word);
        browser.shows("production 1.0.0");
        // Another label.
        browser.run(
            "const choice = document.querySelector('#f-against');
             choice.value = 'next';
             choice.dispatchEvent(new Event('change', { bubbles: true }));",
        );
        check();
        browser.shows("The text is that of 1.1.0.");
        browser.run(
            "const choice = document.querySelector('#f-against');
             choice.value = '';
             choice.dispatchEvent(new Event('change', { bubbles: true }));",
        );
        check();
        holds(
            &browser,
            "nothing",
            "document.querySelector('#difference').textContent.trim() === ''",
        );
    });
}

#[test]
fn lines_are_wrapped_unless_one_chose_otherwise_which_is_remembered() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let browser = driver.browser(1280, 900, scripts);
        opened(&server, &browser, "Hello.", EDIT);
        let url = format!("http://{}{EDIT}", server.address);
        let is_whole = "document.querySelector('.code.whole-lines')";
        holds(&browser, "it wraps at first", &format!("!{is_whole}"));
        let space = "return getComputedStyle(document.querySelector('#f-source')).whiteSpace";
        assert_eq!(browser.run(space), "pre-wrap");
        if !scripts {
            browser.fill("#f-source", "Not lost.");
        }
        browser.click("button[value=nowrap]");
        holds(&browser, "whole lines", is_whole);
        assert_eq!(browser.run(space), "pre");
        if !scripts {
            assert_eq!(browser.value("#f-source"), "Not lost.");
        }
        let after_opening = |expression: &str| {
            let script = format!("return Boolean({expression})");
            eventually("the next page", || {
                browser.open(&url);
                (browser.run(&script) == true).then_some(())
            });
        };
        after_opening(is_whole);
        let pressed = "return document.querySelector('.lines [aria-pressed=true]').value";
        assert_eq!(browser.run(pressed), "nowrap");
        browser.click("button[value=wrap]");
        holds(&browser, "it wraps again", &format!("!{is_whole}"));
        after_opening(&format!("!{is_whole}"));
    });
}

#[test]
fn the_number_of_a_line_is_where_it_begins_wrapped_or_not() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    let words = "many words ".repeat(900);
    opened(&server, &browser, &format!("{words}\n{}\nlast", "W".repeat(3000)), EDIT);
    // The last of the counted lines ends where the text of the field does.
    let agrees = "(() => {
        const text = document.querySelector('#f-source');
        const last = document.querySelector('.numbers').lastElementChild;
        const end = last.offsetTop + last.offsetHeight + parseFloat(getComputedStyle(text).paddingBottom);
        return document.querySelectorAll('.numbers div').length === 3
          && text.scrollHeight > text.clientHeight && Math.abs(end - text.scrollHeight) < 3;
      })()";
    for width in [1280, 640, 390] {
        browser.resize(width, 900);
        holds(&browser, &format!("the lines at {width}"), agrees);
    }
    browser.press("#f-source", "\nand more, and another line that is typed");
    let added = agrees.replace("=== 3", "=== 4");
    holds(&browser, "the lines after typing", &added);
    browser.click("button[value=nowrap]");
    let height = "(() => {
        const [one, ...others] = document.querySelectorAll('.numbers div');
        return others.every((other) => Math.abs(other.offsetHeight - one.offsetHeight) < 2);
      })()";
    holds(&browser, "lines of one height", height);
}

#[test]
fn a_line_of_ten_thousand_letters_scrolls_no_page_sideways() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.registry();
    let line = "W".repeat(10_000);
    server.publish("promptlet", "tone", "1.0.0", &line);
    server.publish("prompt", "notes", "1.0.0", &line);
    server.publish("prompt", "notes", "1.1.0", &format!("{line} more"));
    let label = json!({"registryRef": "main", "promptName": "notes", "label": "production",
        "version": "1.0.0"});
    server.ada().patch("/registries/artifacts/labels", label).ok();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let mut all = Vec::new();
    for path in ["", "/versions/1.1.0", "/compare?from=1.0.0&to=1.1.0", "/edit"] {
        browser.open(&format!("http://{}{NOTES}{path}", server.address));
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true");
        look(&browser, path, &mut all);
    }
    browser.click("button[value=nowrap]");
    look(&browser, "whole lines", &mut all);
    assert!(all.is_empty(), "{}", all.join("\n"));
}
