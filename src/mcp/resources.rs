//! Resources: texts of registries by label, the inbox of an agent, a task with its notes.

use serde_json::{Value, json};

use super::api::Api;
use super::brief::{Brief, is_short, too_long};
use super::era::Era;
use super::failure::{Failure, INVALID_PARAMS};
use super::message::{HOUR_MS, Outcome};
use super::params::text;
use super::prompts::LIST_MS;
use super::strict::{Content, Items};
use super::uri::{JSON, TEMPLATES, TEXT, Target, Template, content_arguments, of_content};
use super::walk::{self, Found};
use crate::base::{Error, Result};

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
/// What is not there is [`INVALID_PARAMS`], in the older revisions the code that they have for it. 409
/// for a text that is too long for a model, which would take a part of it for all.
pub async fn read(api: &Api, params: &Value, era: Era) -> Result<Outcome, Failure> {
    let uri = text(params, "uri")?;
    let Contents { media_type, text, is_cut } = contents(api, &target(uri)?)
        .await
        .map_err(|error| Failure::from(error).of_resource(uri))?;
    let contents = json!([{"uri": uri, "mimeType": media_type, "text": text}]);
    let outcome = Outcome::kept(&json!({"contents": contents}), era, 0, false);
    Ok(if is_cut { outcome.cut() } else { outcome })
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

/// What is at an address.
struct Contents {
    media_type: &'static str,
    text: String,
    /// Whether it is not all of what is there.
    is_cut: bool,
}

async fn contents(api: &Api, target: &Target) -> Result<Contents> {
    match target {
        Target::Content { registry_ref, artifact_type, name, version } => {
            let arguments =
                content_arguments(registry_ref, artifact_type, name, version.as_deref());
            let path = "/registries/artifact-versions/content";
            let content: Content = api.get(path, &[], arguments).await?;
            if !is_short(json!(content.compiled).to_string().as_bytes()) {
                return Err(too_long(&format!("GET /api{path}")));
            }
            Ok(Contents { media_type: TEXT, text: content.compiled, is_cut: false })
        }
        Target::Inbox { org, team, agent } => {
            let path = "/teams/{teamId}/agents/{agentId}/wakes";
            let arguments = json!({"orgSlug": org, "peek": true});
            let wakes: Items = api.get(path, &[team, agent], arguments).await?;
            let arguments =
                json!({"orgSlug": org, "agentId": agent, "unread": true, "limit": SHOWN});
            let messages: Items = api.get("/teams/{teamId}/messages", &[team], arguments).await?;
            let whole_in = "message_list with a smaller limit shows more";
            in_short(json!({"wakes": wakes.items}), "messages", messages.items, whole_in).await
        }
        Target::Task { org, team, task } => {
            let path = "/teams/{teamId}/tasks/{taskId}";
            let found: Value = api.get(path, &[team, task], json!({"orgSlug": org})).await?;
            let arguments = json!({"orgSlug": org, "taskId": task, "limit": SHOWN});
            let notes: Items = api.get("/teams/{teamId}/messages", &[team], arguments).await?;
            let whole_in = "task_get, or message_list with a smaller limit, shows more";
            in_short(json!({"task": found}), "notes", notes.items, whole_in).await
        }
    }
}

/// An object with a list of messages, made short as the answers of tools are.
async fn in_short(
    mut answer: Value,
    list: &'static str,
    messages: Value,
    whole_in: &'static str,
) -> Result<Contents> {
    answer[list] = messages;
    let text = answer.to_string();
    if is_short(text.as_bytes()) {
        return Ok(Contents { media_type: JSON, text, is_cut: false });
    }
    let work = tokio::task::spawn_blocking(move || shortened(answer, list, whole_in));
    let short = work.await.map_err(Error::internal)?;
    let short = short.ok_or_else(|| Error::internal("a resource cannot be made short"))?;
    Ok(Contents { media_type: JSON, text: short.to_string(), is_cut: true })
}

/// Cuts the texts of an answer, and leaves out the oldest messages of its list if that is not enough.
fn shortened(mut answer: Value, list: &str, whole_in: &str) -> Option<Value> {
    let count = answer[list].as_array()?.len();
    let mut kept = count;
    loop {
        let is_last = kept <= 1;
        let brief = Brief { whole_in, is_page: true, can_have_fewer: !is_last };
        if let Some(short) = brief.fit(&answer) {
            return Some(short);
        }
        if is_last {
            return None;
        }
        kept /= 2;
        let messages = answer[list].as_array_mut()?;
        messages.truncate(kept);
        messages.push(json!(format!("… [{} more left out; {whole_in}]", count - kept)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_inbox_keeps_its_wakes_and_as_many_messages_as_there_is_room_for() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let wake = json!({"id": id, "reasons": ["message"], "agentId": id, "createdAt": id});
        let inbox = |fields: usize, body: &str| {
            let ids = (0..fields).map(|nth| (format!("field{nth}"), json!(id)));
            let mut message: serde_json::Map<String, Value> = ids.collect();
            message.insert("body".into(), json!(body));
            json!({"wakes": vec![wake.clone(); 50], "messages": vec![json!(message); 50]})
        };
        for (fields, kept) in [(3, 50), (30, 26)] {
            let short = shortened(inbox(fields, &"語".repeat(3_000)), "messages", "ask").unwrap();
            assert!(is_short(short.to_string().as_bytes()));
            assert_eq!(short["wakes"], json!(vec![wake.clone(); 50]));
            let messages = short["messages"].as_array().unwrap();
            assert_eq!(messages.len(), kept);
            assert!(messages[0]["body"].as_str().unwrap().ends_with("characters left out; ask]"));
            let last = messages[kept - 1].as_str();
            assert_eq!(last, (kept < 50).then_some("… [25 more left out; ask]"));
        }
    }
}
