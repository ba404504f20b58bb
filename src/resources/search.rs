//! Search by name over everything that a member may see (reference: conventions, "Search").
//!
//! Each kind is looked through newest first, up to a bound, for an id or for the beginning of a name,
//! a slug or a word of a title, folded (`base::fold`); where no blanks are between words, for what is
//! anywhere in it. Texts are not searched.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::artifacts::Artifact;
use super::environments::Environment;
use super::fleet::Fleet;
use super::governance::Policy;
use super::knowledge_bases::KnowledgeBase;
use super::registries::{ArtifactType, Registry};
use super::teams::{Task, Team};
use super::tools::Tool;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, Restrictable, Restricted, SESSION_MEMBER};
use crate::base::{Id, Result, Text, fold, is_unspaced, without_accents};
use crate::store::{Key, ListSource, Order, Record, View};

/// Searching.
pub const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Of each kind the five newest are answered: a sixth is found by typing on.
const MAX_HITS: usize = 5;
/// Of each kind, and of the tasks and artifacts of each team and registry, the newest 1,000 are looked
/// at: a search costs what a page of a list does.
const MAX_LOOKED_AT: usize = 1000;
/// Of each list no more than 2 MiB are read, so that records of 1 MiB do not make a search too large.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Of all artifacts and tasks, so many are looked at.
const MAX_LOOKED_AT_BELOW: usize = 4000;

// ── What callers send and see ────────────────────────────────────────────────

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"q": "release"}]))]
struct SearchQuery {
    /// An id, or the beginning of a name, a slug, or a word of a title; in scripts without blanks between
    /// words two characters or more from anywhere in it.
    q: Text<1, 100>,
}

impl Input for SearchQuery {}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
struct SearchResults {
    /// At most five of each kind, kind by kind, newest first.
    items: Vec<SearchResult>,
}

impl Output for SearchResults {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct SearchResult {
    kind: SearchKind,
    /// Its id; of an artifact, which has none, its name.
    id: String,
    name: String,
    /// The slug or stable key by which requests name it, or the number of a task.
    key: Option<String>,
    /// The slug of the registry or team that it is in.
    within: Option<String>,
}

/// The kind of something that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SearchKind {
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
    fn new(kind: SearchKind, id: impl ToString, name: impl ToString) -> Self {
        SearchResult { kind, id: id.to_string(), name: name.to_string(), key: None, within: None }
    }

    fn key(self, key: impl ToString) -> Self {
        SearchResult { key: Some(key.to_string()), ..self }
    }

    fn within(self, slug: impl ToString) -> Self {
        SearchResult { within: Some(slug.to_string()), ..self }
    }
}

// ── Searching ────────────────────────────────────────────────────────────────

/// What is searched for.
struct Needle {
    /// Folded.
    text: String,
    /// Whether it has accents, so that it finds only what has them.
    has_accents: bool,
    /// Whether nothing says where its first word begins in a name.
    is_unspaced: bool,
    /// The id that it is, if it is one.
    id: Option<Id<()>>,
}

impl Needle {
    fn new(text: &str) -> Self {
        let id = Id::parse(text.trim());
        let text = fold(text.trim()).into_owned();
        let has_accents = without_accents(&text) != text;
        let mut chars = text.chars();
        let is_unspaced = chars.next().is_some_and(is_unspaced) && chars.next().is_some();
        Needle { text, has_accents, is_unspaced, id: (!id.is_nil()).then_some(id) }
    }

    /// Whether one of a result's texts begins with it, also at a later word.
    fn finds(&self, result: &SearchResult) -> bool {
        self.begins(&result.name) || result.key.as_ref().is_some_and(|key| self.begins(key))
    }

    fn begins(&self, text: &str) -> bool {
        let text = fold(text);
        self.is_in(&text) || !self.has_accents && self.is_in(&without_accents(&text))
    }

    fn is_in(&self, text: &str) -> bool {
        let is_start = |at: usize| {
            (self.is_unspaced || !text[..at].chars().next_back().is_some_and(char::is_alphanumeric))
                && text[at..].starts_with(&self.text)
        };
        !self.text.is_empty() && text.char_indices().any(|(at, _)| is_start(at))
    }
}

/// A search in an organization.
struct Search<'a> {
    view: &'a View<'a>,
    caller: &'a Caller,
    needle: Needle,
    found: Vec<SearchResult>,
}

