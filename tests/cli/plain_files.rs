//! `pull`, `plan`, `apply`: an organization as plain files (reference: plain-files).

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{eventually, within};
use crate::desk::Desk;
use crate::process::{Ended, PASSWORD, Serving, run};

/// A server at which the owner is signed in.
pub fn desk() -> Desk {
    let desk = Desk::new();
    let url = desk.url();
    let login = ["login", "--url", &url, "--email", "ada@acme.test", "--password-stdin"];
    assert_eq!(run(desk.bare(&login), Some(PASSWORD)).code, Some(0));
    desk
}

/// Runs a command in the session of the profile.
pub fn in_session(desk: &Desk, args: &[&str]) -> Ended {
    run(desk.bare(args), None)
}

/// The result of a successful command in that session.
#[track_caller]
pub fn json_of(desk: &Desk, args: &[&str]) -> Value {
    in_session(desk, &[args, &["--json"]].concat()).succeeds()
}

/// Something of each kind.
pub fn fill(desk: &Desk) {
    let api = desk.session();
    desk.registry();
    for (name, kind, version, model, source) in [
        ("voice", "promptlet", "1.0.0", "generic", "Write plainly.\n\n+++\nEnd\n"),
        ("voice", "promptlet", "2.0.0", "generic", "Write well."),
        ("scribe", "prompt", "1.0.0", "generic", "{{ import \"voice@1.0.0\" }} Old."),
        ("scribe", "prompt", "1.1.0", "generic", "{{ import \"voice@^2\" }} For {{PRODUCT}}."),
        ("scribe", "prompt", "1.1.0", "claude/sonnet", "\u{1f6a2} {{PRODUCT}}"),
        ("unlabelled", "prompt", "0.1.0", "generic", "Gone from files."),
        ("unlabelled", "prompt", "0.2.0", "generic", "Newest."),
    ] {
        let metadata = json!({"owner": "ada", "nothing": null, "n": 1.5});
        let version = json!({"registryRef": "acme/main", "artifactType": kind, "name": name,
            "version": version, "model": model, "source": source, "metadata": metadata,
            "message": format!("About {version}:\n+++\n\"more\"")});
        api.post("/registries/artifacts", version).ok();
    }
    for (label, version) in [("production", "1.0.0"), ("beta", "1.1.0"), ("next", "1.1.0")] {
        let label = json!({"registryRef": "acme/main", "promptName": "scribe", "label": label,
            "version": version});
        api.patch("/registries/artifacts/labels", label).ok();
    }
    let input = json!({"registryRef": "acme/main", "name": "first", "variables": {"PRODUCT": "A\n\"b\""},
        "message": "Hi.", "expect": {"contains": ["A, b"], "judge": "Is it kind?"}});
    api.post("/prompts/scribe/inputs", input).ok();
    api.post("/prompts/scribe/inputs", json!({"registryRef": "acme/main", "name": "plain"})).ok();
    let rules = json!([{"type": "forbidPattern", "value": "(?i)TODO\\d"},
        {"type": "maxLength", "value": 5000}]);
    let policy = json!({"name": "House rules!", "severity": "error", "rules": rules});
    let policy = api.post("/governance/policies", policy).id();
    let assign = format!("/governance/policies/{policy}/assignments");
    api.post(&assign, json!({"registryRef": "acme/main"})).ok();
    let config = json!({"url": "https://x.test", "deep": [{"a": [1, null]}], "key": "${TOKEN}"});
    let tool = json!({"name": "Search", "type": "http", "version": "2.0.0", "prompt": "Two\nlines",
        "providerConfig": config});
    let tool = api.post("/tools", tool).id();
    api.post("/tools", json!({"name": "search", "type": "mcp"})).ok();
    let ada = api.get("/auth/session").ok()["user"]["id"].clone();
    let environment = json!({"slug": "production", "name": "Production", "description": "Live",
        "approvals": {"approverIds": [ada]}});
    let environment = api.post("/environments", environment).id();
    for (name, value) in [("PRODUCT", "Harbour"), ("TEXT", "a\n\"b\"\n")] {
        let path = format!("/environments/{environment}/variables/{name}");
        api.put(&path, json!({"value": value})).ok();
    }
    let path = format!("/environments/{environment}/secrets/TOKEN");
    api.put(&path, json!({"value": "s3cret-value"})).ok();
    let fleet = api.post("/fleets", json!({"name": "Writers"})).id();
    let draft = json!({"registryRef": "acme/main", "promptName": "scribe", "promptVersion": "beta",
        "toolRefs": [{"toolId": tool}], "variables": {"TEAM": "Shipping"},
        "providerConfig": {"temperature": 0.5}});
    let agent = json!({"stableKey": "scribe", "name": "Scribe", "fleetId": fleet, "draft": draft});
    api.post("/agents", agent).ok();
    let hook = json!({"name": "Hook", "workflow": "webhook", "config": {"url": "https://h.test/"}});
    let hook = api.post("/notifications/channels", hook).id();
    let event = json!({"channelId": hook, "eventType": "deployment.complete"});
    api.post("/notifications/subscriptions", event).ok();
    let listing = json!({"stableKey": "scribe", "handle": "scribe@acme.test",
        "pubkey": "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
        "displayName": "Scribe", "skills": ["notes"]});
    api.post("/agent-index/listings", listing).ok();
}

