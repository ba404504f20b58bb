//! A person's day: texts with Markdown, times, what happened to a thing, and what a browser adds to forms.

use std::sync::Arc;

use roadstead::app::ServerConfig;
use roadstead::base::Time;
use roadstead::console::FirstVisit;
use serde_json::json;

use crate::client::eventually;
use crate::journeys::sign_in;
use crate::server::{PASSWORD, Running};
use crate::visitor::{Visitor, press};
use crate::webdriver::driver;

const TASK: &str = "/o/acme/teams/crew/tasks/1";

#[test]
fn what_people_and_agents_write_is_shown_as_markdown_and_stays_as_it_was_written() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let text = "Do **this**:\n\n- one\n- two\n\nSee https://example.com/a?b=1&c=2.";
    let task = json!({"title": "Notes", "description": text});
    let task = api.post(&format!("/teams/{team}/tasks"), task).id();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(TASK);
    let link = "<a href=\"https://example.com/a?b=1&#38;c=2\" rel=\"noopener noreferrer\">\
                https://example.com/a?b=1&#38;c=2</a>.";
    for part in ["<strong>this</strong>", "<li dir=\"auto\">two</li>", link] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let hostile = "# <b>Big</b>\n\n<script>alert(1)</script>\n\n![x](https://example.com/x.png)\n\
                   [y](javascript:alert(1)) <img src=x onerror=alert(1)>";
    let page = press(&ada, &page, ("action", "note"), &[("body", hostile)]);
    page.shows("<b>Big</b>").shows("<script>alert(1)</script>").shows("(javascript:alert(1))");
    for part in ["<script>alert", "<b>Big", "<img", "href=\"javascript"] {
        assert!(!page.text.contains(part), "{part}");
    }
    assert!(page.text.contains("<a href=\"https://example.com/x.png\""), "{}", page.text);
    let notes = api.get(&format!("/teams/{team}/messages?taskId={task}")).items();
    assert_eq!(notes[0]["body"], hostile);
    assert_eq!(api.get(&format!("/teams/{team}/tasks/{task}")).ok()["description"], text);
    let mail = json!({"fromAgentId": agent, "subject": "Done", "body": "It is *done*."});
    let mail = api.post(&format!("/teams/{team}/inbox"), mail).id();
    let page = ada.get(&format!("/o/acme/teams/crew/inbox/{mail}"));
    assert!(page.text.contains("It is <em>done</em>."), "{}", page.text);
}

#[test]
fn a_document_of_markdown_is_shown_as_such_and_as_it_is_written() {
    let server = Running::new();
    let base = server.ada().post("/knowledge-bases", json!({"name": "Harbour"})).id();
    let upload = format!("/o/acme/knowledge/{base}/documents/upload");
    let ada = server.signed_in("ada@acme.test");
    for (name, is_markdown) in [("tides.md", true), ("tides.txt", false)] {
        let file = (name, "", &b"# Tides\n\nHigh at *noon*."[..]);
        let made = ada.send_file(&ada.get(&upload), &upload, &[], file);
        let page = ada.open(made.location());
        page.shows("High at *noon*.");
        assert_eq!(page.text.contains("High at <em>noon</em>."), is_markdown, "{name}");
    }
}

#[test]
fn a_page_says_how_long_ago_something_was_and_when() {
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let api = server.ada();
    let task = api.post(&format!("/teams/{team}/tasks"), json!({"title": "Notes"})).ok();
    let at = task["createdAt"].as_str().unwrap();
    let page = server.signed_in("ada@acme.test").get(TASK);
    let time = format!("<time datetime=\"{at}\" title=\"{at}\">");
    let shown = page.text.split(&time).nth(1).expect("the time of the task");
    let shown = shown.split('<').next().unwrap();
    assert!(shown.ends_with("just now") || shown.ends_with(" min ago"), "{shown}");
}

