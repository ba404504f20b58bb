//! Search in the texts of prompts and promptlets, in descriptions of agents, and in descriptions and
//! prompts of tools: words, phrases, and ranking as in a knowledge base, over the texts that the caller
//! may read. The index of knowledge bases is not used: it counts documents of all, so that what somebody
//! may not read would change what they find.

use super::result::{Bound, MAX_BYTES, MAX_LOOKED_AT_BELOW, SearchKind, SearchQuery, SearchResult};
use super::result::{agent_result, artifact_result, tool_result, visible};
use crate::api::Req;
use crate::auth::{Caller, Restricted};
use crate::base::Result;
use crate::resources::agents::Agent;
use crate::resources::artifacts::{self, Amount, SearchedText};
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
    fn new(search: &TextSearch) -> Self {
        Texts { search: search.clone(), all: Vec::new() }
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
            if found.iter().any(|one| one.identity() == of.identity()) {
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
    let Some(empty) = TextSearch::new(&req.input.q, req.input.language) else {
        return Ok(Vec::new());
    };
    let (mut artifacts, mut agents) = (Texts::new(&empty), Texts::new(&empty));
    let mut tools = Texts::new(&empty);
    let is_for = |kind| req.input.is_for(kind);
    if is_for(SearchKind::Prompt) || is_for(SearchKind::Promptlet) {
        add_artifacts(view, registries, &mut artifacts)?;
    }
    if is_for(SearchKind::Agent) {
        add_agents(view, req.caller(), &mut agents)?;
    }
    if is_for(SearchKind::Tool) {
        add_tools(view, &mut tools)?;
    }
    let found = [artifacts, agents, tools].into_iter().flat_map(Texts::best);
    Ok(found.filter(|result| is_for(result.kind)).collect())
}

/// Each registry has its share of what is read, and of what those before it have left. A text may be larger
/// than that: the others have so much less, or nothing.
fn add_artifacts(view: &View, registries: &[Registry], texts: &mut Texts) -> Result<()> {
    let mut left = Amount { bytes: MAX_BYTES, texts: MAX_LOOKED_AT_BELOW };
    for (done, registry) in registries.iter().enumerate() {
        if left.is_none() {
            break;
        }
        let share = left.share(registries.len() - done);
        let read = artifacts::each_text(view, registry.id, share, |text: SearchedText| {
            let version = Some(text.version);
            let of = SearchResult { version, ..artifact_result(&text.of, &registry.slug) };
            texts.add(of, text.source.into_string());
        })?;
        left = left.without(read);
    }
    Ok(())
}

fn add_agents(view: &View, caller: &Caller, texts: &mut Texts) -> Result<()> {
    let (mut bound, source) = (Bound::default(), ListSource::TABLE);
    view.for_each_sized(source, &[], Order::Descending, |size, agent: Restricted<Agent>| {
        let agent = visible(view, caller, agent)?;
        let next = bound.count(size, agent.is_some());
        if let Some(agent) = agent
            && let Some(description) = &agent.description
        {
            texts.add(agent_result(&agent), description.to_string());
        }
        Ok(next)
    })
}

fn add_tools(view: &View, texts: &mut Texts) -> Result<()> {
    let mut bound = Bound::default();
    view.for_each_sized(ListSource::TABLE, &[], Order::Descending, |size, tool: Tool| {
        let parts = tool.description.as_deref().into_iter().chain(tool.prompt.as_deref());
        let text = parts.collect::<Vec<_>>().join("\n\n");
        if !text.is_empty() {
            texts.add(tool_result(&tool), text);
        }
        Ok(bound.count(size, true))
    })
}
