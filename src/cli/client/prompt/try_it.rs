//! `roadstead prompt try`

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::which::Which;
use crate::cli::client::api::{Api, segment};
use crate::cli::client::assignments::Assignments;
use crate::cli::client::flags::ClientFlags;
use crate::cli::client::lookup::{llm_provider, none_called};
use crate::cli::client::prompt_file::PromptFile;
use crate::cli::client::table::cell;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// Longer than the server takes for an answer.
const TOTAL: Duration = Duration::from_secs(300);

/// Send a prompt to a model, and print its answer
#[derive(Args)]
#[command(
    after_help = "On a terminal the answer appears as it comes. What it took is on stderr; with --json \
                        everything is one object. It may cost money; nothing of it is kept without \
                        --keep, and the audit log says who tried what.\n\n\
                        A key needs the scopes artifact:read and llm-provider:test.\n\n\
                        Examples:\n  \
                        roadstead prompt try main/scribe@production --message Hello\n  \
                        roadstead prompt try main/scribe --file scribe.md --set PRODUCT=Harbour\n  \
                        roadstead prompt try main/scribe --input first"
)]
pub struct Try {
    #[command(flatten)]
    which: Which,

    /// Try the text of this file, - for stdin, instead of a version
    #[arg(long, value_name = "FILE", conflicts_with = "draft")]
    file: Option<String>,

    /// Try this draft, by id, instead of a version
    #[arg(long, value_name = "DRAFT")]
    draft: Option<String>,

    /// First message of the user; without one the prompt is the message
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,

    #[command(flatten)]
    values: Assignments,

    /// Take values and message of this input of the prompt; --set and --message go before
    #[arg(long, value_name = "INPUT")]
    input: Option<String>,

    /// Environment, by slug or id, that supplies the other values
    #[arg(long, value_name = "ENVIRONMENT")]
    environment: Option<String>,

    /// LLM provider, by name or id; by default the default one
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,

    /// Model; by default that of the provider
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    /// Longest answer, in tokens
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,

    /// How freely the model chooses its words, from 0 to 2
    #[arg(long, value_name = "NUMBER")]
    temperature: Option<f64>,

    /// Keep the values and the message as an input of the prompt, under this name
    #[arg(long, value_name = "INPUT")]
    keep: Option<String>,

    #[command(flatten)]
    client: ClientFlags,
}

impl Try {
    pub(super) fn run(self) -> Result<(), Failure> {
        if self.file.is_some() || self.draft.is_some() {
            self.which.artifact.without_selector()?;
        }
        let api = self.client.connect()?;
        let body = self.body(&api)?;
        let path = format!("/prompts/{}/try", segment(&self.which.artifact.name));
        let shows_parts = !self.client.json && output::is_terminal();
        let tried = api.post_for_events(&path, &body, TOTAL, |_, delta| match &delta["text"] {
            Value::String(part) if shows_parts => output::part(part),
            _ => Ok(()),
        })?;
        if shows_parts {
            output::part("\n")?;
        } else {
            output::content(self.client.json, &tried, tried["text"].as_str().unwrap_or_default())?;
        }
        if !self.client.json {
            figures(&tried).iter().for_each(|line| output::status(line));
        }
        self.keep(&api, &body)
    }

    /// Keeps what was tried, if that is asked for.
    fn keep(&self, api: &Api, tried: &Value) -> Result<(), Failure> {
        let Some(name) = &self.keep else { return Ok(()) };
        let path = format!("/prompts/{}/inputs", segment(&self.which.artifact.name));
        let input = json!({
            "registryRef": tried["registryRef"],
            "name": name,
            "variables": tried["variables"],
            "message": tried["message"],
        });
        api.send(Method::POST, &path, &input)?;
        output::status(&format!("kept as the input {name}"));
        Ok(())
    }

    /// The input of the prompt whose values are taken; null without one.
    fn input(&self, api: &Api, registry: &str) -> Result<Value, Failure> {
        let Some(name) = &self.input else { return Ok(Value::Null) };
        let path = format!("/prompts/{}/inputs", segment(&self.which.artifact.name));
        let inputs = api.list(&path, &[("registryRef", Some(registry))], usize::MAX)?.items;
        let found = inputs.iter().find(|input| input["name"] == **name);
        found.cloned().ok_or_else(|| none_called(&inputs, "name", name, "input of this prompt"))
    }

    fn body(&self, api: &Api) -> Result<Value, Failure> {
        let file = self.file.as_deref().map(PromptFile::read).transpose()?;
        let provider = llm_provider(api, self.provider.as_deref())?;
        let artifact = &self.which.artifact;
        let registry = artifact.registry_ref(api)?;
        let input = self.input(api, &registry)?;
        let mut variables = input["variables"].as_object().cloned().unwrap_or_default();
        variables.extend(self.values.read()?);
        let message = self.message.clone().map_or_else(|| input["message"].clone(), Value::from);
        Ok(json!({
            "registryRef": registry,
            "artifactType": self.which.kind.text(),
            "version": artifact.selector,
            "draftId": self.draft,
            "source": file.map(|file| file.source),
            "variables": variables,
            "environment": self.environment,
            "llmProviderId": provider,
            "model": self.model,
            "message": message,
            "maxTokens": self.max_tokens,
            "temperature": self.temperature,
        }))
    }
}

/// What it took, for a person.
fn figures(tried: &Value) -> Vec<String> {
    let known = |name: &str| match &tried[name] {
        Value::Null => "?".to_string(),
        value => cell(value),
    };
    let secs = tried["tookMs"].as_f64().unwrap_or_default() / 1000.0;
    let cost = match tried["costUsd"].as_f64() {
        Some(usd) => format!("${usd}"),
        None => cell(&tried["costNote"]),
    };
    let (model, input, output) = (known("model"), known("inputTokens"), known("outputTokens"));
    let mut lines = vec![format!("{model}: {input} + {output} tokens, {secs:.1} s, {cost}")];
    let missing = cell(&tried["missing"]);
    if !missing.is_empty() {
        lines.push(format!("no value for: {missing}"));
    }
    if let Some(reason @ ("length" | "max_tokens" | "MAX_TOKENS")) = tried["stopReason"].as_str() {
        lines.push(format!("the answer was cut ({reason}); a larger --max-tokens gives more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_say_what_is_known() {
        let all = json!({"model": "m", "inputTokens": 3, "outputTokens": 4, "tookMs": 1234,
            "costUsd": 0.25, "costNote": null, "missing": [], "stopReason": "stop"});
        assert_eq!(figures(&all), ["m: 3 + 4 tokens, 1.2 s, $0.25"]);
        let little = json!({"model": null, "inputTokens": null, "outputTokens": null, "tookMs": 0,
            "costUsd": null, "costNote": "no price", "missing": ["A"], "stopReason": "length"});
        let lines = figures(&little);
        assert_eq!(lines[0], "?: ? + ? tokens, 0.0 s, no price");
        assert_eq!(lines[1], "no value for: A");
        assert!(lines[2].contains("--max-tokens"), "{lines:?}");
    }
}
