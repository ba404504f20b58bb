//! A registry with a prompt that imports promptlets, for reads and promotions.

use serde_json::{Value, json};

use crate::fixture::Fixture;

/// How it is named in the requests of a key.
pub const REGISTRY: &str = "main";

/// The prompt that is read.
pub const PROMPT: &str = "support-answer";

/// The label by which it is read.
pub const LABEL: &str = "production";

/// A registry with the prompt in versions 1.0.0 and 1.1.0; the label is on the first.
pub fn fill(fixture: &Fixture) {
    let registry = json!({"slug": REGISTRY, "name": "Main"});
    fixture.store("registry.create", &[], std::iter::once(registry), 1, drop);
    for version in ["1.0.0", "1.1.0"] {
        fixture.ask(&publish(fixture, "prompt", PROMPT, version, &source(version)));
    }
    fixture.ask(&move_label(fixture, "1.0.0"));
}

/// A prompt as teams write them: a page of text with some variables. About 2 KB.
pub fn source(version: &str) -> String {
    let rule = "Answer in the language of the question, in at most five sentences, and name the \
                page of the manual that you rely on. Where {{PRODUCT}} cannot do what is asked, \
                say so in the first sentence and offer what comes closest.\n";
    format!(
        "You answer questions about {{{{PRODUCT}}}} for {{{{CUSTOMER}}}}. This is {version}.\n{}",
        rule.repeat(8)
    )
}

/// The request that publishes a version.
pub fn publish(fixture: &Fixture, kind: &str, name: &str, version: &str, source: &str) -> Vec<u8> {
    fixture.post("/registries/artifacts", publication(kind, name, version, source))
}

/// What it sends.
pub fn publication(kind: &str, name: &str, version: &str, source: &str) -> Value {
    json!({
        "registryRef": REGISTRY, "artifactType": kind, "name": name, "version": version,
        "source": source,
    })
}

/// The request that moves the label.
pub fn move_label(fixture: &Fixture, version: &str) -> Vec<u8> {
    let to = json!({
        "registryRef": REGISTRY, "promptName": PROMPT, "label": LABEL, "version": version,
    });
    fixture.send("PATCH", "/registries/artifacts/labels", to)
}

/// The request that reads the prompt by its label, with more of the query behind it.
pub fn read_by_label(fixture: &Fixture, more: &str) -> Vec<u8> {
    fixture.get(&format!(
        "/registries/artifact-versions/content?registryRef={REGISTRY}&promptName={PROMPT}\
         &version={LABEL}{more}"
    ))
}