#[test]
fn the_history_of_a_thing_has_its_changes_and_for_admins_its_audit_log() {
    let server = Running::new();
    server.add("ben", "member");
    server.deployable(&["scribe"], json!(null));
    let api = server.ada();
    let label = json!({"registryRef": "main", "promptName": "notes", "label": "production",
        "version": "1.0.0"});
    api.patch("/registries/artifacts/labels", label).ok();
    api.patch("/agents/scribe", json!({"name": "Scribe"})).ok();
    api.post("/agents/scribe/versions", json!({"message": "the first"})).ok();
    let environment = api.get("/environments").items()[0]["id"].clone();
    let environment = environment.as_str().unwrap().to_string();
    let job = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    let job = api.post("/agents/deployments", job).id();
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    let prompt = "/o/acme/prompts/main/notes/history";
    let agent = "/o/acme/agents/scribe/history";
    let environment = format!("/o/acme/environments/{environment}/history");
    for visitor in [&ada, &ben] {
        visitor.get(prompt).shows("published 1.0.0").shows("moved production to 1.0.0");
        visitor.get(agent).shows("made version 1").shows("the first");
        let page = visitor.get(&environment);
        assert!(page.links().contains(&format!("/o/acme/deployments/jobs/{job}")), "{}", page.text);
    }
    for path in [prompt, agent, environment.as_str()] {
        let link = path.trim_end_matches("/history");
        assert!(ada.get(link).links().contains(&path.to_string()), "{link}");
        ada.get(path).shows("All of it in the audit log");
        ben.get(path).hides("audit log");
    }
    eventually("the audit log has the change", || {
        ada.get(agent).words().contains("agent: update").then_some(())
    });
    ben.get(agent).hides("agent: update");
    assert_eq!(ada.get("/o/acme/prompts/main/none/history").status, 404);
    assert_eq!(ada.get("/o/acme/agents/none/history").status, 404);
}

#[test]
fn a_key_of_a_viewer_is_no_first_step() {
    let server = Running::new();
    server.add("vera", "viewer");
    let ada = server.signed_in("ada@acme.test");
    let todo = || ada.get("/o/acme").words().matches("To do").count();
    assert_eq!(todo(), 7);
    server
        .api("vera@acme.test")
        .post("/api-keys", json!({"name": "mine", "access": ["artifact:read"]}))
        .ok();
    assert_eq!(todo(), 7);
    server.ada().post("/api-keys", json!({"name": "ci"})).ok();
    assert_eq!(todo(), 6);
}

#[test]
fn the_link_of_a_demo_signs_in_once_and_no_other_server_has_one() {
    let visit = Arc::new(FirstVisit::default());
    let first_visit = Some(visit.clone());
    let server = Running::with(ServerConfig { first_visit, ..ServerConfig::default() });
    let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = server.anonymous().ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
    let session = session["token"].as_str().unwrap().to_string();
    visit.offer("the-token", session, Time::from_millis(i64::MAX));
    let send = |visitor: &Visitor, link: &str| {
        let page = visitor.get("/first-visit");
        visitor.send(&page, "/first-visit", &[("link", link)])
    };
    let (first, second) = (server.visitor(), server.visitor());
    let link = "http://127.0.0.1/first-visit#the-token";
    assert_eq!(send(&second, "http://127.0.0.1/first-visit#another").status, 400);
    assert_eq!(send(&first, link).status, 303);
    first.open("/").shows("Today");
    let refused = send(&second, link);
    assert_eq!(refused.status, 400);
    refused.shows("was used already");
    second.open("/").hides("Today");
    assert_eq!(Running::new().visitor().get("/first-visit").status, 404);
}

