//! The OpenAPI document of the whole product: as it was kept, sound, and with usable schemas.
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

mod golden;

use roadstead::api::openapi;
use roadstead::resources;
use serde_json::{Value, json};

fn document() -> Value {
    openapi::document(&resources::routes(), "0.0.0")
}

#[test]
fn the_document_is_the_one_that_was_reviewed() {
    golden::assert_kept("tests/golden/openapi.json", &format!("{:#}\n", document()));
}

#[test]
fn the_table_of_routes_in_the_readme_is_that_of_the_server() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let (before, rest) = readme.split_once("<!-- routes -->").unwrap();
    let (_, after) = rest.split_once("<!-- end of routes -->").unwrap();
    let table = openapi::routes_markdown(&resources::routes());
    golden::assert_kept(
        "README.md",
        &format!("{before}<!-- routes -->\n{table}\n<!-- end of routes -->{after}"),
    );
}

#[test]
fn routes_make_a_document_without_problems() {
    assert_eq!(openapi::problems(&resources::routes()), Vec::<String>::new());
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
