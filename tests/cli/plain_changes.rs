//! What `apply` changes and removes, and what it leaves alone because somebody else was faster.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use crate::between::Between;
use crate::client::Caller;
use crate::desk::Desk;
use crate::plain_files::{desk, fill, in_session, json_of};
use crate::process::{Ended, run};

/// The id of the only resource of a list, or of the one with this name.
fn id(api: &Caller, path: &str, name: &str) -> String {
    let items = api.get(path).items();
    let found = items.iter().find(|item| item["name"] == name).expect(name);
    found["id"].as_str().unwrap().to_string()
}

#[test]
fn resources_of_every_kind_are_changed_back_and_removed() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let api = desk.session();
    let policy = id(&api, "/governance/policies", "House rules!");
    let tool = id(&api, "/tools", "search");
    let environment = id(&api, "/environments", "Production");
    let fleet = id(&api, "/fleets", "Writers");
    let channel = id(&api, "/notifications/channels", "Hook");
    let listing = api.get("/agent-index/listings?mine=true").items()[0]["id"].clone();
    let listing = listing.as_str().unwrap();
    for (path, change) in [
        ("/registries/main", json!({"name": "Other"})),
        (&*format!("/governance/policies/{policy}"), json!({"severity": "warning"})),
        (&*format!("/tools/{tool}"), json!({"description": "Other"})),
        (&*format!("/environments/{environment}"), json!({"approvals": null})),
        (&*format!("/fleets/{fleet}"), json!({"description": "Other"})),
        ("/agents/scribe", json!({"fleetId": null, "draft": {"model": "other"}})),
        (&*format!("/notifications/channels/{channel}"), json!({"enabled": false})),
        (&*format!("/agent-index/listings/{listing}"), json!({"displayName": "Other"})),
    ] {
        api.patch(path, change).ok();
    }
    for (name, value) in [("PRODUCT", "Other"), ("MORE", "")] {
        let path = format!("/environments/{environment}/variables/{name}");
        api.put(&path, json!({"value": value})).ok();
    }
    let label = json!({"registryRef": "acme/main", "promptName": "scribe", "label": "beta",
        "version": "1.0.0"});
    api.patch("/registries/artifacts/labels", label).ok();
    let applied = json_of(&desk, &["apply", "org", "--prune"]);
    let expected = json!([
        "~ registry main: name",
        "~ policy House rules!: severity",
        "~ label beta of prompt main/scribe: 1.0.0 -> 1.1.0",
        "~ tool search: description",
        "~ environment production: approvals",
        "~ variable production/PRODUCT: value",
        "~ fleet Writers: description",
        "~ agent scribe: fleet, model",
        "~ channel Hook: enabled",
        "~ listing scribe@acme.test: displayName",
        "- variable production/MORE",
    ]);
    assert_eq!(applied["steps"], expected);
    assert_eq!(json_of(&desk, &["plan", "org", "--prune"])["steps"], json!([]));

    desk.file("nothing/roadstead.toml", "format = 1\n");
    json_of(&desk, &["apply", "nothing", "--prune"]);
    assert_eq!(json_of(&desk, &["plan", "nothing", "--prune"])["steps"], json!([]));
    for path in ["/registries", "/governance/policies", "/tools", "/environments", "/agents"] {
        assert_eq!(api.get(path).items(), Vec::<Value>::new(), "{path}");
    }
}

#[test]
fn files_that_move_a_protected_label_are_not_applied_by_who_may_not_move_it() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let edit = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(desk.path(path)).unwrap();
        assert!(text.contains(from), "{text}");
        desk.file(path, text.replace(from, to));
    };
    edit("org/registries/main/prompts/scribe.md", "\"next\"", "\"next\", \"soon\"");
    edit("org/agents/scribe.toml", "\"Scribe\"", "\"From files\"");
    let api = desk.session();
    let soon = "/registries/main/protected-labels/soon";
    api.put(soon, json!({"minRole": "owner"})).ok();
    let account = api.post("/organizations/service-accounts", json!({"name": "CI"})).id();
    let key = api.post("/api-keys", json!({"name": "ci", "serviceAccountId": account})).ok();
    let by_account = |args: &[&str]| {
        let mut command = desk.command(args);
        command.env("ROADSTEAD_API_KEY", key["key"].as_str().unwrap());
        run(command, None)
    };
    by_account(&["apply", "org"]).fails(2, "label soon of prompt main/scribe");
    assert_eq!(api.get("/agents/scribe").ok()["name"], "Scribe");
    let planned = by_account(&["plan", "org"]);
    assert!(planned.stderr.contains("warning: label soon"), "{}", planned.stderr);

    let me = api.get("/auth/user").ok()["id"].clone();
    api.put(soon, json!({"minRole": "member", "approvals": {"approverIds": [me]}})).ok();
    let applied = json_of(&desk, &["apply", "org"]);
    let told = applied["warnings"].to_string();
    assert!(told.contains("the label is moved when that is approved"), "{told}");
    assert_eq!(api.get("/agents/scribe").ok()["name"], "From files");
    // Again: it still waits.
    let again = in_session(&desk, &["apply", "org"]).stdout;
    assert!(again.contains("nothing done; asked by 1 step for approval"), "{again}");
    let waiting = api.get("/registries/artifacts/label-changes?state=pending").items();
    assert_eq!((waiting.len(), &waiting[0]["label"]), (1, &json!("soon")));
}

