//! Inputs of prompts as plain files (reference: plain-files).

use std::fs;

use serde_json::json;

use crate::plain_files::{desk, fill, in_session, json_of};

#[test]
fn inputs_are_created_changed_and_removed_as_their_file_says() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let path = desk.path("org").join("registries/main/inputs/scribe.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("[first]") && text.contains("[plain]"), "{text}");
    fs::write(&path, "[first]\nmessage = \"Ho.\"\n\n[new.variables]\nPRODUCT = \"x\"\n").unwrap();
    let plan = json_of(&desk, &["plan", "org", "--prune"]);
    let steps = ["- input plain", "~ input first", "+ input new"];
    let steps = steps.map(|step| format!("{step} of prompt main/scribe"));
    assert_eq!(plan["steps"], json!(steps));
    json_of(&desk, &["apply", "org", "--prune"]);
    let api = desk.session();
    let inputs = api.get("/prompts/scribe/inputs?registryRef=acme/main").items();
    let names: Vec<_> = inputs.iter().map(|input| &input["name"]).collect();
    assert_eq!(names, ["first", "new"]);
    assert_eq!(inputs[0]["message"], "Ho.");
    assert_eq!(inputs[0]["expect"], json!({"contains": [], "judge": null}));
    fs::write(&path, "[first]\nwrong = 1\n").unwrap();
    let refused = in_session(&desk, &["plan", "org"]);
    assert_eq!(refused.code, Some(2));
}

#[test]
fn inputs_are_removed_before_versions_and_cannot_stay_without_their_prompt() {
    let desk = desk();
    desk.registry();
    let api = desk.session();
    let version = json!({"registryRef": "acme/main", "artifactType": "prompt", "name": "lone",
        "version": "1.0.0", "source": "Hello."});
    api.post("/registries/artifacts", version).ok();
    for name in ["first", "second"] {
        api.post("/prompts/lone/inputs", json!({"registryRef": "acme/main", "name": name})).ok();
    }
    json_of(&desk, &["pull", "org"]);
    let inputs = desk.path("org").join("registries/main/inputs/lone.toml");
    let prompt = desk.path("org").join("registries/main/prompts/lone.md");
    let text = fs::read_to_string(&prompt).unwrap();
    fs::write(&inputs, "[first]\n").unwrap();
    fs::write(&prompt, text.replace("1.0.0", "1.1.0").replace("Hello.", "Hello!")).unwrap();
    let plan = json_of(&desk, &["plan", "org", "--prune"]);
    let steps = ["- input second of prompt main/lone", "+ prompt main/lone@1.1.0"];
    assert_eq!(plan["steps"], json!(steps));
    let plan = json_of(&desk, &["plan", "org"]);
    assert_eq!(plan["onlyOnServer"], json!(["input second of prompt main/lone"]));

    fs::remove_file(&prompt).unwrap();
    let refused = in_session(&desk, &["plan", "org", "--prune"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("main/lone has inputs in the files"), "{}", refused.stderr);
    fs::remove_file(&inputs).unwrap();
    json_of(&desk, &["apply", "org", "--prune"]);
    assert_eq!(json_of(&desk, &["plan", "org", "--prune"])["steps"], json!([]));
}
