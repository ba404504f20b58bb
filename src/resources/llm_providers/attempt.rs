//! One question to a model, and its answer: for whoever tries a prompt (reference:
//! registries-and-templates, "Trying a prompt").

use super::provider::{LlmProvider, default};
use crate::base::{Error, Id, Kind, Result};
use crate::resources::model_prices;
use crate::store::View;

/// The longest answer that may be asked for, in tokens, reasoning included.
pub const MAX_ATTEMPT_TOKENS: u32 = 32_768;

/// The longest answer where a request does not say it.
pub const DEFAULT_ATTEMPT_TOKENS: u32 = 4096;

/// The time for an answer, in seconds: reasoning and a long text take a minute or two.
pub const ATTEMPT_SECS: u64 = 180;

/// What is sent to a model.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The instructions; none where the prompt itself is the message.
    pub system: Option<String>,
    /// The first message of the user.
    pub message: String,
    /// The model; the provider's if absent.
    pub model: Option<String>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// From 0 to 2; the model's own if absent.
    pub temperature: Option<f64>,
    /// The time for the answer, in seconds.
    pub total_secs: u64,
}

impl Attempt {
    /// A question to the provider's own model, whose answer is short: enough for a sentence after long
    /// reasoning.
    pub fn short(system: String, message: String, total_secs: u64) -> Self {
        Attempt {
            system: Some(system),
            message,
            model: None,
            max_tokens: DEFAULT_ATTEMPT_TOKENS,
            temperature: None,
            total_secs,
        }
    }

    /// The model that this provider is asked for; none where the server has a choice of its own.
    pub fn model_at(&self, provider: &LlmProvider) -> Option<String> {
        self.model.clone().or_else(|| provider.model())
    }

    /// Returns the instructions and the message of a prompt: it comes before the message or, without one,
    /// is the message.
    pub fn parts(prompt: String, message: Option<&str>) -> (Option<String>, String) {
        match message {
            Some(message) => (Some(prompt), message.into()),
            None => (None, prompt),
        }
    }
}

/// What a model answered. No text in it contains the key of the provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// What it says; at most 1 MiB.
    pub text: String,
    /// The model that answered, as the provider calls it.
    pub model: Option<String>,
    /// Why it ended, in the provider's own word.
    pub stop_reason: Option<String>,
    /// The tokens of what was sent, if the provider counts them.
    pub input_tokens: Option<u64>,
    /// The tokens of the answer, if the provider counts them.
    pub output_tokens: Option<u64>,
    /// Those of the tokens of what was sent that came from a cache, if the provider says so.
    pub cached_tokens: Option<u64>,
}

/// A failure with what the provider says of it.
pub fn with_reason(why: &str, reason: Option<String>) -> String {
    let said = reason.map(|reason| format!("; it says: \"{reason}\"")).unwrap_or_default();
    format!("{why}{said}")
}

/// Returns the provider that a request names, or else the default one.
///
/// # Errors
/// 404 if there is no such provider; 409 if none is named and none is the default.
pub fn chosen(view: &View, id: Option<Id<LlmProvider>>) -> Result<LlmProvider> {
    let Some(id) = id else {
        let message = "the organization has no default LLM provider; send llmProviderId, or make one \
                       the default";
        return default(view)?.ok_or_else(|| Error::conflict("no_default_llm_provider", message));
    };
    view.get(&id)?.ok_or_else(|| Error::no_such("LLM provider").at("llmProviderId"))
}

/// Why a provider gave no answer, with its name.
pub fn failure(provider: &LlmProvider, why: &str) -> String {
    format!("LLM provider \"{}\": {why}", provider.name)
}

/// The error of an attempt without an answer.
pub fn failed(provider: &LlmProvider, why: &str) -> Error {
    Error::new(Kind::Upstream, "llm_provider_failed", failure(provider, why))
}

/// What an attempt cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// In US dollars, if that is known.
    pub usd: Option<f64>,
    /// Why it is not.
    pub note: Option<String>,
}

/// Returns what an answer cost by the organization's price of the model that answered, or else of the
/// one that was asked for: vendors answer with the date of a model in its name.
pub fn cost(
    view: &View,
    provider: &LlmProvider,
    attempt: &Attempt,
    completion: &Completion,
) -> Result<Cost> {
    let asked = attempt.model_at(provider);
    let unknown = |note: String| Cost { usd: None, note: Some(note) };
    let (Some(input), Some(output)) = (completion.input_tokens, completion.output_tokens) else {
        return Ok(unknown("the provider has not said how many tokens it took".into()));
    };
    let cached = completion.cached_tokens.unwrap_or(0);
    let names = completion.model.iter().chain(&asked);
    for name in names.clone() {
        if let Some(usd) = model_prices::cost(view, name, [input, output, cached])? {
            return Ok(Cost { usd: Some(usd), note: None });
        }
    }
    let name = names.last().map_or("this model", String::as_str);
    Ok(unknown(format!("the organization has no price of {name}; an admin can set one")))
}
