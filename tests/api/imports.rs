//! Importing prompts of a provider into a registry
//! (reference: registries-and-templates, "Importing prompts").

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::client::{Caller, pick};
use crate::fixture::{Fixture, unknown_id};
use crate::providers::{There, message_of, prompt, provider, provider_of, registry};

/// Returns the source of a version.
fn source(caller: &Caller, registry: &str, name: &str, version: &str) -> String {
    let path = "/registries/artifact-versions/content";
    let target = format!("{path}?registryRef={registry}&promptName={name}&version={version}");
    caller.get(&target).ok()["source"].as_str().unwrap().into()
}

fn imported(done: &Value) -> Vec<Value> {
    let all = done["imported"].as_array().unwrap();
    all.iter().map(|one| pick(one, "name artifactName version")).collect()
}

/// Returns the events of imports so far, newest first.
fn events(acme: &Fixture) -> Vec<Value> {
    let log = acme.admin.get("/notifications/logs").items();
    let is_import = |entry: &&Value| entry["eventType"].as_str().unwrap().contains(".import.");
    log.iter().filter(is_import).cloned().collect()
}

#[test]
fn imported_prompts_become_versions_of_artifacts() {
    let acme = Fixture::new();
    let there = There::saying(&json!({"items": [
        prompt("number", "3", "Hi {{name}}"),
        prompt("dotted", "1.2.3", "Hi"),
        prompt("other", "v2", "Hi"),
        prompt("two.parts", "1.2", "Hi"),
        prompt("huge", "99999999999999999999999", "Hi"),
        prompt("no name/at all", "7", "Hi"),
    ]}));
    let (provider, registry) = (provider(&acme, &there.url), registry(&acme, "prompts"));
    let prompts = json!([
        {"name": "number"}, {"name": "dotted", "version": "1.2.3"}, {"name": "other"},
        {"name": "two.parts"}, {"name": "huge"}, {"name": "no name/at all", "as": "named"},
    ]);
    let import = json!({"registryRef": registry, "prompts": prompts, "message": "We move here."});
    let done = acme.member.post(&format!("{provider}/import"), import).ok();
    let expected = [
        ["number", "number", "3.0.0"],
        ["dotted", "dotted", "1.2.3"],
        ["other", "other", "1.0.0"],
        ["two.parts", "two.parts", "1.0.0"],
        ["huge", "huge", "1.0.0"],
        ["no name/at all", "named", "7.0.0"],
    ];
    assert_eq!(imported(&done), expected.map(|row| json!(row)));
    assert_eq!(done["failed"], json!([]));
    assert_eq!(source(&acme.key, &registry, "number", "3.0.0"), "Hi {{name}}");
    let all = format!("/registries/artifact-versions?registryRef={registry}&all=true");
    let all = acme.member.get(&all).items();
    assert!(all.iter().all(|version| version["message"] == "We move here."), "{all:?}");
    assert_eq!(there.asked().len(), 1, "the list was fetched once for all of them");
    let event = &events(&acme)[0];
    assert_eq!(event["eventType"], "agent.import.complete");
    assert_eq!(event["payload"]["registryRef"], registry);
    assert_eq!(event["payload"]["imported"].as_array().unwrap().len(), 6);
}

