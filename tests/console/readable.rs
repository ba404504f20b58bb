//! What a browser makes of a page: the order of characters beside names that are written from right to
//! left, what is required, what is copied.

use serde_json::json;

use crate::journeys::sign_in;
use crate::server::Running;
use crate::webdriver::driver;

/// The numbers of tasks on the page whose sign is not to the left of its first digit.
const TURNED: &str = "
    const turned = [];
    const texts = document.createTreeWalker(document.getElementById('main'), NodeFilter.SHOW_TEXT);
    let seen = 0;
    while (texts.nextNode()) {
      const text = texts.currentNode;
      for (const { index } of text.data.matchAll(/#[0-9]/g)) {
        const [sign, digit] = [0, 1].map((at) => {
          const range = document.createRange();
          range.setStart(text, index + at);
          range.setEnd(text, index + at + 1);
          return range.getBoundingClientRect();
        });
        if (digit.width === 0) continue;
        seen += 1;
        if (sign.left >= digit.left) turned.push(text.parentElement.outerHTML.slice(0, 120));
      }
    }
    return [seen > 0, turned];";

#[test]
fn the_number_of_a_task_reads_from_left_to_right_beside_any_title() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let api = server.ada();
    let tasks = format!("/teams/{team}/tasks");
    let first = api.post(&tasks, json!({"title": "شؤون الميناء"})).id();
    let second = json!({"title": "ملاحظات الإصدار", "dependsOn": [first]});
    api.post(&tasks, second).ok();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    for page in ["tasks/2", "tasks/1", "board", "tasks"] {
        browser.open(&format!("http://{}/o/acme/teams/crew/{page}", server.address));
        assert_eq!(browser.run(TURNED), json!([true, []]), "{page}");
    }
}

#[test]
fn what_must_be_entered_is_not_said_to_be_optional() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    server.publish("prompt", "notes", "2.0.0", "Hello in {{LANGUAGE}}.");
    let ada = server.signed_in("ada@acme.test");
    let path = "/o/acme/deployments/new";
    let form = ada.get(&format!("{path}?agent=scribe"));
    let refused = ada.send(&form, path, &[("action", "preview")]);
    assert_eq!(refused.status, 400);
    let label = "<label for=\"f-agentVariables.LANGUAGE\">LANGUAGE</label>";
    assert!(refused.text.contains(label), "{}", refused.text);
    let tags = crate::html::tags(&refused.text);
    let field = tags.iter().find(|tag| tag.get("id") == Some("f-agentVariables.LANGUAGE")).unwrap();
    assert!(field.get("required").is_some(), "{field:?}");
    assert!(server.ada().get("/agents/deployments").items().is_empty());
}

#[test]
fn a_key_that_is_shown_once_is_copied_and_the_page_says_so() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let home = format!("http://{}", server.address);
    browser.permit_all(&["clipboardReadWrite", "clipboardSanitizedWrite"], &home);
    browser.open(&format!("{home}/o/acme/settings/keys/new"));
    browser.fill("#f-name", "ci");
    browser.click("main button.primary");
    browser.shows("It is not shown again.");
    browser.click("main .narrow [data-copy]");
    browser.shows("Copied.");
    let copied = browser.run_async(
        "const done = arguments[0];
         navigator.clipboard.readText().then(done, (error) => done(String(error)));",
    );
    // What was copied is a key that works.
    let with_key = server.ada().with_key(copied.as_str().unwrap());
    let whose = with_key.ask("GET", "/whoami").send();
    assert_eq!(whose.status, 200, "{copied}: {}", whose.text());
    let stored = server.ada().get("/api-keys").items();
    let start = stored[0]["start"].as_str().unwrap();
    assert!(copied.as_str().unwrap().starts_with(start), "{start}");
}
