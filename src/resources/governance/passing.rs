//! `passesInputs`: how many of a prompt's inputs must be answered as they expect for a version to be
//! published.

use super::cases::{CaseAnswer, CaseRun, InputCase, Stop};
use super::judge;
use super::policy::Policy;
use super::rules::{PolicyRule, RuleValue, quoted};
use super::running;
use crate::api::Calls;
use crate::base::{Error, Kind, Result, StringMap};
use crate::store::View;

/// The time for inputs and judges of one request: clients wait for a publication, most of them less than
/// a minute and a half.
pub const EVALUATION_SECS: u64 = 60;

/// The answers to the inputs of the texts that are published together may cost 1 US dollar, as far as
/// prices are known, which is looked at after each ten inputs. Each policy with this rule has as much, and so
/// have each prompt of an import and each part of a large clone: it bounds mistakes, not a bill.
const MAX_USD: f64 = 1.0;

/// Inputs that a message names.
const MAX_NAMED: usize = 3;

/// Reads the inputs of what is published.
pub type InputSource<'a> = &'a dyn Fn(&View) -> Result<Vec<InputCase>>;

/// What a version is run on.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub source: InputSource<'a>,
    /// How many texts are published together, which share what the answers to a policy may cost.
    pub texts: usize,
}

/// Returns how a compiled text violates the rule of a policy, as a phrase. `None` as well while answers
/// are pending; the run is discarded then.
///
/// # Errors
/// 502 if a model cannot be asked about all inputs; 409 if they are too much for a request.
pub fn violation(
    view: &View,
    policy: &Policy,
    rule: &PolicyRule,
    (inputs, text): (&Inputs, &str),
    calls: &mut Calls,
) -> Result<Option<String>> {
    let RuleValue::Number(percent) = rule.value else { return Ok(None) };
    let mut cases = (inputs.source)(view)?;
    // Any answer would pass them.
    cases.retain(|case| !case.expect.is_empty());
    if cases.is_empty() {
        let message = format!(
            "must pass {percent}% of its inputs, and has none that expects something: add inputs to the \
             prompt, with what a good answer has"
        );
        return Ok(Some(message));
    }
    let unavailable = |why: &str| {
        let message = format!("the inputs of the policy \"{}\" cannot be run: {why}", policy.name);
        Error::new(Kind::Upstream, "llm_provider_failed", message)
    };
    let provider =
        judge::provider_of(view, rule)?.ok_or_else(|| unavailable(judge::NO_PROVIDER))?;
    let max_usd = MAX_USD / inputs.texts.max(1) as f64;
    let values = StringMap::new();
    let how = CaseRun { provider: &provider, model: None, values: &values, scorers: &[], max_usd };
    let results = running::run(view, &how, &cases, &[text], calls)?;
    if calls.has_pending() {
        return Ok(None);
    }
    let answers: Vec<Option<&CaseAnswer>> =
        results.answers.iter().map(|all| all.as_ref().and_then(|all| all.first())).collect();
    let failed = answers.iter().flatten().find(|answer| answer.has_failed);
    if let Some(why) = failed.and_then(|answer| answer.error.as_deref()) {
        return Err(unavailable(why));
    }
    let question = answers.iter().flatten().find_map(|answer| unjudged(answer));
    let has_ended = matches!(results.stop, Some(Stop::Cost | Stop::Bytes));
    if answers.iter().any(Option::is_none) || has_ended && question.is_some() {
        return Err(unavailable(
            "the answers cost or are more than a publication may; have fewer inputs, or choose \
             another config.model",
        ));
    }
    if let Some(question) = question {
        return Err(unavailable(&question));
    }
    Ok(message(percent, &cases, &answers))
}

/// Why an answer could not be judged.
fn unjudged(answer: &CaseAnswer) -> Option<String> {
    let score = answer.scores.iter().find(|score| score.passed.is_none())?;
    let why = score.reason.as_deref().unwrap_or("it has no verdict");
    Some(format!("the judge of {}: {why}", score.criterion))
}

/// What is said if fewer inputs pass than must.
fn message(percent: u64, cases: &[InputCase], answers: &[Option<&CaseAnswer>]) -> Option<String> {
    let passed = answers.iter().flatten().filter(|answer| answer.passed()).count();
    if passed as u64 * 100 >= percent * cases.len() as u64 {
        return None;
    }
    let problems = cases.iter().zip(answers).filter_map(|(case, answer)| {
        let problem = answer.as_ref()?.problem()?;
        Some(format!("{}: {problem}", quoted(&case.name)))
    });
    let problems: Vec<String> = problems.take(MAX_NAMED).collect();
    Some(format!(
        "must pass {percent}% of its inputs; {passed} of {} pass ({})",
        cases.len(),
        problems.join("; ")
    ))
}
