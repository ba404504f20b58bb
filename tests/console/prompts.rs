//! Writing, publishing, comparing, promoting and rolling back a prompt.

use serde_json::json;

use crate::client::pick;
use crate::journeys::{sign_in, with_and_without_scripts};
use crate::reading::label;
use crate::server::Running;

const EDIT: &str = "/o/acme/prompts/main/notes/edit";
const LABELS: &str = "/o/acme/prompts/main/notes/labels";

#[test]
fn a_prompt_is_written_mended_published_promoted_and_rolled_back() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    ada.get("/o/acme").shows("The first steps");
    ada.get("/o/acme/prompts").shows("Create a registry");
    let page = ada.get("/o/acme/registries/new");
    let fields = [("name", "Main"), ("slug", "main")];
    let registry = ada.submit(&page, "/o/acme/registries/new", &fields);
    registry.shows("The registry was created.").shows("Nothing is published here yet.");

    let new = "/o/acme/registries/main/new";
    let page = ada.get(new);
    let refused = ada.send(&page, new, &[("name", "no such name!")]);
    assert_eq!(refused.status, 400);
    let editor = ada.submit(&page, new, &[("name", "notes"), ("kind", "prompt")]);
    assert_eq!(editor.field(EDIT, "version"), "1.0.0");

    let wrong = "Hello {{WHO}}.\n\n  {{ import \"tone\" }}\n";
    let fields = [("source", wrong), ("version", "1.0.0"), ("action", "publish")];
    let refused = ada.send(&editor, EDIT, &fields);
    assert_eq!(refused.status, 400);
    refused.shows("Check what you entered").shows("Line 3, column 3");
    assert_eq!(refused.field(EDIT, "source"), wrong, "the text stays as it was");

    server.publish("promptlet", "tone", "1.0.0", "Be brief.");
    let checked = ada.send(&refused, EDIT, &[("action", "check")]);
    assert_eq!(checked.status, 200);
    checked.shows("It compiles").shows("Policies accept it").shows("WHO").shows("tone 1.0.0");
    checked.hides("Filled");
    let environment = json!({"slug": "production", "name": "Production"});
    let environment = server.ada().post("/environments", environment).id();
    let editor = ada.send(&checked, EDIT, &[("action", "check"), ("environment", "")]);
    let chosen = [("action", "check"), ("environment", "production")];
    ada.send(&editor, EDIT, &chosen).shows("Filled Without a value WHO");
    let who = format!("/environments/{environment}/variables/WHO");
    server.ada().put(&who, json!({"value": "<b>you</b>"})).ok();
    let checked = ada.send(&editor, EDIT, &chosen);
    checked.shows("Hello <b>you</b>.").hides("Without a value");
    assert_eq!(checked.field(EDIT, "environment"), "production");
    let published = ada.submit(&checked, EDIT, &[("action", "publish")]);
    published.shows("The version was published.").shows("notes 1.0.0").shows("Hello {{WHO}}.");
    let read = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
    assert_eq!(server.ada().get(read).ok()["source"], wrong, "byte for byte");

    let version = "/o/acme/prompts/main/notes/versions/1.0.0";
    ada.get(&format!("{version}?environment=&v.WHO=you")).shows("Hello you.");
    ada.get(&format!("{version}?environment=")).shows("Without a value");

    let editor = ada.get(EDIT);
    assert_eq!(editor.field(EDIT, "version"), "1.1.0", "the next one is suggested");
    let second = wrong.replace("Hello", "Good morning");
    let message = "It greets as people do.";
    let fields = [("source", &*second), ("message", message), ("action", "publish")];
    ada.submit(&editor, EDIT, &fields).shows("notes 1.1.0").shows(message);
    ada.get("/o/acme/prompts/main/notes").shows("What changed").shows(message);
    let diff = ada.get("/o/acme/prompts/main/notes/compare?from=1.0.0&to=1.1.0");
    diff.shows(message);
    assert!(diff.text.contains("<del>Hello</del>"), "{}", diff.words());
    assert!(diff.text.contains("<ins>Good morning</ins>") || diff.text.contains("<ins>Good"));

    promote(&server, &ada);
}