/// The files below a directory.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn what_is_pulled_and_applied_elsewhere_is_pulled_there_byte_for_byte() {
    let here = desk();
    fill(&here);
    let pulled = json_of(&here, &["pull", "org"]);
    assert_eq!(pulled["leftOut"].as_array().unwrap().len(), 1, "{pulled}");
    let first = files(&here.path("org"));
    let text: String = first.values().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    assert!(!text.contains("s3cret-value") && !text.contains("Gone from files"));
    assert!(first.contains_key("registries/main/prompts/scribe@1.0.0.md"), "{:?}", first.keys());
    let versions = here.api().walk("/registries/artifact-versions?registryRef=main&all=true", 3);
    assert_eq!(versions.len(), 7);
    let listed = "/registries/artifact-versions?registryRef=main";
    here.api().get(listed).invalid(&["promptName"]);
    here.api().get(&format!("{listed}&all=true&version=1.0.0")).invalid(&["version"]);
    here.api().get(&format!("{listed}&all=true&promptName=scribe")).invalid(&["all"]);
    let nothing = json_of(&here, &["plan", "org"]);
    assert_eq!(nothing["steps"], json!([]), "{nothing}");

    let there = desk();
    let dir = here.path("org");
    let dir = dir.to_str().unwrap();
    let plan = json_of(&there, &["plan", dir]);
    assert!(plan["steps"].as_array().unwrap().len() > 20, "{plan}");
    let hash = plan["plan"].as_str().unwrap();
    json_of(&there, &["apply", dir, "--plan", hash]);
    json_of(&there, &["pull", "again"]);
    let second = files(&there.path("again"));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (path, bytes) in &first {
        let text = String::from_utf8_lossy;
        assert_eq!(text(bytes), text(&second[path]), "{path}");
    }
    assert_eq!(json_of(&there, &["plan", dir, "--check"])["steps"], json!([]));
    assert_eq!(json_of(&there, &["pull", "again"])["written"], 0);
}

