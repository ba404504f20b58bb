//! What `pull` leaves alone: files of somebody else, changes that were not applied, and fleets that a key
//! cannot see.

use std::fs;

use serde_json::json;

use crate::plain_files::{desk, files, fill, in_session, json_of};

#[test]
fn a_pull_replaces_and_removes_nothing_that_was_written_since() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let org = desk.path("org");
    // A file of somebody else.
    let foreign = org.join("docs/a.md");
    fs::create_dir_all(org.join("docs")).unwrap();
    fs::write(&foreign, "x").unwrap();
    in_session(&desk, &["pull", "org"]).fails(2, "docs/a.md");
    in_session(&desk, &["pull", "org", "--force"]).fails(2, "docs/a.md");
    assert!(foreign.exists());
    fs::remove_dir_all(org.join("docs")).unwrap();
    // One that is not applied yet, and a change of one.
    let new = org.join("tools/new.toml");
    fs::write(&new, "name = \"new\"\ntype = \"mcp\"\n").unwrap();
    let policy = org.join("policies/house-rules.toml");
    let before = fs::read_to_string(&policy).unwrap();
    fs::write(&policy, before.replace("5000", "4000")).unwrap();
    let refused = in_session(&desk, &["pull", "org"]);
    refused.fails(2, "tools/new.toml");
    refused.fails(2, "policies/house-rules.toml");
    assert!(new.exists() && fs::read_to_string(&policy).unwrap().contains("4000"));
    // Applied, they are the server's.
    let applied = in_session(&desk, &["apply", "org"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(json_of(&desk, &["pull", "org"])["removed"], 0);
    assert!(new.exists() && fs::read_to_string(&policy).unwrap().contains("4000"));
    // What the server no longer has is removed, and named.
    let api = desk.session();
    let tools = api.get("/tools?limit=50").ok();
    let tools = tools["items"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "new").unwrap();
    api.delete(&format!("/tools/{}", tool["id"].as_str().unwrap())).ok();
    let pulled = in_session(&desk, &["pull", "org"]);
    assert!(pulled.stdout.contains("removed: tools/new.toml"), "{}", pulled.stdout);
    // With --force the server's state replaces changes.
    fs::write(&policy, before.replace("5000", "3000")).unwrap();
    json_of(&desk, &["pull", "org", "--force"]);
    assert!(fs::read_to_string(&policy).unwrap().contains("4000"));
}

#[test]
fn a_pull_with_a_key_keeps_fleets_and_whose_they_are() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let read = |path: &str| fs::read_to_string(desk.path("org").join(path)).unwrap();
    let agents = fs::read_dir(desk.path("org").join("agents")).unwrap();
    let names: Vec<_> = agents
        .map(|entry| format!("agents/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    let agent =
        names.iter().find(|name| read(name).contains("fleet = ")).expect("one is in a fleet");
    let (fleet, before) = (read("fleets/writers.toml"), read(agent));
    let pulled = desk.json(&["pull", "org"]);
    assert_eq!((pulled["written"].clone(), pulled["removed"].clone()), (0.into(), 0.into()));
    assert_eq!((read("fleets/writers.toml"), read(agent)), (fleet, before));
    let plan = in_session(&desk, &["plan", "org", "--check"]);
    assert_eq!(plan.code, Some(0), "{plan:?}");
}

#[test]
fn a_pull_follows_no_link_and_waits_for_no_pipe_where_its_list_is() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let org = desk.path("org");
    let victim = desk.path("victim");
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, org.join(".roadstead-pulled.new")).unwrap();
    json_of(&desk, &["pull", "org"]);
    fs::remove_file(org.join(".roadstead-pulled.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", org.join(".roadstead-pulled.json")).unwrap();
    json_of(&desk, &["pull", "org"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    // Without a list every difference counts as a change.
    fs::remove_file(org.join(".roadstead-pulled.json")).unwrap();
    fs::write(org.join("tools/new.toml"), "name = \"new\"\ntype = \"mcp\"\n").unwrap();
    in_session(&desk, &["pull", "org"]).fails(2, "tools/new.toml");
}

/// As git makes one on Windows (`core.autocrlf`), and an editor that marks its files.
#[test]
fn a_checkout_with_other_line_ends_says_the_same() {
    let desk = desk();
    fill(&desk);
    // What a program has published with line ends of its own, and an earlier version half of one.
    for (name, source) in [("program", "One\r\ntwo\r\n"), ("earlier", "Hello\r")] {
        let version = json!({"registryRef": "acme/main", "artifactType": "prompt", "name": name,
            "version": "1.0.0", "source": source});
        desk.session().post("/registries/artifacts", version).ok();
    }
    json_of(&desk, &["pull", "org"]);
    let org = desk.path("org");
    assert_eq!(json_of(&desk, &["plan", "org"])["steps"], json!([]));
    for (path, content) in files(&org) {
        if path.starts_with('.') {
            continue;
        }
        let text = String::from_utf8(content).unwrap();
        assert!(!text.contains('\r'), "{path}");
        let mark = if path.ends_with(".toml") { "\u{feff}" } else { "" };
        fs::write(org.join(&path), format!("{mark}{}", text.replace('\n', "\r\n"))).unwrap();
    }
    let planned = in_session(&desk, &["plan", "org", "--check"]);
    assert_eq!((planned.code, planned.stdout.as_str()), (Some(0), "nothing to do\n"));
    assert!(planned.stderr.contains("other line ends than LF"), "{planned:?}");
    let pulled = json_of(&desk, &["pull", "org"]);
    assert_eq!((&pulled["written"], &pulled["removed"]), (&json!(0), &json!(0)));
    assert_eq!(json_of(&desk, &["apply", "org"])["steps"], json!([]));
    // The API keeps what it was sent.
    let path = "/registries/artifact-versions/content?registryRef=acme/main&promptName=program\
                &version=1.0.0";
    let kept = desk.session().get(path).ok();
    assert_eq!(kept["source"], "One\r\ntwo\r\n");
    // A new one is the same version, whichever checkout it is applied from.
    let fresh = org.join("registries/main/prompts/fresh.md");
    let text = "+++\nversion = \"1.0.0\"\n+++\nHello\nyou\n";
    fs::write(&fresh, format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap();
    assert_eq!(json_of(&desk, &["apply", "org"])["steps"].as_array().unwrap().len(), 1);
    for checkout in [text.to_string(), text.replace('\n', "\r"), text.replace('\n', "\r\n")] {
        fs::write(&fresh, checkout).unwrap();
        assert_eq!(json_of(&desk, &["plan", "org"])["steps"], json!([]));
    }
    // Another text is another content.
    let program = org.join("registries/main/prompts/program.md");
    let text = fs::read_to_string(&program).unwrap();
    fs::write(&program, text.replace("two", "three")).unwrap();
    in_session(&desk, &["plan", "org"]).fails(2, "program@1.0.0 is published with another content");
}

#[test]
fn names_that_are_one_file_on_other_machines_are_told_by_pull_and_plan() {
    let desk = desk();
    desk.registry();
    let api = desk.session();
    for (name, source) in [("Greeting", "Good day"), ("greeting", "Hi"), ("nul", "Nothing")] {
        let version = json!({"registryRef": "acme/main", "artifactType": "prompt", "name": name,
            "version": "1.0.0", "source": source});
        api.post("/registries/artifacts", version).ok();
    }
    api.post("/tools", json!({"name": "Con", "type": "mcp"})).ok();
    let pulled = json_of(&desk, &["pull", "org"]);
    let warnings = pulled["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let said = |at: usize, what: &str| warnings[at].as_str().unwrap().contains(what);
    assert!(said(0, "greeting.md: on Windows and macOS it is the same file"), "{warnings:?}");
    assert!(said(1, "nul.md: no file on Windows"), "{warnings:?}");
    assert!(desk.path("org/tools/_con.toml").exists());
    let planned = in_session(&desk, &["plan", "org", "--check"]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    assert!(planned.stderr.contains("warning: registries/main/prompts/greeting.md"), "{planned:?}");
    assert_eq!(json_of(&desk, &["plan", "org"])["warnings"], pulled["warnings"]);
}
