//! One route as an operation of the document: what it takes, and all it can answer.

use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use super::{group, path_names, who};
use crate::api::extra::{OrgOptional, OrgRequired};
use crate::api::route::{Method, Route, SchemaOf, Shape};
use crate::api::scope::Scope;
use crate::auth::Rule;

/// The operation of `route`; the schemas it needs are left in `schemas`.
pub fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": id(route.name),
        "tags": [group(route)],
        "summary": route.about,
        "x-rule": who(route.rule),
        "security": security(route),
    });
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

/// `task.create` as `taskCreate`.
pub fn id(name: &str) -> String {
    let mut words = name.split(['.', '_', '-']);
    let first = words.next().unwrap_or_default().to_string();
    words.fold(first, |id, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        id + &head.to_ascii_uppercase() + tail
    })
}

/// The credentials that do, each alone. Where what is read may be open to anybody (a public
/// registry), none may be needed, and one that is there counts.
fn security(route: &Route) -> Value {
    match route.rule {
        Rule::Anyone => json!([]),
        Rule::Reader => json!([{}, {"apiKeyHeader": []}, {"bearer": []}]),
        rule if rule.session_only() => json!([{"bearer": []}]),
        _ => json!([{"apiKeyHeader": []}, {"bearer": []}]),
    }
}

// ── What it takes ────────────────────────────────────────────────────────────

fn parameters(route: &Route, schemas: &mut Schemas) -> Vec<Value> {
    let mut parameters: Vec<Value> = path_names(route.path)
        .zip(&route.params)
        .map(|(name, schema)| {
            json!({"name": name, "in": "path", "required": true, "schema": schema.as_value()})
        })
        .collect();
    if !route.method.has_body() {
        let own = schemas.query(route.input);
        let is_own = |name: &str| own.iter().any(|parameter| parameter["name"] == name);
        let shared = shared_query(route).into_iter().filter(|(name, _)| !is_own(name));
        parameters.extend(shared.map(|(_, key)| shared_parameter(key)));
        parameters.extend(own);
    }
    parameters.extend(headers(route).into_iter().map(shared_parameter));
    parameters
}

fn shared_parameter(key: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{key}")})
}

/// The query parameters that routes of its kind have beside their input: names, and where they are
/// described.
fn shared_query(route: &Route) -> Vec<(&'static str, &'static str)> {
    let mut shared = match route.scope {
        Scope::Organization => vec![("orgSlug", "OrgSlug")],
        Scope::Wherever(_) | Scope::Named(_) => vec![("orgSlug", "OptionalOrgSlug")],
        Scope::Installation => vec![],
    };
    if route.shape.is_list() {
        shared.extend([("limit", "Limit"), ("cursor", "Cursor")]);
    }
    if route.shape.waits() {
        shared.push(("wait", "Wait"));
    }
    shared
}

fn headers(route: &Route) -> Vec<&'static str> {
    let mut headers = Vec::new();
    if is_idempotent(route) {
        headers.push("IdempotencyKey");
    }
    if is_conditional_write(route) {
        headers.push("IfMatch");
    }
    if route.shape.has_tag() {
        headers.push("IfNoneMatch");
    }
    headers
}

/// Routes under `/auth` and `/setup` keep no answers (contract §1, "Idempotency").
fn is_idempotent(route: &Route) -> bool {
    route.method == Method::Post && !matches!(group(route), "auth" | "setup")
}

fn is_conditional_write(route: &Route) -> bool {
    matches!(route.method, Method::Patch | Method::Delete)
}

fn body(route: &Route, schemas: &mut Schemas) -> Value {
    let org: Option<SchemaOf> = match route.scope {
        Scope::Organization => Some(|generator| generator.subschema_for::<OrgRequired>()),
        Scope::Wherever(_) | Scope::Named(_) => {
            Some(|generator| generator.subschema_for::<OrgOptional>())
        }
        Scope::Installation => None,
    };
    let parts = [Some(route.input), org].into_iter().flatten();
    let mut parts: Vec<Value> = parts.filter_map(|part| schemas.input(part)).collect();
    let required = parts.iter().any(|part| schemas.requires_something(part));
    let schema = match parts.len() {
        0 => json!({"type": "object"}),
        1 => parts.remove(0),
        _ => json!({"allOf": parts}),
    };
    json!({"required": required, "content": {"application/json": {"schema": schema}}})
}

// ── What it answers ──────────────────────────────────────────────────────────

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
    let schema = match route.shape {
        Shape::List | Shape::Wait(_) => schemas.page(route.output),
        _ => schemas.output(route.output),
    };
    let description = match route.shape {
        Shape::One | Shape::Ask => "What was asked for.".into(),
        Shape::Watch => {
            "What was asked for. With `wait` and an `If-None-Match` that it has, it is \
                         answered once it is another, or 304 when the time is over."
                .into()
        }
        Shape::List => "A part of the list.".into(),
        Shape::Change => "Done.".into(),
        Shape::Wait(event) => format!(
            "What there was to take, perhaps nothing. With `Accept: text/event-stream` a stream \
             without end: each thing is an event named `{event}`, its `data` an item as JSON."
        ),
    };
    let mut content = json!({"application/json": {"schema": schema}});
    if matches!(route.shape, Shape::Wait(_)) {
        content["text/event-stream"] = json!({"schema": {"type": "string"}});
    }
    let mut headers = vec![("X-Request-Id", "RequestId")];
    if route.shape.has_tag() {
        headers.push(("ETag", "ETag"));
    }
    if is_idempotent(route) && route.secret.is_none() {
        headers.push(("Idempotency-Replayed", "IdempotencyReplayed"));
    }
    let header = |key| json!({"$ref": format!("#/components/headers/{key}")});
    let headers: Map<String, Value> =
        headers.into_iter().map(|(name, key)| (name.into(), header(key))).collect();
    json!({"description": description, "headers": headers, "content": content})
}

/// The other answers that a route of its kind can give: status, and where it is described.
fn others(route: &Route) -> Vec<(&'static str, &'static str)> {
    let installation = matches!(route.scope, Scope::Installation);
    let anyone = route.rule == Rule::Anyone;
    let writes = route.method != Method::Get;
    // A token that names nothing (`/setup`, `/auth/invitations/accept`) is 404 without any path.
    let names_something = !installation || !route.params.is_empty() || anyone;
    let table = [
        (route.shape.has_tag(), "304", "NotModified"),
        (true, "400", "Invalid"),
        (true, "401", "Unauthenticated"),
        (!(anyone && installation), "403", "Forbidden"),
        (names_something, "404", "NotFound"),
        (writes, "409", "Conflict"),
        (is_conditional_write(route), "412", "PreconditionFailed"),
        (route.method.has_body(), "413", "TooLarge"),
        (route.method.has_body(), "415", "UnsupportedMediaType"),
        (true, "429", "RateLimited"),
        (true, "500", "Internal"),
        (route.calls, "502", "Upstream"),
        (true, "503", "Busy"),
    ];
    table.iter().filter(|row| row.0).map(|row| (row.1, row.2)).collect()
}
