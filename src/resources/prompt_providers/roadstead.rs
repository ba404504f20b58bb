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
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::client::{MAX_PAGES, ProviderClient, ProviderReply};
use super::external::{FoundPrompt, PromptFormat, PromptLookup, Template, extra};
use super::paging::{self, Listed, Position, ProviderPage};
use crate::base::{ArtifactName, Error, Result, Time, Version};

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
    metadata: Option<Value>,
}

/// Lists prompts, one registry after the other. A page ends with the last registry that is needed for it.
pub fn list(
    client: &mut ProviderClient,
    from: &Position,
    limit: usize,
) -> Result<Listed<FoundPrompt>> {
    let Some(registries) = registries(client)? else { return Ok(Listed::pending()) };
    let index_of = |token: &str| {
        let registry = token.split(' ').next().unwrap_or_default();
        match registry {
            "" => Some(0),
            _ => registries.iter().position(|one| one == registry),
        }
    };
    // At once, since most registries have one page.
    for registry in registries.iter().skip(index_of(from.token()).unwrap_or(0)) {
        artifacts(client, registry, "")?;
    }
    let listed = paging::read(client, from, limit, registries.len(), |client, token, _| {
        // The registry, and the cursor within it.
        let cursor = token.split_once(' ').map_or("", |(_, cursor)| cursor);
        let index = index_of(token).ok_or_else(|| {
            let gone = "is of a registry that the provider does not have any more; begin again";
            Error::invalid_at("cursor", gone)
        })?;
        let Some(registry) = registries.get(index) else {
            return Ok(Some(ProviderPage { items: Vec::new(), next: None }));
        };
        let list = artifacts(client, registry, cursor)?;
        Ok(list.map(|list| {
            let items = list.items.iter().map(|artifact| (registry.clone(), artifact.clone()));
            let within = list.next_cursor.as_ref().map(|cursor| format!("{registry} {cursor}"));
            let next = within.or_else(|| registries.get(index + 1).map(|next| format!("{next} ")));
            ProviderPage { items: items.collect(), next }
        }))
    })?;
    let Some(Listed { items, next }) = listed else { return Ok(Listed::pending()) };
    let mut found = Vec::new();
    for (registry, artifact) in items {
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
    Ok(Listed { items: found, next })
}

/// A page of the artifacts of a registry.
fn artifacts(
    client: &mut ProviderClient,
    registry: &str,
    cursor: &str,
) -> Result<Option<Arc<List<Artifact>>>> {
    let mut query =
        vec![("registryRef", registry), ("artifactType", "prompt"), ("limit", PAGE_SIZE)];
    query.extend((!cursor.is_empty()).then_some(("cursor", cursor)));
    client.list("/registries/artifacts", &query)
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
    let mut ids = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut query = vec![("orgSlug", &*org_slug), ("limit", PAGE_SIZE)];
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let Some(list) = client.list::<List<Registry>>("/registries", &query)? else {
            return Ok(None);
        };
        ids.extend(list.items.iter().map(|registry| registry.id.clone()));
        cursor = list.next_cursor.clone();
        if cursor.is_none() {
            break;
        }
    }
    Ok(Some(ids))
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
        extra: extra([("metadata", content.metadata)]),
        updated_at: None,
    }
}
