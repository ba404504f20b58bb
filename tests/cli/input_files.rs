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
    let steps = ["~ input first", "+ input new", "- input plain"];
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
