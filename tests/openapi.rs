//! The OpenAPI document of the whole product: as it was kept, sound, with usable schemas, described
//! and with examples that the server accepts.
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

mod golden;
#[path = "openapi/rules.rs"]
mod rules;

use std::collections::BTreeSet;
use std::sync::Arc;

use roadstead::api::{BoundRequest, RawArgs, Route, ServerInfo, openapi};
use roadstead::auth::ScopeName;
use roadstead::base::{Error, Keys};
use roadstead::resources;
use serde_json::{Value, json};

fn document() -> Value {
    resources::document("0.0.0")
}

/// Follows a reference; returns any other value itself.
fn follow<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(at) => document.pointer(at.trim_start_matches('#')).expect("it leads somewhere"),
        None => value,
    }
}

/// Every operation, with its id.
fn operations(document: &Value) -> Vec<(&str, &Value)> {
    let paths = document["paths"].as_object().unwrap().values();
    let all = paths.flat_map(|item| item.as_object().unwrap().values());
    all.map(|operation| (operation["operationId"].as_str().unwrap(), operation)).collect()
}

fn json_body(operation: &Value) -> &Value {
    &operation["requestBody"]["content"]["application/json"]
}

#[test]
fn the_document_is_the_one_that_was_reviewed() {
    golden::assert_kept("tests/golden/openapi.json", &format!("{:#}\n", document()));
}

#[test]
fn the_table_of_routes_in_the_reference_is_that_of_the_server() {
    const PAGE: &str = "docs/reference/routes.md";
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("<!-- routes -->").unwrap();
    let (_, after) = rest.split_once("<!-- end of routes -->").unwrap();
    let table = openapi::routes_markdown(&resources::routes());
    golden::assert_kept(
        PAGE,
        &format!("{before}<!-- routes -->\n{table}\n<!-- end of routes -->{after}"),
    );
}

#[test]
fn the_table_of_scopes_in_the_reference_is_that_of_the_server() {
    const PAGE: &str = "docs/reference/identity-and-rights.md";
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("<!-- scopes -->").unwrap();
    let (_, after) = rest.split_once("<!-- end of scopes -->").unwrap();
    let metrics = [(ScopeName::MetricsRead, "GET `/metrics`, outside of `/api`")];
    let table = openapi::scopes_markdown(&resources::routes(), &metrics);
    golden::assert_kept(
        PAGE,
        &format!("{before}<!-- scopes -->\n{table}<!-- end of scopes -->{after}"),
    );
}

#[test]
fn routes_make_a_document_without_problems() {
    assert_eq!(resources::document_problems(), Vec::<String>::new());
}

#[test]
fn every_schema_can_be_used_to_validate() {
    let document = document();
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        let schema = json!({
            "$ref": format!("#/components/schemas/{name}"),
            "components": document["components"]
        });
        if let Err(error) = jsonschema::draft202012::new(&schema) {
            panic!("{name}: {error}");
        }
    }
}

/// Whether a schema says what it is: itself, or the type that it refers to.
fn is_described(document: &Value, schema: &Value) -> bool {
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    let mut places = std::iter::once(schema).chain(choices);
    places.any(|place| {
        [place, follow(document, place)].iter().any(|place| place["description"].is_string())
    })
}

#[test]
fn every_property_and_parameter_is_described() {
    let document = document();
    let mut bare = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (property, schema) in schema["properties"].as_object().into_iter().flatten() {
            if !is_described(&document, schema) {
                bare.push(format!("{name}.{property}"));
            }
        }
    }
    for (id, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = follow(&document, parameter);
            if !parameter["description"].is_string() {
                bare.push(format!("{id}: {}", parameter["name"]));
            }
        }
    }
    assert_eq!(bare, Vec::<String>::new());
}

/// Binds a body as a server does.
fn bind(route: &Route, body: &Value) -> Result<BoundRequest, Error> {
    let params: Arc<[String]> = vec!["A".to_string(); (route.operation.params)().len()].into();
    let (origin, server) = (Arc::default(), Arc::new(ServerInfo::bare(Keys::new([7; 32]))));
    let raw = RawArgs::body(&params, body, (&origin, &server));
    route.bind(RawArgs { org: route.org_source.org_slug(), ..raw })
}

