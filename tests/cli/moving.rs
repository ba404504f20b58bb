//! `export` and `import`: beside a running server and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::client::eventually;
use crate::process::{Place, Serving, run};

/// A founded installation with a team, tasks and a secret, and the path of its export.
fn source() -> (Place, String, String) {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let ada = serving.caller(&key);
    let team = ada.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    for n in 0..20 {
        ada.post(&format!("/teams/{team}/tasks"), json!({"title": format!("Task {n}")})).ok();
    }
    let environment = ada.post("/environments", json!({"slug": "e", "name": "E"})).id();
    let secret = format!("/environments/{environment}/secrets/TOKEN");
    ada.put(&secret, json!({"value": "sesame-sesame"})).ok();
    let file = place.data().parent().unwrap().join("acme.jsonl");
    (place, key, file.to_str().unwrap().into())
}

fn ids(result: &Value) -> (&Value, &Value) {
    (&result["members"], &result["secretsLeftOut"])
}

#[test]
fn an_organization_moves_from_one_running_server_to_another() {
    let (from, key, file) = source();
    let serving = Serving::start(&from, &[]);
    let made = from.run(&["export", "--org", "acme", &file, "--json"]).succeeds();
    assert_eq!(ids(&made), (&json!(1), &json!(1)), "{made}");
    assert!(made["tablesLeftOut"].to_string().contains("api_keys"), "{made}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("sesame") && !text.contains(&key) && !text.contains("argon2"));
    let out = from.run(&["export", "--org", "acme", "-"]);
    assert_eq!((out.code, out.stdout == text), (Some(0), true), "{}", out.stderr);
    from.run(&["export", "--org", "acme", &file]).fails(1, "cannot be created");
    from.run(&["export", "--org", "nobody", "-"]).fails(1, "no such organization");
    from.run(&["export", "--org", "acme", "-", "--json"]).fails(2, "name a file");
    drop(serving);

    let to = Place::new();
    let serving = Serving::start(&to, &[]);
    let done = to.run(&["import", &file, "--json"]).succeeds();
    assert_eq!(done["orgSlug"], "acme");
    assert_eq!(done["createdMembers"], json!(["ada@acme.test"]));
    assert!(!to.file("import-trial").exists());
    eventually("the setup link is gone", || Some(()).filter(|()| !to.file("setup-link").exists()));
    let link = to.run(&["reset-password", "--email", "ada@acme.test", "--json"]).succeeds();
    let token = link["resetUrl"].as_str().unwrap().split_once('#').unwrap().1.to_string();
    let anonymous = serving.caller("").with_fields(&[]);
    let body = json!({"token": token, "newPassword": "another horse battery"});
    anonymous.ask("POST", "/auth/password/reset").json(&body).send().ok();
    let body = json!({"email": "ada@acme.test", "password": "another horse battery"});
    let session = anonymous.ask("POST", "/auth/sign-in").json(&body).send().ok();
    let ada = anonymous.with_bearer(session["token"].as_str().unwrap());
    let team = ada.get("/teams").items()[0]["id"].as_str().unwrap().to_string();
    assert_eq!(ada.get(&format!("/teams/{team}/tasks")).items().len(), 20);

    to.run(&["import", &file]).fails(1, "choose another slug with --as");
    to.run(&["import", &file, "--as", "other"]).fails(1, "is there already");
    drop(serving);
    assert_eq!(to.run(&["check"]).code, Some(0));
}

#[test]
fn an_organization_moves_without_a_server() {
    let (from, _, file) = source();
    let ended = from.run(&["export", "--org", "acme", &file]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.contains("secrets (1)"), "{ended:?}");
    let (to, key) = Place::founded();
    to.run(&["import", &file]).fails(1, "choose another slug with --as");
    let ended = to.run(&["import", &file, "--as", "moved"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    for part in ["The organization moved was imported", "an account here: ada@acme.test"] {
        assert!(ended.stdout.contains(part), "{ended:?}");
    }
    assert_eq!(to.run(&["check"]).code, Some(0));
    let serving = Serving::start(&to, &[]);
    assert_eq!(serving.caller(&key).get("/teams").items().len(), 0, "another organization");
    drop(serving);

    // Through a pipe, without a file in between.
    let piped = from.run(&["export", "--org", "acme", "-"]).stdout;
    let to = Place::founded().0;
    let half = &piped[..piped.len() / 2];
    run(to.command(&["import", "-", "--as", "moved"]), Some(half)).fails(1, "stdin: ");
    let done = run(to.command(&["import", "-", "--as", "moved", "--json"]), Some(&piped));
    assert_eq!(done.succeeds()["orgSlug"], "moved");
    assert!(!to.file("import-trial").exists());
}

#[test]
fn a_bad_file_changes_nothing() {
    let (from, _, file) = source();
    from.run(&["export", "--org", "acme", &file, "--json"]).succeeds();
    let text = fs::read_to_string(&file).unwrap();
    let (to, _) = Place::founded();
    let before = to.run(&["check", "--json"]).succeeds();
    let refused = |content: &str, why: &str| {
        fs::write(&file, content).unwrap();
        to.run(&["import", &file, "--as", "moved"]).fails(1, why);
    };
    refused("Dear sirs,\n", "no file of an organization");
    let backup = to.file("../to.backup");
    to.run(&["backup", backup.to_str().unwrap(), "--json"]).succeeds();
    to.run(&["import", backup.to_str().unwrap()]).fails(1, "a backup is for roadstead restore");
    refused(&text[..text.len() / 2], "not whole");
    refused(&text.replacen("Task 7", "Task 8", 1), "is not what was exported");
    // Made up with the hash that it has: a task whose team is not there.
    let mut lines: Vec<&str> = text.lines().collect();
    let team = lines.iter().position(|line| line.starts_with("{\"table\":\"teams\"")).unwrap();
    lines.remove(team);
    let mut end: Value = serde_json::from_str(lines.pop().unwrap()).unwrap();
    end["end"]["records"].as_object_mut().unwrap().remove("teams");
    let body = lines.join("\n") + "\n";
    end["end"]["hash"] = json!(blake3::hash(body.as_bytes()).to_hex().as_str());
    refused(&format!("{body}{end}\n"), "refers to teams");

    to.run(&["import", "/does/not/exist"]).fails(1, "cannot be read");
    to.run(&["import"]).fails(2, "FILE");
    to.run(&["import", "--undo"]).fails(1, "no import is unfinished");
    assert_eq!(to.run(&["check", "--json"]).succeeds(), before);
}
