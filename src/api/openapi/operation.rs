//! A route as an operation of the document: its parameters, its body and its responses.

use serde_json::{Map, Value, json};

use super::descriptions;
use super::labels::{about_access, group, scopes, who};
use super::schemas::{BodySchema, Schemas};
use crate::api::common_params::{OrgOptional, OrgRequired};
use crate::api::op::{SchemaOf, Shape, Upload};
use crate::api::org_source::OrgSource;
use crate::api::request::path_names;
use crate::api::route::{AsksAgain, Method, Route};
use crate::auth::RequiredCredential;

/// Generates the operation of `route`; the schemas it refers to are added to `schemas`.
pub fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": id(route.name),
        "tags": [group(route)],
        "summary": route.about,
        "description": description(route),
        "x-rule": who(route.policy),
        "security": security(route),
    });
    if !route.required_scopes.is_empty() {
        operation["x-required-scopes"] = json!(scopes(route));
    }
    match route.asks_again {
        AsksAgain::Never => {}
        AsksAgain::Always => operation["x-asks-again"] = json!("always"),
        AsksAgain::To(what) => operation["x-asks-again"] = json!(what),
    }
    let parameters = parameters(route, schemas);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if route.method.has_body() {
        operation["requestBody"] = body(route, schemas);
    }
    operation["responses"] = responses(route, schemas);
    operation
}

/// Says who may call a route, and with which scopes of an API key.
fn description(route: &Route) -> String {
    let (access, asks) = (about_access(route.policy), about_asking(route.asks_again));
    let scopes = scopes(route).join("` and `");
    if scopes.is_empty() {
        return format!("{access}{asks}");
    }
    let unless = if route.policy.public_read { ", unless the registry is public" } else { "" };
    format!("{access} A key needs the scope `{scopes}`{unless}.{asks}")
}

/// Says whether a person is asked again who they are.
fn about_asking(asks: AsksAgain) -> String {
    let to = match asks {
        AsksAgain::Never => return String::new(),
        AsksAgain::Always => String::new(),
        AsksAgain::To(what) => format!(" to {what}"),
    };
    format!(
        " In a session, it takes a proof of at most 15 minutes ago{to}: else it answers 401 \
         `insufficient_user_authentication` until the person has confirmed who they are."
    )
}

/// `task.create` as `taskCreate`.
pub fn id(name: &str) -> String {
    let mut words = name.split(['.', '_', '-']);
    let first = words.next().unwrap_or_default().to_string();
    words.fold(first, |id, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        id + &head.to_ascii_uppercase() + tail
    })
}

/// The accepted credentials, each sufficient alone. For public reads (of a public registry) the
/// credential is optional.
fn security(route: &Route) -> Value {
    let (key, session) = (json!({"apiKeyHeader": []}), json!({"bearer": []}));
    match route.policy.credential {
        RequiredCredential::None => json!([]),
        RequiredCredential::Session => json!([session]),
        RequiredCredential::KeyOrSession if route.policy.public_read => json!([{}, key, session]),
        RequiredCredential::KeyOrSession => json!([key, session]),
        RequiredCredential::Nostr => json!([{"nostr": []}]),
    }
}

// ── Parameters and body ────────────────────────────────────────────────────────────

fn parameters(route: &Route, schemas: &mut Schemas) -> Vec<Value> {
    let mut parameters: Vec<Value> = path_names(route.path)
        .zip((route.operation.params)())
        .map(|(name, schema)| {
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": descriptions::of_path(name, &noun(route)),
                "schema": schema.as_value(),
            })
        })
        .collect();
    if !route.method.has_body() || route.operation.upload.is_some() {
        let own = schemas.query(route.operation.input);
        let is_own = |name: &str| own.iter().any(|parameter| parameter["name"] == name);
        let shared = shared_query(route).into_iter().filter(|(name, _)| !is_own(name));
        parameters.extend(shared.map(|(_, key)| shared_parameter(key)));
        parameters.extend(own);
    }
    parameters.extend(headers(route).into_iter().map(shared_parameter));
    parameters
}

/// `policy_assignment.create` is about a `policy assignment`.
fn noun(route: &Route) -> String {
    route.name.split('.').next().unwrap_or_default().replace('_', " ")
}

fn shared_parameter(key: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{key}")})
}

