//! Search by name: what the caller may see, kind by kind.

use std::collections::BTreeSet;

use super::result::{Amount, Bound, SearchKind, SearchQuery, SearchResult};
use super::result::{agent_result, artifact_result, task_result, visible};
use crate::auth::{Caller, Restrictable, Restricted};
use crate::base::{Id, Result, fold, is_unspaced, without_accents};
use crate::resources::artifacts::{Artifact, ArtifactId};
use crate::resources::registries::{ArtifactType, Registry};
use crate::resources::teams::{Task, Team};
use crate::resources::{agents, environments};
use crate::store::{Key, ListSource, Order, Record, View};

/// What is searched for.
pub struct Needle {
    /// Folded.
    text: String,
    /// Whether it has accents, so that it finds only what has them.
    has_accents: bool,
    /// Whether nothing says where its first word begins in a name.
    is_unspaced: bool,
    /// The id that it is, if it is one.
    pub id: Option<Id<()>>,
}

impl Needle {
    /// A search for a text, which may be an id.
    pub fn new(text: &str) -> Self {
        let id = Id::parse(text.trim());
        let text = fold(text.trim()).into_owned();
        let has_accents = without_accents(&text) != text;
        let mut chars = text.chars();
        let is_unspaced = chars.next().is_some_and(is_unspaced) && chars.next().is_some();
        Needle { text, has_accents, is_unspaced, id: (!id.is_nil()).then_some(id) }
    }

    /// How well a result fits by its name or key; `None` if it does not.
    fn fit(&self, result: &SearchResult) -> Option<Fit> {
        let name = self.fit_of(&result.name);
        let key = result.key.as_ref().and_then(|key| self.fit_of(key));
        name.into_iter().chain(key).min()
    }

    fn fit_of(&self, text: &str) -> Option<Fit> {
        let text = fold(text);
        let fit = self.fit_in(&text);
        if fit.is_some() || self.has_accents { fit } else { self.fit_in(&without_accents(&text)) }
    }

    fn fit_in(&self, text: &str) -> Option<Fit> {
        let is_start = |at: usize| {
            (self.is_unspaced || !text[..at].chars().next_back().is_some_and(char::is_alphanumeric))
                && text[at..].starts_with(&self.text)
        };
        if self.text.is_empty() {
            return None;
        }
        match text.char_indices().map(|(at, _)| at).find(|at| is_start(*at))? {
            0 if text.len() == self.text.len() => Some(Fit::Whole),
            0 => Some(Fit::Beginning),
            _ => Some(Fit::Word),
        }
    }
}

/// How well a name fits, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It is the name, or the id.
    Whole,
    /// The name begins with it.
    Beginning,
    /// A later word of the name begins with it.
    Word,
}

/// A search in an organization.
pub struct Search<'a> {
    /// What is searched, and for whom.
    pub view: &'a View<'a>,
    pub caller: &'a Caller,
    pub query: &'a SearchQuery,
    pub needle: Needle,
    /// By name, in no order.
    pub found: Vec<(Fit, SearchResult)>,
}

