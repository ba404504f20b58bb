//! Nothing scrolls sideways but what is meant to, at any width and with the longest names that the API
//! takes, none of which has a blank.

use std::sync::Arc;

use roadstead::app::ServerConfig;
use roadstead::console::FirstVisit;
use serde_json::json;

use crate::accessibility::kinds;
use crate::client::nostr::NostrKey;
use crate::crawl;
use crate::filled;
use crate::journeys::sign_in;
use crate::outside;
use crate::receiver::{Receiver, json_response};
use crate::server::{PASSWORD, Running};
use crate::webdriver::{Browser, driver};

/// The widths of a telephone, of a window at a zoom of 200 %, and of a screen.
const WIDTHS: [u32; 3] = [390, 640, 1280];

/// How much wider than the window a page is, and what sticks out. What is in something that scrolls does not.
const WIDE: &str = "
    const over = document.scrollingElement.scrollWidth - innerWidth;
    if (over <= 0) return '';
    const isCut = (one) => {
      for (let at = one.parentElement; at; at = at.parentElement)
        if (at !== document.body && getComputedStyle(at).overflowX !== 'visible') return true;
      return false;
    };
    const wide = [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility()
      && one.getBoundingClientRect().right > innerWidth + 1 && !isCut(one));
    return over + ' px: ' + wide.slice(-3).map((one) => one.outerHTML.slice(0, 80)).join(' … ');";

/// What scrolls and cannot be reached with keys: neither it nor anything in it takes the focus.
const UNREACHABLE: &str = "
    const bad = [...document.querySelectorAll('main *')].filter((one) => one.checkVisibility()
      && /auto|scroll/.test(getComputedStyle(one).overflowX) && one.scrollWidth > one.clientWidth + 13
      && one.tabIndex < 0
      && !one.querySelector('a[href], button, input, select, textarea, summary, [tabindex]'));
    return bad.map((one) => one.outerHTML.slice(0, 80)).join(' … ');";

fn long(length: usize) -> String {
    "W".repeat(length)
}

/// The longest slug.
fn slug() -> String {
    "w".repeat(64)
}

/// The longest domain.
fn domain() -> String {
    let label = "w".repeat(63);
    format!("{label}.{label}.{label}.test")
}

/// The longest version.
const VERSION: &str = "999999999.999999999.999999999";

/// Prompts and what they are checked by.
fn fill_prompts(server: &Running) {
    let api = server.ada();
    let (name, text) = (long(128), long(500));
    api.patch("/auth/user", json!({"name": long(200)})).ok();
    api.patch("/organizations", json!({"name": long(200)})).ok();
    let main = json!({"slug": "main", "name": long(200), "description": text});
    api.post("/registries", main).ok();
    let registry = json!({"slug": slug(), "name": long(200), "description": text});
    api.post("/registries", registry).ok();
    let publish = |kind: &str, version: &str, source: &str, model: &str| {
        let body = json!({"registryRef": slug(), "artifactType": kind, "name": name,
            "version": version, "source": source, "model": model, "message": text,
            "metadata": {long(200): long(200)}});
        api.post("/registries/artifacts", body).ok();
    };
    publish("promptlet", VERSION, &text, "generic");
    let source = format!("{{{{ import \"{name}\" }}}} {{{{{name}}}}} {text}");
    let policy = json!({"name": long(200), "severity": "warning", "description": text,
        "rules": [{"type": "forbidPattern", "value": "W"}]});
    let policy = api.post("/governance/policies", policy).id();
    let assigned = json!({"registryRef": slug()});
    api.post(&format!("/governance/policies/{policy}/assignments"), assigned).ok();
    publish("prompt", "1.0.0", &source, "generic");
    publish("prompt", VERSION, &format!("{source} W"), "generic");
    publish("prompt", VERSION, &text, &long(200));
    for version in ["1.0.0", VERSION] {
        let label = json!({"registryRef": slug(), "promptName": name, "label": slug(),
            "version": version});
        api.patch("/registries/artifacts/labels", label).ok();
    }
    let draft = json!({"registryRef": slug(), "artifactType": "prompt", "draftVersion": "2.0.0",
        "body": text, "metadata": {long(200): long(200)}});
    api.post(&format!("/prompts/{name}/drafts"), draft).ok();
    let tags = json!({"registryRef": slug(), "promptName": name, "tags": [long(50)]});
    api.patch("/registries/artifacts", tags).ok();
    let input = json!({"registryRef": slug(), "name": slug(), "variables": {&name: text},
        "message": text, "expect": {"contains": [text]}});
    api.post(&format!("/prompts/{name}/inputs"), input).ok();
    let me = api.get("/auth/session").ok()["user"]["id"].clone();
    let gated = "g".repeat(64);
    let protection = json!({"minRole": "member", "userIds": [me],
        "approvals": {"approverIds": [me]}});
    api.put(&format!("/registries/{}/protected-labels/{gated}", slug()), protection).ok();
    let change = json!({"registryRef": slug(), "promptName": name, "label": gated,
        "version": VERSION});
    api.patch("/registries/artifacts/labels", change).ok();
}

