//! The OpenAPI document.
use crate::api::Route;
pub fn document(_: &[Route], _: &str) -> serde_json::Value {
    serde_json::json!({})
}
pub fn routes_table(_: &[Route]) -> String {
    String::new()
}
pub fn who(_: crate::auth::Rule) -> &'static str {
    ""
}
