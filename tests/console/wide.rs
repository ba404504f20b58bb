//! Nothing scrolls sideways but what is meant to, at any width and with the longest names that the API
//! takes, none of which has a blank.

use serde_json::json;

use crate::accessibility::kinds;
use crate::crawl;
use crate::filled;
use crate::journeys::sign_in;
use crate::server::Running;
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
        "variables": {&name: text}, "providerConfig": {long(200): long(200)}});
    let agent = json!({"stableKey": slug(), "name": long(200), "description": text,
        "fleetId": fleet, "draft": draft});
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
        "prompt": text, "providerConfig": {long(200): long(200)}, "message": text});
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
    let hired = json!({"stableKey": slug(), "role": "scrum_master", "skills": [long(64)]});
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
    let memory = json!({"content": text, "tags": [long(64)]});
    post(&format!("/agents/{agent}/memories"), memory).ok();
    let run = json!({"status": "failed", "costUsd": 2, "error": text, "taskId": task,
        "usage": [{"model": long(128), "input": 1200, "output": 300}]});
    post(&format!("/agents/{agent}/runs"), run).ok();
    post("/exchange/domain-rules", json!({"domain": domain(), "rule": "block"})).ok();
    let price = json!({"inputUsd": 1.25, "outputUsd": 10, "cachedUsd": 0.125});
    api.put(&format!("/model-prices/{}", long(128)), price).ok();
    api.post("/organizations/domains", json!({"domain": domain()})).ok();
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
    assert!(all.is_empty(), "{} in {} pages:\n{}", all.len(), paths.len(), all.join("\n"));
}
