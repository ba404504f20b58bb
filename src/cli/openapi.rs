//! `roadstead openapi`

use clap::Args;

use super::common::Common;
use super::failure::Failure;
use super::output;
use crate::resources;

/// Print the OpenAPI 3.1 document
#[derive(Args)]
pub struct OpenApi {
    #[command(flatten)]
    common: Common,
}

impl OpenApi {
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = resources::document(env!("CARGO_PKG_VERSION"));
        let pretty = format!("{document:#}");
        output::print(self.common.json, &document, &pretty)
    }
}
