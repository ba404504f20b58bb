//! The schemas of a route's arguments and of its answer, each complete in itself: for a protocol that
//! describes every call alone. They are made by what makes the document, so they cannot differ from it.

use serde_json::{Map, Value, json};

use super::names::SCHEMAS;
use super::operation::operation;
use super::schemas::Schemas;
use super::shared;
use crate::api::route::Route;

/// References in references are followed so far. Types that contain themselves end there, open.
const MAX_DEPTH: usize = 8;

/// The schemas of a call: no references, and of the arguments one object whether they are sent in the
/// path, in the query or in the body.
pub struct CallSchemas {
    pub arguments: Value,
    pub answer: Value,
}

/// Generates the schemas of a route that takes and answers JSON.
pub fn call_schemas(route: &Route) -> CallSchemas {
    let mut schemas = Schemas::new();
    let mut operation = operation(route, &mut schemas);
    let mut components = shared::components(&mut schemas);
    let (definitions, _) = schemas.finish(&mut [&mut operation, &mut components]);
    let inline = |schema: &Value| inlined(schema, &definitions, MAX_DEPTH);
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let parameter = shared_parameter(parameter, &components);
        let Some(name) = parameter["name"].as_str().filter(|_| parameter["in"] != "header") else {
            continue;
        };
        let mut schema = inline(&parameter["schema"]);
        if let Some(about) = parameter.get("description") {
            schema["description"] = about.clone();
        }
        properties.insert(name.into(), schema);
        if parameter["required"] == true {
            required.push(json!(name));
        }
    }
    let body = inline(&operation["requestBody"]["content"]["application/json"]["schema"]);
    for (name, schema) in body["properties"].as_object().into_iter().flatten() {
        properties.insert(name.clone(), schema.clone());
    }
    required.extend(body["required"].as_array().into_iter().flatten().cloned());
    CallSchemas {
        arguments: json!({"type": "object", "properties": properties, "required": required}),
        answer: inline(&operation["responses"]["200"]["content"]["application/json"]["schema"]),
    }
}

/// A parameter, which may be one that routes share.
fn shared_parameter<'a>(parameter: &'a Value, components: &'a Value) -> &'a Value {
    let at = parameter["$ref"].as_str();
    let key = at.and_then(|at| at.strip_prefix("#/components/parameters/"));
    key.map_or(parameter, |key| &components["parameters"][key])
}

/// A schema with what its references refer to in their place.
fn inlined(schema: &Value, definitions: &Map<String, Value>, depth: usize) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(|item| inlined(item, definitions, depth)).collect(),
        Value::Object(object) => {
            let name = object.get("$ref").and_then(Value::as_str);
            let target = name.and_then(|at| definitions.get(at.strip_prefix(SCHEMAS)?));
            let mut whole = match target {
                Some(target) if depth > 0 => match inlined(target, definitions, depth - 1) {
                    Value::Object(whole) => whole,
                    _ => Map::new(),
                },
                _ => Map::new(),
            };
            // What stands beside a reference is more specific than what it refers to.
            for (name, value) in object.iter().filter(|(name, _)| *name != "$ref") {
                whole.insert(name.clone(), inlined(value, definitions, depth));
            }
            Value::Object(whole)
        }
        value => value.clone(),
    }
}
