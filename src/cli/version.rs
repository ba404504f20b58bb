//! `roadstead version`

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::output;

/// Print the version
#[derive(Args)]
pub struct Version {
    #[command(flatten)]
    common: Common,
}

impl Version {
    pub(super) fn run(self) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        output::print(
            self.common.json,
            &json!({"name": "roadstead", "version": version}),
            format!("roadstead {version}"),
        )
    }
}