impl Search<'_> {
    /// Looks through so much of a kind; `show` leaves out what the caller may not see, and what is of
    /// another kind counts as looked at. Returns how much was.
    fn look<R: Record>(
        &mut self,
        most: Amount,
        prefix: &impl Key,
        show: impl Fn(R) -> Result<Option<SearchResult>>,
    ) -> Result<Amount> {
        let Search { view, query, needle, found, .. } = self;
        let mut bound = Bound::new(most);
        let prefix = prefix.to_bytes();
        view.for_each_sized(ListSource::TABLE, &prefix, Order::Descending, |size, record: R| {
            let result = show(record)?;
            let next = bound.count(size, result.is_some());
            let result = result.filter(|result| query.is_for(result.kind));
            found.extend(result.and_then(|result| Some((needle.fit(&result)?, result))));
            Ok(next)
        })?;
        Ok(bound.seen)
    }

    /// Adds what is called exactly so, however old it is: it is found by its key.
    pub fn exact(&mut self, text: &str, registries: &[Registry]) -> Result<()> {
        let key = text.trim().to_lowercase();
        let (view, caller, query) = (self.view, self.caller, self.query);
        let mut exact = Vec::new();
        if query.is_for(SearchKind::Agent)
            && let Some(agent) = agents::by_stable_key(view, &key)?
        {
            exact.extend(visible(view, caller, agent)?.map(|agent| agent_result(&agent)));
        }
        if query.is_for(SearchKind::Environment)
            && let Some(found) = environments::find(view, &key)?
        {
            exact.extend(visible(view, caller, found)?.map(|one| {
                SearchResult::new(SearchKind::Environment, one.id, &one.name).key(&one.slug)
            }));
        }
        let kinds = [
            (ArtifactType::Prompt, SearchKind::Prompt),
            (ArtifactType::Promptlet, SearchKind::Promptlet),
        ];
        for (kind, _) in kinds.into_iter().filter(|(_, kind)| query.is_for(*kind)) {
            for registry in registries.iter().take(Amount::REGISTRIES) {
                let Ok(id) = ArtifactId::parse(registry, Some(kind), text.trim()) else { continue };
                let has = view.has::<Artifact>(&id)?;
                exact.extend(has.then(|| artifact_result(&id, &registry.slug)));
            }
        }
        let known: BTreeSet<_> = self.found.iter().map(|(_, known)| known.identity()).collect();
        exact.retain(|result| !known.contains(&result.identity()));
        self.found.extend(exact.into_iter().map(|result| (Fit::Whole, result)));
        Ok(())
    }

    /// Looks through a kind whose records every member sees.
    pub fn open<T, R: Record<Key = Id<T>>>(
        &mut self,
        kind: SearchKind,
        show: impl Fn(R) -> SearchResult,
    ) -> Result<()> {
        self.by_id_or_name(kind, |record| Ok(Some(show(record))))
    }

    /// Looks through a kind that can be restricted.
    pub fn restricted<T: Restrictable>(
        &mut self,
        kind: SearchKind,
        show: impl Fn(T) -> SearchResult,
    ) -> Result<()>
    where
        Restricted<T>: Record<Key = Id<T>>,
    {
        let (view, caller) = (self.view, self.caller);
        self.by_id_or_name(kind, |record| Ok(visible(view, caller, record)?.map(&show)))
    }

    fn by_id_or_name<T, R: Record<Key = Id<T>>>(
        &mut self,
        kind: SearchKind,
        show: impl Fn(R) -> Result<Option<SearchResult>>,
    ) -> Result<()> {
        if !self.query.is_for(kind) {
            return Ok(());
        }
        let most = self.query.most();
        let Some(id) = self.needle.id else { return self.look(most, &(), show).map(drop) };
        if let Some(record) = self.view.get::<R>(&id.cast())? {
            self.found.extend(show(record)?.map(|result| (Fit::Whole, result)));
        }
        Ok(())
    }

    /// Looks through what is in these registries.
    pub fn artifacts(&mut self, registries: &[Registry]) -> Result<()> {
        let is_asked =
            [SearchKind::Prompt, SearchKind::Promptlet].into_iter().any(|it| self.query.is_for(it));
        if self.needle.id.is_some() || !is_asked {
            return Ok(());
        }
        let most = self.query.most();
        let mut left = most.of_all_lists();
        for registry in registries {
            if left.is_none() {
                break;
            }
            let looked_at = self.look(most.at_most(left), &registry.id, |artifact: Artifact| {
                Ok(Some(artifact_result(&artifact.id, &registry.slug)))
            })?;
            left = left.without(looked_at);
        }
        Ok(())
    }

    /// Looks through the tasks of all teams.
    pub fn tasks(&mut self) -> Result<()> {
        if !self.query.is_for(SearchKind::Task) {
            return Ok(());
        }
        let mut teams: Vec<Team> = self.view.all(ListSource::TABLE, &())?;
        if let Some(within) = &self.query.within {
            teams.retain(|team| team.slug == *within);
        }
        let most = self.query.most();
        let mut left = most.of_all_lists();
        for team in teams.iter().rev() {
            if left.is_none() {
                break;
            }
            let show = |task: Task| Some(task_result(&task, &team.slug));
            if let Some(id) = self.needle.id {
                let task: Option<Task> = self.view.get(&(team.id, id.cast()))?;
                if let Some(result) = task.and_then(show) {
                    self.found.push((Fit::Whole, result));
                    break;
                }
                continue;
            }
            let looked_at = self.look(most.at_most(left), &team.id, |task| Ok(show(task)))?;
            left = left.without(looked_at);
        }
        Ok(())
    }
}
