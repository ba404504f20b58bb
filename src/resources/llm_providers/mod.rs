//! LLM providers: connections to large language models, which judges of [`governance`] ask
//! (reference: agents, "LLM providers").
//!
//! The key of a connection goes to the provider and nowhere else: it is kept sealed and is in no
//! answer. What is said to a provider and how it answers stands in [`chat`].
//!
//! [`governance`]: super::governance

mod chat;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Calls, Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER};
use crate::base::{
    Checked, Error, Field, HttpUrl, Id, Issue, JsonMap, Name, Result, Sealed, TextRule, Time,
};
use crate::store::{AnyIndex, Index, Order, Page, Record, Source, TableInfo, Tx, View};

pub use chat::{Question, ask};

/// LLM providers.
pub const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<LlmProvider>()], ..Resource::EMPTY };

// ── Record ───────────────────────────────────────────────────────────────────

/// A connection to a provider of large language models.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmProvider {
    /// Its id.
    pub id: Id<LlmProvider>,
    /// Its name.
    pub name: Name,
    /// Whose API it speaks. It never changes.
    pub provider: Provider,
    /// Where the API is; null for the provider's own address.
    pub base_url: Option<HttpUrl>,
    /// Settings of the organization's own. `model` names the model that judges and the test ask.
    pub config: JsonMap,
    /// Whether judges that name no provider ask this one.
    pub is_default: bool,
    #[serde(skip)]
    key: Option<Sealed>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

impl Output for LlmProvider {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// At most one is the default: whoever becomes it takes it from the other first.
static DEFAULT: Index<LlmProvider, ()> = Index::unique(
    "llm_providers.default",
    "default_llm_provider_exists",
    "the organization has a default LLM provider already",
    |provider| provider.is_default.then_some(()),
);

impl Record for LlmProvider {
    const TABLE: &'static str = "llm_providers";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&DEFAULT];
    type Key = Id<LlmProvider>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The field that a provider's key is sealed for.
const KEY_FIELD: &str = "key";

impl LlmProvider {
    fn unsealed_key(&self, view: &View) -> Result<Option<String>> {
        let unseal = |key: &Sealed| view.unseal::<LlmProvider>(&self.id, KEY_FIELD, key);
        self.key.as_ref().map(unseal).transpose()
    }

    /// The model it asks: `config.model`, else one of the provider's that is cheap and quick. A
    /// `custom` server without it is left to choose.
    fn model(&self) -> Option<&str> {
        let own = self.config.0.get("model").and_then(|model| model.as_str());
        own.or_else(|| self.provider.default_model())
    }

    /// What URLs of the API begin with.
    fn base(&self) -> Result<&str> {
        let own = self.base_url.as_deref().or_else(|| self.provider.base_url());
        own.ok_or_else(|| Error::internal("a custom LLM provider without a baseUrl"))
    }
}

/// Whose API a connection speaks.
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
    /// OpenRouter's, which is OpenAI's.
    Openrouter,
    /// OpenAI's below any `baseUrl`: vLLM, Ollama, llama.cpp, a gateway of one's own.
    Custom,
}
crate::store::stored_enum!(Provider {
    Openai = 0,
    Anthropic = 1,
    Google = 2,
    Openrouter = 3,
    Custom = 4,
});

impl Provider {
    /// Where its API is, unless `baseUrl` says otherwise.
    fn base_url(self) -> Option<&'static str> {
        match self {
            Provider::Openai => Some("https://api.openai.com/v1"),
            Provider::Anthropic => Some("https://api.anthropic.com/v1"),
            Provider::Google => Some("https://generativelanguage.googleapis.com/v1beta"),
            Provider::Openrouter => Some("https://openrouter.ai/api/v1"),
            Provider::Custom => None,
        }
    }

    /// The smallest of its models of late 2026, which is enough for a judge: yes or no.
    fn default_model(self) -> Option<&'static str> {
        match self {
            Provider::Openai => Some("gpt-5.6-luna"),
            Provider::Anthropic => Some("claude-haiku-5-5"),
            Provider::Google => Some("gemini-3.5-flash-lite"),
            Provider::Openrouter => Some("openrouter/auto"),
            Provider::Custom => None,
        }
    }
}

// ── What callers send and see ────────────────────────────────────────────────

/// The key of a provider: it goes into a header, which takes visible ASCII alone.
type ProviderKey = Checked<ProviderKeyRule>;

/// 1 to 4,096 visible ASCII characters: more than any provider gives, less than headers may have.
pub struct ProviderKeyRule;
impl TextRule for ProviderKeyRule {
    fn check(text: String) -> Result<String, String> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        match visible && (1..=4096).contains(&text.len()) {
            true => Ok(text),
            false => Err("must be 1 to 4096 ASCII characters without blanks".into()),
        }
    }
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "minLength": 1, "maxLength": 4096, "pattern": "^[!-~]+$",
            "writeOnly": true,
        })
    }
}

/// A connection to make.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewLlmProvider {
    name: Name,
    provider: Provider,
    /// The key that the provider gave; it is never shown.
    api_key: Option<ProviderKey>,
    /// Where the API is. `custom` needs one.
    base_url: Option<HttpUrl>,
    /// Settings, empty where it is absent. `model` names the model that judges and the test ask;
    /// without it that is a small one of the provider's, or whichever a `custom` server chooses.
    config: Option<JsonMap>,
    /// Whether judges that name no provider ask this one; it takes that from the one that does.
    is_default: Option<bool>,
}

impl Input for NewLlmProvider {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.provider == Provider::Custom && self.base_url.is_none() {
            issues.push(Issue::new("baseUrl", CUSTOM_NEEDS_IT));
        }
        check_config(self.config.as_ref(), issues);
    }
}

