//! `roadstead prompt inputs` and `roadstead prompt compare`: what versions of a prompt are tried on, and two
//! of them beside each other.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::base::segment;
use crate::cli::client::api::Api;
use crate::cli::client::artifact_name::ArtifactName;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::lookup::llm_provider;
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::client::table::Table;
use crate::cli::failure::Failure;
use crate::cli::output;

/// A request may take longer than the answers: it waits half a minute for its turn and for its slots each, and
/// ten seconds to keep the last answers.
const MARGIN_SECS: u64 = 75;

/// List the inputs of a prompt
#[derive(Args)]
#[command(
    after_help = "They are written in plain files (roadstead apply), in the console or by the \
                        API.\n\n\
                        Example: roadstead prompt inputs main/scribe"
)]
pub struct Inputs {
    /// The prompt: REGISTRY/NAME or ORG/REGISTRY/NAME
    #[arg(value_name = "PROMPT", value_parser = |text: &str| ArtifactName::parse(text))]
    prompt: ArtifactName,

    #[command(flatten)]
    client: ClientFlags,
}

impl Inputs {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.prompt.without_selector()?;
        let api = self.client.connect()?;
        let registry = self.prompt.registry_ref(&api)?;
        let path = format!("/prompts/{}/inputs", segment(&self.prompt.name));
        let listed = api.list(&path, &[("registryRef", Some(registry.as_str()))], usize::MAX)?;
        let names = ["NAME", "VARIABLES", "EXPECTS", "MESSAGE"];
        let table = Table::of(names, &listed.items, |input| {
            let variables = input["variables"].as_object().into_iter().flatten();
            let variables: Vec<&str> = variables.map(|(name, _)| name.as_str()).collect();
            [text(&input["name"]), variables.join(", "), expected(input), text(&input["message"])]
        });
        output::print(self.client.json, &json!(listed.items), table.text("no inputs"))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

/// What a good answer has.
fn expected(input: &Value) -> String {
    let contains = input["expect"]["contains"].as_array().into_iter().flatten();
    let mut all: Vec<String> = contains.map(|text| text.to_string()).collect();
    all.extend(input["expect"]["judge"].as_str().map(str::to_string));
    all.join(", ")
}

/// Compare two versions, or a version and a file, on the inputs of a prompt
#[derive(Args)]
#[command(
    after_help = "A model answers each input by both texts; what the inputs expect and the judges \
                        of policies say which got worse. A terminal shows how far it is. \
                        Fails if one did, or if one cannot be told.\n\n\
                        Examples:\n  \
                        roadstead prompt compare main/scribe production 1.2.0\n  \
                        roadstead prompt compare main/scribe production --file scribe.md"
)]
pub struct Compare {
    /// The prompt: REGISTRY/NAME or ORG/REGISTRY/NAME
    #[arg(value_name = "PROMPT", value_parser = |text: &str| ArtifactName::parse(text))]
    prompt: ArtifactName,

    /// What it is compared with: a version, a range or a label
    left: String,

    /// What may be better or worse; by default the newest version
    #[arg(conflicts_with = "file")]
    right: Option<String>,

    /// Compare with this file, - for stdin, instead of another version
    #[arg(long, value_name = "FILE")]
    file: Option<String>,

    /// LLM provider that answers, by name or id; by default the default one
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,

    /// Model that answers; by default that of the provider
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// Environment whose variables are taken where an input has none
    #[arg(long, value_name = "SLUG")]
    environment: Option<String>,

    /// Score by what the inputs expect alone, not by the judges of policies
    #[arg(long)]
    no_judges: bool,

    /// No further input is run once this much was spent, in US dollars
    #[arg(long, value_name = "USD", default_value_t = 1.0)]
    max_cost: f64,

    /// The time for all answers, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=300))]
    max_seconds: u64,

    #[command(flatten)]
    client: ClientFlags,
}

impl Compare {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.prompt.without_selector()?;
        let file = self.file.as_deref().map(PromptFile::read).transpose()?;
        let api = self.client.connect()?;
        let path = format!("/prompts/{}/compare", segment(&self.prompt.name));
        let body = self.body(&api, file.as_ref())?;
        let total = Duration::from_secs(self.max_seconds + MARGIN_SECS);
        let mut progress = Progress::default();
        let compared = api.post_for_events(&path, &body, total, |name, row| {
            if name == "input" {
                output::progress(&progress.line(row));
            }
            Ok(())
        });
        output::progress("");
        let compared = compared?;
        output::print(self.client.json, &compared, table(&compared).text("no inputs"))?;
        output::status(&summary(&compared));
        failure(&compared).map_or(Ok(()), |why| Err(Failure::Failed(why)))
    }

    fn body(&self, api: &Api, file: Option<&PromptFile>) -> Result<Value, Failure> {
        let right = match (file, &self.right) {
            (Some(file), _) => json!({"source": file.source}),
            (None, Some(version)) => json!({"version": version}),
            (None, None) => json!({}),
        };
        let mut body = json!({
            "registryRef": self.prompt.registry_ref(api)?,
            "left": {"version": self.left},
            "right": right,
            "judges": !self.no_judges,
            "maxCostUsd": self.max_cost,
            "maxSeconds": self.max_seconds,
        });
        let provider = llm_provider(api, self.provider.as_deref())?;
        let named = [
            ("llmProviderId", &provider),
            ("model", &self.model),
            ("environment", &self.environment),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        Ok(body)
    }
}

