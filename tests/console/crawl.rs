//! Every page as every role: each link answers, no form that is offered is refused, nothing that was
//! entered is markup, and pages are small.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::json;

use crate::answers::ANSWERS;
use crate::html::Form;
use crate::outside;
use crate::server::Running;
use crate::visitor::{Page, Visitor};

/// Markup, and the ends of what it may be put in.
const MARKUP: &str =
    "</textarea></script>\"'><script>alert(1)</script><img src=x onerror=alert(1)>";

/// The same for names that are shorter.
const SHORT: &str = "</textarea></script>\"'><script>alert(1)";

/// The same as a tag.
pub const TAG: &str = SHORT;

/// Forms that end what the crawl needs.
const LAST: [&str; 3] = ["/sign-out", "/account/sessions/end", "/theme"];

/// Fills an organization with something of everything that pages show, with markup in every field.
pub fn fill(server: &Running) {
    let api = server.ada();
    let body = json!({"slug": "main", "name": MARKUP, "description": MARKUP});
    api.post("/registries", body).ok();
    api.patch("/auth/user", json!({"name": MARKUP})).ok();
    api.patch("/organizations", json!({"name": MARKUP})).ok();
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
    let tags = json!({"registryRef": "main", "promptName": "notes", "tags": [TAG]});
    api.patch("/registries/artifacts", tags).ok();
    let me = api.get("/auth/user").ok()["id"].clone();
    let protection = json!({"minRole": "member", "userIds": [me],
        "approvals": {"approverIds": [me]}});
    api.put("/registries/main/protected-labels/gated", protection).ok();
    let gated = json!({"registryRef": "main", "promptName": "notes", "label": "gated",
        "version": "1.1.0"});
    key.patch("/registries/artifacts/labels", gated).ok();
    let draft = json!({"registryRef": "main", "artifactType": "prompt", "draftVersion": "2.0.0",
        "body": MARKUP, "metadata": {MARKUP: MARKUP}});
    api.post("/prompts/notes/drafts", draft).ok();
    let input = json!({"registryRef": "main", "name": "first", "variables": {"NAME": MARKUP},
        "message": MARKUP, "expect": {"contains": [MARKUP], "judge": MARKUP}});
    api.post("/prompts/notes/inputs", input).ok();
    let environment = json!({"slug": "production", "name": MARKUP, "description": MARKUP});
    let id = api.post("/environments", environment).id();
    api.put(&format!("/environments/{id}/variables/NAME"), json!({"value": MARKUP})).ok();
    crate::filled::operations(server, MARKUP);
    crate::filled::directory(server, MARKUP);
}

