//! The pipelines in `docs/examples` do what they say, with keys that can do just that; completions
//! and manual pages know every command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::desk::Desk;
use crate::process::{Ended, run};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(name)
}

/// The shell commands of a job of a pipeline, the lines below its name up to the next job's.
fn commands(pipeline: &str, job: &str, indent: &str) -> Vec<String> {
    let lines = pipeline.lines().skip_while(|line| *line != format!("{indent}{job}:")).skip(1);
    let is_inside = |line: &&str| {
        line.is_empty()
            || line.starts_with(&format!("{indent}  "))
            || line.starts_with("  ") && indent.is_empty()
    };
    let mut found = Vec::new();
    let mut in_script = false;
    for line in lines.take_while(is_inside) {
        in_script |= line.trim() == "script:";
        if let Some(run) = line.trim().strip_prefix("- run: ") {
            found.push(run.to_string());
        } else if let (true, Some(step)) = (in_script, line.trim().strip_prefix("- ")) {
            found.push(step.to_string());
        }
    }
    found
}

/// A repository beside a server with the registry `main`, the agent `scribe` and `production`.
struct Repository {
    desk: Desk,
    check_key: String,
    release_key: String,
}

impl Repository {
    fn new() -> Self {
        let desk = Desk::new();
        desk.registry();
        let api = desk.api();
        api.post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
        api.post("/environments", json!({"slug": "production", "name": "Production"})).ok();
        // The scopes as the script names them.
        let script = fs::read_to_string(example("prompts.sh")).unwrap();
        let scopes = |after: &str| {
            let line = script.lines().skip_while(|line| !line.ends_with(after)).nth(1).unwrap();
            line.trim_start_matches('#').split_whitespace().map(str::to_string).collect::<Vec<_>>()
        };
        let check = scopes("`check` needs the scopes");
        let release = [check.clone(), scopes("`release` these, too:")].concat();
        let key = |scopes: &[String]| {
            desk.key_with(&scopes.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let (check_key, release_key) = (key(&check), key(&release));
        desk.file("ci/prompts.sh", script);
        desk.file("promptlets/voice.md", "Write plainly.\n");
        desk.file("prompts/scribe.md", "{{ import \"voice@*\" }} You write notes.\n");
        Repository { desk, check_key, release_key }
    }

    /// Runs the commands of a job as its runner does.
    fn run(&self, commands: &[String], variables: &[(&str, &str)]) -> Ended {
        assert!(!commands.is_empty());
        let binary = Path::new(env!("CARGO_BIN_EXE_roadstead")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell.arg("-ec").arg(commands.join("\n")).current_dir(self.desk.path(""));
        shell.env("PATH", format!("{}:{path}", binary.display()));
        shell.env("ROADSTEAD_URL", self.desk.url()).env("HOME", self.desk.path(""));
        shell.env_remove("XDG_CONFIG_HOME").envs(variables.iter().copied());
        run(shell, None)
    }

    fn label(&self, name: &str) -> String {
        let got = self.desk.run(&["prompt", "get", &format!("main/{name}@production")]);
        got.stdout
    }
}

fn both_pipelines() -> Vec<(&'static str, String, &'static str)> {
    let read = |name: &str| fs::read_to_string(example(name)).unwrap();
    vec![
        ("ROADSTEAD_API_KEY", read("prompts.github.yml"), "  "),
        ("", read("prompts.gitlab-ci.yml"), ""),
    ]
}

#[test]
fn a_pull_request_is_checked_and_a_merge_is_published_and_promoted() {
    for (variable, pipeline, indent) in both_pipelines() {
        let repository = Repository::new();
        let with = |job: &str, key: &str, more: &[(&str, &str)]| {
            let own = match (variable, job) {
                ("", "check") => "ROADSTEAD_CHECK_KEY",
                ("", _) => "ROADSTEAD_RELEASE_KEY",
                (variable, _) => variable,
            };
            repository.run(&commands(&pipeline, job, indent), &[&[(own, key)], more].concat())
        };
        let preview =
            [("AGENT", "scribe"), ("ENVIRONMENT", "production"), ("PROVIDER", "anthropic")];
        // What it imports is not there at all.
        repository.desk.file("prompts/scribe.md", "{{ import \"tone@*\" }} You write notes.\n");
        let early = with("check", &repository.check_key, &[]);
        assert_eq!(early.code, Some(1), "{early:?}");
        assert!(early.stdout.contains("prompts/scribe.md:1:1: "), "{early:?}");
        // It is as new as the prompt, and so is another that it imports and that comes after it.
        repository.desk.file("prompts/scribe.md", "{{ import \"voice@*\" }} You write notes.\n");
        repository.desk.file("promptlets/voice.md", "{{ import \"words@1\" }}\n");
        repository.desk.file("promptlets/words.md", "Write plainly.\n");
        let together = with("check", &repository.check_key, &[]);
        assert_eq!(together.code, Some(0), "{together:?}");
        assert_eq!(
            repository.desk.api().get("/registries/artifacts?registryRef=main").items().len(),
            0
        );

        let released = with("release", &repository.release_key, &preview);
        assert_eq!(released.code, Some(0), "{released:?}");
        assert!(released.stdout.contains("+Write plainly. You write notes."), "{released:?}");
        assert_eq!(repository.label("scribe"), "Write plainly. You write notes.\n");

        repository.desk.file("prompts/scribe.md", "{{ import \"voice@*\" }} You write little.\n");
        let checked = with("check", &repository.check_key, &[]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        let change = "+{{ import \"voice@*\" }} You write little.";
        assert!(checked.stdout.contains(change), "{checked:?}");
        let refused = with("release", &repository.check_key, &[]);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains("scope_missing"), "{refused:?}");
        assert_eq!(repository.label("scribe"), "Write plainly. You write notes.\n");

        assert_eq!(with("release", &repository.release_key, &[]).code, Some(0));
        assert_eq!(repository.label("scribe"), "Write plainly. You write little.\n");
        // Twice is once.
        assert_eq!(with("release", &repository.release_key, &[]).code, Some(0));
        let versions = repository.desk.json(&["prompt", "history", "main/scribe"]);
        assert_eq!(versions["items"].as_array().unwrap().len(), 2);

        repository.desk.file("prompts/scribe.md", "{{ if x }}\n");
        let wrong = with("check", &repository.check_key, &[]);
        assert_eq!(wrong.code, Some(1), "{wrong:?}");
        assert!(wrong.stdout.contains("prompts/scribe.md:1:1: "), "{wrong:?}");
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = desk.run(&["completions", shell]).stdout;
        for word in ["rollback", "if-version", "whoami"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let dir = desk.path("man");
    desk.json(&["man", dir.to_str().unwrap()]);
    for page in ["roadstead.1", "roadstead-prompt-publish.1", "roadstead-wakes.1"] {
        let text = fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".TH ") && text.contains(".SH "), "{page}");
    }
    let publish = fs::read_to_string(dir.join("roadstead-prompt-publish.1")).unwrap();
    assert!(publish.contains("bump"), "{publish}");
}
