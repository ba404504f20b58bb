//! What models answer, in the form of each provider's API: at once, and part by part.

use serde_json::Value;

use super::attempt::Completion;
use super::provider::Provider;
use crate::base::visible;

/// Names of models and words for why an answer ended are shorter.
const MAX_WORD_CHARS: usize = 128;

/// More tokens than any answer has; a server may say anything.
const MAX_TOKENS: u64 = 1_000_000_000_000;

/// What an answer says besides its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    pub model: Option<String>,
    pub stop_reason: Option<String>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Those of the input tokens that came from a cache.
    pub cached_tokens: Option<u64>,
}

/// The tokens that are counted in a part of an answer.
struct Counted<'a> {
    input: &'a Value,
    output: &'a Value,
    cached: &'a Value,
}

impl Told {
    /// The answer with this text, as it may be shown.
    pub fn shown(&self, text: String, without_key: impl Fn(&str) -> String) -> Completion {
        let word = |word: &Option<String>| {
            let word = without_key(word.as_deref()?);
            let word = visible::line(word.trim()).into_owned();
            let word: String = word.chars().take(MAX_WORD_CHARS).collect();
            (!word.is_empty()).then_some(word)
        };
        Completion {
            text,
            model: word(&self.model),
            stop_reason: word(&self.stop_reason),
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cached_tokens: self.cached_tokens,
        }
    }

    /// Takes what is said now, and keeps the rest.
    fn take(&mut self, model: &Value, stop_reason: &Value, counted: &Counted) {
        // Some servers send an empty word for none.
        let word =
            |value: &Value| value.as_str().filter(|word| !word.trim().is_empty()).map(String::from);
        let count = |value: &Value| value.as_u64().map(|count| count.min(MAX_TOKENS));
        self.model = word(model).or_else(|| self.model.take());
        self.stop_reason = word(stop_reason).or_else(|| self.stop_reason.take());
        self.input_tokens = count(counted.input).or(self.input_tokens);
        self.output_tokens = count(counted.output).or(self.output_tokens);
        self.cached_tokens = count(counted.cached).or(self.cached_tokens);
    }
}

/// Reads an answer that comes at once. `None` if it is none of this API.
pub fn whole(api: Provider, body: &Value) -> Option<(String, Told)> {
    let mut told = Told::default();
    let text = match api {
        Provider::Openai | Provider::Openrouter | Provider::Custom => {
            let choice = body.pointer("/choices/0");
            take_openai(&mut told, body);
            content(choice.and_then(|choice| choice.get("message")).map(|said| &said["content"]))
        }
        Provider::Anthropic => {
            let usage = &body["usage"];
            take_anthropic(&mut told, body, &body["stop_reason"], usage);
            content(body.get("content"))
        }
        Provider::Google => {
            take_google(&mut told, body);
            content(body.pointer("/candidates/0/content/parts"))
        }
        Provider::Ollama => {
            take_ollama(&mut told, body);
            content(body.pointer("/message/content"))
        }
    };
    Some((text?, told))
}

/// A part of an answer.
#[derive(Debug, PartialEq)]
pub enum Part {
    /// The next text, which may be empty.
    Text(String),
    /// Nothing of the API, for example a sign of life.
    Other,
}

/// Reads a part of an answer; what it says besides goes to `told`.
pub fn part(api: Provider, body: &Value, told: &mut Told) -> Part {
    let text = |content: Option<String>| Part::Text(content.unwrap_or_default());
    match api {
        Provider::Openai | Provider::Openrouter | Provider::Custom => {
            take_openai(told, body);
            let delta = body.pointer("/choices/0/delta").map(|delta| &delta["content"]);
            if body["choices"].is_array() { text(content(delta)) } else { Part::Other }
        }
        Provider::Anthropic => part_of_anthropic(body, told),
        Provider::Google => {
            take_google(told, body);
            let parts = body.pointer("/candidates/0/content/parts");
            let is_part = body["candidates"].is_array() || body["usageMetadata"].is_object();
            if is_part { text(content(parts)) } else { Part::Other }
        }
        Provider::Ollama => {
            take_ollama(told, body);
            let said = body.pointer("/message/content");
            if body["message"].is_object() || body["done"] == true {
                text(content(said))
            } else {
                Part::Other
            }
        }
    }
}

/// Whether nothing follows this part.
pub fn is_last(api: Provider, body: &Value) -> bool {
    match api {
        Provider::Anthropic => body["type"] == "message_stop",
        Provider::Ollama => body["done"] == true,
        _ => false,
    }
}

fn part_of_anthropic(body: &Value, told: &mut Told) -> Part {
    match body["type"].as_str() {
        Some("message_start") => {
            let message = &body["message"];
            take_anthropic(told, message, &Value::Null, &message["usage"]);
            Part::Text(String::new())
        }
        Some("content_block_delta") => {
            let text = body.pointer("/delta/text").and_then(Value::as_str);
            Part::Text(text.unwrap_or_default().into())
        }
        Some("message_delta") => {
            let reason = body.pointer("/delta/stop_reason").unwrap_or(&Value::Null);
            take_anthropic(told, &Value::Null, reason, &body["usage"]);
            Part::Text(String::new())
        }
        Some("message_stop") => Part::Text(String::new()),
        _ => Part::Other,
    }
}

