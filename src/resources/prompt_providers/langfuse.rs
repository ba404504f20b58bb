//! Langfuse: `/api/public/v2/prompts`, with Basic authorization (its public API, version 2).
//!
//! Versions are numbers. Without a version, the one labelled `production` is used, as by Langfuse's own
//! clients, or, if there is none, the newest: it is labelled `latest`.

use serde::Deserialize;
use serde_json::Value;

use super::client::{ProviderClient, ProviderReply};
use super::external::{FoundPrompt, PromptLookup, Template, extra};
use super::paging::{self, Listed, Position, ProviderPage};
use super::template::Syntax;
use crate::base::{Result, Time, segment};

/// The largest page that it returns.
const PAGE_SIZE: usize = 100;

const PROMPTS: &str = "/api/public/v2/prompts";

#[derive(Deserialize)]
struct List {
    data: Vec<ListedPrompt>,
    /// Absent if everything is on one page.
    meta: Option<Meta>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedPrompt {
    name: String,
    last_updated_at: Option<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    total_pages: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    version: u64,
    prompt: PromptContent,
    labels: Option<Vec<String>>,
    tags: Option<Value>,
    config: Option<Value>,
    updated_at: Option<Time>,
}

/// A text, or the messages of a chat, among them placeholders for messages.
#[derive(Deserialize)]
#[serde(untagged)]
enum PromptContent {
    Text(String),
    Chat(Vec<Value>),
}

/// Lists prompts.
pub fn list(
    client: &mut ProviderClient,
    from: &Position,
    limit: usize,
) -> Result<Listed<FoundPrompt>> {
    let listed = paging::read(client, from, limit, 0, |client, token, wanted| {
        // Its pages have numbers, so that their size must stay.
        let known = token.split_once('.');
        let known = known.and_then(|(page, size)| Some((page.parse().ok()?, size.parse().ok()?)));
        let (page, size): (u64, usize) = known.unwrap_or((1, wanted.min(PAGE_SIZE)));
        let query = [("page", &*page.to_string()), ("limit", &*size.to_string())];
        let list = client.list::<List>(PROMPTS, &query)?;
        Ok(list.map(|list| {
            let pages = list.meta.as_ref().map_or(0, |meta| meta.total_pages);
            let has_more = !list.data.is_empty() && page < pages;
            let next = has_more.then(|| format!("{}.{size}", page + 1));
            ProviderPage { items: list.data.clone(), next }
        }))
    })?;
    let Some(Listed { items, next }) = listed else { return Ok(Listed::pending()) };
    let mut found = Vec::new();
    for ListedPrompt { name, last_updated_at } in items {
        // A prompt deleted meanwhile is omitted. A version need not have a time.
        if let PromptLookup::Found(prompt) = find(client, &name, None)? {
            found.push(FoundPrompt { updated_at: prompt.updated_at.or(last_updated_at), ..prompt });
        }
    }
    Ok(Listed { items: found, next })
}

/// Looks up one prompt.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    let path = format!("{PROMPTS}/{}", segment(name));
    let reply = match version {
        Some(version) if version.parse::<u64>().is_err() => return Ok(PromptLookup::Missing),
        Some(version) => client.one(&path, &[("version", version)])?,
        None => match client.one(&path, &[])? {
            ProviderReply::Missing => client.one(&path, &[("label", "latest")])?,
            reply => reply,
        },
    };
    let prompt: Prompt = match reply {
        ProviderReply::Pending => return Ok(PromptLookup::Pending),
        ProviderReply::Missing => return Ok(PromptLookup::Missing),
        ProviderReply::Found(prompt) => prompt,
    };
    Ok(PromptLookup::Found(FoundPrompt {
        name: name.into(),
        version: prompt.version.to_string(),
        template: match prompt.prompt {
            PromptContent::Text(text) => Template::Text(text, Syntax::Mustache),
            PromptContent::Chat(messages) => Template::Chat(messages, Syntax::Mustache),
        },
        labels: prompt.labels.unwrap_or_default(),
        extra: extra([("tags", prompt.tags), ("config", prompt.config)]),
        updated_at: prompt.updated_at,
    }))
}
