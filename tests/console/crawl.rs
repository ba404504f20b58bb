//! Every page as every role: each link answers, no form that is offered is refused, nothing that was
//! entered is markup, and pages are small.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::json;

use crate::server::Running;
use crate::visitor::{Page, Visitor};

/// Markup, and the ends of what it may be put in.
const MARKUP: &str =
    "</textarea></script>\"'><script>alert(1)</script><img src=x onerror=alert(1)>";

/// Forms that end what the crawl needs.
const LAST: [&str; 3] = ["/sign-out", "/account/sessions/end", "/theme"];

/// Fills an organization with something of everything that pages show, with markup in every field.
fn fill(server: &Running) {
    let api = server.ada();
    let body = json!({"slug": "main", "name": MARKUP, "description": MARKUP});
    api.post("/registries", body).ok();
    api.patch("/auth/user", json!({"name": MARKUP})).ok();
    let publish = |kind: &str, name: &str, version: &str, source: String, model: &str| {
        let body = json!({"registryRef": "main", "artifactType": kind, "name": name,
            "version": version, "source": source, "model": model,
            "metadata": {MARKUP: MARKUP}});
        api.post("/registries/artifacts", body).ok();
    };
    publish("promptlet", "tone", "1.0.0", MARKUP.into(), "generic");
    let text = |more: &str| format!("{MARKUP} {{{{ import \"tone\" }}}}\n{{{{NAME}}}} {more}");
    publish("prompt", "notes", "1.0.0", text(""), "generic");
    publish("prompt", "notes", "1.1.0", text(MARKUP), "generic");
    publish("prompt", "notes", "1.1.0", text(MARKUP), MARKUP);
    let rules = json!([{"type": "forbidPattern", "value": "alert"}]);
    let policy = json!({"name": MARKUP, "severity": "warning", "rules": rules});
    let id = api.post("/governance/policies", policy).id();
    api.post(&format!("/governance/policies/{id}/assignments"), json!({"registryRef": "main"}))
        .ok();
    publish("prompt", "notes", "1.2.0", text("alert"), "generic");
    let key = api.post("/api-keys", json!({"name": MARKUP})).ok();
    let key = api.with_key(key["key"].as_str().unwrap());
    for (label, version) in [("production", "1.0.0"), ("production", "1.1.0"), ("next", "1.2.0")] {
        let body = json!({"registryRef": "main", "promptName": "notes", "label": label,
            "version": version});
        key.patch("/registries/artifacts/labels", body).ok();
    }
    let draft = json!({"registryRef": "main", "artifactType": "prompt", "draftVersion": "2.0.0",
        "body": MARKUP, "metadata": {MARKUP: MARKUP}});
    api.post("/prompts/notes/drafts", draft).ok();
    let environment = json!({"slug": "production", "name": MARKUP, "description": MARKUP});
    let id = api.post("/environments", environment).id();
    api.put(&format!("/environments/{id}/variables/NAME"), json!({"value": MARKUP})).ok();
    crate::filled::operations(server, MARKUP);
    crate::filled::directory(server, MARKUP);
}

/// Visits everything that can be reached by links.
fn crawl(visitor: &Visitor) -> BTreeMap<String, Page> {
    let mut known: BTreeSet<String> = BTreeSet::from(["/o/acme".to_string()]);
    let mut waiting: VecDeque<String> = known.iter().cloned().collect();
    let mut pages = BTreeMap::new();
    while let Some(path) = waiting.pop_front() {
        let page = visitor.open(&path);
        assert_eq!(page.status, 200, "{path}: {}", page.words());
        for link in page.links().into_iter().filter(|link| !link.starts_with("/assets/")) {
            if known.insert(link.clone()) {
                waiting.push_back(link);
            }
        }
        assert!(known.len() < 600, "{known:?}");
        pages.insert(path, page);
    }
    pages
}

#[track_caller]
fn is_plain(page: &Page) {
    for markup in ["<script>alert", "<img src=x", "</textarea></script>"] {
        assert!(!page.text.contains(markup), "{markup} on {}", page.path);
    }
}

#[test]
fn each_role_reaches_its_pages_and_none_is_offered_what_is_refused() {
    let server = Running::new();
    server.add("ben", "member");
    server.add("grace", "admin");
    fill(&server);
    for person in ["ben", "grace", "ada"] {
        let visitor = server.signed_in(&format!("{person}@acme.test"));
        let pages = crawl(&visitor);
        for needed in [
            "/account",
            "/o/acme/prompts/main",
            "/o/acme/prompts/main/notes/compare",
            "/o/acme/prompts/main/notes/versions/1.1.0",
            "/o/acme/promptlets/main/tone",
            "/o/acme/settings/keys/new",
            "/o/acme/settings/providers",
            "/o/acme/operations/channels",
            "/o/acme/tools/new",
        ] {
            assert!(pages.contains_key(needed), "{person} finds no {needed}");
        }
        let may_create = pages.contains_key("/o/acme/registries/new");
        assert_eq!(may_create, person != "ben", "{person}");
        let mut sent = BTreeSet::new();
        for page in pages.values() {
            is_plain(page);
            let forms = page.forms().into_iter().filter(|form| form.is_post);
            for form in forms.filter(|form| !LAST.contains(&form.action.as_str())) {
                // As it is: what is required is missing, so that most change nothing.
                if !sent.insert(form.action.clone()) || form.action.ends_with("/delete") {
                    continue;
                }
                let reply = visitor.send_form(&form, &[]);
                let is_taken = matches!(reply.status, 200 | 303 | 400 | 409);
                assert!(is_taken, "{person}: {} on {}: {}", reply.status, page.path, reply.words());
                is_plain(&reply);
            }
        }
        assert!(sent.len() > 5, "{sent:?}");
    }
}

#[test]
fn a_member_who_is_refused_reads_what_they_lack() {
    let server = Running::new();
    server.add("ben", "member");
    let ben = server.signed_in("ben@acme.test");
    let refused = ben.get("/o/acme/registries/new");
    assert_eq!(refused.status, 403);
    refused.shows("Only an owner or admin of the organization may do this.");
    let body = json!({"slug": "main", "name": "Main", "access": "restricted"});
    server.ada().post("/registries", body).ok();
    let refused = ben.get("/o/acme/prompts/main");
    assert_eq!(refused.status, 403);
    refused.shows("An owner or admin of the organization can give you a role or a grant");
}

#[test]
fn a_full_page_of_a_list_is_small() {
    let server = Running::new();
    server.registry();
    for minor in 0..60 {
        server.publish("prompt", "notes", &format!("1.{minor}.0"), "Text.");
        server.publish("prompt", &format!("prompt-{minor}"), "1.0.0", "Text.");
    }
    let ada = server.signed_in("ada@acme.test");
    for path in ["/o/acme/prompts/main", "/o/acme/prompts/main/notes"] {
        let page = ada.get(path);
        assert!(page.text.len() < 60_000, "{path} has {} bytes", page.text.len());
        let next = page.links().into_iter().find(|link| link.contains("cursor=")).unwrap();
        assert_eq!(ada.get(&next).status, 200);
    }
}
