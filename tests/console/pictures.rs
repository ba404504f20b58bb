//! Pictures of the main pages, for people who look at them: with `ROADSTEAD_PICTURES=<folder>`.

use std::path::Path;

use serde_json::json;

use crate::server::{PASSWORD, Running};
use crate::webdriver::driver;

const TEXT: &str = "{{ import \"voice@^1.0\" }}\n\nYou write the release notes of {{PRODUCT}}, in {{LANGUAGE}}.\n\n- Lead with what changes for the reader.\n- Name every breaking change, with what to do about it.\n- Do not guess: ask what the log says.\n";

/// An organization as one that is used looks.
fn fill(server: &Running) {
    let api = server.ada();
    for (name, role) in [("Grace Hopper", "admin"), ("Ben Okri", "member")] {
        let email = format!("{}@acme.test", &name[..3].to_lowercase().trim());
        let body = json!({"email": email, "role": role});
        let made = api.post("/organizations/members", body).ok();
        let body = json!({"token": made["token"], "name": name, "password": PASSWORD});
        server.anonymous().ask("POST", "/auth/invitations/accept").json(&body).send().ok();
    }
    for (slug, name, description) in [
        ("main", "Main", "The prompts of all agents in production."),
        ("drafts", "Try-outs", "Anything goes; nothing here is deployed."),
    ] {
        api.post("/registries", json!({"slug": slug, "name": name, "description": description}))
            .ok();
    }
    server.publish("promptlet", "voice", "1.0.0", "Write plainly.");
    server.publish("promptlet", "voice", "1.1.0", "Write plainly. You speak for {{TEAM}}.");
    for name in ["triage", "scribe", "reviewer", "on-call"] {
        server.publish("prompt", name, "1.0.0", TEXT);
    }
    server.publish("prompt", "release-notes", "1.0.0", TEXT);
    let second = TEXT.replace("Lead with", "Begin with").replace("reader.", "people who read it.");
    server.publish("prompt", "release-notes", "1.1.0", &second);
    let rules = json!([{"type": "forbidPattern", "value": "TODO"}]);
    let policy = json!({"name": "House rules", "severity": "warning", "rules": rules});
    let id = api.post("/governance/policies", policy).id();
    api.post(&format!("/governance/policies/{id}/assignments"), json!({"registryRef": "main"}))
        .ok();
    server.publish("prompt", "release-notes", "1.2.0", &format!("{second}\nTODO: examples\n"));
    for (label, version) in [("production", "1.0.0"), ("production", "1.1.0"), ("staging", "1.2.0")]
    {
        let body = json!({"registryRef": "main", "promptName": "release-notes", "label": label,
            "version": version});
        api.patch("/registries/artifacts/labels", body).ok();
    }
    let me = api.get("/auth/session").ok()["user"]["id"].clone();
    let environment = json!({"slug": "production", "name": "Production",
        "approvals": {"approverIds": [me]}});
    let id = api.post("/environments", environment).id();
    for (name, value) in [("PRODUCT", "Harbour"), ("LANGUAGE", "English"), ("TEAM", "Shipping")] {
        api.put(&format!("/environments/{id}/variables/{name}"), json!({"value": value})).ok();
    }
    for key in ["scribe", "herald"] {
        let draft = json!({"registryRef": "acme/main", "promptName": "release-notes",
            "promptVersion": "production", "model": "claude-sonnet", "provider": "anthropic"});
        api.post("/agents", json!({"stableKey": key, "name": key, "draft": draft})).ok();
    }
    let body = json!({"agentIds": ["scribe", "herald"], "promptName": "release-notes",
        "version": "1.1.0", "environment": "production", "provider": "anthropic"});
    api.post("/agents/deployments", body).ok();
}

#[test]
fn the_main_pages_are_pictured() {
    let Ok(folder) = std::env::var("ROADSTEAD_PICTURES") else { return };
    let Some(driver) = driver() else { return };
    let server = Running::new();
    fill(&server);
    crate::filled::operations(&server, "Harbour");
    crate::filled::directory(&server, "Harbour");
    let home = format!("http://{}", server.address);
    let job = server.ada().get("/agents/deployments").items()[0]["id"].clone();
    let job = format!("/o/acme/deployments/jobs/{}", job.as_str().unwrap());
    let first = |kind: &str, page: &str| {
        let path = match kind {
            "channels" => "/notifications/channels",
            "policies" => "/governance/policies",
            "domains" => "/organizations/domains",
            "environments" => "/environments",
            "tools" => "/tools",
            _ => "/knowledge-bases",
        };
        format!("{page}/{}", server.ada().get(path).items()[0]["id"].as_str().unwrap())
    };
    let me = server.ada().get("/auth/session").ok()["user"]["id"].clone();
    let why = format!(
        "/o/acme/settings/access?who=user:{}&action=deployment.create",
        me.as_str().unwrap()
    );
    let pages = [
        ("today", "/o/acme"),
        ("registries", "/o/acme/prompts"),
        ("registry", "/o/acme/prompts/main"),
        ("artifact", "/o/acme/prompts/main/release-notes"),
        ("version", "/o/acme/prompts/main/release-notes/versions/1.1.0?environment=production"),
        ("compare", "/o/acme/prompts/main/release-notes/compare?from=1.0.0&to=1.2.0"),
        ("editor", "/o/acme/prompts/main/release-notes/edit"),
        ("labels", "/o/acme/prompts/main/release-notes/labels?version=1.2.0"),
        ("job", &job),
        ("account", "/account"),
        ("search", "/o/acme/search?q=har"),
        ("members", "/o/acme/settings/members"),
        ("keys", "/o/acme/settings/keys"),
        ("new-key", "/o/acme/settings/keys/new"),
        ("grants", "/o/acme/settings/grants"),
        ("why", &why),
        ("providers", "/o/acme/settings/providers"),
        ("log", "/o/acme/operations/log"),
        ("channel", &first("channels", "/o/acme/operations/channels")),
        ("new-channel", "/o/acme/operations/new-channel?workflow=webhook"),
        ("audit", "/o/acme/operations/audit"),
        ("environment", &first("environments", "/o/acme/environments")),
        ("edit-environment", &format!("{}/edit", first("environments", "/o/acme/environments"))),
        ("tool", &first("tools", "/o/acme/tools")),
        ("policy", &first("policies", "/o/acme/governance/policies")),
        ("new-policy", "/o/acme/governance/new-policy"),
        ("knowledge", &first("knowledge-bases", "/o/acme/knowledge")),
        ("domain", &first("domains", "/o/acme/directory/domains")),
    ];
    for (width, height) in [(1280, 800), (390, 844)] {
        for theme in ["light", "dark"] {
            let browser = driver.browser(width, height, true);
            let keep = |name: &str| {
                let file = format!("{name}-{theme}-{width}.png");
                std::fs::write(Path::new(&folder).join(file), browser.picture()).unwrap();
            };
            browser.open(&format!("{home}/sign-in"));
            browser.click(&format!(".theme button[value={theme}]"));
            browser.shows("Sign in");
            keep("sign-in");
            browser.fill("#f-email", "ada@acme.test");
            browser.fill("#f-password", PASSWORD);
            browser.click("main button.primary");
            browser.shows("Today");
            for (name, path) in pages {
                browser.open(&format!("{home}{path}"));
                keep(name);
            }
        }
    }
}
