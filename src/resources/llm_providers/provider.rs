//! The record of LLM providers.

use std::borrow::Cow;

use bincode::{Decode, Encode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{Error, HttpUrl, Id, JsonMap, Name, Result, Sealed, Text, Time};
use crate::store::{AnyIndex, Export, Index, Record, SealedField, View, upgrade_shorter};

/// The name of a model.
pub(super) type Model = Text<1, 200>;

/// The settings of a provider, for the schema only.
pub(super) struct ConfigSchema;

impl JsonSchema for ConfigSchema {
    fn schema_name() -> Cow<'static, str> {
        "LlmProviderConfig".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut model = generator.subschema_for::<Option<Model>>();
        model.insert(
            "description".into(),
            "The model that judges and the connection test query.".into(),
        );
        json_schema!({
            "type": "object",
            "description": "Settings of the organization; what is not `model` is not interpreted.",
            "properties": {"model": model},
            "additionalProperties": true,
        })
    }
}

crate::base::portable! {
/// A connection to a provider of large language models.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmProvider {
    /// The id of the provider.
    pub id: Id<LlmProvider>,
    /// The name of the provider.
    pub name: Name,
    /// The API that it has. It never changes.
    pub provider: Provider,
    /// The URL of the API; null for the vendor's own.
    pub base_url: Option<HttpUrl>,
    /// Settings of the organization. `model` is the model that judges and the connection test query.
    #[schemars(with = "ConfigSchema")]
    pub config: JsonMap,
    /// Whether judges that name no provider use this one.
    pub is_default: bool,
    #[serde(skip)]
    pub(super) key: Option<Sealed>,
    /// When it was created.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// The user who last changed it, also through a key; null if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

impl Output for LlmProvider {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// At most one provider is the default: the previous one is updated before the next one is written.
static DEFAULT: Index<LlmProvider, ()> = Index::unique(
    "llm_providers.default",
    "default_llm_provider_exists",
    "the organization has a default LLM provider already; update that one first",
    |provider| provider.is_default.then_some(()),
);

impl Record for LlmProvider {
    const TABLE: &'static str = "llm_providers";
    const NOUN: &'static str = "LLM provider";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&DEFAULT];
    const SEALED: &'static [&'static SealedField<Self>] = &[&KEY];
    const VERSION: u8 = 2;
    type Key = Id<LlmProvider>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// The key of a provider.
pub(super) static KEY: SealedField<LlmProvider> =
    SealedField::new("key", "API keys of LLM providers", |provider| provider.key.as_mut());

impl LlmProvider {
    /// Returns the key, if there is one.
    ///
    /// # Errors
    /// If it cannot be unsealed.
    pub(super) fn unsealed_key(&self, view: &View) -> Result<Option<String>> {
        let unseal = |key: &Sealed| view.unseal(&KEY, &self.id, key);
        self.key.as_ref().map(unseal).transpose()
    }

    /// The model to query: `config.model`, or else a cheap and fast one of the vendor. A `custom` server
    /// without it chooses by itself.
    pub fn model(&self) -> Option<String> {
        let config = self.config.to_map();
        let own = config.get("model").and_then(|model| model.as_str());
        own.or_else(|| self.provider.default_model()).map(Into::into)
    }

    /// Whether it is still there, and its calls go where they went, with the same key and settings.
    ///
    /// # Errors
    /// 500 if it cannot be read.
    pub fn is_current(&self, view: &View) -> Result<bool> {
        let called = |of: &Self| (of.base_url.clone(), of.key.clone(), of.config.clone());
        let stored = view.get::<LlmProvider>(&self.id)?;
        Ok(stored.is_some_and(|stored| called(&stored) == called(self)))
    }

    /// How the audit log names it: what was sent to it, and what it answered, is not there.
    pub fn audited(&self) -> String {
        format!("LLM provider {} ({})", self.name, self.id)
    }

    /// The beginning of the URLs of the API.
    ///
    /// # Errors
    /// If a custom provider has no `baseUrl`.
    pub(super) fn base(&self) -> Result<&str> {
        let own = self.base_url.as_deref().or_else(|| self.provider.base_url());
        own.ok_or_else(|| Error::internal("a custom LLM provider without a baseUrl"))
    }
}

/// The API of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LlmProviderKind")]
pub enum Provider {
    /// OpenAI's.
    Openai,
    /// Anthropic's.
    Anthropic,
    /// Google's: Gemini.
    Google,
    /// OpenRouter's: that of OpenAI.
    Openrouter,
    /// OpenAI's at any `baseUrl`: vLLM, llama.cpp or a gateway.
    Custom,
    /// Ollama's own, at any `baseUrl`.
    Ollama,
}
crate::store::stored_enum!(Provider {
    Openai = 0,
    Anthropic = 1,
    Google = 2,
    Openrouter = 3,
    Custom = 4,
    Ollama = 5,
});

impl Provider {
    /// Whether there is no URL without a `baseUrl`.
    pub(super) fn needs_url(self) -> bool {
        self.base_url().is_none()
    }

    /// The URL of its API, unless the provider has a `baseUrl`.
    pub(super) fn base_url(self) -> Option<&'static str> {
        match self {
            Provider::Openai => Some("https://api.openai.com/v1"),
            Provider::Anthropic => Some("https://api.anthropic.com/v1"),
            Provider::Google => Some("https://generativelanguage.googleapis.com/v1beta"),
            Provider::Openrouter => Some("https://openrouter.ai/api/v1"),
            Provider::Custom | Provider::Ollama => None,
        }
    }

    /// The smallest of its models of late 2026, which suffices for the yes or no of a judge.
    fn default_model(self) -> Option<&'static str> {
        match self {
            Provider::Openai => Some("gpt-5.6-luna"),
            Provider::Anthropic => Some("claude-haiku-5-5"),
            Provider::Google => Some("gemini-3.5-flash-lite"),
            Provider::Openrouter => Some("openrouter/auto"),
            Provider::Custom | Provider::Ollama => None,
        }
    }
}

/// Returns the default provider, if there is one.
pub fn default(view: &View) -> Result<Option<LlmProvider>> {
    view.find(&DEFAULT, &())
}

#[cfg(any(test, fuzzing))]
impl LlmProvider {
    /// A connection for tests of what is sent and read.
    pub(super) fn example(provider: Provider) -> Self {
        LlmProvider {
            id: Id::NIL,
            name: Name::from_trusted("A".into()),
            provider,
            base_url: None,
            config: JsonMap::default(),
            is_default: false,
            key: None,
            created_at: Time::from_millis(0),
            updated_at: Time::from_millis(0),
            updated_by: None,
        }
    }
}
