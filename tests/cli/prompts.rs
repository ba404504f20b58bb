//! `prompt`: files are checked, published and promoted (reference: command-line, "Prompts as files").

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};

use crate::client::eventually;
use crate::desk::Desk;
use crate::process::run;

/// A server with the registry `main`, in which `voice` is a promptlet.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.registry();
    let file = desk.file("voice.md", "Write plainly. You speak for {{TEAM}}.\n");
    desk.json(&[
        "prompt",
        "publish",
        "main/voice",
        &file,
        "--type",
        "promptlet",
        "--bump",
        "patch",
    ]);
    desk
}

const SCRIBE: &str = "+++\n[metadata]\nowner = \"ada\"\n+++\n\
                      {{ import \"voice@^1.0\" }} You write {{WHAT}}.\n";

#[test]
fn a_file_is_published_once_for_each_change_of_it() {
    let desk = desk();
    let file = desk.file("scribe.md", SCRIBE);
    let publish = ["prompt", "publish", "acme/main/scribe", &file, "--bump", "patch"];
    let first = desk.json(&publish);
    assert_eq!((&first["published"], &first["version"]), (&json!(true), &json!("1.0.0")));
    let again = desk.json(&publish);
    assert_eq!((&again["published"], &again["version"]), (&json!(false), &json!("1.0.0")));

    desk.file("scribe.md", SCRIBE.replace("You write", "You only write"));
    assert_eq!(desk.json(&publish)["version"], "1.0.1");
    desk.file("scribe.md", SCRIBE.replace("\"ada\"", "\"grace\""));
    let minor = [&publish[..5], &["minor"]].concat();
    assert_eq!(desk.json(&minor)["version"], "1.1.0");
    let major = [&publish[..5], &["major", "--model", "claude"]].concat();
    assert_eq!(desk.json(&major)["version"], "2.0.0");
    assert_eq!(desk.json(&major)["published"], false);

    let content = desk
        .api()
        .get(
            "/registries/artifact-versions/content?registryRef=main&\
                                  promptName=scribe&version=1.1.0",
        )
        .ok();
    assert_eq!(content["metadata"], json!({"owner": "grace"}));
    let source = content["source"].as_str().unwrap();
    assert!(source.ends_with("You write {{WHAT}}."), "{source}");
}

#[test]
fn a_version_says_what_changed_and_why() {
    let desk = desk();
    let file = desk.file("a.md", "+++\nmessage = \"In the file.\"\n+++\nHello\n");
    let publish = ["prompt", "publish", "main/a", &file, "--bump", "minor"];
    assert_eq!(desk.json(&publish)["message"], "In the file.");
    // The message alone is no change.
    let again = [&publish[..], &["-m", "Other."]].concat();
    let unchanged = desk.json(&again);
    let expected = (&json!(false), &json!("In the file."));
    assert_eq!((&unchanged["published"], &unchanged["message"]), expected);
    desk.file("a.md", "+++\nmessage = \"In the file.\"\n+++\nGood morning\n");
    assert_eq!(desk.json(&again)["message"], "Other.");
    let history = desk.run(&["prompt", "history", "main/a"]).stdout;
    assert!(history.contains("MESSAGE") && history.contains("Other."), "{history}");
    let compared = desk.json(&["prompt", "diff", "main/a", "1.0.0", "1.1.0"]);
    assert_eq!(
        (&compared["fromMessage"], &compared["toMessage"]),
        (&json!("In the file."), &json!("Other."))
    );
    desk.file("a.md", "Good night\n");
    let long = "x".repeat(501);
    desk.run(&[&publish[..], &["-m", &long]].concat()).fails(1, "message must be at most 500");
}

