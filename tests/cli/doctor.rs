//! `roadstead doctor` and `roadstead config show` (reference: command-line).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::process::{Ended, Place, Serving, command, run};

/// The report, whatever it found.
fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
}

fn doctor(place: &Place, more: &[&str]) -> (Option<i32>, Value) {
    let ended = place.run(&[&["doctor", "--json"][..], more].concat());
    (ended.code, report(&ended))
}

/// The level of a check: the worst of its findings.
fn level(report: &Value, check: &str) -> String {
    let of_check = |finding: &&Value| finding["check"] == check;
    let found = report["findings"].as_array().unwrap().iter().filter(of_check);
    let levels = found.map(|finding| finding["level"].as_str().unwrap().to_string());
    let rank = |level: &String| ["ok", "warning", "error"].iter().position(|one| one == level);
    levels.max_by_key(rank).unwrap_or_else(|| panic!("{check} is not in {report}"))
}

#[test]
fn all_is_well_with_a_new_directory_that_is_backed_up_while_its_server_runs_or_not() {
    let (place, _) = Place::founded();
    let (code, found) = doctor(&place, &[]);
    assert_eq!((code, level(&found, "backup")), (Some(1), "warning".into()), "{found}");
    let backup = place.data().with_file_name("b");
    place.run(&["backup", backup.to_str().unwrap(), "--json"]).succeeds();
    let (code, found) = doctor(&place, &[]);
    assert_eq!((code, &found["level"]), (Some(0), &json!("ok")), "{found}");
    for check in ["directory", "rights", "database", "key", "space", "clock", "erasures"] {
        assert_eq!(level(&found, check), "ok", "{found}");
    }
    let provider = "name=kc,issuer=https://id.example,client-id=roadstead";
    let (code, found) = doctor(&place, &["--oidc", provider]);
    assert_eq!((code, level(&found, "sign-in")), (Some(0), "ok".into()), "{found}");
    let serving = Serving::start(&place, &[]);
    let (code, found) = doctor(&place, &[]);
    for check in ["server", "panics"] {
        assert_eq!((code, level(&found, check)), (Some(0), "ok".into()), "{found}");
    }
    let head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let metrics = crate::client::raw(serving.address, head).text();
    assert!(metrics.contains("roadstead_last_backup_timestamp_seconds 1"), "{metrics}");
}

#[test]
fn a_directory_behind_a_link_is_as_private_as_what_the_link_leads_to() {
    let (place, _) = Place::founded();
    let link = place.data().with_file_name("link");
    std::os::unix::fs::symlink(place.data(), &link).unwrap();
    let rights = || level(&report(&run(command(&["doctor", "--json"], &link), None)), "rights");
    assert_eq!(rights(), "ok");
    fs::set_permissions(place.data(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(rights(), "error");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let (place, _) = Place::founded();
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(place.file(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("erasures", 0o644);
    fs::write(place.file("setup-link"), "http://old\n").unwrap();
    fs::write(place.file("control.sock"), "").unwrap();
    fs::remove_file(place.file("control.sock")).unwrap();
    let (code, found) = doctor(&place, &["--public-url", "https://agents.example.com"]);
    assert_eq!(code, Some(2), "{found}");
    for (check, expected) in [
        ("rights", "error"),
        ("setup-link", "warning"),
        ("trusted-proxy", "warning"),
        ("backup", "warning"),
    ] {
        assert_eq!(level(&found, check), expected, "{found}");
    }
    let below = place.run(&["doctor", "--public-url", "https://agents.example.com/roadstead"]);
    below.fails(2, "must be without a path");
    let findings = found["findings"].as_array().unwrap();
    for finding in findings.iter().filter(|finding| finding["level"] != "ok") {
        assert!(finding["toDo"].as_str().is_some_and(|to_do| !to_do.is_empty()), "{finding}");
    }
    mode("erasures", 0o600);
    fs::write(place.file("erasures"), "damaged\n").unwrap();
    fs::rename(place.file("secret.key"), place.file("secret.key.aside")).unwrap();
    let (code, found) = doctor(&place, &[]);
    assert_eq!(code, Some(2));
    for check in ["erasures", "key", "database"] {
        assert_eq!(level(&found, check), "error", "{found}");
    }
    let (code, found) = doctor(&Place::new(), &[]);
    assert_eq!((code, level(&found, "directory")), (Some(2), "error".into()));
}

#[test]
fn the_socket_of_a_killed_server_is_found() {
    let (place, _) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    serving.kill();
    let (_, found) = doctor(&place, &[]);
    assert_eq!(level(&found, "socket"), "warning", "{found}");
}

#[test]
fn doctor_prints_a_line_for_each_finding() {
    let (place, _) = Place::founded();
    let ended = place.run(&["doctor"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("WARNING  backup: no backup was made yet\n"), "{ended:?}");
    assert!(ended.stderr.contains("errors: 0, warnings: 1"), "{ended:?}");
}

fn setting<'a>(shown: &'a Value, flag: &str) -> &'a Value {
    let settings = shown["settings"].as_array().unwrap();
    settings.iter().find(|setting| setting["flag"] == flag).unwrap()
}

#[test]
fn config_show_says_where_each_value_comes_from_and_hides_secrets() {
    let mut place = Place::new();
    place.set(&[
        ("ROADSTEAD_LISTEN", "127.0.0.1:7777"),
        ("ROADSTEAD_METRICS_TOKEN", "geheim"),
        ("ROADSTEAD_RATE_LIMIT", "7"),
    ]);
    let show = ["config", "show", "--json", "--rate-limit", "9"];
    let ended = place.run(&show);
    let shown = ended.succeeds();
    assert!(!ended.stdout.contains("geheim"), "{shown}");
    for (flag, variable, value, source) in [
        ("--listen", "ROADSTEAD_LISTEN", json!("127.0.0.1:7777"), "variable"),
        ("--rate-limit", "ROADSTEAD_RATE_LIMIT", json!("9"), "flag"),
        ("--log-retention", "ROADSTEAD_LOG_RETENTION", json!("365d"), "default"),
        ("--public-url", "ROADSTEAD_PUBLIC_URL", json!(null), "unset"),
        ("--metrics-token", "ROADSTEAD_METRICS_TOKEN", json!("(hidden)"), "variable"),
    ] {
        let expected =
            json!({"flag": flag, "variable": variable, "value": value, "source": source});
        assert_eq!(setting(&shown, flag), &expected);
    }
    assert_eq!(shown["running"], false);
    let text = place.run(&["config", "show"]).stdout;
    assert!(text.contains("127.0.0.1:7777  (ROADSTEAD_LISTEN)"), "{text}");
    assert!(text.contains("(hidden)") && !text.contains("geheim"), "{text}");
    assert!(!place.data().exists());
}

#[test]
fn config_show_shows_the_settings_of_the_running_server() {
    let (place, _) = Place::founded();
    let _serving = Serving::start(&place, &["--rate-limit", "77"]);
    let shown = place.run(&["config", "show", "--json"]).succeeds();
    assert_eq!(shown["running"], true);
    assert_eq!(setting(&shown, "--rate-limit")["value"], "77");
    assert_eq!(setting(&shown, "--rate-limit")["source"], "flag");
}