fn promote(server: &Running, ada: &crate::visitor::Visitor) {
    let form = ada.get(&format!("{LABELS}?version=1.0.0"));
    let stale = ada.get(&format!("{LABELS}?version=1.0.0"));
    let artifact = ada.submit(&form, LABELS, &[("action", "move")]);
    artifact.shows("The label was moved.").shows("production1.0.0");
    let form = ada.get(&format!("{LABELS}?version=1.1.0"));
    form.shows("moves from 1.0.0 to 1.1.0");
    ada.submit(&form, LABELS, &[("action", "move")]).shows("Roll back to 1.0.0");
    // Somebody else has moved it since this form was opened.
    let conflict = ada.send(&stale, LABELS, &[("action", "move")]);
    assert_eq!(conflict.status, 409);
    conflict.shows("The label production was moved meanwhile: it points to 1.1.0 now.");
    let back = format!("{LABELS}?label=production&version=1.0.0");
    let artifact = ada.get("/o/acme/prompts/main/notes");
    assert!(artifact.links().iter().any(|link| link.replace("&amp;", "&") == back));
    let form = ada.get(&back);
    ada.submit(&form, LABELS, &[("action", "move")]).shows("1.1.0 → 1.0.0").shows("Ada");
    let read = "/registries/artifacts?registryRef=main&promptName=notes";
    assert_eq!(server.ada().get(read).items()[0]["labels"], json!({"production": "1.0.0"}));
    let form = ada.get(&back);
    ada.submit(&form, LABELS, &[("action", "remove")]).shows("The label was removed.");
    assert_eq!(server.ada().get(read).items()[0]["labels"], json!({}));
}

#[test]
fn a_draft_is_saved_opened_again_and_closed_by_publishing_it() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let editor = ada.get(EDIT);
    let text = "{{ unfinished";
    let fields = [("source", text), ("version", "0.1.0"), ("action", "draft")];
    let artifact = ada.submit(&editor, EDIT, &fields);
    artifact.shows("The draft was saved.").shows("0.1.0");
    let drafts = artifact.links().into_iter().find(|link| link.contains("draft=")).unwrap();
    let editor = ada.get(&drafts);
    assert_eq!(editor.field(EDIT, "source"), text);
    let fields = [("source", "Finished."), ("action", "publish")];
    ada.submit(&editor, EDIT, &fields).shows("The version was published.");
    ada.get("/o/acme/prompts/main/notes").hides("Drafts");
    let api = server.ada();
    let read = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
    assert_eq!(pick(&api.get(read).ok(), "version source"), json!(["0.1.0", "Finished."]));
    assert!(
        api.get("/prompts/notes/drafts?registryRef=main&artifactType=prompt").items().is_empty()
    );
}

#[test]
fn what_a_text_hides_is_shown_everywhere_and_saved_as_it_is() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let text = "Be kind.\u{e0069}\u{202e} ❤️\u{200b}\n";
    let shown = "Be kind.⟨U+E0069⟩⟨U+202E⟩ ❤️⟨U+200B⟩";
    let editor = ada.get(EDIT);
    let fields = [("source", text), ("version", "0.1.0"), ("action", "draft")];
    let artifact = ada.submit(&editor, EDIT, &fields);
    let drafts = artifact.links().into_iter().find(|link| link.contains("draft=")).unwrap();
    // An editor has the text itself, and a check says what is in it.
    let editor = ada.get(&drafts);
    assert_eq!(editor.field(EDIT, "source"), text);
    let checked = ada.send(&editor, EDIT, &[("action", "check")]);
    checked.shows("3 invisible characters");
    assert_eq!(checked.field(EDIT, "source"), text);
    let published = ada.submit(&checked, EDIT, &[("action", "publish"), ("version", "1.0.0")]);
    published.shows(shown).shows("3 invisible characters");
    let read = "/registries/artifact-versions/content?registryRef=main&promptName=notes";
    assert_eq!(server.ada().get(read).ok()["source"], text, "byte for byte");

    // What approvers see: the preview and the job.
    server.ada().post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    let me = server.ada().get("/whoami").ok()["userId"].clone();
    let staging = json!({"slug": "staging", "name": "Staging", "approvals": {"approverIds": [me]}});
    server.ada().post("/environments", staging).ok();
    let body = json!({"agentIds": ["scribe"], "environment": "staging", "provider": "anthropic",
        "registryRef": "acme/main", "promptName": "notes", "version": "1.0.0"});
    let job = server.ada().post("/agents/deployments", body).ok();
    assert_eq!(job["plan"]["invisibleCharacters"], 3, "{job}");
    let page = ada.get(&format!("/o/acme/deployments/jobs/{}", job["id"].as_str().unwrap()));
    page.shows(shown).shows("3 invisible characters").shows("Approve");

    // So it is on every page, since no template can forget it.
    let prompt = "Search\u{202e} twice.";
    let tool = json!({"name": "search", "type": "http", "prompt": prompt});
    let tool = server.ada().post("/tools", tool).ok();
    let page = format!("/o/acme/tools/{}", tool["id"].as_str().unwrap());
    ada.get(&page).shows("Search⟨U+202E⟩ twice.");
    let edit = format!("{page}/edit");
    assert_eq!(ada.get(&edit).field(&edit, "prompt"), prompt);
}

