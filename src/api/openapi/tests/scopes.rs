//! The scopes of keys in the document.

use super::super::scopes_markdown;
use super::*;

#[test]
fn the_scopes_of_a_route_are_in_the_document_and_in_the_table_of_scopes() {
    let document = made();
    let boat = operation(&document, "boatGet");
    assert_eq!(boat["x-required-scopes"], json!(["tool:read", "environment:read"]));
    let described = boat["description"].as_str().unwrap();
    assert!(described.ends_with("A key needs the scope `tool:read` and `environment:read`."));
    assert!(operation(&document, "boatList")["x-required-scopes"].is_null());
    let table = scopes_markdown(&routes(), &[(ScopeName::MetricsRead, "the metrics")]);
    for row in [
        "| `tool:read` |  | yes | GET `/fleets/{fleetId}/boats/{boatId}` |\n",
        // The scope for one environment does not suffice.
        "| `environment:read` | *environment* | yes | GET `/fleets/{fleetId}/boats/{boatId}`\\* |\n",
        "| `metrics:read` |  | yes | the metrics |\n",
        "| `label:move` | *registry#label* |  |  |\n",
    ] {
        assert!(table.contains(row), "{row}{table}");
    }
}