#[test]
fn a_short_name_is_proposed_until_one_is_typed() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let new = format!("http://{}/o/acme/registries/new", server.address);
    browser.open(&new);
    for (name, slug) in [
        ("Ümlaut & Straße", "umlaut-strasse"),
        ("  The 2nd: main!  ", "the-2nd-main"),
        ("港口", ""),
        ("Release notes", "release-notes"),
    ] {
        browser.fill("#f-name", name);
        assert_eq!(browser.value("#f-slug"), slug, "{name}");
    }
    browser.click("main button.primary");
    browser.shows("The registry was created.");
    let stored = || {
        let all = server.ada().get("/registries").items();
        let mut slugs: Vec<_> =
            all.iter().map(|one| one["slug"].as_str().unwrap().to_string()).collect();
        slugs.sort();
        slugs
    };
    assert_eq!(stored(), ["release-notes"]);
    browser.open(&new);
    browser.fill("#f-slug", "mine");
    browser.fill("#f-name", "Something else");
    assert_eq!(browser.value("#f-slug"), "mine");
    browser.click("main button.primary");
    browser.shows("The registry was created.");
    assert_eq!(stored(), ["mine", "release-notes"]);
}

#[test]
fn files_that_are_dropped_on_the_page_become_documents() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let base = server.ada().post("/knowledge-bases", json!({"name": "Harbour"})).id();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let home = format!("http://{}", server.address);
    browser.open(&format!("{home}/o/acme/knowledge/{base}/documents/upload"));
    browser.shows("Or drop them on this page.");
    browser.run(
        "const dataTransfer = new DataTransfer();
         dataTransfer.items.add(new File(['High at noon.'], 'tides.md'));
         dataTransfer.items.add(new File(['West,12'], 'berths.csv'));
         document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));",
    );
    browser.shows("berths.csv");
    browser.click("main button.primary");
    browser.shows("The documents were added.");
    let stored = server.ada().get(&format!("/knowledge-bases/{base}/documents")).items();
    let mut names: Vec<_> = stored.iter().map(|one| one["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["berths.csv", "tides.md"]);
}

#[test]
fn a_note_that_was_not_sent_is_offered_again_until_the_server_has_it() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let api = server.ada();
    let id = api.post(&format!("/teams/{team}/tasks"), json!({"title": "Notes"})).id();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let task = format!("http://{}{TASK}", server.address);
    browser.open(&task);
    browser.fill("[data-draft] textarea", "Look here.");
    eventually("the browser keeps it", || {
        let kept = browser.run("return Object.values(localStorage).join()").to_string();
        kept.contains("Look here.").then_some(())
    });
    // The page goes without a question of the browser, as it does when the server is gone.
    browser.run("window.addEventListener('beforeunload', (event) => event.stopImmediatePropagation(), true)");
    browser.open(&task);
    browser.shows("Restore what you typed before");
    browser.click("[data-draft] button[type=button]");
    assert_eq!(browser.value("[data-draft] textarea"), "Look here.");
    browser.click("[data-draft] button[value=note]");
    browser.shows("The note was added.");
    let notes = api.get(&format!("/teams/{team}/messages?taskId={id}")).items();
    assert_eq!(notes.iter().filter(|one| one["body"] == "Look here.").count(), 1);
    browser.open(&task);
    browser.shows("Look here.");
    assert!(!browser.text().contains("Restore what you typed before"));
}

