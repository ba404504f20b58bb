//! The prompt registry of MLflow: registered models that are marked as prompts, in its REST API 2.0.
//! The text of a version is one of its tags.
//!
//! Versions are numbers. Without a version, the newest is used.

use serde::Deserialize;
use serde_json::Value;

use super::client::{MAX_PAGES, ProviderClient, ProviderReply};
use super::external::{FoundPrompt, PromptLookup, Template};
use super::template::Syntax;
use crate::base::{Result, Time};

/// Marks a model, or a version of one, as a prompt.
const IS_PROMPT: &str = "mlflow.prompt.is_prompt";
/// The text of a version.
const TEXT: &str = "mlflow.prompt.text";
/// `chat` where the text is a list of messages, as JSON.
const TYPE: &str = "_mlflow_prompt_type";

#[derive(Deserialize)]
struct Models {
    #[serde(default)]
    registered_models: Vec<Model>,
    next_page_token: Option<String>,
}

#[derive(Clone, Deserialize)]
struct Model {
    name: String,
    #[serde(default)]
    aliases: Vec<Alias>,
}

#[derive(Clone, Deserialize)]
struct Alias {
    alias: String,
    version: String,
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    model_versions: Vec<Version>,
}

#[derive(Deserialize)]
struct One {
    model_version: Version,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    tags: Vec<Tag>,
    last_updated_timestamp: Option<i64>,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    value: String,
}

impl Version {
    fn tag(&self, key: &str) -> Option<&str> {
        self.tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str())
    }
}

/// Lists at most `limit` prompts.
pub fn list(client: &mut ProviderClient, limit: usize) -> Result<Vec<FoundPrompt>> {
    let filter = format!("tags.`{IS_PROMPT}` = 'true'");
    let page_size = limit.to_string();
    let mut models = Vec::new();
    let mut token: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut query = vec![("filter", &*filter), ("max_results", &*page_size)];
        query.extend(token.as_deref().map(|token| ("page_token", token)));
        let path = "/api/2.0/mlflow/registered-models/search";
        let Some(list) = client.list::<Models>(path, &query)? else { return Ok(Vec::new()) };
        models.extend_from_slice(&list.registered_models);
        token = list.next_page_token.clone().filter(|token| !token.is_empty());
        if models.len() >= limit || token.is_none() {
            break;
        }
    }
    models.truncate(limit);
    let mut found = Vec::new();
    for model in models {
        // A prompt without a version, or deleted meanwhile, is omitted.
        if let PromptLookup::Found(prompt) = find(client, &model.name, None)? {
            let aliases = model.aliases.into_iter().filter(|a| a.version == prompt.version);
            found
                .push(FoundPrompt { labels: aliases.map(|alias| alias.alias).collect(), ..prompt });
        }
    }
    Ok(found)
}

/// Looks up one prompt, without its labels.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    // No prompt has any other name, and filters have no escape for a quote.
    let in_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if !name.bytes().all(in_name) {
        return Ok(PromptLookup::Missing);
    }
    let version = match version {
        None => newest(client, name)?,
        Some(version) if version.parse::<u64>().is_err() => ProviderReply::Missing,
        Some(version) => {
            let path = "/api/2.0/mlflow/model-versions/get";
            let one = client.one::<One>(path, &[("name", name), ("version", version)])?;
            // It may be a version of a model that is no prompt.
            one.and_then(|one| Some(one.model_version).filter(|v| v.tag(IS_PROMPT).is_some()))
        }
    };
    match version {
        ProviderReply::Pending => Ok(PromptLookup::Pending),
        ProviderReply::Missing => Ok(PromptLookup::Missing),
        ProviderReply::Found(version) => {
            Ok(PromptLookup::Found(into_found(client, name, version)?))
        }
    }
}

fn newest(client: &mut ProviderClient, name: &str) -> Result<ProviderReply<Version>> {
    let filter = format!("name = '{name}' AND tags.`{IS_PROMPT}` = 'true'");
    let query = [("filter", &*filter), ("max_results", "1"), ("order_by", "version_number DESC")];
    let list = client.one::<Versions>("/api/2.0/mlflow/model-versions/search", &query)?;
    // Not every registry with this API respects the requested order or number.
    let number = |version: &Version| version.version.parse::<u64>().ok();
    Ok(list.and_then(|list| list.model_versions.into_iter().max_by_key(number)))
}

fn into_found(client: &ProviderClient, name: &str, version: Version) -> Result<FoundPrompt> {
    let text = version.tag(TEXT).ok_or_else(|| client.malformed())?;
    let template = match version.tag(TYPE) {
        Some("chat") => {
            let messages: Vec<Value> =
                serde_json::from_str(text).map_err(|_| client.malformed())?;
            Template::Chat(messages, Syntax::Jinja)
        }
        _ => Template::Text(text.into(), Syntax::Jinja),
    };
    Ok(FoundPrompt {
        name: name.into(),
        template,
        updated_at: match version.last_updated_timestamp {
            None => None,
            Some(millis) => Some(time(millis).ok_or_else(|| client.malformed())?),
        },
        version: version.version,
        labels: Vec::new(),
    })
}

/// Returns a time, if it is in the range that can be formatted.
fn time(millis: i64) -> Option<Time> {
    const YEAR_10000: i64 = 253_402_300_800_000;
    (0..YEAR_10000).contains(&millis).then(|| Time::from_millis(millis))
}
