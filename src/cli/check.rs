//! `roadstead check`

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use super::{Common, Failure, output};
use crate::base::Id;
use crate::resources::{self, organizations};
use crate::store::check::Findings;
use crate::store::engine::integrity;
use crate::store::{self, Store};

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
        if self.file_only {
            let whole = integrity(&dir.database());
            return match whole.map_err(|error| Failure::Unusable(error.to_string()))? {
                true => Ok(()),
                false => Err(Failure::Failed("the file is not whole".into())),
            };
        }
        let mut findings = Findings::default();
        dir.must_be_made()?;
        if !file_is_whole(&self.common.data)? {
            findings.note(format!(
                "{}: the file is not whole; make a copy of it before anything else",
                dir.database().display()
            ));
        }
        match dir.open_to_check() {
            Ok(store) => read_all(&store, &mut findings)?,
            // Broken beyond opening is a finding; any other reason not to open it is told as such.
            Err(unusable) if findings.wrong == 0 => return Err(unusable.into()),
            Err(unusable) => findings.note(unusable.0),
        }
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
        match sound {
            true => Ok(()),
            false => Err(Failure::Failed("the data directory is not sound".into())),
        }
    }
}

/// Verifies the pages of the file in a process of its own: a broken file can make the database
/// library panic, or worse.
fn file_is_whole(data: &str) -> Result<bool, Failure> {
    let ended = Command::new(std::env::current_exe()?)
        .args(["check", "--file-only", "--data", data])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    match ended.status.code() {
        Some(0) => Ok(true),
        Some(2) => {
            let why = String::from_utf8_lossy(&ended.stderr).trim().to_string();
            Err(Failure::Unusable(why.trim_start_matches("roadstead: ").to_string()))
        }
        _ => Ok(false),
    }
}

/// Reads every table, saying on a terminal where it is.
fn read_all(data: &Store, findings: &mut Findings) -> Result<(), Failure> {
    let mut tables = resources::tables();
    tables.extend(store::TABLES);
    for (i, table) in tables.iter().enumerate() {
        output::progress(&format!("{} of {}: {}", i + 1, tables.len(), table.name));
        // The database library panics at some pages that are broken.
        match catch_unwind(AssertUnwindSafe(|| data.check(std::slice::from_ref(table)))) {
            Ok(found) => findings.add(found?),
            Err(_) => findings.note(format!("{}: cannot be read; restore a backup", table.name)),
        }
    }
    // What does not read has been told of, and is not fit to be compared with the rest. Comparing
    // needs every index.
    if findings.wrong == 0 && findings.unbuilt.is_empty() {
        output::progress("what the records say of each other");
        compare(data, findings)?;
    }
    output::progress("");
    Ok(())
}

/// Looks whether what the records of each organization say of each other is true.
fn compare(data: &Store, findings: &mut Findings) -> crate::base::Result<()> {
    let organizations = data.read_now(Id::NOTHING, organizations::all)?;
    for org in organizations {
        data.read_now(org, |view| resources::check(view, findings))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Keys, Result};
    use crate::store::Moment;
    use crate::store::engine::{Commit, Disk, Each, Order, Reader, Span, Writes};
    use std::sync::Arc;

    /// Panics as the database library does at a broken page.
    struct Broken;

    impl Reader for Broken {
        fn get(&self, _: &str, _: &[u8], _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
            Ok(false)
        }
        fn scan(&self, _: &str, _: Span<'_>, _: Order, _: &mut Each<'_>) -> Result<()> {
            panic!("a page is broken")
        }
        fn access_stamp(&self) -> Option<u64> {
            None
        }
    }

    impl Disk for Broken {
        fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
            Ok(Arc::new(Broken))
        }
        fn commit(&mut self, _: &Writes) -> Commit {
            Commit::Done(Arc::new(Broken))
        }
        fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
            self.snapshot()
        }
    }

    #[test]
    fn a_table_at_which_the_library_panics_is_a_finding_and_the_others_are_read() {
        let store = Store::start(Broken, Moment::system(), Keys::new([0; 32]), &[]).unwrap();
        let mut findings = Findings::default();
        assert!(read_all(&store, &mut findings).is_ok());
        let tables = resources::tables().len() + store::TABLES.len();
        assert_eq!(findings.wrong, tables as u64);
        assert!(findings.messages.contains(&"tools: cannot be read; restore a backup".to_string()));
    }
}
