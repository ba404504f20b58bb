//! Pictures of pages, for people who look at them: of all with `ROADSTEAD_PICTURES=<folder>`; with
//! `ROADSTEAD_UPDATE_PICTURES=1` of the main ones, in `docs/images/`.

use std::path::Path;

use serde_json::{Value, json};

use crate::outside;
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

/// A team at work.
fn fill_team(server: &Running) {
    let api = server.ada();
    let team = json!({"slug": "shipping", "name": "Shipping", "budget": {"monthlyUsd": 50},
        "description": "Brings releases to those who wait for them."});
    let team = api.post("/teams", team).id();
    let post = |path: &str, body: Value| api.post(&format!("/teams/{team}{path}"), body);
    let hire = |key: &str, role: &str, skills: Value| {
        post("/agents", json!({"stableKey": key, "role": role, "skills": skills})).id()
    };
    let scribe = hire("scribe", "scrum_master", json!(["writing", "proofreading"]));
    let herald = hire("herald", "member", json!(["publishing"]));
    for (title, status, agent) in [
        ("Write the release notes of 1.5", "in_progress", Some(&scribe)),
        ("Translate the notes into German", "open", Some(&herald)),
        ("Collect what changed since 1.4", "done", Some(&scribe)),
        ("Ask Legal about the new licence of a dependency", "blocked", Some(&scribe)),
        ("Tell subscribers", "open", None),
        ("Publish the notes of 1.4", "done", Some(&herald)),
        ("Check the links in the handbook", "open", None),
        ("Draw a picture for the announcement", "cancelled", None),
    ] {
        let task = json!({"title": title, "assigneeAgentId": agent,
            "description": "Lead with what changes for the reader.\nName every breaking change."});
        let id = post("/tasks", task).id();
        api.patch(&format!("/teams/{team}/tasks/{id}"), json!({"status": status})).ok();
    }
    let task = api.get(&format!("/teams/{team}/tasks?number=1")).items().remove(0);
    for (from, body) in [
        (Some(&scribe), "The log names two changes that I cannot find in the code."),
        (None, "Leave them out, and say so at the end."),
    ] {
        post("/messages", json!({"taskId": task["id"], "body": body, "fromAgentId": from})).ok();
    }
    for (subject, body) in [
        (
            "Which tone for the announcement?",
            "The last one was formal. Readers liked the one \
            before, which was not. Shall I write as plainly as there?",
        ),
        ("The notes of 1.4 are out", "All links answer."),
    ] {
        let mail = json!({"fromAgentId": scribe, "subject": subject, "body": body,
            "taskId": task["id"]});
        post("/inbox", mail).ok();
    }
    let question = json!({"agentId": herald, "title": "Publish the notes of 1.5 on Friday?",
        "body": "The freeze begins at noon. I would publish at ten.", "taskId": task["id"]});
    post("/approvals", question).ok();
    for (kind, title, body) in [
        ("milestone", "1.4 is out", "Two days before it was promised."),
        ("blocker_digest", "One thing is in the way", "Legal has not answered about a licence."),
    ] {
        let entry = json!({"kind": kind, "title": title, "body": body, "agentId": scribe});
        post("/timeline", entry).ok();
    }
    for (status, cost, error) in
        [("succeeded", 12.4, None), ("failed", 0.31, Some("the model did not answer in time"))]
    {
        let run = json!({"status": status, "costUsd": cost, "error": error});
        post(&format!("/agents/{scribe}/runs"), run).ok();
    }
    let memory = json!({"content": "Ada wants British spelling.", "tags": ["style"]});
    post(&format!("/agents/{scribe}/memories"), memory).ok();
    outside::ask(server, "shipping", "We translate handbooks. May our agent send you a sample?");
    let beat = json!({"environment": "staging", "hash": "4c1fe53b0a9d", "error": null});
    api.post("/agents/scribe/heartbeat", beat).ok();
}

/// Deploys to an environment without approvals, twice.
fn deploy(server: &Running) {
    let api = server.ada();
    let id = api.post("/environments", json!({"slug": "staging", "name": "Staging"})).id();
    for (name, value) in [("PRODUCT", "Harbour"), ("LANGUAGE", "English"), ("TEAM", "Shipping")] {
        api.put(&format!("/environments/{id}/variables/{name}"), json!({"value": value})).ok();
    }
    for version in ["1.0.0", "1.1.0"] {
        let body = json!({"agentIds": ["scribe"], "promptName": "release-notes",
            "version": version, "environment": "staging", "provider": "anthropic"});
        let job = api.post("/agents/deployments", body).id();
        let path = format!("/agents/deployments/{job}");
        let is_done = || (api.get(&path).ok()["state"] == "complete").then_some(());
        crate::client::eventually("a deployment", is_done);
    }
    for model in ["claude-sonnet", "claude-opus"] {
        api.patch("/agents/scribe", json!({"draft": {"model": model}})).ok();
        api.post("/agents/scribe/versions", json!({})).ok();
    }
    api.post("/fleets", json!({"name": "Writers", "description": "All that write."})).ok();
}

