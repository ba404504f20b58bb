//! The commands of the README and of the tour work, pasted from top to bottom.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Caller;
use crate::optional::{is_left_out, run, works};
use crate::process::{Place, Serving};
use crate::receiver::{Receiver, Sent, json_response};
use crate::server::free_port;

/// The shell commands of a document below a heading, up to another one or to its end.
fn commands(document: &str, from: &str, to: Option<&str>) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let document = fs::read_to_string(document).unwrap();
    let (_, rest) = document.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    let part = match to {
        Some(to) => rest.split_once(to).unwrap_or_else(|| panic!("no {to} after {from}")).0,
        None => rest,
    };
    let blocks = part.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect()
}

/// Whether the test of such commands is left out, which is said aloud.
fn are_left_out(what: &str) -> bool {
    let missing = [("curl", "--version"), ("jq", "--version"), ("bash", "--version")]
        .into_iter()
        .find(|(program, argument)| !works(program, &[argument]))
        .map(|(program, _)| format!("{program} is not installed"));
    is_left_out("DOCUMENTS", what, missing.as_deref())
}

/// Bash in an empty directory, in whose `PATH` the program is.
fn bash(script: &str, place: &Path) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_roadstead"));
    let path = std::env::var("PATH").unwrap();
    let mut bash = Command::new("bash");
    bash.arg("-c")
        .arg(script)
        .current_dir(place)
        .env("TMPDIR", place)
        .env("HOME", place)
        .env_remove("XDG_CONFIG_HOME")
        .env("PATH", format!("{}:{path}", binary.parent().unwrap().display()));
    bash
}

/// Answers as Ollama does at its address for clients of OpenAI.
fn model(request: &Sent) -> String {
    if !request.head.starts_with("post /v1/chat/completions ") {
        return json_response(404, &json!({}));
    }
    let message = json!({"role": "assistant", "content": "ok"});
    json_response(200, &json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
}

/// Answers as MLflow does that has two versions of one prompt.
fn prompt_registry(request: &Sent) -> String {
    let version = |version: &str, text: &str| {
        let tag = |key: &str, value: &str| json!({"key": key, "value": value});
        let tags = [tag("mlflow.prompt.is_prompt", "true"), tag("mlflow.prompt.text", text)];
        json!({"version": version, "tags": tags})
    };
    let (first, second) = (version("1", "Hello {{name}}."), version("2", "Good day {{name}}."));
    let target = request.head.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let body = match path.strip_prefix("/api/2.0/mlflow/") {
        Some("registered-models/search") => json!({"registered_models": [{"name": "greeting"}]}),
        Some("registered-models/get") => json!({"registered_model": {"name": "greeting"}}),
        Some("model-versions/search") => json!({"model_versions": [second]}),
        Some("model-versions/get") if query.contains("version=1") => {
            json!({"model_version": first})
        }
        _ => return json_response(404, &json!({})),
    };
    json_response(200, &body)
}

#[test]
fn the_tour_can_be_pasted() {
    if are_left_out("the tour's commands") {
        return;
    }
    const TOUR: &str = "docs/tour.md";
    let tour = commands(TOUR, "# A tour in five minutes\n", Some("\n## More about prompts\n"));
    let again = commands(TOUR, "\n## More about prompts\n", None);
    let (ollama, mlflow) = (Receiver::responding(model), Receiver::responding(prompt_registry));
    let port = free_port().to_string();
    let mut script = format!("set -e -o pipefail\n{tour}\n{again}\nkill $server; wait $server")
        // It is built already.
        .replace("cargo build --release\n", "")
        .replace("export PATH=$PWD/target/release:$PATH\n", "")
        .replace("7420", &port);
    for (address, receiver) in [("127.0.0.1:11434", &ollama), ("127.0.0.1:5000", &mlflow)] {
        assert!(script.contains(address), "{address}");
        let url = receiver.url.strip_prefix("http://").and_then(|url| url.strip_suffix("/hook"));
        script = script.replace(address, url.unwrap());
    }
    let place = tempfile::tempdir().unwrap();
    let said =
        run(bash(&script, place.path()).env("ROADSTEAD_LISTEN", format!("127.0.0.1:{port}")));
    // The one that shows what an error looks like, and the text that breaks a policy.
    let refused: Vec<_> = said.lines().filter(|line| line.contains(r#""requestId":"#)).collect();
    let [_, by_policy] = &refused[..] else { panic!("{refused:#?}") };
    assert_eq!(by_policy.matches(r#"(policy \"House rules\")"#).count(), 2, "{by_policy}");
    assert!(said.contains(r#""message":"the model qwen3 answered"}"#), "{said}");
    let answers: Vec<Value> =
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_listed = |answer: &Value| answer["items"][0]["template"] == "Good day {{name}}.";
    assert!(answers.iter().any(is_listed), "{said}");
    let imported = json!({
        "imported": [
            {"name": "greeting", "artifactName": "greeting", "version": "2.0.0", "notes": []},
            {"name": "greeting", "artifactName": "greeting-first", "version": "1.0.0",
                "notes": []},
        ],
        "failed": [],
    });
    assert!(answers.contains(&imported), "{said}");
    for text in ["release notes for Harbour.", "release notes."] {
        let live =
            format!(r#""compiled":"Write plainly. You speak for Shipping. You write {text}""#);
        let is_live = |line: &&str| line.contains(&live) && line.contains(r#""live":true"#);
        assert_eq!(said.lines().filter(is_live).count(), 1, "{live}: {said}");
    }
    assert!(said.contains("sound: ") && said.contains(", 0 wrong"), "{said}");
    let compiled = r#"You write \"release notes\" for {{PRODUCT}}, in {{LANGUAGE}}.\nDon't guess"#;
    assert!(said.contains(compiled), "{said}");
    let is_by_jq =
        |line: &str| line.contains(r#""name":"release-notes""#) && line.contains(compiled);
    assert!(said.lines().any(is_by_jq), "{said}");
    assert!(said.contains(r#""labels":{"production":"1.2.0"}"#), "{said}");
}

#[test]
fn the_loop_of_the_readme_does_the_task_that_waits_in_the_demo() {
    if are_left_out("the README's agent") {
        return;
    }
    let demo_place = Place::new();
    let demo = Serving::by("demo", &demo_place, &[]);
    let key = demo.announced["apiKey"].as_str().unwrap();
    let shown = commands("README.md", "\n## An agent's loop\n", Some("\n## What there is\n"));
    assert!(shown.contains("=rsk_…") && shown.ends_with("'sh loop.sh'\n"), "{shown}");
    let script = shown.replace("rsk_…", key);
    let place = tempfile::tempdir().unwrap();
    run(bash(&format!("set -e\n{} --once", script.trim_end()), place.path())
        .env("ROADSTEAD_URL", format!("http://{}", demo.address)));

    let api = Caller::anonymous(demo.address, "acme").with_key(key);
    let team = api.get("/teams").items()[0]["id"].as_str().unwrap().to_string();
    let tasks = api.get(&format!("/teams/{team}/tasks?status=done")).items();
    let [done] = &tasks[..] else { panic!("{tasks:?}") };
    let mail = api.get(&format!("/teams/{team}/messages?audience=human")).items();
    let of_task = |mail: &&Value| mail["taskId"] == done["id"];
    assert_eq!(mail.iter().filter(of_task).count(), 1, "{mail:?}");
    let prompt = fs::read_to_string(place.path().join("prompt.md")).unwrap();
    assert!(prompt.starts_with("Write plainly"), "{prompt}");
}
