//! `login` by a browser, `logout`, and who is in several organizations (reference: command-line,
//! "Profiles").

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::process::{PASSWORD, run};

/// Starts a login by the browser; returns the code that it shows.
fn asking(desk: &Desk) -> (Child, String) {
    let url = desk.url();
    let mut command = desk.bare(&["login", "--url", &url, "--browser", "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let page = lines.find(|line| line.trim_end().ends_with("/device")).unwrap();
    assert!(page.trim().starts_with("http://"), "{page}");
    lines.find(|line| line.contains("enter the code")).unwrap();
    let code = lines.next().unwrap().trim().to_string();
    // What it says later has somebody who reads it.
    std::thread::spawn(move || lines.for_each(drop));
    (child, code)
}

fn decide(desk: &Desk, code: &str, verb: &str) {
    let path = format!("/auth/device-sign-ins/{code}/{verb}");
    desk.session().ask("POST", &path).json(&json!({})).send().ok();
}

fn sessions_of_command_lines(desk: &Desk) -> Vec<Value> {
    let all = desk.session().get("/auth/sessions").items();
    all.into_iter().filter(|one| !one["device"].is_null()).collect()
}

#[test]
fn a_browser_lets_a_command_line_in_and_logout_ends_its_session() {
    let desk = Desk::new();
    let (child, code) = asking(&desk);
    decide(&desk, &code, "approve");
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let made: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&made["orgSlug"], &made["apiKey"]), (&json!("acme"), &Value::Null));
    assert!(made["expiresAt"].is_string());
    assert_eq!(run(desk.bare(&["whoami"]), None).code, Some(0));
    let sessions = sessions_of_command_lines(&desk);
    assert_eq!(sessions.len(), 1);
    let client = sessions[0]["device"]["client"].as_str().unwrap();
    assert!(client.starts_with("roadstead"), "{client}");

    let out = run(desk.bare(&["logout", "--json"]), None).succeeds();
    assert_eq!((&out["removed"], &out["sessionEnded"]), (&json!("default"), &json!(true)));
    assert!(sessions_of_command_lines(&desk).is_empty());
    run(desk.bare(&["whoami"]), None).fails(2, "roadstead login");
    run(desk.bare(&["logout"]), None).fails(2, "no current profile");
}

#[test]
fn a_browser_that_refuses_ends_the_wait_and_nothing_is_kept() {
    let desk = Desk::new();
    let (child, code) = asking(&desk);
    decide(&desk, &code, "deny");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(!desk.path("roadstead/profiles.json").exists());
    assert!(sessions_of_command_lines(&desk).is_empty());
}

#[test]
fn logout_forgets_a_key_and_says_that_it_stays_valid() {
    let desk = Desk::new();
    let url = desk.url();
    run(desk.bare(&["login", "--url", &url, "--key", "-"]), Some(&desk.key));
    let out = run(desk.bare(&["logout"]), None);
    assert_eq!(out.code, Some(0), "{out:?}");
    assert!(out.stdout.contains("stays valid"), "{out:?}");
    assert_eq!(desk.run(&["whoami"]).code, Some(0));
}

#[test]
fn who_is_in_several_organizations_is_logged_in_once_and_names_one_with_each_command() {
    let desk = Desk::new();
    let session = desk.session();
    let other = json!({"slug": "other", "name": "Other"});
    session.ask("POST", "/organizations").json(&other).send().ok();
    let count = || desk.session().get("/auth/sessions").items().len();
    let before = count();
    let url = desk.url();
    let login = ["login", "--url", &url, "--email", "ada@acme.test", "--password-stdin"];
    let made = run(desk.bare(&login), Some(&format!("{PASSWORD}\n")));
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stderr.contains("--org") && made.stderr.contains("acme, other"), "{made:?}");
    // That of the login, and that which counts.
    assert_eq!(count(), before + 2);
    let kept = fs::read_to_string(desk.path("roadstead/profiles.json")).unwrap();
    assert!(kept.contains("\"orgSlug\": null"), "{kept}");
    run(desk.bare(&["prompt", "list"]), None).fails(2, "--org");
    assert_eq!(run(desk.bare(&["prompt", "list", "--org", "other"]), None).code, Some(0));
    let chosen = [&login[..], &["--org", "other"]].concat();
    assert_eq!(run(desk.bare(&chosen), Some(&format!("{PASSWORD}\n"))).code, Some(0));
    assert_eq!(run(desk.bare(&["prompt", "list"]), None).code, Some(0));
}
