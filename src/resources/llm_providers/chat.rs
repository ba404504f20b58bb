//! What is said to a model, in the words of each provider's API, and what it says.
//!
//! A failure is told as a sentence about what to do, made from the status alone: what a provider
//! says of a failure may repeat the key.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{LlmProvider, Provider};
use crate::api::Calls;
use crate::base::Result;
use crate::outside::{Answer, AnswerBody, Call, Limits, Method};
use crate::store::View;

/// A model may say so much at most, thoughts included: enough for a sentence behind long thoughts.
const MAX_TOKENS: u32 = 4096;

/// An answer is far smaller, even with thoughts.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The version of Anthropic's API that is spoken here.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// What is not escaped in a path.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// What a model is asked.
pub struct Question {
    /// What it is to do.
    pub system: String,
    /// With what.
    pub user: String,
    /// How long it may take.
    pub total_secs: u64,
}

/// What came of a question.
pub struct Said {
    /// What the model says, or why it says nothing: a sentence without a final full stop. What is
    /// shown of what it says goes through [`Said::without_key`].
    pub text: Result<String, String>,
    /// How long that took.
    pub took: Duration,
    key: Option<String>,
}

impl Said {
    /// A part of what was said without the key: a server that answers with the headers it was sent
    /// must not make us show them. Only now, since keys such as `pass` are words of any answer.
    pub fn without_key(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.as_str(), "…"),
            None => text.into(),
        }
    }
}

/// Asks a provider's model. `None` as long as it was not heard.
pub fn ask(
    view: &View,
    provider: &LlmProvider,
    question: &Question,
    calls: &mut Calls,
) -> Result<Option<Said>> {
    let key = provider.unsealed_key(view)?;
    let call = call(provider, provider.base()?, key.as_deref(), question);
    let Some(heard) = calls.send(call) else { return Ok(None) };
    let text = match &heard.answer {
        Ok(answer) => text_of(provider.provider, answer, key.is_some()),
        Err(failure) => Err(failure.to_string()),
    };
    Ok(Some(Said { text, took: heard.took, key }))
}

// ── What is said ─────────────────────────────────────────────────────────────

fn call(provider: &LlmProvider, base: &str, key: Option<&str>, question: &Question) -> Call {
    let model = provider.model();
    let (path, mut body) = match provider.provider {
        Provider::Openai => ("/chat/completions".into(), openai(question, "max_completion_tokens")),
        Provider::Openrouter | Provider::Custom => {
            ("/chat/completions".into(), openai(question, "max_tokens"))
        }
        Provider::Anthropic => ("/messages".into(), anthropic(question)),
        Provider::Google => (google_path(model.unwrap_or_default()), google(question)),
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
        url: below(base, &path),
        headers,
        body: body.to_string().into_bytes(),
        limits: Limits {
            total: Duration::from_secs(question.total_secs),
            answer: AnswerBody::UpTo(MAX_ANSWER_BYTES),
            https_only: false,
        },
    }
}

/// A path below a base. What the base has as its query (some gateways want a version there) stays.
fn below(base: &str, path: &str) -> String {
    let base = base.split('#').next().unwrap_or_default();
    match base.split_once('?') {
        None => format!("{}{path}", base.trim_end_matches('/')),
        Some((base, query)) => format!("{}{path}?{query}", base.trim_end_matches('/')),
    }
}

/// OpenAI's own models refuse `max_tokens`, and other servers know nothing else.
fn openai(question: &Question, max_tokens: &str) -> Value {
    json!({
        "messages": [
            {"role": "system", "content": question.system},
            {"role": "user", "content": question.user},
        ],
        max_tokens: MAX_TOKENS,
    })
}

fn anthropic(question: &Question) -> Value {
    json!({
        "system": question.system,
        "messages": [{"role": "user", "content": question.user}],
        "max_tokens": MAX_TOKENS,
    })
}

fn google(question: &Question) -> Value {
    json!({
        "systemInstruction": {"parts": [{"text": question.system}]},
        "contents": [{"role": "user", "parts": [{"text": question.user}]}],
        "generationConfig": {"maxOutputTokens": MAX_TOKENS},
    })
}

fn google_path(model: &str) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    format!("/models/{}:generateContent", utf8_percent_encode(model, PATH))
}

