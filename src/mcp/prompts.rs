//! Prompts: what is published in the registries that a key may use, rendered with the arguments of a
//! client.

use serde_json::{Map, Value, json};

use super::api::Api;
use super::brief::{is_short, too_long};
use super::era::Era;
use super::failure::{Failure, INVALID_PARAMS};
use super::message::Outcome;
use super::params::text;
use super::strict::{List, Rendered, Version};
use super::uri::content_arguments;
use super::walk::{self, Found};
use crate::base::Result;

/// The argument that selects a version. No variable has a hyphen in its name.
pub const VERSION_ARGUMENT: &str = "prompt-version";

/// How long a client may keep a list, in milliseconds: new versions come at any time.
pub const LIST_MS: u32 = 10_000;

/// The arguments that a list shows of each prompt: more than a person fills in, and a page stays
/// below a megabyte. A version may have thousands of variables.
const MAX_ARGUMENTS: usize = 100;

/// The missing arguments that an error names.
const MAX_NAMED: usize = 20;

/// The result of `prompts/list`.
///
/// # Errors
/// 403 without the scopes for registries and their contents.
pub async fn list(api: &Api, params: &Value, era: Era) -> Result<Outcome, Failure> {
    let (found, next) = walk::page(api, params, Some("prompt")).await?;
    let mut prompts = Vec::new();
    for Found { registry, artifact } in found {
        let variables = variables(api, &registry.reference, &artifact.name).await?;
        let argument = |name: &String| json!({"name": name, "required": true});
        let mut arguments: Vec<Value> =
            variables.iter().take(MAX_ARGUMENTS).map(argument).collect();
        arguments.push(json!({
            "name": VERSION_ARGUMENT,
            "description": "A label, a version or a range; the newest version if absent",
            "required": false,
        }));
        prompts.push(json!({
            "name": format!("{}.{}", registry.slug, artifact.name),
            "description": format!("{} {}", registry.reference, artifact.latest_version),
            "arguments": arguments,
        }));
    }
    let mut fields = json!({"prompts": prompts});
    if let Some(next) = next {
        fields["nextCursor"] = json!(next);
    }
    Ok(Outcome::kept(&fields, era, LIST_MS, false))
}

/// The variables of the newest version of a prompt.
async fn variables(api: &Api, registry_ref: &str, name: &str) -> Result<Vec<String>> {
    let mut arguments = content_arguments(registry_ref, "prompt", name, None);
    arguments["limit"] = json!(1);
    let list: List<Version> = api.get("/registries/artifact-versions", &[], arguments).await?;
    Ok(list.items.into_iter().next().map(|newest| newest.variables).unwrap_or_default())
}

/// The result of `prompts/get`: the text with its values, as a message of the user.
///
/// # Errors
/// [`INVALID_PARAMS`] for a prompt that does not exist and for missing arguments; 409 if the text is too
/// long for a model, which would take a part of it for all.
pub async fn get(api: &Api, params: &Value) -> Result<Outcome, Failure> {
    let name = text(params, "name")?;
    let (registry_ref, prompt) = named(api, name)?;
    let mut variables = match params.get("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => {
            let message = "params.arguments must be an object of texts".to_string();
            return Err(Failure::new(INVALID_PARAMS, message));
        }
    };
    let version = variables.shift_remove(VERSION_ARGUMENT);
    let arguments =
        json!({"registryRef": registry_ref, "version": version, "variables": variables});
    let rendered: Rendered = api.post("/prompts/{promptName}/render", &[prompt], arguments).await?;
    if !rendered.missing.is_empty() {
        let named = &rendered.missing[..rendered.missing.len().min(MAX_NAMED)];
        let message = format!("these arguments are missing: {}", named.join(", "));
        return Err(Failure::new(INVALID_PARAMS, message));
    }
    if !is_short(json!(rendered.text).to_string().as_bytes()) {
        return Err(too_long("POST /api/prompts/{promptName}/render").into());
    }
    let content = json!({"type": "text", "text": rendered.text});
    Ok(Outcome::of(&json!({
        "description": format!("{registry_ref}/{prompt} {}", rendered.version),
        "messages": [{"role": "user", "content": content}],
    })))
}

/// The registry and the name that the name of a prompt is made of. A slug has no dots.
///
/// # Errors
/// [`INVALID_PARAMS`].
pub fn named<'a>(api: &Api, name: &'a str) -> Result<(String, &'a str), Failure> {
    let parts = name.split_once('.').filter(|(slug, name)| !slug.is_empty() && !name.is_empty());
    let (slug, prompt) = parts.ok_or_else(|| {
        let message = "a prompt is named <registry>.<prompt>; see prompts/list".to_string();
        Failure::new(INVALID_PARAMS, message)
    })?;
    Ok((format!("{}/{slug}", api.org_slug), prompt))
}
