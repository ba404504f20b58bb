//! What a search finds, and how much it looks at.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Input, Output, ResourceRef};
use crate::auth::{Caller, Restrictable, Restricted};
use crate::base::{Int, Result, Slug, Text, Version};
use crate::resources::agents::Agent;
use crate::resources::artifacts::ArtifactId;
use crate::resources::knowledge_bases::{Highlight, Language};
use crate::resources::registries::ArtifactType;
use crate::resources::teams::{Task, TaskStatus};
use crate::resources::tools::Tool;
use crate::store::View;

/// Of each kind five are answered by name, and five by text, unless the caller asks for more.
const HITS: usize = 5;
/// Of the texts of a kind no more than 2 MiB are read, so that records of 1 MiB do not make a search too
/// large.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Of all artifacts so many texts are looked at.
pub const MAX_LOOKED_AT_BELOW: usize = 4000;
/// What the caller may not see counts for neither bound, but no more than so many times as much is read.
const HIDDEN: usize = 4;

// ── What callers send and see ────────────────────────────────────────────────

/// What is searched for.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"q": "release"}]))]
pub struct SearchQuery {
    /// An id, or the beginning of a name, a slug, or a word of a title; in scripts without blanks between
    /// words two characters or more from anywhere in it. In texts whole words, `"words in quotes"` and
    /// `begin*`, as in a knowledge base.
    pub q: Text<1, 100>,
    /// The language of the texts, by its code in BCP 47: other forms of a word in it are found in them,
    /// too.
    pub language: Option<Language>,
    /// Only things of this kind. More of them are looked through than where all kinds are.
    pub kind: Option<SearchKind>,
    /// Only what is in the registry or the team with this slug.
    pub within: Option<Slug>,
    /// Whether texts are searched, too; `true` by default. Names alone cost less.
    pub texts: Option<bool>,
    /// How many of each kind are answered, by name and by text; 5 by default.
    pub count: Option<Int<1, 100>>,
    /// How many of each kind are left out, by name and by text, that fit better.
    pub offset: Option<Int<0, 1000>>,
}

impl Input for SearchQuery {}

impl SearchQuery {
    /// What of each kind is answered.
    pub fn slice(&self) -> Slice {
        let number = |number: i64| usize::try_from(number).unwrap_or_default();
        Slice {
            offset: self.offset.map_or(0, |offset| number(offset.get())),
            count: self.count.map_or(HITS, |count| number(count.get())),
        }
    }

    /// Whether things of this kind are asked for.
    pub fn is_for(&self, kind: SearchKind) -> bool {
        let may_be_within = self.within.is_none() || kind.is_within();
        may_be_within && self.kind.is_none_or(|only| only == kind)
    }

    /// How much of each list is looked at.
    pub fn most(&self) -> Amount {
        let is_narrow = self.kind.is_some() || self.within.is_some();
        if is_narrow { Amount::NARROW } else { Amount::WIDE }
    }
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResults {
    /// Kind by kind: at most `count` that are called so, then as many that have the words in their text.
    /// Of the first those that are called exactly so come first, then those whose name begins so, the
    /// newest before; of the others those that fit best.
    pub items: Vec<SearchResult>,
    /// The kinds of which more was found: with `offset` these are answered.
    pub more: Vec<SearchKind>,
}

impl Output for SearchResults {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SearchResult {
    pub kind: SearchKind,
    /// Its id; of an artifact, which has none, its name.
    pub id: String,
    pub name: String,
    /// The slug or stable key by which requests name it, or the number of a task.
    pub key: Option<String>,
    /// The slug of the registry or team that it is in.
    pub within: Option<String>,
    /// The status of a task; null of anything else.
    pub status: Option<TaskStatus>,
    /// The version of an artifact whose text has the words; null if it was found by its name.
    pub version: Option<Version>,
    /// The passage with most of the words; null if it was found by its name.
    pub snippet: Option<String>,
    /// The words in the passage, in characters.
    pub highlights: Vec<Highlight>,
}

/// The kind of something that was found.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SearchKind {
    Registry,
    Prompt,
    Promptlet,
    Agent,
    Fleet,
    Environment,
    Tool,
    Team,
    Task,
    Policy,
    KnowledgeBase,
}

impl SearchKind {
    /// Whether things of this kind are in a registry or a team.
    fn is_within(self) -> bool {
        matches!(self, SearchKind::Prompt | SearchKind::Promptlet | SearchKind::Task)
    }
}

impl SearchResult {
    /// Something of this kind, with what requests and people name it by.
    pub fn new(kind: SearchKind, id: impl ToString, name: impl ToString) -> Self {
        let (id, name) = (id.to_string(), name.to_string());
        let (key, within, version, snippet, highlights) = (None, None, None, None, Vec::new());
        SearchResult { kind, id, name, key, within, status: None, version, snippet, highlights }
    }

    /// What it is about.
    pub fn identity(&self) -> (SearchKind, &str, Option<&str>) {
        (self.kind, &self.id, self.within.as_deref())
    }

