//! Chat completions: the request to a model, in the form of each provider's API, and its reply.
//!
//! A failure is reported as a sentence about what to do, derived from the status alone. What the
//! provider itself says is apart, for those who may change the connection: the body of an error may
//! repeat what was sent.

use std::time::Duration;

use serde_json::Value;

use super::answer::{Told, whole};
use super::attempt::{Attempt, Completion};
use super::endpoint::{Base, bases};
use super::key_filter;
use super::provider::{LlmProvider, Provider};
use super::reason::Said;
use super::request;
use crate::api::Calls;
use crate::base::Result;
use crate::outside::{CallResult, Response};
use crate::store::View;

/// The reply to a request.
#[derive(Clone)]
pub struct ChatReply {
    /// The text of the model, or why there is none: a sentence without a final full stop. Parts of the
    /// text that are shown go through [`ChatReply::without_key`].
    pub text: Result<String, String>,
    /// What it says besides.
    pub told: Told,
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
        key_filter::without(self.key.as_deref(), text)
    }

    /// Returns the answer as it may be shown, or why there is none: what the provider says of that is not
    /// for every member.
    pub fn completion(&self) -> Result<Completion, String> {
        let shown = |text: &str| self.without_key(text);
        self.text.as_ref().map(|text| self.told.shown(shown(text), shown)).map_err(String::clone)
    }

    /// Why the provider refused, in its own words, without secrets.
    pub fn reason(&self) -> Option<String> {
        self.said.as_ref().map(|said| said.reason(self.key.as_deref()))
    }
}

/// Asks a provider's model for an answer at once. `None` while it is pending.
///
/// # Errors
/// If the key cannot be unsealed, or a custom provider has no URL.
pub fn ask(
    view: &View,
    provider: &LlmProvider,
    attempt: &Attempt,
    calls: &mut Calls,
) -> Result<Option<ChatReply>> {
    let key = provider.unsealed_key(view)?;
    let mut took = Duration::ZERO;
    let mut wrong: Option<ChatReply> = None;
    let weight = |reply: &ChatReply| Said::weight(reply.said.as_ref());
    for base in bases(provider.provider, provider.base()?) {
        let mut call = request::call(provider, &base, key.as_deref(), attempt, false);
        call.limits.total = call.limits.total.saturating_sub(took);
        // Read once: each run of an operation asks again, in a transaction.
        let read =
            |answered: &CallResult| reply(provider.provider, &base, answered, key.as_deref());
        let Some(reply) = calls.send_parsed(call, read) else { return Ok(None) };
        let reply = ChatReply::clone(&reply);
        took += reply.took;
        if !reply.is_elsewhere {
            return Ok(Some(ChatReply { took, ..reply }));
        }
        // Of two that are wrong, the one that says why as an API does; a server says that it has no
        // such path.
        wrong = wrong.into_iter().chain([reply]).rev().max_by_key(weight);
    }
    Ok(wrong.map(|reply| ChatReply { took, ..reply }))
}

fn reply(provider: Provider, base: &Base, answered: &CallResult, key: Option<&str>) -> ChatReply {
    let (got, is_elsewhere, said) = match &answered.answer {
        Ok(answer) => {
            let text = read(provider, answer, key.is_some());
            // No such path; or a page of the server, which is not its API.
            let is_elsewhere =
                matches!(answer.status, 404 | 405) || answer.is_success() && text.is_err();
            let said = text.is_err().then(|| Said::of(&answer.body)).flatten();
            (text, is_elsewhere, said)
        }
        Err(failure) => (Err(failure.to_string()), false, None),
    };
    let (added, key) = (base.added, key.map(String::from));
    let (text, told) = match got {
        Ok((text, told)) => (Ok(text), told),
        Err(why) => (Err(why), Told::default()),
    };
    ChatReply { text, told, took: answered.took, added, is_elsewhere, said, key }
}

// ── Replies ──────────────────────────────────────────────────────────────────

/// Returns the text of an answer and what else it says, or why it has none.
fn read(provider: Provider, answer: &Response, with_key: bool) -> Result<(String, Told), String> {
    if !answer.is_success() {
        return Err(refusal(answer.status, with_key));
    }
    let body: Value = serde_json::from_slice(&answer.body).map_err(|_| MALFORMED)?;
    whole(provider, &body).ok_or_else(|| MALFORMED.into())
}

/// What answers, and is no API.
pub const MALFORMED: &str = "it answers, but not as its API does; check baseUrl";

/// Returns what to do about an error status.
pub fn refusal(status: u16, with_key: bool) -> String {
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

    fn text_of(provider: Provider, answer: &Response, with_key: bool) -> Result<String, String> {
        read(provider, answer, with_key).map(|(text, _)| text)
    }

    fn answer(status: u16, body: &str) -> Response {
        Response { status, headers: vec![], body: body.as_bytes().to_vec() }
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