#[test]
fn a_version_of_the_front_matter_is_published_as_it_is() {
    let desk = desk();
    let file = desk.file("a.md", "+++\nversion = \"3.1.4\"\nmodel = \"claude\"\n+++\nHello\n");
    let publish = ["prompt", "publish", "main/a", &file];
    let made = desk.json(&publish);
    assert_eq!((&made["version"], &made["model"]), (&json!("3.1.4"), &json!("claude")));
    assert_eq!(desk.json(&publish)["published"], false);
    desk.file("a.md", "+++\nversion = \"3.1.4\"\nmodel = \"claude\"\n+++\nOther\n");
    desk.run(&publish).fails(1, "version_exists");
    let plain = desk.file("b.md", "Hello\n");
    desk.run(&["prompt", "publish", "main/b", &plain]).fails(2, "--bump patch");
    assert_eq!(
        desk.json(&["prompt", "publish", "main/b", &plain, "--version", "0.1.0"])["version"],
        "0.1.0"
    );
    let piped = desk.command(&["prompt", "publish", "main/c", "-", "--bump", "patch", "--json"]);
    assert_eq!(run(piped, Some("Hello")).succeeds()["version"], "1.0.0");
}

#[test]
fn an_empty_file_is_refused_and_an_empty_text_is_warned_of() {
    let desk = desk();
    let file = desk.file("a.md", "\n");
    let publish = ["prompt", "publish", "main/a", &file, "--bump", "minor"];
    let check = ["prompt", "check", "main/a", &file];
    desk.run(&publish).fails(2, "is empty; a prompt without a text");
    desk.run(&check).fails(2, "is empty");
    let piped = desk.command(&["prompt", "publish", "main/a", "-", "--bump", "patch"]);
    run(piped, Some("")).fails(2, "stdin: is empty");
    // As an editor saves an empty file that begins with a byte order mark.
    desk.file("a.md", "\u{feff}\r\n");
    desk.run(&check).fails(2, "is empty");

    desk.file("a.md", "+++\n+++\n");
    let checked = desk.run(&check);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stdout.contains("warning: ") && checked.stdout.contains("the text is empty"));
    let published = desk.run(&publish);
    assert_eq!(published.code, Some(0), "{published:?}");
    assert!(published.stderr.contains("the text is empty"), "{published:?}");
}

#[test]
fn every_problem_is_shown_at_its_line_and_column_of_the_file() {
    let desk = desk();
    let wrong = "+++\nmodel = \"m\"\n+++\nFine.\n{{ if x }}\nand {{ import \"nope\" }}\n";
    let file = desk.file("wrong.md", wrong);
    let places = [format!("{file}:5:1: "), format!("{file}:6:5: ")];
    let publish = desk.run(&["prompt", "publish", "main/wrong", &file, "--bump", "patch"]);
    publish.fails(1, &places[0]);
    publish.fails(1, &places[1]);
    let check = desk.run(&["prompt", "check", "main/wrong", &file]);
    assert_eq!(check.code, Some(1));
    assert!(places.iter().all(|place| check.stdout.contains(place)), "{check:?}");
    let check = desk.run(&["prompt", "check", "main/wrong", &file, "--json"]);
    let found: Value = serde_json::from_str(&check.stdout).unwrap();
    assert_eq!(
        (&found["problems"][1]["line"], &found["problems"][1]["column"]),
        (&json!(6), &json!(5))
    );

    let path = desk.file("path.md", "Fine.\nC:\\Users\\{{USER}}\\x\n");
    let warning =
        format!("warning: {path}:2:9: \\{{{{USER}}}} is the text {{{{USER}}}} and no variable");
    let check = desk.run(&["prompt", "check", "main/path", &path]);
    assert!(check.code == Some(0) && check.stdout.contains(&warning), "{check:?}");
    let publish = desk.run(&["prompt", "publish", "main/path", &path, "--bump", "patch"]);
    assert!(publish.code == Some(0) && publish.stderr.contains(&warning), "{publish:?}");

    let front = desk.file("front.md", "+++\nmodle = \"m\"\n+++\nFine.\n");
    desk.run(&["prompt", "check", "main/x", &front]).fails(2, &format!("{front}:2:1: "));
    let bytes = desk.file("bytes.md", b"good\n\xff\xfe");
    desk.run(&["prompt", "check", "main/x", &bytes])
        .fails(2, &format!("{bytes}:2:1: is not UTF-8"));
    desk.run(&["prompt", "check", "main/x", "/no/such/file"]).fails(2, "cannot be read");
    desk.run(&["prompt", "check", "scribe", &front]).fails(2, "REGISTRY/NAME");
}

