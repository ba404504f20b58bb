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
        let dir = self.common.data_dir();
        dir.require_visible()?;
        let link = dir.setup_link().ok_or_else(|| {
            let at = dir.absolute();
            let why = if dir.exists() {
                "the server is not running, or is set up already"
            } else {
                "it is not a data directory; name the server's with --data"
            };
            Failure::Failed(format!("there is no setup link in {}: {why}", at.display()))
        })?;
        output::print(self.common.json, &json!({"setupLink": link}), &link)
    }
}
