//! Two versions of a prompt beside each other on its inputs: what got worse first.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::field::{Field, number};
use crate::console::form::labelled;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{self, Place, VersionRow, llm_providers_or_default};
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/prompts/{registry}/{name}/compare-inputs")
    .get(|visit| Box::pin(form(visit, None, None)))
    .post(|visit| Box::pin(compare(visit)))];

/// The time for a comparison, in seconds. A page is waited for, and a stream is shown as it comes.
const MAX_SECONDS: u64 = 60;
const MAX_STREAM_SECONDS: u64 = 300;

#[derive(Template)]
#[template(path = "compare_inputs.html")]
struct CompareInputs {
    frame: Frame,
    fields: Vec<Field>,
    comparison: Option<Comparison>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    left: Compared,
    right: Compared,
    inputs: Vec<Row>,
    better: usize,
    worse: usize,
    same: usize,
    unknown: usize,
    cost_usd: f64,
    cost_note: Nullable<String>,
    stopped: Nullable<String>,
}

#[derive(Deserialize)]
struct Compared {
    name: String,
}

#[derive(Deserialize)]
struct Row {
    input: String,
    left: Nullable<Answer>,
    right: Nullable<Answer>,
    change: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    text: Nullable<String>,
    is_cut: bool,
    error: Nullable<String>,
    input_tokens: Nullable<u64>,
    output_tokens: Nullable<u64>,
    cost_usd: Nullable<f64>,
    took_ms: u64,
    scores: Vec<Score>,
}

#[derive(Deserialize)]
struct Score {
    criterion: String,
    passed: Nullable<bool>,
    reason: Nullable<String>,
}

impl Comparison {
    /// Why a comparison may have stopped.
    const STOPS: [&str; 6] =
        ["maxCost", "maxSeconds", "maxBytes", "providerFailed", "providerChanged", "serverBusy"];

    /// What it cost, as far as that is known.
    fn cost(&self) -> String {
        match &self.cost_note.0 {
            Some(why) => format!("${} and more: {why}", self.cost_usd),
            None => format!("${}", self.cost_usd),
        }
    }

    /// Why not all inputs were run; empty if they were.
    fn stop(&self) -> &'static str {
        self.stopped.as_deref().map_or("", Comparison::why_stopped)
    }

    fn why_stopped(stop: &str) -> &'static str {
        match stop {
            "maxCost" => "It has cost what it may: the rest was not run.",
            "maxSeconds" => "The time was up: the rest was not answered.",
            "providerFailed" => "The LLM provider failed: the rest was not run.",
            "providerChanged" => "The LLM provider was changed meanwhile: the rest was not run.",
            "serverBusy" => "The server had too much to do: the rest was not run.",
            _ => "The texts and answers are too long: the rest was not run.",
        }
    }
}

impl Row {
    /// What was answered by both.
    fn answers(&self) -> [Option<&Answer>; 2] {
        [self.left.as_ref(), self.right.as_ref()]
    }

    /// What may have become of an input.
    const CHANGES: [&str; 4] = ["worse", "unknown", "better", "same"];

    /// Kind, icon and word of its state.
    fn state(&self) -> (&'static str, &'static str, &'static str) {
        Row::state_of(&self.change)
    }

    fn state_of(change: &str) -> (&'static str, &'static str, &'static str) {
        match change {
            "worse" => ("bad", "octagon", "Worse"),
            "better" => ("good", "check", "Better"),
            "same" => ("off", "check", "The same"),
            _ => ("warning", "triangle", "Cannot be told"),
        }
    }
}

impl Answer {
    /// What it took, in a line.
    fn facts(&self) -> String {
        let tokens = |count: &Nullable<u64>| count.map_or("?".to_string(), |n| n.to_string());
        let (input, output) = (tokens(&self.input_tokens), tokens(&self.output_tokens));
        let cost = self.cost_usd.map_or(String::new(), |usd| format!(", ${usd}"));
        format!("{input} + {output} tokens, {} ms{cost}", self.took_ms)
    }

    fn problem(&self) -> String {
        self.error.as_deref().map(sentence).unwrap_or_default()
    }
}

impl Score {
    /// What a judge may have said, as JSON has it.
    const PASSED: [&str; 3] = ["true", "false", "null"];

