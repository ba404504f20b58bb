//! `roadstead check`

use clap::Args;
use serde_json::json;

use super::{Common, Failure, output};
use crate::resources;

/// Read every record and index entry and say what is wrong; the server must not be running
#[derive(Args)]
#[command(after_help = "Exit code 0: sound. 1: not sound. 2: cannot be opened.")]
pub struct Check {
    /// Only the database file's own integrity; what the command runs in a process of its own
    #[arg(long, hide = true)]
    file_only: bool,

    #[command(flatten)]
    common: Common,
}

impl Check {
    pub(super) fn run(self) -> Result<(), Failure> {
        super::log(&self.common);
        let dir = self.common.data_dir();
        let store = dir.open()?;
        let tables = resources::tables();
        let findings = store.check(&tables)?;
        let sound = findings.wrong == 0;
        let value = json!({
            "sound": sound,
            "records": findings.records,
            "indexEntries": findings.entries,
            "wrong": findings.wrong,
            "findings": findings.messages,
        });
        let mut text = findings.messages.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!(
            "{}: {} records and {} index entries read, {} wrong",
            if sound { "sound" } else { "not sound" },
            findings.records,
            findings.entries,
            findings.wrong
        ));
        output::print(self.common.json, &value, &text)?;
        match sound {
            true => Ok(()),
            false => Err(Failure::Failed("the data directory is not sound".into())),
        }
    }
}
