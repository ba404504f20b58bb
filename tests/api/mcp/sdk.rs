//! The official SDKs in Python and TypeScript, of both eras, and the Inspector's command line.
//!
//! The first run installs them into `target/`, which takes a minute and 300 MB; later ones take what
//! is there. `ROADSTEAD_TEST_MCP=off` leaves these tests out, as does a machine without Python 3 or
//! Node; both are said aloud.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use roadstead::mcp::tools;
use serde_json::{Value, json};

use crate::fixture::key_of;
use crate::optional::{is_left_out, run, say, works};
use crate::python::{self, Packages};
use crate::registries::{publish, registry};
use crate::teams::Crew;

use super::content::label;

static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "mcp-python-1",
        what: "the Python package mcp (once, 70 MB)",
        wanted: &["mcp"],
        constraints: "tests/api/mcp/client.txt",
    })
});

static PYTHON_V1: LazyLock<PathBuf> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "mcp-python-v1-1",
        what: "the Python package mcp of the older revisions (once, 70 MB)",
        wanted: &["mcp"],
        constraints: "tests/api/mcp/client_v1.txt",
    })
});

/// The packages of npm. What they need is what there was on the day, so that what is tried does not
/// depend on another.
const PACKAGES: [&str; 3] = [
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/sdk@1.32.2",
    // The newest that runs with Node 20.
    "@modelcontextprotocol/inspector@1.0.3",
];
const DAY: &str = "2026-11-22";

static NODE: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-node-1");
    let complete = place.join("complete");
    if !complete.exists() {
        say("installing the MCP packages of npm (once, 180 MB) ...");
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("package.json"), "{}").unwrap();
        run(Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"])
            .arg(format!("--before={DAY}"))
            .args(PACKAGES)
            .current_dir(&place));
        std::fs::write(complete, "").unwrap();
    }
    place
});

/// Why the packages of npm cannot be installed here.
fn node_missing() -> Option<&'static str> {
    let version = "process.exit(Number(process.versions.node.split('.')[0]) >= 20 ? 0 : 1)";
    if !works("node", &["-e", version]) {
        Some("there is no Node 20 or later")
    } else if !works("npm", &["--version"]) {
        Some("there is no npm")
    } else {
        None
    }
}

/// A team with an agent, and a prompt: what the programs find, and an API key.
fn given() -> Value {
    let crew = Crew::new();
    let acme = &crew.acme;
    registry(acme, "main", json!({}));
    publish(acme, ["main", "prompt", "scribe", "1.0.0"], "Write to {{WHO}}.");
    label(acme, "production", "1.0.0");
    let agent = crew.hire("ann");
    json!({
        "url": format!("http://{}/api/mcp", acme.address), "key": key_of(&acme.owner).credential(),
        "org": acme.slug, "team": crew.team, "agent": agent, "tools": tools().len(),
    })
}

/// Runs a program, which must come to its end.
fn succeeds(program: PathBuf, args: &[&str], given: &Value) {
    let said = run(Command::new(program).args(args).env("GIVEN", given.to_string()));
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn agents_work_by_the_python_sdk_of_both_eras() {
    if is_left_out("MCP", "the Python package mcp", python::missing()) {
        return;
    }
    for mode in ["auto", "legacy"] {
        let program = include_str!("client.py");
        succeeds(PYTHON.join("bin/python"), &["-c", program, mode], &given());
    }
    let program = include_str!("client_v1.py");
    succeeds(PYTHON_V1.join("bin/python"), &["-c", program], &given());
}

#[test]
fn agents_work_by_the_typescript_sdks_of_both_eras() {
    if is_left_out("MCP", "the TypeScript SDK of MCP", node_missing()) {
        return;
    }
    // Modules are looked for beside the program.
    let program = NODE.join("client.mjs");
    std::fs::write(&program, include_str!("client.mjs")).unwrap();
    for mode in ["v2", "v2-legacy", "v1"] {
        succeeds("node".into(), &[program.to_str().unwrap(), mode], &given());
    }
}

#[test]
fn the_inspector_lists_and_calls_tools() {
    if is_left_out("MCP", "the Inspector of MCP", node_missing()) {
        return;
    }
    let given = given();
    let text = |name: &str| given[name].as_str().unwrap().to_string();
    let inspect = |args: &[&str]| {
        let program = "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js";
        let said = run(Command::new("node")
            .arg(NODE.join(program))
            .args(["--cli", &text("url"), "--transport", "http", "--header"])
            .arg(format!("Authorization: Bearer {}", text("key")))
            .args(args));
        // A notice of its own may come first.
        serde_json::from_str::<Value>(&said[said.find('{').unwrap()..]).unwrap()
    };
    let list = inspect(&["--method", "tools/list"]);
    assert_eq!(list["tools"].as_array().unwrap().len(), tools().len());
    let team = format!("teamId={}", text("team"));
    let arguments = ["--tool-arg", &team, "--tool-arg", "title=Write"];
    let call = [&["--method", "tools/call", "--tool-name", "task_create"], &arguments[..]].concat();
    assert_eq!(inspect(&call)["structuredContent"]["title"], "Write");
    let resources = inspect(&["--method", "resources/list"]);
    assert_eq!(resources["resources"][0]["name"], "scribe@production");
    let prompt = ["--method", "prompts/get", "--prompt-name", "main.scribe", "--prompt-args"];
    let prompt = inspect(&[&prompt[..], &["WHO=Ada"]].concat());
    assert_eq!(prompt["messages"][0]["content"]["text"], "Write to Ada.");
}
