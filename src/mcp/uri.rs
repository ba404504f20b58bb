//! The addresses of resources.
//!
//! | Address | Is |
//! |---|---|
//! | `roadstead://acme/main/prompts/scribe@production` | The text of a prompt: `@` a label, a version or a range; without it the newest |
//! | `roadstead://acme/main/promptlets/tone@1.2.0` | Likewise of a promptlet |
//! | `roadstead://acme/teams/{teamId}/agents/{agentId}/inbox` | What waits for an agent of a team |
//! | `roadstead://acme/teams/{teamId}/tasks/{taskId}` | A task with its notes |

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

const SCHEME: &str = "roadstead://";

/// What is encoded in a part of an address: ranges of versions have `^`, `>` and spaces.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The longest address: longer than any that names something.
const MAX_BYTES: usize = 1024;

/// The templates of all addresses with a name, a description and the media type of what is there.
pub const TEMPLATES: [Template; 4] = [
    Template {
        uri: "roadstead://{org}/{registry}/prompts/{name}@{version}",
        name: "prompt",
        about: "The text of a prompt with its imports; the version may be a label, as production",
        media_type: TEXT,
    },
    Template {
        uri: "roadstead://{org}/{registry}/promptlets/{name}@{version}",
        name: "promptlet",
        about: "The text of a promptlet, which prompts import",
        media_type: TEXT,
    },
    Template {
        uri: "roadstead://{org}/teams/{teamId}/agents/{agentId}/inbox",
        name: "inbox",
        about: "What waits for an agent of a team: its wakes and its unread messages",
        media_type: JSON,
    },
    Template {
        uri: "roadstead://{org}/teams/{teamId}/tasks/{taskId}",
        name: "task",
        about: "A task with its notes, newest first",
        media_type: JSON,
    },
];

/// The media type of texts.
pub const TEXT: &str = "text/plain";
/// The media type of everything else.
pub const JSON: &str = "application/json";

/// A template of addresses.
pub struct Template {
    pub uri: &'static str,
    pub name: &'static str,
    pub about: &'static str,
    pub media_type: &'static str,
}

/// What an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A text of a registry.
    Content {
        registry_ref: String,
        /// `prompt` or `promptlet`.
        artifact_type: &'static str,
        name: String,
        /// A label, a version or a range.
        version: Option<String>,
    },
    /// What waits for an agent.
    Inbox {
        org: String,
        team: String,
        agent: String,
    },
    Task {
        org: String,
        team: String,
        task: String,
    },
}

impl Target {
    /// Parses an address.
    pub fn parse(uri: &str) -> Option<Self> {
        let path = uri.strip_prefix(SCHEME).filter(|_| uri.len() <= MAX_BYTES)?;
        let parts: Option<Vec<String>> = path.split('/').map(decoded).collect();
        let parts = parts?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Some(match *parts.as_slice() {
            [org, "teams", team, "agents", agent, "inbox"] => {
                Target::Inbox { org: org.into(), team: team.into(), agent: agent.into() }
            }
            [org, "teams", team, "tasks", task] => {
                Target::Task { org: org.into(), team: team.into(), task: task.into() }
            }
            [org, registry, kind @ ("prompts" | "promptlets"), name] => {
                let (name, version) = match name.split_once('@') {
                    Some((name, version)) => (name, Some(version.to_string())),
                    None => (name, None),
                };
                Target::Content {
                    registry_ref: format!("{org}/{registry}"),
                    artifact_type: if kind == "prompts" { "prompt" } else { "promptlet" },
                    name: name.into(),
                    version,
                }
            }
            _ => return None,
        })
    }
}

/// A part of an address, decoded; none if it is empty.
fn decoded(part: &str) -> Option<String> {
    let decoded = percent_decode_str(part).decode_utf8().ok()?;
    (!decoded.is_empty()).then(|| decoded.into_owned())
}

/// The address of a text: `version` is a label, a version or a range.
pub fn of_content(registry_ref: &str, artifact_type: &str, name: &str, version: &str) -> String {
    let version = utf8_percent_encode(version, ENCODED);
    format!("{SCHEME}{registry_ref}/{artifact_type}s/{name}@{version}")
}

/// The arguments that name a text, for the routes of registries.
pub fn content_arguments(
    registry_ref: &str,
    artifact_type: &str,
    name: &str,
    version: Option<&str>,
) -> Value {
    let mut arguments = json!({
        "registryRef": registry_ref, "artifactType": artifact_type, "promptName": name,
    });
    if let Some(version) = version {
        arguments["version"] = json!(version);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_texts_inboxes_and_tasks() {
        let text = |version: Option<&str>| Target::Content {
            registry_ref: "acme/main".into(),
            artifact_type: "prompt",
            name: "scribe".into(),
            version: version.map(String::from),
        };
        for (uri, version) in [
            ("roadstead://acme/main/prompts/scribe", None),
            ("roadstead://acme/main/prompts/scribe@production", Some("production")),
            ("roadstead://acme/main/prompts/scribe@%5E1.2", Some("^1.2")),
        ] {
            assert_eq!(Target::parse(uri), Some(text(version)), "{uri}");
        }
        let inbox = Target::Inbox { org: "acme".into(), team: "t".into(), agent: "a".into() };
        assert_eq!(Target::parse("roadstead://acme/teams/t/agents/a/inbox"), Some(inbox));
        let task = Target::Task { org: "acme".into(), team: "t".into(), task: "k".into() };
        assert_eq!(Target::parse("roadstead://acme/teams/t/tasks/k"), Some(task));
        // A registry may be called as the teams are.
        assert!(matches!(
            Target::parse("roadstead://acme/teams/prompts/scribe"),
            Some(Target::Content { .. })
        ));
        for none in [
            "",
            "roadstead://",
            "http://acme/main/prompts/scribe",
            "roadstead://acme/main/tools/scribe",
            "roadstead://acme//prompts/scribe",
            "roadstead://acme/main/prompts/scribe/more",
            "roadstead://acme/main/prompts/%ff",
            &format!("roadstead://acme/main/prompts/{}", "a".repeat(1024)),
        ] {
            assert_eq!(Target::parse(none), None, "{none}");
        }
    }

    #[test]
    fn the_address_of_a_text_leads_back_to_it() {
        for version in ["production", "1.2.0", "^1.2", ">=1.0.0 <2.0.0"] {
            let uri = of_content("acme/main", "promptlet", "tone", version);
            let Some(Target::Content { version: back, .. }) = Target::parse(&uri) else {
                panic!("{uri}")
            };
            assert_eq!(back.as_deref(), Some(version), "{uri}");
        }
    }
}
