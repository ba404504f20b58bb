//! `roadstead check`

use std::process::Stdio;

use clap::Args;
use serde_json::json;

use super::common::restarted;
use super::failure::Failure;
use super::installation::Installation;
use super::output;
use crate::app::check_store;
use crate::store::check::Findings;
use crate::store::engine::integrity;

/// Verify every record, index entry and audit log; no server may have the directory open
#[derive(Args)]
#[command(
    after_help = "With --store the store in PostgreSQL is read, while servers run or not.\n\n\
                        Exit codes: 0 sound, 1 not sound, 2 cannot be opened."
)]
pub struct Check {
    /// Verify only the pages of the database file; used by the command for its child process
    #[arg(long, hide = true)]
    file_only: bool,

    #[command(flatten)]
    installation: Installation,
}

impl Check {
    /// Whether it was started by another one.
    pub(super) fn is_child(&self) -> bool {
        self.file_only
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let dir = self.installation.data_dir();
        if self.file_only {
            let intact = integrity(&dir.database());
            if intact.map_err(|error| Failure::Usage(error.to_string()))? {
                return Ok(());
            }
            return Err(Failure::Failed("the file is damaged".into()));
        }
        let mut findings = Findings::default();
        if let Some(store) = self.installation.shared_to_read()? {
            check_store(&store, &output::progress, &mut findings)?;
            return self.report(&findings, "the store", None);
        }
        dir.require_exists()?;
        if !file_is_intact(&self.installation.common.data)? {
            findings.report(format!(
                "{}: the file is damaged; make a copy of it before anything else, then restore a \
                 backup",
                dir.database().display()
            ));
        }
        match dir.open_to_check() {
            Ok(store) => check_store(&store, &output::progress, &mut findings)?,
            // In a damaged file the error is a finding; else it is why the command failed.
            Err(error) if findings.wrong == 0 => return Err(error.into()),
            Err(error) => findings.report(error.0),
        }
        // Says what it would do, and changes nothing.
        let next = format!("roadstead repair --data {}", dir.absolute().display());
        self.report(&findings, "the data directory", Some(next))
    }

    fn report(&self, findings: &Findings, what: &str, next: Option<String>) -> Result<(), Failure> {
        let sound = findings.wrong == 0;
        let value = json!({
            "sound": sound,
            "records": findings.records,
            "indexEntries": findings.entries,
            "wrong": findings.wrong,
            "findings": findings.messages,
            "unbuiltIndexes": findings.unbuilt,
            "next": next.as_ref().filter(|_| !sound),
        });
        let mut text = findings.messages.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        for index in &findings.unbuilt {
            text.push_str(&format!(
                "the index {index} is not built: start the server to build it\n"
            ));
        }
        text.push_str(&format!(
            "{}: {} records and {} index entries read, {} wrong",
            if sound { "sound" } else { "not sound" },
            findings.records,
            findings.entries,
            findings.wrong
        ));
        if let Some(next) = next.filter(|_| !sound) {
            text.push_str(&format!("\nNext: {next}\n"));
        }
        output::print(self.installation.json(), &value, &text)?;
        if sound { Ok(()) } else { Err(Failure::Failed(format!("{what} is not sound"))) }
    }
}

/// Verifies the pages of the file in a child process: a damaged file can make the database library
/// panic, exhaust memory or never return.
pub(super) fn file_is_intact(data: &str) -> Result<bool, Failure> {
    let output = restarted()?
        .args(["check", "--file-only", "--data", data])
        // Not the null device, which an empty root directory does not have.
        .stdin(Stdio::inherit())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| Failure::Failed(format!("this program cannot start itself: {error}")))?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(2) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
            Err(Failure::Usage(why.trim_start_matches("roadstead: ").to_string()))
        }
        _ => Ok(false),
    }
}