    /// Sets the slug, stable key or number.
    pub fn key(self, key: impl ToString) -> Self {
        SearchResult { key: Some(key.to_string()), ..self }
    }

    /// Sets what it is in.
    pub fn within(self, slug: impl ToString) -> Self {
        SearchResult { within: Some(slug.to_string()), ..self }
    }
}

// ── Making results ───────────────────────────────────────────────────────────

/// An artifact that was found in a registry.
pub fn artifact_result(of: &ArtifactId, registry: &str) -> SearchResult {
    let kind = match of.kind {
        ArtifactType::Prompt => SearchKind::Prompt,
        ArtifactType::Promptlet => SearchKind::Promptlet,
    };
    SearchResult::new(kind, &of.name, &of.name).within(registry)
}

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    pub records: usize,
    pub bytes: usize,
}

impl Amount {
    /// Of each list where all kinds are searched: a search costs what a page of a list does.
    const WIDE: Amount = Amount { records: 1000, bytes: MAX_BYTES };
    /// Of each list, and of all together, where one kind is searched.
    const NARROW: Amount = Amount { records: 10_000, bytes: 4 * MAX_BYTES };
    /// How many times as much is looked at in all lists of a kind together, up to [`Amount::NARROW`].
    const LISTS: usize = 4;
    /// In so many registries an artifact is looked for by its whole name.
    pub const REGISTRIES: usize = 1000;

    /// How much of all lists of a kind is looked at, where each has this.
    pub fn of_all_lists(self) -> Amount {
        let Amount { records, bytes } = self;
        Amount { records: Self::LISTS * records, bytes: Self::LISTS * bytes }.at_most(Self::NARROW)
    }

    /// The smaller of both.
    pub fn at_most(self, other: Amount) -> Amount {
        let (records, bytes) = (self.records.min(other.records), self.bytes.min(other.bytes));
        Amount { records, bytes }
    }

    /// What is left of it.
    pub fn without(self, other: Amount) -> Amount {
        Amount {
            records: self.records.saturating_sub(other.records),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Whether nothing more is looked at.
    pub fn is_none(self) -> bool {
        self.records == 0 || self.bytes == 0
    }
}

/// How much was looked at, and how much that may be.
pub struct Bound {
    most: Amount,
    /// What the caller may see.
    pub seen: Amount,
    hidden: Amount,
}

impl Default for Bound {
    fn default() -> Self {
        Bound::new(Amount::WIDE)
    }
}

impl Bound {
    /// A list of which so much is looked at.
    pub fn new(most: Amount) -> Self {
        let none = Amount { records: 0, bytes: 0 };
        Bound { most, seen: none, hidden: none }
    }

    /// Counts a record; says whether it is the last one.
    pub fn count(&mut self, bytes: usize, is_visible: bool) -> ControlFlow<()> {
        let counted = if is_visible { &mut self.seen } else { &mut self.hidden };
        counted.records += 1;
        counted.bytes += bytes;
        let Amount { records, bytes } = self.most;
        let is_full = self.seen.records >= records
            || self.seen.bytes >= bytes
            || self.hidden.records >= HIDDEN * records
            || self.hidden.bytes >= HIDDEN * bytes;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// What of the results of each kind is answered.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    offset: usize,
    count: usize,
}

impl Slice {
    /// Keeps this of the results of each kind, and returns the kinds that have more.
    pub fn cut(self, results: &mut Vec<SearchResult>) -> Vec<SearchKind> {
        let mut counts: BTreeMap<SearchKind, usize> = BTreeMap::new();
        results.retain(|result| {
            let count = counts.entry(result.kind).or_default();
            *count += 1;
            *count > self.offset && *count <= self.offset + self.count
        });
        let is_cut = |(_, count): &(&SearchKind, &usize)| **count > self.offset + self.count;
        counts.iter().filter(is_cut).map(|(kind, _)| *kind).collect()
    }
}

/// A resource, if the caller may use it or anyone may read it.
pub fn visible<T: Restrictable>(
    view: &View,
    caller: &Caller,
    found: Restricted<T>,
) -> Result<Option<T>> {
    if found.is_public() {
        return found.open_to_read(view, Some(caller)).map(Some);
    }
    found.open_if_usable(view, caller)
}

/// An agent that was found.
pub fn agent_result(agent: &Agent) -> SearchResult {
    SearchResult::new(SearchKind::Agent, agent.id, &agent.name).key(&agent.stable_key)
}

/// A task that was found in a team.
pub fn task_result(task: &Task, team: &str) -> SearchResult {
    let result = SearchResult::new(SearchKind::Task, task.id, &task.title);
    SearchResult { status: Some(task.status), ..result.key(task.number).within(team) }
}

/// A tool that was found.
pub fn tool_result(tool: &Tool) -> SearchResult {
    SearchResult::new(SearchKind::Tool, tool.id, &tool.name)
}
