//! Arize Phoenix: `/v1/prompts` and `/v1/prompt_versions` of its REST API.
//!
//! A version is identified by its id, an opaque string. Without a version, the newest is used. The API
//! returns neither numbers nor times of versions.

use serde::Deserialize;
use serde_json::Value;

use super::client::{MAX_PAGES, ProviderClient, ProviderReply};
use super::external::{FoundPrompt, PromptLookup, Template, extra};
use super::paging::{self, Listed, Position, ProviderPage};
use super::template::Syntax;
use crate::base::{Result, segment};

/// The page size of the search through the versions of a prompt.
const PAGE_SIZE: &str = "100";

#[derive(Deserialize)]
struct List<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct One<T> {
    data: T,
}

#[derive(Deserialize)]
struct NameOnly {
    name: String,
}

#[derive(Clone, Deserialize)]
struct Version {
    id: String,
    template: TemplateContent,
    template_format: Format,
    model_provider: Option<Value>,
    model_name: Option<Value>,
    invocation_parameters: Option<Value>,
    tools: Option<Value>,
    response_format: Option<Value>,
}

#[derive(Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum TemplateContent {
    Chat { messages: Vec<Value> },
    String { template: String },
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Format {
    Mustache,
    FString,
    None,
    #[serde(other)]
    Unknown,
}

/// Lists prompts.
pub fn list(
    client: &mut ProviderClient,
    from: &Position,
    limit: usize,
) -> Result<Listed<FoundPrompt>> {
    let names = paging::read(client, from, limit, 0, |client, token, wanted| {
        let size = wanted.to_string();
        let query = page_query(&size, Some(token).filter(|token| !token.is_empty()));
        let list = client.list::<List<NameOnly>>("/v1/prompts", &query)?;
        Ok(list.map(|list| ProviderPage {
            items: list.data.iter().map(|prompt| prompt.name.clone()).collect(),
            next: list.next_cursor.clone(),
        }))
    })?;
    let Some(Listed { items: names, next }) = names else { return Ok(Listed::pending()) };
    let mut found = Vec::new();
    for name in names {
        // A prompt without a version, or deleted meanwhile, is omitted.
        let ProviderReply::Found(version) = newest(client, &name)? else { continue };
        if let PromptLookup::Found(prompt) = labelled(client, &name, version)? {
            found.push(prompt);
        }
    }
    Ok(Listed { items: found, next })
}

fn page_query<'a>(page_size: &'a str, cursor: Option<&'a str>) -> Vec<(&'static str, &'a str)> {
    [("limit", page_size)].into_iter().chain(cursor.map(|cursor| ("cursor", cursor))).collect()
}

/// A version with its tags, which are what others call labels.
fn labelled(client: &mut ProviderClient, name: &str, version: Version) -> Result<PromptLookup> {
    let path = format!("/v1/prompt_versions/{}/tags", segment(&version.id));
    let labels = match client.one::<List<NameOnly>>(&path, &[])? {
        ProviderReply::Pending => return Ok(PromptLookup::Pending),
        ProviderReply::Found(tags) => tags.data.into_iter().map(|tag| tag.name).collect(),
        ProviderReply::Missing => Vec::new(),
    };
    Ok(PromptLookup::Found(FoundPrompt { labels, ..into_found(name, version) }))
}

/// Looks up one prompt.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    // It answers 422 for any other name, and takes some names for ids.
    let in_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if !name.bytes().all(in_name) {
        return Ok(PromptLookup::Missing);
    }
    let reply = match version {
        None => newest(client, name)?,
        Some(id) => by_id(client, name, id)?,
    };
    Ok(match reply {
        ProviderReply::Pending => PromptLookup::Pending,
        ProviderReply::Missing => PromptLookup::Missing,
        ProviderReply::Found(version) => labelled(client, name, version)?,
    })
}

fn newest(client: &mut ProviderClient, name: &str) -> Result<ProviderReply<Version>> {
    let path = format!("/v1/prompts/{}/latest", segment(name));
    Ok(client.one::<One<Version>>(&path, &[])?.and_then(|one| Some(one.data)))
}

/// Looks up a version by its id among those of this prompt: a version alone does not name its prompt.
fn by_id(client: &mut ProviderClient, name: &str, id: &str) -> Result<ProviderReply<Version>> {
    let path = format!("/v1/prompts/{}/versions", segment(name));
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let query = page_query(PAGE_SIZE, cursor.as_deref());
        let Some(list) = client.list::<List<Version>>(&path, &query)? else {
            return Ok(ProviderReply::Pending);
        };
        if let Some(version) = list.data.iter().find(|version| version.id == id) {
            return Ok(ProviderReply::Found(version.clone()));
        }
        cursor = list.next_cursor.clone();
        if cursor.is_none() {
            break;
        }
    }
    Ok(ProviderReply::Missing)
}

fn into_found(name: &str, version: Version) -> FoundPrompt {
    let syntax = match version.template_format {
        Format::Mustache => Syntax::Mustache,
        Format::FString => Syntax::FString,
        Format::None => Syntax::Plain,
        Format::Unknown => Syntax::Unknown,
    };
    FoundPrompt {
        name: name.into(),
        version: version.id,
        template: match version.template {
            TemplateContent::Chat { messages } => Template::Chat(messages, syntax),
            TemplateContent::String { template } => Template::Text(template, syntax),
        },
        labels: Vec::new(),
        extra: extra([
            ("modelProvider", version.model_provider),
            ("modelName", version.model_name),
            ("invocationParameters", version.invocation_parameters),
            ("tools", version.tools),
            ("responseFormat", version.response_format),
        ]),
        updated_at: None,
    }
}
