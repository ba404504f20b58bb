//! Appending to the log.

use std::io;
use std::thread::JoinHandle;

use super::files::{FIRST, LogFile, LogFiles};
use super::position::Position;
use super::record::{Link, LogId};
use super::replay::Run;

/// A log that is being written.
///
/// A record is one write and one sync. That is fast where the file's blocks were written before: then
/// no metadata changes with it. So a thread writes zeros ahead while a file grows; once both files
/// have their size they are only written over.
pub struct Log {
    id: LogId,
    files: LogFiles,
    /// The file that is being written.
    live: usize,
    /// Where the next record begins.
    end: u64,
    /// The length of each file.
    lens: [u64; 2],
    /// The last record.
    last: Link,
    /// How files are filled with zeros ahead; none: not at all.
    filling: Option<Filling>,
    filler: Option<Filler>,
}

/// How files are filled with zeros ahead.
pub struct Filling {
    /// The files of the log, opened a second time. The kernel reports that something could not be
    /// written once for each time a file was opened: the sync of the filler must not be told what that
    /// of a record has to know.
    pub files: LogFiles,
    /// How far.
    pub ahead: u64,
}

/// A thread that makes the live file longer.
struct Filler {
    /// Where it begins: nothing is written behind that meanwhile.
    from: u64,
    /// The length afterwards.
    thread: JoinHandle<io::Result<u64>>,
}

impl Log {
    /// Continues a log behind `run`, the last one; without one, where `position` says.
    ///
    /// # Errors
    /// If the last record cannot be made durable: it may have been written and not synced before.
    pub fn new(
        files: LogFiles,
        position: &Position,
        run: Option<&Run>,
        filling: Option<Filling>,
    ) -> io::Result<Self> {
        let lens = [files[0].len()?, files[1].len()?];
        let Position { log: id, covered: last, next_file: live, .. } = *position;
        let mut log = Log { id, files, live, end: FIRST, lens, last, filling, filler: None };
        if let Some(run) = run {
            (log.live, log.end, log.last) = (run.file, run.end, run.last);
            if let Some(record) = run.records.last() {
                // Its first sync may have failed, and then another would not try again.
                log.file().write(run.end - record.len() as u64, record)?;
                log.file().sync_data()?;
            }
        }
        Ok(log)
    }

    /// The id of the log.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// The last record.
    pub fn last(&self) -> Link {
        self.last
    }

    /// The position of a database that has all records.
    pub fn position(&self) -> Position {
        let next_file = 1 - self.live;
        Position { log: self.id, covered: self.last, next_file, is_closed: false }
    }

    fn file(&self) -> &LogFile {
        &self.files[self.live]
    }

    /// How many bytes of records the live file has room for without becoming longer.
    pub fn file_bytes(&self) -> usize {
        usize::try_from(self.lens[self.live].saturating_sub(FIRST)).unwrap_or(usize::MAX)
    }

    /// Appends a record and makes it durable. `may_fill` says whether the file may become longer than
    /// that takes.
    ///
    /// # Errors
    /// If that fails. The record may be durable or not, and nothing more is to be appended.
    pub fn append(&mut self, record: &[u8], link: Link, may_fill: bool) -> io::Result<()> {
        let end = self.end + record.len() as u64;
        if self.filler.as_ref().is_some_and(|filler| end > filler.from) {
            self.end_filling();
        }
        let len = &mut self.lens[self.live];
        if end > *len {
            self.files[self.live].set_len(end)?;
            *len = end;
        }
        self.file().write(self.end, record)?;
        self.file().sync_data()?;
        (self.end, self.last) = (end, link);
        if may_fill {
            self.fill_ahead();
        }
        Ok(())
    }

    /// Goes on at the begin of the other file, whose records the database must have.
    pub fn switch(&mut self) {
        self.end_filling();
        self.live = 1 - self.live;
        self.end = FIRST;
    }

    /// Begins to fill the live file with zeros if there is little room.
    fn fill_ahead(&mut self) {
        if self.filler.as_ref().is_some_and(|filler| filler.thread.is_finished()) {
            self.end_filling();
        }
        let from = self.lens[self.live];
        let Some(Filling { files, ahead }) = &self.filling else { return };
        if self.filler.is_some() || from >= self.end + ahead {
            return;
        }
        let (file, zeros) = (files[self.live].clone(), *ahead);
        let fill = move || {
            let zeros = vec![0; usize::try_from(zeros).unwrap_or_default()];
            let len = from + zeros.len() as u64;
            file.set_len(len)?;
            let filled = file.write(from, &zeros).and_then(|()| file.sync_data());
            if filled.is_err() {
                // A hole would count as room.
                file.set_len(from)?;
            }
            filled.map(|()| len)
        };
        let thread = std::thread::Builder::new().name("log".into()).spawn(fill);
        // Without it appending takes longer.
        self.filler = thread.ok().map(|thread| Filler { from, thread });
    }

    /// Waits until the file is filled. If that failed, the next sync of a record fails too.
    pub fn end_filling(&mut self) {
        if let Some(filler) = self.filler.take()
            && let Ok(Ok(len)) = filler.thread.join()
        {
            self.lens[self.live] = len;
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.end_filling();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use redb::StorageBackend;

    use super::*;

    /// A file of which the sync of the filler fails.
    #[derive(Debug, Default)]
    struct Inode {
        bytes: Mutex<Vec<u8>>,
        failures: Mutex<usize>,
    }

    /// The file, opened: a sync reports what failed since the last one through the same opening.
    #[derive(Debug)]
    struct Opened(Arc<Inode>, Mutex<usize>);

    impl StorageBackend for Opened {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.bytes.lock().unwrap().len() as u64)
        }
        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            unreachable!("a log only appends")
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
            Ok(())
        }
        fn sync_data(&self) -> io::Result<()> {
            let mut failures = self.0.failures.lock().unwrap();
            if std::thread::current().name() == Some("log") {
                *failures += 1;
            }
            let before = std::mem::replace(&mut *self.1.lock().unwrap(), *failures);
            if before == *failures { Ok(()) } else { Err(io::Error::other("lost")) }
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let at = usize::try_from(offset).unwrap();
            self.0.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
            Ok(())
        }
    }

    /// A new log that is filled ahead, and its files.
    fn filled_log() -> (Log, [Arc<Inode>; 2]) {
        let inodes = [Arc::new(Inode::default()), Arc::new(Inode::default())];
        let open = || inodes.clone().map(|inode| Arc::new(Opened(inode, Mutex::new(0))) as LogFile);
        let position = Position {
            log: LogId::new([1; 16]),
            covered: Link::default(),
            next_file: 0,
            is_closed: true,
        };
        let filling = Filling { files: open(), ahead: 4096 };
        (Log::new(open(), &position, None, Some(filling)).unwrap(), inodes)
    }

    #[test]
    fn what_the_filler_could_not_sync_fails_the_next_record() {
        let (mut log, _) = filled_log();
        log.append(&[7; 64], Link::default(), true).unwrap();
        log.end_filling();
        assert!(log.append(&[7; 64], Link::default(), true).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_filled_is_as_long_as_before() {
        let (mut log, inodes) = filled_log();
        let len = || inodes[0].bytes.lock().unwrap().len() as u64;
        log.append(&[7; 64], Link::default(), false).unwrap();
        assert!(log.filler.is_none(), "it may not be filled");
        log.fill_ahead();
        log.end_filling();
        assert_eq!((len(), log.lens[0]), (FIRST + 64, FIRST + 64));
    }
}
