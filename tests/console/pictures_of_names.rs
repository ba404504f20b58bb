//! Pictures of pages under names that are written from right to left, without blanks, with emoji, or as
//! long as they may be, for people who look at them: with `ROADSTEAD_PICTURES=<folder>`, beside those of
//! `pictures.rs`.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::eventually;
use crate::outside;
use crate::server::{PASSWORD, Running};
use crate::webdriver::{Browser, Driver, driver};

/// As many as a name may have.
const LONGEST: usize = 200;

/// The names; the last one is as long as it may be.
fn names() -> [String; 4] {
    let long = "Hafenverwaltungsangelegenheiten der Überseehäfen, ".repeat(5);
    let longest = long.chars().take(LONGEST - 1).chain(['.']).collect();
    ["شؤون الميناء".into(), "发布说明".into(), "🚢 Release".into(), longest]
}

/// A text of a prompt, and of what is written beside it.
const TEXT: &str = "شؤون الميناء: اكتب {{PRODUCT}} v1.5.\n\n发布说明：请先写读者会注意到的变化。\n\n🚢 Lead with what changes for the reader.";

/// Prompts, with one version that waits to be moved to.
fn fill_prompts(server: &Running) {
    let api = server.ada();
    let [arabic, _, emoji, longest] = names();
    api.patch("/organizations", json!({"name": arabic})).ok();
    api.patch("/auth/user", json!({"name": emoji})).ok();
    for (at, name) in names().iter().enumerate() {
        let registry = json!({"slug": format!("r{at}"), "name": name, "description": name});
        api.post("/registries", registry).ok();
        api.post("/fleets", json!({"name": name, "description": name})).ok();
        api.post("/knowledge-bases", json!({"name": name, "description": name})).ok();
        api.post("/tools", json!({"name": name, "type": "http", "description": name})).ok();
    }
    for version in ["1.0.0", "1.1.0"] {
        let source = format!("{TEXT}\n\n{version}");
        let body = json!({"registryRef": "r0", "artifactType": "prompt", "name": "release-notes",
            "version": version, "source": source, "message": longest});
        api.post("/registries/artifacts", body).ok();
    }
    let of_prompt = |more: Value| {
        let mut body = json!({"registryRef": "r0", "promptName": "release-notes"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    api.patch("/registries/artifacts", of_prompt(json!({"tags": ["发布说明", "🚢"]}))).ok();
    let label = of_prompt(json!({"label": "production", "version": "1.0.0"}));
    api.patch("/registries/artifacts/labels", label).ok();
    let me = api.get("/auth/session").ok()["user"]["id"].clone();
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [me]}});
    api.put("/registries/r0/protected-labels/production", protection).ok();
    let label = of_prompt(json!({"label": "production", "version": "1.1.0"}));
    api.patch("/registries/artifacts/labels", label).ok();
    for (name, words) in [("first", TEXT), ("second", "发布说明")] {
        let input = json!({"registryRef": "r0", "name": name, "variables": {"PRODUCT": words},
            "message": words, "expect": {"contains": ["🚢"]}});
        api.post("/prompts/release-notes/inputs", input).ok();
    }
    let provider = json!({"name": longest, "provider": "custom", "apiKey": "key",
        "baseUrl": "https://models.test", "config": {"model": "small"}});
    api.post("/llm-providers", provider).ok();
}

/// Agents, where one of them is to be deployed, and a team.
fn fill_agents(server: &Running) {
    let api = server.ada();
    let me = api.get("/auth/session").ok()["user"]["id"].clone();
    for (at, name) in names().iter().enumerate() {
        let draft = json!({"registryRef": "acme/r0", "promptName": "release-notes",
            "promptVersion": "*", "model": "small", "provider": "custom"});
        let agent = json!({"stableKey": format!("a{at}"), "name": name, "description": name,
            "draft": draft});
        api.post("/agents", agent).ok();
        let approvals = json!({"approverIds": [me]});
        let environment = json!({"slug": format!("e{at}"), "name": name, "description": name,
            "approvals": approvals});
        let id = api.post("/environments", environment).id();
        let variable = format!("/environments/{id}/variables/PRODUCT");
        api.put(&variable, json!({"value": name})).ok();
    }
    let job = json!({"agentIds": ["a0", "a1", "a2", "a3"], "promptName": "release-notes",
        "version": "1.1.0", "environment": "e0", "provider": "custom"});
    api.post("/agents/deployments", job).ok();
    let [arabic, chinese, ..] = names();
    let team = json!({"slug": "port", "name": arabic, "description": chinese});
    let team = api.post("/teams", team).id();
    let post = |path: &str, body: Value| api.post(&format!("/teams/{team}{path}"), body);
    let hire = |at: usize| {
        let role = if at == 0 { "scrum_master" } else { "member" };
        post("/agents", json!({"stableKey": format!("a{at}"), "role": role, "skills": [chinese]}))
            .id()
    };
    let agents = [0, 1, 2, 3].map(hire);
    for (name, agent) in names().iter().zip(&agents) {
        let task = json!({"title": name, "description": TEXT, "assigneeAgentId": agent});
        let task = post("/tasks", task).id();
        post("/messages", json!({"taskId": task, "body": TEXT, "fromAgentId": agent})).ok();
        let mail = json!({"fromAgentId": agent, "subject": name, "body": TEXT, "taskId": task});
        post("/inbox", mail).ok();
        post("/approvals", json!({"agentId": agent, "title": name, "body": TEXT})).ok();
        post("/timeline", json!({"kind": "milestone", "title": name, "body": TEXT})).ok();
    }
    outside::ask(server, "port", TEXT);
}

