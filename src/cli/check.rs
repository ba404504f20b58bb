//! `roadstead check`

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use super::common::{Common, init_logging};
use super::failure::Failure;
use super::output;
#[cfg(feature = "postgres")]
use super::store_flag::StoreFlag;
use crate::api::audit::verify;
use crate::base::Id;
use crate::resources::{self, organizations};
use crate::store::check::Findings;
use crate::store::engine::integrity;
use crate::store::{self, Store};

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

    #[cfg(feature = "postgres")]
    #[command(flatten)]
    store: StoreFlag,

    #[command(flatten)]
    common: Common,
}

impl Check {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let dir = self.common.data_dir();
        if self.file_only {
            let intact = integrity(&dir.database());
            if intact.map_err(|error| Failure::Usage(error.to_string()))? {
                return Ok(());
            }
            return Err(Failure::Failed("the file is damaged".into()));
        }
        #[cfg(feature = "postgres")]
        if let Some(shared) = self.store.open_to_read(&self.common)? {
            let mut findings = Findings::default();
            read_all(&shared.store, &mut findings)?;
            return self.report(&findings, "the store");
        }
        let mut findings = Findings::default();
        dir.require_exists()?;
        if !file_is_intact(&self.common.data)? {
            findings.report(format!(
                "{}: the file is damaged; make a copy of it before anything else, then restore a \
                 backup",
                dir.database().display()
            ));
        }
        match dir.open_to_check() {
            Ok(store) => read_all(&store, &mut findings)?,
            // In a damaged file the error is a finding; else it is why the command failed.
            Err(error) if findings.wrong == 0 => return Err(error.into()),
            Err(error) => findings.report(error.0),
        }
        self.report(&findings, "the data directory")
    }

    fn report(&self, findings: &Findings, what: &str) -> Result<(), Failure> {
        let sound = findings.wrong == 0;
        let value = json!({
            "sound": sound,
            "records": findings.records,
            "indexEntries": findings.entries,
            "wrong": findings.wrong,
            "findings": findings.messages,
            "unbuiltIndexes": findings.unbuilt,
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
        output::print(self.common.json, &value, &text)?;
        if sound { Ok(()) } else { Err(Failure::Failed(format!("{what} is not sound"))) }
    }
}

/// Verifies the pages of the file in a child process: a damaged file can make the database library
/// panic, exhaust memory or never return.
fn file_is_intact(data: &str) -> Result<bool, Failure> {
    let output = Command::new(std::env::current_exe()?)
        .args(["check", "--file-only", "--data", data])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(2) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
            Err(Failure::Usage(why.trim_start_matches("roadstead: ").to_string()))
        }
        _ => Ok(false),
    }
}

/// Reads every table, showing progress.
fn read_all(data: &Store, findings: &mut Findings) -> Result<(), Failure> {
    let mut tables = resources::tables();
    tables.extend(store::TABLES);
    for (i, table) in tables.iter().enumerate() {
        output::progress(&format!("{} of {}: {}", i + 1, tables.len(), table.name));
        // The database library panics on some damaged pages.
        match catch_unwind(AssertUnwindSafe(|| data.check(std::slice::from_ref(table)))) {
            Ok(found) => findings.add(found?),
            Err(_) => findings.report(format!("{}: cannot be read; restore a backup", table.name)),
        }
    }
    // Records that cannot be read are reported already, and would make false findings here.
    // Comparing needs every index.
    if findings.wrong == 0 && findings.unbuilt.is_empty() {
        output::progress("consistency of records");
        check_consistency(data, findings)?;
    } else {
        output::progress("audit logs");
        check_audit_logs(data, findings);
    }
    output::progress("");
    Ok(())
}

/// Verifies the chains of the audit logs in a directory with other findings: who changed the log may
/// have left those, too.
fn check_audit_logs(data: &Store, findings: &mut Findings) {
    let verified = catch_unwind(AssertUnwindSafe(|| {
        for org in data.read_now(Id::NIL, organizations::all)? {
            data.read_now(org, |view| verify(view, findings))?;
        }
        Ok::<(), crate::base::Error>(())
    }));
    if !matches!(verified, Ok(Ok(()))) {
        findings.report("not every audit log can be read to the end".into());
    }
}

/// Checks the consistency between the records of each organization.
fn check_consistency(data: &Store, findings: &mut Findings) -> crate::base::Result<()> {
    let organizations = data.read_now(Id::NIL, organizations::all)?;
    for org in organizations {
        data.read_now(org, |view| resources::check(view, findings))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Keys, Result};
    use crate::store::Clock;
    use crate::store::engine::{
        CommitOutcome, KeyRange, LocalStorage, Order, Reader, ScanFn, WriteBatch,
    };
    use std::sync::Arc;

    /// Panics as the database library does on a damaged page.
    struct Damaged;

    impl Reader for Damaged {
        fn get(&self, _: &str, _: &[u8], _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
            Ok(false)
        }
        fn scan(&self, _: &str, _: KeyRange<'_>, _: Order, _: &mut ScanFn<'_>) -> Result<()> {
            panic!("a page is damaged")
        }
        fn access_version(&self) -> Option<u64> {
            None
        }
    }

    impl LocalStorage for Damaged {
        fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
            Ok(Arc::new(Damaged))
        }
        fn commit(&mut self, _: &WriteBatch) -> CommitOutcome {
            CommitOutcome::Done(Arc::new(Damaged))
        }
        fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
            self.snapshot()
        }
    }

    #[test]
    fn a_table_that_makes_the_library_panic_is_a_finding_and_the_others_are_read() {
        let store = Store::start(Damaged, Clock::system(), Keys::new([0; 32]), &[]).unwrap();
        let mut findings = Findings::default();
        assert!(read_all(&store, &mut findings).is_ok());
        let tables = resources::tables().len() + store::TABLES.len();
        assert_eq!(findings.wrong, tables as u64 + 1, "the audit logs cannot be read, too");
        assert!(findings.messages.contains(&"tools: cannot be read; restore a backup".to_string()));
    }
}