    /// Kind, icon and word of its state.
    fn state(&self) -> (&'static str, &'static str, &'static str) {
        Score::state_of(match self.passed.0 {
            Some(true) => "true",
            Some(false) => "false",
            None => "null",
        })
    }

    fn state_of(passed: &str) -> (&'static str, &'static str, &'static str) {
        match passed {
            "true" => ("good", "check", "Yes"),
            "false" => ("bad", "octagon", "No"),
            _ => ("warning", "triangle", "Not judged"),
        }
    }
}

async fn fields(visit: &Visit, place: &Place) -> Result<Vec<Field>> {
    let api = &visit.api;
    let artifact = place.find(api).await?;
    let newest = place.query(&[("limit", "100")]);
    let rows: Vec<VersionRow> = match &artifact {
        Some(_) => api.get::<List<_>>("/registries/artifact-versions", &newest).await?.items,
        None => Vec::new(),
    };
    let mut versions: Vec<String> = rows.into_iter().map(|row| row.version).collect();
    versions.dedup();
    let right = versions.first().cloned().unwrap_or_default();
    let mut left = versions.get(1).cloned().unwrap_or_else(|| right.clone());
    if let Some(label) = artifact.iter().flat_map(|one| one.labels.keys()).next() {
        left.clone_from(label);
    }
    let environment = place::environment(visit, "Values from the environment").await?;
    Ok(vec![
        place::version("left", "Compare")
            .at("left.version")
            .preset(left)
            .hint("A version, a range or a label: what is live, for example."),
        place::version("right", "With")
            .at("right.version")
            .optional()
            .preset(right)
            .hint("What may be better or worse. The newest version if empty."),
        Field::select("llmProviderId", "LLM provider", llm_providers_or_default(api).await?),
        Field::text("model", "Model").optional().hint("That of the provider if empty."),
        environment.hint("Where an input has none."),
        Field::check("judges", "Ask the judges of policies, too").preset("yes"),
        Field::text("maxCostUsd", "At most, in US dollars")
            .optional()
            .preset("1")
            .hint("No further input is run once this much was spent, as far as prices are known."),
    ])
}

async fn form(
    visit: &Visit,
    error: Option<Error>,
    comparison: Option<Comparison>,
) -> Result<Reply> {
    let place = Place::of(visit);
    visit.require(Method::Post, &api_path(&place))?;
    let fields = fields(visit, &place).await?;
    let frame = place.crumbs(visit, visit.frame("Compare on inputs")).script("try");
    let inputs = format!("{}/inputs", place.path);
    let mut frame = frame.crumb("Inputs", inputs).failed(error.as_ref());
    frame.problems = labelled(frame.problems, &fields);
    let frame = frame.picking(visit, &fields.iter().collect::<Vec<_>>()).await?;
    let page = CompareInputs { frame, fields, comparison };
    render(page.frame.status, &page)
}

fn api_path(place: &Place) -> String {
    format!("/prompts/{}/compare", segment(&place.name))
}

async fn compare(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    // The script asks so.
    let is_stream = visit.form.sent("stream").is_some();
    let side = |name: &str| match visit.form.get(name).trim() {
        "" => json!({}),
        version => json!({"version": version}),
    };
    let mut body = json!({
        "registryRef": place.registry,
        "left": side("left"),
        "right": side("right"),
        "judges": visit.form.sent("judges").is_some(),
        "maxSeconds": if is_stream { MAX_STREAM_SECONDS } else { MAX_SECONDS },
    });
    let cost = visit.form.get("maxCostUsd").trim();
    if !cost.is_empty() {
        body["maxCostUsd"] = number(cost);
    }
    for name in ["llmProviderId", "model", "environment"] {
        let value = visit.form.get(name).trim();
        if !value.is_empty() {
            body[name] = json!(value);
        }
    }
    // Who goes away needs no answers, which cost money.
    visit.begin_waiting();
    if is_stream {
        return place::passed_on(visit, &api_path(&place), body, fields(visit, &place)).await;
    }
    match visit.api.post::<Value>(&api_path(&place), body).await {
        Ok(answer) => {
            let comparison = Comparison::deserialize(answer)
                .map_err(|error| Error::internal(format!("a comparison: {error}")))?;
            form(visit, None, Some(comparison)).await
        }
        Err(error) => form(visit, visit.failed(error)?, None).await,
    }
}