#[test]
fn the_browser_is_told_how_much_waits_once_somebody_wants_that() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let home = format!("http://{}", server.address);
    browser.open(&format!("{home}/account"));
    browser.permit("notifications", &home);
    browser.click("[data-notify] button");
    browser.shows("Switch off");
    let kept = |key: &str| browser.run(&format!("return localStorage.getItem('{key}')"));
    let tell = |body: &str| {
        let mail = json!({"fromAgentId": agent, "subject": body, "body": "b"});
        server.ada().post(&format!("/teams/{team}/inbox"), mail).ok();
    };
    assert_eq!(kept("notify"), json!("1"));
    browser.open(&format!("{home}/o/acme"));
    assert_eq!(kept("notify/o/acme"), json!("0"));
    browser.run(
        "window.told = [];
         document.hasFocus = () => window.isInFront === true;
         window.Notification = class extends EventTarget {
             static permission = 'granted';
             constructor(title, { body }) {
                 super();
                 told.push(body);
                 if (window.isPhone) throw new TypeError('Illegal constructor');
             }
         };",
    );
    tell("Hello");
    eventually("it is told", || (browser.run("return told.length") == json!(1)).then_some(()));
    assert_eq!(browser.run("return told"), json!(["1 thing waits for you."]));
    assert_eq!(kept("notify/o/acme"), json!("1"));
    browser.run("window.isInFront = true");
    tell("Again");
    eventually("it is counted", || (kept("notify/o/acme") == json!("2")).then_some(()));
    assert_eq!(browser.run("return told.length"), json!(1));
    // Another tab has the focus.
    browser.run(
        "window.isInFront = false;
         window.other = new BroadcastChannel(document.getElementById('main').dataset.stream);
         other.onmessage = ({ data }) => { if (data === 'focus?') other.postMessage('focused'); };",
    );
    tell("Third");
    eventually("it is counted", || (kept("notify/o/acme") == json!("3")).then_some(()));
    assert_eq!(browser.run("return told.length"), json!(1));
    // A browser that throws is not asked for the same again.
    browser.run("other.close(); window.isPhone = true");
    tell("Fourth");
    eventually("it is counted", || (kept("notify/o/acme") == json!("4")).then_some(()));
    assert_eq!(browser.run("return told.at(-1)"), json!("4 things wait for you."));
}

#[test]
fn a_page_whose_stream_is_refused_says_that_the_session_is_over_and_listens_again() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, _) = server.team("crew", "scribe");
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}/o/acme/teams/crew/board", server.address));
    browser.shows("There are no tasks yet.");
    // All but that of this call.
    server.ada().delete("/auth/sessions").ok();
    browser.shows("Load this page again.");
    assert!(!browser.text().contains("The server does not answer."));
    // As in another tab.
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}/o/acme/teams/crew/board", server.address));
    server.ada().post(&format!("/teams/{team}/tasks"), json!({"title": "Notes"})).ok();
    browser.shows("Notes");
}

#[test]
fn a_history_says_when_it_is_cut_and_is_of_those_who_may_read_the_thing() {
    let server = Running::new();
    server.add("ben", "member");
    let api = server.ada();
    api.post("/registries", json!({"slug": "vault", "name": "Vault", "access": "restricted"})).ok();
    for patch in 0..51 {
        let version = format!("1.0.{patch}");
        let text = json!({"registryRef": "vault", "artifactType": "prompt", "name": "notes",
            "version": version, "source": format!("Text {patch}.")});
        api.post("/registries/artifacts", text).ok();
    }
    let path = "/o/acme/prompts/vault/notes/history";
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    ada.get(path).shows("The newest 50.").shows("the fifty highest are looked at").hides("Refused");
    assert_eq!(ben.get(path).status, 403);
}

#[test]
fn an_approval_shows_what_was_written_and_a_long_document_is_there_once() {
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let ask = json!({"agentId": agent, "title": "May I?", "body": "Run rm *a* \\* b"});
    server.ada().post(&format!("/teams/{team}/approvals"), ask).ok();
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme/teams/crew/approvals").shows("As it is written").shows("Run rm *a* \\* b");
    let base = server.ada().post("/knowledge-bases", json!({"name": "Harbour"})).id();
    let upload = format!("/o/acme/knowledge/{base}/documents/upload");
    let long = format!("MARKER\n\n{}", "word ".repeat(4_200));
    let file = ("tides.md", "", long.as_bytes());
    let made = ada.send_file(&ada.get(&upload), &upload, &[], file);
    assert_eq!(ada.open(made.location()).text.matches("MARKER").count(), 1);
}

#[test]
fn a_page_that_is_live_says_that_the_server_does_not_answer() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.team("crew", "scribe");
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    browser.open(&format!("http://{}/o/acme/teams/crew/board", server.address));
    browser.shows("There are no tasks yet.");
    drop(server);
    browser.shows("The server does not answer.");
}
