//! Running a text on inputs: a model answers each of them, and the answers are scored by what the inputs
//! expect and by judges (reference: registries-and-templates, "Inputs of a prompt").
//!
//! Inputs are asked about a few at a time, so that a run ends soon after it has cost what it may. What an
//! earlier round has answered is known in each later run of the operation, and so is where it stopped. What
//! judges cost is known a round later, when the next inputs are answered already: they are paid, so they
//! are shown and counted.

use std::collections::HashSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::llm_providers::{self, Attempt, LlmProvider};
use super::judge;
use super::rules::quoted;
use crate::api::Calls;
use crate::base::{Error, Result, Slug, StringMap};
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

/// Once all that was sent and answered has so many bytes, no further input is asked about: it is held at
/// once. Ten more inputs and their judges seldom have as many.
const MAX_ALL_BYTES: usize = 32 * 1024 * 1024;

/// The filled texts have at most 16 MiB together: what is sent is held at once, and JSON may double it.
const MAX_FILLED_BYTES: usize = 16 * 1024 * 1024;

/// Why a judge was not asked about an answer.
const NOT_JUDGED: &str = "it was not asked: the run had ended";

/// What a good answer to an input has.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[schemars(rename = "InputExpectation")]
pub struct Expectation {
    /// Texts that it contains, in this case of letters.
    pub contains: Vec<String>,
    /// A question about it that has the answer yes, asked of a language model; null without one.
    pub judge: Option<String>,
}

impl Expectation {
    /// Whether any answer has it.
    pub fn is_empty(&self) -> bool {
        self.contains.is_empty() && self.judge.is_none()
    }
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
    /// The time was up: what was not answered by then has an error, or was not run.
    #[serde(rename = "maxSeconds")]
    Seconds,
    /// What was sent and answered has more than 32 MiB.
    #[serde(rename = "maxBytes")]
    Bytes,
    /// The provider failed for each of ten inputs.
    #[serde(rename = "providerFailed")]
    Failures,
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
/// 409 if the texts are too long for so many inputs; 500 if the key of a provider cannot be read.
pub fn run(
    view: &View,
    how: &CaseRun,
    cases: &[InputCase],
    texts: &[&str],
    calls: &mut Calls,
) -> Result<CaseResults> {
    let filled = filled(how, cases, texts)?;
    let mut stop = None;
    let mut running = Running { view, how, calls, tally: Tally::default() };
    let mut answers = Vec::with_capacity(cases.len());
    let all: Vec<(&InputCase, &Vec<Filled>)> = cases.iter().zip(&filled).collect();
    for some in all.chunks(INPUTS_AT_ONCE) {
        if stop.is_none() {
            stop = running.stop(&answers);
            if stop.is_some() {
                running.calls.close();
            }
        }
        for (case, filled) in some {
            answers.push(running.answers(case, filled)?);
        }
        if stop.is_none() && answers.iter().any(Option::is_none) {
            // They are pending, and what follows depends on what they cost.
            break;
        }
    }
    running.calls.reopen();
    if running.calls.is_too_much() {
        return Err(too_large());
    }
    if running.calls.is_late() {
        stop = Some(Stop::Seconds);
    }
    answers.resize(cases.len(), None);
    Ok(CaseResults { answers, cost_usd: running.tally.usd, stop })
}

/// A text with the values of an input, or why it cannot be asked about.
type Filled = Result<String, String>;

/// Fills each text with the values of each input.
///
/// # Errors
/// 409 if that is too much to be sent.
fn filled(how: &CaseRun, cases: &[InputCase], texts: &[&str]) -> Result<Vec<Vec<Filled>>> {
    let mut bytes = 0;
    let mut one = |case: &InputCase, text: &str| {
        let filled = rendered(how, case, text);
        bytes += filled.as_ref().map_or(0, String::len);
        bytes += case.message.as_ref().map_or(0, String::len);
        if bytes <= MAX_FILLED_BYTES { Ok(filled) } else { Err(too_large()) }
    };
    let mut all = Vec::with_capacity(cases.len());
    for case in cases {
        all.push(texts.iter().copied().map(|text| one(case, text)).collect::<Result<Vec<_>>>()?);
    }
    Ok(all)
}

fn too_large() -> Error {
    Error::conflict(
        "too_many_inputs",
        "the texts, filled in for all inputs, and what judges are sent are too much for one request; \
         shorten them, or have fewer inputs",
    )
}

/// What was spent. A call that serves several answers is made, and counted, once.
#[derive(Default)]
struct Tally {
    counted: HashSet<blake3::Hash>,
    usd: f64,
}

impl Tally {
    /// Counts what the call with these parts cost, if that is known.
    fn add(&mut self, parts: &[&str], usd: Option<f64>) {
        let mut hash = blake3::Hasher::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
        }
        if self.counted.insert(hash.finalize()) {
            self.usd += usd.unwrap_or_default();
        }
    }
}