/// The pages in `docs/images/`.
const MAIN: [&str; 7] = ["today", "artifact", "compare", "editor", "agent", "board", "job"];

#[test]
fn the_main_pages_are_pictured() {
    let folder = std::env::var("ROADSTEAD_PICTURES").ok();
    let is_updating = std::env::var("ROADSTEAD_UPDATE_PICTURES").is_ok_and(|value| value == "1");
    if folder.is_none() && !is_updating {
        return;
    }
    let Some(driver) = driver() else { return };
    let server = Running::new();
    fill(&server);
    crate::filled::operations(&server, "Harbour");
    crate::filled::directory(&server, "Harbour");
    deploy(&server);
    fill_team(&server);
    let home = format!("http://{}", server.address);
    let waiting = "/agents/deployments?state=pending_approval";
    let job = server.ada().get(waiting).items()[0]["id"].clone();
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
    let team = server.ada().get("/teams?slug=shipping").items()[0]["id"].clone();
    let of_team = |list: &str| {
        let path = format!("/teams/{}/{list}", team.as_str().unwrap());
        server.ada().get(&path).items().pop().unwrap()["id"].as_str().unwrap().to_string()
    };
    let mail = format!("/o/acme/teams/shipping/inbox/{}", of_team("messages?audience=human"));
    let hired = format!("/o/acme/teams/shipping/agents/{}", of_team("agents"));
    let peer = format!("/o/acme/teams/shipping/peers/{}", of_team("exchange/peers"));
    let pages = [
        ("teams", "/o/acme/teams"),
        ("new-team", "/o/acme/new/team"),
        ("board", "/o/acme/teams/shipping/board"),
        ("task", "/o/acme/teams/shipping/tasks/1"),
        ("tasks", "/o/acme/teams/shipping/tasks"),
        ("inbox", "/o/acme/teams/shipping/inbox"),
        ("message", &mail),
        ("approvals", "/o/acme/teams/shipping/approvals"),
        ("team-agents", "/o/acme/teams/shipping/agents"),
        ("team-agent", &hired),
        ("timeline", "/o/acme/teams/shipping/timeline"),
        ("peers", "/o/acme/teams/shipping/peers"),
        ("peer", &peer),
        ("team-settings", "/o/acme/teams/shipping/settings"),
        ("agents", "/o/acme/agents"),
        ("agent", "/o/acme/agents/scribe"),
        ("agent-draft", "/o/acme/agents/scribe/edit"),
        ("agent-versions", "/o/acme/agents/scribe/versions"),
        ("agent-compare", "/o/acme/agents/scribe/compare"),
        ("fleets", "/o/acme/fleets"),
        ("deploy", "/o/acme/deployments/new?agent=scribe"),
        ("deployments", "/o/acme/deployments"),
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
        ("system", "/o/acme/operations/system"),
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
                let picture = browser.picture();
                if is_updating && MAIN.contains(&name) {
                    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
                    std::fs::create_dir_all(&images).unwrap();
                    std::fs::write(images.join(&file), crate::png::smaller(&picture)).unwrap();
                }
                if let Some(folder) = &folder {
                    std::fs::write(Path::new(folder).join(file), picture).unwrap();
                }
            };
            browser.open(&format!("{home}/sign-in"));
            browser.click(&format!(".theme button[value={theme}]"));
            browser.shows("Sign in");
            keep("sign-in");
            browser.fill("#f-email", "ada@acme.test");
            browser.fill("#f-password", PASSWORD);
            browser.click("main button.primary");
            browser.shows("Today");
            let is_kept = |name: &str| folder.is_some() || MAIN.contains(&name);
            for (name, path) in pages.into_iter().filter(|(name, _)| is_kept(name)) {
                browser.open(&format!("{home}{path}"));
                keep(name);
            }
            if folder.is_none() {
                continue;
            }
            let deploy = "deployments/new?agent=scribe&version=1.2.0&environment=production";
            browser.open(&format!("{home}/o/acme/{deploy}"));
            browser.click("button[value=preview]");
            browser.shows("Deploy exactly this");
            keep("deploy-preview");
        }
    }
}
