//! The schemas of the document: one namespace for inputs and outputs.
//!
//! A type used in both directions has one schema if they agree. If they differ in the required
//! fields (an optional field is always present in a response), the schema of the input is named
//! `…Input`; that of a type `New…` is named `Create…` ([`names`]). Two different types of one name
//! are reported as a problem.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::bodies::{add_org_to_example, close, name_body};
use super::names::SCHEMAS;
use super::portable::{each_object, make_portable, spell_out_enumerations};
use super::{descriptions, names};
use crate::api::op::SchemaOf;

/// The prefix of references to inputs until their names are determined.
const INPUTS: &str = "#/components/inputs/";

/// The prefix of references to bodies, likewise.
const BODIES: &str = "#/components/bodies/";

/// The schemas collected so far.
pub struct Schemas {
    inputs: SchemaGenerator,
    outputs: SchemaGenerator,
    /// Schemas of no type: pages, messages of webhooks.
    composed: Map<String, Value>,
    /// The inputs that are bodies, with the schema of `orgSlug` that is a field of each.
    bodies: Map<String, Value>,
    problems: Vec<String>,
}

/// A body: its schema, and an example.
pub struct BodySchema {
    pub schema: Value,
    pub example: Value,
    /// Whether it cannot be empty.
    pub is_required: bool,
}

