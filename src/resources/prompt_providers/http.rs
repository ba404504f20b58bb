//! Any other client: GET of `baseUrl` itself returns `{"items": [ExternalPrompt]}`, the form of our own
//! list. Its templates are in our own language.
//!
//! Without a version, the first one listed is used.

use serde::Deserialize;

use super::client::ProviderClient;
use super::external::{FoundPrompt, PromptFormat, PromptLookup, Template};
use super::paging::{self, Listed, Position, ProviderPage};
use crate::base::{JsonMap, Result, Time};

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

/// Lists prompts. It has one page.
pub fn list(
    client: &mut ProviderClient,
    from: &Position,
    limit: usize,
) -> Result<Listed<FoundPrompt>> {
    let listed = paging::read(client, from, limit, 0, |client, _, _| {
        let list = client.list::<List>("", &[])?;
        let items = list.map(|list| list.items.iter().map(found).collect());
        Ok(items.map(|items| ProviderPage { items, next: None }))
    })?;
    Ok(listed.unwrap_or_else(Listed::pending))
}

/// Looks up one prompt.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    let Some(list) = client.list::<List>("", &[])? else { return Ok(PromptLookup::Pending) };
    let matches =
        |item: &&Item| item.name == name && version.is_none_or(|version| item.version == version);
    let item = list.items.iter().find(matches);
    Ok(item.map_or(PromptLookup::Missing, |item| PromptLookup::Found(found(item))))
}

fn found(item: &Item) -> FoundPrompt {
    let format = item.format.unwrap_or(PromptFormat::Text);
    FoundPrompt {
        name: item.name.clone(),
        version: item.version.clone(),
        template: Template::Ours(item.template.clone(), format),
        labels: item.labels.clone().unwrap_or_default(),
        extra: JsonMap::default(),
        updated_at: item.updated_at,
    }
}