/// The common query parameters of its kind: names, and the keys of their definitions.
fn shared_query(route: &Route) -> Vec<(&'static str, &'static str)> {
    let mut shared = match route.org_source {
        OrgSource::Organization => vec![("orgSlug", "OrgSlug")],
        OrgSource::InferFromPath(_) | OrgSource::Named(_) => vec![("orgSlug", "OptionalOrgSlug")],
        OrgSource::Installation | OrgSource::InPath(_) => vec![],
    };
    if route.is_list() {
        shared.extend([("limit", "Limit"), ("cursor", "Cursor")]);
    }
    if route.operation.shape.walks() {
        shared.extend([("reversed", "Reversed"), ("total", "Total")]);
    }
    if route.waits() {
        shared.push(("wait", "Wait"));
    }
    shared
}

fn headers(route: &Route) -> Vec<&'static str> {
    let mut headers = vec!["Prefer"];
    if route.is_idempotent() {
        headers.push("IdempotencyKey");
    }
    if route.is_conditional_write() {
        headers.push("IfMatch");
    }
    if route.has_tag() {
        headers.push("IfNoneMatch");
    }
    if matches!(route.operation.shape, Shape::Follow(_)) {
        headers.push("LastEventId");
    }
    headers
}

/// The media type of the example of an upload: the others cannot be shown in JSON, or are text too.
const TEXT: &str = "text/plain";
const EXAMPLE_TEXT: &str = "Whoever is on call answers within 15 minutes.\n";

/// A body of bytes, in one of the media types that the operation takes.
fn upload_body(upload: &Upload) -> Value {
    let content = upload.media_types.iter().map(|media_type| {
        let mut content = binary();
        if *media_type == TEXT {
            content["example"] = json!(EXAMPLE_TEXT);
        }
        (media_type.to_string(), content)
    });
    let description = format!("At most {} bytes.", upload.max_bytes);
    let content: Map<String, Value> = content.collect();
    json!({"required": true, "description": description, "content": content})
}

fn binary() -> Value {
    json!({"schema": {"type": "string", "format": "binary"}})
}

fn body(route: &Route, schemas: &mut Schemas) -> Value {
    if let Some(upload) = &route.operation.upload {
        return upload_body(upload);
    }
    let org: Option<SchemaOf> = match route.org_source {
        OrgSource::Organization => Some(|generator| generator.subschema_for::<OrgRequired>()),
        OrgSource::InferFromPath(_) | OrgSource::Named(_) => {
            Some(|generator| generator.subschema_for::<OrgOptional>())
        }
        OrgSource::Installation | OrgSource::InPath(_) => None,
    };
    let BodySchema { schema, example, is_required } = schemas.body(route.operation.input, org);
    let content = json!({"schema": schema, "example": example});
    json!({"required": is_required, "content": {"application/json": content}})
}

// ── Responses ──────────────────────────────────────────────────────────

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    responses.insert("200".into(), success(route, schemas));
    for (status, key) in others(route) {
        let at = format!("#/components/responses/{key}");
        responses.insert(status.into(), json!({"$ref": at}));
    }
    Value::Object(responses)
}

fn success(route: &Route, schemas: &mut Schemas) -> Value {
    let description = match route.operation.shape {
        Shape::One => "The requested resource.".into(),
        Shape::Download(_) => "The bytes.".into(),
        Shape::Watch => {
            "The requested resource. With `wait` and an `If-None-Match` that matches, the response \
             is delayed until it changes, or is 304 at the end of the wait."
                .into()
        }
        Shape::List | Shape::Walk => "A page of the list.".into(),
        Shape::Write => "The request succeeded.".into(),
        Shape::Stream => {
            "The whole answer. With `Accept: text/event-stream` its text as it comes: each \
                          part is an event `delta`, and the last event is `done`, with the whole \
                          answer, or `error`."
                .into()
        }
        Shape::Batch(event) => format!(
            "The whole answer. With `Accept: text/event-stream` what came of each thing as it is done: \
             an event `{event}`, and the last event is `done`, with the whole answer, or `error`."
        ),
        Shape::Follow(event) => format!(
            "A page of the list. With `Accept: text/event-stream` an indefinite stream: each new item \
             is an event named `{event}`, its `data` the item as JSON, its `id` what `Last-Event-ID` \
             goes on after."
        ),
        Shape::Wait(event) => format!(
            "The items that were available, possibly none. With `Accept: text/event-stream` an \
             indefinite stream: each item is an event named `{event}`, its `data` the item as JSON."
        ),
    };
    let mut headers = vec![("X-Request-Id", "RequestId")];
    if route.has_tag() {
        headers.push(("ETag", "ETag"));
    }
    if route.is_idempotent() {
        headers.push(("Idempotency-Stored", "IdempotencyStored"));
        if !route.operation.may_show_secret {
            headers.push(("Idempotency-Replayed", "IdempotencyReplayed"));
        }
    }
    let header = |key| json!({"$ref": format!("#/components/headers/{key}")});
    let headers: Map<String, Value> =
        headers.into_iter().map(|(name, key)| (name.into(), header(key))).collect();
    let content = content(route, schemas);
    json!({"description": description, "headers": headers, "content": content})
}

