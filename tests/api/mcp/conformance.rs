//! The conformance suite of the protocol's project (`@modelcontextprotocol/conformance`). What fails is
//! in `conformance.yaml`, by name and with its reason; a scenario that fails and is not there, or is
//! there and passes, fails the test.
//!
//! The suite calls tools, prompts and resources of its own names, and sends no key. A program between
//! it and the server turns those names into ones of the test's organization, and adds the key.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::json;

use crate::fixture::{Fixture, key_of};
use crate::node::{self, Modules, Node};
use crate::optional::{Installed, installed, run};
use crate::registries::{publish, registry};

static SUITE: LazyLock<Installed<Node>> = LazyLock::new(|| {
    node::modules(&Modules {
        folder: "mcp-conformance-1",
        what: "the conformance suite of MCP (once, 50 MB)",
        wanted: &["@modelcontextprotocol/conformance@0.1.16"],
        day: "2026-11-22",
    })
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
    let Some(node) = installed("MCP", "the conformance suite of MCP", &SUITE) else { return };
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
    let mut between = Command::new(&node.program)
        .arg(folder.join("conformance.mjs"))
        .env("GIVEN", given.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(between.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let _between = Between(between);
    let suite = || node.file("@modelcontextprotocol/conformance/dist/index.js");
    // One that is misspelt would be expected to fail for ever.
    let known = run(suite().args(["list", "--server"]));
    let known: Vec<&str> = known
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- ")?.split(' ').next())
        .collect();
    let expected = include_str!("conformance.yaml").lines();
    for name in expected.filter_map(|line| line.trim().strip_prefix("- ")) {
        assert!(known.contains(&name), "there is no scenario {name}");
    }
    let said = run(suite()
        .args(["server", "--suite", "all", "--url"])
        .arg(format!("http://localhost:{}/api/mcp", port.trim()))
        .arg("--expected-failures")
        .arg(folder.join("conformance.yaml")));
    assert!(said.contains("Baseline check passed"), "{said}");
}