impl Schemas {
    /// Creates an empty collection.
    pub fn new() -> Self {
        let generator = |settings: SchemaSettings, path: &'static str| {
            settings.with(|settings| settings.definitions_path = path.into()).into_generator()
        };
        let settings = SchemaSettings::draft2020_12();
        Schemas {
            inputs: generator(settings.clone().for_deserialize(), INPUTS),
            outputs: generator(settings.for_serialize(), SCHEMAS),
            composed: Map::new(),
            bodies: Map::new(),
            problems: Vec::new(),
        }
    }

    /// Returns the schema of a body; `None` for `()`, which takes nothing.
    pub fn input(&mut self, schema: SchemaOf) -> Option<Value> {
        let schema = schema(&mut self.inputs).to_value();
        (schema["type"] != "null").then_some(schema)
    }

    /// Returns the schema of a response. An `Option` is nullable but always present.
    pub fn output(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.outputs).to_value()
    }

    /// Returns the schema of a page (reference: conventions, "Lists"), which may say that it was cut.
    pub fn page(&mut self, item: SchemaOf, says_more: bool) -> Value {
        let item = self.output(item);
        let mut page = json!({
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": item},
                "nextCursor": {
                    "type": ["string", "null"],
                    "description": "The cursor of the next page; null exactly on the last page."
                },
                "total": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "How many items the list has, where it takes `total` and was asked with \
                                    it."
                },
                "totalExact": {
                    "type": "boolean",
                    "description": "False: the list has `total` items at least, and was counted no \
                                    further."
                }
            },
            "required": ["items", "nextCursor"]
        });
        if says_more {
            page["properties"]["more"] = json!({
                "type": "boolean",
                "description": "Whether the list has more than this page and those before.",
            });
            page["required"] = json!(["items", "nextCursor", "more"]);
        }
        let Some(name) = item["$ref"].as_str().and_then(|at| at.strip_prefix(SCHEMAS)) else {
            return page;
        };
        let name = format!("PageOf{name}");
        let reference = json!({"$ref": format!("{SCHEMAS}{name}")});
        self.composed.insert(name, page);
        reference
    }

    /// Adds a schema that no type has; returns a reference to it.
    pub fn compose(&mut self, name: String, schema: Value) -> Value {
        let reference = json!({"$ref": format!("{SCHEMAS}{name}")});
        if self.composed.insert(name.clone(), schema.clone()).is_some_and(|old| old != schema) {
            self.problems.push(format!("two schemas are called {name}"));
        }
        reference
    }

    /// Returns the schema of a body with the fields of `input` and those of `org`, the input of its
    /// organization: one schema with one name, so that a client has one type for the whole body.
    pub fn body(&mut self, input: SchemaOf, org: Option<SchemaOf>) -> BodySchema {
        let org = org.and_then(|org| self.input(org));
        let Some(schema) = self.input(input) else { return self.body_of_nothing(org) };
        let definition = self.look_up(&schema).clone();
        let mut example = definition["examples"][0].clone();
        let mut required = definition["required"].as_array().is_some_and(|all| !all.is_empty());
        if let (Some(fields), Some(org)) = (example.as_object_mut(), &org) {
            required |= add_org_to_example(fields, org);
        }
        let Some(name) = schema["$ref"].as_str().and_then(|at| at.strip_prefix(INPUTS)) else {
            self.problems.push(format!("a body has no name: {schema}"));
            return BodySchema { schema, example, is_required: required };
        };
        if example.is_null() {
            self.problems.push(format!("{name} is a body without an example"));
        }
        let org = org.unwrap_or_default();
        if self.bodies.insert(name.into(), org.clone()).is_some_and(|other| other != org) {
            self.problems.push(format!("{name} is a body with different kinds of orgSlug"));
        }
        let schema = json!({"$ref": format!("{BODIES}{name}")});
        BodySchema { schema, example, is_required: required }
    }

    /// A body with nothing but an organization.
    fn body_of_nothing(&mut self, org: Option<Value>) -> BodySchema {
        let mut example = Map::new();
        let Some(mut org) = org else {
            let schema = json!({"type": "object", "additionalProperties": false});
            return BodySchema { schema, example: json!({}), is_required: false };
        };
        let is_required = add_org_to_example(&mut example, &org);
        let name = if is_required { "OrganizationRequest" } else { "OptionalOrganizationRequest" };
        org["additionalProperties"] = json!(false);
        let schema = self.compose(name.into(), org);
        BodySchema { schema, example: Value::Object(example), is_required }
    }

    /// Returns the query parameters for the fields of an input. Lists repeat the name, objects are
    /// encoded as `name[field]=…`.
    pub fn query(&mut self, schema: SchemaOf) -> Vec<Value> {
        let Some(schema) = self.input(schema) else { return vec![] };
        let schema = self.look_up(&schema).clone();
        if !schema["properties"].is_object() {
            self.problems.push(format!("a query is not an object with named fields: {schema}"));
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let fields = schema["properties"].as_object().cloned().unwrap_or_default();
        let parameters = fields.into_iter().map(|(name, schema)| {
            let mut schema = without_null(schema);
            let fields = schema.as_object_mut();
            let description = fields.and_then(|fields| fields.shift_remove("description"));
            let required = required.contains(&json!(name));
            let mut parameter = json!({"name": name, "in": "query", "required": required});
            if let Some(description) =
                description.or_else(|| descriptions::common(&name).map(Value::from))
            {
                parameter["description"] = description;
            }
            let style = match self.look_up(&schema)["type"].as_str() {
                Some("object") => {
                    // A copy, because in a body the fields of the same type may be null.
                    schema = self.look_up(&schema).clone();
                    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
                    for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
                        *field = without_null(field.take());
                    }
                    Some("deepObject")
                }
                Some("array") => Some("form"),
                _ => None,
            };
            if let Some(style) = style {
                parameter["style"] = json!(style);
                parameter["explode"] = json!(true);
            }
            parameter["schema"] = schema;
            parameter
        });
        parameters.collect()
    }

    /// Follows an input's reference.
    fn look_up<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|at| at.strip_prefix(INPUTS));
        name.and_then(|name| self.inputs.definitions().get(name)).unwrap_or(schema)
    }

    /// Determines the names: replaces the references in `places` by the final ones, and returns the
    /// schemas they need, by name, and a sentence for each name that two types share.
    pub fn finish(mut self, places: &mut [&mut Value]) -> (Map<String, Value>, Vec<String>) {
        let mut problems = self.problems;
        let mut inputs = self.inputs.take_definitions(true);
        let body_names: BTreeMap<String, String> = self
            .bodies
            .iter()
            .map(|(name, org)| {
                (name.clone(), name_body(&mut inputs, name, &format!("{INPUTS}{name}"), org))
            })
            .collect();
        let mut outputs = self.outputs.take_definitions(true);
        for definitions in [&inputs, &outputs] {
            problems.extend(numbered(definitions));
        }
        for (name, schema) in self.composed {
            if outputs.insert(name.clone(), schema).is_some() {
                problems.push(format!("a type is called {name}, as is a page of a list"));
            }
        }

        let in_two_forms = in_two_forms(&inputs, &outputs);
        let input_name = |name: &str| names::of_input(name, in_two_forms.contains(name));
        let in_both: BTreeSet<String> =
            inputs.keys().filter(|name| outputs.contains_key(*name)).cloned().collect();
        let mut all = outputs;
        for (name, mut schema) in inputs {
            if in_two_forms.contains(&name) && !same_type(&schema, &all[&name]) {
                problems.push(format!("two types are called {name}, one sent and one received"));
            }
            if in_two_forms.contains(&name) || !in_both.contains(&name) {
                close(&mut schema);
            }
            let own = input_name(&name);
            let is_one_type = own == name && in_both.contains(&name);
            if all.insert(own.clone(), schema).is_some() && !is_one_type {
                problems.push(format!("a type is called {own}"));
            }
        }

        let settle = |object: &mut Map<String, Value>| {
            if let Some(Value::String(at)) = object.get_mut("$ref") {
                let body = at.strip_prefix(BODIES).and_then(|name| body_names.get(name));
                if let Some(name) = body.map(String::as_str).or(at.strip_prefix(INPUTS)) {
                    *at = format!("{SCHEMAS}{}", input_name(name));
                }
            }
            make_portable(object);
        };
        all.values_mut().for_each(|schema| each_object(schema, &settle));
        for place in places.iter_mut() {
            each_object(place, &settle);
        }
        spell_out_enumerations(&mut all);

        let needed = needed(&all, places);
        all.retain(|name, _| needed.contains(name));
        all.sort_keys();
        descriptions::complete(&mut all);
        problems.extend(names::problems(all.keys()));
        (all, problems)
    }
}

