//! What goes wrong in the middle, and how it goes on, in a real browser.

use serde_json::{Value, json};

use crate::client::eventually;
use crate::editing::{EDIT, drafts, opened, source, versions};
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::server::{PASSWORD, Running};

#[test]
fn an_agent_that_fails_is_seen_today_and_deployed_again() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.deployable(&["scribe"], json!(null));
        let api = server.ada();
        let is_live = |version: &str| {
            eventually("it is live", || {
                let place = api.get("/agents/scribe/environments").items().pop()?;
                (place["live"]["version"] == version).then(|| place["live"]["hash"].clone())
            })
        };
        let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
            "environment": "production", "provider": "p"});
        api.post("/agents/deployments", job).ok();
        let expected = is_live("1.0.0");
        let beat = |hash: &Value, error: Option<&str>| {
            let body = json!({"environment": "production", "hash": hash, "error": error});
            api.post("/agents/scribe/heartbeat", body).ok();
        };
        beat(&json!("0123456789abcdef"), Some("out of memory"));
        server.publish("prompt", "notes", "1.1.0", "Good morning.");

        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.shows("Agents that report an error");
        browser.click("#groups a[href$='/agents/scribe']");
        browser.shows("out of memory");
        browser.shows("Expected hash");
        let hashes = browser.run(
            "return [...document.querySelectorAll('#places code[title]')].map((one) => one.title)",
        );
        assert_eq!(hashes, json!([expected, "0123456789abcdef"]));
        browser.click(".head a.primary");
        browser.click("button[value=preview]");
        browser.shows("Deploy exactly this");
        browser.click("button[value=deploy]");
        browser.shows("The deployment was created.");
        let deployed = is_live("1.1.0");
        let jobs = api.get("/agents/deployments").items();
        assert_eq!(jobs.len(), 2);
        let id = browser.url().rsplit('/').next().unwrap().to_string();
        assert!(jobs.iter().any(|job| job["id"] == id), "{id}: {jobs:?}");
        // It runs what was deployed, and nothing is wrong any more.
        beat(&deployed, None);
        assert_eq!(api.get("/agents/scribe").ok()["status"], "deployed");
        browser.open(&format!("http://{}/o/acme", server.address));
        browser.shows("Nothing waits for you.");
    });
}

#[test]
fn a_session_that_ends_in_the_middle_of_a_text_loses_none_of_it() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        let browser = driver.browser(1280, 900, scripts);
        opened(&server, &browser, "Hello.", EDIT);
        let text = "Hello {{WHO}}.\n\n  <b>Be</b> \"brief\" & kind.";
        browser.fill("#f-source", text);
        browser.fill("#f-message", "Kinder.");
        // All but that of this call.
        server.ada().delete("/auth/sessions").ok();
        browser.click("button[value=publish]");
        browser.shows("Your session is over.");
        assert_eq!((versions(&server), drafts(&server).len()), (1, 0));
        browser.fill("#f-email", "ada@acme.test");
        browser.fill("#f-password", PASSWORD);
        browser.click("main button.primary");
        browser.shows("was not sent yet");
        if scripts {
            // Not that of signing in, to which a reload would lead.
            let own = format!("http://{}{EDIT}", server.address);
            eventually("its own address", || (browser.url() == own).then_some(()));
        }
        assert_eq!(browser.value("#f-source"), text);
        assert_eq!(browser.value("#f-message"), "Kinder.");
        assert_eq!(versions(&server), 1, "nothing is sent by itself");
        browser.click("button[value=publish]");
        browser.shows("The version was published.");
        assert_eq!(source(&server, "1.1.0"), text);
        let path = "/registries/artifact-versions?registryRef=main&promptName=notes";
        let stored = server.ada().get(path).items();
        let made = stored.iter().find(|one| one["version"] == "1.1.0").unwrap();
        assert_eq!((stored.len(), &made["message"]), (2, &json!("Kinder.")));
    });
}

#[test]
fn the_audit_log_says_which_prompt_a_label_was_moved_of_and_leads_to_it() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.registry();
        server.publish("prompt", "notes", "1.0.0", "Hello.");
        server.publish("prompt", "letters", "1.0.0", "Dear all.");
        for name in ["notes", "letters"] {
            let label = json!({"registryRef": "main", "promptName": name, "label": "production",
                "version": "1.0.0"});
            server.ada().patch("/registries/artifacts/labels", label).ok();
        }
        let of_notes = "/audit-logs?action=artifact_label.move&resourceId=acme/main/prompt/notes";
        let stored = eventually("the entry", || server.ada().get(of_notes).items().pop());
        assert_eq!(stored["resource"]["id"], "acme/main/prompt/notes");
        let browser = driver.browser(1280, 900, scripts);
        sign_in(&browser, &server, "ada@acme.test");
        browser.open(&format!(
            "http://{}/o/acme/operations/audit?action=artifact_label.move\
             &resourceId=acme/main/prompt/notes",
            server.address
        ));
        let rows = "return [...document.querySelectorAll('tbody tr')].map((one) => one.innerText)";
        let rows = browser.run(rows);
        assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
        assert!(rows[0].as_str().unwrap().contains("notes"), "{rows}");
        browser.click("tbody a[href$='/prompts/main/notes']");
        browser.shows("Text of");
        assert!(browser.url().ends_with("/o/acme/prompts/main/notes"), "{}", browser.url());
    });
}
