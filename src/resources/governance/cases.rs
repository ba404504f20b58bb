//! Running a text on inputs: a model answers each of them, and the answers are scored by what the inputs
//! expect and by judges (reference: registries-and-templates, "Inputs of a prompt").
//!
//! Inputs are asked about a few at a time, so that a run ends soon after it has cost what it may. What an
//! earlier round has answered is known in each later run of the operation, and so is where it stopped.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::llm_providers::{self, Attempt, LlmProvider};
use super::judge;
use super::rules::quoted;
use crate::api::Calls;
use crate::base::{Result, Slug, StringMap};
use crate::store::View;
use crate::templates::{self, Rendering};

/// Inputs that are asked about together: a request has 16 rounds of calls, 50 inputs take 5, their judges
/// one more, and each may take two where a provider has its API at another path.
const INPUTS_AT_ONCE: usize = 10;

/// The time for one answer.
const ANSWER_SECS: u64 = 60;

/// The longest answer, in tokens.
const MAX_TOKENS: u32 = 4096;

/// Of an answer so many bytes are judged and shown.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Once all answers together have so many bytes, no further input is asked about.
const MAX_ALL_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// What a good answer to an input has.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[schemars(rename = "InputExpectation")]
pub struct Expectation {
    /// Texts that it contains, in this case of letters.
    pub contains: Vec<String>,
    /// A question about it that has the answer yes, asked of a language model; null without one.
    pub judge: Option<String>,
}
crate::base::portable!(Expectation { contains, judge });

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

    fn without(error: String) -> Self {
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
    /// The time was up: what was not answered by then has an error.
    #[serde(rename = "maxSeconds")]
    Seconds,
    /// The answers have more than 16 MiB.
    #[serde(rename = "maxBytes")]
    Bytes,
}

/// What came of a run.
#[derive(Debug, Default, PartialEq)]
pub struct CaseResults {
    /// For each input the answer for each text; none if it was not asked about.
    pub answers: Vec<Option<Vec<CaseAnswer>>>,
    /// What it cost in US dollars, judges included, as far as prices are known.
    pub cost_usd: f64,
    pub stop: Option<Stop>,
}

/// Runs these compiled texts on inputs. While answers are pending, the result is meaningless and the run
/// is discarded.
///
/// # Errors
/// 500 if the key of a provider cannot be read.
pub fn run(
    view: &View,
    how: &CaseRun,
    cases: &[InputCase],
    texts: &[&str],
    calls: &mut Calls,
) -> Result<CaseResults> {
    let mut results = CaseResults::default();
    let mut bytes = 0;
    for some in cases.chunks(INPUTS_AT_ONCE) {
        results.stop = match () {
            () if results.cost_usd >= how.max_usd => Some(Stop::Cost),
            () if bytes >= MAX_ALL_ANSWER_BYTES => Some(Stop::Bytes),
            () => None,
        };
        if results.stop.is_some() {
            break;
        }
        let mut is_pending = false;
        for case in some {
            let mut answers = Vec::with_capacity(texts.len());
            for text in texts {
                match answer(view, how, case, text, calls)? {
                    Some(answer) => answers.push(answer),
                    None => is_pending = true,
                }
            }
            if answers.len() == texts.len() {
                for answer in &mut answers {
                    results.cost_usd += score(view, how, case, answer, calls)?;
                    results.cost_usd += answer.cost_usd.unwrap_or_default();
                    bytes += answer.text.as_deref().map_or(0, str::len);
                }
                results.answers.push(Some(answers));
            }
        }
        if is_pending {
            // What follows depends on what these cost.
            return Ok(results);
        }
    }
    if calls.is_late() {
        results.stop = Some(Stop::Seconds);
    }
    results.answers.resize(cases.len(), None);
    Ok(results)
}

/// Asks for the answer to an input; `None` while it is pending.
fn answer(
    view: &View,
    how: &CaseRun,
    case: &InputCase,
    compiled: &str,
    calls: &mut Calls,
) -> Result<Option<CaseAnswer>> {
    let text = match rendered(how, case, compiled) {
        Ok(text) => text,
        Err(why) => return Ok(Some(CaseAnswer::without(why))),
    };
    let (system, message) = Attempt::parts(text, case.message.as_deref());
    let asked = Attempt {
        system,
        message,
        model: how.model.map(String::from),
        max_tokens: MAX_TOKENS,
        temperature: None,
        total_secs: ANSWER_SECS,
    };
    let Some(attempted) = llm_providers::attempt(view, how.provider, &asked, calls)? else {
        return Ok(None);
    };
    let took_ms = u64::try_from(attempted.took.as_millis()).unwrap_or(u64::MAX);
    let completion = match attempted.outcome {
        Ok(completion) => completion,
        Err(why) => {
            let error = format!("LLM provider \"{}\": {why}", how.provider.name);
            let answer = CaseAnswer { took_ms, has_failed: true, ..CaseAnswer::without(error) };
            return Ok(Some(answer));
        }
    };
    let cost_usd = llm_providers::cost(view, how.provider, &asked, &completion)?.usd;
    let (input_tokens, output_tokens) = (completion.input_tokens, completion.output_tokens);
    let (text, is_cut) = cut(completion.text);
    let text = Some(text);
    let known = CaseAnswer { text, is_cut, input_tokens, output_tokens, ..CaseAnswer::default() };
    Ok(Some(CaseAnswer { cost_usd, took_ms, ..known }))
}

/// The text with the values of an input.
///
/// # Errors
/// Why it cannot be asked about, as a sentence without full stop.
fn rendered(how: &CaseRun, case: &InputCase, compiled: &str) -> Result<String, String> {
    let value = |name: &str| case.variables.get(name).or_else(|| how.values.get(name)).cloned();
    let Rendering { text, missing } = templates::render(compiled, value)
        .map_err(|why| format!("the values of the input {why}"))?;
    match missing.first() {
        None => Ok(text),
        Some(name) => Err(format!("the input has no value for the variable {name}")),
    }
}

/// Cuts an answer to what is judged and shown of it.
fn cut(mut text: String) -> (String, bool) {
    let is_cut = text.len() > MAX_ANSWER_BYTES;
    if is_cut {
        text.truncate(text.floor_char_boundary(MAX_ANSWER_BYTES));
    }
    (text, is_cut)
}

/// Scores an answer; returns what the judges cost.
fn score(
    view: &View,
    how: &CaseRun,
    case: &InputCase,
    answer: &mut CaseAnswer,
    calls: &mut Calls,
) -> Result<f64> {
    let Some(text) = &answer.text else { return Ok(0.0) };
    let mut scores: Vec<Score> = Vec::new();
    for wanted in &case.expect.contains {
        let passed = Some(text.contains(wanted.as_str()));
        scores.push(Score { criterion: quoted(wanted), passed, reason: None });
    }
    let own = case.expect.judge.iter().map(|question| (question, how.provider));
    let others = how.scorers.iter().map(|scorer| (&scorer.question, &scorer.provider));
    let mut cost = 0.0;
    for (question, provider) in own.chain(others) {
        let (passed, reason) = match judge::judged(view, provider, question, text, calls)? {
            // Pending: the run is discarded.
            None => (None, None),
            Some(judged) => {
                cost += judged.cost_usd.unwrap_or_default();
                match judged.verdict {
                    Ok((passed, reason)) => (Some(passed), reason),
                    Err(why) => (None, Some(why)),
                }
            }
        };
        scores.push(Score { criterion: quoted(question), passed, reason });
    }
    answer.scores = scores;
    Ok(cost)
}
