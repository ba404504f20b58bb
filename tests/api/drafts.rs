//! Drafts, compiling and rendering prompts (reference: registries-and-templates, "Drafts").

use serde_json::{Value, json};

use crate::client::{Reply, pick};
use crate::fixture::{Fixture, unknown_id};
use crate::registries::{publish, registry};

fn acme() -> Fixture {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    acme
}

/// A body about `main`.
fn body(acme: &Fixture, mut fields: Value) -> Value {
    fields["registryRef"] = json!(format!("{}/main", acme.slug));
    fields
}

fn save(acme: &Fixture, name: &str, version: &str, text: &str) -> Reply {
    let fields = json!({"artifactType": "prompt", "draftVersion": version, "body": text});
    acme.member.post(&format!("/prompts/{name}/drafts"), body(acme, fields))
}

fn list(acme: &Fixture, more: &str) -> Reply {
    acme.member.get(&format!("/prompts/p/drafts?registryRef={}/main{more}", acme.slug))
}

/// The path of a draft, with the required query.
fn one(acme: &Fixture, name: &str, id: &str, more: &str) -> String {
    format!("/prompts/{name}/drafts/{id}?registryRef={}/main{more}", acme.slug)
}

#[test]
fn drafts_are_saved_listed_shown_and_deleted() {
    let acme = acme();
    let made = save(&acme, "p", "1.0.0", "{{ not yet").ok();
    let expected = json!({
        "id": made["id"], "registryRef": format!("{}/main", acme.slug), "artifactType": "prompt",
        "promptName": "p", "draftVersion": "1.0.0", "body": "{{ not yet", "metadata": {},
        "createdBy": acme.member_id, "createdAt": made["createdAt"],
        "updatedBy": acme.member_id, "updatedAt": made["createdAt"],
    });
    assert_eq!(made, expected);
    let again = save(&acme, "p", "1.0.0", "mended").ok();
    assert_eq!(pick(&again, "id body"), json!([made["id"], "mended"]));
    save(&acme, "p", "1.1.0", "x").ok();
    save(&acme, "q", "1.0.0", "x").ok();
    let listed = list(&acme, "&artifactType=prompt").items();
    let versions: Vec<_> = listed.iter().map(|draft| &draft["draftVersion"]).collect();
    assert_eq!(versions, ["1.1.0", "1.0.0"]);
    assert_eq!(list(&acme, "&artifactType=promptlet").items().len(), 0);
    list(&acme, "").invalid(&["artifactType"]);
    acme.member.get("/prompts/p/drafts?artifactType=prompt").invalid(&["registryRef"]);

    let id = made["id"].as_str().unwrap();
    assert_eq!(acme.member.get(&one(&acme, "p", id, "")).ok(), again);
    acme.member.get(&one(&acme, "q", id, "")).refused(404, "not_found");
    acme.member.get(&one(&acme, "p", id, "&artifactType=promptlet")).refused(404, "not_found");
    acme.member.get(&one(&acme, "p", &unknown_id(), "")).refused(404, "not_found");
    let deleted = acme.member.delete(&one(&acme, "p", id, "")).ok();
    assert_eq!(deleted, json!({"id": id, "deleted": true}));
    acme.member.delete(&one(&acme, "p", id, "")).refused(404, "not_found");
    assert_eq!(list(&acme, "&artifactType=prompt").items().len(), 1);
}

#[test]
fn fields_of_a_draft_are_limited() {
    let acme = acme();
    for name in ["a%20b", "%C3%A4", &"a".repeat(129)] {
        save(&acme, name, "1.0.0", "x").invalid(&["promptName"]);
    }
    save(&acme, "p", "1.0", "x").invalid(&["draftVersion"]);
    save(&acme, "p", "1.0.0", &"ä".repeat(153_601)).invalid(&["body"]);
    save(&acme, "p", "1.0.0", &"ä".repeat(153_600)).ok();
    acme.member.post("/prompts/p/drafts", json!({})).invalid(&[
        "registryRef",
        "artifactType",
        "draftVersion",
        "body",
    ]);
}