// ── What it says ─────────────────────────────────────────────────────────────

fn text_of(provider: Provider, answer: &Answer, with_key: bool) -> Result<String, String> {
    if !answer.is_success() {
        return Err(refusal(answer.status, with_key));
    }
    let strange = "it answers, but not as its API does; check baseUrl";
    let said: Value = serde_json::from_slice(&answer.body).map_err(|_| strange)?;
    let text = match provider {
        Provider::Openai | Provider::Openrouter | Provider::Custom => {
            of_parts(said.pointer("/choices/0/message").map(|message| &message["content"]))
        }
        Provider::Anthropic => of_parts(said.get("content")),
        Provider::Google => of_parts(said.pointer("/candidates/0/content/parts")),
    };
    text.ok_or_else(|| strange.into())
}

/// The text of a message: a text, or parts of which some are. `None` for what is no message.
fn of_parts(content: Option<&Value>) -> Option<String> {
    match content? {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            // Thoughts come as parts of their own.
            let is_said = |part: &&Value| part["thought"] != true;
            let said = parts.iter().filter(is_said).filter_map(|part| part["text"].as_str());
            Some(said.collect())
        }
        _ => None,
    }
}

/// What to do about a status.
fn refusal(status: u16, with_key: bool) -> String {
    let what = match status {
        401 | 403 if with_key => "it does not accept the key; give it another apiKey",
        401 | 403 => "it wants a key; give it an apiKey",
        402 => "its account has no credit",
        404 | 405 => "it has no such path or model; check baseUrl and config.model",
        400 | 422 => "it does not take the request; check config.model",
        413 => "the text is too long for its model; choose another with config.model",
        408 | 429 => "it takes no more requests for now; try again later",
        300..400 => "it redirects, which is not followed; set baseUrl to where its API is",
        500.. => "it fails; try again later",
        _ => "it answers as its API does not; check baseUrl",
    };
    format!("{what} (status {status})")
}

#[cfg(test)]
mod tests {
    use std::iter::zip;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, headers: vec![], body: body.as_bytes().to_vec() }
    }

    #[test]
    fn a_path_goes_below_the_base_and_before_its_query() {
        for (base, url) in [
            ("http://a.test/v1", "http://a.test/v1/x"),
            ("http://a.test/v1//", "http://a.test/v1/x"),
            ("http://a.test", "http://a.test/x"),
            ("http://a.test/v1/?api-version=2#y", "http://a.test/v1/x?api-version=2"),
        ] {
            assert_eq!(below(base, "/x"), url);
        }
        assert_eq!(google_path("models/gemini-1.5"), "/models/gemini-1.5:generateContent");
        assert_eq!(google_path("../a?b"), "/models/..%2Fa%3Fb:generateContent");
    }

    #[test]
    fn each_provider_is_understood_in_its_own_words() {
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
            let said = text_of(provider, &answer(200, body), true);
            assert_eq!(said.as_deref(), Ok("ok"), "{provider:?}");
        }
    }

    #[test]
    fn an_invalid_answer_is_reported_with_what_to_do() {
        let strange = ["", "<html>", "{}", "[]", "null", r#"{"choices":[]}"#, r#"{"choices":1}"#];
        for body in strange {
            let said = text_of(Provider::Custom, &answer(200, body), true).unwrap_err();
            assert!(said.contains("check baseUrl"), "{body}: {said}");
        }
        // Who only thought has answered.
        let body = r#"{"choices":[{"message":{"content":null}}]}"#;
        assert_eq!(text_of(Provider::Custom, &answer(200, body), true).as_deref(), Ok(""));
        let statuses = [301, 400, 401, 404, 418, 429, 503];
        let words =
            ["redirects", "config.model", "another apiKey", "baseUrl", "baseUrl", "later", "later"];
        for (status, word) in zip(statuses, words) {
            let body = r#"{"error":{"message":"the key sk-secret is wrong"}}"#;
            let said = text_of(Provider::Openai, &answer(status, body), true).unwrap_err();
            assert!(said.contains(word) && !said.contains("sk-secret"), "{said}");
        }
        let said = text_of(Provider::Openai, &answer(401, ""), false).unwrap_err();
        assert!(said.contains("wants a key"), "{said}");
    }
}