/// Agents and where they are deployed: to one environment that asks for approval, and one that does not.
fn fill_agents(server: &Running) {
    let api = server.ada();
    let (name, text) = (long(128), long(500));
    let me = api.get("/auth/session").ok()["user"]["id"].clone();
    let fleet = json!({"name": long(200), "description": text});
    let fleet = api.post("/fleets", fleet).id();
    let draft = json!({"registryRef": format!("acme/{}", slug()), "promptName": name,
        "promptVersion": VERSION, "model": long(200), "provider": long(200),
        "variables": {&name: text}, "providerConfig": {long(500): long(200)}});
    let agent = json!({"stableKey": slug(), "name": long(200), "description": text,
        "fleetId": fleet, "draft": draft, "tags": [long(50)]});
    api.post("/agents", agent).ok();
    let versions = format!("/agents/{}/versions", slug());
    api.post(&versions, json!({"message": text})).ok();
    api.patch(&format!("/agents/{}", slug()), json!({"draft": {"model": "m"}})).ok();
    api.post(&versions, json!({})).ok();
    for (place, approvals) in
        [(slug(), json!({"approverIds": [me]})), ("plain".into(), json!(null))]
    {
        let environment = json!({"slug": place, "name": long(200), "description": text,
            "approvals": approvals});
        let id = api.post("/environments", environment).id();
        api.put(&format!("/environments/{id}/variables/{name}"), json!({"value": text})).ok();
        api.put(&format!("/environments/{id}/secrets/{name}"), json!({"value": text})).ok();
        let job = json!({"agentIds": [slug()], "promptName": name, "version": VERSION,
            "environment": place, "provider": long(200),
            "registryRef": format!("acme/{}", slug())});
        api.post("/agents/deployments", job).ok();
    }
    crate::client::eventually("it is live", || {
        let places = api.get(&format!("/agents/{}/environments", slug())).items();
        places.iter().any(|place| !place["live"].is_null()).then_some(())
    });
    let beat = json!({"environment": "plain", "hash": long(200), "error": text});
    api.post(&format!("/agents/{}/heartbeat", slug()), beat).ok();
    let tool = json!({"name": long(200), "type": slug(), "version": VERSION, "description": text,
        "prompt": text, "providerConfig": {long(500): long(200)}, "message": text,
        "tags": [long(50)]});
    api.post("/tools", tool).ok();
}