#[test]
fn a_draft_is_published_once_as_its_version() {
    let acme = acme();
    let draft = save(&acme, "p", "1.0.0", "{{ 1 }}").id();
    let path = format!("/prompts/p/drafts/{draft}/publish");
    let publish_it = |fields: Value| acme.member.post(&path, body(&acme, fields));
    let problem = publish_it(json!({})).invalid(&["body"]);
    let message = problem["issues"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("(line 1, column 1)"), "{message}");
    save(&acme, "p", "1.0.0", "{{a}}").ok();
    let fields = json!({"model": "m", "metadata": {"x": 1}, "message": "The first."});
    let made = publish_it(fields).ok();
    assert_eq!(made["message"], "The first.");
    let some = pick(&made, "name version model source metadata");
    assert_eq!(some, json!(["p", "1.0.0", "m", "{{a}}", {"x": 1}]));
    publish_it(json!({})).refused(404, "not_found");
    assert_eq!(list(&acme, "&artifactType=prompt").items().len(), 0);
    save(&acme, "p", "1.0.0", "x").refused(409, "version_published");
}

#[test]
fn a_refused_draft_stays_a_draft_and_a_refused_clone_writes_nothing() {
    let acme = acme();
    let rules =
        json!([{"type": "forbidPattern", "value": "secret"}, {"type": "maxLength", "value": 9}]);
    let policy = json!({"name": "P", "severity": "error", "rules": rules});
    let policy = acme.owner.post("/governance/policies", policy).id();
    let reference = format!("{}/main", acme.slug);
    let assignments = format!("/governance/policies/{policy}/assignments");
    acme.owner.post(&assignments, json!({"registryRef": reference})).ok();
    let draft = save(&acme, "p", "1.0.0", "a secret text").id();
    let path = format!("/prompts/p/drafts/{draft}/publish");
    acme.member.post(&path, body(&acme, json!({}))).invalid(&["body", "body"]);
    assert_eq!(list(&acme, "&artifactType=prompt").items().len(), 1);
    let violations =
        || acme.member.get("/notifications/logs?eventType=governance.violation").items().len();
    assert_eq!(violations(), 1);

    registry(&acme, "free", json!({}));
    for (model, source) in [("generic", "short"), ("m", "a secret")] {
        let version = json!({
            "registryRef": format!("{}/free", acme.slug), "artifactType": "prompt", "name": "p",
            "version": "1.0.0", "source": source, "model": model,
        });
        acme.member.post("/registries/artifacts", version).ok();
    }
    let clone = json!({
        "registryRef": format!("{}/free", acme.slug), "promptName": "p", "version": "1.0.0",
        "to": {"registryRef": reference},
    });
    acme.member.post("/registries/artifact-versions/clone", clone).invalid(&["source"]);
    let artifacts = format!("/registries/artifacts?registryRef={reference}");
    assert_eq!(acme.member.get(&artifacts).items().len(), 0);
    assert_eq!(violations(), 2);
    acme.member.delete(&one(&acme, "p", &draft, "")).ok();
}

#[test]
fn a_source_is_compiled_and_its_problems_are_returned() {
    let acme = acme();
    publish(&acme, ["main", "promptlet", "tone", "1.0.0"], "calm");
    let compile = |source: &str| {
        let fields = json!({"source": source});
        acme.member.post("/prompts/new/compile", body(&acme, fields)).ok()
    };
    let expected = json!({
        "compiled": "{{a}} calm", "imports": {"tone": "1.0.0"}, "variables": ["a"],
        "problems": [], "warnings": [], "invisibleCharacters": 0,
    });
    assert_eq!(compile("{{a}} {{ import \"tone@1\" }}"), expected);
    let problems = compile("ä {{ 1 }}\n{{ import \"tone@2\" }}")["problems"].clone();
    let places: Vec<_> =
        problems.as_array().unwrap().iter().map(|problem| pick(problem, "line column")).collect();
    assert_eq!(places, [json!([1, 3]), json!([2, 1])], "{problems}");
    assert!(problems[0]["message"].is_string());
    // A promptlet that does not exist is told apart from a version that does not.
    let message = |source: &str| compile(source)["problems"][0]["message"].to_string();
    assert!(problems[1]["message"].to_string().contains("no such version of the promptlet"));
    assert!(message("{{ import \"nope\" }}").contains("has no promptlet"));
    let nowhere = json!({"registryRef": format!("{}/never", acme.slug), "source": "x"});
    acme.member.post("/prompts/p/compile", nowhere).refused(404, "not_found");
}

