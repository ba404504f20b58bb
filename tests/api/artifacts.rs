//! Artifacts: publishing, reading, waiting for what is read, labels, deleting
//! (reference: registries-and-templates, "Artifacts").

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Caller, Connection, Reply, pick};
use crate::fixture::Fixture;
use crate::registries::{publish, registry};

/// 50 ms are usual; a test must not fail on a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// An organization with an empty registry `main`.
fn acme() -> Fixture {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    acme
}

fn prompt(acme: &Fixture, name: &str, version: &str, source: &str) -> Value {
    publish(acme, ["main", "prompt", name, version], source)
}

fn promptlet(acme: &Fixture, name: &str, version: &str, source: &str) -> Value {
    publish(acme, ["main", "promptlet", name, version], source)
}

/// A path below `/registries`, about an artifact of `main`.
fn about(acme: &Fixture, path: &str, name: &str, more: &str) -> String {
    format!("/registries/{path}?registryRef={}/main&promptName={name}{more}", acme.slug)
}

fn content(acme: &Fixture, name: &str, more: &str) -> Reply {
    acme.member.get(&about(acme, "artifact-versions/content", name, more))
}

/// A body about `main`.
fn body(acme: &Fixture, mut fields: Value) -> Value {
    fields["registryRef"] = json!(format!("{}/main", acme.slug));
    fields
}

fn label(acme: &Fixture, label: &str, version: &str) -> Reply {
    let fields = json!({"promptName": "p", "label": label, "version": version});
    acme.member.patch("/registries/artifacts/labels", body(acme, fields))
}

#[test]
fn a_published_version_has_every_field() {
    let acme = acme();
    promptlet(&acme, "tone", "1.0.0", "calm {{mood}}");
    let source = "{{who}}: {{ import \"tone@^1.0\" }}";
    let new = json!({
        "artifactType": "prompt", "name": "p", "version": "1.0.0", "source": source,
        "model": "m", "metadata": {"a": [1.50, null]}, "message": "Kinder.",
    });
    let made = acme.member.post("/registries/artifacts", body(&acme, new)).ok();
    let expected = json!({
        "id": made["id"], "registryRef": format!("{}/main", acme.slug), "artifactType": "prompt",
        "name": "p", "version": "1.0.0", "model": "m", "metadata": {"a": [1.50, null]},
        "hash": made["hash"], "imports": {"tone": "1.0.0"}, "variables": ["who", "mood"],
        "publishedBy": acme.member_id, "publishedAt": made["publishedAt"], "message": "Kinder.",
        "source": source,
        "compiled": "{{who}}: calm {{mood}}", "warnings": [],
    });
    assert_eq!(made, expected);
    let canonical = format!(
        r#"{{"metadata":{{"a":[1.5,null]}},"model":"m","name":"p","source":{},"type":"prompt","version":"1.0.0"}}"#,
        json!(source)
    );
    assert_eq!(made["hash"], blake3::hash(canonical.as_bytes()).to_string());

    let shown = content(&acme, "p", "&model=m").ok();
    let fields =
        "registryRef artifactType name version model source compiled metadata hash message";
    assert_eq!(pick(&shown, fields), pick(&made, fields));
    assert_eq!(shown.as_object().unwrap().len(), 10);
    content(&acme, "p", "").refused(404, "not_found");
    let rows = acme.member.get(&about(&acme, "artifact-versions", "p", "")).items();
    let mut row = made.clone();
    let of_texts = ["source", "compiled", "warnings"];
    row.as_object_mut().unwrap().retain(|name, _| !of_texts.contains(&name.as_str()));
    assert_eq!(rows, [row]);
    let log = acme.member.get("/notifications/logs?eventType=registry.artifact_published").items();
    let payload = pick(&log[0]["payload"], "name version model message");
    assert_eq!(payload, json!(["p", "1.0.0", "m", "Kinder."]));
    assert_eq!(log.len(), 2);
}

