//! Schemas as the generators of clients and the linters of documents understand them: what they trip
//! over is said in another way that means the same to a validator, or in words.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::names::SCHEMAS;

/// Changes what one object of a schema says, without its parts.
pub fn make_portable(schema: &mut Map<String, Value>) {
    list_values(schema);
    open_conditions(schema);
    drop_sections(schema);
    drop_unsigned(schema);
    drop_sets(schema);
}

/// Replaces a named enumeration beside an alternative that is no text by a pattern of its words. Such
/// a mixture has no discriminator: openapi-generator tells the alternatives apart by their types, and
/// for typescript-fetch it then casts the list to the enumeration, which does not compile.
pub fn spell_out_enumerations(all: &mut Map<String, Value>) {
    let spelled: BTreeMap<String, Value> = all
        .iter()
        .filter_map(|(name, schema)| Some((format!("{SCHEMAS}{name}"), spelled_out(schema)?)))
        .collect();
    let is_other = |choice: &Value| match choice["$ref"].as_str() {
        Some(at) => !spelled.contains_key(at),
        None => ["array", "object"].iter().any(|name| choice["type"] == *name),
    };
    let spell = |schema: &mut Map<String, Value>| {
        for word in ["oneOf", "anyOf"] {
            let Some(Value::Array(choices)) = schema.get_mut(word) else { continue };
            if !choices.iter().any(is_other) {
                continue;
            }
            for choice in choices {
                if let Some(text) = choice["$ref"].as_str().and_then(|at| spelled.get(at)) {
                    *choice = text.clone();
                }
            }
        }
    };
    all.values_mut().for_each(|schema| each_object(schema, &spell));
}

/// The words of an enumeration as a pattern.
fn spelled_out(schema: &Value) -> Option<Value> {
    let words: Option<Vec<String>> = schema["enum"]
        .as_array()?
        .iter()
        .map(|word| Some(word.as_str()?.replace('.', "\\.")))
        .collect();
    let mut text = json!({"type": "string", "pattern": format!("^(?:{})$", words?.join("|"))});
    if let Some(about) = schema.get("description") {
        text["description"] = about.clone();
    }
    Some(text)
}

/// Applies `change` to every object in `value`.
pub fn each_object(value: &mut Value, change: &dyn Fn(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_object(item, change)),
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|item| each_object(item, change));
        }
        _ => {}
    }
}

/// Replaces a `oneOf` of constants by one `enum`, which generators turn into an enumeration. The
/// descriptions of the constants become part of the description.
fn list_values(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    let mut words = Vec::new();
    let mut lines = Vec::new();
    for choice in choices {
        match (&choice["const"], &choice["enum"]) {
            (Value::String(word), _) => {
                words.push(json!(word));
                if let Some(about) = choice["description"].as_str() {
                    lines.push(format!("- `{word}`: {}", about.replace('\n', " ")));
                }
            }
            (_, Value::Array(more)) => words.extend(more.iter().cloned()),
            _ => return,
        }
    }
    schema.shift_remove("oneOf");
    schema.insert("type".into(), json!("string"));
    schema.insert("enum".into(), Value::Array(words));
    if lines.is_empty() {
        return;
    }
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = format!("{about}\n\n{}", lines.join("\n"));
    schema.insert("description".into(), json!(about.trim_start()));
}

/// Says of the parts of a condition that they permit other properties, as they do anyway: linters that
/// check examples strictly would refuse those in each part.
fn open_conditions(schema: &mut Map<String, Value>) {
    for part in ["if", "then", "else"] {
        let Some(Value::Object(part)) = schema.get_mut(part) else { continue };
        if part.contains_key("properties") {
            part.insert("unevaluatedProperties".into(), json!(true));
        }
    }
}

/// Removes citations of the reference from a description.
fn drop_sections(schema: &mut Map<String, Value>) {
    let Some(Value::String(about)) = schema.get_mut("description") else { return };
    for start in [" (reference: ", "\n(reference: "] {
        while let Some(at) = about.find(start) {
            let end = about[at..].find(')').map_or(about.len(), |length| at + length + 1);
            about.replace_range(at..end, "");
        }
    }
}

/// Removes formats such as `uint32`, which OpenAPI does not define; `minimum` says the same.
fn drop_unsigned(schema: &mut Map<String, Value>) {
    if schema.get("format").and_then(Value::as_str).is_some_and(|name| name.starts_with("uint")) {
        schema.shift_remove("format");
    }
}

/// What a list says whose items are distinct.
const EACH_ONCE: &str = "Each item once.";

/// Says in words that no item comes twice. Of `uniqueItems` generators make a set, which TypeScript
/// does not write as JSON, and which forgets the order.
fn drop_sets(schema: &mut Map<String, Value>) {
    if schema.shift_remove("uniqueItems").is_some_and(|is_set| is_set == true) {
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let about = format!("{about} {EACH_ONCE}");
        schema.insert("description".into(), json!(about.trim_start()));
    }
}
