//! Trying a prompt: its text, with values for its variables, is sent to a model, whose answer is passed
//! on as it comes (reference: registries-and-templates, "Trying a prompt"). Nothing of it is kept.

pub(super) mod subject;
#[cfg(test)]
mod tests;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use subject::{Subject, Tried, subject};

use super::draft::Draft;
use super::id::ArtifactId;
use super::label_history::audited_artifact;
use super::prompts::{fill, variables_of};
use crate::api::{
    Exchange, Heard, Input, OrgSource, Output, Prepared, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::{MEMBER, Role, ScopeName};
use crate::base::{
    Error, Id, Int, Issue, Prompt, Result, StringMap, StringMapSchema, Temperature, Text, Version,
};
use crate::outside::{Call, Pauses};
use crate::resources::llm_providers::{
    self, ATTEMPT_SECS, Attempt, Completion, Conversation, DEFAULT_ATTEMPT_TOKENS, LlmProvider,
    MAX_ATTEMPT_TOKENS,
};
use crate::resources::model_prices::ModelName;
use crate::resources::registries::{self, ArtifactType};
use crate::store::View;
use crate::templates::Rendering;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// How long nothing may come of an answer: models think before they speak.
const PAUSES: Pauses = Pauses { first: Duration::from_secs(120), between: Duration::from_secs(60) };

// ── What callers send and see ────────────────────────────────────────────────

/// What is tried, with which values, and on which model. At most one of `version`, `draftId` and `source`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "version": "production",
        "variables": {"PRODUCT": "Roadstead"}, "message": "Hello"}],
))]
pub struct TryRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// A version, a range or a label; the newest version if there is no draft and no text either.
    version: Option<String>,
    /// A draft of the artifact.
    draft_id: Option<Id<Draft>>,
    /// A text that is not saved, in the template language.
    source: Option<Prompt>,
    /// Values of variables, by name. They take precedence over those of the environment.
    #[schemars(with = "Option<StringMapSchema>")]
    variables: Option<StringMap>,
    /// An environment, by id or slug, whose variables supply the values missing from `variables`. Its
    /// secrets are not used.
    environment: Option<String>,
    /// The LLM provider; the default one if absent.
    llm_provider_id: Option<Id<LlmProvider>>,
    /// The model; that of the provider if absent. Of a version, the text for this model is tried.
    model: Option<ModelName>,
    /// The first message of the user, with the prompt as the instructions before it. Without one the
    /// prompt is the message.
    message: Option<Text<1, 100_000>>,
    /// The longest answer, in tokens; 4,096 if absent.
    max_tokens: Option<Int<1, { MAX_ATTEMPT_TOKENS as i64 }>>,
    /// From 0 to 2; the model's own if absent.
    temperature: Option<Temperature>,
}

impl Input for TryRequest {
    fn check(&self, issues: &mut Vec<Issue>) {
        let tried = [
            ("version", self.version.is_some()),
            ("draftId", self.draft_id.is_some()),
            ("source", self.source.is_some()),
        ];
        let given = tried.iter().filter(|(_, is_given)| *is_given);
        issues.extend(given.skip(1).map(|(name, _)| {
            Issue::new(
                *name,
                "only one of version, draftId and source can be tried; leave out the others",
            )
        }));
    }
}

/// The answer of a model to a prompt that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptTrial {
    /// The text of the answer.
    pub text: String,
    /// The version that was tried; null for a draft or a text.
    pub version: Option<Version>,
    /// The variables without a value, which were left in place, in order of first appearance.
    pub missing: Vec<String>,
    /// The LLM provider.
    pub llm_provider_id: Id<LlmProvider>,
    /// The model that answered; null if the provider does not say which.
    pub model: Option<String>,
    /// Why the answer ended, in the provider's own word; null if it does not say.
    pub stop_reason: Option<String>,
    /// The tokens of what was sent; null if the provider does not count them.
    pub input_tokens: Option<u64>,
    /// The tokens of the answer; null if the provider does not count them.
    pub output_tokens: Option<u64>,
    /// The time until the end of the answer, in milliseconds.
    pub took_ms: u64,
    /// The cost in US dollars by the organization's price of the model; null if that is unknown.
    pub cost_usd: Option<f64>,
    /// Why the cost is unknown; null if it is known.
    pub cost_note: Option<String>,
}

