//! `roadstead setup-link`

use clap::Args;
use serde_json::json;

use super::{Common, Failure, output};

/// Print the link by which the first person sets up a server that is running
#[derive(Args)]
pub struct SetupLink {
    #[command(flatten)]
    common: Common,
}

impl SetupLink {
    pub(super) fn run(self) -> Result<(), Failure> {
        let link = self.common.data_dir().setup_link().ok_or_else(|| {
            Failure::Failed(format!(
                "there is no setup link in {}: the server is not running, or somebody has set it \
                 up already",
                self.common.data
            ))
        })?;
        output::print(self.common.json, &json!({"setupLink": link}), &link)
    }
}