const CUSTOM_NEEDS_IT: &str = "is required for a custom provider";

fn check_config(config: Option<&JsonMap>, issues: &mut Vec<Issue>) {
    let model = config.and_then(|config| config.0.get("model"));
    let good = match model {
        None | Some(serde_json::Value::Null) => true,
        Some(model) => model.as_str().is_some_and(|model| (1..=200).contains(&model.len())),
    };
    if !good {
        issues.push(Issue::new("config.model", "must be a model's name of 1 to 200 characters"));
    }
}

/// What to change of a connection.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmProviderPatch {
    name: Option<Name>,
    /// Null removes the key, as a new `baseUrl` does that comes without one.
    #[serde(default)]
    api_key: Field<ProviderKey>,
    #[serde(default)]
    base_url: Field<HttpUrl>,
    config: Option<JsonMap>,
    is_default: Option<bool>,
}

impl Input for LlmProviderPatch {
    fn check(&self, issues: &mut Vec<Issue>) {
        check_config(self.config.as_ref(), issues);
    }
}

/// What came of a test.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmTestResult {
    /// Whether the model answered.
    ok: bool,
    /// How long that took, or how long it took to find out that it does not.
    latency_ms: u64,
    /// Which model answered, or what to do.
    message: String,
}

impl Output for LlmTestResult {}

// ── For other resources ──────────────────────────────────────────────────────

/// The provider that is asked where none is named.
pub fn default(view: &View) -> Result<Option<LlmProvider>> {
    view.find(&DEFAULT, &())
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<LlmProvider>> {
    view.page(Source::TABLE, &(), Order::Descending, &req.page, |_| true)
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
        key: new.api_key.as_ref().map(|key| tx.seal::<LlmProvider>(&id, KEY_FIELD, key)),
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    if provider.is_default {
        replace_default(tx)?;
    }
    tx.insert(&provider)?;
    Ok(provider)
}

/// Makes the default, if there is one, an ordinary provider.
fn replace_default(tx: &mut Tx) -> Result<()> {
    if let Some(old) = default(&tx.view())? {
        let new = LlmProvider { is_default: false, updated_at: tx.now(), ..old.clone() };
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
    if new.provider == Provider::Custom && new.base_url.is_none() {
        return Err(Error::invalid_at("baseUrl", CUSTOM_NEEDS_IT));
    }
    new.config = patch.config.clone().unwrap_or(new.config);
    new.is_default = patch.is_default.unwrap_or(new.is_default);
    match &patch.api_key {
        Field::Set(key) => new.key = Some(tx.seal::<LlmProvider>(&new.id, KEY_FIELD, key)),
        Field::Clear => new.key = None,
        // The key was given for the old address; whoever may change the address has not thereby
        // seen the key, and shall not have it sent to a place of their choosing.
        Field::Absent if new.base_url != old.base_url => new.key = None,
        Field::Absent => {}
    }
    if new == old {
        return Ok(old);
    }
    if new.is_default && !old.is_default {
        replace_default(tx)?;
    }
    new.updated_at = tx.now();
    tx.replace(&old, &new)?;
    Ok(new)
}

fn delete(tx: &mut Tx, req: &Req<Id<LlmProvider>>) -> Result<Deleted> {
    let provider: LlmProvider = tx.fetch(&req.params)?;
    tx.remove(&provider)?;
    Ok(Deleted::new(provider.id))
}

/// A test has 15 s: so long even a model that has to be loaded first seldom takes for a word.
const TEST_SECS: u64 = 15;

/// Asks the provider's model for a word: what answers has the right address, key and model, which
/// no cheaper call would prove (some list their models to anybody).
fn test(view: &View, req: &Req<Id<LlmProvider>>, calls: &mut Calls) -> Result<LlmTestResult> {
    let provider: LlmProvider = view.fetch(&req.params)?;
    let question = Question {
        system: "Somebody tests whether you can be reached.".into(),
        user: "Answer with the word ok and nothing else.".into(),
        total_secs: TEST_SECS,
    };
    let Some(said) = ask(view, &provider, &question, calls)? else {
        return Ok(LlmTestResult { ok: false, latency_ms: 0, message: String::new() });
    };
    let latency_ms = u64::try_from(said.took.as_millis()).unwrap_or(u64::MAX);
    Ok(match said.text {
        Ok(_) => LlmTestResult { ok: true, latency_ms, message: answered(&provider) },
        Err(why) => LlmTestResult { ok: false, latency_ms, message: why },
    })
}

fn answered(provider: &LlmProvider) -> String {
    match provider.model() {
        Some(model) => format!("the model {model} answered"),
        None => "the server's own model answered".into(),
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/llm-providers";
    const ONE: &str = "/llm-providers/{id}";
    vec![
        Route::get(ALL, MEMBER, "llm_provider.list", op::list(list))
            .about("List the connections to LLM providers"),
        Route::post(ALL, ADMIN, "llm_provider.create", op::write(create))
            .about("Make a connection to an LLM provider"),
        Route::get(ONE, MEMBER, "llm_provider.show", op::read(get))
            .about("Show a connection to an LLM provider"),
        Route::patch(ONE, ADMIN, "llm_provider.update", op::write(update))
            .about("Change a connection to an LLM provider; a new baseUrl wants its key anew"),
        Route::delete(ONE, ADMIN, "llm_provider.delete", op::write(delete))
            .about("Delete a connection to an LLM provider that no judge asks"),
        Route::post(
            "/llm-providers/{id}/test",
            ADMIN,
            "llm_provider.test",
            op::read_calling(TEST_SECS, test),
        )
        .about("Ask the provider's model for a word, and tell what came of it"),
    ]
}

#[cfg(test)]
pub mod tests;
