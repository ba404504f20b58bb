//! `roadstead routes`

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::output;
use crate::api::openapi;
use crate::resources;

/// Print every route: method, path, who may call it, the scope of keys, what it does
#[derive(Args)]
#[command(after_help = openapi::LEGEND)]
pub struct Routes {
    #[command(flatten)]
    common: Common,
}

impl Routes {
    pub(super) fn run(self) -> Result<(), Failure> {
        let routes = resources::routes();
        let rows: Vec<_> = routes
            .iter()
            .map(|route| {
                json!({
                    "method": route.method.as_str(),
                    "path": format!("/api{}", route.path),
                    "who": openapi::who(route.policy),
                    "scopes": openapi::scopes(route),
                    "name": route.name,
                    "about": route.about,
                })
            })
            .collect();
        let table = openapi::routes_table(&routes);
        output::print(self.common.json, &json!({"routes": rows}), &table)
    }
}
