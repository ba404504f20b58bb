//! `roadstead doctor`

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::serve::Serve;
use super::{open_files, output};
#[cfg(feature = "postgres")]
use crate::app::doctor::examine_store;
use crate::app::doctor::{Finding, Level, examine};
use crate::app::{Setting, Startup};
use crate::base::visible;

/// Examine the data directory, the machine and the settings, and say what to do
#[derive(Args)]
#[command(
    after_help = "It looks at the running server, if there is one, with the settings it was \
                        started with; otherwise at the directory, with the settings that `serve` \
                        would have with the same flags and variables.\n\n\
                        Exit codes: 0 all is well, 1 warnings, 2 errors."
)]
pub struct Doctor {
    #[command(flatten)]
    serve: Serve,
}

impl Doctor {
    pub(super) fn run(self, settings: Vec<Setting>) -> Result<(), Failure> {
        let dir = self.serve.common.data_dir();
        let version = env!("CARGO_PKG_VERSION").into();
        let own = Startup { version, settings, open_files: open_files::limit() };
        #[cfg(feature = "postgres")]
        let findings = match &self.serve.store {
            Some(store) => examine_store(&super::store_check::url(store)?, &own),
            None => examine(&dir, own),
        };
        #[cfg(not(feature = "postgres"))]
        let findings = examine(&dir, own);
        let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        let (warnings, errors) = (count(Level::Warning), count(Level::Error));
        let value = json!({
            "level": worst, "warnings": warnings, "errors": errors, "findings": findings,
        });
        let text: String = findings.iter().map(line).collect();
        output::print(self.serve.common.json, &value, &text)?;
        let summary = format!("errors: {errors}, warnings: {warnings}");
        match worst {
            Level::Ok => Ok(()),
            Level::Warning => Err(Failure::Failed(summary)),
            Level::Error => Err(Failure::Usage(summary)),
        }
    }
}

/// Returns the lines of a finding. What it names, such as a directory, begins no line of its own.
fn line(finding: &Finding) -> String {
    let level = match finding.level {
        Level::Ok => "ok     ",
        Level::Warning => "WARNING",
        Level::Error => "ERROR  ",
    };
    let to_do = finding.to_do.as_deref().map(visible::line);
    let to_do = to_do.map(|to_do| format!("\n         → {to_do}")).unwrap_or_default();
    let Finding { check, message, .. } = finding;
    format!("{level}  {check}: {}{to_do}\n", visible::line(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_finding_names_begins_a_line_of_its_own() {
        let finding = Finding {
            check: "directory",
            level: Level::Error,
            message: "/x\n::error::INJ is no directory".into(),
            to_do: Some("remove a\r\n##[error]b".into()),
        };
        assert_eq!(
            line(&finding),
            "ERROR    directory: /x⟨U+000A⟩::error::INJ is no directory\n         \
             → remove a⟨U+000D⟩⟨U+000A⟩##[error]b\n"
        );
    }
}
