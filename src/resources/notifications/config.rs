//! The configuration of channels: what each workflow takes, and what is stored of it.
//!
//! A configuration must satisfy the JSON Schema that clients are shown; it is read as the typed
//! configuration first, which words the usual problems as all other inputs do.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::workflows::{MAX_RECIPIENTS, WorkflowKey};
use crate::api::Input;
use crate::api::read::{SourceFormat, UnknownFields, read_input};
use crate::base::{
    BoundedList, Email, Error, HttpUrl, Id, Issue, Json, JsonMap, Result, TextRule, Validated,
};
use crate::outbox::Channel;
use crate::outside::webhook;
use crate::resources::teams::{Member, Team};

/// The configuration of a webhook.
#[derive(Deserialize)]
pub struct WebhookConfig {
    pub url: HttpUrl,
    /// Generated if absent.
    secret: Option<SigningSecret>,
}

/// The configuration of mail.
#[derive(Deserialize)]
struct EmailConfig {
    to: BoundedList<Email, 1, MAX_RECIPIENTS>,
}

/// The configuration of Slack; of what is stored, only the host of the URL.
#[derive(Deserialize)]
pub struct SlackConfig {
    url: HttpUrl,
}

/// The configuration of tasks.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamTaskConfig {
    pub team_id: Id<Team>,
    pub assignee_agent_id: Option<Id<Member>>,
}

/// The configuration of wakes.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentWakeConfig {
    pub team_id: Id<Team>,
    pub agent_id: Id<Member>,
}

/// The configuration of the log: there is nothing to configure.
#[derive(Deserialize)]
struct InAppConfig {}

impl Input for WebhookConfig {}
impl Input for EmailConfig {}
impl Input for SlackConfig {}
impl Input for TeamTaskConfig {}
impl Input for AgentWakeConfig {}
impl Input for InAppConfig {}

/// A signing secret of Standard Webhooks.
type SigningSecret = Validated<SigningSecretRule>;

struct SigningSecretRule;
impl TextRule for SigningSecretRule {
    fn check(text: String) -> Result<String, String> {
        /// The longest that the specification allows has 92 characters.
        const MAX_LEN: usize = 256;
        match webhook::secret_key(&text) {
            Some(key) if text.len() <= MAX_LEN && key.len() >= webhook::MIN_KEY_BYTES => Ok(text),
            _ => Err("must be whsec_ followed by the base64 of at least 16 bytes, at most 256 \
                      characters"
                .into()),
        }
    }
    fn schema() -> Value {
        json!({"type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{22,}={0,2}$", "maxLength": 256})
    }
}

/// A valid configuration.
#[derive(Debug, PartialEq)]
pub struct ValidConfig {
    /// What is stored and shown.
    pub shown: Json,
    /// What is stored sealed: the signing secret of a webhook, if one was sent, or the URL of Slack.
    pub secret: Option<String>,
}

/// Reads the configuration of a channel.
///
/// # Errors
/// 400 with every problem, below `config`.
pub fn read(workflow: WorkflowKey, config: Option<&JsonMap>) -> Result<ValidConfig> {
    let value = Value::Object(config.map(|config| config.0.clone()).unwrap_or_default());
    let valid = read_typed(workflow, &value).map_err(|error| below_config(&error))?;
    let issues = schema_issues(workflow, &value)?;
    if issues.is_empty() { Ok(valid) } else { Err(Error::invalid(issues)) }
}

fn read_typed(workflow: WorkflowKey, value: &Value) -> Result<ValidConfig> {
    let shown = |shown: Value| ValidConfig { shown: Json(shown), secret: None };
    Ok(match workflow {
        WorkflowKey::InApp => {
            typed::<InAppConfig>(value)?;
            shown(json!({}))
        }
        WorkflowKey::Webhook => {
            let WebhookConfig { url, secret } = typed(value)?;
            let secret = secret.map(Validated::into_string);
            ValidConfig { secret, ..shown(json!({"url": url})) }
        }
        WorkflowKey::Email => {
            let EmailConfig { to } = typed(value)?;
            shown(json!({"to": to.to_vec()}))
        }
        WorkflowKey::Slack => {
            let SlackConfig { url } = typed(value)?;
            let secret = Some(url.to_string());
            ValidConfig { secret, ..shown(json!({"url": host(&url)})) }
        }
        WorkflowKey::TeamTask => shown(json!(typed::<TeamTaskConfig>(value)?)),
        WorkflowKey::AgentWake => shown(json!(typed::<AgentWakeConfig>(value)?)),
    })
}

fn typed<T: Input>(value: &Value) -> Result<T> {
    read_input(value, SourceFormat::Body, UnknownFields::Refused(Default::default()))
}

/// Returns the host of a URL, which is not secret.
fn host(url: &HttpUrl) -> &str {
    let authority = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().unwrap_or_default()
}

fn below_config(error: &Error) -> Error {
    if error.issues().is_empty() {
        return Error::invalid_at("config", error.message());
    }
    let below = |issue: &Issue| match issue.path.as_str() {
        "" => Issue::new("config", issue.message.clone()),
        path => Issue::new(format!("config.{path}"), issue.message.clone()),
    };
    Error::invalid(error.issues().iter().map(below).collect())
}

