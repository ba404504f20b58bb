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
    /// How far files are filled with zeros ahead; 0: not at all.
    ahead: u64,
    filler: Option<Filler>,
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
        ahead: u64,
    ) -> io::Result<Self> {
        let lens = [files[0].len()?, files[1].len()?];
        let Position { log: id, covered: last, next_file: live, .. } = *position;
        let mut log = Log { id, files, live, end: FIRST, lens, last, ahead, filler: None };
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

    /// Appends a record and makes it durable.
    ///
    /// # Errors
    /// If that fails. The record may be durable or not, and nothing more is to be appended.
    pub fn append(&mut self, record: &[u8], link: Link) -> io::Result<()> {
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
        self.fill_ahead();
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
        if self.filler.is_some() || from >= self.end + self.ahead {
            return;
        }
        let (file, zeros) = (self.file().clone(), self.ahead);
        let fill = move || {
            let zeros = vec![0; usize::try_from(zeros).unwrap_or_default()];
            let len = from + zeros.len() as u64;
            file.set_len(len)?;
            file.write(from, &zeros)?;
            file.sync_data()?;
            Ok(len)
        };
        let thread = std::thread::Builder::new().name("log".into()).spawn(fill);
        // Without it appending takes longer.
        self.filler = thread.ok().map(|thread| Filler { from, thread });
    }

    /// Waits until the file is filled. If that failed, so will what is written there.
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
