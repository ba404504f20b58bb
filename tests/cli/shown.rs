//! What others wrote, as commands print it: nothing of it is obeyed by a terminal or by what runs a
//! pipeline, hides, or begins a line of its own.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::process::{Ended, run};

/// A text that would do all of that.
const HOSTILE: &str = "a\u{1b}]52;c;cm0=\u{7}b\u{9b}2J\n::error file=a::INJECTED\n\
                       roadstead: all is well\r\n  ::add-mask::x ##[error]y \
                       \u{202e}c\u{200b}d\u{e0069}";

/// Fails if something in an output would be obeyed, or is not seen.
#[track_caller]
fn assert_harmless(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        let is_plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
        let hides = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{e0000}'..='\u{e007f}');
        assert!(text.chars().all(|c| is_plain(c) && !hides(c)), "{text:?}");
        for line in text.lines() {
            assert!(!line.trim_start().starts_with("::"), "{text:?}");
            assert!(!line.contains("##["), "{text:?}");
            assert!(!line.starts_with("roadstead: all is well"), "{text:?}");
        }
    }
}

/// A server that answers every request with this status and body.
fn answering(status: u16, body: &Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = body.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status} S\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {length}\r\n\r\n{body}"
            );
        }
    });
    format!("http://{address}")
}

#[test]
fn names_of_files_are_shown_and_refused() {
    let desk = Desk::new();
    for name in [
        "\u{1b}]0;PWNED\u{7}\u{1b}[2J.toml",
        "x\n::error file=a::INJECTED",
        "\u{202e}lmot.a",
        "a\u{200b}.toml",
        "\u{9b}2J.toml",
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("roadstead.toml"), "format = 1\n").unwrap();
        fs::create_dir(dir.path().join("tools")).unwrap();
        fs::write(dir.path().join("tools").join(name), "").unwrap();
        symlink("/etc/passwd", dir.path().join(name)).unwrap();
        for command in ["plan", "apply"] {
            let ended = desk.run(&[command, dir.path().to_str().unwrap()]);
            ended.fails(2, "its name has characters that are not seen");
            assert_harmless(&ended);
            assert_eq!(ended.stderr.matches("⟨U+").count() % 2, 0, "{ended:?}");
        }
    }
}

#[test]
fn answers_and_errors_of_a_server_are_shown() {
    let desk = Desk::new();
    let key = json!({"name": HOSTILE, "access": HOSTILE});
    let memberships = json!([{"orgSlug": HOSTILE, "role": HOSTILE}]);
    let who = json!({"userName": HOSTILE, "userId": "u", "memberships": memberships, "apiKey": key,
        "expiresAt": HOSTILE});
    let issues = json!([{"path": HOSTILE, "message": HOSTILE}]);
    let problem = json!({"code": HOSTILE, "message": HOSTILE, "issues": issues});
    for (status, body) in [(200, who), (400, problem.clone()), (401, problem)] {
        let url = answering(status, &body);
        for flags in [&["whoami"][..], &["whoami", "--json"], &["task", "list", "--team", "x"]] {
            let mut command = desk.bare(flags);
            command.env("ROADSTEAD_URL", &url).env("ROADSTEAD_API_KEY", &desk.key);
            let ended = run(command, None);
            assert_harmless(&ended);
            let is_json = flags.contains(&"--json") && status == 200;
            if is_json {
                let printed: Value = serde_json::from_str(&ended.stdout).unwrap();
                assert_eq!(printed["userName"], HOSTILE, "it is the same value");
            } else if flags == ["whoami"] {
                let all = ended.stdout.clone() + &ended.stderr;
                assert!(all.contains("⟨U+001B⟩]52") && all.contains("⟨U+E0069⟩"), "{all:?}");
                // Each value is on its line: the text has as many as it has of its own.
                assert!(all.lines().count() <= 4, "{all:?}");
            }
        }
    }
}

#[test]
fn arguments_are_shown_where_they_are_refused() {
    let desk = Desk::new();
    for args in [
        &["task", HOSTILE][..],
        &["whoami", &format!("--{HOSTILE}")],
        &["logs", "--limit", HOSTILE],
        &["prompt", "get", HOSTILE],
        &["whoami", "--profile", HOSTILE],
        &["plan", HOSTILE],
    ] {
        let ended = desk.run(args);
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert_harmless(&ended);
    }
}

#[test]
fn what_a_deployment_would_hide_is_shown_and_counted() {
    let desk = Desk::new();
    desk.registry();
    let hidden: String =
        "wire".chars().map(|c| char::from_u32(0xe0000 + c as u32).unwrap()).collect();
    let text = format!("You are helpful.{hidden} ❤️");
    let file = desk.file("scribe.md", &text);
    let checked = desk.run(&["prompt", "check", "main/scribe", &file]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let warning = "warning: {file}: has 4 invisible characters with its imports, first ⟨U+E0077⟩ in \
                   line 1";
    assert!(checked.stdout.contains(&warning.replace("{file}", &file)), "{checked:?}");
    desk.json(&["prompt", "publish", "main/scribe", &file, "--bump", "patch"]);
    let api = desk.api();
    api.post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    api.post("/environments", json!({"slug": "staging", "name": "Staging"})).ok();
    let deploy = [
        "deploy",
        "scribe",
        "--prompt",
        "main/scribe@^1.0",
        "--environment",
        "staging",
        "--provider",
        "anthropic",
    ];
    let shown = desk.run(&[&deploy[..], &["--preview"]].concat());
    assert_harmless(&shown);
    let line = "+You are helpful.⟨U+E0077⟩⟨U+E0069⟩⟨U+E0072⟩⟨U+E0065⟩ ❤️";
    assert!(shown.stdout.contains(line), "{shown:?}");
    assert!(shown.stdout.contains("invisible characters: 4\n"), "{shown:?}");
    let preview = desk.json(&[&deploy[..], &["--preview"]].concat());
    assert_eq!(preview["plan"]["invisibleCharacters"], 4);
    // What a command is asked to hand over is as it was written.
    let got = desk.run(&["prompt", "get", "main/scribe@^1.0"]);
    assert_eq!(got.stdout, format!("{text}\n"));
    assert_harmless(&desk.run(&[
        "prompt",
        "diff",
        "main/scribe",
        "1.0.0",
        "--file",
        &desk.file("b.md", "B"),
    ]));
}