#[test]
fn fields_of_requests_are_limited() {
    let acme = acme();
    let publish = |fields: Value| {
        let mut new = json!({
            "artifactType": "prompt", "name": "p", "version": "1.0.0", "source": "x",
        });
        for (name, value) in fields.as_object().unwrap() {
            new[name] = value.clone();
        }
        acme.member.post("/registries/artifacts", body(&acme, new))
    };
    for name in ["", ".", "..", "a b", "a/b", "ä", &"a".repeat(129)] {
        publish(json!({"name": name})).invalid(&["name"]);
    }
    for version in ["1", "1.0", "v1.0.0", "1.0.0-rc", "^1.0.0", ""] {
        publish(json!({"version": version})).invalid(&["version"]);
    }
    publish(json!({"artifactType": "skill"})).invalid(&["artifactType"]);
    publish(json!({"artifactType": null})).invalid(&["artifactType"]);
    publish(json!({"source": null})).invalid(&["source"]);
    publish(json!({"model": ""})).invalid(&["model"]);
    publish(json!({"metadata": []})).invalid(&["metadata"]);
    publish(json!({"message": ""})).invalid(&["message"]);
    publish(json!({"message": "ä".repeat(501)})).invalid(&["message"]);
    publish(json!({"source": "ä".repeat(153_601)})).invalid(&["source"]);
    let longest = publish(json!({"source": "ä".repeat(153_600), "name": "A.-_9"}));
    assert_eq!(longest.ok()["name"], "A.-_9");
    publish(json!({"source": ""})).ok();
    publish(json!({"source": "y"})).refused(409, "version_exists");

    let problem = publish(json!({"version": "2.0.0", "source": "a {{1}}\nä{{ import \"no\" }}"}));
    let problem = problem.invalid(&["source", "source"]);
    let message = |n: usize| problem["issues"][n]["message"].as_str().unwrap().to_string();
    assert!(message(0).ends_with("(line 1, column 3)"), "{problem}");
    assert!(message(1).ends_with("(line 2, column 2)"), "{problem}");
    assert!(message(0).starts_with("cannot be compiled: "), "{problem}");
}

#[test]
fn lists_are_paginated_in_their_order() {
    let acme = acme();
    for n in 0..5 {
        prompt(&acme, "p", &format!("1.{n}.0"), "x");
        promptlet(&acme, &format!("t{n}"), "1.0.0", "x");
    }
    let names = |items: Vec<Value>, field: &str| -> Vec<String> {
        items.iter().map(|item| item[field].as_str().unwrap().into()).collect()
    };
    let versions = acme.member.walk(&about(&acme, "artifact-versions", "p", ""), 2);
    assert_eq!(names(versions, "version"), ["1.4.0", "1.3.0", "1.2.0", "1.1.0", "1.0.0"]);
    let list = |more: &str| {
        let path = format!("/registries/artifacts?registryRef={}/main{more}", acme.slug);
        names(acme.member.walk(&path, 2), "name")
    };
    assert_eq!(list(""), ["t4", "p", "t3", "t2", "t1", "t0"]);
    assert_eq!(list("&artifactType=prompt"), ["p"]);
    assert_eq!(list("&artifactType=promptlet").len(), 5);
    let bad = format!("/registries/artifacts?registryRef={}/main&artifactType=x", acme.slug);
    acme.member.get(&bad).invalid(&["artifactType"]);
    acme.member.get(&about(&acme, "artifact-versions", "never", "")).refused(404, "not_found");
}

#[test]
fn a_content_is_resolved_by_version_range_label_and_model() {
    let acme = acme();
    for version in ["1.0.0", "1.2.0", "2.0.0"] {
        prompt(&acme, "p", version, version);
    }
    let own = json!({
        "artifactType": "prompt", "name": "p", "version": "1.2.0", "source": "own", "model": "m",
    });
    acme.member.post("/registries/artifacts", body(&acme, own)).ok();
    label(&acme, "production", "1.0.0").ok();
    for (more, source) in [
        ("", "2.0.0"),
        ("&version=1.0.0", "1.0.0"),
        ("&version=1", "1.2.0"),
        ("&version=%5E1.0", "1.2.0"),
        ("&version=%7E1.0", "1.0.0"),
        ("&version=%3E%3D1.1", "2.0.0"),
        ("&version=*", "2.0.0"),
        ("&version=production", "1.0.0"),
        ("&version=1&model=m", "own"),
        ("&model=m", "2.0.0"),
        ("&model=other&version=1.2.0", "1.2.0"),
        ("&artifactType=prompt", "2.0.0"),
    ] {
        assert_eq!(content(&acme, "p", more).ok()["source"], source, "{more}");
    }
    for more in ["&version=3", "&version=staging", "&version=", "&artifactType=promptlet"] {
        content(&acme, "p", more).refused(404, "not_found");
    }
    content(&acme, "never", "").refused(404, "not_found");
    content(&acme, "p", "&artifactType=x").invalid(&["artifactType"]);
    content(&acme, "p", "&wait=61").invalid(&["wait"]);
}