impl Search<'_> {
    /// Looks through a kind; `show` leaves out what the caller may not see. Returns how many records
    /// were looked at.
    fn look<R: Record>(
        &mut self,
        prefix: &impl Key,
        mut room: usize,
        show: impl Fn(R) -> Result<Option<SearchResult>>,
    ) -> Result<usize> {
        let Search { view, needle, found, .. } = self;
        let (mut looked_at, mut bytes, prefix) = (0, 0, prefix.to_bytes());
        view.for_each_sized(ListSource::TABLE, &prefix, Order::Descending, |size, record: R| {
            looked_at += 1;
            bytes += size;
            let result = show(record)?.filter(|result| needle.finds(result));
            if let Some(result) = result {
                found.push(result);
                room -= 1;
            }
            let is_done = room == 0 || looked_at == MAX_LOOKED_AT || bytes >= MAX_BYTES;
            Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(looked_at)
    }

    /// Looks through a kind whose records every member sees.
    fn open<T, R: Record<Key = Id<T>>>(&mut self, show: impl Fn(R) -> SearchResult) -> Result<()> {
        self.by_id_or_name(|record| Ok(Some(show(record))))
    }

    /// Looks through a kind that can be restricted.
    fn restricted<T: Restrictable>(&mut self, show: impl Fn(T) -> SearchResult) -> Result<()>
    where
        Restricted<T>: Record<Key = Id<T>>,
    {
        let (view, caller) = (self.view, self.caller);
        self.by_id_or_name(|record| Ok(visible(view, caller, record)?.map(&show)))
    }

    fn by_id_or_name<T, R: Record<Key = Id<T>>>(
        &mut self,
        show: impl Fn(R) -> Result<Option<SearchResult>>,
    ) -> Result<()> {
        let Some(id) = self.needle.id else { return self.look(&(), MAX_HITS, show).map(drop) };
        if let Some(record) = self.view.get::<R>(&id.cast())? {
            self.found.extend(show(record)?);
        }
        Ok(())
    }

    /// Looks through what is in the registries that the caller may see.
    fn artifacts(&mut self) -> Result<()> {
        if self.needle.id.is_some() {
            return Ok(());
        }
        let registries: Vec<Restricted<Registry>> = self.view.all(ListSource::TABLE, &())?;
        let (mut left, first) = (MAX_LOOKED_AT_BELOW, self.found.len());
        for registry in registries {
            let Some(registry) = visible(self.view, self.caller, registry)? else { continue };
            let room = (2 * MAX_HITS).saturating_sub(self.found.len() - first);
            if room == 0 || left == 0 {
                break;
            }
            let looked_at = self.look(&registry.id, room, |artifact: Artifact| {
                let kind = match artifact.id.kind {
                    ArtifactType::Prompt => SearchKind::Prompt,
                    ArtifactType::Promptlet => SearchKind::Promptlet,
                };
                let name = artifact.id.name.to_string();
                Ok(Some(SearchResult::new(kind, &name, &name).within(&registry.slug)))
            })?;
            left = left.saturating_sub(looked_at);
        }
        for kind in [SearchKind::Prompt, SearchKind::Promptlet] {
            let mut seen = 0;
            self.found.retain(|result| {
                seen += usize::from(result.kind == kind);
                result.kind != kind || seen <= MAX_HITS
            });
        }
        Ok(())
    }

    /// Looks through the tasks of all teams.
    fn tasks(&mut self) -> Result<()> {
        let teams: Vec<Team> = self.view.all(ListSource::TABLE, &())?;
        let (mut left, first) = (MAX_LOOKED_AT_BELOW, self.found.len());
        for team in teams.iter().rev() {
            let room = MAX_HITS.saturating_sub(self.found.len() - first);
            if room == 0 || left == 0 {
                break;
            }
            let show = |task: Task| {
                let result = SearchResult::new(SearchKind::Task, task.id, &task.title);
                Some(result.key(task.number).within(&team.slug))
            };
            if let Some(id) = self.needle.id {
                let task: Option<Task> = self.view.get(&(team.id, id.cast()))?;
                self.found.extend(task.and_then(show));
                continue;
            }
            let looked_at = self.look(&team.id, room, |task| Ok(show(task)))?;
            left = left.saturating_sub(looked_at);
        }
        Ok(())
    }
}

/// A resource, if the caller may use it or anyone may read it.
fn visible<T: Restrictable>(
    view: &View,
    caller: &Caller,
    found: Restricted<T>,
) -> Result<Option<T>> {
    if found.is_public() {
        return found.open_to_read(view, Some(caller)).map(Some);
    }
    found.open_if_usable(view, caller)
}

fn search(view: &View, req: &Req<(), SearchQuery>) -> Result<SearchResults> {
    use SearchKind as K;
    let needle = Needle::new(&req.input.q);
    let mut search = Search { view, caller: req.caller(), needle, found: Vec::new() };
    search.restricted(|one: Registry| {
        SearchResult::new(K::Registry, one.id, &one.name).key(&one.slug)
    })?;
    search.artifacts()?;
    search.restricted(|one: Agent| {
        SearchResult::new(K::Agent, one.id, &one.name).key(&one.stable_key)
    })?;
    search.restricted(|one: Fleet| SearchResult::new(K::Fleet, one.id, &one.name))?;
    search.restricted(|one: Environment| {
        SearchResult::new(K::Environment, one.id, &one.name).key(&one.slug)
    })?;
    search.open(|one: Tool| SearchResult::new(K::Tool, one.id, &one.name))?;
    search.open(|one: Team| SearchResult::new(K::Team, one.id, &one.name).key(&one.slug))?;
    search.tasks()?;
    search.open(|one: Policy| SearchResult::new(K::Policy, one.id, &one.name))?;
    search.open(|one: KnowledgeBase| SearchResult::new(K::KnowledgeBase, one.id, &one.name))?;
    Ok(SearchResults { items: search.found })
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/search", SESSION_MEMBER, "search.list", op::read(search))
            .about("Search by name over all kinds"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Principal;
    use crate::resources::testing::Fixture;
    use crate::resources::{environments, registries, tools};
    use serde_json::json;

    fn found(fixture: &Fixture, who: &Principal, text: &str) -> Vec<(SearchKind, String)> {
        let query = Fixture::input::<SearchQuery>(json!({"q": text})).unwrap();
        let found = fixture.read_as(who, search, (), query).unwrap();
        found.items.into_iter().map(|result| (result.kind, result.name)).collect()
    }

    #[test]
    fn names_are_found_by_the_beginning_of_a_word_and_by_id() {
        let fixture = Fixture::new();
        let make = |slug: &str, name: &str| {
            let body = json!({"slug": slug, "name": name});
            environments::tests::make(&fixture, body).unwrap().id
        };
        let id = make("prod-eu", "Über-See in Europe").to_string();
        make("staging", "Try-outs");
        let europe = [(SearchKind::Environment, "Über-See in Europe".to_string())];
        for text in ["eu", "PROD", "über", "see in", " Europe ", "ÜBER-SEE", &id] {
            assert_eq!(found(&fixture, &fixture.member, text), europe, "{text}");
        }
        for text in ["rope", "ro", "x", &id[..20], "-"] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
        }
    }

    #[test]
    fn names_are_found_in_any_case_form_and_width_and_without_accents() {
        let fixture = Fixture::new();
        let name = "Cafe\u{301} ΟΔΥΣΣΕΥΣ Größe 資料 ＡＢＣ";
        let body = json!({"slug": "one", "name": name});
        environments::tests::make(&fixture, body).unwrap();
        for text in [
            "caf\u{e9}",
            "CAFE",
            "οδυσσευς",
            "GRÖSSE",
            "grosse",
            "gro\u{ad}sse",
            "abc",
            "cafe\u{301} ο",
        ] {
            assert_eq!(found(&fixture, &fixture.member, text).len(), 1, "{text}");
        }
        for text in ["cäfe", "\u{301}", "\u{ad}", "\u{ad}\u{200d}", "\""] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
        }
    }

    #[test]
    fn names_in_scripts_without_blanks_are_found_by_two_characters_from_anywhere_in_them() {
        let fixture = Fixture::new();
        for (slug, name) in
            [("one", "北京大学文件"), ("two", "ภาษาไทย"), ("three", "학교에서 plan")]
        {
            environments::tests::make(&fixture, json!({"slug": slug, "name": name})).unwrap();
        }
        for text in ["北京", "大学", "文件", "ไทย", "교에", "plan"] {
            assert_eq!(found(&fixture, &fixture.member, text).len(), 1, "{text}");
        }
        for text in ["学", "学大", "lan", "大学x"] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
        }
    }

    #[test]
    fn what_is_restricted_is_found_by_admins_alone() {
        let fixture = Fixture::new();
        let body = json!({"slug": "vault", "name": "Vault", "access": "restricted"});
        let id = environments::tests::make(&fixture, body).unwrap().id.to_string();
        registries::tests::make(&fixture, "vaults", json!({"access": "restricted"})).unwrap();
        for text in ["va", &id] {
            assert_eq!(found(&fixture, &fixture.member, text), [], "{text}");
            assert!(!found(&fixture, &fixture.owner, text).is_empty(), "{text}");
        }
    }

    #[test]
    fn of_large_records_only_the_newest_are_read() {
        let fixture = Fixture::new();
        for n in 0..6 {
            let config = json!({"text": "x".repeat(900_000)});
            let name = if n == 5 { "Newest".to_string() } else { format!("Old {n}") };
            let body = json!({"name": name, "type": "function", "providerConfig": config});
            tools::tests::make(&fixture, body).unwrap();
        }
        let names = |text| found(&fixture, &fixture.member, text).len();
        assert_eq!((names("newest"), names("old")), (1, 2));
    }

    #[test]
    fn five_of_a_kind_are_found_the_newest_first() {
        let fixture = Fixture::new();
        for n in 0..7 {
            let body = json!({"slug": format!("prod-{n}"), "name": format!("Prod {n}")});
            environments::tests::make(&fixture, body).unwrap();
        }
        let names: Vec<_> =
            found(&fixture, &fixture.member, "prod").into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["Prod 6", "Prod 5", "Prod 4", "Prod 3", "Prod 2"]);
    }
}
