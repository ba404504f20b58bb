//! Requests to models, in the form of each provider's API.

use std::time::Duration;

use serde_json::{Value, json};

use super::attempt::Attempt;
use super::endpoint::Base;
use super::provider::{LlmProvider, Provider};
use crate::base::segment;
use crate::outside::{BodyLimit, Call, Limits, Method};

/// The largest answer at once, in bytes. Answers are far smaller, even with reasoning.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The same as a stream, where some hundred bytes are around each word. One that is looked for at two places
/// has as much for both.
pub const MAX_STREAM_BYTES: usize = 16 * 1024 * 1024;

/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Returns the call that asks a provider's model at `base`, whose answer comes at once or as a stream.
pub fn call(
    provider: &LlmProvider,
    base: &Base,
    key: Option<&str>,
    attempt: &Attempt,
    is_stream: bool,
) -> Call {
    let api = provider.provider;
    let model = attempt.model_at(provider);
    let mut headers = vec![("content-type".into(), "application/json".into())];
    if api == Provider::Anthropic {
        headers.push(("anthropic-version".into(), ANTHROPIC_VERSION.into()));
    }
    headers.extend(key.map(|key| match api {
        Provider::Anthropic => ("x-api-key".into(), key.into()),
        Provider::Google => ("x-goog-api-key".into(), key.into()),
        _ => ("authorization".into(), format!("Bearer {key}")),
    }));
    let url = url(api, base, model.as_deref().unwrap_or_default(), is_stream);
    let most = if is_stream { MAX_STREAM_BYTES } else { MAX_ANSWER_BYTES };
    Call {
        method: Method::POST,
        url,
        headers,
        body: body(api, attempt, model, is_stream).to_string().into_bytes(),
        limits: Limits {
            total: Duration::from_secs(attempt.total_secs),
            answer: BodyLimit::UpTo(most),
            https_only: false,
        },
    }
}

fn url(api: Provider, base: &Base, model: &str, is_stream: bool) -> String {
    match api {
        Provider::Openai | Provider::Openrouter | Provider::Custom => {
            base.join("/chat/completions")
        }
        Provider::Anthropic => base.join("/messages"),
        Provider::Ollama => base.join("/api/chat"),
        Provider::Google if is_stream => {
            let url = base.join(&google_path(model, "streamGenerateContent"));
            // As events; otherwise it streams one array of JSON.
            format!("{url}{}alt=sse", if url.contains('?') { '&' } else { '?' })
        }
        Provider::Google => base.join(&google_path(model, "generateContent")),
    }
}

fn google_path(model: &str, method: &str) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    // A colon is none of the reserved characters of a path.
    format!("/models/{}:{method}", segment(model).replace("%3A", ":"))
}

fn body(api: Provider, attempt: &Attempt, model: Option<String>, is_stream: bool) -> Value {
    let mut body = match api {
        // OpenAI's own models refuse `max_tokens`; other servers know only that name.
        Provider::Openai => openai(attempt, "max_completion_tokens"),
        Provider::Openrouter | Provider::Custom => openai(attempt, "max_tokens"),
        Provider::Anthropic => anthropic(attempt),
        Provider::Google => return google(attempt),
        Provider::Ollama => ollama(attempt),
    };
    if let Some(model) = model {
        body["model"] = json!(model);
    }
    match api {
        // It streams unless it is told not to.
        Provider::Ollama => body["stream"] = json!(is_stream),
        _ if !is_stream => {}
        Provider::Anthropic => body["stream"] = json!(true),
        _ => {
            body["stream"] = json!(true);
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    body
}

/// Returns the messages, the instructions first.
fn messages(attempt: &Attempt) -> Value {
    let system = attempt.system.iter().map(|text| json!({"role": "system", "content": text}));
    system.chain([json!({"role": "user", "content": attempt.message})]).collect()
}

fn openai(attempt: &Attempt, max_tokens: &str) -> Value {
    let mut body = json!({"messages": messages(attempt), max_tokens: attempt.max_tokens});
    set(&mut body, "temperature", attempt.temperature);
    body
}

fn anthropic(attempt: &Attempt) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": attempt.message}],
        "max_tokens": attempt.max_tokens,
    });
    set(&mut body, "system", attempt.system.as_ref());
    set(&mut body, "temperature", attempt.temperature);
    body
}

