//! `roadstead man`

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use serde_json::json;

use super::failure::Failure;
use super::output;

/// Write the manual pages, one for each command
#[derive(Args)]
#[command(after_help = "Example: roadstead man /usr/share/man/man1")]
pub struct Manual {
    /// Directory for the pages; it is created
    dir: PathBuf,

    /// Print one JSON object to stdout instead of text
    #[arg(long, env = "ROADSTEAD_JSON")]
    json: bool,

    /// The data directory, which this command does not use
    #[arg(long, hide = true, env = "ROADSTEAD_DATA")]
    data: Option<String>,
}

impl Manual {
    pub(super) fn run(self, command_line: fn() -> Command) -> Result<(), Failure> {
        let dir = self.dir.display().to_string();
        fs::create_dir_all(&self.dir).map_err(Failure::io(&dir))?;
        clap_mangen::generate_to(command_line(), &self.dir).map_err(Failure::io(&dir))?;
        let text = format!("the manual pages are in {dir}");
        output::print(self.json, &json!({"directory": dir}), &text)
    }
}
