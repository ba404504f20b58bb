//! The record of prompt providers.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{HttpUrl, Id, Name, Result, Sealed, Time};
use crate::store::{Export, Record, SealedField, upgrade_shorter};

/// The kind of a provider: the API that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptProviderKind {
    /// Langfuse.
    Langfuse,
    /// Arize Phoenix.
    Phoenix,
    /// The prompt registry of MLflow.
    Mlflow,
    /// Another Roadstead.
    Roadstead,
    /// Any server that answers GET with a list in our own form.
    Http,
}
crate::store::stored_enum!(PromptProviderKind {
    Langfuse = 0,
    Phoenix = 1,
    Mlflow = 2,
    Roadstead = 3,
    Http = 4,
});

crate::base::portable! {
/// An external system from which prompts are listed and imported.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptProvider {
    /// The id of the provider.
    pub id: Id<PromptProvider>,
    /// The name of the provider.
    pub name: Name,
    /// The kind of system. It never changes.
    pub kind: PromptProviderKind,
    /// The URL of the system.
    pub base_url: HttpUrl,
    /// The value of `Authorization`, sealed.
    #[serde(skip)]
    pub(super) authorization: Option<Sealed>,
    /// When it was created.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// The user who last changed it, also through a key; null if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

impl Output for PromptProvider {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// The credentials of a provider.
pub(super) static AUTHORIZATION: SealedField<PromptProvider> =
    SealedField::new("authorization", "credentials of prompt providers", |provider| {
        provider.authorization.as_mut()
    });

impl Record for PromptProvider {
    const TABLE: &'static str = "prompt_providers";
    const EXPORT: Export<Self> = Export::WHOLE;
    const SEALED: &'static [&'static SealedField<Self>] = &[&AUTHORIZATION];
    const VERSION: u8 = 2;
    type Key = Id<PromptProvider>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}