/// A text as a segment of a path.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Adds a team with something in each of its lists, agents, and a deployment.
pub fn fill_teams(server: &Running) {
    let api = server.ada();
    let fleet = json!({"name": MARKUP, "description": MARKUP});
    let fleet = api.post("/fleets", fleet).id();
    let draft = json!({"registryRef": "acme/main", "promptName": "notes", "promptVersion": "1.0.0",
        "model": MARKUP, "provider": MARKUP, "variables": {"NAME": MARKUP},
        "providerConfig": {MARKUP: MARKUP}});
    for (key, fleet) in [("scribe", json!(fleet)), ("herald", json!(null))] {
        let body = json!({"stableKey": key, "name": MARKUP, "description": MARKUP,
            "fleetId": fleet, "draft": draft, "tags": [TAG]});
        api.post("/agents", body).ok();
        api.post(&format!("/agents/{key}/versions"), json!({})).ok();
    }
    api.patch("/agents/scribe", json!({"draft": {"model": "m", "provider": "p"}})).ok();
    api.post("/agents/scribe/versions", json!({})).ok();
    let deploy = |version: &str| {
        let body = json!({"agentIds": ["scribe", "herald"], "promptName": "notes",
            "version": version, "environment": "production", "provider": MARKUP});
        api.post("/agents/deployments", body).ok()
    };
    let is_done = |job: &serde_json::Value| {
        let path = format!("/agents/deployments/{}", job["id"].as_str().unwrap());
        let state = api.get(&path).ok()["state"].clone();
        (state == "complete").then_some(())
    };
    for version in ["1.0.0", "1.1.0"] {
        let job = deploy(version);
        crate::client::eventually("a deployment", || is_done(&job));
    }
    let beat = json!({"environment": "production", "hash": MARKUP, "error": MARKUP});
    api.post("/agents/scribe/heartbeat", beat).ok();
    let beat = json!({"environment": "production", "hash": MARKUP});
    api.post("/agents/herald/heartbeat", beat).ok();

    let price = json!({"inputUsd": 1.25, "outputUsd": 10, "cachedUsd": 0.125});
    api.put("/model-prices/gpt-5", price.clone()).ok();
    api.put(&format!("/model-prices/{}", encoded(SHORT)), price).ok();
    let team = json!({"slug": "crew", "name": MARKUP, "description": MARKUP,
        "budget": {"monthlyUsd": 1}});
    let team = api.post("/teams", team).id();
    let post = |path: &str, body| api.post(&format!("/teams/{team}{path}"), body);
    let hired = json!({"stableKey": "scribe", "role": "scrum_master", "skills": [SHORT]});
    let agent = post("/agents", hired).id();
    let task = json!({"title": MARKUP, "description": MARKUP, "assigneeAgentId": agent});
    let task = post("/tasks", task).id();
    post("/messages", json!({"taskId": task, "body": MARKUP, "fromAgentId": agent})).ok();
    post("/messages", json!({"toAgentId": agent, "body": MARKUP, "subject": MARKUP})).ok();
    for subject in [Some(MARKUP), None] {
        let mail = json!({"fromAgentId": agent, "body": MARKUP, "subject": subject,
            "taskId": task});
        post("/inbox", mail).ok();
    }
    for _ in 0..2 {
        let question = json!({"agentId": agent, "title": MARKUP, "body": MARKUP, "taskId": task});
        post("/approvals", question).ok();
    }
    let first = api.get(&format!("/teams/{team}/approvals")).items()[0]["id"].clone();
    let decided = json!({"decision": "denied", "comment": MARKUP});
    post(&format!("/approvals/{}/decide", first.as_str().unwrap()), decided).ok();
    let schedule = json!({"name": MARKUP, "everySecs": 60,
        "wake": {"agentId": agent, "text": MARKUP}});
    post("/schedules", schedule).ok();
    let schedule = json!({"name": MARKUP, "cron": "0 9 * * mon",
        "task": {"title": MARKUP, "description": MARKUP, "assigneeAgentId": agent}});
    let schedule = post("/schedules", schedule).id();
    post(&format!("/schedules/{schedule}/pause"), json!({"reason": MARKUP})).ok();
    post("/timeline", json!({"kind": "milestone", "title": MARKUP, "body": MARKUP})).ok();
    let memory = json!({"content": MARKUP, "tags": [SHORT]});
    post(&format!("/agents/{agent}/memories"), memory).ok();
    let own = json!({"budget": {"monthlyUsd": 2, "onExhausted": "notify"}});
    api.patch(&format!("/teams/{team}/agents/{agent}"), own).ok();
    let run = json!({"status": "failed", "costUsd": 2, "error": MARKUP, "taskId": task,
        "usage": [{"model": SHORT, "input": 1200, "output": 300}]});
    post(&format!("/agents/{agent}/runs"), run).ok();
    for step in ["accept", "refuse", "block"] {
        let (_, peer) = outside::ask(server, "crew", MARKUP);
        post(
            &format!("/exchange/peers/{peer}/{step}"),
            match step {
                "refuse" => json!({"reason": MARKUP}),
                _ => json!({}),
            },
        )
        .ok();
    }
    outside::ask(server, "crew", MARKUP);
}

/// Where the form of what is ticked in a list leads, and that once its first row is: no link says it.
fn ticked(page: &Page) -> Option<(String, String)> {
    let tags = crate::html::tags(&page.text);
    let tick = tags.iter().find(|tag| tag.get("form") == Some("many"))?.get("value")?;
    let form = tags.iter().find(|tag| tag.get("id") == Some("many"))?.get("action")?;
    Some((form.into(), format!("{form}?each={tick}")))
}

