//! The official SDKs in Python and TypeScript, of both eras, and the Inspector's command line.
//!
//! The first run installs them into `target/`, which takes a minute and 300 MB; later ones take what
//! is there. `ROADSTEAD_TEST_MCP=off` leaves these tests out, as does a machine without Python 3, or
//! without a network the first time; each is said aloud.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use roadstead::mcp::tools;
use serde_json::{Value, json};

use crate::fixture::key_of;
use crate::node::{self, Modules, Node};
use crate::optional::{Installed, installed, run};
use crate::python::{self, Packages};
use crate::registries::{publish, registry};
use crate::teams::Crew;

use super::content::label;

static PYTHON: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "mcp-python-1",
        what: "the Python package mcp (once, 70 MB)",
        wanted: &["mcp"],
        constraints: "tests/api/mcp/client.txt",
    })
});

static PYTHON_V1: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "mcp-python-v1-1",
        what: "the Python package mcp of the older revisions (once, 70 MB)",
        wanted: &["mcp"],
        constraints: "tests/api/mcp/client_v1.txt",
    })
});

static NODE: LazyLock<Installed<Node>> = LazyLock::new(|| {
    node::modules(&Modules {
        folder: "mcp-node-1",
        what: "the MCP packages of npm (once, 180 MB)",
        wanted: &[
            "@modelcontextprotocol/client@2.4.0",
            "@modelcontextprotocol/sdk@1.32.2",
            "@modelcontextprotocol/inspector@1.0.3",
        ],
        day: "2026-11-22",
    })
});

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
fn succeeds(program: &Path, args: &[&str], given: &Value) {
    let said = run(Command::new(program).args(args).env("GIVEN", given.to_string()));
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn agents_work_by_the_python_sdk_of_both_eras() {
    let what = "the Python package mcp";
    let (Some(newest), Some(v1)) =
        (installed("MCP", what, &PYTHON), installed("MCP", what, &PYTHON_V1))
    else {
        return;
    };
    for mode in ["auto", "legacy"] {
        let program = include_str!("client.py");
        succeeds(&newest.join("bin/python"), &["-c", program, mode], &given());
    }
    let program = include_str!("client_v1.py");
    succeeds(&v1.join("bin/python"), &["-c", program], &given());
}

#[test]
fn agents_work_by_the_typescript_sdks_of_both_eras() {
    let Some(node) = installed("MCP", "the TypeScript SDK of MCP", &NODE) else { return };
    // Modules are looked for beside the program.
    let program = node.place.join("client.mjs");
    std::fs::write(&program, include_str!("client.mjs")).unwrap();
    for mode in ["v2", "v2-legacy", "v1"] {
        succeeds(&node.program, &[program.to_str().unwrap(), mode], &given());
    }
}

#[test]
fn the_inspector_lists_and_calls_tools() {
    let Some(node) = installed("MCP", "the Inspector of MCP", &NODE) else { return };
    let given = given();
    let text = |name: &str| given[name].as_str().unwrap().to_string();
    let inspect = |args: &[&str]| {
        let said = run(node
            .file("@modelcontextprotocol/inspector/cli/build/cli.js")
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