/// Returns how a configuration violates the schema of its workflow, without repeating it: it may
/// hold a secret.
fn schema_issues(workflow: WorkflowKey, value: &Value) -> Result<Vec<Issue>> {
    let validator =
        jsonschema::draft202012::new(&workflow.config_schema()).map_err(Error::internal)?;
    let issue = |error: jsonschema::ValidationError| {
        let path = error.instance_path().to_string().replace('/', ".");
        Issue::new(format!("config{path}"), error.masked().to_string())
    };
    Ok(validator.iter_errors(value).map(issue).collect())
}

/// Returns the stored configuration of a channel.
///
/// # Errors
/// 500 if it is none of this type.
pub fn stored<T: DeserializeOwned>(channel: &Channel) -> Result<T> {
    serde_json::from_value(channel.config.0.clone()).map_err(|error| {
        Error::internal(format!("the configuration of channel {} is broken: {error}", channel.id))
    })
}

/// Returns the host of the URL of a webhook.
///
/// # Errors
/// 500 if its configuration is broken.
pub fn webhook_host(channel: &Channel) -> Result<String> {
    Ok(stored::<WebhookConfig>(channel)?.url.host())
}

/// Returns the recipients of a channel for mail; of others none.
///
/// # Errors
/// 500 if its configuration is broken.
pub fn recipients(channel: &Channel) -> Result<Vec<Email>> {
    /// Addresses that were stored before may not be ones by the rule of now.
    #[derive(Deserialize)]
    struct StoredRecipients {
        to: Vec<String>,
    }
    if WorkflowKey::of(channel)? != WorkflowKey::Email {
        return Ok(Vec::new());
    }
    let StoredRecipients { to } = stored(channel)?;
    Ok(to.into_iter().map(Email::from_trusted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(workflow: WorkflowKey, config: Value) -> Result<ValidConfig> {
        let Value::Object(map) = config else { panic!("an object") };
        read(workflow, Some(&JsonMap(map)))
    }

    #[test]
    fn secrets_are_separated_from_what_is_shown() {
        let url = "https://hooks.slack.test/services/T/B/geheim";
        let slack = checked(WorkflowKey::Slack, json!({"url": url})).unwrap();
        assert_eq!(
            (slack.shown.0, slack.secret.as_deref()),
            (json!({"url": "hooks.slack.test"}), Some(url))
        );
        let secret = "whsec_YSBzZWNyZXQgb2YgMTYrIGJ5dGVz";
        let hook = json!({"url": "https://a.test/?t=1", "secret": secret});
        let hook = checked(WorkflowKey::Webhook, hook).unwrap();
        assert_eq!(hook.shown.0, json!({"url": "https://a.test/?t=1"}));
        assert_eq!(hook.secret.as_deref(), Some(secret));
        let none = checked(WorkflowKey::Webhook, json!({"url": "http://a.test", "secret": null}));
        assert_eq!(none.unwrap().secret, None);
    }

    #[test]
    fn a_signing_secret_has_at_least_16_bytes() {
        for short in ["whsec_AA==", "whsec_AAAAAAAAAAAAAAAAAAAA"] {
            let config = json!({"url": "https://a.test", "secret": short});
            let refused = checked(WorkflowKey::Webhook, config).unwrap_err();
            assert_eq!(refused.issues()[0].path, "config.secret", "{short}");
        }
        let config = json!({"url": "https://a.test", "secret": "whsec_AAAAAAAAAAAAAAAAAAAAAA=="});
        assert!(checked(WorkflowKey::Webhook, config).is_ok());
    }

    #[test]
    fn every_problem_is_reported_below_config() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        for (workflow, config, paths) in [
            (WorkflowKey::InApp, json!({"url": 1}), vec!["config.url"]),
            (WorkflowKey::Webhook, json!({}), vec!["config.url"]),
            (
                WorkflowKey::Webhook,
                json!({"url": "ftp://a.test", "secret": "x", "sceret": "y"}),
                vec!["config.url", "config.secret", "config.sceret"],
            ),
            (WorkflowKey::Email, json!({"to": []}), vec!["config.to"]),
            (WorkflowKey::Email, json!({"to": ["a@b.test", "b"]}), vec!["config.to[1]"]),
            (WorkflowKey::Slack, json!({"url": "hooks.slack.test"}), vec!["config.url"]),
            (WorkflowKey::AgentWake, json!({"teamId": id}), vec!["config.agentId"]),
        ] {
            let error = checked(workflow, config.clone()).unwrap_err();
            let mut found: Vec<_> =
                error.issues().iter().map(|issue| issue.path.as_str()).collect();
            let mut paths = paths;
            found.sort_unstable();
            paths.sort_unstable();
            assert_eq!(found, paths, "{config}");
        }
    }

    #[test]
    fn what_the_schema_refuses_is_refused_without_being_repeated() {
        let schema = schema_issues(WorkflowKey::Webhook, &json!({"url": 1, "secret": "geheim"}));
        let issues = schema.unwrap();
        let paths: Vec<_> = issues.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["config.url", "config.secret"]);
        assert!(issues.iter().all(|issue| !issue.message.contains("geheim")), "{issues:?}");
    }
}
