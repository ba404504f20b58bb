//! `tools/call`: from the arguments of a model to a call of the route, and back.

use std::sync::Arc;

use bytes::Bytes;
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};

use super::Tools;
use super::schemas::CLEARING;
use super::table::ToolInfo;
use crate::api::op::Shape;
use crate::api::{RawArgs, Route, path_names};
use crate::base::{Error, Issue, Kind, Result};
use crate::http::begin_waiting;
use crate::mcp::api::Api;
use crate::mcp::brief::{Brief, is_short, too_long};
use crate::mcp::era::Era;
use crate::mcp::failure::{Failure, INVALID_PARAMS, in_words};
use crate::mcp::message::Outcome;
use crate::mcp::params::text;

/// Where a client may put an `Idempotency-Key` for a call.
const IDEMPOTENCY_KEY: &str = "roadstead/idempotencyKey";

impl Tools {
    /// The result of `tools/call`: what the route answers, or why it refuses.
    ///
    /// # Errors
    /// [`INVALID_PARAMS`] for an unknown tool; what a model cannot do anything about: 401, 429, 500.
    pub async fn call(
        &self,
        api: &mut Api,
        head: &Parts,
        mut params: Value,
        era: Era,
    ) -> Result<Outcome, Failure> {
        let name = text(&params, "name")?;
        let Some((tool, route)) = self.find(name) else {
            let message = format!("there is no tool of this name; see tools/list: {name:.128}");
            return Err(Failure::new(INVALID_PARAMS, message));
        };
        let route = route?;
        let mut arguments = match params["arguments"].take() {
            Value::Null => Map::new(),
            Value::Object(arguments) => arguments,
            _ => {
                let message = "params.arguments must be an object".to_string();
                return Err(Failure::new(INVALID_PARAMS, message));
            }
        };
        if let Some(key) = params["_meta"].get(IDEMPOTENCY_KEY) {
            api.idempotency_key = Some(idempotency_key(key)?);
        }
        for name in tool.clears {
            if arguments.get(*name).is_some_and(|value| value == CLEARING) {
                arguments[*name] = Value::Null;
            }
        }
        if route.may_be_given_up() {
            begin_waiting(head);
        }
        match run_briefly(api, tool, &route, arguments).await {
            Ok(Answer { json, is_cut }) => Ok(succeeded(&json, is_cut, era)?),
            Err(error) if is_for_model(error.kind()) => Ok(refused(&error)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The bytes of an answer up to which it is made short at once; those of a page can be a hundred times
/// as many.
const MAX_AT_ONCE: usize = 256 * 1024;

/// An answer within the context of a model.
struct Answer {
    json: Bytes,
    /// Whether it is not all of what the route has answered.
    is_cut: bool,
}

impl Answer {
    fn whole(json: Bytes) -> Self {
        Answer { json, is_cut: false }
    }
}

/// What becomes of an answer.
enum Shortened {
    Done(Answer),
    /// A list that is too long however much its texts are cut, of so many items.
    TooLong(usize),
}

/// Calls the route and makes its answer short. A list that is too long however much its texts are cut
/// is asked for again with half the items: its cursor then leads to the others. What a wait returns is
/// leased and cannot be asked for again; it has no long texts, so a page of wakes is short as it is.
async fn run_briefly(
    api: &Api,
    tool: &'static ToolInfo,
    route: &Arc<Route>,
    mut arguments: Map<String, Value>,
) -> Result<Answer> {
    let shape = route.operation.shape;
    loop {
        let json = run(api, route, arguments.clone()).await?;
        let shortened = if json.len() <= MAX_AT_ONCE {
            shorten(tool, shape, json)
        } else {
            let work = tokio::task::spawn_blocking(move || shorten(tool, shape, json));
            work.await.map_err(Error::internal)?
        };
        match shortened? {
            Shortened::Done(answer) => return Ok(answer),
            Shortened::TooLong(count) => {
                arguments.insert("limit".into(), json!(count / 2));
            }
        }
    }
}

/// Makes the answer of a route short.
///
/// # Errors
/// 409 if a part of it would be wrong; 500 if it cannot be made short.
fn shorten(tool: &ToolInfo, shape: Shape, json: Bytes) -> Result<Shortened> {
    if tool.without.is_empty() && is_short(&json) {
        return Ok(Shortened::Done(Answer::whole(json)));
    }
    let mut answer: Value = serde_json::from_slice(&json).map_err(Error::internal)?;
    for name in tool.without {
        answer.as_object_mut().and_then(|fields| fields.shift_remove(*name));
    }
    let written = answer.to_string();
    if is_short(written.as_bytes()) {
        return Ok(Shortened::Done(Answer::whole(written.into())));
    }
    if tool.is_exact {
        let route = format!("{} /api{}", tool.method.as_str(), tool.path);
        return Err(too_long(&route));
    }
    let count = answer["items"].as_array().map_or(0, Vec::len);
    let whole_in = whole_in(tool, shape, count);
    let can_have_fewer = matches!(shape, Shape::List | Shape::Walk) && count > 1;
    let brief = Brief { whole_in: &whole_in, is_page: shape.is_list(), can_have_fewer };
    match brief.fit(&answer) {
        Some(short) => Ok(Shortened::Done(Answer { json: short.to_string().into(), is_cut: true })),
        None if can_have_fewer => Ok(Shortened::TooLong(count)),
        None => Err(Error::internal(format!("an answer of {} is too long", tool.name))),
    }
}

/// Where the whole is of an answer that is cut: a tool that has more of it, or the route of the HTTP
/// API. A write is not to be called again for its answer: what it has written is there.
fn whole_in(tool: &ToolInfo, shape: Shape, count: usize) -> String {
    let ToolInfo { method, path, .. } = tool;
    match (shape, tool.whole_in) {
        (Shape::Write, Some(other)) => format!("it is stored whole, see {other}"),
        (Shape::Write, None) => "it is stored whole".into(),
        // Another call would ask again, and be answered otherwise.
        (Shape::Stream | Shape::Batch(_), _) => "the rest is not kept".into(),
        (_, Some(other)) => format!("{other} has all"),
        (Shape::List | Shape::Walk, None) if count > 1 => {
            format!("a smaller limit shows more, and the HTTP API all: {} {path}", method.as_str())
        }
        (_, None) => format!("the HTTP API has all: {} {path}", method.as_str()),
    }
}

/// Calls the route with the arguments in their places.
async fn run(api: &Api, route: &Arc<Route>, mut arguments: Map<String, Value>) -> Result<Bytes> {
    let mut issues = Vec::new();
    let mut params = Vec::new();
    for name in path_names(route.path) {
        let value = arguments.shift_remove(name);
        params.push(match value {
            Some(Value::String(text)) if !text.is_empty() => text,
            Some(Value::Number(number)) => number.to_string(),
            None | Some(Value::Null) => {
                issues.push(Issue::new(name, "is required"));
                String::new()
            }
            Some(_) => {
                issues.push(Issue::new(name, "must be a text that is not empty"));
                String::new()
            }
        });
    }
    let arguments = Value::Object(arguments);
    if issues.is_empty() {
        return api.call(route, params, arguments).await;
    }
    issues.extend(problems_of_the_rest(api, route, &params.into(), arguments));
    Err(Error::invalid(issues))
}

/// What else is wrong with arguments that do not name what they are about, so that a model learns all
/// at once.
fn problems_of_the_rest(
    api: &Api,
    route: &Route,
    params: &Arc<[String]>,
    arguments: Value,
) -> Vec<Issue> {
    let origin = Arc::default();
    let mut raw = RawArgs::body(params, &arguments, (&origin, api.executor().server_info()));
    raw.targets = route.target_arguments();
    match route.bind(raw) {
        Ok(_) => Vec::new(),
        Err(error) => {
            let is_other = |issue: &&Issue| !path_names(route.path).any(|name| name == issue.path);
            error.issues().iter().filter(is_other).cloned().collect()
        }
    }
}

/// Whether a model, rather than its client, can do something about an error.
fn is_for_model(kind: Kind) -> bool {
    !matches!(kind, Kind::Unauthenticated | Kind::Internal)
}

/// The answer of a route, as text and, where the revision asks for it, as JSON. That it is cut is said
/// in the texts for models, and in `_meta` for programs.
///
/// # Errors
/// 500 if it is no text.
fn succeeded(json: &Bytes, is_cut: bool, era: Era) -> Result<Outcome> {
    let text = std::str::from_utf8(json).map_err(Error::internal)?;
    let mut fields = Vec::with_capacity(3 * text.len());
    fields.extend_from_slice(b"\"content\":[{\"type\":\"text\",\"text\":");
    serde_json::to_writer(&mut fields, text).map_err(Error::internal)?;
    fields.extend_from_slice(b"}]");
    if era.has_structured_content() {
        fields.extend_from_slice(b",\"structuredContent\":");
        fields.extend_from_slice(json);
    }
    let outcome = Outcome::written(String::from_utf8(fields).map_err(Error::internal)?);
    Ok(if is_cut { outcome.cut() } else { outcome })
}

/// A refusal, in words.
fn refused(error: &Error) -> Outcome {
    let content = json!([{"type": "text", "text": in_words(error)}]);
    Outcome::of(&json!({"content": content, "isError": true}))
}

/// The key of a call, of the form that the header has.
fn idempotency_key(value: &Value) -> Result<String, Failure> {
    let is_good = |key: &&str| {
        (1..=255).contains(&key.len()) && key.bytes().all(|byte| (0x20..0x7F).contains(&byte))
    };
    value.as_str().filter(is_good).map(String::from).ok_or_else(|| {
        let message =
            format!("params._meta.{IDEMPOTENCY_KEY} must be 1 to 255 printable ASCII characters");
        Failure::new(INVALID_PARAMS, message)
    })
}
