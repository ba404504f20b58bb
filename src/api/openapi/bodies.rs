//! Bodies: the fields of an input and of its organization in one schema.

use serde_json::{Map, Value, json};

/// The organization in examples.
const EXAMPLE_ORG: &str = "acme";

/// Adds the organization to an example of a body that requires it; returns whether it does.
pub fn add_org_to_example(fields: &mut Map<String, Value>, org: &Value) -> bool {
    let is_required = org["required"].as_array().is_some_and(|all| !all.is_empty());
    if is_required {
        fields.shift_insert(0, "orgSlug".into(), json!(EXAMPLE_ORG));
    }
    is_required
}

/// Adds the organization to the schema of a body, to which `at` refers, and returns its name: if the type is part of another
/// input as well, the body is a schema of its own.
pub fn name_body(inputs: &mut Map<String, Value>, name: &str, at: &str, org: &Value) -> String {
    let is_shared = !org.is_null() && references_any(inputs, at);
    let mut schema = inputs.get(name).cloned().unwrap_or_default();
    if let Some(schema) = schema.as_object_mut() {
        add_org(schema, org);
    }
    let body = if is_shared { format!("{name}Request") } else { name.to_string() };
    inputs.insert(body.clone(), schema);
    if let (true, Some(part)) = (is_shared, inputs.get_mut(name).and_then(Value::as_object_mut)) {
        part.shift_remove("examples");
    }
    body
}

/// Adds the fields of `org` to the schema of a body, first; its example is shown with the route.
fn add_org(schema: &mut Map<String, Value>, org: &Value) {
    schema.shift_remove("examples");
    let Some(fields) = org["properties"].as_object() else { return };
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, field) in fields {
        properties.shift_insert(0, name.clone(), field.clone());
    }
    if let Some(Value::Array(more)) = org.get("required") {
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            required.splice(0..0, more.iter().cloned());
        }
    }
}

/// Refuses other properties, as the server does. A type that is also an output stays open: a later
/// version may add properties to it.
pub fn close(schema: &mut Value) {
    if schema["properties"].is_object() {
        schema["additionalProperties"] = json!(false);
    }
}

/// Whether any of these schemas refers to `at`.
fn references_any(schemas: &Map<String, Value>, at: &str) -> bool {
    fn refers(value: &Value, at: &str) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| refers(item, at)),
            Value::Object(object) => {
                object.get("$ref").is_some_and(|target| target == at)
                    || object.values().any(|item| refers(item, at))
            }
            _ => false,
        }
    }
    schemas.values().any(|schema| refers(schema, at))
}
