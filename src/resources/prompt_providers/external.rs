//! Prompts of external systems.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::template::{self, Syntax};
use crate::api::{Output, ResourceRef};
use crate::base::{JsonMap, Time};

/// Whether a prompt is one text or a list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptFormat {
    /// One text.
    Text,
    /// Messages, as JSON.
    Chat,
}

/// A prompt of a prompt provider.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalPrompt {
    /// The name of the prompt in the provider.
    pub name: String,
    /// The version in the provider; its form depends on the provider.
    pub version: String,
    /// The text, in the template language of the provider; the messages of a chat as JSON.
    pub template: String,
    /// Whether the text is a single text or the messages of a chat.
    pub format: PromptFormat,
    /// The labels, tags or aliases of this version in the provider.
    pub labels: Vec<String>,
    /// When it was last changed; null if the provider does not tell.
    pub updated_at: Option<Time>,
}

impl Output for ExternalPrompt {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A template as the provider has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// A text or chat in our own template language.
    Ours(String, PromptFormat),
    /// A text in another template language.
    Text(String, Syntax),
    /// The messages of a chat with texts in another template language.
    Chat(Vec<Value>, Syntax),
}

impl Template {
    /// Returns the original text and its format.
    fn into_text(self) -> (String, PromptFormat) {
        match self {
            Template::Ours(text, format) => (text, format),
            Template::Text(text, _) => (text, PromptFormat::Text),
            Template::Chat(messages, _) => (Value::Array(messages).to_string(), PromptFormat::Chat),
        }
    }

    /// Whether it is a text or a chat.
    pub fn format(&self) -> PromptFormat {
        match self {
            Template::Ours(_, format) => *format,
            Template::Text(..) => PromptFormat::Text,
            Template::Chat(..) => PromptFormat::Chat,
        }
    }

    /// Returns the text in our own template language.
    ///
    /// # Errors
    /// What our language cannot express, as a sentence.
    pub fn translated(&self) -> Result<String, String> {
        match self {
            Template::Ours(text, _) => Ok(text.clone()),
            Template::Text(text, syntax) => template::translate(text, *syntax),
            Template::Chat(messages, syntax) => template::translate_chat(messages, *syntax),
        }
    }
}

/// A prompt found in a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPrompt {
    /// The name in the provider.
    pub name: String,
    /// The version in the provider.
    pub version: String,
    pub template: Template,
    /// The labels, tags or aliases of the version.
    pub labels: Vec<String>,
    /// What else the provider keeps with the version, such as `tags` and `config`: only what is not
    /// empty.
    pub extra: JsonMap,
    /// When it was last changed, if the provider tells.
    pub updated_at: Option<Time>,
}

impl From<FoundPrompt> for ExternalPrompt {
    fn from(found: FoundPrompt) -> Self {
        let FoundPrompt { name, version, template, labels, updated_at, extra: _ } = found;
        let (template, format) = template.into_text();
        ExternalPrompt { name, version, template, format, labels, updated_at }
    }
}

/// What a provider keeps with a version, of which it calls some by these names.
pub fn extra<const N: usize>(named: [(&str, Option<Value>); N]) -> JsonMap {
    let is_given = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let given = named.into_iter().filter_map(|(name, value)| Some((name, value.filter(is_given)?)));
    given.map(|(name, value)| (name.to_string(), value)).collect::<Map<_, _>>().into()
}

/// The result of looking up one prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptLookup {
    /// An answer is pending.
    Pending,
    /// The provider does not have the prompt, or not in this version.
    Missing,
    /// The provider has several prompts of this name.
    Several,
    /// The prompt.
    Found(FoundPrompt),
}