#[test]
fn a_message_is_pulled_published_and_warned_of_where_it_is_not_so() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let prompt = "org/registries/main/prompts/unlabelled.md";
    let text = fs::read_to_string(desk.path(prompt)).unwrap();
    assert!(text.contains("messageJson = "), "{text}");
    let front = text.lines().filter(|line| !line.starts_with("messageJson"));
    let front = front.collect::<Vec<_>>().join("\n") + "\n";
    let with = |version: &str, message: &str| {
        let version = format!("version = \"{version}\"\nmessage = \"{message}\"");
        desk.file(prompt, front.replace("version = \"0.2.0\"", &version));
    };
    with("0.3.0", "Shorter.");
    let applied = json_of(&desk, &["apply", "org"]);
    assert_eq!(applied["steps"], json!(["+ prompt main/unlabelled@0.3.0"]));
    let newest = "/registries/artifact-versions?registryRef=main&promptName=unlabelled&limit=1";
    assert_eq!(desk.api().get(newest).items()[0]["message"], "Shorter.");
    let warnings = json_of(&desk, &["plan", "org"])["warnings"].to_string();
    assert!(!warnings.contains("message"), "{warnings}");
    let warned = |why: &str| {
        let warnings = json_of(&desk, &["plan", "org"])["warnings"].to_string();
        assert!(warnings.contains(why), "{warnings}");
    };
    with("0.4.0", "Shorter.");
    warned("prompt main/unlabelled@0.4.0: its message is still that of 0.3.0");
    with("0.3.0", "Longer.");
    warned("prompt main/unlabelled@0.3.0: it is published with another message");
    json_of(&desk, &["pull", "org", "--force"]);
    let text = fs::read_to_string(desk.path(prompt)).unwrap();
    assert!(text.contains("message = \"Shorter.\""), "{text}");
}

#[test]
fn drift_is_planned_and_only_that_plan_is_applied() {
    let desk = desk();
    fill(&desk);
    json_of(&desk, &["pull", "org"]);
    let api = desk.session();
    api.patch("/agents/scribe", json!({"name": "Other"})).ok();
    api.post("/environments", json!({"slug": "staging", "name": "Staging"})).ok();
    assert_eq!(in_session(&desk, &["plan", "org", "--check"]).code, Some(1));
    let plan = json_of(&desk, &["plan", "org"]);
    assert_eq!(plan["steps"], json!(["~ agent scribe: name"]));
    assert_eq!(plan["onlyOnServer"], json!(["environment staging"]));
    let hash = plan["plan"].as_str().unwrap();

    api.patch("/agents/scribe", json!({"description": "changed meanwhile"})).ok();
    let refused = in_session(&desk, &["apply", "org", "--plan", hash]);
    refused.fails(1, "the plan is another one now");
    assert_eq!(api.get("/agents/scribe").ok()["name"], "Other");

    let pruned = json_of(&desk, &["apply", "org", "--prune"]);
    let expected = json!(["~ agent scribe: name, description", "- environment staging"]);
    assert_eq!(pruned["steps"], expected);
    assert_eq!(api.get("/agents/scribe").ok()["description"], json!(null));
    assert_eq!(api.get("/environments").items().len(), 1);

    let prompt = "org/registries/main/prompts/unlabelled.md";
    let text = fs::read_to_string(desk.path(prompt)).unwrap();
    desk.file(prompt, text.replace("Newest.", "Edited."));
    in_session(&desk, &["plan", "org"]).fails(2, "raise its version");
    desk.file(prompt, text.replace("Newest.", "Edited.").replace("0.2.0", "0.3.0"));
    let plan = json_of(&desk, &["plan", "org"]);
    assert_eq!(plan["steps"], json!(["+ prompt main/unlabelled@0.3.0"]));
    fs::remove_file(desk.path(prompt)).unwrap();
    let plan = json_of(&desk, &["apply", "org", "--prune"]);
    let gone = ["- prompt main/unlabelled@0.2.0", "- prompt main/unlabelled@0.1.0"];
    assert_eq!(plan["steps"], json!(gone));
    assert_eq!(json_of(&desk, &["plan", "org", "--prune"])["steps"], json!([]));
}