impl Output for PromptTrial {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── The operation ────────────────────────────────────────────────────────────

/// A prompt that is being tried.
pub struct Trial {
    conversation: Conversation,
    provider: LlmProvider,
    attempt: Attempt,
    /// The artifact, as the audit log names it.
    artifact: ResourceRef,
    subject: String,
    version: Option<Version>,
    missing: Vec<String>,
    /// Whether the caller may be told what the provider says of a failure.
    shows_reason: bool,
}

/// Says what is sent to which provider.
pub(super) fn prepare(view: &View, req: &Req<String, TryRequest>) -> Result<Prepared<Trial>> {
    let input = &req.input;
    let registry = registries::require_usable(view, req.caller(), &input.registry_ref)?;
    let id = ArtifactId::parse(&registry, input.artifact_type, &req.params)?;
    if let Some(environment) = &input.environment {
        variables_of(view, req.caller(), environment)?;
    }
    let provider = llm_providers::chosen(view, input.llm_provider_id)?;
    let model = input.model.as_deref().map(String::from).or_else(|| provider.model());
    let tried = Tried {
        version: input.version.as_deref(),
        draft: input.draft_id,
        source: input.source.as_deref(),
    };
    let Subject { compiled, name, version } =
        subject(view, req.caller(), &registry, &id, &tried, model.as_deref())?;
    let values = (input.variables.as_ref(), input.environment.as_deref());
    let Rendering { text, missing } = fill(view, req.caller(), &compiled, values)?;
    if text.trim().is_empty() && input.message.is_none() {
        return Err(Error::invalid_at("message", "is required for a prompt without text"));
    }
    let (system, message) = Attempt::parts(text, input.message.as_deref());
    let attempt = Attempt {
        system,
        message,
        model: input.model.as_deref().map(String::from),
        max_tokens: input.max_tokens.map_or(DEFAULT_ATTEMPT_TOKENS, |tokens| tokens.get() as u32),
        temperature: input.temperature.map(Temperature::get),
        total_secs: ATTEMPT_SECS,
    };
    let trial = Trial {
        conversation: Conversation::new(view, &provider, &attempt)?,
        artifact: audited_artifact(&registry, &id),
        subject: name,
        version,
        missing,
        shows_reason: req.caller().role >= Role::Admin,
        attempt,
        provider,
    };
    let server = *trial.provider.id.bytes();
    Ok(Prepared { exchange: trial, server, pauses: PAUSES })
}

impl Exchange for Trial {
    type Answer = PromptTrial;

    fn next_call(&mut self) -> Option<Call> {
        self.conversation.next_call()
    }

    fn hear(&mut self, heard: Heard, text: &mut String) -> bool {
        self.conversation.hear(heard, text)
    }

    fn conclude(&self, view: &View, took: Duration) -> Result<PromptTrial> {
        let completion = self.conversation.outcome(self.shows_reason);
        let completion = completion.map_err(|why| llm_providers::failed(&self.provider, &why))?;
        let cost = llm_providers::cost(view, &self.provider, &self.attempt, &completion)?;
        let Completion { text, model, stop_reason, input_tokens, output_tokens, .. } = completion;
        Ok(PromptTrial {
            text,
            version: self.version.clone(),
            missing: self.missing.clone(),
            llm_provider_id: self.provider.id,
            model,
            stop_reason,
            input_tokens,
            output_tokens,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            cost_usd: cost.usd,
            cost_note: cost.note,
        })
    }

    /// The artifact, what of it was tried and on which model, and the tokens; never a text.
    fn audited(&self) -> ResourceRef {
        let said = self.conversation.so_far();
        let asked = self.attempt.model_at(&self.provider);
        let model = said.model.or(asked).map(|model| format!(", model {model}"));
        let tokens = match (said.input_tokens, said.output_tokens) {
            (None, None) => String::new(),
            (input, output) => {
                let count = |tokens: Option<u64>| tokens.map_or("?".into(), |n| n.to_string());
                format!(", {} + {} tokens", count(input), count(output))
            }
        };
        let end = match self.conversation.outcome(false) {
            Ok(_) => "",
            Err(_) if self.conversation.is_to_begin() => ", to begin",
            Err(_) => ", no whole answer",
        };
        let (subject, provider) = (&self.subject, self.provider.audited());
        let model = model.unwrap_or_default();
        self.artifact.clone().with_detail(format!("{subject} on {provider}{model}{tokens}{end}"))
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/prompts/{promptName}/try", MEMBER, "prompt.try", op::stream(prepare))
            .org_source(OrgSource::Named(&registries::BY_REFERENCE))
            .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
            .needs(ScopeName::LlmProviderTest)
            // What is tried is not kept.
            .no_replay()
            .about("Try a prompt on a model"),
    ]
}
