//! Anything else: GET of `baseUrl` itself answers `{"items": [ExternalPrompt]}`, the list that we
//! answer. Its templates are in our own language.
//!
//! Who names no version gets the first one listed.

use serde::Deserialize;

use super::external::{Found, Lookup, PromptFormat, Template};
use super::server::Server;
use crate::base::{Result, Time};

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    name: String,
    version: String,
    template: String,
    format: Option<PromptFormat>,
    labels: Option<Vec<String>>,
    updated_at: Option<Time>,
}

/// Its prompts.
pub fn list(server: &mut Server) -> Result<Vec<Found>> {
    Ok(fetched(server)?.unwrap_or_default())
}

/// One prompt.
pub fn find(server: &mut Server, name: &str, version: Option<&str>) -> Result<Lookup> {
    let Some(found) = fetched(server)? else { return Ok(Lookup::Pending) };
    let is_it = |found: &Found| {
        found.name == name && version.is_none_or(|version| found.version == version)
    };
    Ok(found.into_iter().find(is_it).map_or(Lookup::Missing, Lookup::Found))
}

fn fetched(server: &mut Server) -> Result<Option<Vec<Found>>> {
    let found = |item: Item| Found {
        name: item.name,
        version: item.version,
        template: Template::Ours(item.template, item.format.unwrap_or(PromptFormat::Text)),
        labels: item.labels.unwrap_or_default(),
        updated_at: item.updated_at,
    };
    let list = server.list::<List>("", &[])?;
    Ok(list.map(|list| list.items.into_iter().map(found).collect()))
}