#[test]
fn files_are_checked_with_the_promptlets_that_are_published_before_them() {
    let desk = desk();
    let prompt = desk.file("scribe.md", "{{ import \"style@^1\" }} You write notes.\n");
    let check = |more: &[&str]| {
        desk.run(&[&["prompt", "check", "main/scribe", &prompt, "--promptlets"], more].concat())
    };
    let dir = desk.path("pieces").to_string_lossy().into_owned();
    let missing = check(&[&dir]);
    assert!(missing.stdout.contains("has no promptlet \"style\""), "{missing:?}");
    let style = desk.file("pieces/style.md", "{{ import \"words\" }}\n");
    assert_eq!(check(&[&dir]).code, Some(1));
    let words = desk.file("pieces/words.md", "Write plainly.\n");
    assert_eq!(check(&[&dir]).code, Some(0));

    // What is published stays what it is; the next version counts, if the import takes it.
    for (name, file) in [("main/words", &words), ("main/style", &style)] {
        desk.json(&["prompt", "publish", name, file, "--type", "promptlet", "--bump", "major"]);
    }
    desk.file("pieces/style.md", "{{ if x }}\n");
    let broken = check(&[&dir]);
    assert!(broken.stdout.contains("scribe.md:1:1: the promptlet \"style\""), "{broken:?}");
    assert_eq!(check(&[&dir, "--bump", "major"]).code, Some(0), "2.0.0 is not in ^1");
    desk.file("pieces/style.md", "{{ import \"style\" }}\n");
    let itself = ["prompt", "check", "main/style", &style, "--type", "promptlet"];
    let itself = desk.run(&[&itself[..], &["--promptlets", &dir]].concat());
    assert!(itself.stdout.contains("a promptlet cannot import itself"), "{itself:?}");

    fs::remove_file(&style).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &style).unwrap();
    check(&[&dir]).fails(2, "style.md is a link");
    desk.run(&["prompt", "check", "main/scribe", &prompt, "--bump", "patch"])
        .fails(2, "--promptlets");
}

#[test]
fn broken_policies_refuse_a_file_before_it_is_published() {
    let desk = desk();
    let api = desk.api();
    for (name, severity, rule) in [
        ("No secrets", "error", json!({"type": "forbidPattern", "value": "password"})),
        ("Short", "warning", json!({"type": "maxLength", "value": 20})),
    ] {
        let policy = json!({"name": name, "severity": severity, "rules": [rule]});
        let policy = api.post("/governance/policies", policy).id();
        let path = format!("/governance/policies/{policy}/assignments");
        api.post(&path, json!({"registryRef": "acme/main"})).ok();
    }
    let file = desk.file("a.md", "The password is on the other side.\n");
    let check = desk.run(&["prompt", "check", "main/a", &file, "--json"]);
    assert_eq!(check.code, Some(1), "{check:?}");
    let found: Value = serde_json::from_str(&check.stdout).unwrap();
    assert_eq!(found["problems"].as_array().unwrap().len(), 2, "{found}");
    desk.run(&["prompt", "publish", "main/a", &file, "--bump", "patch"]).fails(1, "a.md: ");
    desk.file("a.md", "The key is on the other side.\n");
    let check = desk.json(&["prompt", "check", "main/a", &file]);
    assert_eq!(
        (&check["ok"], &check["problems"][0]["severity"]),
        (&json!(true), &json!("warning"))
    );
}