fn take_openai(told: &mut Told, body: &Value) {
    let reason = body.pointer("/choices/0/finish_reason").unwrap_or(&Value::Null);
    let usage = &body["usage"];
    let counted = Counted {
        input: &usage["prompt_tokens"],
        output: &usage["completion_tokens"],
        cached: &usage["prompt_tokens_details"]["cached_tokens"],
    };
    told.take(&body["model"], reason, &counted);
}

/// Its input tokens are apart from those that it has read from a cache, or written to it.
fn take_anthropic(told: &mut Told, message: &Value, reason: &Value, usage: &Value) {
    let cached = ["cache_read_input_tokens", "cache_creation_input_tokens"];
    let cached = cached.iter().filter_map(|name| usage[*name].as_u64());
    let input = usage["input_tokens"].as_u64();
    let input = input.map(|input| cached.fold(input, u64::saturating_add));
    let counted = Counted {
        input: &input.into(),
        output: &usage["output_tokens"],
        cached: &usage["cache_read_input_tokens"],
    };
    told.take(&message["model"], reason, &counted);
}

/// Its thoughts are counted apart.
fn take_google(told: &mut Told, body: &Value) {
    let usage = &body["usageMetadata"];
    let (said, thought) = (&usage["candidatesTokenCount"], &usage["thoughtsTokenCount"]);
    let output = match (said.as_u64(), thought.as_u64()) {
        (None, None) => None,
        (said, thought) => Some(said.unwrap_or(0).saturating_add(thought.unwrap_or(0))),
    };
    let reason = body.pointer("/candidates/0/finishReason").unwrap_or(&Value::Null);
    let counted = Counted {
        input: &usage["promptTokenCount"],
        output: &output.into(),
        cached: &usage["cachedContentTokenCount"],
    };
    told.take(&body["modelVersion"], reason, &counted);
}

fn take_ollama(told: &mut Told, body: &Value) {
    let counted = Counted {
        input: &body["prompt_eval_count"],
        output: &body["eval_count"],
        // What it has of a prompt already, it counts with the rest.
        cached: &Value::Null,
    };
    told.take(&body["model"], &body["done_reason"], &counted);
}

/// Returns the text of a message, whose content is a string or a list of parts. `None` if it is
/// neither.
fn content(content: Option<&Value>) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_of_each_provider_is_read_with_what_it_used() {
        for (api, body) in [
            (
                Provider::Openai,
                json!({"model": "m-1", "choices": [{"message": {"role": "assistant", "content": "ok"},
                    "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 2}}}),
            ),
            (
                Provider::Custom,
                json!({"model": "m-1", "choices": [{"message": {"content":
                    [{"type": "text", "text": "ok"}]}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 2}}}),
            ),
            (
                Provider::Anthropic,
                json!({"model": "m-1", "content": [{"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "ok"}], "stop_reason": "stop",
                    "usage": {"input_tokens": 0, "cache_read_input_tokens": 2,
                    "cache_creation_input_tokens": 1, "output_tokens": 4}}),
            ),
            (
                Provider::Google,
                json!({"modelVersion": "m-1", "candidates": [{"content": {"role": "model", "parts":
                    [{"text": "hm", "thought": true}, {"text": "o"}, {"text": "k"}]},
                    "finishReason": "stop"}], "usageMetadata": {"promptTokenCount": 3,
                    "candidatesTokenCount": 1, "thoughtsTokenCount": 3,
                    "cachedContentTokenCount": 2}}),
            ),
            (
                Provider::Ollama,
                json!({"model": "m-1", "message": {"role": "assistant", "content": "ok"}, "done": true,
                    "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4}),
            ),
        ] {
            let (text, told) = whole(api, &body).unwrap();
            assert_eq!(text, "ok", "{api:?}");
            let all = Told {
                model: Some("m-1".into()),
                stop_reason: Some("stop".into()),
                input_tokens: Some(3),
                output_tokens: Some(4),
                cached_tokens: (api != Provider::Ollama).then_some(2),
            };
            assert_eq!(told, all, "{api:?}");
        }
    }

    #[test]
    fn what_a_provider_says_is_shown_on_one_line_and_without_the_key() {
        let told = Told {
            model: Some(format!("sk-1\n{}", "x".repeat(500))),
            stop_reason: Some("  ".into()),
            input_tokens: Some(1),
            ..Told::default()
        };
        let shown = told.shown("text".into(), |text| text.replace("sk-1", "…"));
        let model = shown.model.unwrap();
        assert!(!model.contains("sk-1") && !model.contains('\n'), "{model}");
        assert_eq!((model.chars().count(), shown.stop_reason), (MAX_WORD_CHARS, None));
    }

    #[test]
    fn numbers_that_cannot_be_are_not_counted() {
        let counted = |tokens: Value| {
            let body = json!({"choices": [], "usage": {"prompt_tokens": tokens}});
            let mut told = Told::default();
            part(Provider::Custom, &body, &mut told);
            told.input_tokens
        };
        assert_eq!(counted(json!(7)), Some(7));
        assert_eq!(counted(json!(u64::MAX)), Some(MAX_TOKENS));
        for none in [json!(-1), json!(1.5), json!("7"), json!(null), json!([7])] {
            assert_eq!(counted(none), None);
        }
    }
}