/// A team, with something in each of its lists.
fn fill_team(server: &Running) {
    let api = server.ada();
    let text = long(500);
    let team = json!({"slug": slug(), "name": long(200), "description": text,
        "budget": {"monthlyUsd": 1}});
    let team = api.post("/teams", team).id();
    let post = |path: &str, body| api.post(&format!("/teams/{team}{path}"), body);
    let hired = json!({"stableKey": slug(), "role": "scrum_master", "skills": [long(50)]});
    let agent = post("/agents", hired).id();
    let task = json!({"title": text, "description": text, "assigneeAgentId": agent,
        "projectId": long(200)});
    let task = post("/tasks", task).id();
    post("/messages", json!({"taskId": task, "body": text, "fromAgentId": agent})).ok();
    let mail = json!({"fromAgentId": agent, "body": text, "subject": text, "taskId": task});
    post("/inbox", mail).ok();
    let question = json!({"agentId": agent, "title": text, "body": text, "taskId": task});
    post("/approvals", question).ok();
    let schedule = json!({"name": text, "everySecs": 60, "wake": {"agentId": agent, "text": text}});
    post("/schedules", schedule).ok();
    post("/timeline", json!({"kind": "milestone", "title": text, "body": text})).ok();
    let memory = json!({"content": text, "tags": [long(50)]});
    post(&format!("/agents/{agent}/memories"), memory).ok();
    let run = json!({"status": "failed", "costUsd": 2, "error": text, "taskId": task,
        "usage": [{"model": long(128), "input": 1200, "output": 300}]});
    post(&format!("/agents/{agent}/runs"), run).ok();
    post("/exchange/domain-rules", json!({"domain": domain(), "rule": "block"})).ok();
    let price = json!({"inputUsd": 1.25, "outputUsd": 10, "cachedUsd": 0.125});
    api.put(&format!("/model-prices/{}", long(128)), price).ok();
    api.post("/organizations/domains", json!({"domain": domain()})).ok();
    let listing = json!({"stableKey": slug(), "handle": format!("{}@{}", slug(), domain()),
        "pubkey": NostrKey::new().pubkey(), "displayName": long(200), "description": text,
        "skills": [long(50)]});
    api.post("/agent-index/listings", listing).ok();
    // One whose domain no rule blocks.
    let elsewhere = domain().replace('w', "v");
    outside::ask_as(server, &slug(), &text, (&slug(), &elsewhere));
    // An address has at most 254 characters.
    server.invite(&format!("{}@{}", "w".repeat(50), domain()), "member");
}

/// Looks at the page that is shown, at each width.
pub fn look(browser: &Browser, path: &str, all: &mut Vec<String>) {
    for width in WIDTHS {
        browser.resize(width, 900);
        for script in [WIDE, UNREACHABLE] {
            let found = browser.run(script);
            let found = found.as_str().unwrap();
            if !found.is_empty() {
                let path: String = path.chars().take(120).collect();
                all.push(format!("{path} ({width}): {found}"));
            }
        }
    }
}

/// A model that says as much as fits on no line.
fn model() -> Receiver {
    Receiver::responding(|_| {
        let said = json!({"model": long(128), "choices": [{"message": {"content": long(500)}}],
            "usage": {"prompt_tokens": 31, "completion_tokens": 42}});
        json_response(200, &said)
    })
}

/// Compares the versions of the prompt on its input.
fn compare(server: &Running, browser: &Browser) {
    let model = model();
    let provider = json!({"name": long(200), "provider": "custom", "baseUrl": model.url,
        "config": {"model": long(128)}});
    let provider = server.ada().post("/llm-providers", provider).id();
    let prompt = format!("/o/acme/prompts/{}/{}", slug(), long(128));
    browser.open(&format!("http://{}{prompt}/compare-inputs", server.address));
    browser.fill("#f-left", "1.0.0");
    browser.fill("#f-right", VERSION);
    browser.click(&format!("#f-llmProviderId option[value='{provider}']"));
    browser.click("main button.primary");
    browser.shows("0 worse, ");
    browser.click("main table summary");
}

/// Shows what has changed since a form was opened.
fn conflict(server: &Running, browser: &Browser) {
    let fleet = server.ada().get("/fleets").items()[0]["id"].clone();
    let fleet = fleet.as_str().unwrap();
    browser.open(&format!("http://{}/o/acme/fleets/{fleet}", server.address));
    browser.fill("#f-description", &"V".repeat(500));
    let theirs = json!({"name": "V".repeat(200), "description": "U".repeat(500)});
    server.ada().patch(&format!("/fleets/{fleet}"), theirs).ok();
    browser.click("main button.primary");
    browser.shows("It has changed since you opened it");
}