#[test]
fn every_write_has_an_example_that_fits_its_schema_and_that_its_route_accepts() {
    let document = document();
    for route in resources::routes() {
        if !route.method.has_body() || route.operation.upload.is_some() {
            continue;
        }
        let path = route.path.replace("{*", "{");
        let method = route.method.as_str().to_ascii_lowercase();
        let body = json_body(&document["paths"][path][method]);
        let example = &body["example"];
        assert!(example.is_object(), "{}: no example", route.name);
        let schema = json!({"allOf": [body["schema"]], "components": document["components"]});
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let problems: Vec<_> = validator.iter_errors(example).map(|e| e.to_string()).collect();
        assert!(problems.is_empty(), "{}: {problems:?}: {example}", route.name);
        if let Err(error) = bind(&route, example) {
            panic!("{}: {error}: {:?}: {example}", route.name, error.issues());
        }
    }
}

#[test]
fn every_upload_has_an_example_in_a_media_type_that_is_text() {
    let document = document();
    let mut uploads = 0;
    for (id, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"];
        if content.is_object() && json_body(operation).is_null() {
            let example = content["text/plain"]["example"].as_str();
            assert!(example.is_some_and(|text| !text.is_empty()), "{id}");
            uploads += 1;
        }
    }
    assert_eq!(uploads, 2);
}

#[test]
fn every_body_is_one_named_schema() {
    let document = document();
    let nothing = json!({"type": "object", "additionalProperties": false});
    for (id, operation) in operations(&document) {
        let schema = &json_body(operation)["schema"];
        assert!(
            schema.is_null() || schema["$ref"].is_string() || *schema == nothing,
            "{id}: {schema}"
        );
    }
}

/// Names that say nothing in the namespace of a client.
const BARE: [&str; 24] = [
    "Accept", "Access", "Ack", "Answer", "Claim", "Clone", "Compile", "Content", "Data", "Deleted",
    "Delivery", "Diff", "Empty", "Grant", "Import", "Item", "Member", "Object", "Removed",
    "Result", "Role", "Status", "Value", "YesOrNo",
];

/// Whether a schema has alternatives one of which is an object or an enumeration without a name.
/// Null is an alternative too.
fn has_nameless_alternative(schema: &Value) -> bool {
    let is_type = |schema: &Value| schema["type"] == "object" || schema["enum"].is_array();
    let choices = ["anyOf", "oneOf"].map(|choice| schema[choice].as_array());
    let types = schema["type"].as_array();
    choices.into_iter().flatten().flatten().any(is_type)
        || types.is_some_and(|types| types.contains(&json!("object")) || schema["enum"].is_array())
}

#[test]
fn every_schema_has_a_name_that_stands_alone() {
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let names: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
    let bare: Vec<_> = BARE.iter().filter(|name| names.contains(*name)).collect();
    assert!(bare.is_empty(), "{bare:?}");
    // A generator would have to make up names for alternatives that have none: `…Type0`.
    let mut nameless = Vec::new();
    for (name, schema) in schemas {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let properties =
            properties.map(|(property, schema)| (format!("{name}.{property}"), schema));
        for (place, schema) in properties.chain([(name.clone(), schema)]) {
            if has_nameless_alternative(schema) {
                nameless.push(place);
            }
        }
    }
    assert_eq!(nameless, Vec::<String>::new());
}

/// What generators append to the id of an operation, for the types that belong to it alone.
const OF_OPERATIONS: [&str; 8] =
    ["Request", "Response", "Responses", "Params", "Data", "Error", "Errors", "Body"];

#[test]
fn no_schema_has_a_name_that_a_client_gives_to_something_else() {
    let document = document();
    let mut taken = BTreeSet::new();
    for (id, _) in operations(&document) {
        taken.extend(OF_OPERATIONS.map(|end| format!("{id}{end}").to_lowercase()));
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        // Go calls the function that makes an `X` `NewX`.
        let noun = name.strip_prefix("New");
        assert!(!noun.is_some_and(|noun| noun.starts_with(char::is_uppercase)), "{name}");
        // Names become files, and not all systems tell the case of letters apart.
        assert!(taken.insert(name.to_lowercase()), "{name} is taken");
    }
}

