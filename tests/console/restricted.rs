//! What a member without an access grant sees of restricted resources on any page, and what the forms of
//! those who may use them do when such a member sends them: nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::eventually;
use crate::crawl::crawl;
use crate::server::Running;

/// Is in each text and name that is restricted, and in no path.
const WORD: &str = "Canary";

/// Names in paths: of the registry, the environment and the agent.
const NAMES: [&str; 3] = ["vault", "sealed", "quiet"];

/// Forms that end a session or choose its looks.
const OWN: [&str; 3] = ["/sign-out", "/account", "/theme"];

struct Restricted {
    team: String,
    fleet: String,
    environment: String,
    /// The entry of the agent in the team.
    agent: String,
    /// What is its own, in paths.
    own: Vec<String>,
}

/// Makes something restricted of each kind, and what belongs to it.
fn fill(server: &Running) -> Restricted {
    let api = server.ada();
    let of = |slug: &str| json!({"slug": slug, "name": WORD, "access": "restricted"});
    api.post("/registries", of("vault")).ok();
    let version = json!({"registryRef": "acme/vault", "artifactType": "prompt", "name": "plain",
        "version": "1.0.0", "source": "Canary {{NAME}}"});
    api.post("/registries/artifacts", version).ok();
    let draft = json!({"registryRef": "acme/vault", "artifactType": "prompt",
        "draftVersion": "1.1.0", "body": WORD});
    api.post("/prompts/plain/drafts", draft).ok();
    let label = json!({"registryRef": "acme/vault", "promptName": "plain", "label": "live",
        "version": "1.0.0"});
    api.patch("/registries/artifacts/labels", label).ok();
    let environment = api.post("/environments", of("sealed")).id();
    let variable = json!({"value": WORD});
    api.put(&format!("/environments/{environment}/variables/NAME"), variable).ok();
    let fleet = api.post("/fleets", json!({"name": WORD, "access": "restricted"})).id();
    let agent = json!({"stableKey": "quiet", "name": WORD, "fleetId": fleet});
    api.post("/agents", agent).ok();
    api.post("/agents/quiet/versions", json!({})).ok();
    let deployment = json!({"agentIds": ["quiet"], "environment": "sealed", "provider": WORD,
        "promptName": "plain", "version": "1.0.0", "registryRef": "acme/vault"});
    let job = api.post("/agents/deployments", deployment).id();
    eventually("the deployment is complete", || {
        let job = api.get(&format!("/agents/deployments/{job}")).ok();
        (job["state"] == "complete").then_some(())
    });
    let beat = json!({"environment": "sealed", "hash": "x", "error": WORD});
    api.post("/agents/quiet/heartbeat", beat).ok();
    // In a team its name is no secret, but what is its own is.
    api.patch("/agents/quiet", json!({"name": "Quiet"})).ok();
    let team = api.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let hired = json!({"stableKey": "quiet", "role": "member"});
    let agent = api.post(&format!("/teams/{team}/agents"), hired).id();
    let post = |path: &str, body| api.post(&format!("/teams/{team}{path}"), body).id();
    let memory = post(&format!("/agents/{agent}/memories"), json!({"content": WORD}));
    let mail = json!({"toAgentId": agent, "subject": WORD, "body": WORD});
    let mail = post("/messages", mail);
    let question = post("/approvals", json!({"agentId": agent, "title": WORD}));
    let run = json!({"status": "failed", "error": WORD});
    let run = post(&format!("/agents/{agent}/runs"), run);
    let own = vec![fleet.clone(), job, agent.clone(), memory, mail, question, run];
    Restricted { team, fleet, environment, agent, own }
}

/// All of it, as an owner reads it.
fn state(server: &Running, made: &Restricted) -> Vec<Value> {
    let api = server.ada();
    let Restricted { team, fleet, environment, agent, .. } = made;
    let paths = [
        "/registries".into(),
        "/registries/artifacts?registryRef=acme/vault".into(),
        "/prompts/plain/drafts?registryRef=acme/vault&artifactType=prompt".into(),
        "/environments".into(),
        "/fleets".into(),
        format!("/fleets/{fleet}"),
        format!("/environments/{environment}/variables"),
        format!("/environments/{environment}/secrets"),
        "/agents/quiet".into(),
        "/agents/quiet/versions".into(),
        "/agents/deployments".into(),
        format!("/teams/{team}/agents"),
        format!("/teams/{team}/messages"),
        format!("/teams/{team}/approvals"),
        format!("/teams/{team}/agents/{agent}/memories"),
        format!("/teams/{team}/agents/{agent}/runs"),
    ];
    let mut state: Vec<Value> = paths.iter().map(|path: &String| api.get(path).ok()).collect();
    state.push(api.get("/access-grants").ok());
    state
}

#[test]
fn no_page_shows_what_is_restricted_and_no_form_changes_it_for_a_member_without_the_grant() {
    let server = Running::new();
    server.add("ben", "member");
    let made = fill(&server);
    let before = state(&server, &made);
    assert!(json!(before).to_string().matches(WORD).count() > 8, "it is there");
    let (ada, ben) = (server.signed_in("ada@acme.test"), server.signed_in("ben@acme.test"));
    for (path, page) in crawl(&ben) {
        page.hides(WORD);
        assert!(!page.text.contains(WORD), "{path} has it");
    }
    let token = ben.get("/account").field("/account", "_token");
    let is_named = |path: &str| {
        path.split(['/', '?', '='])
            .any(|part| NAMES.contains(&part) || made.own.iter().any(|own| own == part))
    };
    let (mut shown, mut refused, mut sent) = (0, 0, BTreeSet::new());
    for (path, page) in crawl(&ada) {
        shown += usize::from(page.text.contains(WORD));
        let own = ben.open(&path);
        assert!(!own.text.contains(WORD), "{path}: {}", own.words());
        for form in page.forms() {
            let is_own = OWN.iter().any(|path| form.action.starts_with(path));
            if !form.is_post || is_own {
                continue;
            }
            let none = (String::new(), String::new());
            let buttons = if form.buttons.is_empty() { vec![none] } else { form.buttons.clone() };
            for (name, value) in buttons {
                let mut fields = form.fields.clone();
                fields.retain(|(name, _)| !["_token", "_key", "_return"].contains(&&**name));
                if !sent.insert((form.action.clone(), name.clone(), value.clone(), fields)) {
                    continue;
                }
                let filled = [("_token", &*token), (&*name, &*value)];
                let reply = ben.send_form(&form, &filled[..if name.is_empty() { 1 } else { 2 }]);
                let said = format!("{} {name}={value} of {path}: {}", form.action, reply.words());
                assert!(!reply.text.contains(WORD), "{said}");
                if is_named(&form.action) {
                    // A form that lacks what is required is of nothing yet.
                    let is_empty = reply.status == 400 && said.contains("must not be empty");
                    assert!(is_empty || matches!(reply.status, 403 | 404), "{said}");
                    refused += usize::from(!is_empty);
                }
            }
        }
    }
    assert!(shown > 20, "an owner sees it on {shown} pages");
    assert!(refused > 6, "{refused} forms");
    assert_eq!(state(&server, &made), before);
}
