//! What changes while a page is open: nothing moves, and nothing that was entered goes.

use rcgen::{CertificateParams, KeyPair};
use roadstead::app::ServerConfig;
use roadstead::app::tls::{OwnTls, TlsFiles};
use serde_json::{Value, json};

use crate::client::eventually;
use crate::client::in_process::InProcess;
use crate::journeys::sign_in;
use crate::server::{PASSWORD, Running};
use crate::webdriver::{Browser, driver};

/// Adds up what moves by itself, as Chromium measures it, once the page is painted as its scripts have made it.
const WATCH: &str = "const done = arguments[0];
    window.moved = 0; window.sources = [];
    const watch = () => new PerformanceObserver((list) => { for (const entry of list.getEntries()) {
        if (entry.hadRecentInput) continue;
        moved += entry.value;
        for (const { node } of entry.sources) sources.push(String(node?.outerHTML ?? node?.data).slice(0, 80));
    } }).observe({ type: 'layout-shift' });
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { watch(); done(); })));";
/// What moved, once the page was painted after the last change.
const MOVED: &str = "const done = arguments[0];
    requestAnimationFrame(() => setTimeout(() => done([moved, sources])));";
/// Where the rows of the page's lists are.
const PLACES: &str = "return [...document.querySelectorAll('[data-row]')].map((row) => {
    const { top, height } = row.getBoundingClientRect(); return [row.dataset.row, top, height]; });";

/// Opens a page and watches what moves.
fn watch(browser: &Browser, url: &str) -> Value {
    browser.open(url);
    browser.run_async(WATCH);
    browser.run(PLACES)
}

#[track_caller]
fn nothing_moved(browser: &Browser) {
    let moved = browser.run_async(MOVED);
    assert_eq!(moved, json!([0, []]), "{}", browser.url());
}

/// Checks that the rows shown stay where they are until somebody asks for the new one.
#[track_caller]
fn a_new_row_waits(browser: &Browser, url: &str, add: impl FnOnce()) {
    let before = watch(browser, url);
    add();
    browser.shows("1 new");
    assert_eq!(browser.run(PLACES), before, "{url}");
    nothing_moved(browser);
    browser.click(".news button");
    let places = browser.run(PLACES);
    let keys = |places: &Value| -> Vec<String> {
        places.as_array().unwrap().iter().map(|row| row[0].to_string()).collect()
    };
    let (before, after) = (keys(&before), keys(&places));
    assert_eq!(after.len(), before.len() + 1, "{url}");
    assert!(before.iter().all(|key| after.contains(key)), "{url}: {after:?}");
    assert!(!browser.text().contains("1 new"));
}

#[test]
fn rows_that_are_shown_stay_where_they_are_while_others_arrive() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "One.");
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let mail = |subject: &str| {
        let mail = json!({"fromAgentId": agent, "subject": subject, "body": "b"});
        api.post(&format!("/teams/{team}/inbox"), mail).ok();
    };
    mail("the first");
    mail("the second");
    for (width, height) in [(1280, 900), (390, 844)] {
        let browser = driver.browser(width, height, true);
        sign_in(&browser, &server, "ada@acme.test");
        let home = format!("http://{}/o/acme", server.address);
        a_new_row_waits(&browser, &home, || mail("one more"));
        a_new_row_waits(&browser, &format!("{home}/teams/crew/inbox"), || mail("and another"));
        let log = format!("{home}/operations/log?event=registry.artifact_published");
        a_new_row_waits(&browser, &log, || {
            server.publish("prompt", "notes", &format!("1.{width}.0"), "More.");
        });
    }
}

#[test]
fn a_row_that_does_not_wait_any_more_is_struck_through_where_it_is() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let path = format!("/teams/{team}/inbox");
    for subject in ["the first", "the second"] {
        api.post(&path, json!({"fromAgentId": agent, "subject": subject, "body": "b"})).ok();
    }
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let before = watch(&browser, &format!("http://{}/o/acme/teams/crew/inbox", server.address));
    let newest = before[0][0].as_str().unwrap().to_string();
    api.patch(&format!("/teams/{team}/messages/{newest}"), json!({})).ok();
    browser.shows("Show what changed");
    let gone = "return [...document.querySelectorAll('.gone')].map((row) => row.dataset.row)";
    assert_eq!(browser.run(gone), json!([newest]));
    assert_eq!(browser.run(PLACES), before);
    nothing_moved(&browser);
    browser.click(".news button");
    eventually("it is away", || (!browser.text().contains("the second")).then_some(()));
}

