//! Comparing two texts of a prompt on its inputs: a model answers each input by both, and what got better or
//! worse is told by what the inputs expect and by the judges of the registry's policies. Nothing is kept.

use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draft::Draft;
use super::input::{cases_of, prompt};
use super::label_history::audited_artifact;
use super::prompts::variables_of;
use super::trying::subject::{Subject, Tried, subject};
use crate::api::{
    Batch, BatchEnd, Calls, Input, OrgSource, Output, PreparedBatch, Principal, Req, Resource,
    ResourceRef, Route, op,
};
use crate::auth::{Caller, MEMBER, ScopeName};
use crate::base::{
    BoundedList, Error, Id, Int, Issue, Prompt, Result, Slug, StringMap, Text, Usd, Version,
};
use crate::resources::governance::{
    self, AskedCase, CaseAnswer, CaseBatch, CaseResults, CaseRun, InputCase, Scorer, Stop,
};
use crate::resources::llm_providers::{self, LlmProvider};
use crate::resources::registries::{self, Registry};
use crate::store::View;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The time that a comparison takes at most if it says nothing, in seconds.
const DEFAULT_SECS: u64 = 120;

/// What it may cost in US dollars if it says nothing.
const DEFAULT_USD: f64 = 1.0;

/// Judges of policies: each is asked about each answer, which are up to a hundred.
const MAX_SCORERS: usize = 10;

// ── What callers send and see ────────────────────────────────────────────────

/// One of two texts that are compared: at most one of its fields; the newest version without any.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedSide {
    /// A version, a range or a label.
    version: Option<String>,
    /// A draft of the prompt.
    draft_id: Option<Id<Draft>>,
    /// A text that is not saved, in the template language.
    source: Option<Prompt>,
}

impl ComparedSide {
    fn check(&self, name: &str, issues: &mut Vec<Issue>) {
        let given = [self.version.is_some(), self.draft_id.is_some(), self.source.is_some()];
        if given.iter().filter(|given| **given).count() > 1 {
            let message = "must have one of version, draftId and source, or none";
            issues.push(Issue::new(name, message));
        }
    }

    fn tried(&self) -> Tried<'_> {
        let source = self.source.as_ref().map(|source| source.as_str());
        Tried { version: self.version.as_deref(), draft: self.draft_id, source }
    }
}

/// Two texts of a prompt to compare on its inputs.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "left": {"version": "live"},
        "right": {"version": "1.1.0"}}],
))]
pub struct CompareRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// What it is compared with: that which is live, for example.
    left: ComparedSide,
    /// What may be better or worse.
    right: ComparedSide,
    /// The inputs, by name; all of the prompt if absent.
    inputs: Option<BoundedList<Slug, 1, 50>>,
    /// The LLM provider that answers; the default one if absent.
    llm_provider_id: Option<Id<LlmProvider>>,
    /// The model that answers, and whose texts are taken where there are some; if absent that of the
    /// provider, and the texts for every model.
    model: Option<Text<1, 200>>,
    /// An environment, by id or slug, that supplies the values which an input lacks.
    environment: Option<String>,
    /// Whether the judges of the registry's policies score each answer, too; true if absent.
    judges: Option<bool>,
    /// Once the answers and their judges cost this much, in US dollars, no further input is run; 1 if
    /// absent. Those that are under way then, three at most, are ended, and may cost more.
    max_cost_usd: Option<Usd>,
    /// The time for all answers, in seconds; 120 if absent.
    max_seconds: Option<Int<1, 300>>,
}

impl Input for CompareRequest {
    fn check(&self, issues: &mut Vec<Issue>) {
        self.left.check("left", issues);
        self.right.check("right", issues);
    }
}

/// One of two texts that were compared.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedText {
    /// What it is: a version, a draft, or a text that is not saved.
    name: String,
    /// The version; null if it is none.
    version: Option<Version>,
}

/// Whether the right answer is better than the left one, in the order of what to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InputChange {
    /// Less of what is expected is there.
    Worse,
    /// One of them was not run, or not answered or judged.
    Unknown,
    /// More of what is expected is there.
    Better,
    /// As much is there.
    Same,
}

/// What was answered to an input by both texts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedInput {
    /// The name of the input.
    input: Slug,
    /// The answer by the left text; null if it was not run.
    left: Option<CaseAnswer>,
    /// The answer by the right text; null if it was not run.
    right: Option<CaseAnswer>,
    change: InputChange,
}

/// Two texts of a prompt, compared on its inputs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputComparison {
    left: ComparedText,
    right: ComparedText,
    /// The LLM provider that answered.
    llm_provider_id: Id<LlmProvider>,
    /// Each input: those that got worse first, then those of which it cannot be told, the better ones and the
    /// others, each by name.
    inputs: Vec<ComparedInput>,
    /// How many got better.
    better: usize,
    /// How many got worse.
    worse: usize,
    /// How many are as good.
    same: usize,
    /// Of how many it cannot be told.
    unknown: usize,
    /// What it cost in US dollars, judges included, as far as prices are known.
    cost_usd: f64,
    /// Why it cost more than that, which nothing limits then; null if all prices are known.
    cost_note: Option<String>,
    /// Why not all inputs were run; null if they were.
    stopped: Option<Stop>,
}

