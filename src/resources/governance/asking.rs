//! Asking a model about an input, and scoring its answer by what the input expects and by judges.

use std::collections::HashSet;

use super::super::llm_providers::{self, Attempt, Cost, LlmProvider};
use super::cases::{CaseAnswer, CaseRun, InputCase, Score};
use super::judge;
use super::rules::quoted;
use crate::api::Calls;
use crate::base::{Error, Result};
use crate::store::View;
use crate::templates::{self, Rendering};

/// The time for one answer.
const ANSWER_SECS: u64 = 60;

/// The longest answer, in tokens.
const MAX_TOKENS: u32 = 4096;

/// Of an answer so many bytes are judged and shown.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Once all that was sent and answered has so many bytes, no further input is asked about.
pub const MAX_ALL_BYTES: usize = 32 * 1024 * 1024;

/// The filled texts have at most 16 MiB together: JSON may double what is sent.
const MAX_FILLED_BYTES: usize = 16 * 1024 * 1024;

/// Why a judge was not asked about an answer.
const NOT_JUDGED: &str = "it was not asked: the run had ended";

/// A text with the values of an input, or why it cannot be asked about.
pub type Filled = Result<String, String>;

/// Fills each text with the values of each input, and hands it on.
///
/// # Errors
/// 409 if that is too much to be sent; 413 if it is too much for a transaction.
pub fn fill(
    view: &View,
    how: &CaseRun,
    cases: &[InputCase],
    texts: &[&str],
    mut each: impl FnMut(Filled),
) -> Result<()> {
    let mut bytes = 0;
    for case in cases {
        for text in texts {
            let filled = rendered(how, case, text);
            let length = filled.as_ref().map_or(0, String::len);
            bytes += length + case.message.as_ref().map_or(0, String::len);
            if bytes > MAX_FILLED_BYTES {
                return Err(too_large());
            }
            view.charge(length)?;
            each(filled);
        }
    }
    Ok(())
}

/// The error of inputs that are too much.
pub fn too_large() -> Error {
    Error::conflict(
        "too_many_inputs",
        "the texts, filled in for all inputs, and what judges are sent are too much for one request; \
         shorten them, or have fewer inputs",
    )
}

/// The text with the values of an input.
///
/// # Errors
/// Why it cannot be asked about, as a sentence without full stop.
pub fn rendered(how: &CaseRun, case: &InputCase, compiled: &str) -> Filled {
    let value = |name: &str| case.variables.get(name).or_else(|| how.values.get(name)).cloned();
    let Rendering { text, missing } = templates::render(compiled, value)
        .map_err(|why| format!("the values of the input {why}"))?;
    match missing.first() {
        None => Ok(text),
        Some(name) => Err(format!("the input has no value for the variable {name}")),
    }
}

/// What was spent. A call that serves several answers is made, and counted, once.
#[derive(Default)]
pub struct Tally {
    counted: HashSet<blake3::Hash>,
    pub usd: f64,
    /// Why something has a cost that is not known; none if all is.
    pub note: Option<String>,
}

impl Tally {
    /// Counts what the call with these parts cost, if that is known.
    fn add(&mut self, parts: &[&str], Cost { usd, note }: &Cost) {
        let mut hash = blake3::Hasher::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
        }
        if self.counted.insert(hash.finalize()) {
            self.usd += usd.unwrap_or_default();
            self.note = self.note.take().or_else(|| note.clone());
        }
    }
}

/// Asks about inputs, in one run of an operation.
pub struct Asking<'a> {
    pub view: &'a View<'a>,
    pub how: &'a CaseRun<'a>,
    pub calls: &'a mut Calls,
    pub tally: Tally,
}

impl Asking<'_> {
    /// The scored answers to an input, one for each text; `None` if one of them is pending or was not asked
    /// for.
    ///
    /// # Errors
    /// 500 if the key of a provider cannot be read.
    pub fn answers(
        &mut self,
        case: &InputCase,
        filled: &[Filled],
    ) -> Result<Option<Vec<CaseAnswer>>> {
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
        let Some(reply) = llm_providers::ask(view, how.provider, &asked, self.calls)? else {
            return Ok(None);
        };
        let took_ms = u64::try_from(reply.took.as_millis()).unwrap_or(u64::MAX);
        let completion = match reply.completion() {
            Ok(completion) => completion,
            Err(why) => {
                let error = llm_providers::failure(how.provider, &why);
                let answer = CaseAnswer { took_ms, has_failed: true, ..CaseAnswer::without(error) };
                return Ok(Some(answer));
            }
        };
        let cost = llm_providers::cost(view, how.provider, &asked, &completion)?;
        let sent: [&str; 2] = [asked.system.as_deref().unwrap_or_default(), &asked.message];
        self.tally.add(&sent, &cost);
        let (input_tokens, output_tokens) = (completion.input_tokens, completion.output_tokens);
        let (text, is_cut) = cut(completion.text);
        let text = Some(text);
        let known =
            CaseAnswer { text, is_cut, input_tokens, output_tokens, ..CaseAnswer::default() };
        Ok(Some(CaseAnswer { cost_usd: cost.usd, took_ms, ..known }))
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
            let (passed, reason) = self.judged(provider, question, text)?;
            scores.push(Score { criterion: quoted(question), passed, reason });
        }
        answer.scores = scores;
        Ok(())
    }

    /// What a judge says of an answer, and why.
    fn judged(
        &mut self,
        provider: &LlmProvider,
        question: &str,
        text: &str,
    ) -> Result<(Option<bool>, Option<String>)> {
        let Some(judged) = judge::judged(self.view, provider, question, text, self.calls)? else {
            // Not asked; or pending, and the run is discarded.
            return Ok((None, Some(NOT_JUDGED.to_string())));
        };
        let id = provider.id.to_string();
        let sent: [&str; 4] = ["judge", &id, question, text];
        self.tally.add(&sent, &judged.cost);
        Ok(match judged.verdict {
            Ok((passed, reason)) => (Some(passed), reason),
            Err(why) => (None, Some(why)),
        })
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
