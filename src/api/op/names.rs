//! The names that a request to an operation may use, derived from the schemas of its types.

use std::collections::HashSet;
use std::sync::Arc;

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::Shape;
use crate::api::read::{ObjectParameters, OtherNames};

/// Generates a schema; the schemas it refers to are added to the generator.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The names that a request may use.
pub struct InputNames {
    /// The fields of the input.
    pub fields: Vec<String>,
    /// Those that are objects, by their members.
    pub objects: ObjectParameters,
    others: Arc<OtherNames>,
    others_of_patch: Arc<OtherNames>,
}

impl InputNames {
    /// The names for an operation of this `shape` with an input and an output of these schemas.
    pub fn of(shape: Shape, input: SchemaOf, output: SchemaOf) -> Self {
        let input = inlined(input);
        let fields = names(&input);
        // `orgSlug` is known everywhere, also where it is not read.
        let mut elsewhere = vec!["orgSlug".to_string()];
        if shape.is_list() {
            elsewhere.extend(["limit".into(), "cursor".into()]);
        }
        if shape.walks() {
            elsewhere.extend(["reversed".into(), "total".into()]);
        }
        if shape.waits() {
            elsewhere.push("wait".into());
        }
        let objects = objects(&input, &[fields.as_slice(), &elsewhere].concat());
        let mut fixed = HashSet::new();
        if shape == Shape::Write {
            field_paths("", inlined(output).as_value(), &mut fixed);
        }
        let required = input.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        let required: Vec<String> = required.map(String::from).collect();
        let others = |fixed| {
            let (members, required) = (objects.members.clone(), required.clone());
            let read_elsewhere = elsewhere.clone();
            Arc::new(OtherNames { read_elsewhere, members, required, fixed })
        };
        let (others, others_of_patch) = (others(HashSet::new()), others(fixed));
        InputNames { fields, objects, others, others_of_patch }
    }

    /// The names besides the fields of the input; of a PATCH with the fields that it cannot change.
    pub fn others(&self, is_patch: bool) -> Arc<OtherNames> {
        if is_patch { self.others_of_patch.clone() } else { self.others.clone() }
    }
}

/// A schema without references. (One that contains itself would keep some: there is none.)
fn inlined(schema: SchemaOf) -> Schema {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    schema(&mut settings.into_generator())
}

fn names(schema: &Schema) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// Adds the paths of all fields in a schema, those inside objects and the items of lists included.
fn field_paths(prefix: &str, schema: &Value, found: &mut HashSet<String>) {
    // An optional one is a choice between the type and null.
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        field_paths(prefix, choice, found);
    }
    if schema["items"].is_object() {
        field_paths(prefix, &schema["items"], found);
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        field_paths(&path, inner, found);
        found.insert(path);
    }
}

/// The fields that are objects with named members, by those members that no other name equals.
fn objects(input: &Schema, others: &[String]) -> ObjectParameters {
    let properties = input.get("properties").and_then(Value::as_object);
    let mut members: Vec<(String, String)> = Vec::new();
    for (name, schema) in properties.into_iter().flatten() {
        // An optional one is a choice between the object and null.
        let choices =
            schema["anyOf"].as_array().map_or(std::slice::from_ref(schema), Vec::as_slice);
        let inner = choices.iter().filter_map(|choice| choice["properties"].as_object());
        members.extend(inner.flatten().map(|(member, _)| (member.clone(), name.clone())));
    }
    let is_single = |member: &String| {
        members.iter().filter(|(other, _)| other == member).count() == 1 && !others.contains(member)
    };
    let single = members.iter().filter(|(member, _)| is_single(member)).cloned().collect();
    ObjectParameters { members: single }
}
