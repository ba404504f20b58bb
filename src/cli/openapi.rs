//! `roadstead openapi`

use clap::Args;

use super::common::Common;
use super::failure::Failure;
use super::output;
use crate::resources;

/// Print the OpenAPI 3.1 document
#[derive(Args)]
pub struct OpenApi {
    /// Leave out what the server posts: some generators of clients take it for routes
    #[arg(long)]
    without_webhooks: bool,
    #[command(flatten)]
    common: Common,
}

impl OpenApi {
    pub(super) fn run(self) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        let document = if self.without_webhooks {
            resources::document_without_webhooks(version)
        } else {
            resources::document(version)
        };
        let pretty = format!("{document:#}");
        output::print(self.common.json, &document, &pretty)
    }
}