/// Finds types of one name: the generator appends a number to the second one.
fn numbered(definitions: &Map<String, Value>) -> impl Iterator<Item = String> {
    let names = definitions.keys().filter_map(|name| {
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (plain != name && definitions.contains_key(plain)).then_some(plain)
    });
    names.map(|name| format!("two types are called {name}"))
}

/// Returns the names whose schemas, or schemas they refer to, differ between the directions.
fn in_two_forms(inputs: &Map<String, Value>, outputs: &Map<String, Value>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    loop {
        let differs = |(name, input): &(&String, &Value)| {
            let Some(output) = outputs.get(*name) else { return false };
            !found.contains(*name)
                && (as_output(input) != *output
                    || references(output).iter().any(|name| found.contains(name)))
        };
        let more: Vec<String> =
            inputs.iter().filter(differs).map(|(name, _)| name.clone()).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Whether the schemas of an input and an output can be of one type.
fn same_type(input: &Value, output: &Value) -> bool {
    let without_required = |mut schema: Value| {
        each_object(&mut schema, &|object| {
            object.shift_remove("required");
        });
        schema
    };
    without_required(as_output(input)) == without_required(output.clone())
}

/// An input's schema with references to outputs.
fn as_output(input: &Value) -> Value {
    let mut schema = input.clone();
    each_object(&mut schema, &|object| {
        if let Some(Value::String(at)) = object.get_mut("$ref") {
            *at = at.replace(INPUTS, SCHEMAS);
        }
    });
    schema
}

/// Returns the names of the schemas to which `places` refer, directly or indirectly.
fn needed(all: &Map<String, Value>, places: &[&mut Value]) -> BTreeSet<String> {
    let mut needed = BTreeSet::new();
    let mut open: Vec<String> = places.iter().flat_map(|place| references(place)).collect();
    while let Some(name) = open.pop() {
        if let (Some(schema), true) = (all.get(&name), needed.insert(name)) {
            open.extend(references(schema));
        }
    }
    needed
}

/// Returns the names of the schemas to which `value` refers.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Object(object) => {
            let own = object.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|at| at.strip_prefix(SCHEMAS)).map(String::from);
            own.into_iter().chain(object.values().flat_map(references)).collect()
        }
        _ => vec![],
    }
}

/// Removes null from the types of a schema, since a query cannot express it.
fn without_null(mut schema: Value) -> Value {
    let null = json!({"type": "null"});
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| *choice != null);
        if let [one] = choices.as_slice() {
            let mut one = one.clone();
            if let Some(about) = schema.get("description") {
                one["description"] = about.clone();
            }
            return one;
        }
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            schema["type"] = one.clone();
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    schema
}