#[test]
fn nothing_moves_when_tasks_and_jobs_change() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.add("ben", "member");
    let api = server.ada();
    let members = api.get("/organizations/members").items();
    let ben = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
    let member = format!("/organizations/members/{}", ben["userId"].as_str().unwrap());
    api.patch(&member, json!({"emailVerified": true})).ok();
    server.deployable(&["scribe"], json!({"approverIds": [ben["userId"]]}));
    let hired = json!({"stableKey": "scribe", "role": "member"});
    let team = api.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    api.post(&format!("/teams/{team}/agents"), hired).ok();
    let tasks = format!("/teams/{team}/tasks");
    let first = api.post(&tasks, json!({"title": "the first"})).id();
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let home = format!("http://{}/o/acme", server.address);
    watch(&browser, &format!("{home}/teams/crew/board"));
    api.post(&tasks, json!({"title": "the second"})).ok();
    browser.shows("the second");
    api.patch(&format!("{tasks}/{first}"), json!({"status": "blocked"})).ok();
    let moved = "return !!document.querySelector('[data-status=blocked] .task')";
    eventually("it is moved", || (browser.run(moved) == true).then_some(()));
    nothing_moved(&browser);

    let body = json!({"agentIds": ["scribe"], "promptName": "notes", "version": "*",
        "environment": "production", "provider": "p"});
    let job = api.post("/agents/deployments", body).id();
    watch(&browser, &format!("{home}/deployments/jobs/{job}"));
    browser.shows("Cancel the job");
    browser.shows("not yet");
    let comment = json!({"comment": "Looks right."});
    let approve = format!("/agents/deployments/{job}/approve");
    server.api("ben@acme.test").post(&approve, comment).ok();
    browser.shows("Complete");
    browser.shows("Looks right.");
    // What can be done follows the state, and so do the facts.
    browser.shows("Roll back");
    let text = browser.text();
    assert!(!text.contains("Cancel the job") && !text.contains("not yet"), "{text}");
    nothing_moved(&browser);
}

#[test]
fn what_was_entered_stays_when_others_ask_too() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let api = server.ada();
    let ask = |title: &str| {
        let question = json!({"agentId": agent, "title": title});
        api.post(&format!("/teams/{team}/approvals"), question).ok();
    };
    ask("May I?");
    let browser = driver.browser(1280, 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let page = format!("http://{}/o/acme/teams/crew/approvals", server.address);
    let before = watch(&browser, &page);
    browser.fill("input.comment", "Not before noon");
    // Nobody is in the field any more.
    browser.run("document.activeElement.blur()");
    ask("And this?");
    browser.shows("1 new");
    ask("And that?");
    browser.shows("2 new");
    assert_eq!(browser.value("input.comment"), "Not before noon");
    assert_eq!(browser.run(PLACES), before);
}

/// Opens as many streams as ten tabs in profiles of their own would, and says what is spoken.
const TEN_STREAMS: &str = "const done = arguments[0];
    const path = document.getElementById('main').dataset.stream;
    window.opened = 0; window.heard = Array(10).fill(0);
    for (let tab = 0; tab < 10; tab++) {
        const source = new EventSource(path);
        source.addEventListener('open', () => {
            opened += 1;
            if (opened === 10) done(performance.getEntriesByType('navigation')[0].nextHopProtocol);
        });
        source.addEventListener('changed', () => { heard[tab] += 1; });
    }";

/// A browser has six connections of HTTP/1.1 to a server, so that the seventh stream would wait, and every
/// request behind it.
#[test]
fn over_http_2_ten_tabs_are_live_beside_each_other_and_pages_load_beside_them() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    let (team, agent) = server.team("crew", "scribe");
    let files = tempfile::tempdir().unwrap();
    let pair = TlsFiles { certificate: files.path().join("pem"), key: files.path().join("key") };
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(&pair.certificate, made.pem()).unwrap();
    std::fs::write(&pair.key, key.serialize_pem()).unwrap();
    let tls = Some(OwnTls::of_files(&pair).unwrap());
    let config = ServerConfig { tls, rate_limit: 0, ..ServerConfig::default() };
    let secured = InProcess::serve(server.store.clone(), "127.0.0.1:0", config);

    let browser = driver.browser(1280, 900, true);
    let home = format!("https://{}", secured.address);
    browser.open(&format!("{home}/sign-in"));
    browser.fill("#f-email", "ada@acme.test");
    browser.fill("#f-password", PASSWORD);
    browser.click("main button.primary");
    browser.shows("Today");
    browser.open(&format!("{home}/o/acme/teams/crew/inbox"));
    assert_eq!(browser.run_async(TEN_STREAMS), json!("h2"));
    let mail = json!({"fromAgentId": agent, "subject": "the first", "body": "b"});
    server.ada().post(&format!("/teams/{team}/inbox"), mail).ok();
    eventually("all have heard", || {
        let heard = browser.run("return heard");
        heard.as_array().unwrap().iter().all(|count| *count != json!(0)).then_some(())
    });
    let page = "const done = arguments[0];
        fetch(location.href).then((page) => done(page.status), (error) => done(String(error)));";
    assert_eq!(browser.run_async(page), json!(200));
}
