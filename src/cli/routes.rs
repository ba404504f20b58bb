//! `roadstead routes`

use clap::Args;
use serde_json::json;

use super::{Common, Failure, output};
use crate::api::openapi;
use crate::resources;

/// Print every route: method, path, who may call it, what it does
#[derive(Args)]
#[command(after_help = "WHO: any = no credential needed; s = a session; m = a member, by key or \
                        session; a = an organization admin, by key or session; sm, sa = member, \
                        admin, by session alone.")]
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
                    "who": openapi::who(route.rule),
                    "name": route.name,
                    "about": route.about,
                })
            })
            .collect();
        let table = openapi::routes_table(&routes);
        output::print(self.common.json, &json!({"routes": rows}), &table)
    }
}
