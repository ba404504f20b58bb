//! Chat completions: the request to a model, in the form of each provider's API, and its reply.
//!
//! A failure is reported as a sentence about what to do, derived from the status alone. What the
//! provider itself says is apart, for those who may change the connection: the body of an error may
//! repeat what was sent.

use std::time::Duration;

use serde_json::{Value, json};

use super::endpoint::{Base, bases};
use super::provider::{LlmProvider, Provider};
use super::reason::Said;
use crate::api::Calls;
use crate::base::{Result, segment};
use crate::outside::{BodyLimit, Call, CallResult, Limits, Method, Response};
use crate::store::View;

/// The longest reply of a model, in tokens, reasoning included: enough for a sentence after long
/// reasoning.
const MAX_TOKENS: u32 = 4096;

/// The largest answer, in bytes. Answers are far smaller, even with reasoning.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A request to a model.
pub struct ChatRequest {
    /// The instructions.
    pub system: String,
    /// The message of the user.
    pub user: String,
    /// The time limit, in seconds.
    pub total_secs: u64,
}

/// The reply to a request.
pub struct ChatReply {
    /// The text of the model, or why there is none: a sentence without a final full stop. Parts of the
    /// text that are shown go through [`ChatReply::without_key`].
    pub text: Result<String, String>,
    /// The time that the call took, or both, where the first one was not at the right place.
    pub took: Duration,
    /// The version that had to be added to `baseUrl`.
    pub added: Option<&'static str>,
    /// Whether the API is at another place than the one that was called.
    is_elsewhere: bool,
    said: Option<Said>,
    key: Option<String>,
}

impl ChatReply {
    /// Removes the key from a part of the text: a server that echoes request headers must not make us
    /// show them. Only parts that are shown are treated, since a key such as `pass` is a word of any
    /// answer.
    pub fn without_key(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.as_str(), "…"),
            None => text.into(),
        }
    }

    /// Why the provider refused, in its own words, without secrets.
    pub fn reason(&self) -> Option<String> {
        self.said.as_ref().map(|said| said.reason(self.key.as_deref()))
    }

    /// How much it says of what is wrong.
    fn weight(&self) -> (bool, bool) {
        (self.said.as_ref().is_some_and(|said| said.is_of_api), self.said.is_some())
    }
}

/// Queries a provider's model. `None` while the answer is pending.
///
/// # Errors
/// If the key cannot be unsealed, or a custom provider has no URL.
pub fn complete(
    view: &View,
    provider: &LlmProvider,
    request: &ChatRequest,
    calls: &mut Calls,
) -> Result<Option<ChatReply>> {
    let key = provider.unsealed_key(view)?;
    let mut took = Duration::ZERO;
    let mut wrong: Option<ChatReply> = None;
    for base in bases(provider.provider, provider.base()?) {
        let mut call = call(provider, &base, key.as_deref(), request);
        call.limits.total = call.limits.total.saturating_sub(took);
        let Some(answered) = calls.send(call) else { return Ok(None) };
        took += answered.took;
        let reply = reply(provider.provider, &base, &answered, key.as_deref());
        if !reply.is_elsewhere {
            return Ok(Some(ChatReply { took, ..reply }));
        }
        // Of two that are wrong, the one that says why as an API does; a server says that it has no
        // such path.
        wrong = wrong.into_iter().chain([reply]).rev().max_by_key(ChatReply::weight);
    }
    Ok(wrong.map(|reply| ChatReply { took, ..reply }))
}

fn reply(provider: Provider, base: &Base, answered: &CallResult, key: Option<&str>) -> ChatReply {
    let (text, is_elsewhere, said) = match &answered.answer {
        Ok(answer) => {
            let text = text_of(provider, answer, key.is_some());
            // No such path; or a page of the server, which is not its API.
            let is_elsewhere =
                matches!(answer.status, 404 | 405) || answer.is_success() && text.is_err();
            let said = text.is_err().then(|| Said::of(&answer.body)).flatten();
            (text, is_elsewhere, said)
        }
        Err(failure) => (Err(failure.to_string()), false, None),
    };
    let (added, key) = (base.added, key.map(String::from));
    ChatReply { text, took: answered.took, added, is_elsewhere, said, key }
}

// ── Requests ─────────────────────────────────────────────────────────────────

fn call(provider: &LlmProvider, base: &Base, key: Option<&str>, request: &ChatRequest) -> Call {
    let model = provider.model();
    let (path, mut body) = match provider.provider {
        Provider::Openai => ("/chat/completions".into(), openai(request, "max_completion_tokens")),
        Provider::Openrouter | Provider::Custom => {
            ("/chat/completions".into(), openai(request, "max_tokens"))
        }
        Provider::Anthropic => ("/messages".into(), anthropic(request)),
        Provider::Google => (google_path(model.as_deref().unwrap_or_default()), google(request)),
    };
    if provider.provider != Provider::Google
        && let Some(model) = model
    {
        body["model"] = json!(model);
    }
    let mut headers = vec![("content-type".into(), "application/json".into())];
    if provider.provider == Provider::Anthropic {
        headers.push(("anthropic-version".into(), ANTHROPIC_VERSION.into()));
    }
    headers.extend(key.map(|key| match provider.provider {
        Provider::Anthropic => ("x-api-key".into(), key.into()),
        Provider::Google => ("x-goog-api-key".into(), key.into()),
        _ => ("authorization".into(), format!("Bearer {key}")),
    }));
    Call {
        method: Method::Post,
        url: base.join(&path),
        headers,
        body: body.to_string().into_bytes(),
        limits: Limits {
            total: Duration::from_secs(request.total_secs),
            answer: BodyLimit::UpTo(MAX_ANSWER_BYTES),
            https_only: false,
        },
    }
}