fn google(attempt: &Attempt) -> Value {
    let mut body = json!({
        "contents": [{"role": "user", "parts": [{"text": attempt.message}]}],
        "generationConfig": {"maxOutputTokens": attempt.max_tokens},
    });
    let parts = |text: &String| json!({"parts": [{"text": text}]});
    set(&mut body, "systemInstruction", attempt.system.as_ref().map(parts));
    set(&mut body["generationConfig"], "temperature", attempt.temperature);
    body
}

fn ollama(attempt: &Attempt) -> Value {
    let mut body = json!({
        "messages": messages(attempt),
        "options": {"num_predict": attempt.max_tokens},
    });
    set(&mut body["options"], "temperature", attempt.temperature);
    body
}

fn set(body: &mut Value, name: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        body[name] = json!(value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::bases;
    use super::*;

    fn attempt() -> Attempt {
        Attempt {
            system: Some("Be kind.".into()),
            message: "Hello".into(),
            model: Some("m".into()),
            max_tokens: 7,
            temperature: Some(0.5),
            total_secs: 1,
        }
    }

    #[test]
    fn the_name_of_a_model_stays_one_segment_of_a_path() {
        let path = |model| google_path(model, "generateContent");
        assert_eq!(path("models/gemini-1.5"), "/models/gemini-1.5:generateContent");
        assert_eq!(path("../a?b"), "/models/..%2Fa%3Fb:generateContent");
        assert_eq!(path("a:b%3Ac"), "/models/a:b%253Ac:generateContent");
    }

    #[test]
    fn each_api_is_asked_at_its_path() {
        use Provider::{Anthropic, Custom, Google, Ollama};
        for (api, base, is_stream, at) in [
            (Custom, "http://a.test/v1", true, "http://a.test/v1/chat/completions"),
            (Anthropic, "http://a.test/v1", true, "http://a.test/v1/messages"),
            (Ollama, "http://a.test:11434", true, "http://a.test:11434/api/chat"),
            (Google, "http://a.test/v1", false, "http://a.test/v1/models/m:generateContent"),
            (
                Google,
                "http://a.test/v1",
                true,
                "http://a.test/v1/models/m:streamGenerateContent?alt=sse",
            ),
            (
                Google,
                "http://a.test/v1?k=1",
                true,
                "http://a.test/v1/models/m:streamGenerateContent?k=1&alt=sse",
            ),
        ] {
            assert_eq!(url(api, &bases(api, base)[0], "m", is_stream), at);
        }
    }

    #[test]
    fn each_api_is_asked_in_its_own_form() {
        let of = |api, is_stream| body(api, &attempt(), Some("m".into()), is_stream);
        let messages = json!([
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello"},
        ]);
        let mut openai =
            json!({"messages": messages, "max_tokens": 7, "temperature": 0.5, "model": "m"});
        assert_eq!(of(Provider::Custom, false), openai);
        openai["stream"] = json!(true);
        openai["stream_options"] = json!({"include_usage": true});
        assert_eq!(of(Provider::Openrouter, true), openai);
        assert_eq!(of(Provider::Openai, true)["max_completion_tokens"], 7);
        let anthropic = json!({
            "system": "Be kind.",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 7, "temperature": 0.5, "model": "m", "stream": true,
        });
        assert_eq!(of(Provider::Anthropic, true), anthropic);
        let google = json!({
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
            "generationConfig": {"maxOutputTokens": 7, "temperature": 0.5},
        });
        assert_eq!(of(Provider::Google, true), google);
        for is_stream in [false, true] {
            let ollama = json!({
                "messages": messages, "model": "m", "stream": is_stream,
                "options": {"num_predict": 7, "temperature": 0.5},
            });
            assert_eq!(of(Provider::Ollama, is_stream), ollama);
        }
    }

    #[test]
    fn what_is_not_given_is_not_sent() {
        let bare = Attempt { system: None, model: None, temperature: None, ..attempt() };
        let custom = body(Provider::Custom, &bare, None, false);
        let message = json!([{"role": "user", "content": "Hello"}]);
        assert_eq!(custom, json!({"messages": message, "max_tokens": 7}));
        let anthropic = body(Provider::Anthropic, &bare, None, false);
        assert_eq!(anthropic, json!({"messages": message, "max_tokens": 7}));
        let google = body(Provider::Google, &bare, None, false);
        assert!(google.get("systemInstruction").is_none());
    }
}
