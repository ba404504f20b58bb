//! Inputs, and what came of running texts on them (reference: registries-and-templates, "Inputs of a
//! prompt").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::llm_providers::LlmProvider;
use crate::base::{Slug, StringMap};

crate::base::portable! {
/// What a good answer to an input has.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[schemars(rename = "InputExpectation")]
pub struct Expectation {
    /// Texts that it contains, in this case of letters.
    pub contains: Vec<String>,
    /// A question about it that has the answer yes, asked of a language model; null without one.
    pub judge: Option<String>,
}
}

impl Expectation {
    /// Whether any answer has it.
    pub fn is_empty(&self) -> bool {
        self.contains.is_empty() && self.judge.is_none()
    }
}

/// An input, as a model is asked about it.
#[derive(Clone, Debug, PartialEq)]
pub struct InputCase {
    pub name: Slug,
    /// Values of variables, by name.
    pub variables: StringMap,
    /// What the person says first; none if the text says it all.
    pub message: Option<String>,
    pub expect: Expectation,
}

/// A judge of every answer, beside what inputs expect.
pub struct Scorer {
    /// The question that has the answer yes for a good answer.
    pub question: String,
    /// Who is asked.
    pub provider: LlmProvider,
}

/// How inputs are run.
pub struct CaseRun<'a> {
    /// Who answers, and judges by what inputs expect.
    pub provider: &'a LlmProvider,
    /// The model that answers; that of the provider if there is none.
    pub model: Option<&'a str>,
    /// Values of variables that an input has none for.
    pub values: &'a StringMap,
    pub scorers: &'a [Scorer],
    /// Once the answers cost this much, in US dollars, no further input is asked about.
    pub max_usd: f64,
}

/// Whether an answer has what it should have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "InputScore")]
pub struct Score {
    /// What was looked for: a text that the answer contains, or the question of a judge.
    pub criterion: String,
    /// Whether the answer has it; null if the judge could not be asked, or its answer is none.
    pub passed: Option<bool>,
    /// Why, as the judge says; null without a reason.
    pub reason: Option<String>,
}

/// What a model answered to an input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InputAnswer")]
pub struct CaseAnswer {
    /// The answer, of at most 64 KiB; null if there is none.
    pub text: Option<String>,
    /// Whether the answer is longer, and its end is left out.
    pub is_cut: bool,
    /// Why there is no answer; null if there is one.
    pub error: Option<String>,
    /// Tokens of the prompt; null if the provider does not say.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer; null if the provider does not say.
    pub output_tokens: Option<u64>,
    /// The cost in US dollars, without that of judges; null if the organization has no price of the model.
    pub cost_usd: Option<f64>,
    /// How long the answer took, in milliseconds.
    pub took_ms: u64,
    /// By what the input expects, and by the judges of policies.
    pub scores: Vec<Score>,
    /// Whether the provider failed, and not the input.
    #[serde(skip)]
    pub has_failed: bool,
}

impl CaseAnswer {
    /// Whether there is an answer, and nothing is missing from it.
    pub fn passed(&self) -> bool {
        self.error.is_none() && self.scores.iter().all(|score| score.passed == Some(true))
    }

    /// Whether it is not known how good it is: the provider failed, or a judge.
    pub fn is_unknown(&self) -> bool {
        self.has_failed || self.scores.iter().any(|score| score.passed.is_none())
    }

    /// How many of its scores are good.
    pub fn points(&self) -> usize {
        self.scores.iter().filter(|score| score.passed == Some(true)).count()
    }

    /// Why it does not pass, as a phrase.
    pub fn problem(&self) -> Option<String> {
        let missing = self.scores.iter().find(|score| score.passed != Some(true));
        self.error
            .clone()
            .or_else(|| missing.map(|score| format!("{} is missing", score.criterion)))
    }

    /// No answer, for this reason.
    pub fn without(error: String) -> Self {
        CaseAnswer { error: Some(error), ..CaseAnswer::default() }
    }
}

/// Why not all inputs were run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InputRunStop")]
pub enum Stop {
    /// The answers cost what they may.
    #[serde(rename = "maxCost")]
    Cost,
    /// The time was up: what was not answered by then has an error, or was not run.
    #[serde(rename = "maxSeconds")]
    Seconds,
    /// What was sent and answered has more than 32 MiB.
    #[serde(rename = "maxBytes")]
    Bytes,
    /// The provider failed for each of ten inputs.
    #[serde(rename = "providerFailed")]
    Failures,
    /// The LLM provider, or that of a judge, was changed or deleted meanwhile.
    #[serde(rename = "providerChanged")]
    Changed,
    /// The server had too much to do to go on.
    #[serde(rename = "serverBusy")]
    Busy,
}

/// What came of a run.
#[derive(Debug, Default, PartialEq)]
pub struct CaseResults {
    /// For each input the answer for each text; none if it was not asked about.
    pub answers: Vec<Option<Vec<CaseAnswer>>>,
    /// What it cost in US dollars, judges included, as far as prices are known.
    pub cost_usd: f64,
    /// Why something has a cost that is not known; none if all is.
    pub cost_note: Option<String>,
    pub stop: Option<Stop>,
}
