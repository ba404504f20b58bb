//! LLM providers: connections to large language models, which the judges of [`governance`] use
//! (reference: agents, "LLM providers").
//!
//! The key of a connection is sent to the provider and nowhere else: it is stored sealed and is in no
//! answer. The requests to providers and their answers are in [`chat`].
//!
//! [`governance`]: super::governance

mod answer;
mod attempt;
mod chat;
mod conversation;
mod endpoint;
mod frames;
mod key_filter;
mod provider;
mod reason;
mod request;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Calls, Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName, User};
use crate::base::{Error, HttpUrl, Id, Issue, JsonMap, Name, Nullable, ProviderKey, Result};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};

use attempt::with_reason;
pub use attempt::{
    ATTEMPT_SECS, Attempt, Completion, Cost, DEFAULT_ATTEMPT_TOKENS, MAX_ATTEMPT_TOKENS, chosen,
    cost, failed, failure,
};
pub use chat::{ChatReply, ask};
pub use conversation::Conversation;
#[cfg(any(test, fuzzing))]
pub use conversation::fuzzing;
use provider::{ConfigSchema, KEY, Model};
pub use provider::{LlmProvider, Provider, default};

/// LLM providers.
pub const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<LlmProvider>()], ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// A connection to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "OpenAI", "provider": "openai", "apiKey": "sk-example",
        "isDefault": true}],
    "if" = {"required": ["provider"], "properties": {"provider": {"enum": ["custom", "ollama"]}}},
    "then" = {"required": ["baseUrl"], "properties": {"baseUrl": {"type": "string"}}},
))]
pub struct NewLlmProvider {
    name: Name,
    provider: Provider,
    /// The key of the vendor's API; no answer contains it.
    api_key: Option<ProviderKey>,
    /// The URL of the API, with its version (`/v1`) or without; required for `custom` and `ollama`.
    base_url: Option<HttpUrl>,
    /// Settings; empty if absent. `model` is the model that judges and the connection test query;
    /// without it that is a small one of the vendor, or the choice of a `custom` server; `ollama` needs it.
    #[schemars(with = "Option<ConfigSchema>")]
    config: Option<JsonMap>,
    /// Whether judges that name no provider use this one instead of the previous default.
    is_default: Option<bool>,
}

impl Input for NewLlmProvider {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.provider.needs_url() && self.base_url.is_none() {
            issues.push(Issue::new("baseUrl", CUSTOM_REQUIRES_URL));
        }
        check_config(self.config.as_ref(), issues);
    }
}

const CUSTOM_REQUIRES_URL: &str = "is required for a custom provider and for ollama";

fn check_config(config: Option<&JsonMap>, issues: &mut Vec<Issue>) {
    let config = config.map(JsonMap::to_map).unwrap_or_default();
    let is_valid = match config.get("model") {
        None | Some(serde_json::Value::Null) => true,
        Some(model) => model.as_str().is_some_and(|model| Model::parse(model).is_ok()),
    };
    if !is_valid {
        issues.push(Issue::new("config.model", "must be a model's name of 1 to 200 characters"));
    }
}

/// Changes to a connection. Absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"apiKey": "sk-other-example"}],
))]
pub struct LlmProviderPatch {
    name: Option<Name>,
    /// The key; null removes it. A new `baseUrl` without a key removes it, too.
    #[serde(default)]
    api_key: Nullable<ProviderKey>,
    #[serde(default)]
    base_url: Nullable<HttpUrl>,
    #[schemars(with = "Option<ConfigSchema>")]
    config: Option<JsonMap>,
    is_default: Option<bool>,
}

impl Input for LlmProviderPatch {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        check_config(self.config.as_ref(), issues);
    }
}

/// The result of a connection test.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmTestResult {
    /// Whether the model answered.
    ok: bool,
    /// The time until the answer or the failure, in milliseconds.
    latency_ms: u64,
    /// The model that answered, or what to do about the failure.
    message: String,
}