#[test]
fn webhooks_have_a_tag_of_their_own_and_can_be_left_out() {
    let document = document();
    for (id, operation) in operations(&document) {
        assert_ne!(operation["tags"], json!(["webhooks"]), "{id}");
    }
    for (name, webhook) in document["webhooks"].as_object().unwrap() {
        assert_eq!(webhook["post"]["tags"], json!(["webhooks"]), "{name}");
    }
    let routes = resources::document_without_webhooks("0.0.0");
    assert_eq!(routes["paths"], document["paths"]);
    assert!(routes.get("webhooks").is_none());
    for kind in ["schemas", "parameters"] {
        let names = routes["components"][kind].as_object().unwrap().keys();
        let posted: Vec<_> = names.filter(|name| name.contains("Webhook")).collect();
        assert_eq!(posted, Vec::<&String>::new());
    }
    let tags: Vec<&Value> =
        routes["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    assert!(!tags.contains(&&json!("webhooks")), "{tags:?}");
}

/// Every object in a document, with its place.
fn each_object<'a>(at: String, value: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(nth, item)| each_object(format!("{at}/{nth}"), item, found));
        }
        Value::Object(object) => {
            found.push((at.clone(), value));
            object.iter().for_each(|(key, item)| each_object(format!("{at}/{key}"), item, found));
        }
        _ => {}
    }
}

#[test]
fn no_schema_says_what_generators_cannot_write() {
    let document = document();
    let mut objects = Vec::new();
    each_object(String::new(), &document["components"]["schemas"], &mut objects);
    for (at, schema) in objects {
        // A list of distinct items becomes a set, which is no JSON in TypeScript.
        assert!(schema.get("uniqueItems").is_none(), "{at}");
        let choices = ["oneOf", "anyOf"].map(|word| schema[word].as_array());
        let choices: Vec<_> = choices.into_iter().flatten().flatten().collect();
        let has_list = choices.iter().any(|choice| choice["type"] == "array");
        for choice in choices {
            // Beside a list an enumeration is a type that it cannot be told apart from.
            assert!(!has_list || follow(&document, choice)["enum"].is_null(), "{at}");
        }
    }
}

#[test]
fn every_list_that_is_sent_has_a_bound() {
    let document = document();
    let mut open = vec![];
    let mut seen = BTreeSet::new();
    for (_, operation) in operations(&document) {
        open.extend(json_body(operation)["schema"]["$ref"].as_str());
    }
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        let schema = document.pointer(at.trim_start_matches('#')).unwrap();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_list = property["type"] == "array" || property["type"][0] == "array";
            assert!(!is_list || property["maxItems"].is_u64(), "{at}: {name}");
            let choices = property["anyOf"].as_array().into_iter().flatten();
            let inner = choices.chain([property, &property["items"]]);
            open.extend(inner.filter_map(|inner| inner["$ref"].as_str()));
        }
    }
    assert!(seen.len() > 40);
}

#[test]
fn groups_the_license_and_streams_are_described() {
    let document = document();
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
    let tags = document["tags"].as_array().unwrap();
    for tag in tags {
        assert!(tag["description"].is_string(), "{tag}: say what it is in `GROUPS`");
    }
    for (name, webhook) in document["webhooks"].as_object().unwrap() {
        let group = &webhook["post"]["tags"][0];
        assert!(tags.iter().any(|tag| tag["name"] == *group), "{name}");
    }
    for (id, operation) in operations(&document) {
        let stream = &operation["responses"]["200"]["content"]["text/event-stream"];
        if !stream.is_null() {
            let events = stream["schema"]["x-events"].as_object().unwrap();
            let is_described =
                |event: &Value| event["$ref"].is_string() || event["properties"].is_object();
            assert!(events.values().all(is_described), "{id}");
            assert!(stream["schema"]["description"].is_string(), "{id}");
        }
    }
}
