//! Search in the texts of prompts and promptlets, in descriptions of agents, and in descriptions and
//! prompts of tools: words, phrases, and ranking as in a knowledge base, over the texts that the caller
//! may read. The index of knowledge bases is not used: it counts documents of all, so that what somebody
//! may not read would change what they find.

use std::ops::ControlFlow;

use super::result::{Bound, MAX_BYTES, MAX_LOOKED_AT_BELOW, SearchQuery, SearchResult};
use super::result::{agent_result, artifact_result, tool_result, visible};
use crate::api::Req;
use crate::auth::Restricted;
use crate::base::Result;
use crate::resources::agents::Agent;
use crate::resources::artifacts::{self, SearchedText};
use crate::resources::knowledge_bases::TextSearch;
use crate::resources::registries::Registry;
use crate::resources::tools::Tool;
use crate::store::{ListSource, Order, View};

/// So many texts that fit best are looked at for things that are not there yet: several versions of one
/// prompt may have the words.
const MAX_BEST: usize = 100;

/// Texts of one kind, and what each is of.
struct Texts {
    search: TextSearch,
    all: Vec<(SearchResult, String)>,
}

impl Texts {
    fn new(query: &SearchQuery) -> Option<Self> {
        TextSearch::new(&query.q, query.language).map(|search| Texts { search, all: Vec::new() })
    }

    fn add(&mut self, of: SearchResult, text: String) {
        self.search.add(&of.name, &text);
        self.all.push((of, text));
    }

    /// What fits best, each thing once.
    fn best(self) -> Vec<SearchResult> {
        let mut found: Vec<SearchResult> = Vec::new();
        for number in self.search.best(MAX_BEST) {
            let Some((of, text)) = self.all.get(number) else { continue };
            if found.iter().any(|one| one.is_of(of)) {
                continue;
            }
            let passage = self.search.passage(number, text);
            let (snippet, highlights) = (Some(passage.text), passage.highlights);
            found.push(SearchResult { snippet, highlights, ..of.clone() });
        }
        found
    }
}

/// Returns what has the words in its text, kind by kind, the best first.
pub fn search(
    view: &View,
    req: &Req<(), SearchQuery>,
    registries: &[Registry],
) -> Result<Vec<SearchResult>> {
    let mut found = Vec::new();
    for texts in [of_artifacts(view, req, registries)?, of_agents(view, req)?, of_tools(view, req)?]
    {
        found.extend(texts.into_iter().flat_map(Texts::best));
    }
    Ok(found)
}

/// Each registry has its share of what is read, and of what those before it have left.
fn of_artifacts(
    view: &View,
    req: &Req<(), SearchQuery>,
    registries: &[Registry],
) -> Result<Option<Texts>> {
    let Some(mut texts) = Texts::new(&req.input) else { return Ok(None) };
    let (mut bytes, mut count) = (MAX_BYTES, MAX_LOOKED_AT_BELOW);
    for (done, registry) in registries.iter().enumerate() {
        let others = registries.len() - done;
        let (mut own_bytes, mut own_count) = (bytes / others, count / others);
        if own_count == 0 {
            continue;
        }
        (bytes, count) = (bytes - own_bytes, count - own_count);
        artifacts::each_text(view, registry.id, |text: SearchedText| {
            own_bytes = own_bytes.saturating_sub(text.bytes);
            own_count -= 1;
            let version = Some(text.version);
            let of = SearchResult { version, ..artifact_result(&text.of, &registry.slug) };
            texts.add(of, text.source.into_string());
            let is_full = own_bytes == 0 || own_count == 0;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        (bytes, count) = (bytes + own_bytes, count + own_count);
    }
    Ok(Some(texts))
}

fn of_agents(view: &View, req: &Req<(), SearchQuery>) -> Result<Option<Texts>> {
    let Some(mut texts) = Texts::new(&req.input) else { return Ok(None) };
    let (mut bound, source) = (Bound::default(), ListSource::TABLE);
    view.for_each_sized(source, &[], Order::Descending, |size, agent: Restricted<Agent>| {
        let agent = visible(view, req.caller(), agent)?;
        let next = bound.count(size, agent.is_some());
        if let Some(agent) = agent
            && let Some(description) = &agent.description
        {
            texts.add(agent_result(&agent), description.to_string());
        }
        Ok(next)
    })?;
    Ok(Some(texts))
}

fn of_tools(view: &View, req: &Req<(), SearchQuery>) -> Result<Option<Texts>> {
    let Some(mut texts) = Texts::new(&req.input) else { return Ok(None) };
    let mut bound = Bound::default();
    view.for_each_sized(ListSource::TABLE, &[], Order::Descending, |size, tool: Tool| {
        let parts = tool.description.as_deref().into_iter().chain(tool.prompt.as_deref());
        let text = parts.collect::<Vec<_>>().join("\n\n");
        if !text.is_empty() {
            texts.add(tool_result(&tool), text);
        }
        Ok(bound.count(size, true))
    })?;
    Ok(Some(texts))
}