/// A run in progress.
struct Running<'a> {
    view: &'a View<'a>,
    how: &'a CaseRun<'a>,
    calls: &'a mut Calls,
    tally: Tally,
}

impl Running<'_> {
    /// Why no further input is asked about, given the answers to those before.
    fn stop(&self, answers: &[Option<Vec<CaseAnswer>>]) -> Option<Stop> {
        let last = answers.len().saturating_sub(INPUTS_AT_ONCE);
        let mut last = answers[last..].iter().flatten().flatten().peekable();
        let is_begun = last.peek().is_some();
        match () {
            () if self.tally.usd >= self.how.max_usd => Some(Stop::Cost),
            () if self.calls.bytes() >= MAX_ALL_BYTES => Some(Stop::Bytes),
            () if is_begun && last.all(|answer| answer.has_failed) => Some(Stop::Failures),
            () => None,
        }
    }

    /// The scored answers to an input, one for each text; `None` if one of them is pending or was not asked
    /// for.
    fn answers(&mut self, case: &InputCase, filled: &[Filled]) -> Result<Option<Vec<CaseAnswer>>> {
        let mut answers = Vec::with_capacity(filled.len());
        for text in filled {
            answers.push(self.answer(case, text)?);
        }
        let Some(mut answers) = answers.into_iter().collect::<Option<Vec<CaseAnswer>>>() else {
            return Ok(None);
        };
        for answer in &mut answers {
            self.score(case, answer)?;
        }
        Ok(Some(answers))
    }

    /// Asks for the answer to an input; `None` while it is pending.
    fn answer(&mut self, case: &InputCase, filled: &Filled) -> Result<Option<CaseAnswer>> {
        let (view, how) = (self.view, self.how);
        let text = match filled {
            Ok(text) => text.clone(),
            Err(why) => return Ok(Some(CaseAnswer::without(why.clone()))),
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
        let Some(attempted) = llm_providers::attempt(view, how.provider, &asked, self.calls)?
        else {
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
        let sent: [&str; 2] = [asked.system.as_deref().unwrap_or_default(), &asked.message];
        self.tally.add(&sent, cost_usd);
        let (input_tokens, output_tokens) = (completion.input_tokens, completion.output_tokens);
        let (text, is_cut) = cut(completion.text);
        let text = Some(text);
        let known =
            CaseAnswer { text, is_cut, input_tokens, output_tokens, ..CaseAnswer::default() };
        Ok(Some(CaseAnswer { cost_usd, took_ms, ..known }))
    }

    /// Scores an answer.
    fn score(&mut self, case: &InputCase, answer: &mut CaseAnswer) -> Result<()> {
        let Some(text) = &answer.text else { return Ok(()) };
        let mut scores: Vec<Score> = Vec::new();
        for wanted in &case.expect.contains {
            let passed = Some(text.contains(wanted.as_str()));
            scores.push(Score { criterion: quoted(wanted), passed, reason: None });
        }
        let how = self.how;
        let own = case.expect.judge.iter().map(|question| (question, how.provider));
        let others = how.scorers.iter().map(|scorer| (&scorer.question, &scorer.provider));
        for (question, provider) in own.chain(others) {
            let (passed, reason) =
                match judge::judged(self.view, provider, question, text, self.calls)? {
                    // Not asked; or pending, and the run is discarded.
                    None => (None, Some(NOT_JUDGED.to_string())),
                    Some(judged) => {
                        let id = provider.id.to_string();
                        let sent: [&str; 4] = ["judge", &id, question, text];
                        self.tally.add(&sent, judged.cost_usd);
                        match judged.verdict {
                            Ok((passed, reason)) => (Some(passed), reason),
                            Err(why) => (None, Some(why)),
                        }
                    }
                };
            scores.push(Score { criterion: quoted(question), passed, reason });
        }
        answer.scores = scores;
        Ok(())
    }
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
