//! What a search finds, and how much it looks at.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Input, Output, ResourceRef};
use crate::auth::{Caller, Restrictable, Restricted};
use crate::base::{Result, Text, Version};
use crate::resources::agents::Agent;
use crate::resources::artifacts::ArtifactId;
use crate::resources::knowledge_bases::{Highlight, Language};
use crate::resources::registries::ArtifactType;
use crate::resources::tools::Tool;
use crate::store::View;

/// Of each kind five are answered by name, and five by text: a sixth is found by typing on.
const MAX_HITS: usize = 5;
/// Of each kind, and of the tasks and artifacts of each team and registry, the newest 1,000 are looked
/// at: a search costs what a page of a list does.
const MAX_LOOKED_AT: usize = 1000;
/// Of each list no more than 2 MiB are read, so that records of 1 MiB do not make a search too large.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Of all artifacts and tasks, so many are looked at.
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
}

impl Input for SearchQuery {}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResults {
    /// Kind by kind: at most five that are called so, then at most five that have the words in their text.
    /// Of the first those that are called exactly so come first, then those whose name begins so, the
    /// newest before; of the others those that fit best.
    pub items: Vec<SearchResult>,
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
    /// The version of an artifact whose text has the words; null if it was found by its name.
    pub version: Option<Version>,
    /// The passage with most of the words; null if it was found by its name.
    pub snippet: Option<String>,
    /// The words in the passage, in characters.
    pub highlights: Vec<Highlight>,
}

/// The kind of something that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
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

impl SearchResult {
    /// Something of this kind, with what requests and people name it by.
    pub fn new(kind: SearchKind, id: impl ToString, name: impl ToString) -> Self {
        let (id, name) = (id.to_string(), name.to_string());
        let (key, within, version, snippet) = (None, None, None, None);
        SearchResult { kind, id, name, key, within, version, snippet, highlights: Vec::new() }
    }

    /// Whether it is about the same thing.
    pub fn is_of(&self, other: &SearchResult) -> bool {
        (self.kind, &self.id, &self.within) == (other.kind, &other.id, &other.within)
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

/// How much was looked at.
#[derive(Default)]
pub struct Bound {
    /// Records that the caller may see.
    pub seen: usize,
    seen_bytes: usize,
    hidden: usize,
    hidden_bytes: usize,
}

impl Bound {
    /// Counts a record; says whether it is the last one.
    pub fn count(&mut self, bytes: usize, is_visible: bool) -> ControlFlow<()> {
        let (count, size) = if is_visible {
            (&mut self.seen, &mut self.seen_bytes)
        } else {
            (&mut self.hidden, &mut self.hidden_bytes)
        };
        *count += 1;
        *size += bytes;
        let is_full = self.seen == MAX_LOOKED_AT
            || self.seen_bytes >= MAX_BYTES
            || self.hidden == HIDDEN * MAX_LOOKED_AT
            || self.hidden_bytes >= HIDDEN * MAX_BYTES;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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

/// Keeps the first results of each kind.
pub fn keep_first<T>(results: &mut Vec<T>, kind: impl Fn(&T) -> SearchKind) {
    let mut counts: BTreeMap<SearchKind, usize> = BTreeMap::new();
    results.retain(|result| {
        let count = counts.entry(kind(result)).or_default();
        *count += 1;
        *count <= MAX_HITS
    });
}

/// An agent that was found.
pub fn agent_result(agent: &Agent) -> SearchResult {
    SearchResult::new(SearchKind::Agent, agent.id, &agent.name).key(&agent.stable_key)
}

/// A tool that was found.
pub fn tool_result(tool: &Tool) -> SearchResult {
    SearchResult::new(SearchKind::Tool, tool.id, &tool.name)
}