/// Begins to wait for another content than the one with this tag.
fn wait(acme: &Fixture, caller: &Caller, more: &str, tag: &str, secs: u32) -> Connection {
    let path = about(acme, "artifact-versions/content", "p", &format!("{more}&wait={secs}"));
    let mut connection = Connection::open(acme.address).unwrap();
    let ask = caller.ask("GET", &path).with("If-None-Match", tag);
    connection.write(&ask.to_bytes()).unwrap();
    connection
}

#[test]
fn a_content_has_a_strong_etag_and_is_not_sent_again() {
    let acme = acme();
    prompt(&acme, "p", "1.0.0", "one");
    let tag = content(&acme, "p", "").header("etag").unwrap().to_string();
    assert!(tag.starts_with('"'), "{tag}");
    let path = about(&acme, "artifact-versions/content", "p", "");
    let again = |tag: &str| acme.member.ask("GET", &path).with("If-None-Match", tag).send();
    assert_eq!((again(&tag).status, again(&tag).text().as_str()), (304, ""));
    prompt(&acme, "p", "1.1.0", "two");
    let next = again(&tag);
    assert_eq!(next.ok()["source"], "two");
    assert!(next.header("etag").unwrap() != tag);
}

#[test]
fn a_waiting_request_gets_the_new_content_as_soon_as_it_changes() {
    let acme = acme();
    prompt(&acme, "p", "1.0.0", "one");
    label(&acme, "live", "1.0.0").ok();
    let tag = |more: &str| content(&acme, "p", more).header("etag").unwrap().to_string();
    let mut by_label = wait(&acme, &acme.member, "&version=live", &tag("&version=live"), 30);
    let mut newest = wait(&acme, &acme.key, "", &tag(""), 30);
    let mut of_range = wait(&acme, &acme.key, "&version=%5E1", &tag("&version=%5E1"), 30);
    // An unrelated change does not end a wait.
    promptlet(&acme, "p", "9.0.0", "x");

    let begun = Instant::now();
    prompt(&acme, "p", "2.0.0", "two");
    assert_eq!(newest.reply(false).unwrap().ok()["source"], "two");
    label(&acme, "live", "2.0.0").ok();
    assert_eq!(by_label.reply(false).unwrap().ok()["version"], "2.0.0");
    prompt(&acme, "p", "1.1.0", "one more");
    assert_eq!(of_range.reply(false).unwrap().ok()["version"], "1.1.0");
    assert!(begun.elapsed() < 4 * SOON, "{:?}", begun.elapsed());

    // Removing a label and deleting also end a wait.
    let mut by_label = wait(&acme, &acme.member, "&version=live", &tag("&version=live"), 30);
    let path = about(&acme, "artifacts/labels", "p", "&label=live");
    acme.member.delete(&path).ok();
    assert_eq!(by_label.reply(false).unwrap().status, 404);
    let mut newest = wait(&acme, &acme.key, "", &tag(""), 30);
    acme.member.delete(&about(&acme, "artifact-versions", "p", "&version=2.0.0")).ok();
    assert_eq!(newest.reply(false).unwrap().ok()["version"], "1.1.0");
    assert!(begun.elapsed() < 6 * SOON, "{:?}", begun.elapsed());
}