#[test]
fn a_label_is_promoted_from_the_version_that_is_expected_and_rolled_back() {
    let desk = desk();
    for text in ["One", "Two", "Three"] {
        let file = desk.file("a.md", text);
        desk.json(&["prompt", "publish", "main/a", &file, "--bump", "minor"]);
    }
    let promote = |version: &str, more: &[&str]| {
        desk.run(&[&["prompt", "promote", "main/a", version, "--json"], more].concat())
    };
    let at = || desk.json(&["prompt", "get", "main/a@production"])["version"].clone();
    promote("1.0.0", &["--if-version", "none"]).succeeds();
    promote("1.1.0", &["--if-version", "none"]).fails(1, "label_moved");
    promote("1.1.0", &["--if-version", "1.2.0"]).fails(1, "label_moved");
    assert_eq!(at(), "1.0.0");
    promote("1.1.0", &["--if-version", "1.0.0"]).succeeds();
    promote("^1.0", &[]).succeeds();
    assert_eq!(at(), "1.2.0");
    desk.json(&["prompt", "rollback", "main/a"]);
    assert_eq!(at(), "1.1.0");
    desk.json(&["prompt", "rollback", "main/a"]);
    assert_eq!(at(), "1.2.0");
    desk.run(&["prompt", "rollback", "main/a", "--label", "beta"]).fails(1, "never moved");

    let moves = desk.json(&["prompt", "history", "main/a", "--label", "production"]);
    assert_eq!(moves["items"].as_array().unwrap().len(), 5);
    let history = desk.run(&["prompt", "history", "main/a"]).stdout;
    let lines: Vec<_> = history.lines().collect();
    let row: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!((row[0], row[4]), ("1.2.0", "production"), "{history}");
    assert_eq!(lines.len(), 4, "{history}");
}

#[test]
fn a_move_that_takes_approvals_is_asked_for_and_waited_for() {
    let desk = desk();
    for text in ["One", "Two"] {
        let file = desk.file("a.md", text);
        desk.json(&["prompt", "publish", "main/a", &file, "--bump", "minor"]);
    }
    let session = desk.session();
    let me = session.get("/auth/user").ok()["id"].clone();
    let protection = json!({"minRole": "member", "approvals": {"approverIds": [me]}});
    session.put("/registries/main/protected-labels/production", protection).ok();
    let asked = desk.json(&["prompt", "promote", "main/a", "1.0.0"]);
    assert_eq!(
        (&asked["labels"], &asked["pendingChange"]["state"]),
        (&json!({}), &json!("pending"))
    );
    let said = desk.run(&["prompt", "promote", "main/a", "1.0.0"]).stdout;
    let change = asked["pendingChange"]["id"].as_str().unwrap();
    assert!(said.contains("waits for approval") && said.contains(change), "{said}");

    let changes = "/registries/artifacts/label-changes";
    let decided = |version: &str, decision: &str| {
        let command = desk.command(&["prompt", "promote", "main/a", version, "--wait"]);
        let waiting = thread::spawn(move || run(command, None));
        let change = eventually("it waits", || {
            let waiting = session.get(&format!("{changes}?state=pending")).items();
            let change = waiting.first().filter(|change| change["to"] == version)?;
            change["id"].as_str().map(String::from)
        });
        let waits = desk.run(&["prompt", "changes", "main/a", "--state", "pending"]).stdout;
        assert!(waits.contains(&change), "{waits}");
        session.post(&format!("{changes}/{change}/{decision}"), json!({"comment": "Read it"})).ok();
        waiting.join().unwrap()
    };
    let approved = decided("1.0.0", "approve");
    assert_eq!(approved.code, Some(0), "{}", approved.stderr);
    assert_eq!(desk.json(&["prompt", "get", "main/a@production"])["version"], "1.0.0");
    let denied = decided("1.1.0", "deny");
    assert_eq!(denied.code, Some(1), "{}", denied.stderr);
    assert!(denied.stderr.contains("the label change is denied"), "{}", denied.stderr);
    assert!(
        denied.stdout.contains("denied by ") && denied.stdout.contains(": Read it"),
        "{denied:?}"
    );
    assert_eq!(desk.json(&["prompt", "get", "main/a@production"])["version"], "1.0.0");
}

