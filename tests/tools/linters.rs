//! The linters of OpenAPI documents that people know have nothing to say of ours.

use std::process::Command;
use std::sync::LazyLock;

use crate::node::{self, Modules, Node};
use crate::optional::{Installed, installed, run};

static NODE: LazyLock<Installed<Node>> = LazyLock::new(|| {
    node::modules(&Modules {
        folder: "linters-2",
        what: "linters of OpenAPI documents for tests (once, half a minute)",
        wanted: &["@redocly/cli@2.77.0", "@stoplight/spectral-cli@6.16.3"],
        day: "2026-11-22",
    })
});

/// Redocly's recommended rules, save one: `/agents/deployments/{jobId}` and
/// `/agents/{stableKey}/heartbeat` match the same path. No agent is named `deployments`
/// (reference: conventions, "Texts and names"), and the paths are those of the interface.
const REDOCLY: &str = "extends: [recommended]\nrules: {no-ambiguous-paths: off}\n";

/// Spectral's rules for OpenAPI.
const SPECTRAL: &str = "extends: [\"spectral:oas\"]\n";

#[test]
fn redocly_and_spectral_find_nothing_in_the_document() {
    let Some(node) = installed("LINTERS", "Redocly and Spectral", &NODE) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let printed = run(Command::new(env!("CARGO_BIN_EXE_roadstead")).arg("openapi"));
    let document = file("openapi.json", &printed);

    let said = run(node
        .bin("redocly")
        .args(["lint", "--format", "json", "--config"])
        .arg(file("redocly.yaml", REDOCLY))
        .arg(&document)
        // It would look for newer versions of itself, and report its use.
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
        .env("REDOCLY_TELEMETRY", "off"));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["problems"], serde_json::json!([]), "{said}");

    // With this option a hint is a failure, too.
    let said = run(node
        .bin("spectral")
        .args(["lint", "--fail-severity", "hint", "--ruleset"])
        .arg(file("spectral.yaml", SPECTRAL))
        .arg(&document));
    assert!(said.contains("No results"), "{said}");
}