#[test]
fn a_wait_without_a_change_ends_with_not_modified() {
    let acme = acme();
    prompt(&acme, "p", "1.0.0", "one");
    let tag = content(&acme, "p", "").header("etag").unwrap().to_string();
    let begun = Instant::now();
    let reply = wait(&acme, &acme.member, "", &tag, 1).reply(false).unwrap();
    assert_eq!((reply.status, reply.header("etag")), (304, Some(tag.as_str())));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    // A request with another ETag, or for a missing version, returns at once.
    let begun = Instant::now();
    wait(&acme, &acme.member, "", "\"other\"", 30).reply(false).unwrap().ok();
    assert_eq!(wait(&acme, &acme.member, "&version=9", &tag, 30).reply(false).unwrap().status, 404);
    assert!(begun.elapsed() < 2 * SOON);
}

#[test]
fn a_waiting_request_is_refused_as_soon_as_access_is_revoked() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({"visibility": "public"}));
    prompt(&acme, "p", "1.0.0", "one");
    let tag = content(&acme, "p", "").header("etag").unwrap().to_string();
    let waits = |caller: &Caller| {
        let mut waiting = wait(&acme, caller, "", &tag, 30);
        // When all of these are answered, it waits.
        (0..20).for_each(|_| drop(acme.owner.get("/registries").ok()));
        move || (waiting.reply(false).unwrap().status, Instant::now())
    };
    let change = |fields: Value| {
        acme.owner.patch("/registries/main", fields).ok();
        Instant::now()
    };
    let outsider = Fixture::new();
    let (mut anonymous, mut foreign) = (waits(&acme.anonymous), waits(&outsider.key));
    let changed = change(json!({"visibility": "private"}));
    for (heard, status) in [(anonymous(), 401), (foreign(), 404)] {
        assert_eq!(heard.0, status);
        assert!(heard.1 < changed + SOON);
    }
    let mut member = waits(&acme.member);
    let changed = change(json!({"access": "restricted"}));
    let heard = member();
    assert!(heard.0 == 403 && heard.1 < changed + SOON, "{heard:?}");
    let mut owner = waits(&acme.owner);
    acme.owner.delete("/registries/main").ok();
    let changed = Instant::now();
    let heard = owner();
    assert!(heard.0 == 404 && heard.1 < changed + SOON, "{heard:?}");
}

#[test]
fn labels_are_moved_and_removed() {
    let acme = acme();
    prompt(&acme, "p", "1.0.0", "one");
    let made = prompt(&acme, "p", "1.1.0", "two");
    let moved = label(&acme, "production", "1.0.0").ok();
    let expected = json!({
        "artifactType": "prompt", "name": "p", "latestVersion": "1.1.0",
        "labels": {"production": "1.0.0"}, "tags": [], "updatedAt": moved["updatedAt"],
        "updatedBy": moved["updatedBy"],
        "pendingChange": null,
    });
    assert_eq!(moved, expected);
    assert!(moved["updatedAt"].as_str() >= made["publishedAt"].as_str());
    assert_eq!(label(&acme, "production", "1.1.0").ok()["labels"], json!({"production": "1.1.0"}));
    for bad in ["", "1", "-a", "a b", &"a".repeat(65)] {
        label(&acme, bad, "1.0.0").invalid(&["label"]);
    }
    label(&acme, "x", "9.9.9").refused(404, "not_found");
    label(&acme, "x", "production").refused(404, "not_found");
    let take_off = |label: &str| {
        acme.member.delete(&about(&acme, "artifacts/labels", "p", &format!("&label={label}")))
    };
    assert_eq!(take_off("production").ok(), json!({"id": "production", "deleted": true}));
    take_off("production").refused(404, "not_found");
    take_off("1").refused(404, "not_found");
}

#[test]
fn an_etag_of_a_missing_resource_does_not_match_once_it_exists() {
    let acme = acme();
    prompt(&acme, "p", "1.0.0", "one");
    label(&acme, "production", "1.0.0").ok();
    let take_off = |label: &str, tags: &str| {
        let path = about(&acme, "artifacts/labels", "p", &format!("&label={label}"));
        acme.member.ask("DELETE", &path).with("If-Match", tags).send()
    };
    take_off("staging", "\"x\"").refused(404, "not_found");
    take_off("production", "\"x\"").refused(412, "changed_meanwhile");
    content(&acme, "p", "&version=production").ok();
    take_off("production", "*").ok();
    content(&acme, "p", "&version=production").refused(404, "not_found");
}

