//! Another Roadstead, through its public API with one of its keys.
//!
//! Its `baseUrl` ends in `/api`; a missing `/api` is added. The registries searched are those of the
//! organization that `?orgSlug=…` in `baseUrl` names, by default of the one with the caller's slug,
//! since a key cannot query the slug of its own organization. With `?registryRef=…` only that registry
//! is searched, which may be a public one of another organization.
//!
//! The template is the compiled text, since its imports need not exist here. Versions have three
//! numbers. Without a version, the newest is used.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::client::{MAX_PAGES, ProviderClient, ProviderReply};
use super::external::{FoundPrompt, PromptFormat, PromptLookup, Template};
use crate::base::{ArtifactName, Result, Time, Version};

/// The largest page that it returns.
const PAGE_SIZE: &str = "200";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Clone, Deserialize)]
struct Registry {
    id: String,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    name: String,
    labels: BTreeMap<String, String>,
    updated_at: Time,
}

#[derive(Deserialize)]
struct VersionContent {
    version: String,
    compiled: String,
}

/// Lists at most `limit` prompts.
pub fn list(client: &mut ProviderClient, limit: usize) -> Result<Vec<FoundPrompt>> {
    let Some(registries) = registries(client)? else { return Ok(Vec::new()) };
    let mut artifacts = Vec::new();
    for registry in registries {
        let query = [("registryRef", &*registry), ("artifactType", "prompt")];
        let Some(some) = fetch_all::<Artifact>(client, "/registries/artifacts", &query, limit)?
        else {
            continue;
        };
        artifacts.extend(some.into_iter().map(|artifact| (registry.clone(), artifact)));
    }
    artifacts.truncate(limit);
    let mut found = Vec::new();
    for (registry, artifact) in artifacts {
        // A prompt without a generic text, or deleted meanwhile, is omitted.
        let ProviderReply::Found(content) = content(client, &registry, &artifact.name, None)?
        else {
            continue;
        };
        let labels = artifact.labels.into_iter().filter(|(_, at)| *at == content.version);
        found.push(FoundPrompt {
            labels: labels.map(|(label, _)| label).collect(),
            updated_at: Some(artifact.updated_at),
            ..into_found(&artifact.name, content)
        });
    }
    Ok(found)
}

/// Looks up one prompt, without its labels.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    let is_version = version.is_none_or(|version| Version::parse(version).is_ok());
    if ArtifactName::parse(name).is_err() || !is_version {
        return Ok(PromptLookup::Missing);
    }
    let Some(registries) = registries(client)? else { return Ok(PromptLookup::Pending) };
    let mut is_pending = false;
    let mut found = Vec::new();
    for registry in registries {
        match content(client, &registry, name, version)? {
            ProviderReply::Pending => is_pending = true,
            ProviderReply::Missing => {}
            ProviderReply::Found(content) => found.push(content),
        }
    }
    Ok(match found.len() {
        _ if is_pending => PromptLookup::Pending,
        0 => PromptLookup::Missing,
        1 => PromptLookup::Found(into_found(name, found.remove(0))),
        _ => PromptLookup::Several,
    })
}

/// Returns the ids or references of the registries to search.
fn registries(client: &mut ProviderClient) -> Result<Option<Vec<String>>> {
    if let Some(registry) = client.option("registryRef") {
        return Ok(Some(vec![registry]));
    }
    let org_slug = client.option("orgSlug").unwrap_or_else(|| client.org_slug.into());
    let found =
        fetch_all::<Registry>(client, "/registries", &[("orgSlug", &org_slug)], usize::MAX)?;
    Ok(found.map(|found| found.into_iter().map(|registry| registry.id).collect()))
}

/// Returns at least `enough` items of a list, if it has that many.
fn fetch_all<T: Clone + DeserializeOwned + Send + Sync + 'static>(
    client: &mut ProviderClient,
    path: &str,
    query: &[(&str, &str)],
    enough: usize,
) -> Result<Option<Vec<T>>> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut query = [query, &[("limit", PAGE_SIZE)]].concat();
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let Some(list) = client.list::<List<T>>(path, &query)? else { return Ok(None) };
        items.extend_from_slice(&list.items);
        cursor = list.next_cursor.clone();
        if items.len() >= enough || cursor.is_none() {
            break;
        }
    }
    Ok(Some(items))
}

fn content(
    client: &mut ProviderClient,
    registry: &str,
    name: &str,
    version: Option<&str>,
) -> Result<ProviderReply<VersionContent>> {
    let mut query = vec![("registryRef", registry), ("promptName", name)];
    query.extend(version.map(|version| ("version", version)));
    client.one("/registries/artifact-versions/content", &query)
}

fn into_found(name: &str, content: VersionContent) -> FoundPrompt {
    FoundPrompt {
        name: name.into(),
        version: content.version,
        template: Template::Ours(content.compiled, PromptFormat::Text),
        labels: Vec::new(),
        updated_at: None,
    }
}