/// What was answered so far.
#[derive(Default)]
struct Progress {
    done: usize,
    worse: usize,
}

impl Progress {
    /// What is shown once this input was answered, too.
    fn line(&mut self, row: &Value) -> String {
        self.done += 1;
        self.worse += usize::from(row["change"] == "worse");
        let (input, change) = (text(&row["input"]), text(&row["change"]));
        format!("{} answered, {} worse; {input}: {change}", self.done, self.worse)
    }
}

/// Why the right text cannot be relied on to be as good, if that is so.
fn failure(compared: &Value) -> Option<String> {
    match (compared["worse"].as_u64(), compared["unknown"].as_u64()) {
        (Some(0), Some(0)) if compared["stopped"].is_null() => None,
        (Some(0), Some(0)) => Some("it ended early".into()),
        (Some(0), _) => Some(format!("{} cannot be told", compared["unknown"])),
        _ => Some(format!("{} got worse", compared["worse"])),
    }
}

fn table(compared: &Value) -> Table {
    let mut table = Table::new(&["INPUT", "CHANGE", "LEFT", "RIGHT", "MISSING"]);
    for row in compared["inputs"].as_array().into_iter().flatten() {
        let (left, right) = (&row["left"], &row["right"]);
        table.add(vec![
            text(&row["input"]),
            text(&row["change"]),
            points(left),
            points(right),
            missing(right),
        ]);
    }
    table
}

fn scores(answer: &Value) -> &[Value] {
    answer["scores"].as_array().map_or(&[], Vec::as_slice)
}

/// How many of its scores an answer has.
fn points(answer: &Value) -> String {
    if answer.is_null() {
        return "not run".into();
    }
    if !answer["error"].is_null() {
        return "no answer".into();
    }
    let passed = scores(answer).iter().filter(|score| score["passed"] == true).count();
    format!("{passed} of {}", scores(answer).len())
}

/// What an answer lacks.
fn missing(answer: &Value) -> String {
    if let Some(error) = answer["error"].as_str() {
        return error.into();
    }
    let missing = scores(answer).iter().filter(|score| score["passed"] != true);
    missing.map(|score| text(&score["criterion"])).collect::<Vec<_>>().join(", ")
}

fn summary(compared: &Value) -> String {
    let count = |name: &str| compared[name].as_u64().unwrap_or_default();
    let stopped = match compared["stopped"].as_str() {
        Some("maxCost") => "; stopped: it has cost what it may (--max-cost)",
        Some("maxSeconds") => "; stopped: the time was up (--max-seconds)",
        Some("providerFailed") => "; stopped: the LLM provider failed",
        Some("providerChanged") => "; stopped: the LLM provider was changed meanwhile",
        Some("serverBusy") => "; stopped: the server had too much to do",
        Some(_) => "; stopped: the texts and answers are too long",
        None => "",
    };
    let more = compared["costNote"].as_str().map(|why| format!(" and more: {why}"));
    format!(
        "{} worse, {} better, {} the same, {} unknown; US$ {}{}{stopped}",
        count("worse"),
        count("better"),
        count("same"),
        count("unknown"),
        compared["costUsd"],
        more.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_the_order_of_the_answer_and_say_what_is_missing() {
        let score =
            |passed: bool| json!([{"criterion": "\"Hi\"", "passed": passed, "reason": null}]);
        let answer = |passed| json!({"error": null, "scores": score(passed)});
        let compared = json!({"worse": 1, "better": 1, "same": 0, "unknown": 1, "costUsd": 0.5,
        "stopped": "maxCost", "inputs": [
            {"input": "b", "change": "worse", "left": answer(true), "right": answer(false)},
            {"input": "c", "change": "unknown", "left": null, "right": null},
            {"input": "a", "change": "better", "left": answer(false), "right": answer(true)},
        ]});
        let text = table(&compared).text("nothing").body;
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("b") && lines[0].ends_with("\"Hi\""), "{text}");
        assert!(lines[1].starts_with("c") && lines[1].contains("not run"), "{text}");
        assert!(lines[2].contains("0 of 1") && lines[2].contains("1 of 1"), "{text}");
        let summary = summary(&compared);
        assert!(
            summary.starts_with("1 worse, 1 better, 0 the same, 1 unknown; US$ 0.5"),
            "{summary}"
        );
        assert!(summary.contains("--max-cost"), "{summary}");
        let mut unpriced = compared;
        unpriced["costNote"] = json!("the organization has no price of m1");
        let summary = super::summary(&unpriced);
        assert!(summary.contains("US$ 0.5 and more: the organization has no price"), "{summary}");
    }

    #[test]
    fn progress_counts_what_was_answered_and_got_worse() {
        let mut progress = Progress::default();
        progress.line(&json!({"input": "a", "change": "worse"}));
        let line = progress.line(&json!({"input": "b", "change": "same"}));
        assert_eq!(line, "2 answered, 1 worse; b: same");
    }

    #[test]
    fn what_cannot_be_told_is_a_failure_as_well() {
        for (worse, unknown, stopped, why) in [
            (0, 0, Value::Null, None),
            (2, 1, Value::Null, Some("2 got worse")),
            (0, 3, json!("providerFailed"), Some("3 cannot be told")),
            (0, 0, json!("maxSeconds"), Some("it ended early")),
        ] {
            let compared = json!({"worse": worse, "unknown": unknown, "stopped": stopped});
            assert_eq!(failure(&compared).as_deref(), why, "{compared}");
        }
    }
}