#[test]
fn a_version_is_deleted_once_it_is_unused() {
    let acme = acme();
    promptlet(&acme, "tone", "1.0.0", "x");
    prompt(&acme, "p", "1.0.0", "{{ import \"tone\" }}");
    label(&acme, "live", "1.0.0").ok();
    let delete =
        |name: &str, more: &str| acme.member.delete(&about(&acme, "artifact-versions", name, more));
    delete("tone", "&artifactType=promptlet&version=1.0.0").refused(409, "version_imported");
    delete("p", "&version=1.0.0").refused(409, "version_labelled");
    delete("p", "").invalid(&["version"]);
    acme.member.delete(&about(&acme, "artifacts/labels", "p", "&label=live")).ok();
    assert_eq!(delete("p", "&version=1.0.0").ok(), json!({"id": "1.0.0", "deleted": true}));
    delete("p", "&version=1.0.0").refused(404, "not_found");
    delete("tone", "&artifactType=promptlet&version=1.0.0").ok();
    let list = format!("/registries/artifacts?registryRef={}/main", acme.slug);
    assert_eq!(acme.member.get(&list).items().len(), 0);
    let log = acme.member.get("/notifications/logs?eventType=registry.artifact_deleted").items();
    assert_eq!(
        pick(&log[0]["payload"], "artifactType name version"),
        json!(["promptlet", "tone", "1.0.0"])
    );
}

#[test]
fn dependents_diffs_and_clones_are_returned() {
    let acme = acme();
    promptlet(&acme, "tone", "1.0.0", "calm");
    prompt(&acme, "p", "1.0.0", "{{a}}\n{{ import \"tone@^1.0\" }}\n");
    let path = about(&acme, "artifact-versions/dependents", "tone", "&artifactType=promptlet");
    let expected = json!({
        "registryRef": format!("{}/main", acme.slug), "artifactType": "prompt", "name": "p",
        "version": "1.0.0", "range": "^1.0", "resolved": "1.0.0",
    });
    assert_eq!(acme.member.get(&path).items(), [expected]);
    assert_eq!(acme.member.get(&format!("{path}&version=1.0.0")).items().len(), 1);

    prompt(&acme, "p", "1.1.0", "{{b}}\n{{ import \"tone@^1.0\" }}\n");
    let diff = about(&acme, "artifact-versions/diff", "p", "&from=1.0.0&to=*");
    let diff = acme.member.get(&diff).ok();
    let expected = json!({
        "from": "1.0.0", "to": "1.1.0", "fromMessage": null, "toMessage": null,
        "diff": "--- 1.0.0\n+++ 1.1.0\n@@ -1,2 +1,2 @@\n-{{a}}\n+{{b}}\n {{ import \"tone@^1.0\" }}\n",
        "variables": {"added": ["b"], "removed": ["a"]},
    });
    assert_eq!(diff, expected);
    let query = about(&acme, "artifact-versions/diff", "p", "&from=1.0.0");
    acme.member.get(&query).invalid(&["to"]);

    registry(&acme, "other", json!({}));
    let clone = |to: Value| {
        let fields = json!({"promptName": "p", "version": "1.0.0", "to": to});
        acme.member.post("/registries/artifact-versions/clone", body(&acme, fields))
    };
    let made = clone(json!({"promptName": "q", "version": "3.0.0"})).ok();
    assert_eq!(pick(&made, "name version compiled"), json!(["q", "3.0.0", "{{a}}\ncalm\n"]));
    assert_eq!(clone(json!({})).ok()["name"], "p");
    clone(json!({"promptName": "a b", "version": "x"})).invalid(&["to.promptName", "to.version"]);
    // The other registry has no such promptlet.
    let other = json!({"registryRef": format!("{}/other", acme.slug)});
    clone(other.clone()).invalid(&["source"]);
    publish(&acme, ["other", "promptlet", "tone", "1.5.0"], "wild");
    let made = clone(other).ok();
    assert_eq!(pick(&made, "registryRef compiled").as_array().unwrap()[1], "{{a}}\nwild\n");
}