#[test]
fn hostile_files_are_refused_before_anything_is_sent() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let registry = "registries/main/registry.toml";
    let import =
        |name: &str| format!("+++\nversion = \"1.0.0\"\n+++\n{{{{ import \"{name}\" }}}}\n");
    type Make<'a> = &'a dyn Fn(&Path);
    let cases: [(Make, &str); 9] = [
        (&|dir| symlink("/etc/passwd", dir.join("tools.toml")).unwrap(), "is a link"),
        (&|dir| symlink("/etc", dir.join("tools")).unwrap(), "is a link"),
        (&|dir| symlink(dir, dir.join("agents")).unwrap(), "is a link"),
        (
            &|dir| {
                let large = fs::File::create(dir.join("large.toml")).unwrap();
                large.set_len(1 << 30).unwrap();
            },
            "is longer than",
        ),
        // It would never end.
        (
            &|dir| {
                let pipe = Command::new("mkfifo").arg(dir.join("pipe.toml")).status();
                assert!(pipe.unwrap().success());
            },
            "is neither a file nor a folder",
        ),
        (
            &|dir| fs::write(dir.join("x.toml"), b"a = \"\xff\"").unwrap(),
            "x.toml:1:6: is not UTF-8",
        ),
        (
            &|dir| {
                let folder = dir.join("registries/main/promptlets");
                fs::create_dir_all(&folder).unwrap();
                fs::write(dir.join(registry), "name = \"Main\"\n").unwrap();
                fs::write(folder.join("a.md"), import("b")).unwrap();
                fs::write(folder.join("b.md"), import("a")).unwrap();
            },
            "import each other",
        ),
        (
            &|dir| {
                fs::create_dir_all(dir.join("agents")).unwrap();
                fs::write(dir.join("agents/a.toml"), "stableKey = \"a\"\nnmae = \"A\"\n").unwrap();
            },
            "nmae is none of the fields",
        ),
        (&|dir| fs::remove_file(dir.join("roadstead.toml")).unwrap(), "roadstead pull"),
    ];
    for (make, why) in cases {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("roadstead.toml"), "format = 1\n").unwrap();
        make(dir.path());
        for command in ["plan", "apply"] {
            let mut command = desk.bare(&[command, dir.path().to_str().unwrap(), "--org", "acme"]);
            command.env("ROADSTEAD_URL", &url).env("ROADSTEAD_API_KEY", &desk.key);
            run(command, None).fails(2, why);
        }
        assert!(listener.accept().is_err(), "something was sent: {why}");
    }
}

#[test]
fn what_the_server_would_refuse_is_found_before_the_first_step() {
    let desk = desk();
    let cases: &[(&str, &str, &str)] = &[
        (
            "environments/e.toml",
            "slug = \"e\"\nname = \"E\"\n[variables]\n\"A-B\" = \"x\"\n",
            "A-B",
        ),
        ("environments/e.toml", "slug = \"e\"\nname = \"E\"\napprovalTimeoutHours = 0\n", "Hours"),
        ("environments/e.toml", "slug = \"e\"\nname = \"\"\n", "environment e: name"),
        ("tools/t.toml", "name = \"t\"\ntype = \"http\"\nversion = \"1\"\n", "tool t"),
        ("agents/a.toml", "stableKey = \"a\"\nname = \"A\"\nmodel = \"\"\n", "draft.model"),
        (
            "agents/a.toml",
            "stableKey = \"a\"\nname = \"A\"\n[[tools]]\ntool = \"no\"\nversion = \"1.0.0\"\n",
            "no tool \"no\"",
        ),
        (
            "channels/c.toml",
            "name = \"c\"\nworkflow = \"webhook\"\n[config]\nurl = \"no url\"\n",
            "config.url",
        ),
        (
            "channels/c.toml",
            "name = \"c\"\nworkflow = \"email\"\n[config]\nto = [\"a@ex..com\"]\n",
            "config.to[0]",
        ),
        (
            "channels/c.toml",
            "name = \"c\"\nworkflow = \"webhook\"\nevents = [\"nope.event\"]\n[config]\nurl = \"https://a.test\"\n",
            "nope.event",
        ),
        (
            "policies/p.toml",
            "name = \"p\"\nseverity = \"warning\"\n[[rules]]\ntype = \"maxLength\"\nvlue = 3\n",
            "rules",
        ),
        (
            "registries/main/prompts/p.md",
            "+++\nversion = \"1.0.0\"\n+++\n{{user-name}}\n",
            "registries/main/prompts/p.md:4:1: ",
        ),
        (
            "registries/main/prompts/p.md",
            "+++\nversion = \"1.0.0\"\n+++\n{{ import \"no@^2\" }}\n",
            "no version of promptlet main/no",
        ),
    ];
    for (path, content, why) in cases {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("roadstead.toml"), "format = 1\n").unwrap();
        // A step before it that could be done.
        let registry = dir.path().join("registries/main");
        fs::create_dir_all(registry.join("prompts")).unwrap();
        fs::write(registry.join("registry.toml"), "name = \"Main\"\n").unwrap();
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        for command in ["plan", "apply"] {
            in_session(&desk, &[command, dir.path().to_str().unwrap()]).fails(2, why);
        }
        assert_eq!(desk.api().get("/registries").items().len(), 0, "{why}");
    }
}

