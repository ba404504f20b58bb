//! Search by name: what the caller may see, kind by kind.

use super::result::{Bound, MAX_LOOKED_AT_BELOW, SearchKind, SearchResult};
use super::result::{artifact_result, keep_first, visible};
use crate::auth::{Caller, Restrictable, Restricted};
use crate::base::{Id, Result, fold, is_unspaced, without_accents};
use crate::resources::artifacts::Artifact;
use crate::resources::registries::Registry;
use crate::resources::teams::{Task, Team};
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
    pub needle: Needle,
    /// By name, in no order.
    pub found: Vec<(Fit, SearchResult)>,
}

impl Search<'_> {
    /// Looks through a kind; `show` leaves out what the caller may not see. Returns how many records
    /// were looked at.
    fn look<R: Record>(
        &mut self,
        prefix: &impl Key,
        show: impl Fn(R) -> Result<Option<SearchResult>>,
    ) -> Result<usize> {
        let Search { view, needle, found, .. } = self;
        let (mut bound, mut hits) = (Bound::default(), Vec::new());
        let prefix = prefix.to_bytes();
        view.for_each_sized(ListSource::TABLE, &prefix, Order::Descending, |size, record: R| {
            let result = show(record)?;
            let next = bound.count(size, result.is_some());
            hits.extend(result.and_then(|result| Some((needle.fit(&result)?, result))));
            Ok(next)
        })?;
        hits.sort_by_key(|(fit, _)| *fit);
        keep_first(&mut hits, |(_, result): &(Fit, SearchResult)| result.kind);
        found.extend(hits);
        Ok(bound.seen)
    }

    /// Looks through a kind whose records every member sees.
    pub fn open<T, R: Record<Key = Id<T>>>(
        &mut self,
        show: impl Fn(R) -> SearchResult,
    ) -> Result<()> {
        self.by_id_or_name(|record| Ok(Some(show(record))))
    }

    /// Looks through a kind that can be restricted.
    pub fn restricted<T: Restrictable>(&mut self, show: impl Fn(T) -> SearchResult) -> Result<()>
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
        let Some(id) = self.needle.id else { return self.look(&(), show).map(drop) };
        if let Some(record) = self.view.get::<R>(&id.cast())? {
            self.found.extend(show(record)?.map(|result| (Fit::Whole, result)));
        }
        Ok(())
    }

    /// Looks through what is in these registries.
    pub fn artifacts(&mut self, registries: &[Registry]) -> Result<()> {
        if self.needle.id.is_some() {
            return Ok(());
        }
        let mut left = MAX_LOOKED_AT_BELOW;
        for registry in registries {
            if left == 0 {
                break;
            }
            let looked_at = self.look(&registry.id, |artifact: Artifact| {
                Ok(Some(artifact_result(&artifact.id, &registry.slug)))
            })?;
            left = left.saturating_sub(looked_at);
        }
        Ok(())
    }

    /// Looks through the tasks of all teams.
    pub fn tasks(&mut self) -> Result<()> {
        let teams: Vec<Team> = self.view.all(ListSource::TABLE, &())?;
        let mut left = MAX_LOOKED_AT_BELOW;
        for team in teams.iter().rev() {
            if left == 0 {
                break;
            }
            let show = |task: Task| {
                let result = SearchResult::new(SearchKind::Task, task.id, &task.title);
                Some(result.key(task.number).within(&team.slug))
            };
            if let Some(id) = self.needle.id {
                let task: Option<Task> = self.view.get(&(team.id, id.cast()))?;
                self.found.extend(task.and_then(show).map(|result| (Fit::Whole, result)));
                continue;
            }
            let looked_at = self.look(&team.id, |task| Ok(show(task)))?;
            left = left.saturating_sub(looked_at);
        }
        Ok(())
    }
}
