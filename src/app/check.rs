//! The check of a whole store: of each table, and of what must hold between records and in audit logs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::api::audit::verify;
use crate::base::{Error, Id, Result};
use crate::resources::{self, organizations};
use crate::store::check::Findings;
use crate::store::{self, Store};

/// Reads every table, shows the progress, one line each, and reports what is wrong.
pub fn check_store(data: &Store, progress: &dyn Fn(&str), findings: &mut Findings) -> Result<()> {
    let mut tables = resources::tables();
    tables.extend(store::TABLES);
    for (i, table) in tables.iter().enumerate() {
        progress(&format!("{} of {}: {}", i + 1, tables.len(), table.name));
        // The database library panics on some damaged pages.
        match catch_unwind(AssertUnwindSafe(|| data.check(std::slice::from_ref(table)))) {
            Ok(Ok(found)) => findings.add(found),
            Ok(Err(error)) => {
                let why = error.log_detail().unwrap_or(error.message()).to_string();
                findings.report(format!("{}: cannot be read: {why}", table.name));
            }
            Err(_) => findings.report(format!("{}: cannot be read; restore a backup", table.name)),
        }
    }
    // Records that cannot be read are reported already, and would make false findings here.
    // Comparing needs every index.
    if findings.wrong == 0 && findings.unbuilt.is_empty() {
        progress("consistency of records");
        check_consistency(data, findings)?;
    } else {
        progress("audit logs");
        check_audit_logs(data, findings);
    }
    progress("");
    Ok(())
}

/// Verifies the chains of the audit logs in a directory with other findings: who changed the log may
/// have left those, too.
fn check_audit_logs(data: &Store, findings: &mut Findings) {
    let verified = catch_unwind(AssertUnwindSafe(|| {
        for org in data.read_now(Id::NIL, organizations::all)? {
            data.read_now(org, |view| verify(view, findings))?;
        }
        Ok::<(), Error>(())
    }));
    if !matches!(verified, Ok(Ok(()))) {
        findings.report("not every audit log can be read to the end".into());
    }
}

/// Checks the consistency between the records of each organization.
fn check_consistency(data: &Store, findings: &mut Findings) -> Result<()> {
    let organizations = data.read_now(Id::NIL, organizations::all)?;
    for org in organizations {
        data.read_now(org, |view| resources::check(view, findings))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Keys;
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
        assert!(check_store(&store, &|_| {}, &mut findings).is_ok());
        let tables = resources::tables().len() + store::TABLES.len();
        assert_eq!(findings.wrong, tables as u64 + 1, "the audit logs cannot be read, too");
        assert!(findings.messages.contains(&"tools: cannot be read; restore a backup".to_string()));
    }
}