/// Returns the body in OpenAI's form. OpenAI's own models refuse `max_tokens`; other servers know only
/// that name.
fn openai(request: &ChatRequest, max_tokens: &str) -> Value {
    json!({
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        max_tokens: MAX_TOKENS,
    })
}

fn anthropic(request: &ChatRequest) -> Value {
    json!({
        "system": request.system,
        "messages": [{"role": "user", "content": request.user}],
        "max_tokens": MAX_TOKENS,
    })
}

fn google(request: &ChatRequest) -> Value {
    json!({
        "systemInstruction": {"parts": [{"text": request.system}]},
        "contents": [{"role": "user", "parts": [{"text": request.user}]}],
        "generationConfig": {"maxOutputTokens": MAX_TOKENS},
    })
}

fn google_path(model: &str) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    // A colon is none of the reserved characters of a path.
    format!("/models/{}:generateContent", segment(model).replace("%3A", ":"))
}

// ── Replies ──────────────────────────────────────────────────────────────────

fn text_of(provider: Provider, answer: &Response, with_key: bool) -> Result<String, String> {
    if !answer.is_success() {
        return Err(refusal(answer.status, with_key));
    }
    let malformed = "it answers, but not as its API does; check baseUrl";
    let body: Value = serde_json::from_slice(&answer.body).map_err(|_| malformed)?;
    let text = match provider {
        Provider::Openai | Provider::Openrouter | Provider::Custom => {
            text_of_content(body.pointer("/choices/0/message").map(|message| &message["content"]))
        }
        Provider::Anthropic => text_of_content(body.get("content")),
        Provider::Google => text_of_content(body.pointer("/candidates/0/content/parts")),
    };
    text.ok_or_else(|| malformed.into())
}

/// Returns the text of a message, whose content is a string or a list of parts. `None` if it is
/// neither.
fn text_of_content(content: Option<&Value>) -> Option<String> {
    match content? {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            // Reasoning comes as separate parts.
            let is_text = |part: &&Value| part["thought"] != true;
            let texts = parts.iter().filter(is_text).filter_map(|part| part["text"].as_str());
            Some(texts.collect())
        }
        _ => None,
    }
}

/// Returns what to do about an error status.
fn refusal(status: u16, with_key: bool) -> String {
    let what = match status {
        401 | 403 if with_key => "it does not accept the key; set another apiKey",
        401 | 403 => "it requires a key; set apiKey",
        402 => "its account has no credit",
        404 | 405 => "it has no such path or model; check baseUrl and config.model",
        400 | 422 => "it does not accept the request; check config.model",
        413 => "the text is too long for its model; choose another with config.model",
        408 | 429 => "it is overloaded or its rate limit is reached; try again later",
        300..400 => "it redirects, which is not followed; set baseUrl to the URL of its API",
        500.. => "it fails; try again later",
        _ => "its answer is unexpected; check baseUrl",
    };
    format!("{what} (status {status})")
}

#[cfg(test)]
mod tests {
    use std::iter::zip;

    use super::*;

    fn answer(status: u16, body: &str) -> Response {
        Response { status, headers: vec![], body: body.as_bytes().to_vec() }
    }

    #[test]
    fn the_name_of_a_model_stays_one_segment_of_a_path() {
        assert_eq!(google_path("models/gemini-1.5"), "/models/gemini-1.5:generateContent");
        assert_eq!(google_path("../a?b"), "/models/..%2Fa%3Fb:generateContent");
        assert_eq!(google_path("a:b%3Ac"), "/models/a:b%253Ac:generateContent");
    }

    #[test]
    fn the_answer_of_each_provider_is_read() {
        let cases = [
            (Provider::Openai, r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#),
            (
                Provider::Custom,
                r#"{"choices":[{"message":{"content":[{"type":"text","text":"ok"}]}}]}"#,
            ),
            (
                Provider::Anthropic,
                r#"{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"ok"}]}"#,
            ),
            (
                Provider::Google,
                r#"{"candidates":[{"content":{"role":"model","parts":
                    [{"text":"hm","thought":true},{"text":"o"},{"text":"k"}]}}]}"#,
            ),
        ];
        for (provider, body) in cases {
            let text = text_of(provider, &answer(200, body), true);
            assert_eq!(text.as_deref(), Ok("ok"), "{provider:?}");
        }
    }

    #[test]
    fn an_invalid_answer_is_reported_with_what_to_do() {
        let strange = ["", "<html>", "{}", "[]", "null", r#"{"choices":[]}"#, r#"{"choices":1}"#];
        for body in strange {
            let text = text_of(Provider::Custom, &answer(200, body), true).unwrap_err();
            assert!(text.contains("check baseUrl"), "{body}: {text}");
        }
        // A reply with nothing but reasoning is an answer.
        let body = r#"{"choices":[{"message":{"content":null}}]}"#;
        assert_eq!(text_of(Provider::Custom, &answer(200, body), true).as_deref(), Ok(""));
        let statuses = [301, 400, 401, 404, 418, 429, 503];
        let words =
            ["redirects", "config.model", "another apiKey", "baseUrl", "baseUrl", "later", "later"];
        for (status, word) in zip(statuses, words) {
            let body = r#"{"error":{"message":"the key sk-secret is wrong"}}"#;
            let text = text_of(Provider::Openai, &answer(status, body), true).unwrap_err();
            assert!(text.contains(word) && !text.contains("sk-secret"), "{text}");
        }
        let text = text_of(Provider::Openai, &answer(401, ""), false).unwrap_err();
        assert!(text.contains("requires a key"), "{text}");
    }
}