impl Output for LlmTestResult {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<LlmProvider>> {
    view.page(ListSource::TABLE, &(), Order::Descending, &req.page, |_| true)
}

fn get(view: &View, req: &Req<Id<LlmProvider>>) -> Result<LlmProvider> {
    view.fetch(&req.params)
}

fn create(tx: &mut Tx, req: &Req<(), NewLlmProvider>) -> Result<LlmProvider> {
    let new = &req.input;
    let id = tx.new_id();
    let provider = LlmProvider {
        id,
        name: new.name.clone(),
        provider: new.provider,
        base_url: new.base_url.clone(),
        config: new.config.clone().unwrap_or_default(),
        is_default: new.is_default.unwrap_or(false),
        key: new.api_key.as_ref().map(|key| tx.seal(&KEY, &id, key)).transpose()?,
        created_at: tx.now(),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    if provider.is_default {
        replace_default(tx, req.caller().user())?;
    }
    tx.insert(&provider)?;
    Ok(provider)
}

/// Removes the default mark from the current default provider, if there is one.
fn replace_default(tx: &mut Tx, by: Id<User>) -> Result<()> {
    if let Some(old) = default(&tx.view())? {
        let (updated_at, updated_by) = (tx.now(), Some(by));
        let new = LlmProvider { is_default: false, updated_at, updated_by, ..old.clone() };
        tx.replace(&old, &new)?;
    }
    Ok(())
}

fn update(tx: &mut Tx, req: &Req<Id<LlmProvider>, LlmProviderPatch>) -> Result<LlmProvider> {
    let patch = &req.input;
    let old: LlmProvider = tx.fetch(&req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.base_url.clone().apply(&mut new.base_url);
    if new.provider.needs_url() && new.base_url.is_none() {
        return Err(Error::invalid_at("baseUrl", CUSTOM_REQUIRES_URL));
    }
    new.config = patch.config.clone().unwrap_or(new.config);
    new.is_default = patch.is_default.unwrap_or(new.is_default);
    match &patch.api_key {
        Nullable::Set(key) => new.key = Some(tx.seal(&KEY, &new.id, key)?),
        Nullable::Clear => new.key = None,
        // The key was given for the old URL: a caller who can change the URL but does not know the
        // key must not have it sent to a server of their choice.
        Nullable::Absent if new.base_url != old.base_url => new.key = None,
        Nullable::Absent => {}
    }
    if new == old {
        return Ok(old);
    }
    if new.is_default && !old.is_default {
        replace_default(tx, req.caller().user())?;
    }
    (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
    tx.replace(&old, &new)?;
    Ok(new)
}

fn delete(tx: &mut Tx, req: &Req<Id<LlmProvider>>) -> Result<Deleted> {
    let provider: LlmProvider = tx.fetch(&req.params)?;
    tx.remove(&provider)?;
    Ok(Deleted::new(provider.id))
}

/// The time for a test, in seconds: even a model that has to be loaded first seldom takes longer.
const TEST_SECS: u64 = 15;

/// Queries the provider's model: an answer proves that URL, key and model are right, which no cheaper
/// call does (some providers list their models without a key).
fn test(view: &View, req: &Req<Id<LlmProvider>>, calls: &mut Calls) -> Result<LlmTestResult> {
    let provider: LlmProvider = view.fetch(&req.params)?;
    let (system, message) =
        ("This is a connection test.", "Answer with the word ok and nothing else.");
    let request = Attempt::short(system.into(), message.into(), TEST_SECS);
    let Some(reply) = ask(view, &provider, &request, calls)? else {
        return Ok(LlmTestResult { ok: false, latency_ms: 0, message: String::new() });
    };
    let latency_ms = u64::try_from(reply.took.as_millis()).unwrap_or(u64::MAX);
    Ok(match &reply.text {
        Ok(_) => {
            let message = success_message(&provider, reply.added);
            LlmTestResult { ok: true, latency_ms, message }
        }
        Err(why) => {
            let message = with_reason(why, reply.reason());
            LlmTestResult { ok: false, latency_ms, message }
        }
    })
}

fn success_message(provider: &LlmProvider, added: Option<&str>) -> String {
    let answered = match provider.model() {
        Some(model) => format!("the model {model} answered"),
        None => "the server's own model answered".into(),
    };
    match added {
        None => answered,
        // Otherwise each judge asks at the wrong place first.
        Some(added) => format!("{answered}; add {added} to baseUrl, where its API is"),
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/llm-providers";
    const ONE: &str = "/llm-providers/{id}";
    vec![
        Route::get(ALL, MEMBER, "llm_provider.list", op::list(list))
            .needs(ScopeName::LlmProviderRead)
            .about("List LLM providers"),
        Route::post(ALL, ADMIN, "llm_provider.create", op::write(create))
            .needs(ScopeName::LlmProviderWrite)
            .about("Create an LLM provider"),
        Route::get(ONE, MEMBER, "llm_provider.get", op::read(get))
            .needs(ScopeName::LlmProviderRead)
            .about("Get an LLM provider"),
        Route::patch(ONE, ADMIN, "llm_provider.update", op::write(update))
            .needs(ScopeName::LlmProviderWrite)
            .about("Update an LLM provider"),
        Route::delete(ONE, ADMIN, "llm_provider.delete", op::write(delete))
            .needs(ScopeName::LlmProviderWrite)
            .about("Delete an unused LLM provider"),
        Route::post(
            "/llm-providers/{id}/test",
            ADMIN,
            "llm_provider.test",
            op::read(op::calling(TEST_SECS, test)),
        )
        .needs(ScopeName::LlmProviderTest)
        .about("Test the connection"),
    ]
}

#[cfg(test)]
pub mod tests;