#[test]
fn a_failed_import_is_reported_and_does_not_affect_the_others() {
    let acme = Fixture::new();
    let there = There::saying(&json!({"items": [
        prompt("good", "1", "Hi"),
        prompt("a name", "1", "Hi"),
        prompt("broken", "1", "Hi {{"),
        prompt("imports", "1", "{{ import \"tone\" }}"),
        prompt("long", "1", &"x".repeat(307_201)),
    ]}));
    let (provider, registry) = (provider(&acme, &there.url), registry(&acme, "prompts"));
    let import = |prompts: Value| {
        let body = json!({"registryRef": registry, "prompts": prompts});
        acme.member.post(&format!("{provider}/import"), body)
    };
    let done = import(json!([
        {"name": "gone"}, {"name": "good", "version": "2"}, {"name": "a name"},
        {"name": "broken"}, {"name": "imports"}, {"name": "long"}, {"name": "good"},
    ]));
    let done = done.ok();
    assert_eq!(imported(&done), [json!(["good", "good", "1.0.0"])]);
    let failed = done["failed"].as_array().unwrap();
    let words = [
        ("gone", "no prompt of this name"),
        ("good", "no such version"),
        ("a name", "\"as\""),
        ("broken", "(line 1, column 4)"),
        ("imports", "has no promptlet \"tone\""),
        ("long", "307200"),
    ];
    assert_eq!(failed.len(), words.len());
    for (failed, (name, word)) in failed.iter().zip(words) {
        assert_eq!(failed["name"], name);
        assert!(failed["message"].as_str().unwrap().contains(word), "{failed}");
    }
    let event = &events(&acme)[0];
    assert_eq!(event["eventType"], "agent.import.partial");
    assert_eq!(event["payload"]["failed"].as_array().unwrap().len(), 6);

    let done = import(json!([{"name": "gone"}])).ok();
    assert_eq!(done["imported"], json!([]));
    assert_eq!(events(&acme)[0]["eventType"], "agent.import.error");

    import(json!([])).invalid(&["prompts"]);
    import(json!(vec![json!({"name": "good"}); 101])).invalid(&["prompts"]);
    import(json!([{"name": ""}, {"name": "a", "as": "no name"}]))
        .invalid(&["prompts[0].name", "prompts[1].as"]);
}

#[test]
fn importing_an_existing_version_succeeds_if_its_text_is_the_same() {
    let acme = Fixture::new();
    let text = Arc::new(Mutex::new("Hi"));
    let now = text.clone();
    let there = There::answering(move |_| {
        let items = json!([prompt("greet", "1", &now.lock().unwrap()), prompt("two", "1", "b")]);
        (200, json!({"items": items}).to_string())
    });
    let (provider, registry) = (provider(&acme, &there.url), registry(&acme, "prompts"));
    let import = |prompts: Value| {
        let body = json!({"registryRef": registry, "prompts": prompts});
        acme.member.post(&format!("{provider}/import"), body).ok()
    };
    let greet = json!([{"name": "greet"}]);
    assert_eq!(import(greet.clone()), import(greet.clone()));
    // The same version twice in one request, with one text and with two.
    let twice = import(json!([{"name": "two"}, {"name": "two"}, {"name": "greet", "as": "two"}]));
    let two = json!(["two", "two", "1.0.0"]);
    assert_eq!(imported(&twice), [two.clone(), two]);
    assert_eq!(twice["failed"][0]["name"], "greet");
    *text.lock().unwrap() = "Hello";
    let done = import(greet);
    assert_eq!(done["imported"], json!([]));
    assert!(done["failed"][0]["message"].as_str().unwrap().contains("another text"), "{done}");
    assert_eq!(source(&acme.key, &registry, "greet", "1.0.0"), "Hi");
}

#[test]
fn a_refused_prompt_is_not_imported_and_the_others_are() {
    let acme = Fixture::new();
    let there = There::saying(&json!({"items": [
        prompt("bad", "1", "The secret is"), prompt("good", "1", "Hi"),
    ]}));
    let (provider, registry) = (provider(&acme, &there.url), registry(&acme, "prompts"));
    let rules = json!([{"type": "forbidPattern", "value": "secret"}]);
    let policy = json!({"name": "House rules", "severity": "error", "rules": rules});
    let policy = acme.admin.post("/governance/policies", policy).id();
    let assignment = json!({"registryRef": registry});
    acme.admin.post(&format!("/governance/policies/{policy}/assignments"), assignment).ok();

    let import = json!({"registryRef": registry, "prompts": [{"name": "bad"}, {"name": "good"}]});
    let done = acme.member.post(&format!("{provider}/import"), import).ok();
    assert_eq!(imported(&done), [json!(["good", "good", "1.0.0"])]);
    assert_eq!(done["failed"][0]["name"], "bad");
    assert!(done["failed"][0]["message"].as_str().unwrap().contains("House rules"), "{done}");
    let log = acme.admin.get("/notifications/logs").items();
    let events: Vec<_> = log.iter().map(|entry| entry["eventType"].as_str().unwrap()).collect();
    for event in ["agent.import.partial", "governance.violation", "governance.passed"] {
        assert!(events.contains(&event), "{events:?}");
    }
}