/// What is answered to forms: a plan, a comparison, a conflict, and signing in with what was entered.
fn look_at_answers(server: &Running, browser: &Browser, all: &mut Vec<String>) {
    let home = format!("http://{}/o/acme", server.address);
    // Wide, so that nothing that is pressed is out of sight.
    browser.resize(1280, 900);
    browser.open(&format!("{home}/deployments/new?agent={0}&environment={0}", slug()));
    browser.click("button[value=preview]");
    browser.shows("Deploy exactly this");
    look(browser, "what a deployment changes", all);
    compare(server, browser);
    look(browser, "inputs that are compared", all);
    conflict(server, browser);
    look(browser, "a conflict", all);
    browser.open(&format!("{home}/new/team"));
    browser.fill("#f-name", &long(200));
    browser.fill("#f-description", &long(500));
    // All but that of this call.
    server.ada().delete("/auth/sessions").ok();
    browser.click("main button.primary");
    browser.shows("Your session is over.");
    look(browser, "a session that is over", all);
    browser.fill("#f-email", "ada@acme.test");
    browser.fill("#f-password", PASSWORD);
    browser.click("main button.primary");
    browser.shows("was not sent yet");
    look(browser, "a form that is filled again", all);
}

#[test]
fn no_page_scrolls_sideways_with_the_longest_names() {
    let Some(driver) = driver() else { return };
    let server = Running::new();
    server.add("ben", "member");
    fill_prompts(&server);
    fill_agents(&server);
    fill_team(&server);
    server.ada().post("/environments", json!({"slug": "production", "name": long(200)})).ok();
    filled::operations(&server, &long(200));
    filled::directory(&server, &long(200));
    let ada = server.signed_in("ada@acme.test");
    let mut paths = kinds(crawl::crawl(&ada).into_keys());
    paths.extend(["/o/acme/search?q=WWW", "/o/acme/none", "/sign-in"].map(String::from));
    assert!(paths.len() > 90, "{paths:?}");
    let browser = driver.browser(WIDTHS[0], 900, true);
    sign_in(&browser, &server, "ada@acme.test");
    let mut all = Vec::new();
    for path in &paths {
        browser.open(&format!("http://{}{path}", server.address));
        look(&browser, path, &mut all);
    }
    // What a check finds is shown with its line.
    browser.open(&format!("http://{}/o/acme/prompts/main/told/edit", server.address));
    browser.fill("#f-source", &format!("{{{{ import \"{}\" }}}} {}", long(100), long(500)));
    browser.click("button[value=check]");
    browser.shows("Line 1, column 1");
    look(&browser, "a mistake", &mut all);
    look_at_answers(&server, &browser, &mut all);
    assert!(all.is_empty(), "{} in {} pages:\n{}", all.len(), paths.len(), all.join("\n"));
}

#[test]
fn no_page_for_who_is_not_signed_in_scrolls_sideways() {
    let Some(driver) = driver() else { return };
    let first_visit = Some(Arc::new(FirstVisit::default()));
    let server = Running::with(ServerConfig { first_visit, ..ServerConfig::default() });
    let api = server.ada();
    api.patch("/auth/user", json!({"name": long(200)})).ok();
    api.patch("/organizations", json!({"name": long(200)})).ok();
    let token = server.invite(&format!("{}@{}", "w".repeat(50), domain()), "member");
    let (bare, mut all) = (Running::bare(), Vec::new());
    let browser = driver.browser(WIDTHS[0], 900, true);
    let [home, bare] = [&server, &bare].map(|server| format!("http://{}", server.address));
    for path in ["/setup", "/invitations", "/first-visit", "/reset-password", "/forgot-password"] {
        browser.open(&format!("{home}{path}"));
        look(&browser, path, &mut all);
    }
    browser.open(&format!("{home}/invitations#{token}"));
    browser.shows(" invites ");
    look(&browser, "an invitation", &mut all);
    browser.fill("#f-name", &long(201));
    browser.fill("#f-password", PASSWORD);
    browser.click("main button.primary");
    browser.shows("Check what you entered");
    look(&browser, "an invitation that was refused", &mut all);
    browser.open(&format!("{home}/first-visit#{}", long(200)));
    browser.shows("Check what you entered");
    look(&browser, "a link that was used", &mut all);
    browser.open(&format!("{bare}/setup"));
    browser.shows("Set up Roadstead");
    look(&browser, "setting up", &mut all);
    for field in ["link", "orgName", "slug", "name", "email", "password"] {
        let text = if field == "email" { format!("a@{}", domain()) } else { long(200) };
        browser.fill(&format!("#f-{field}"), &text);
    }
    browser.click("main button.primary");
    browser.shows("Check what you entered");
    look(&browser, "setting up, refused", &mut all);
    assert!(all.is_empty(), "{}", all.join("\n"));
}