/// Applies files, while something happens before the first request that begins so.
fn apply_while(desk: &Desk, request: &str, meanwhile: impl FnOnce()) -> Ended {
    let between = Between::start(desk.serving.address, Some(request));
    let mut command = desk.command(&["apply", "org", "--prune"]);
    command.env("ROADSTEAD_URL", &between.url);
    thread::scope(|scope| {
        let applied = scope.spawn(|| run(command, None));
        between.meanwhile(meanwhile);
        applied.join().unwrap()
    })
}

#[test]
fn what_somebody_changes_while_it_is_applied_is_left_alone() {
    let desk = desk();
    fill(&desk);
    let api = desk.session();
    api.post("/environments", json!({"slug": "staging", "name": "Staging"})).ok();
    let [production, staging] =
        ["Production", "Staging"].map(|name| id(&api, "/environments", name));
    json_of(&desk, &["pull", "org"]);
    let edit = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(desk.path(path)).unwrap();
        assert!(text.contains(from), "{text}");
        desk.file(path, text.replace(from, to));
    };

    edit("org/agents/scribe.toml", "\"Scribe\"", "\"From files\"");
    let other = json!({"name": "From somebody"});
    let ended = apply_while(&desk, "PATCH /api/agents/scribe", || {
        api.patch("/agents/scribe", other).ok();
    });
    ended.fails(1, "somebody has changed");
    assert_eq!(api.get("/agents/scribe").ok()["name"], "From somebody");

    json_of(&desk, &["pull", "org", "--force"]);
    fs::remove_file(desk.path("org/environments/staging.toml")).unwrap();
    let path = format!("/environments/{staging}");
    let ended = apply_while(&desk, &format!("DELETE /api{path}"), || {
        api.patch(&path, json!({"description": "needed"})).ok();
    });
    ended.fails(1, "somebody has changed");
    assert_eq!(api.get(&path).ok()["description"], "needed");

    json_of(&desk, &["pull", "org", "--force"]);
    edit("org/environments/production.toml", "\"Harbour\"", "\"From files\"");
    let path = format!("/environments/{production}");
    let ended = apply_while(&desk, &format!("GET /api{path}"), || {
        api.put(&format!("{path}/variables/PRODUCT"), json!({"value": "From somebody"})).ok();
    });
    ended.fails(1, "somebody has changed");
    assert_eq!(api.get(&path).ok()["variables"]["PRODUCT"], "From somebody");

    json_of(&desk, &["pull", "org", "--force"]);
    edit("org/registries/main/prompts/scribe.md", "\"next\"", "\"soon\"");
    let label = json!({"registryRef": "acme/main", "promptName": "scribe", "label": "next",
        "version": "1.0.0"});
    let ended = apply_while(&desk, "DELETE /api/registries/artifacts/labels", || {
        api.patch("/registries/artifacts/labels", label).ok();
    });
    ended.fails(1, "label_moved");
    // What was done before the step that failed stays done.
    let labels = &api.get("/registries/artifacts?registryRef=main").items()[0]["labels"];
    assert_eq!(
        labels,
        &json!({"beta": "1.1.0", "next": "1.0.0", "production": "1.0.0",
        "soon": "1.1.0"})
    );
}

#[test]
fn a_plan_names_all_that_goes_with_what_it_removes() {
    let desk = desk();
    fill(&desk);
    desk.file("org/roadstead.toml", "format = 1\n");
    let hash = || json_of(&desk, &["plan", "org", "--prune"])["plan"].clone();
    let before = hash();
    let version = json!({"registryRef": "acme/main", "artifactType": "prompt", "name": "late",
        "version": "1.0.0", "source": "Published meanwhile."});
    desk.api().post("/registries/artifacts", version).ok();
    assert_ne!(hash(), before);
}

#[test]
fn a_pull_reads_only_texts_that_are_not_there_yet() {
    let desk = desk();
    fill(&desk);
    let between = Between::start(desk.serving.address, None);
    let pull = || {
        between.requests.lock().unwrap().clear();
        let mut command = desk.command(&["pull", "org", "--force", "--json"]);
        command.env("ROADSTEAD_URL", &between.url);
        run(command, None).succeeds();
        let requests = between.requests.lock().unwrap();
        let is_content = |line: &&String| line.contains("/artifact-versions/content?");
        requests.iter().filter(is_content).count()
    };
    assert_eq!(pull(), 6);
    assert_eq!(pull(), 0);
    let file = "org/registries/main/promptlets/voice.md";
    desk.file(file, fs::read_to_string(desk.path(file)).unwrap().replace("well", "badly"));
    fs::remove_file(desk.path("org/registries/main/prompts/unlabelled.md")).unwrap();
    assert_eq!(pull(), 2);
    assert_eq!(pull(), 0);
}