#[test]
fn a_version_is_deleted_unless_something_needs_it() {
    let server = Running::new();
    server.registry();
    server.publish("promptlet", "tone", "1.0.0", "Be brief.");
    server.publish("prompt", "notes", "1.0.0", "{{ import \"tone\" }}");
    let ada = server.signed_in("ada@acme.test");
    let path = "/o/acme/promptlets/main/tone/versions/1.0.0/delete";
    let refused = ada.send(&ada.get(path), path, &[]);
    assert_eq!(refused.status, 409);
    refused.shows("Check what you entered");
    ada.get("/o/acme/promptlets/main/tone").shows("Imported by").shows("notes 1.0.0");
    let path = "/o/acme/prompts/main/notes/versions/1.0.0/delete";
    let gone = ada.submit(&ada.get(path), path, &[]);
    gone.shows("The version was deleted.");
    assert_eq!(ada.get("/o/acme/prompts/main/notes").status, 404);
}

#[test]
fn policies_say_what_they_think_before_a_text_is_published_and_flags_wait_today() {
    let server = Running::new();
    server.registry();
    let api = server.ada();
    let policy = |name: &str, severity: &str, pattern: &str| {
        let rules = json!([{"type": "forbidPattern", "value": pattern}]);
        let body = json!({"name": name, "severity": severity, "rules": rules});
        let id = api.post("/governance/policies", body).id();
        let body = json!({"registryRef": "main"});
        api.post(&format!("/governance/policies/{id}/assignments"), body).ok();
    };
    policy("House", "error", "(?i)lorem");
    policy("Care", "warning", "TODO");
    let ada = server.signed_in("ada@acme.test");
    let editor = ada.get(EDIT);
    let text = |text, action| [("source", text), ("version", "1.0.0"), ("action", action)];
    let checked = ada.send(&editor, EDIT, &text("Lorem. TODO", "check"));
    checked.shows("Refused").shows("Flagged");
    let refused = ada.send(&editor, EDIT, &text("Lorem.", "publish"));
    assert_eq!(refused.status, 400);
    refused.shows("policy \"House\"");
    ada.submit(&editor, EDIT, &text("TODO", "publish")).shows("notes 1.0.0");
    ada.get("/o/acme").shows("Flagged by a policy").shows("notes 1.0.0");
}

#[test]
fn what_scripts_ask_while_one_types_is_a_part_of_the_page() {
    let server = Running::new();
    server.registry();
    let ada = server.signed_in("ada@acme.test");
    let editor = ada.get(EDIT);
    let mut form = editor.form(EDIT);
    form.action = format!("{EDIT}/check");
    let part = ada.send_form(&form, &[("source", "{{ import \"x\" }} <i>")]);
    assert_eq!(part.status, 200);
    assert!(part.text.contains("id=\"checked\"") && part.text.contains("data-line=\"1\""));
    assert!(part.text.len() < 4000 && !part.text.contains("<i>"), "{}", part.text);
}

#[test]
fn a_person_promotes_and_another_who_looks_on_rolls_back() {
    with_and_without_scripts(|driver, scripts| {
        let server = Running::new();
        server.add("ben", "member");
        server.registry();
        server.publish("prompt", "notes", "1.0.0", "Lead with news.");
        server.publish("prompt", "notes", "1.1.0", "Begin with news.");
        label(&server, "prompt", "notes", "production", "1.0.0");
        let points_to = || {
            let path = "/registries/artifacts?registryRef=main&promptName=notes";
            server.ada().get(path).items()[0]["labels"]["production"].clone()
        };
        let artifact = format!("http://{}/o/acme/prompts/main/notes", server.address);
        let (ada, ben) = (driver.browser(1280, 900, scripts), driver.browser(390, 844, scripts));
        sign_in(&ada, &server, "ada@acme.test");
        sign_in(&ben, &server, "ben@acme.test");
        ben.open(&artifact);
        ben.shows("production");
        ada.open(&format!("{artifact}/compare?from=1.0.0&to=1.1.0"));
        ada.shows("Begin");
        ada.open(&format!("{artifact}/versions/1.1.0"));
        ada.click(".head a.primary");
        ada.shows("moves from 1.0.0 to 1.1.0");
        ada.click("button[value=move]");
        ada.shows("The label was moved.");
        assert_eq!(points_to(), "1.1.0");
        if !scripts {
            ben.open(&artifact);
        }
        // With scripts the page shows it by itself.
        ben.shows("1.0.0 → 1.1.0");
        ben.click("#moves a");
        ben.shows("moves from 1.1.0 to 1.0.0");
        ben.click("button[value=move]");
        ben.shows("The label was moved.");
        assert_eq!(points_to(), "1.0.0");
    });
}