/// The names of the pictures, and the pages below that of the organization.
fn pages(server: &Running) -> Vec<(&'static str, String)> {
    let first = |list: &str| server.ada().get(list).items()[0]["id"].as_str().unwrap().to_string();
    let prompt = "/prompts/r0/release-notes";
    let change = first("/registries/artifacts/label-changes");
    let job = first("/agents/deployments");
    [
        ("today", ""),
        ("registries", "/prompts"),
        ("registry", "/prompts/r0"),
        ("artifact", prompt),
        ("version", &format!("{prompt}/versions/1.1.0")),
        ("compare", &format!("{prompt}/compare?from=1.0.0&to=1.1.0")),
        ("editor", &format!("{prompt}/edit")),
        ("try", &format!("{prompt}/try?version=1.1.0")),
        ("inputs", &format!("{prompt}/inputs")),
        ("compare-inputs", &format!("{prompt}/compare-inputs")),
        ("label-change", &format!("/label-changes/{change}")),
        ("agents", "/agents"),
        ("agent", "/agents/a3"),
        ("deploy", "/deployments/new?agent=a0"),
        ("deployments", "/deployments"),
        ("job", &format!("/deployments/jobs/{job}")),
        ("board", "/teams/port/board"),
        ("tasks", "/teams/port/tasks"),
        ("task", "/teams/port/tasks/1"),
        ("long-task", "/teams/port/tasks/4"),
        ("inbox", "/teams/port/inbox"),
        ("approvals", "/teams/port/approvals"),
        ("timeline", "/teams/port/timeline"),
        ("team-agents", "/teams/port/agents"),
        ("tools", "/tools"),
        ("environments", "/environments"),
        ("knowledge", "/knowledge"),
        ("members", "/settings/members"),
        ("search", "/search?q=发布"),
    ]
    .map(|(name, path)| (name, path.to_string()))
    .into()
}

/// Signs in, in this theme.
fn sign_in(browser: &Browser, home: &str, theme: &str) {
    browser.open(&format!("{home}/sign-in"));
    browser.click(&format!(".theme button[value={theme}]"));
    browser.shows("Sign in");
    browser.fill("#f-email", "ada@acme.test");
    browser.fill("#f-password", PASSWORD);
    browser.click("main button.primary");
    browser.shows("Today");
}

/// The pages in which nobody is signed in, or nothing was done yet.
fn picture_beginnings(
    driver: &Driver,
    (width, height): (u32, u32),
    keep: &dyn Fn(&Browser, &str, &str),
) {
    let server = Running::new();
    let [arabic, chinese, ..] = names();
    let api = server.ada();
    api.patch("/organizations", json!({"name": arabic})).ok();
    api.patch("/auth/user", json!({"name": chinese})).ok();
    let token = server.invite("ben@acme.test", "member");
    let home = format!("http://{}", server.address);
    for theme in ["light", "dark"] {
        let browser = driver.browser(width, height, true);
        browser.open(&format!("{home}/sign-in"));
        browser.click(&format!(".theme button[value={theme}]"));
        browser.shows("Sign in");
        browser.open(&format!("{home}/invitations#{token}"));
        browser.shows(&chinese);
        keep(&browser, "invitation", theme);
        sign_in(&browser, &home, theme);
        browser.shows("The first steps");
        keep(&browser, "first-steps", theme);
    }
}

#[test]
fn pages_with_names_of_the_world_are_pictured() {
    let Ok(folder) = std::env::var("ROADSTEAD_PICTURES") else { return };
    let Some(driver) = driver() else { return };
    let server = Running::new();
    fill_prompts(&server);
    fill_agents(&server);
    let home = format!("http://{}", server.address);
    let pages = pages(&server);
    for size in [(1280, 800), (390, 844)] {
        let keep = |browser: &Browser, name: &str, theme: &str| {
            let file = format!("names-{name}-{theme}-{}.png", size.0);
            std::fs::write(Path::new(&folder).join(file), browser.picture()).unwrap();
        };
        picture_beginnings(&driver, size, &keep);
        for theme in ["light", "dark"] {
            let browser = driver.browser(size.0, size.1, true);
            sign_in(&browser, &home, theme);
            for (name, path) in &pages {
                browser.open(&format!("{home}/o/acme{path}"));
                keep(&browser, name, theme);
            }
            let deploy = "deployments/new?agent=a0&version=1.1.0&environment=e3";
            browser.open(&format!("{home}/o/acme/{deploy}"));
            browser.click("button[value=preview]");
            browser.shows("Deploy exactly this");
            keep(&browser, "deploy-preview", theme);
            browser.open(&format!("{home}/o/acme"));
            // The field of the search is out of sight on a narrow screen.
            browser.press("#main", "\u{E009}k");
            browser.press(".palette input", "发布");
            eventually("what was found", || {
                let found = browser.run("return document.querySelectorAll('.palette li').length");
                (found != json!(0)).then_some(())
            });
            keep(&browser, "palette", theme);
        }
    }
}