#[test]
fn a_prompt_is_rendered_with_given_values_and_those_of_the_environment() {
    let acme = acme();
    publish(&acme, ["main", "prompt", "p", "1.0.0"], "{{A}}, {{B}}, {{ C }} \\{{A}}");
    let environment = acme.owner.post("/environments", json!({"slug": "dev", "name": "D"})).id();
    for (name, value) in [("A", "env a"), ("B", "{{A}}")] {
        let path = format!("/environments/{environment}/variables/{name}");
        acme.owner.put(&path, json!({"value": value})).ok();
    }
    let render = |fields: Value| acme.member.post("/prompts/p/render", body(&acme, fields));
    let rendered = render(json!({"environment": "dev", "variables": {"A": "mine"}})).ok();
    let expected = json!({
        "text": "mine, {{A}}, {{ C }} {{A}}", "missing": ["C"], "version": "1.0.0",
        "model": "generic",
    });
    assert_eq!(rendered, expected);
    let rendered = render(json!({"version": "^1", "model": "other"})).ok();
    assert_eq!(rendered["missing"], json!(["A", "B", "C"]));
    render(json!({"environment": "nowhere"})).refused(404, "not_found");
    render(json!({"version": "2"})).refused(404, "not_found");
    render(json!({"variables": {"A": 1}})).invalid(&["variables.A"]);
    let restricted = json!({"slug": "prod", "name": "P", "access": "restricted"});
    acme.owner.post("/environments", restricted).ok();
    render(json!({"environment": "prod"})).refused(403, "grant_required");
}

#[test]
fn the_draft_of_another_is_replaced_by_those_alone_who_have_read_it() {
    let acme = acme();
    let made = save(&acme, "p", "1.0.0", "good").ok();
    let path = one(&acme, "p", made["id"].as_str().unwrap(), "");
    let tag = |reply: Reply| reply.header("etag").unwrap().to_string();
    let first = tag(acme.member.get(&path));
    let fields = json!({"artifactType": "prompt", "draftVersion": "1.0.0", "body": "evil"});
    let other = body(&acme, fields);
    let replace = |if_match: Option<&str>| {
        let ask = acme.admin.ask("POST", "/prompts/p/drafts");
        let ask = if_match.into_iter().fold(ask, |ask, tag| ask.with("If-Match", tag));
        ask.json(&other).send()
    };
    for unseen in [None, Some("*"), Some("\"nope\", *")] {
        replace(unseen).refused(409, "draft_of_another");
    }
    for wrong in ["\"nope\"", "", &format!("W/{first}")] {
        replace(Some(wrong)).refused(412, "changed_meanwhile");
    }
    assert_eq!(acme.member.get(&path).ok()["body"], "good");
    let replaced = replace(Some(&first)).ok();
    assert_eq!(pick(&replaced, "id body createdBy"), json!([made["id"], "evil", acme.member_id]));
    assert_ne!(replaced["updatedBy"], replaced["createdBy"]);
    // Now it is that of the admin, and what its first author knows of it is out of date.
    save(&acme, "p", "1.0.0", "good").refused(409, "draft_of_another");
    replace(None).ok();

    let publish = |tag: &str| {
        let to = format!("/prompts/p/drafts/{}/publish", made["id"].as_str().unwrap());
        let ask = acme.member.ask("POST", &to).with("If-Match", tag);
        ask.json(&body(&acme, json!({}))).send()
    };
    let unseen = acme.member.post(
        &format!("/prompts/p/drafts/{}/publish", made["id"].as_str().unwrap()),
        body(&acme, json!({})),
    );
    unseen.refused(409, "draft_of_another");
    for stale in ["\"nope\"", &first] {
        publish(stale).refused(412, "changed_meanwhile");
    }
    assert_eq!(acme.member.get(&path).ok()["body"], "evil", "it is still a draft");
    let now = tag(acme.member.get(&path));
    assert_eq!(publish(&now).ok()["source"], "evil");
    publish(&now).refused(404, "not_found");
}
