//! Credentials for a provider: keys that depend on its kind, sent as `Authorization`.
//!
//! No answer to a caller contains them: they have neither `Debug` nor `Serialize`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::provider::PromptProviderKind;
use crate::base::{Error, Issue, Result, TextRule, Validated, word};

/// A key: 1 to 1,000 printable ASCII characters, since it becomes part of a header.
type Key = Validated<KeyRule>;

/// The rule of [`Key`].
struct KeyRule;
impl TextRule for KeyRule {
    fn check(text: String) -> Result<String, String> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if (1..=1000).contains(&text.len()) && printable {
            Ok(text)
        } else {
            Err("must be 1 to 1000 printable ASCII characters".into())
        }
    }
    fn schema() -> serde_json::Value {
        serde_json::json!({"type": "string", "minLength": 1, "maxLength": 1000, "pattern": "^[ -~]*$"})
    }
}

/// The keys of a provider: `publicKey` and `secretKey` for the kind `langfuse`, `apiKey` for the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    public_key: Option<Key>,
    secret_key: Option<Key>,
    api_key: Option<Key>,
}

impl Credentials {
    /// Returns the issues that prevent their use for this kind.
    pub fn problems(&self, kind: PromptProviderKind) -> Vec<Issue> {
        let missing = |field: &str, key: &Option<Key>| {
            let message = || format!("is required for the kind {}", word(kind));
            key.is_none().then(|| Issue::new(format!("credentials.{field}"), message()))
        };
        let issues = match kind {
            PromptProviderKind::Langfuse => [
                missing("publicKey", &self.public_key).or_else(|| {
                    // In Basic authorization, the first colon ends the user name.
                    let colon = self.public_key.as_ref().is_some_and(|key| key.contains(':'));
                    colon.then(|| Issue::new("credentials.publicKey", "must not contain a colon"))
                }),
                missing("secretKey", &self.secret_key),
            ],
            _ => [missing("apiKey", &self.api_key), None],
        };
        issues.into_iter().flatten().collect()
    }

    /// Returns the value of `Authorization`.
    ///
    /// # Errors
    /// 400 with [`Credentials::problems`], if there are any.
    pub fn authorization(&self, kind: PromptProviderKind) -> Result<String> {
        let issues = self.problems(kind);
        if !issues.is_empty() {
            return Err(Error::invalid(issues));
        }
        let text = |key: &Option<Key>| key.as_deref().unwrap_or_default().to_string();
        Ok(match kind {
            PromptProviderKind::Langfuse => {
                let both = format!("{}:{}", text(&self.public_key), text(&self.secret_key));
                format!("Basic {}", BASE64.encode(both))
            }
            _ => format!("Bearer {}", text(&self.api_key)),
        })
    }
}

/// The keys of a Langfuse project, for the schema only.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is wanted")]
struct LangfuseCredentials {
    /// The public key, which is the user name of Basic authorization.
    public_key: Key,
    /// The secret key.
    secret_key: Key,
}

/// The key of any other provider, for the schema only.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is wanted")]
struct ApiKeyCredentials {
    /// The key, sent as a bearer token.
    api_key: Key,
}

impl JsonSchema for Credentials {
    fn schema_name() -> Cow<'static, str> {
        "PromptProviderCredentials".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds = [
            generator.subschema_for::<LangfuseCredentials>(),
            generator.subschema_for::<ApiKeyCredentials>(),
        ];
        json_schema!({
            "description": "`publicKey` and `secretKey` for the kind `langfuse`, `apiKey` for the others.",
            "anyOf": kinds,
        })
    }
}
