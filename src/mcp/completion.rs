//! Completion of arguments: versions of a prompt, and the parts of the address of a text.

use serde_json::{Value, json};

use super::api::Api;
use super::failure::{Failure, INVALID_PARAMS};
use super::message::Outcome;
use super::params::text_in;
use super::prompts::{VERSION_ARGUMENT, named};
use super::strict::{Artifact, List, Registry, Version};
use super::uri::{TEMPLATES, content_arguments};
use crate::base::{Kind, Result};

/// The values of an answer, as many as the protocol allows.
const MAX_VALUES: usize = 100;

/// The names that are looked through: the largest page of the API. Of versions, which are larger, it
/// is the usual page.
const LOOKED_THROUGH: u32 = 200;

/// The result of `completion/complete`: values that begin with what was typed.
///
/// # Errors
/// [`INVALID_PARAMS`] for a reference that is none.
pub async fn complete(api: &Api, params: &Value) -> Result<Outcome, Failure> {
    let name = text_in(params, "argument", "name")?;
    let typed = text_in(params, "argument", "value")?;
    let known = &params["context"]["arguments"];
    let (all, has_more) = match params["ref"]["type"].as_str() {
        Some("ref/prompt") => {
            let (registry_ref, prompt) = named(api, text_in(params, "ref", "name")?)?;
            if name == VERSION_ARGUMENT {
                versions(api, &registry_ref, "prompt", prompt).await?
            } else {
                Candidates::default()
            }
        }
        Some("ref/resource") => {
            let uri = text_in(params, "ref", "uri")?;
            match TEMPLATES.iter().find(|template| template.uri == uri) {
                Some(template) => of_address(api, template.name, name, typed, known).await?,
                None => return Err(unknown("params.ref.uri is none of the templates")),
            }
        }
        _ => return Err(unknown("params.ref.type must be ref/prompt or ref/resource")),
    };
    let mut values: Vec<_> = all.into_iter().filter(|value| value.starts_with(typed)).collect();
    let has_more = has_more || values.len() > MAX_VALUES;
    values.truncate(MAX_VALUES);
    Ok(Outcome::of(&json!({"completion": {"values": values, "hasMore": has_more}})))
}

fn unknown(message: &str) -> Failure {
    Failure::new(INVALID_PARAMS, message.into())
}

/// Values, and whether there are more that were not looked through.
type Candidates = (Vec<String>, bool);

/// The values of a part of the address of a text.
async fn of_address(
    api: &Api,
    artifact_type: &str,
    name: &str,
    typed: &str,
    known: &Value,
) -> Result<Candidates, Failure> {
    let part = |name: &str| known[name].as_str().unwrap_or_default();
    let registry_ref = || {
        let org = if part("org").is_empty() { &api.org_slug } else { part("org") };
        format!("{org}/{}", part("registry"))
    };
    let is_text = matches!(artifact_type, "prompt" | "promptlet");
    Ok(match name {
        "org" => (vec![api.org_slug.clone()], false),
        "registry" if is_text => {
            let arguments = json!({"limit": LOOKED_THROUGH});
            let list: List<Registry> = api.get("/registries", &[], arguments).await?;
            let slugs = list.items.into_iter().map(|registry| registry.slug);
            (slugs.collect(), list.next_cursor.is_some())
        }
        "name" if is_text && !part("registry").is_empty() => {
            names(api, &registry_ref(), artifact_type, typed).await?
        }
        "version" if is_text && !part("name").is_empty() => {
            versions(api, &registry_ref(), artifact_type, part("name")).await?
        }
        _ => Candidates::default(),
    })
}

async fn names(
    api: &Api,
    registry_ref: &str,
    artifact_type: &str,
    typed: &str,
) -> Result<Candidates> {
    let arguments = json!({
        "registryRef": registry_ref, "artifactType": artifact_type, "limit": LOOKED_THROUGH,
    });
    let list: Result<List<Artifact>> = api.get("/registries/artifacts", &[], arguments).await;
    let Some(list) = found(list)? else { return Ok(Candidates::default()) };
    let names = list.items.into_iter().map(|artifact| artifact.name);
    let names = names.filter(|name| name.starts_with(typed)).collect();
    Ok((names, list.next_cursor.is_some()))
}

/// The labels and versions of a text.
async fn versions(
    api: &Api,
    registry_ref: &str,
    artifact_type: &str,
    name: &str,
) -> Result<Candidates> {
    let arguments = content_arguments(registry_ref, artifact_type, name, None);
    let list: Result<List<Artifact>> =
        api.get("/registries/artifacts", &[], arguments.clone()).await;
    let Some(list) = found(list)? else { return Ok(Candidates::default()) };
    let mut values: Vec<String> =
        list.items.into_iter().flat_map(|artifact| artifact.labels.into_keys()).collect();
    let list: Result<List<Version>> =
        api.get("/registries/artifact-versions", &[], arguments).await;
    let Some(list) = found(list)? else { return Ok(Candidates::default()) };
    for version in list.items {
        // There is one item for each model of a version.
        if !values.contains(&version.version) {
            values.push(version.version);
        }
    }
    Ok((values, list.next_cursor.is_some()))
}

/// What was found; while a name is being typed, nothing has that name yet.
fn found<T>(list: Result<T>) -> Result<Option<T>> {
    match list {
        Ok(list) => Ok(Some(list)),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid) => Ok(None),
        Err(error) => Err(error),
    }
}