impl Output for InputComparison {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operation ────────────────────────────────────────────────────────────────

/// What a comparison is made of.
struct Prepared {
    registry: Id<Registry>,
    sides: [Subject; 2],
    cases: Vec<InputCase>,
    provider: LlmProvider,
    model: Option<String>,
    /// What the values were read of.
    environment: Option<String>,
    values: StringMap,
    scorers: Vec<Scorer>,
    max_usd: f64,
    /// Whether one of both is a draft, which not every key reads.
    has_draft: bool,
    /// The artifact, as the audit log names it.
    artifact: ResourceRef,
}

impl Prepared {
    fn how(&self) -> CaseRun<'_> {
        CaseRun {
            provider: &self.provider,
            model: self.model.as_deref(),
            values: &self.values,
            scorers: &self.scorers,
            max_usd: self.max_usd,
        }
    }

    fn texts(&self) -> [&str; 2] {
        self.sides.each_ref().map(|side| side.compiled.as_str())
    }

    /// Requires that a caller may read what is sent, still.
    ///
    /// # Errors
    /// 403 or 404 otherwise.
    fn require_allowed(&self, view: &View, caller: &Caller) -> Result<()> {
        let registry = registries::require_usable(view, caller, &self.registry.to_string())?;
        if self.has_draft {
            let target = registries::scope_target(&registry);
            caller.require_scope(ScopeName::DraftRead, Some(&target))?;
        }
        values(view, caller, self.environment.as_deref()).map(drop)
    }

