//! The text of a prompt on its own page, and the programs that it offers to read it with.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::html;
use crate::optional::{is_left_out, works};
use crate::server::Running;
use crate::visitor::Page;

const NOTES: &str = "/o/acme/prompts/main/notes";

/// Moves a label of a prompt or promptlet in `main`.
pub fn label(server: &Running, kind: &str, name: &str, label: &str, version: &str) {
    let body = json!({"registryRef": "main", "artifactType": kind, "promptName": name,
        "label": label, "version": version});
    server.ada().patch("/registries/artifacts/labels", body).ok();
}

#[test]
fn a_prompt_has_the_text_of_production_on_its_page_or_of_another_label() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Lead with news for {{READER}}.");
    server.publish("prompt", "notes", "1.1.0", "Begin with news.");
    let ada = server.signed_in("ada@acme.test");
    ada.get(NOTES).shows("Text of the latest version 1.1.0").shows("Begin with news.");
    label(&server, "prompt", "notes", "production", "1.0.0");
    label(&server, "prompt", "notes", "next", "1.1.0");
    let page = ada.get(NOTES);
    page.shows("Text of production 1.0.0").shows("Lead with news for {{READER}}.");
    page.hides("Begin with news.");
    assert!(page.links().contains(&"/o/acme/variables/READER".to_string()), "{:?}", page.links());
    let chooser = page.form(NOTES);
    assert!(!chooser.is_post);
    let offered = &chooser.choices[0].1;
    assert_eq!(offered, &["production", "next", "1.1.0"].map(String::from));
    let next = ada.get(&format!("{NOTES}?label=next"));
    next.shows("Text of next 1.1.0").shows("Begin with news.").hides("Lead with news");
    next.shows("acme/main/notes@next");
    // A label that was removed since.
    ada.get(&format!("{NOTES}?label=gone")).shows("Text of production 1.0.0");
}

#[test]
fn the_page_of_a_prompt_shows_the_beginning_of_a_long_text() {
    let server = Running::new();
    server.registry();
    let text: String = (0..2000).map(|line| format!("Line {line} of it.\n")).collect();
    server.publish("prompt", "notes", "1.0.0", &text);
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(NOTES);
    page.shows("Line 199 of it.").hides("Line 200 of it.").shows("All of the text");
    ada.get(&format!("{NOTES}/versions/1.0.0")).shows("Line 1999 of it.");
}

/// What the page offers to copy: what sets the environment, then the programs in the order of the page.
fn offered(page: &Page) -> Vec<String> {
    let section = page.text.split("id=\"reading\"").nth(1).unwrap();
    let section = section.split("</section>").next().unwrap();
    let tags = html::tags(section);
    tags.iter().filter_map(|tag| tag.get("data-copy").map(String::from)).collect()
}

/// Runs a script of a shell, after what sets the environment, with the program in the path.
fn run(setup: &str, script: &str) -> Output {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_roadstead"));
    let path = std::env::var("PATH").unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.args(["-euc", &format!("{setup}\n{script}")]);
    command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    // No profile of whoever runs the tests, and no proxy.
    command.env("XDG_CONFIG_HOME", home.path()).env("XDG_STATE_HOME", home.path());
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command.output().unwrap()
}

#[track_caller]
fn printed(output: Output) -> String {
    let (out, err) = (output.stdout, String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{err}");
    String::from_utf8(out).unwrap()
}

/// Runs all programs of a page, each of which must print this text.
fn read_by_all(page: &Page, key: &str, text: &str) {
    let offered = offered(page);
    let [setup, curl, python, typescript, command] = &offered[..] else { panic!("{offered:?}") };
    assert!(setup.contains("rsk_…"), "{setup}");
    let setup = setup.replace("rsk_…", key);
    let answer: Value = serde_json::from_str(&printed(run(&setup, curl))).unwrap();
    assert_eq!(answer["compiled"], text);
    assert_eq!(printed(run(&setup, command)).trim_end(), text);
    for (name, program, flags, source) in [
        ("PYTHON", "python3", &["-c"][..], python),
        ("NODE", "node", &["--input-type=module", "-e"][..], typescript),
    ] {
        let missing = (!works(program, &["--version"])).then_some("it is not installed");
        if is_left_out(name, program, missing) {
            continue;
        }
        let words = flags.iter().copied().chain([source.as_str()]);
        let words = words.map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        let script = format!("{program} {}", words.collect::<Vec<_>>().join(" "));
        assert_eq!(printed(run(&setup, &script)).trim_end(), text, "{program}");
    }
}

#[test]
fn a_prompt_is_read_by_what_its_pages_offer_to_copy() {
    let server = Running::new();
    server.registry();
    server.publish("promptlet", "tone", "1.0.0", "Be \"brief\".");
    server.publish("prompt", "notes", "1.0.0", "{{ import \"tone\" }} For {{READER}}.");
    server.publish("prompt", "notes", "1.1.0", "Begin with news.");
    label(&server, "prompt", "notes", "production", "1.0.0");
    let key = server.ada().post("/api-keys", json!({"name": "Reader"})).ok();
    let key = key["key"].as_str().unwrap();
    let ada = server.signed_in("ada@acme.test");
    let compiled = "Be \"brief\". For {{READER}}.";
    read_by_all(&ada.get(NOTES), key, compiled);
    read_by_all(&ada.get(&format!("{NOTES}/versions/1.1.0")), key, "Begin with news.");
    read_by_all(&ada.get("/o/acme/promptlets/main/tone"), key, "Be \"brief\".");

    // A model may be called anything.
    let model = "it's a \"small\" $HOME `id` model\\";
    let body = json!({"registryRef": "main", "artifactType": "prompt", "name": "notes",
        "version": "1.1.0", "model": model, "source": "For the small one."});
    server.ada().post("/registries/artifacts", body).ok();
    let query =
        form_urlencoded::Serializer::new(String::new()).append_pair("model", model).finish();
    let page = ada.get(&format!("{NOTES}/versions/1.1.0?{query}"));
    read_by_all(&page, key, "For the small one.");
}