#[test]
fn an_import_needs_a_registry_that_the_caller_may_use() {
    let acme = Fixture::new();
    let there = There::saying(&json!({"items": [prompt("a", "1", "t")]}));
    let provider = provider(&acme, &there.url);
    let import = |caller: &Caller, provider: &str, registry: &str| {
        let body = json!({"registryRef": registry, "prompts": [{"name": "a"}]});
        caller.post(&format!("{provider}/import"), body)
    };
    let closed = json!({"slug": "closed", "name": "Closed", "access": "restricted"});
    acme.admin.post("/registries", closed).ok();
    let closed = format!("{}/closed", acme.slug);
    import(&acme.member, &provider, &closed).refused(403, "grant_required");
    let other = Fixture::new();
    let theirs = registry(&other, "theirs");
    for missing in ["nowhere", &unknown_id(), ""] {
        import(&acme.member, &provider, missing).refused(404, "not_found");
    }
    for foreign in [&theirs, "nobody/theirs"] {
        import(&acme.member, &provider, foreign).refused(404, "organization_not_found");
    }
    let nowhere = format!("/prompt-providers/{}", unknown_id());
    import(&acme.member, &nowhere, &closed).refused(404, "not_found");
    assert_eq!(there.asked(), [""; 0]);
    import(&acme.admin, &provider, &closed).ok();
    import(&acme.key, &provider, "closed").ok();
}

#[test]
fn prompts_of_another_roadstead_are_listed_and_imported() {
    let (acme, there) = (Fixture::new(), Fixture::new());
    let registry_there = registry(&there, "shared");
    let publish = |name: &str, kind: &str, version: &str, source: &str| {
        let body = json!({"registryRef": registry_there, "artifactType": kind, "name": name,
            "version": version, "source": source});
        there.key.post("/registries/artifacts", body).ok();
    };
    publish("tone", "promptlet", "1.0.0", "Be {{mood}}.");
    publish("greet", "prompt", "1.0.0", "Hello");
    publish("greet", "prompt", "1.1.0", "{{ import \"tone\" }} Greet {{name}}, not \\{{name}}");
    let label = json!({"registryRef": registry_there, "promptName": "greet", "label": "prod",
        "version": "1.1.0"});
    there.key.patch("/registries/artifacts/labels", label).ok();

    let url = format!("http://{}/api?orgSlug={}", there.address, there.slug);
    let key = json!({"apiKey": there.key.credential()});
    let provider = provider_of(&acme, "roadstead", &url, key.clone());
    let found = acme.member.get(&format!("{provider}/prompts")).items();
    let compiled = "Be {{mood}}. Greet {{name}}, not \\{{name}}";
    let row = pick(&found[0], "name version template format labels");
    assert_eq!(row, json!(["greet", "1.1.0", compiled, "text", ["prod"]]));
    assert_eq!(found.len(), 1);

    let registry = registry(&acme, "prompts");
    let prompts = json!([{"name": "greet"}, {"name": "greet", "version": "1.0.0"},
        {"name": "greet", "version": "9.0.0"}]);
    let import = json!({"registryRef": registry, "prompts": prompts});
    let done = acme.member.post(&format!("{provider}/import"), import).ok();
    let expected = [json!(["greet", "greet", "1.1.0"]), json!(["greet", "greet", "1.0.0"])];
    assert_eq!(imported(&done), expected);
    assert_eq!(done["failed"].as_array().unwrap().len(), 1);
    assert_eq!(source(&acme.key, &registry, "greet", "1.1.0"), compiled);

    // A registry by name, with a key of another organization.
    let url = format!("http://{}/api?registryRef={registry_there}", there.address);
    let named = provider_of(&acme, "roadstead", &url, key);
    assert_eq!(acme.member.get(&format!("{named}/prompts")).items(), found);
    let key = json!({"apiKey": acme.key.credential()});
    let outsider = provider_of(&acme, "roadstead", &url, key);
    message_of(&acme.member.get(&format!("{outsider}/prompts")));
}
