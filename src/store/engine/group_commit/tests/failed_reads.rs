//! Attempts of which a read failed: whatever they made of it, nothing of them is committed.

use super::*;

/// The table whose rows cannot be read once the log has [`READS_FAIL`].
const UNREADABLE: &str = "unreadable";

/// The line of the log after which reads fail.
const READS_FAIL: &str = "reads fail";

/// Storage of which some rows become unreadable.
struct Unreadable(ScriptedStorage);

/// A reader of it.
struct UnreadableReader(Arc<dyn Reader>, Log);

impl Unreadable {
    fn reader(&self, reader: Arc<dyn Reader>) -> Arc<dyn Reader> {
        Arc::new(UnreadableReader(reader, self.0.log.clone()))
    }
}

impl LocalStorage for Unreadable {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        let reader = self.0.snapshot()?;
        Ok(self.reader(reader))
    }
    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        match self.0.commit(writes) {
            CommitOutcome::Done(reader) => CommitOutcome::Done(self.reader(reader)),
            other => {
                self.0.log.add(READS_FAIL.into());
                other
            }
        }
    }
    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.snapshot()
    }
}

impl Reader for UnreadableReader {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        if table == UNREADABLE && self.1.lines().contains(&READS_FAIL.to_string()) {
            return Err(Error::internal("the disk failed"));
        }
        self.0.get(table, key, see)
    }
    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        if table == UNREADABLE && self.1.lines().contains(&READS_FAIL.to_string()) {
            return Err(Error::internal("the disk failed"));
        }
        self.0.scan(table, range, order, each)
    }
    fn access_version(&self) -> Option<u64> {
        self.0.access_version()
    }
}

/// Storage whose next commits go so; each that is not kept makes reads fail from then on.
fn unreadable(commits: &[Go]) -> (GroupCommit, Log) {
    let log = Log::default();
    let storage = ScriptedStorage {
        memory: Memory::default(),
        commits: commits.iter().rev().copied().collect(),
        opens: Vec::new(),
        log: log.clone(),
    };
    (GroupCommit::start(Unreadable(storage), Arc::default()).unwrap(), log)
}

/// Goes on as if there were no such row, whether that is so or it cannot be read.
const IGNORE_GET: (&str, Run) = ("ignores get", |reader| {
    let found = reader.get(UNREADABLE, b"x", &mut |_| Ok(())).unwrap_or(false);
    assert!(!found);
    Ok(one("ignores get"))
});
const IGNORE_SCAN: (&str, Run) = ("ignores scan", |reader| {
    let all = KeyRange { from: &[], to: None };
    let each: &mut ScanFn = &mut |_, _| Ok(ControlFlow::Continue(()));
    let _ = reader.scan(UNREADABLE, all, Order::Ascending, each);
    Ok(one("ignores scan"))
});
/// Says that there is no such row.
const MISTAKE: (&str, Run) = ("mistakes it", |reader| {
    let found = reader.get(UNREADABLE, b"x", &mut |_| Ok(())).unwrap_or(false);
    assert!(!found);
    Err(Error::conflict("absent", "there is no such row"))
});

fn messages(ends: &[Result<()>]) -> Vec<String> {
    let message = |error: &Error| error.log_detail().unwrap_or(error.message()).to_string();
    ends.iter().map(|end| end.as_ref().map_or_else(message, |()| "ok".into())).collect()
}

const FAILED: &str = "the disk failed";

#[test]
fn an_attempt_that_ignores_a_failed_read_on_the_writer_is_not_committed() {
    let (group, log) = unreadable(&[]);
    log.add(READS_FAIL.into());
    let ends = together(&group, &log, &[WRITE_A, IGNORE_GET, IGNORE_SCAN, MISTAKE, WRITE_B]);
    assert_eq!(messages(&ends), ["ok", FAILED, FAILED, FAILED, "ok"]);
    assert_eq!(keys(&*group.snapshot()), ["a", "b"]);
}

#[test]
fn nor_is_one_whose_read_fails_when_it_runs_again_alone() {
    let (group, log) = unreadable(&[Go::FindsFault]);
    let ends = together(&group, &log, &[WRITE_A, IGNORE_GET, IGNORE_SCAN, WRITE_B]);
    assert_eq!(messages(&ends), ["ok", FAILED, FAILED, "ok"]);
    assert_eq!(keys(&*group.snapshot()), ["a", "b"]);
}
