//! The OpenAPI document as an oracle: sample requests for a route, and validation of its responses.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use roadstead::api::Route;
use roadstead::resources;
use serde_json::{Map, Value, json};

use crate::client::Reply;

/// The document of the server under test.
pub static DOCUMENT: LazyLock<Value> = LazyLock::new(|| resources::document("0.0.0"));

/// The operation of a route in the document.
pub fn operation(route: &Route) -> &'static Value {
    &DOCUMENT["paths"][route.path][route.method.as_str().to_lowercase()]
}

/// Resolves a `$ref`.
fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => {
            resolve(DOCUMENT.pointer(&reference[1..]).expect("the document is whole"))
        }
        None => value,
    }
}

// ── What may be sent ─────────────────────────────────────────────────────────

/// Whether the inputs of a route are in a body of JSON; those of an upload are in the query.
pub fn has_json_body(route: &Route) -> bool {
    route.method.has_body() && route.operation.upload.is_none()
}

/// The schemas of a route's inputs by name: the properties of its body, or its query parameters.
pub fn inputs(route: &Route) -> Vec<(String, &'static Value)> {
    let operation = operation(route);
    if has_json_body(route) {
        let mut properties = Vec::new();
        collect(body_schema(operation), &mut |name, schema| {
            properties.push((name.to_string(), schema));
        });
        return properties;
    }
    parameters(operation)
        .filter(|parameter| parameter["in"] == "query")
        .map(|parameter| (parameter["name"].as_str().unwrap().into(), &parameter["schema"]))
        .collect()
}

/// The smallest valid body, or query fields of a route without a body.
pub fn sample(route: &Route) -> Value {
    let operation = operation(route);
    if has_json_body(route) {
        return match body_schema(operation) {
            Value::Null => json!({}),
            schema => sample_of(schema),
        };
    }
    let required = parameters(operation).filter(|p| p["in"] == "query" && p["required"] == true);
    let fields = required.map(|p| (p["name"].as_str().unwrap().into(), sample_of(&p["schema"])));
    Value::Object(fields.collect())
}

fn parameters(operation: &'static Value) -> impl Iterator<Item = &'static Value> {
    operation["parameters"].as_array().into_iter().flatten().map(resolve)
}

fn body_schema(operation: &'static Value) -> &'static Value {
    &operation["requestBody"]["content"]["application/json"]["schema"]
}

/// Every property of an object's schema, wherever in it it is declared.
fn collect(schema: &'static Value, note: &mut impl FnMut(&str, &'static Value)) {
    let schema = resolve(schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        collect(part, note);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        note(name, property);
    }
}

/// The smallest value that fits a schema.
fn sample_of(schema: &'static Value) -> Value {
    let schema = resolve(schema);
    if let Some(value) = schema["enum"].as_array().and_then(|values| values.first()) {
        return value.clone();
    }
    if !schema["const"].is_null() {
        return schema["const"].clone();
    }
    for one in ["anyOf", "oneOf"] {
        if let Some(first) = schema[one].as_array().and_then(|schemas| schemas.first()) {
            return sample_of(first);
        }
    }
    let mut whole = Map::new();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        whole.extend(sample_of(part).as_object().cloned().unwrap_or_default());
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("string") => Value::String(text_of(schema)),
        Some("integer" | "number") => schema["minimum"].as_i64().unwrap_or(0).max(1).into(),
        Some("boolean") => json!(false),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(0);
            (0..least).map(|_| sample_of(&schema["items"])).collect()
        }
        _ => {
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                whole.insert(name.into(), sample_of(&schema["properties"][name]));
            }
            Value::Object(whole)
        }
    }
}

fn text_of(schema: &Value) -> String {
    match (schema["format"].as_str(), schema["pattern"].as_str()) {
        (Some("uuid"), _) => crate::fixture::unknown_id(),
        (Some("email"), _) => "somebody@else.test".into(),
        (Some("idn-hostname"), _) => "example.com".into(),
        (Some("uri"), _) => "https://example.com/".into(),
        (Some("date-time"), _) => "2026-01-01T00:00:00Z".into(),
        (_, Some(pattern)) if pattern.contains(r"[0-9]+\.") => "1.0.0".into(),
        (_, Some(pattern)) if pattern.contains('@') => "scribe@example.com".into(),
        // The key of the first test vector of BIP-340.
        (_, Some("^[0-9a-f]{64}$")) => {
            "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9".into()
        }
        _ => "a".repeat(schema["minLength"].as_u64().unwrap_or(0).max(1) as usize),
    }
}

// ── What is answered ─────────────────────────────────────────────────────────

/// Fails unless the document has this response: its status, and the schema of a success.
#[track_caller]
pub fn check(method: &str, target: &str, reply: &Reply) {
    let path = target.strip_prefix("/api").unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let Some(promised) = find(method, path) else { return };
    let status = reply.status.to_string();
    // Explained once, in the document's introduction; 304 goes with every ETag.
    if ["405", "408", "414", "431", "304"].contains(&status.as_str()) {
        return;
    }
    assert!(
        promised["responses"].get(&status).is_some(),
        "{method} {target}: the document does not promise {status}: {}",
        reply.text()
    );
    let is_json = reply.header("content-type") == Some("application/json");
    if reply.status != 200 || !is_json {
        return;
    }
    let name = promised["operationId"].as_str().unwrap();
    let validator = validator(name, promised);
    let answer = reply.json();
    let problems: Vec<_> =
        validator.iter_errors(&answer).map(|e| format!("{} {e}", e.instance_path())).collect();
    assert!(problems.is_empty(), "{method} {target}: {problems:?}: {answer}");
}

fn find(method: &str, path: &str) -> Option<&'static Value> {
    let sent: Vec<_> = path.split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<_> = template.split('/').collect();
        parts.len() == sent.len()
            && parts.iter().zip(&sent).all(|(part, sent)| part.starts_with('{') || part == sent)
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fitting = paths.iter().filter(|(template, _)| fits(template));
    // A word goes before a parameter.
    let best = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
    best.1.get(method.to_lowercase())
}

fn validator(name: &'static str, operation: &'static Value) -> Arc<Validator> {
    static KNOWN: LazyLock<Mutex<HashMap<&str, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let validator = known.entry(name).or_insert_with(|| {
        let content = &operation["responses"]["200"]["content"]["application/json"];
        let schema = json!({
            "allOf": [content["schema"]],
            "components": {"schemas": DOCUMENT["components"]["schemas"]},
        });
        Arc::new(jsonschema::draft202012::new(&schema).expect("the schema is one"))
    });
    validator.clone()
}

#[test]
fn a_response_that_violates_the_schema_is_found() {
    let noticed = |status: u16, body: Value| {
        let headers = vec![("content-type".to_string(), "application/json".to_string())];
        let reply = Reply { status, headers, body: body.to_string().into_bytes() };
        std::panic::catch_unwind(|| check("GET", "/api/tools?limit=1", &reply)).is_err()
    };
    assert!(!noticed(200, json!({"items": [], "nextCursor": null})));
    assert!(noticed(200, json!({"items": []})));
    assert!(noticed(200, json!({"items": [{"id": 1}], "nextCursor": null})));
    assert!(noticed(418, json!({})));
}
