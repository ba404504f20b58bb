//! A prompt as another system has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::template::{self, Syntax};
use crate::base::Time;

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
    /// Its name there.
    pub name: String,
    /// Its version there, in whatever form they have there.
    pub version: String,
    /// Its text, in the template language of the provider; the messages of a chat as JSON.
    pub template: String,
    /// What the text is.
    pub format: PromptFormat,
    /// The labels, tags or aliases that this version has there.
    pub labels: Vec<String>,
    /// When it was last changed, where the provider tells.
    pub updated_at: Option<Time>,
}

/// A template as it was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// In our own language.
    Ours(String, PromptFormat),
    /// A text in another one.
    Text(String, Syntax),
    /// Messages with texts in another one.
    Chat(Vec<Value>, Syntax),
}

impl Template {
    /// The text as it is there, and what it is.
    fn shown(self) -> (String, PromptFormat) {
        match self {
            Template::Ours(text, format) => (text, format),
            Template::Text(text, _) => (text, PromptFormat::Text),
            Template::Chat(messages, _) => (Value::Array(messages).to_string(), PromptFormat::Chat),
        }
    }

    /// What it is.
    pub fn format(&self) -> PromptFormat {
        match self {
            Template::Ours(_, format) => *format,
            Template::Text(..) => PromptFormat::Text,
            Template::Chat(..) => PromptFormat::Chat,
        }
    }

    /// The same in our own language.
    ///
    /// # Errors
    /// What it has that our language cannot express, as a sentence.
    pub fn translated(&self) -> Result<String, String> {
        match self {
            Template::Ours(text, _) => Ok(text.clone()),
            Template::Text(text, syntax) => template::translate(text, *syntax),
            Template::Chat(messages, syntax) => template::translate_chat(messages, *syntax),
        }
    }
}

/// A prompt as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its name there.
    pub name: String,
    /// Its version there.
    pub version: String,
    /// Its template.
    pub template: Template,
    /// What it is called there beside its name.
    pub labels: Vec<String>,
    /// When it was last changed there.
    pub updated_at: Option<Time>,
}

impl From<Found> for ExternalPrompt {
    fn from(found: Found) -> Self {
        let Found { name, version, template, labels, updated_at } = found;
        let (template, format) = template.shown();
        ExternalPrompt { name, version, template, format, labels, updated_at }
    }
}

/// What came of looking for one prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup {
    /// The answer is awaited.
    Pending,
    /// The provider has no such prompt, or not in this version.
    Missing,
    /// The provider has several of this name.
    Several,
    /// Here it is.
    Found(Found),
}