#[test]
fn usage_of_a_variable_is_looked_up_by_name() {
    let acme = acme();
    prompt(&acme, "p", "1.0.0", "{{V}}");
    let tool = json!({"name": "t", "type": "x", "providerConfig": {"a": "${V}"}});
    let tool = acme.member.post("/tools", tool).id();
    let usage = acme.member.get("/environments/variables/V/usage").ok();
    let expected = json!({
        "variableName": "V", "used": true,
        "prompts": [{
            "registryRef": format!("{}/main", acme.slug), "name": "p", "artifactType": "prompt",
            "version": "1.0.0", "latest": true,
        }],
        "tools": [{"id": tool, "name": "t", "version": "1.0.0"}],
    });
    assert_eq!(usage, expected);
    let unknown = acme.member.get("/environments/variables/no%20name/usage").ok();
    assert_eq!(pick(&unknown, "variableName used"), json!(["no name", false]));
}

#[test]
fn a_label_is_moved_only_from_where_its_mover_saw_it() {
    let acme = acme();
    for version in ["1.0.0", "1.1.0"] {
        prompt(&acme, "p", version, version);
    }
    let move_from = |from: Value, version: &str| {
        let fields =
            json!({"promptName": "p", "label": "production", "version": version, "from": from});
        acme.member.patch("/registries/artifacts/labels", body(&acme, fields))
    };
    move_from(json!("1.0.0"), "1.1.0").refused(409, "label_moved");
    move_from(Value::Null, "1.0.0").ok();
    let problem = move_from(Value::Null, "1.1.0").refused(409, "label_moved");
    assert!(problem["message"].as_str().unwrap().ends_with("it points to 1.0.0 now"), "{problem}");
    // Leading zeros are ignored, as everywhere.
    move_from(json!("01.0.0"), "1.1.0").ok();
    // Who does not say from where moves it from anywhere.
    label(&acme, "production", "1.0.0").ok();
    move_from(json!("x"), "1.1.0").invalid(&["from"]);

    let remove_from = |from: &str| {
        let of = format!("registryRef={}/main&promptName=p&label=production", acme.slug);
        acme.member.delete(&format!("/registries/artifacts/labels?{of}&from={from}"))
    };
    remove_from("x").invalid(&["from"]);
    remove_from("1.1.0").refused(409, "label_moved");
    remove_from("1.0.0").ok();
    remove_from("1.0.0").refused(404, "not_found");
}

#[test]
fn artifacts_are_found_by_name_and_a_version_with_its_models() {
    let acme = acme();
    prompt(&acme, "p", "1.0.0", "a");
    promptlet(&acme, "p", "2.0.0", "b");
    prompt(&acme, "other", "1.0.0", "c");
    let named = |more: &str| {
        let found = acme.member.get(&about(&acme, "artifacts", "p", more)).items();
        found.iter().map(|one| one["latestVersion"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(named(""), ["1.0.0", "2.0.0"]);
    assert_eq!(named("&artifactType=promptlet"), ["2.0.0"]);
    let none = about(&acme, "artifacts", "no%20name!", "");
    assert_eq!(acme.member.get(&none).items(), Vec::<Value>::new());

    let new = json!({"artifactType": "prompt", "name": "p", "version": "1.0.0", "source": "d",
        "model": "claude"});
    acme.member.post("/registries/artifacts", body(&acme, new)).ok();
    prompt(&acme, "p", "1.1.0", "e");
    let version = |more: &str| acme.member.get(&about(&acme, "artifact-versions", "p", more));
    let models: Vec<_> =
        version("&version=1.0.0").items().iter().map(|row| row["model"].clone()).collect();
    assert_eq!(models, ["generic", "claude"]);
    assert_eq!(version("&version=9.0.0").items(), Vec::<Value>::new());
    version("&version=production").refused(404, "not_found");
}