/// Visits everything that can be reached by links.
pub fn crawl(visitor: &Visitor) -> BTreeMap<String, Page> {
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
        if let Some((_, first)) = ticked(&page).filter(|(form, _)| known.insert(form.clone())) {
            waiting.push_back(first);
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

/// Fails unless somebody finds the pages that they are to find, and no others.
#[track_caller]
fn finds_its_pages(person: &str, pages: &BTreeMap<String, Page>) {
    let is_viewer = person == "vera";
    let written: &[&str] =
        if is_viewer { &[] } else { &["/o/acme/tools/new", "/o/acme/deployments/new"] };
    let read = [
        "/account",
        "/o/acme/prompts/main",
        "/o/acme/prompts/main/notes/compare",
        "/o/acme/label-changes",
        "/o/acme/prompts/main/notes/versions/1.1.0",
        "/o/acme/promptlets/main/tone",
        "/o/acme/settings/keys/new",
        "/o/acme/settings/providers",
        "/o/acme/operations/channels",
        "/o/acme/teams/crew/board",
        "/o/acme/teams/crew/tasks/1",
        "/o/acme/teams/crew/timeline",
        "/o/acme/teams/crew/activity",
        "/o/acme/teams/crew/usage",
        "/o/acme/settings/model-prices",
        "/o/acme/agents/scribe/versions/1",
        "/o/acme/fleets",
    ];
    for needed in read.iter().chain(written) {
        assert!(pages.contains_key(*needed), "{person} finds no {needed}");
    }
    if is_viewer {
        let forms = pages.keys().filter(|path| is_of_a_form(path)).map(|path| template(path));
        let forms: BTreeSet<_> = forms.collect();
        assert!(forms.iter().eq(VIEWERS_FORMS), "{forms:?}");
    }
    let may_create = pages.contains_key("/o/acme/registries/new");
    assert_eq!(may_create, !["vera", "ben"].contains(&person), "{person}");
    let sees_system = pages.contains_key("/o/acme/operations/system");
    assert_eq!(sees_system, person == "ada", "{person}");
}

/// The pages with a form alone that a viewer finds: their own keys, and leaving.
const VIEWERS_FORMS: [&str; 3] =
    ["/o/acme/settings/keys/new", "/o/acme/settings/members/{id}/delete", "/organizations/new"];

/// The buttons that a viewer is offered: of their own account, and what only looks.
const VIEWERS_BUTTONS: [&str; 7] = [
    "/account",
    "/account/password",
    "/account/second-factor action=begin",
    "/device",
    "/o/acme/governance/check",
    "/o/acme/settings/keys/new",
    "/organizations/new",
];

/// Whether a path is that of a page on which something is made, changed or deleted.
fn is_of_a_form(path: &str) -> bool {
    let path = path.split('?').next().unwrap();
    let last = path.rsplit('/').next().unwrap();
    let is_new = last == "new" || last.starts_with("new-") || path.contains("/new/");
    is_new || ["add", "delete", "edit", "invite", "labels", "remove", "upload"].contains(&last)
}

/// A path without what differs from run to run: its query, ids, and names that are encoded.
pub fn template(action: &str) -> String {
    let path = action.split('?').next().unwrap();
    let part = |part: &str| match part {
        part if part.len() == 36 && part.matches('-').count() == 4 => "{id}".to_string(),
        part if part.contains('%') => "{name}".to_string(),
        part => part.to_string(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The form of a page that is sent to a path, with this button.
fn offered(page: &Page, action: &str, button: Option<&(String, String)>) -> Option<Form> {
    let has = |form: &Form| button.is_none_or(|button| form.buttons.contains(button));
    page.forms().into_iter().find(|form| form.is_post && form.action == action && has(form))
}

/// Presses each button that pages offer once, with what their forms are filled with, and returns the
/// statuses that were answered, by the kind of form and the button.
pub fn press_all(
    visitor: &Visitor,
    pages: &BTreeMap<String, Page>,
) -> BTreeMap<String, BTreeSet<u16>> {
    let (mut pressed, mut answered) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
    for page in pages.values() {
        is_plain(page);
        let forms = page.forms().into_iter().filter(|form| form.is_post);
        for form in forms.filter(|form| !LAST.contains(&form.action.as_str())) {
            let buttons = form.buttons.iter().map(Some);
            let buttons = buttons.chain(form.buttons.is_empty().then_some(None));
            for button in buttons.filter(|_| !is_end(&form)) {
                if !pressed.insert((form.action.clone(), button.cloned())) {
                    continue;
                }
                // What an earlier button has ended is not offered any more.
                let now = visitor.get(&page.path);
                let Some(form) = offered(&now, &form.action, button) else { continue };
                let fields: Vec<_> =
                    button.iter().map(|(name, value)| (&**name, &**value)).collect();
                let reply = visitor.send_form(&form, &fields);
                is_plain(&reply);
                let of = button.map(|(name, value)| format!(" {name}={}", template(value)));
                let kind = template(&form.action) + &of.unwrap_or_default();
                answered.entry(kind).or_default().insert(reply.status);
            }
        }
    }
    answered
}

/// Whether a form deletes something.
fn is_end(form: &Form) -> bool {
    form.action.ends_with("/delete") || form.action.ends_with("/remove")
}

/// Deletes what pages offer to delete: what is within something first.
pub fn press_ends(visitor: &Visitor, pages: &BTreeMap<String, Page>) {
    let ends = |page: &Page| page.forms().into_iter().filter(|form| form.is_post && is_end(form));
    let mut paths: Vec<_> = pages.values().filter(|page| ends(page).next().is_some()).collect();
    // What a list offers to remove goes with what it is about.
    let is_whole = |page: &Page| page.path.ends_with("/delete");
    paths.sort_by_key(|page| (is_whole(page), Reverse(page.path.matches('/').count())));
    for page in paths {
        // What was deleted meanwhile is not offered any more.
        for form in ends(&visitor.get(&page.path)) {
            is_plain(&visitor.send_form(&form, &[]));
        }
    }
}

#[test]
fn each_role_reaches_its_pages_and_none_is_offered_what_is_refused() {
    let known = ANSWERS.iter().flat_map(|(is, kinds)| kinds.iter().map(move |kind| (*kind, *is)));
    let known: BTreeMap<_, _> = known.collect();
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (person, number) in
        [("vera", VIEWERS_BUTTONS.len()), ("ben", 92), ("grace", 147), ("ada", 149)]
    {
        // One for each, so that nobody finds what others have done.
        let server = Running::new();
        server.add("vera", "viewer");
        server.add("ben", "member");
        server.add("grace", "admin");
        fill(&server);
        fill_teams(&server);
        let visitor = server.signed_in(&format!("{person}@acme.test"));
        let pages = crawl(&visitor);
        finds_its_pages(person, &pages);
        let answered = press_all(&visitor, &pages);
        for (kind, is) in &answered {
            if !known.get(kind.as_str()).is_some_and(|known| is.iter().eq([known])) {
                wrong.push(format!("{person}: {kind}: {is:?}"));
            }
        }
        if answered.len() != number {
            wrong.push(format!("{person} is offered {} kinds", answered.len()));
        }
        if person == "vera" && !answered.keys().eq(VIEWERS_BUTTONS.iter()) {
            wrong.push(format!("{person} is offered {:?}", answered.keys()));
        }
        used.extend(answered.into_keys());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let gone: Vec<_> = known.keys().filter(|kind| !used.contains(**kind)).collect();
    assert!(gone.is_empty(), "nobody is offered {gone:?}");
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
fn a_viewer_is_refused_what_they_enter_by_hand_and_reads_why() {
    let server = Running::new();
    server.add("vera", "viewer");
    server.add("ben", "member");
    fill(&server);
    fill_teams(&server);
    let vera = server.signed_in("vera@acme.test");
    for path in [
        "/o/acme/prompts/main/notes/edit",
        "/o/acme/prompts/main/notes/labels",
        "/o/acme/prompts/main/notes/versions/1.1.0/delete",
        "/o/acme/registries/main/new",
        "/o/acme/agents/herald/edit",
        "/o/acme/agents/herald/delete",
        "/o/acme/new/agent",
        "/o/acme/new/team",
        "/o/acme/tools/new",
        "/o/acme/deployments/new",
        "/o/acme/teams/crew/tasks/new",
        "/o/acme/teams/crew/schedules/new",
        "/o/acme/teams/crew/agents/add",
    ] {
        let refused = vera.get(path);
        assert_eq!(refused.status, 403, "{path}: {}", refused.words());
        refused.shows("A viewer reads and changes nothing");
    }
    // What a form of before she was one sends.
    let mut form = vera.get("/o/acme/teams/crew/timeline").form("/sign-out");
    form.action = "/o/acme/teams/crew/timeline".into();
    let sent = vera.send_form(&form, &[("kind", "milestone"), ("title", "T")]);
    assert_eq!(sent.status, 403, "{}", sent.words());
    let member = server.ada().get("/organizations/members").items();
    let vera_id = member.iter().find(|one| one["name"] == "vera").unwrap()["userId"].clone();
    let path = format!("/o/acme/settings/members/{}/delete", vera_id.as_str().unwrap());
    let left = vera.get(&path);
    let form = left.forms().into_iter().find(|form| form.is_post && form.action == path).unwrap();
    assert_eq!(vera.send_form(&form, &[]).status, 303);
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
    for (path, next) in [
        ("/o/acme/prompts/main", "cursor="),
        ("/o/acme/prompts/main/notes", "cursor="),
        ("/o/acme/operations/log", "page="),
    ] {
        let page = ada.get(path);
        assert!(page.text.len() < 60_000, "{path} has {} bytes", page.text.len());
        let next = page.links().into_iter().find(|link| link.contains(next)).unwrap();
        assert_eq!(ada.get(&next).status, 200);
    }
}