#[test]
fn label_changes_are_approved_denied_and_cancelled_by_their_ids() {
    let desk = desk();
    for text in ["One", "Two"] {
        let file = desk.file("a.md", text);
        desk.json(&["prompt", "publish", "main/a", &file, "--bump", "minor"]);
    }
    let session = desk.session();
    let me = session.get("/auth/user").ok();
    let approvals = json!({"approverIds": [me["id"]]});
    let protection = json!({"minRole": "member", "approvals": approvals});
    session.put("/registries/main/protected-labels/production", protection).ok();
    let key = json!({"name": "gate", "access": ["label:decide", "artifact:read", "deployment:decide"],
        "allowApproveAs": true});
    let key = session.post("/api-keys", key).ok()["key"].clone();
    let asked = |version: &str| {
        let asked = desk.json(&["prompt", "promote", "main/a", version]);
        asked["pendingChange"].clone()
    };
    let decide = |verb: &str, change: &Value, more: &[&str]| {
        let (id, address) = (change["id"].as_str().unwrap(), me["email"].as_str().unwrap());
        let of = ["prompt", verb, id, "--as", address, "--key", "-"];
        crate::process::run(desk.command(&[&of, more].concat()), key.as_str())
    };
    let one = asked("1.0.0");
    decide("approve", &one, &["--content-hash", "another"]).fails(1, "content");
    let hash = one["contentHash"].as_str().unwrap();
    let approved = decide("approve", &one, &["--content-hash", hash, "--comment", "ok"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(desk.json(&["prompt", "get", "main/a@production"])["version"], "1.0.0");
    let denied = decide("deny", &asked("1.1.0"), &[]);
    assert!(denied.stdout.contains("1.0.0 -> 1.1.0 is denied"), "{denied:?}");
    let two = asked("1.1.0");
    let cancelled = desk.json(&["prompt", "cancel", two["id"].as_str().unwrap()]);
    assert_eq!(cancelled["state"], "cancelled");
    let states = desk.json(&["prompt", "changes", "main/a"])["items"].clone();
    let states: Vec<_> =
        states.as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["cancelled", "denied", "approved"]);
}

#[test]
fn texts_are_printed_as_they_are_compared_and_rendered() {
    let desk = desk();
    let file = desk.file("scribe.md", SCRIBE);
    desk.json(&["prompt", "publish", "main/scribe", &file, "--bump", "patch"]);
    desk.file("scribe.md", SCRIBE.replace("You write", "Now write"));
    desk.json(&["prompt", "publish", "main/scribe", &file, "--bump", "patch"]);

    let compiled = desk.run(&["prompt", "get", "main/scribe@1.0.0"]);
    assert_eq!(compiled.stdout, "Write plainly. You speak for {{TEAM}}. You write {{WHAT}}.\n");
    let source = desk.run(&["prompt", "get", "acme/main/scribe@1.0", "--source"]);
    assert!(source.stdout.contains("Now write") && source.stdout.contains("import"), "{source:?}");
    let diff = desk.run(&["prompt", "diff", "main/scribe", "1.0.0"]).stdout;
    let changes = ["\n-{{ import \"voice@^1.0\" }} You", "\n+{{ import \"voice@^1.0\" }} Now"];
    assert!(changes.iter().all(|line| diff.contains(line)), "{diff}");

    let of_file = desk.run(&["prompt", "diff", "main/scribe", "1.0.0", "--file", &file]).stdout;
    assert!(of_file.contains(changes[0]) && of_file.contains(changes[1]), "{of_file}");
    let same = desk.run(&["prompt", "diff", "main/scribe", "1.0.1", "--file", &file]);
    assert_eq!(same.stdout.trim(), "");

    let what = desk.file("what", "release notes");
    let set = ["--set", "TEAM=Shipping", "--set-file", &format!("WHAT={what}")];
    let render = ["prompt", "render", "main/scribe@1.0.0"];
    let full = desk.run(&[&render[..], &set].concat());
    assert_eq!(full.stdout, "Write plainly. You speak for Shipping. You write release notes.\n");
    let part = desk.run(&[&render[..], &set[..2]].concat());
    assert_eq!((part.code, part.stderr.as_str()), (Some(0), "no value for: WHAT\n"));
    desk.run(&[&render[..], &set[..2], &["--strict"]].concat()).fails(1, "WHAT");
    desk.run(&[&render[..], &["--set", "A=1", "--set", "A=2"]].concat()).fails(2, "twice");
    desk.run(&["prompt", "get", "main/scribe@9"]).fails(1, "not_found");
    let registries = desk.run(&["prompt", "list"]).stdout;
    assert!(registries.contains("acme/main") && registries.contains("private"), "{registries}");
    let list = desk.run(&["prompt", "list", "main"]).stdout;
    assert!(list.lines().any(|line| line.starts_with("voice") && line.contains("promptlet")));
}

#[test]
fn a_file_is_one_version_whatever_its_line_ends_are() {
    let desk = desk();
    let unix = desk.file("unix.md", "Hello\nyou\n");
    let publish =
        |file: &str| desk.run(&["prompt", "publish", "main/a", file, "--bump", "patch", "--json"]);
    let first = publish(&unix);
    assert_eq!((first.stderr.as_str(), first.succeeds()["published"].clone()), ("", json!(true)));
    let windows = desk.file("windows.md", "\u{feff}Hello\r\nyou\r\n");
    let again = publish(&windows);
    assert!(again.stderr.contains("windows.md: its byte order mark is left out, and"), "{again:?}");
    let again = again.succeeds();
    assert_eq!((&again["published"], &again["version"]), (&json!(false), &json!("1.0.0")));
    let diff = desk.run(&["prompt", "diff", "main/a", "1.0.0", "--file", &windows]);
    assert_eq!((diff.stdout.as_str(), diff.code), ("", Some(0)), "{diff:?}");
    let source = desk.run(&["prompt", "get", "main/a@1.0.0", "--source"]).stdout;
    assert_eq!(source, "Hello\nyou\n", "the last line end is that of the command");

    // What an earlier version published of such a file.
    let version = json!({"registryRef": "acme/main", "artifactType": "prompt", "name": "a",
        "version": "2.0.0", "source": "Hello\r\nyou\r"});
    desk.api().post("/registries/artifacts", version).ok();
    for file in [&unix, &windows] {
        assert_eq!(publish(file).succeeds()["version"], "2.0.0");
    }
    let other = desk.file("other.md", "Hello\r\nyou both\r\n");
    assert_eq!(publish(&other).succeeds()["version"], "2.0.1");
}

// ── Importing ────────────────────────────────────────────────────────────────

#[test]
fn all_prompts_of_a_provider_are_imported_with_what_did_not_come_along() {
    let desk = Desk::with(&["--allow-private-network", "127.0.0.1"]);
    desk.registry();
    let item =
        |number: usize| json!({"name": format!("p{number}"), "version": "2", "template": "t"});
    let mut items: Vec<_> = (0..120).map(item).collect();
    items[3]["labels"] = json!(["production"]);
    items[4]["format"] = json!("chat");
    items[5]["name"] = json!("no name/at all");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = json!({"items": items}).to_string();
    // It ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    let provider = json!({"name": "There", "kind": "http", "baseUrl": url});
    desk.session().post("/prompt-providers", provider).ok();

    let listed = desk.json(&["prompt", "import", "There"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 120);
    desk.run(&["prompt", "import", "Elsewhere"]).fails(1, "there is: There");
    desk.run(&["prompt", "import", "There", "--into", "main"]).fails(2, "--all");
    let one = desk.json(&["prompt", "import", "There", "p3", "--into", "main"]);
    assert_eq!(one["imported"][0]["version"], "2.0.0");
    assert!(one["imported"][0]["notes"][0].as_str().unwrap().contains("production"), "{one}");

    let all = ["prompt", "import", "There", "--into", "main", "--all", "--json"];
    for note in ["chat", "there already"] {
        let ended = desk.run(&all);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let done: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(done["imported"].as_array().unwrap().len(), 119);
        assert_eq!(done["failed"][0]["name"], "no name/at all");
        assert_eq!(done["imported"][0]["notes"], json!([]));
        assert!(done["imported"][4]["notes"][0].as_str().unwrap().contains(note), "{note}");
    }
}
