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
    jobs: String,
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
    let post = |path: &str, body| api.post(&format!("/teams/{team}{path}"), body).ok();
    post(&format!("/agents/{agent}/memories"), json!({"content": WORD}));
    post("/messages", json!({"toAgentId": agent, "subject": WORD, "body": WORD}));
    post("/approvals", json!({"agentId": agent, "title": WORD}));
    post(&format!("/agents/{agent}/runs"), json!({"status": "failed", "error": WORD}));
    Restricted { team, fleet, jobs: "/agents/deployments".into() }
}

/// All of it, as an owner reads it.
fn state(server: &Running, made: &Restricted) -> Vec<Value> {
    let api = server.ada();
    let team = &made.team;
    let paths = [
        "/registries".into(),
        "/registries/artifacts?registryRef=acme/vault".into(),
        "/prompts/plain/drafts?registryRef=acme/vault&artifactType=prompt".into(),
        "/environments".into(),
        "/fleets".into(),
        format!("/fleets/{}", made.fleet),
        "/agents/quiet".into(),
        "/agents/quiet/versions".into(),
        made.jobs.clone(),
        format!("/teams/{team}/agents"),
        format!("/teams/{team}/messages"),
        format!("/teams/{team}/approvals"),
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
        path.split(['/', '?', '=']).any(|part| NAMES.contains(&part) || part == made.fleet)
    };
    let (mut shown, mut refused, mut sent) = (0, 0, BTreeSet::new());
    for (path, page) in crawl(&ada) {
        shown += usize::from(page.text.contains(WORD));
        let own = ben.open(&path);
        assert!(!own.text.contains(WORD), "{path}: {}", own.words());
        for form in page.forms() {
            let is_own = OWN.iter().any(|path| form.action.starts_with(path));
            if !form.is_post || is_own || !sent.insert(form.action.clone()) {
                continue;
            }
            let reply = ben.send_form(&form, &[("_token", &token)]);
            assert!(!reply.text.contains(WORD), "{} of {path}: {}", form.action, reply.words());
            if is_named(&form.action) {
                // A form that lacks what is required is of nothing yet.
                let is_empty = reply.status == 400 && reply.words().contains("must not be empty");
                let said = format!("{} {}: {}", form.action, reply.status, reply.words());
                assert!(is_empty || matches!(reply.status, 403 | 404), "{said}");
                refused += usize::from(!is_empty);
            }
        }
    }
    assert!(shown > 20, "an owner sees it on {shown} pages");
    assert!(refused > 6, "{refused} forms");
    assert_eq!(state(&server, &made), before);
}
