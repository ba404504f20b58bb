//! Running texts on inputs: all of them in one operation, for a publication, or each by itself, for a
//! comparison.

use super::asking::{Asking, Filled, MAX_ALL_BYTES, Tally, fill, rendered, too_large};
use super::cases::{CaseAnswer, CaseResults, CaseRun, InputCase, Stop};
use crate::api::{BatchEnd, Calls};
use crate::base::Result;
use crate::store::View;

/// Inputs that are asked about together in one operation: a request has 16 rounds of calls, 50 inputs take 5,
/// their judges one more, and each may take two where a provider has its API at another path.
const INPUTS_AT_ONCE: usize = 10;

/// Once the provider has failed for so many inputs one after another, no further one is asked about.
const MAX_FAILED: usize = 10;

/// Runs these compiled texts on inputs. While answers are pending, the result is meaningless and the run
/// is discarded.
///
/// Inputs are asked about a few at a time, so that a run ends soon after it has cost what it may. What an
/// earlier round has answered is known in each later run of the operation, and so is where it stopped. What
/// judges cost is known a round later, when the next inputs are answered already: they are paid, so they
/// are counted.
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
    let mut filled: Vec<Filled> = Vec::with_capacity(cases.len() * texts.len());
    fill(view, how, cases, texts, |one| filled.push(one))?;
    let mut stop = None;
    let mut asking = Asking { view, how, calls, tally: Tally::default() };
    let mut answers = Vec::with_capacity(cases.len());
    let all: Vec<(&InputCase, &[Filled])> =
        cases.iter().zip(filled.chunks(texts.len().max(1))).collect();
    for some in all.chunks(INPUTS_AT_ONCE) {
        if stop.is_none() {
            stop = stopped(&asking, &answers);
            if stop.is_some() {
                asking.calls.close();
            }
        }
        for (case, filled) in some {
            answers.push(asking.answers(case, filled)?);
        }
        if stop.is_none() && answers.iter().any(Option::is_none) {
            // They are pending, and what follows depends on what they cost.
            break;
        }
    }
    asking.calls.reopen();
    if asking.calls.is_too_much() {
        return Err(too_large());
    }
    if asking.calls.is_late() {
        stop = Some(Stop::Seconds);
    }
    answers.resize(cases.len(), None);
    let Tally { usd: cost_usd, note: cost_note, .. } = asking.tally;
    Ok(CaseResults { answers, cost_usd, cost_note, stop })
}

/// Why no further input is asked about, given the answers to those before.
fn stopped(asking: &Asking, answers: &[Option<Vec<CaseAnswer>>]) -> Option<Stop> {
    let last = answers.len().saturating_sub(INPUTS_AT_ONCE);
    let mut last = answers[last..].iter().flatten().flatten().peekable();
    let has_failed = last.peek().is_some() && last.all(|answer| answer.has_failed);
    why_stopped(asking.tally.usd, asking.how.max_usd, asking.calls.bytes(), has_failed)
}

fn why_stopped(usd: f64, max_usd: f64, bytes: usize, has_failed: bool) -> Option<Stop> {
    match () {
        () if usd >= max_usd => Some(Stop::Cost),
        () if bytes >= MAX_ALL_BYTES => Some(Stop::Bytes),
        () if has_failed => Some(Stop::Failures),
        () => None,
    }
}

/// Inputs that are run each by itself: of those that are done the answers alone are held.
pub struct CaseBatch {
    /// What came of each input until now.
    asked: Vec<Option<AskedCase>>,
    begun: usize,
    max_usd: f64,
    /// Inputs that the provider failed for, one after another, as they were done.
    failed: usize,
    stop: Option<Stop>,
}

/// What came of an input until now.
pub struct AskedCase {
    /// None while some are missing, or if more would be sent than may be.
    pub answers: Option<Vec<CaseAnswer>>,
    pub is_too_large: bool,
    /// What was answered has cost so much, and so many bytes were sent and answered.
    usd: f64,
    /// Why it has a cost that is not known, too.
    cost_note: Option<String>,
    bytes: usize,
}

impl AskedCase {
    /// Asks about an input.
    ///
    /// # Errors
    /// 500 if the key of a provider cannot be read.
    pub fn ask(
        view: &View,
        how: &CaseRun,
        case: &InputCase,
        texts: &[&str],
        calls: &mut Calls,
    ) -> Result<Self> {
        let filled: Vec<Filled> = texts.iter().map(|text| rendered(how, case, text)).collect();
        let mut asking = Asking { view, how, calls, tally: Tally::default() };
        let answers = asking.answers(case, &filled)?;
        let Tally { usd, note: cost_note, .. } = asking.tally;
        let (bytes, is_too_large) = (calls.bytes(), calls.is_too_much());
        let answers = answers.filter(|_| !is_too_large && !calls.has_pending());
        Ok(AskedCase { answers, is_too_large, usd, cost_note, bytes })
    }
}

impl CaseBatch {
    /// A run of these texts on inputs, of which none was asked about.
    ///
    /// # Errors
    /// 409 if the texts are too long for so many inputs.
    pub fn new(view: &View, how: &CaseRun, cases: &[InputCase], texts: &[&str]) -> Result<Self> {
        // They are filled in again when they are sent: all at once take too much memory.
        fill(view, how, cases, texts, |_| {})?;
        let asked = cases.iter().map(|_| None).collect();
        Ok(CaseBatch { asked, begun: 0, max_usd: how.max_usd, failed: 0, stop: None })
    }

