//! Fetching prompts from a provider of any kind.

use super::client::ProviderClient;
use super::external::{FoundPrompt, PromptLookup};
use super::paging::{Listed, Position};
use super::provider::{AUTHORIZATION, PromptProvider, PromptProviderKind};
use super::{http, langfuse, mlflow, phoenix, roadstead};
use crate::api::Calls;
use crate::auth::Caller;
use crate::base::Result;
use crate::store::View;

/// Returns a client of `provider`, for a request of `caller`.
///
/// # Errors
/// If the credentials cannot be unsealed.
pub fn client<'a>(
    provider: &PromptProvider,
    view: &View,
    caller: &'a Caller,
    calls: &'a mut Calls,
) -> Result<ProviderClient<'a>> {
    let authorization = match &provider.authorization {
        None => None,
        Some(sealed) => Some(view.unseal(&AUTHORIZATION, &provider.id, sealed)?),
    };
    Ok(ProviderClient::new(
        provider.kind,
        &provider.base_url,
        authorization,
        &caller.org_slug,
        calls,
    ))
}

/// Lists at most `limit` prompts from a position on, each in the version that the provider gives by
/// default. While an answer is pending, the returned list is meaningless.
///
/// # Errors
/// 502 if the provider cannot be used.
pub fn list(
    client: &mut ProviderClient,
    from: &Position,
    limit: usize,
) -> Result<Listed<FoundPrompt>> {
    match client.kind {
        PromptProviderKind::Langfuse => langfuse::list(client, from, limit),
        PromptProviderKind::Phoenix => phoenix::list(client, from, limit),
        PromptProviderKind::Mlflow => mlflow::list(client, from, limit),
        PromptProviderKind::Roadstead => roadstead::list(client, from, limit),
        PromptProviderKind::Http => http::list(client, from, limit),
    }
}

/// Looks up one prompt, in one version or in the one that the provider gives by default.
///
/// # Errors
/// 502 if the provider cannot be used.
pub fn find(
    client: &mut ProviderClient,
    name: &str,
    version: Option<&str>,
) -> Result<PromptLookup> {
    match client.kind {
        PromptProviderKind::Langfuse => langfuse::find(client, name, version),
        PromptProviderKind::Phoenix => phoenix::find(client, name, version),
        PromptProviderKind::Mlflow => mlflow::find(client, name, version),
        PromptProviderKind::Roadstead => roadstead::find(client, name, version),
        PromptProviderKind::Http => http::find(client, name, version),
    }
}
