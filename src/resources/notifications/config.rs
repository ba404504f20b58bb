//! The configuration of channels: what each workflow takes, and what is stored of it.
//!
//! A configuration is read as every other input is, into the type from which the JSON Schema comes that
//! clients are shown.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::workflow_key::WorkflowKey;
use crate::api::Input;
use crate::api::read::{SourceFormat, UnknownFields, read_input};
use crate::base::{
    BoundedList, Email, Error, HttpUrl, Id, Issue, Json, JsonMap, Result, TextRule, Validated,
};
use crate::outbox::Channel;
use crate::outside::webhook;
use crate::resources::teams::{Member, Team};

/// A mail has at most 50 recipients: a channel notifies a few people and is not a mailing list.
pub const MAX_RECIPIENTS: usize = 50;

/// The configuration of a webhook.
#[derive(Deserialize, JsonSchema)]
pub struct WebhookConfig {
    pub url: HttpUrl,
    /// Generated if absent.
    secret: Option<SigningSecret>,
}

/// The configuration of mail.
#[derive(Deserialize, JsonSchema)]
struct EmailConfig {
    to: BoundedList<Email, 1, MAX_RECIPIENTS>,
}

/// The configuration of Slack. Of the URL, which is a secret, only the host is shown.
#[derive(Deserialize, JsonSchema)]
pub struct SlackConfig {
    url: HttpUrl,
}

/// The configuration of tasks.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamTaskConfig {
    pub team_id: Id<Team>,
    pub assignee_agent_id: Option<Id<Member>>,
}

/// The configuration of wakes.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentWakeConfig {
    pub team_id: Id<Team>,
    pub agent_id: Id<Member>,
}

/// The configuration of the log: there is nothing to configure.
#[derive(Deserialize, JsonSchema)]
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
        webhook::check_secret(&text)?;
        Ok(text)
    }
    fn schema() -> Value {
        let (pattern, max) = (webhook::SECRET_PATTERN, webhook::MAX_SECRET_LEN);
        json!({"type": "string", "pattern": pattern, "maxLength": max})
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

/// Returns the JSON Schema 2020-12 of a channel's `config`.
pub fn schema(workflow: WorkflowKey) -> Value {
    match workflow {
        WorkflowKey::InApp => schema_of::<InAppConfig>(),
        WorkflowKey::Webhook => schema_of::<WebhookConfig>(),
        WorkflowKey::Email => schema_of::<EmailConfig>(),
        WorkflowKey::Slack => schema_of::<SlackConfig>(),
        WorkflowKey::TeamTask => schema_of::<TeamTaskConfig>(),
        WorkflowKey::AgentWake => schema_of::<AgentWakeConfig>(),
    }
}

/// Returns the schema of an object without fields that it does not name
/// (reference: conventions, "Unknown fields").
fn schema_of<T: JsonSchema>() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.insert("additionalProperties".into(), false.into());
    schema.to_value()
}

/// Reads the configuration of a channel.
///
/// # Errors
/// 400 with every problem, below `config`.
pub fn read(workflow: WorkflowKey, config: Option<&JsonMap>) -> Result<ValidConfig> {
    let value = Value::Object(config.map(JsonMap::to_map).unwrap_or_default());
    read_value(workflow, &value)
}

/// Does the same with a value.
///
/// # Errors
/// As [`read`].
pub fn read_value(workflow: WorkflowKey, config: &Value) -> Result<ValidConfig> {
    read_typed(workflow, config).map_err(|error| below_config(&error))
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
            let strange = to.iter().enumerate().filter(|(_, email)| !can_have_mail(email));
            let issue =
                |(at, _)| Issue::new(format!("to[{at}]"), "is no address that mail can have");
            let issues: Vec<Issue> = strange.map(issue).collect();
            if !issues.is_empty() {
                return Err(Error::invalid(issues));
            }
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

/// Whether a mail can be sent to an address, by its form: the name has 1 to 64 bytes and no dots beside each
/// other or at an end, the domain labels of 1 to 63 letters, digits and hyphens, and is no number.
fn can_have_mail(email: &Email) -> bool {
    let Some((local, domain)) = email.as_str().rsplit_once('@') else { return false };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    local.len() <= 64
        && local.split('.').all(|part| !part.is_empty())
        && domain.split('.').all(is_label)
        && !domain.rsplit('.').next().is_some_and(is_number)
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
        read(workflow, Some(&map.into()))
    }

    #[test]
    fn secrets_are_separated_from_what_is_shown() {
        let url = "https://hooks.slack.test/services/T/B/geheim";
        let slack = checked(WorkflowKey::Slack, json!({"url": url})).unwrap();
        assert_eq!(
            (slack.shown.0, slack.secret.as_deref()),
            (json!({"url": "hooks.slack.test"}), Some(url))
        );
        let secret = "whsec_YSBzZWNyZXQgb2YgMjQrIGJ5dGVzISEh";
        let hook = json!({"url": "https://a.test/?t=1", "secret": secret});
        let hook = checked(WorkflowKey::Webhook, hook).unwrap();
        assert_eq!(hook.shown.0, json!({"url": "https://a.test/?t=1"}));
        assert_eq!(hook.secret.as_deref(), Some(secret));
        let none = checked(WorkflowKey::Webhook, json!({"url": "http://a.test", "secret": null}));
        assert_eq!(none.unwrap().secret, None);
    }

    const SHORT: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    #[test]
    fn a_signing_secret_has_at_least_24_bytes() {
        // The last has 23.
        for short in ["whsec_AA==", "whsec_AAAAAAAAAAAAAAAAAAAAAA==", SHORT] {
            let config = json!({"url": "https://a.test", "secret": short});
            let refused = checked(WorkflowKey::Webhook, config).unwrap_err();
            assert_eq!(refused.issues()[0].path, "config.secret", "{short}");
        }
        let secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let config = json!({"url": "https://a.test", "secret": secret});
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
            (
                WorkflowKey::Email,
                json!({"to": ["a@ex..com", "a@b.test", ".a@b.test", "a@-x.com", "a@1.2.3.4"]}),
                vec!["config.to[0]", "config.to[2]", "config.to[3]", "config.to[4]"],
            ),
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
    fn what_is_refused_is_not_repeated() {
        let config = json!({"url": "https://a.test", "secret": "geheim"});
        let refused = checked(WorkflowKey::Webhook, config).unwrap_err();
        let issues = refused.issues();
        let paths: Vec<_> = issues.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["config.secret"]);
        assert!(issues.iter().all(|issue| !issue.message.contains("geheim")), "{issues:?}");
    }
}
