//! The schemas of a tool: those of its route, made short for the context of a model.
//!
//! What is left out is checked by the route all the same, whose refusals say what is wrong: lengths,
//! patterns and formats. The schema of the answer says which fields there are.
//!
//! Each schema has one type, no reference, and no keyword but those that the functions of all vendors
//! of models take: one schema that a client does not take can cost it all tools of the server.

use serde_json::{Map, Value, json};

use super::table::ToolInfo;
use crate::api::Route;
use crate::api::openapi::{CallSchemas, call_schemas};

/// The argument that follows from the key.
const ORGANIZATION: &str = "orgSlug";

/// The schemas of a tool.
pub struct ToolSchemas {
    pub input: Value,
    pub output: Value,
}

/// Generates the schemas of a tool.
pub fn of(tool: &ToolInfo, route: &Route) -> ToolSchemas {
    let CallSchemas { arguments, answer } = call_schemas(route);
    let is_told = |name: &str| {
        name != ORGANIZATION && !WALKING.contains(&name) && !tool.untold.contains(&name)
    };
    let mut properties = Map::new();
    for (name, schema) in arguments["properties"].as_object().into_iter().flatten() {
        if is_told(name) {
            let mut short = shortened(schema);
            if let Some(fields) = short.get_mut("properties").and_then(Value::as_object_mut) {
                fields.retain(|field, _| is_told(&format!("{name}.{field}")));
            }
            if tool.clears.contains(&name.as_str()) {
                short["description"] = json!(format!("\"{CLEARING}\" clears it"));
            } else if tool.explained.contains(&name.as_str()) {
                short["description"] = schema["description"].clone();
            }
            properties.insert(name.clone(), short);
        }
    }
    let mut input = json!({"type": "object", "properties": properties});
    let required = arguments["required"].as_array().into_iter().flatten();
    let required: Vec<_> =
        required.filter(|name| name.as_str().is_some_and(is_told)).cloned().collect();
    if !required.is_empty() {
        input["required"] = Value::Array(required);
    }
    let is_in = |names: &[&str], name: &Value| names.iter().any(|other| *name == *other);
    let is_given = |name: &&Value| {
        !is_in(tool.without, name) && (tool.named.is_empty() || is_in(tool.named, name))
    };
    let answered = answer["required"].as_array().into_iter().flatten().filter(is_given);
    let answered: Vec<_> = answered.cloned().collect();
    ToolSchemas { input, output: json!({"type": "object", "required": answered}) }
}

/// How lists are walked through, of which models are told nothing: they read what comes first.
const WALKING: [&str; 2] = ["reversed", "total"];

/// What models are told of an argument that this text clears. Not an empty one: some models fill in what
/// is optional with that.
pub const CLEARING: &str = "none";

/// The keywords that a model needs to write an argument.
const KEPT: [&str; 3] = ["enum", "minimum", "maximum"];

/// A schema of an argument with its type, its values and what is in it. Null is left out: absent means
/// the same.
fn shortened(schema: &Value) -> Value {
    let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    let choices: Vec<_> =
        choices.into_iter().flatten().filter(|choice| choice["type"] != "null").collect();
    if let [one] = choices.as_slice() {
        return shortened(one);
    }
    let mut short = Map::new();
    let types = schema["type"].as_array();
    let only = types.and_then(|types| types.iter().find(|name| *name != "null"));
    if let Some(name) = only.or(schema.get("type")).filter(|name| name.is_string()) {
        short.insert("type".into(), name.clone());
    }
    for keyword in KEPT {
        if let Some(value) = schema.get(keyword) {
            short.insert(keyword.into(), value.clone());
        }
    }
    if let Some(Value::Array(values)) = short.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(keyword).filter(|inner| inner.is_object()) {
            short.insert(keyword.into(), shortened(inner));
        }
    }
    if let Some(fields) = schema["properties"].as_object() {
        let fields: Map<String, Value> =
            fields.iter().map(|(name, field)| (name.clone(), shortened(field))).collect();
        short.insert("properties".into(), Value::Object(fields));
    }
    Value::Object(short)
}