#[test]
fn a_registry_takes_a_session_which_plan_says_and_a_strange_text_is_warned_of() {
    let desk = desk();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    fs::write(dir.path().join("roadstead.toml"), "format = 1\n").unwrap();
    let registry = dir.path().join("registries/main");
    fs::create_dir_all(registry.join("prompts")).unwrap();
    fs::write(registry.join("registry.toml"), "name = \"Main\"\n").unwrap();
    let text = "+++\nversion = \"1.0.0\"\n+++\nOpen C:\\Users\\{{USER}} {% if a %}\n";
    fs::write(registry.join("prompts/p.md"), text).unwrap();
    let planned = desk.run(&["plan", path]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    assert!(planned.stderr.contains("registry main: it takes a session"), "{planned:?}");
    desk.run(&["apply", path]).fails(2, "registry main: it takes a session");
    for command in ["plan", "apply"] {
        let done = in_session(&desk, &[command, path]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(
            done.stderr
                .contains("warning: registries/main/prompts/p.md:4:14: \\{{USER}} is the text"),
            "{done:?}"
        );
    }
}

#[test]
fn a_pull_writes_nothing_through_a_link() {
    let desk = desk();
    fill(&desk);
    let outside = tempfile::tempdir().unwrap();
    desk.file("org/roadstead.toml", "format = 1\n");
    symlink(outside.path(), desk.path("org/agents")).unwrap();
    in_session(&desk, &["pull", "org"]).fails(2, "agents: is a link");
    assert_eq!(files(outside.path()).len(), 0);
    assert_eq!(fs::read_dir(desk.path("org")).unwrap().count(), 2);
}

#[test]
fn an_apply_whose_server_died_goes_on_with_the_same_plan() {
    let mut desk = desk();
    desk.file("org/roadstead.toml", "format = 1\n");
    desk.file("org/registries/main/registry.toml", "name = \"Main\"\n");
    for at in 0..300 {
        let text = format!("+++\nversion = \"1.0.0\"\nlabels = [\"live\"]\n+++\nText {at}\n");
        desk.file(&format!("org/registries/main/prompts/p{at}.md"), text);
    }
    let hash = json_of(&desk, &["plan", "org"])["plan"].as_str().unwrap().to_string();
    let begun = desk.bare(&["apply", "org", "--plan", &hash]);
    let port = desk.serving.address.port();
    let ended = std::thread::scope(|scope| {
        let begun = scope.spawn(|| run(begun, None));
        eventually("some of it", || {
            let list = desk.api().get("/registries/artifacts?registryRef=main&limit=200");
            (list.status == 200 && list.items().len() > 20).then_some(())
        });
        desk.serving.signal("KILL");
        begun.join().unwrap()
    });
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("goes on from here"), "{ended:?}");
    desk.serving.ends();
    let listen = format!("127.0.0.1:{port}");
    desk.serving = Serving::of(desk.place.command(&["serve", "--listen", &listen, "--json"]));
    within(std::time::Duration::from_secs(20), "its end", || {
        let again = in_session(&desk, &["apply", "org", "--plan", &hash]);
        (again.code == Some(0)).then_some(())
    });
    assert_eq!(json_of(&desk, &["plan", "org"])["steps"], json!([]));
    // It is done: the same plan is another one now.
    in_session(&desk, &["apply", "org", "--plan", &hash]).fails(1, "another one now");
}
