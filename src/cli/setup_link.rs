//! `roadstead setup-link`

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::output;

/// Print the setup link of a running server that is not set up yet
#[derive(Args)]
pub struct SetupLink {
    #[command(flatten)]
    common: Common,
}

impl SetupLink {
    pub(super) fn run(self) -> Result<(), Failure> {
        let link = self.common.data_dir().setup_link().ok_or_else(|| {
            Failure::Failed(format!(
                "there is no setup link in {}: the server is not running, or is set up \
                 already",
                self.common.data
            ))
        })?;
        output::print(self.common.json, &json!({"setupLink": link}), &link)
    }
}
