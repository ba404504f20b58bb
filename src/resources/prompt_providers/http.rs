//! Any other client: GET of `baseUrl` itself returns `{"items": [ExternalPrompt]}`, the form of our own
//! list. Its templates are in our own language.
//!
//! Without a version, the first one listed is used.

use serde::Deserialize;

use super::client::ProviderClient;
use super::external::{FoundPrompt, PromptFormat, PromptLookup, Template};
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

/// Lists all prompts.
pub fn list(client: &mut ProviderClient) -> Result<Vec<FoundPrompt>> {
    Ok(fetched(client)?.unwrap_or_default())
}

/// Looks up one prompt.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    let Some(found) = fetched(client)? else { return Ok(PromptLookup::Pending) };
    let matches = |found: &FoundPrompt| {
        found.name == name && version.is_none_or(|version| found.version == version)
    };
    Ok(found.into_iter().find(matches).map_or(PromptLookup::Missing, PromptLookup::Found))
}

fn fetched(client: &mut ProviderClient) -> Result<Option<Vec<FoundPrompt>>> {
    let found = |item: Item| FoundPrompt {
        name: item.name,
        version: item.version,
        template: Template::Ours(item.template, item.format.unwrap_or(PromptFormat::Text)),
        labels: item.labels.unwrap_or_default(),
        updated_at: item.updated_at,
    };
    let list = client.list::<List>("", &[])?;
    Ok(list.map(|list| list.items.into_iter().map(found).collect()))
}
