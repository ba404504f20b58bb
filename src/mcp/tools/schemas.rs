//! The schemas of a tool: those of its route, made short for the context of a model.
//!
//! What is left out is checked by the route all the same, whose refusals say what is wrong: lengths,
//! patterns and formats. The schema of the answer says which fields there are.

use serde_json::{Map, Value, json};

use super::table::ToolInfo;
use crate::api::Method;
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
    let is_told = |name: &str| name != ORGANIZATION && !tool.untold.contains(&name);
    let mut properties = Map::new();
    for (name, schema) in arguments["properties"].as_object().into_iter().flatten() {
        if is_told(name) {
            let mut short = shortened(schema, tool.method == Method::Patch);
            if tool.explained.contains(&name.as_str()) {
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
    ToolSchemas { input, output: json!({"type": "object", "required": answer["required"]}) }
}

/// The keywords that a model needs to write an argument.
const KEPT: [&str; 4] = ["enum", "const", "minimum", "maximum"];

/// A schema of an argument with its type, its values and what is in it.
fn shortened(schema: &Value, may_be_null: bool) -> Value {
    let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    let choices: Vec<_> =
        choices.into_iter().flatten().filter(|choice| choice["type"] != "null").collect();
    if let [one] = choices.as_slice() {
        let mut short = shortened(one, false);
        if may_be_null && let Some(Value::Array(values)) = short.get_mut("enum") {
            values.push(Value::Null);
            short["type"] = json!(["string", "null"]);
        }
        return short;
    }
    let mut short = Map::new();
    match &schema["type"] {
        Value::Array(types) if !may_be_null => {
            short.extend(types.iter().find(|name| *name != "null").map(pair));
        }
        Value::Null => {}
        kind => short.extend([pair(kind)]),
    }
    for keyword in KEPT {
        if let Some(value) = schema.get(keyword) {
            short.insert(keyword.into(), value.clone());
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(keyword).filter(|inner| inner.is_object()) {
            short.insert(keyword.into(), shortened(inner, false));
        }
    }
    if let Some(fields) = schema["properties"].as_object() {
        let fields: Map<String, Value> = fields
            .iter()
            .map(|(name, field)| (name.clone(), shortened(field, may_be_null)))
            .collect();
        short.insert("properties".into(), Value::Object(fields));
    }
    Value::Object(short)
}

fn pair(kind: &Value) -> (String, Value) {
    ("type".into(), kind.clone())
}
