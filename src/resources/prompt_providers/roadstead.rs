//! Another Roadstead, through its public API with one of its keys.
//!
//! Its `baseUrl` ends in `/api`; a missing `/api` is added. The registries listed are those of the
//! organization that `?orgSlug=…` in `baseUrl` names, by default of the one with our own slug: a key
//! cannot ask for the name of its organization. With `?registryRef=…` it is that registry alone,
//! public ones of others included.
//!
//! The template is the compiled text: what it imports there need not be here. Versions have three
//! numbers; who names none gets the newest.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::external::{Found, Lookup, PromptFormat, Template};
use super::server::{MAX_PARTS, Reply, Server};
use crate::base::{ArtifactName, Result, Time, Version};

/// It gives at most so many in one answer.
const PART: &str = "200";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Registry {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    name: String,
    labels: BTreeMap<String, String>,
    updated_at: Time,
}

#[derive(Deserialize)]
struct Content {
    version: String,
    compiled: String,
}

/// At most `limit` prompts.
pub fn list(server: &mut Server, limit: usize) -> Result<Vec<Found>> {
    let Some(registries) = registries(server)? else { return Ok(Vec::new()) };
    let mut artifacts = Vec::new();
    for registry in registries {
        let query = [("registryRef", &*registry), ("artifactType", "prompt")];
        let Some(some) = all::<Artifact>(server, "/registries/artifacts", &query, limit)? else {
            continue;
        };
        artifacts.extend(some.into_iter().map(|artifact| (registry.clone(), artifact)));
    }
    artifacts.truncate(limit);
    let mut found = Vec::new();
    for (registry, artifact) in artifacts {
        // One without a text for every model, or gone meanwhile, is left out.
        let Reply::There(content) = content(server, &registry, &artifact.name, None)? else {
            continue;
        };
        let labels = artifact.labels.into_iter().filter(|(_, at)| *at == content.version);
        found.push(Found {
            labels: labels.map(|(label, _)| label).collect(),
            updated_at: Some(artifact.updated_at),
            ..into_found(&artifact.name, content)
        });
    }
    Ok(found)
}

/// One prompt. Its labels are not asked for.
pub fn find(server: &mut Server, name: &str, version: Option<&str>) -> Result<Lookup> {
    let is_version = version.is_none_or(|version| Version::parse(version).is_ok());
    if ArtifactName::parse(name).is_err() || !is_version {
        return Ok(Lookup::Missing);
    }
    let Some(registries) = registries(server)? else { return Ok(Lookup::Pending) };
    let mut is_pending = false;
    let mut found = Vec::new();
    for registry in registries {
        match content(server, &registry, name, version)? {
            Reply::Pending => is_pending = true,
            Reply::Missing => {}
            Reply::There(content) => found.push(content),
        }
    }
    Ok(match found.len() {
        _ if is_pending => Lookup::Pending,
        0 => Lookup::Missing,
        1 => Lookup::Found(into_found(name, found.remove(0))),
        _ => Lookup::Several,
    })
}

/// The registries that prompts are looked for in.
fn registries(server: &mut Server) -> Result<Option<Vec<String>>> {
    if let Some(registry) = server.option("registryRef") {
        return Ok(Some(vec![registry]));
    }
    let org_slug = server.option("orgSlug").unwrap_or_else(|| server.org_slug.into());
    let found = all::<Registry>(server, "/registries", &[("orgSlug", &org_slug)], usize::MAX)?;
    Ok(found.map(|found| found.into_iter().map(|registry| registry.id).collect()))
}

/// At least `enough` of a list, if it has as many.
fn all<T: DeserializeOwned>(
    server: &mut Server,
    path: &str,
    query: &[(&str, &str)],
    enough: usize,
) -> Result<Option<Vec<T>>> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PARTS {
        let mut query = [query, &[("limit", PART)]].concat();
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let Some(list) = server.list::<List<T>>(path, &query)? else { return Ok(None) };
        items.extend(list.items);
        cursor = list.next_cursor;
        if items.len() >= enough || cursor.is_none() {
            break;
        }
    }
    Ok(Some(items))
}

fn content(
    server: &mut Server,
    registry: &str,
    name: &str,
    version: Option<&str>,
) -> Result<Reply<Content>> {
    let mut query = vec![("registryRef", registry), ("promptName", name)];
    query.extend(version.map(|version| ("version", version)));
    server.one("/registries/artifact-versions/content", &query)
}

fn into_found(name: &str, content: Content) -> Found {
    Found {
        name: name.into(),
        version: content.version,
        template: Template::Ours(content.compiled, PromptFormat::Text),
        labels: Vec::new(),
        updated_at: None,
    }
}