    /// Begins with the next input; returns its index; `None` if there is none, or the run has ended.
    pub fn begin(&mut self) -> Option<usize> {
        if self.begun == self.asked.len() {
            return None;
        }
        let bytes = self.asked.iter().flatten().map(|case| case.bytes).sum();
        let has_failed = self.failed >= MAX_FAILED;
        self.stop = self.stop.or_else(|| why_stopped(self.usd(), self.max_usd, bytes, has_failed));
        if self.stop.is_some() {
            return None;
        }
        self.begun += 1;
        Some(self.begun - 1)
    }

    /// Keeps what came of an input until now; of one that was run again, what came of it last. What it has
    /// cost counts though it is not answered in the end.
    pub fn keep(&mut self, index: usize, mut case: AskedCase) {
        let mut is_new = true;
        if let Some(before) = self.asked[index].take() {
            // If it is too much, what was answered before is not seen again.
            case.usd = case.usd.max(before.usd);
            case.cost_note = case.cost_note.or(before.cost_note);
            is_new = before.answers.is_none();
        }
        if let Some(answers) = case.answers.as_ref().filter(|_| is_new) {
            let has_failed = answers.iter().all(|answer| answer.has_failed);
            self.failed = if has_failed { self.failed + 1 } else { 0 };
        }
        self.asked[index] = Some(case);
    }

    /// Begins with no further input, for this reason if there was none before.
    pub fn end(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
    }

    /// Whether no input was asked about yet.
    pub fn is_to_begin(&self) -> bool {
        self.begun == 0
    }

    /// How many inputs were answered, by all texts.
    pub fn answered(&self) -> usize {
        let has_all =
            |answers: &&Vec<CaseAnswer>| answers.iter().all(|answer| answer.error.is_none());
        self.answers().flatten().filter(has_all).count()
    }

    fn answers(&self) -> impl Iterator<Item = Option<&Vec<CaseAnswer>>> {
        self.asked.iter().map(|case| case.as_ref()?.answers.as_ref())
    }

    fn usd(&self) -> f64 {
        self.asked.iter().flatten().map(|case| case.usd).sum()
    }

    /// Whether anything is missing that more time may have brought.
    fn lacks_any(&self) -> bool {
        let lacks = |of: Option<&Vec<CaseAnswer>>| {
            of.is_none_or(|of| of.iter().any(CaseAnswer::is_unknown))
        };
        self.answers().any(lacks)
    }

    /// What came of it until now.
    pub fn results(&self, end: BatchEnd) -> CaseResults {
        let stop = match end {
            // All may have been answered just in time, or to a client that took it too slowly.
            BatchEnd::Late if self.lacks_any() => self.stop.or(Some(Stop::Seconds)),
            BatchEnd::Late | BatchEnd::Whole => self.stop,
            BatchEnd::Refused => self.stop.or(Some(Stop::Busy)),
        };
        CaseResults {
            answers: self.answers().map(Option::<&_>::cloned).collect(),
            cost_usd: self.usd(),
            cost_note: self.asked.iter().flatten().find_map(|case| case.cost_note.clone()),
            stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::Score;
    use super::*;

    /// A batch of so many inputs, of which all were begun.
    fn begun(inputs: usize) -> CaseBatch {
        let asked = (0..inputs).map(|_| None).collect();
        CaseBatch { asked, begun: inputs, max_usd: 1.0, failed: 0, stop: None }
    }

    fn case(answers: Option<Vec<CaseAnswer>>, usd: f64) -> AskedCase {
        let is_too_large = answers.is_none();
        AskedCase { answers, is_too_large, usd, cost_note: None, bytes: 0 }
    }

    #[test]
    fn what_an_input_has_cost_counts_though_it_is_not_answered() {
        let mut batch = begun(2);
        for (usd, note) in [(0.5, Some("no price of small")), (0.25, None)] {
            let cost_note = note.map(String::from);
            batch.keep(0, AskedCase { cost_note, ..case(None, usd) });
        }
        batch.keep(1, case(Some(Vec::new()), 0.25));
        let results = batch.results(BatchEnd::Refused);
        assert_eq!(results.answers, [None, Some(Vec::new())]);
        assert_eq!((results.cost_usd, results.stop), (0.75, Some(Stop::Busy)));
        assert_eq!(results.cost_note.as_deref(), Some("no price of small"));
    }

    #[test]
    fn the_time_that_is_up_is_named_only_if_something_is_missing() {
        let scored = |passed| {
            let score = Score { criterion: "it helps".into(), passed, reason: None };
            CaseAnswer { scores: vec![score], ..CaseAnswer::default() }
        };
        let failed = CaseAnswer { has_failed: true, ..CaseAnswer::default() };
        let cannot = CaseAnswer::without("the input has no value for a variable".into());
        let seconds = Some(Stop::Seconds);
        for (answers, stop) in [
            (Some(vec![scored(Some(true)), scored(Some(false))]), None),
            (Some(vec![scored(Some(true)), cannot]), None),
            (Some(vec![scored(Some(true)), scored(None)]), seconds),
            (Some(vec![scored(Some(true)), failed]), seconds),
            (None, seconds),
        ] {
            let mut batch = begun(1);
            batch.keep(0, case(answers.clone(), 0.0));
            assert_eq!(batch.results(BatchEnd::Late).stop, stop, "{answers:?}");
            batch.end(Stop::Changed);
            let first = Some(Stop::Changed);
            assert_eq!(
                batch.results(BatchEnd::Late).stop,
                first,
                "what ended it first: {answers:?}"
            );
        }
        assert_eq!(begun(1).results(BatchEnd::Late).stop, seconds, "nothing was asked");
    }
}
