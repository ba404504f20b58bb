//! Resources: texts of registries by label, the inbox of an agent, a task with its notes.

use serde_json::{Value, json};

use super::api::Api;
use super::era::Era;
use super::failure::{Failure, INVALID_PARAMS};
use super::message::{HOUR_MS, Outcome};
use super::params::text;
use super::prompts::LIST_MS;
use super::strict::{Content, Items};
use super::uri::{JSON, TEMPLATES, TEXT, Target, Template, content_arguments, of_content};
use super::walk::{self, Found};
use crate::base::Result;

/// The unread messages and the notes that are shown, newest first: those of one page.
const SHOWN: u32 = 50;

/// The labels that a list shows of each text, which may have a thousand.
const MAX_LABELS: usize = 100;

/// The result of `resources/templates/list`, always the same.
pub fn templates(era: Era) -> Outcome {
    let shown = |template: &Template| {
        let Template { uri, name, about, media_type } = template;
        json!({"uriTemplate": uri, "name": name, "description": about, "mimeType": media_type})
    };
    let templates: Vec<_> = TEMPLATES.iter().map(shown).collect();
    Outcome::kept(&json!({"resourceTemplates": templates}), era, HOUR_MS, true)
}

/// The result of `resources/list`: each text by each of its labels, and one without labels by its
/// newest version.
///
/// # Errors
/// 403 without the scopes for registries and their contents.
pub async fn list(api: &Api, params: &Value, era: Era) -> Result<Outcome, Failure> {
    let (found, next) = walk::page(api, params, None).await?;
    let resources: Vec<Value> = found.iter().flat_map(addresses).collect();
    let mut fields = json!({"resources": resources});
    if let Some(next) = next {
        fields["nextCursor"] = json!(next);
    }
    Ok(Outcome::kept(&fields, era, LIST_MS, false))
}

fn addresses(found: &Found) -> Vec<Value> {
    let Found { registry, artifact } = found;
    let shown = |label: &str, version: &str| {
        let uri = of_content(&registry.reference, &artifact.artifact_type, &artifact.name, label);
        json!({
            "uri": uri,
            "name": format!("{}@{label}", artifact.name),
            "description": format!("{} of {}, version {version}", artifact.artifact_type,
                registry.reference),
            "mimeType": TEXT,
        })
    };
    if artifact.labels.is_empty() {
        return vec![shown(&artifact.latest_version, &artifact.latest_version)];
    }
    artifact.labels.iter().take(MAX_LABELS).map(|(label, version)| shown(label, version)).collect()
}

/// The result of `resources/read`.
///
/// # Errors
/// What is not there is [`INVALID_PARAMS`], in the older revisions the code that they have for it.
pub async fn read(api: &Api, params: &Value, era: Era) -> Result<Outcome, Failure> {
    let uri = text(params, "uri")?;
    let (media_type, text) = contents(api, &target(uri)?)
        .await
        .map_err(|error| Failure::from(error).of_resource(uri))?;
    let contents = json!([{"uri": uri, "mimeType": media_type, "text": text}]);
    Ok(Outcome::kept(&json!({"contents": contents}), era, 0, false))
}

/// What an address names.
///
/// # Errors
/// [`INVALID_PARAMS`] if it is no address of this server.
pub fn target(uri: &str) -> Result<Target, Failure> {
    Target::parse(uri).ok_or_else(|| {
        let message = "this is no address of a resource; see resources/templates/list".to_string();
        Failure::new(INVALID_PARAMS, message).with_data(json!({"uri": uri})).of_resource(uri)
    })
}

/// The media type and the text of a resource.
async fn contents(api: &Api, target: &Target) -> Result<(&'static str, String)> {
    match target {
        Target::Content { registry_ref, artifact_type, name, version } => {
            let arguments =
                content_arguments(registry_ref, artifact_type, name, version.as_deref());
            let content: Content =
                api.get("/registries/artifact-versions/content", &[], arguments).await?;
            Ok((TEXT, content.compiled))
        }
        Target::Inbox { org, team, agent } => {
            let path = "/teams/{teamId}/agents/{agentId}/wakes";
            let arguments = json!({"orgSlug": org, "peek": true});
            let wakes: Items = api.get(path, &[team, agent], arguments).await?;
            let arguments =
                json!({"orgSlug": org, "agentId": agent, "unread": true, "limit": SHOWN});
            let messages: Items = api.get("/teams/{teamId}/messages", &[team], arguments).await?;
            Ok((JSON, json!({"wakes": wakes.items, "messages": messages.items}).to_string()))
        }
        Target::Task { org, team, task } => {
            let path = "/teams/{teamId}/tasks/{taskId}";
            let found: Value = api.get(path, &[team, task], json!({"orgSlug": org})).await?;
            let arguments = json!({"orgSlug": org, "taskId": task, "limit": SHOWN});
            let notes: Items = api.get("/teams/{teamId}/messages", &[team], arguments).await?;
            Ok((JSON, json!({"task": found, "notes": notes.items}).to_string()))
        }
    }
}