    /// Whether all that are asked are asked where they were at the beginning, with the same keys.
    fn is_current(&self, view: &View) -> Result<bool> {
        for provider in self.scorers.iter().map(|scorer| &scorer.provider).chain([&self.provider]) {
            if !provider.is_current(view)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A comparison under way.
struct Comparing {
    prepared: Prepared,
    /// Locked while something is noted, not while texts are filled in.
    run: Mutex<CaseBatch>,
}

impl Comparing {
    /// Nothing is noted in part, so that a panic elsewhere leaves it whole.
    fn run(&self) -> MutexGuard<'_, CaseBatch> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what is sent to which provider.
fn compare(view: &View, req: &Req<String, CompareRequest>) -> Result<PreparedBatch<Comparing>> {
    let prepared = prepare(view, req)?;
    let run = CaseBatch::new(view, &prepared.how(), &prepared.cases, &prepared.texts())?;
    let seconds = req.input.max_seconds.map_or(DEFAULT_SECS, |secs| secs.get().unsigned_abs());
    let server = *prepared.provider.id.bytes();
    let time = Duration::from_secs(seconds);
    let batch = Comparing { prepared, run: Mutex::new(run) };
    Ok(PreparedBatch { batch, server, time })
}

impl Batch for Comparing {
    type Item = ComparedInput;
    type Answer = InputComparison;

    fn next(&self) -> Option<usize> {
        self.run().begin()
    }

    fn run(
        &self,
        view: &View,
        who: &Principal,
        index: usize,
        calls: &mut Calls,
    ) -> Result<Option<ComparedInput>> {
        let prepared = &self.prepared;
        let Principal::Caller(caller) = who else {
            return Err(Error::internal("prompts are compared by callers"));
        };
        prepared.require_allowed(view, caller)?;
        let is_current = prepared.is_current(view)?;
        if !is_current {
            // What was answered until now is kept.
            calls.close();
        }
        let case = &prepared.cases[index];
        let asked = AskedCase::ask(view, &prepared.how(), case, &prepared.texts(), calls)?;
        let answers = asked.answers.clone();
        let is_over = answers.is_some() || asked.is_too_large || !is_current;
        let mut run = self.run();
        // If all was asked before it was changed, nothing is missing.
        if calls.is_cut() {
            run.end(Stop::Changed);
        }
        // It is more than may be sent for one input.
        if asked.is_too_large {
            run.end(Stop::Bytes);
        }
        run.keep(index, asked);
        Ok(is_over.then(|| compared(case.name.clone(), answers)))
    }

    fn conclude(&self, end: BatchEnd) -> Result<InputComparison> {
        let results = self.run().results(end);
        Ok(comparison(&self.prepared, results))
    }

    /// The prompt, both texts, the provider, and how many inputs were answered; never a text.
    fn audited(&self) -> ResourceRef {
        let Prepared { sides, cases, provider, artifact, .. } = &self.prepared;
        let [left, right] = sides.each_ref().map(|side| &side.name);
        let (run, all, provider) = (self.run(), cases.len(), provider.audited());
        let end = if run.is_to_begin() {
            ", to begin".to_string()
        } else {
            format!(", {} of {all} inputs", run.answered())
        };
        artifact.clone().with_detail(format!("{left} and {right} on inputs, {provider}{end}"))
    }
}

fn prepare(view: &View, req: &Req<String, CompareRequest>) -> Result<Prepared> {
    let input = &req.input;
    let registry = registries::require_usable(view, req.caller(), &input.registry_ref)?;
    let of = prompt(&registry, &req.params)?;
    let model = input.model.as_deref();
    let side = |name: &'static str, side: &ComparedSide| {
        subject(view, req.caller(), &registry, &of, &side.tried(), model)
            .map_err(|error| error.below(name))
    };
    let sides = [side("left", &input.left)?, side("right", &input.right)?];
    let values = values(view, req.caller(), input.environment.as_deref())?;
    let cases = selected(cases_of(view, &of)?, input.inputs.as_deref())?;
    let provider = llm_providers::chosen(view, input.llm_provider_id)?;
    let scorers = match input.judges {
        Some(false) => Vec::new(),
        _ => governance::scorers(view, registry.id)?,
    };
    if scorers.len() > MAX_SCORERS {
        return Err(Error::conflict(
            "too_many_judges",
            "the policies of the registry have more than 10 judges; send judges: false to compare \
             without them",
        ));
    }
    let model = input.model.as_deref().map(String::from);
    let max_usd = input.max_cost_usd.map_or(DEFAULT_USD, Usd::get);
    let artifact = audited_artifact(&registry, &of);
    Ok(Prepared {
        registry: registry.id,
        sides,
        cases,
        provider,
        model,
        environment: input.environment.as_deref().map(String::from),
        values,
        scorers,
        max_usd,
        has_draft: [&input.left, &input.right].iter().any(|side| side.tried().draft.is_some()),
        artifact,
    })
}

/// The inputs of these names, or all.
///
/// # Errors
/// 404 if there is none of a name; 409 if the prompt has none at all.
fn selected(all: Vec<InputCase>, names: Option<&[Slug]>) -> Result<Vec<InputCase>> {
    if all.is_empty() {
        let message = "the prompt has no inputs to be compared on; create one first";
        return Err(Error::conflict("no_inputs", message));
    }
    let Some(names) = names else { return Ok(all) };
    if names.iter().any(|name| all.iter().all(|case| case.name != *name)) {
        return Err(Error::no_such("input").at("inputs"));
    }
    Ok(all.into_iter().filter(|case| names.contains(&case.name)).collect())
}

fn values(view: &View, caller: &Caller, environment: Option<&str>) -> Result<StringMap> {
    match environment {
        Some(reference) => variables_of(view, caller, reference),
        None => Ok(StringMap::new()),
    }
}

fn comparison(prepared: &Prepared, results: CaseResults) -> InputComparison {
    let side =
        |side: &Subject| ComparedText { name: side.name.clone(), version: side.version.clone() };
    let [left, right] = prepared.sides.each_ref().map(side);
    let mut inputs: Vec<ComparedInput> = prepared
        .cases
        .iter()
        .zip(results.answers)
        .map(|(case, answers)| compared(case.name.clone(), answers))
        .collect();
    // Whoever takes the beginning alone learns what matters.
    inputs.sort_by_key(|one| one.change);
    let count = |wanted: InputChange| inputs.iter().filter(|one| one.change == wanted).count();
    InputComparison {
        better: count(InputChange::Better),
        worse: count(InputChange::Worse),
        same: count(InputChange::Same),
        unknown: count(InputChange::Unknown),
        left,
        right,
        llm_provider_id: prepared.provider.id,
        cost_usd: (results.cost_usd * 1e9).round() / 1e9,
        cost_note: results.cost_note,
        stopped: results.stop,
        inputs,
    }
}

fn compared(input: Slug, answers: Option<Vec<CaseAnswer>>) -> ComparedInput {
    let mut answers = answers.into_iter().flatten();
    let (left, right) = (answers.next(), answers.next());
    let change = match (&left, &right) {
        (Some(left), Some(right)) => change(left, right),
        _ => InputChange::Unknown,
    };
    ComparedInput { input, left, right, change }
}

/// An input that cannot be filled in counts as an answer that has nothing; that a provider or a judge
/// fails says nothing of a text.
fn change(left: &CaseAnswer, right: &CaseAnswer) -> InputChange {
    if left.is_unknown() || right.is_unknown() {
        return InputChange::Unknown;
    }
    let rank = |answer: &CaseAnswer| (answer.error.is_none(), answer.points());
    match rank(right).cmp(&rank(left)) {
        Ordering::Greater => InputChange::Better,
        Ordering::Less => InputChange::Worse,
        Ordering::Equal => InputChange::Same,
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/prompts/{promptName}/compare",
            MEMBER,
            "prompt.compare",
            op::batch("input", compare),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
        .needs(ScopeName::LlmProviderTest)
        // What is compared is not kept.
        .no_replay()
        .costly()
        .about("Compare two texts on the prompt's inputs"),
    ]
}
