//! The prompt registry of MLflow: registered models that are marked as prompts, in its REST API 2.0.
//! The text of a version is one of its tags.
//!
//! Versions are numbers. Without a version, the newest is used.

use serde::Deserialize;
use serde_json::Value;

use super::client::{ProviderClient, ProviderReply};
use super::external::{FoundPrompt, PromptLookup, Template, extra};
use super::paging::{self, Listed, Position, ProviderPage};
use super::template::Syntax;
use crate::base::{Result, Time};

/// Marks a model, or a version of one, as a prompt.
const IS_PROMPT: &str = "mlflow.prompt.is_prompt";
/// The text of a version.
const TEXT: &str = "mlflow.prompt.text";
/// The settings of the model, as JSON.
const MODEL_CONFIG: &str = "_mlflow_prompt_model_config";
/// The form of its answers, as JSON.
const RESPONSE_FORMAT: &str = "_mlflow_prompt_response_format";
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
struct OneModel {
    registered_model: Model,
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

/// Lists prompts.
pub fn list(
    client: &mut ProviderClient,
    from: &Position,
    limit: usize,
) -> Result<Listed<FoundPrompt>> {
    let filter = format!("tags.`{IS_PROMPT}` = 'true'");
    let models = paging::read(client, from, limit, 0, |client, token, wanted| {
        let size = wanted.to_string();
        let mut query = vec![("filter", &*filter), ("max_results", &*size)];
        query.extend((!token.is_empty()).then_some(("page_token", token)));
        let path = "/api/2.0/mlflow/registered-models/search";
        let list = client.list::<Models>(path, &query)?;
        Ok(list.map(|list| ProviderPage {
            items: list.registered_models.clone(),
            next: list.next_page_token.clone(),
        }))
    })?;
    let Some(Listed { items: models, next }) = models else { return Ok(Listed::pending()) };
    let mut found = Vec::new();
    for model in models {
        // A prompt without a version, or deleted meanwhile, is omitted.
        if let PromptLookup::Found(prompt) = version_of(client, &model.name, None)? {
            found.push(labelled(prompt, model));
        }
    }
    Ok(Listed { items: found, next })
}

/// A version with the aliases of its model that are of it.
fn labelled(prompt: FoundPrompt, model: Model) -> FoundPrompt {
    let aliases = model.aliases.into_iter().filter(|alias| alias.version == prompt.version);
    FoundPrompt { labels: aliases.map(|alias| alias.alias).collect(), ..prompt }
}

/// Looks up one prompt.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    let found = match version_of(client, name, version)? {
        PromptLookup::Found(found) => found,
        other => return Ok(other),
    };
    let path = "/api/2.0/mlflow/registered-models/get";
    Ok(match client.one::<OneModel>(path, &[("name", name)])? {
        ProviderReply::Pending => PromptLookup::Pending,
        ProviderReply::Missing => PromptLookup::Found(found),
        ProviderReply::Found(one) => PromptLookup::Found(labelled(found, one.registered_model)),
    })
}

/// Looks up a version of a prompt, without its labels.
fn version_of(
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
    // Its own tags begin so; those of people do not.
    let is_own = |tag: &&Tag| tag.key.starts_with("mlflow.") || tag.key.starts_with("_mlflow_");
    let tags = version.tags.iter().filter(|tag| !is_own(tag));
    let tags = tags.map(|tag| (tag.key.clone(), tag.value.clone().into())).collect();
    let own = |key: &str| {
        let text = version.tag(key)?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    };
    let config = [("modelConfig", own(MODEL_CONFIG)), ("responseFormat", own(RESPONSE_FORMAT))];
    let [model_config, response_format] = config;
    Ok(FoundPrompt {
        name: name.into(),
        template,
        extra: extra([("tags", Some(Value::Object(tags))), model_config, response_format]),
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
