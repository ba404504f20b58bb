//! The linters of OpenAPI documents that people know have nothing to say of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::optional::{is_left_out, run, say, works};

/// The linters, with their versions.
const WANTED: [&str; 2] = ["@redocly/cli@2.77.0", "@stoplight/spectral-cli@6.16.3"];

/// Redocly's recommended rules, save one: `/agents/deployments/{jobId}` and
/// `/agents/{stableKey}/heartbeat` match the same path. No agent is named `deployments`
/// (reference: conventions, "Texts and names"), and the paths are those of the interface.
const REDOCLY: &str = "extends: [recommended]\nrules: {no-ambiguous-paths: off}\n";

/// Spectral's rules for OpenAPI.
const SPECTRAL: &str = "extends: [\"spectral:oas\"]\n";

/// The folder of the linters, which are installed into `target/` first if need be.
fn linters() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("linters-1");
    let complete = place.join("complete");
    if !complete.exists() {
        say("installing linters of OpenAPI documents for tests (once, half a minute) ...");
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir(&place).unwrap();
        run(Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
            .arg(&place)
            .args(WANTED));
        std::fs::write(complete, "").unwrap();
    }
    place.join("node_modules/.bin")
}

#[test]
fn redocly_and_spectral_find_nothing_in_the_document() {
    let missing = (!works("npm", &["--version"])).then_some("npm is not installed");
    if is_left_out("LINTERS", "Redocly and Spectral", missing) {
        return;
    }
    let linters = linters();
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let printed = run(Command::new(env!("CARGO_BIN_EXE_roadstead")).arg("openapi"));
    let document = file("openapi.json", &printed);

    let said = run(Command::new(linters.join("redocly"))
        .args(["lint", "--format", "json", "--config"])
        .arg(file("redocly.yaml", REDOCLY))
        .arg(&document)
        // It would look for newer versions of itself, and report its use.
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
        .env("REDOCLY_TELEMETRY", "off"));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["problems"], serde_json::json!([]), "{said}");

    // With this option a hint is a failure, too.
    let said = run(Command::new(linters.join("spectral"))
        .args(["lint", "--fail-severity", "hint", "--ruleset"])
        .arg(file("spectral.yaml", SPECTRAL))
        .arg(&document));
    assert!(said.contains("No results"), "{said}");
}