fn content(route: &Route, schemas: &mut Schemas) -> Value {
    let output = route.operation.output;
    let schema = match route.operation.shape {
        Shape::Download(media_type) => return json!({media_type: binary()}),
        Shape::List | Shape::Walk | Shape::Wait(_) | Shape::Follow(_) => {
            schemas.page(output, route.operation.says_more)
        }
        Shape::One | Shape::Watch | Shape::Write | Shape::Stream | Shape::Batch(_) => {
            schemas.output(output)
        }
    };
    let mut content = json!({"application/json": {"schema": schema}});
    if let Shape::Wait(event) | Shape::Follow(event) = route.operation.shape {
        content["text/event-stream"] =
            json!({"schema": event_stream(event, schemas.output(output))});
    }
    if route.operation.shape == Shape::Stream {
        let answer = schemas.output(output);
        content["text/event-stream"] = json!({"schema": text_stream(answer)});
    }
    if let (Shape::Batch(event), Some(item)) = (route.operation.shape, route.operation.item) {
        let (item, answer) = (schemas.output(item), schemas.output(output));
        content["text/event-stream"] = json!({"schema": batch_stream(event, item, answer)});
    }
    if route.operation.has_text {
        content["text/plain"] = json!({"schema": {"type": "string"}});
    }
    content
}

/// A stream of server-sent events: OpenAPI 3.1 has no words for what is in it, so they are in the
/// description and, for programs, in `x-events`.
fn event_stream(event: &str, item: Value) -> Value {
    json!({
        "type": "string",
        "description": format!(
            "Server-sent events. It begins with `retry`, the milliseconds after which to connect \
             again. Each item is an event `{event}` with its `id` and, as `data`, the item as JSON \
             (`x-events`). A comment comes every 15 seconds. A stream that cannot go on ends with an \
             event `error` whose `data` has `code` and `message`."
        ),
        "x-events": {event: item},
    })
}

/// A stream of the parts of a text, and of the answer at its end.
fn text_stream(answer: Value) -> Value {
    let delta = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The next part of the text."}},
        "required": ["text"],
    });
    json!({
        "type": "string",
        "description": "Server-sent events. Each part of the text is an event `delta` with `text` in its \
                        `data`. The last event is `done`, whose `data` is the whole answer as JSON \
                        (`x-events`), or `error`, whose `data` has `code` and `message`. A comment comes \
                        every 15 seconds.",
        "x-events": {"delta": delta, "done": answer},
    })
}

/// A stream of what came of each thing of a batch, and of the answer at its end.
fn batch_stream(event: &str, item: Value, answer: Value) -> Value {
    json!({
        "type": "string",
        "description": format!(
            "Server-sent events. What came of each thing is an event `{event}` as it is done, its `data` \
             JSON (`x-events`). The last event is `done`, whose `data` is the whole answer as JSON, or \
             `error`, whose `data` has `code` and `message`. A comment comes every 15 seconds."
        ),
        "x-events": {event: item, "done": answer},
    })
}

/// The other responses of its kind: status, and the key of the definition.
fn others(route: &Route) -> Vec<(&'static str, &'static str)> {
    let installation = matches!(route.org_source, OrgSource::Installation);
    let anyone = !route.policy.needs_credential();
    let writes = route.method != Method::Get;
    // An unknown token in the body is 404 without a path parameter.
    let names_something = !installation || !(route.operation.params)().is_empty() || anyone;
    let table = [
        (route.has_tag(), "304", "NotModified"),
        (true, "400", "Invalid"),
        (true, "401", "Unauthenticated"),
        (!(anyone && installation) || writes, "403", "Forbidden"),
        (names_something, "404", "NotFound"),
        (writes, "409", "Conflict"),
        (route.is_conditional_write(), "412", "PreconditionFailed"),
        (route.method.has_body(), "413", "TooLarge"),
        (route.method.has_body(), "415", "UnsupportedMediaType"),
        (true, "429", "RateLimited"),
        (true, "500", "Internal"),
        (route.operation.calls, "502", "Upstream"),
        (true, "503", "Busy"),
    ];
    table.iter().filter(|row| row.0).map(|row| (row.1, row.2)).collect()
}
