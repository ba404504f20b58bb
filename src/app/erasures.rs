//! The ledger of erasures: the file `erasures` of the data directory, beside the database and not in
//! it, so that it survives the loss of the database (reference: backup, "Erasures").
//!
//! A text: a first line with the installation and the time from which on it is complete, and a line
//! for each erasure with its time, its table and the beginning of the keys. Each line ends with a
//! checksum. Lines are appended and synced before the deletion is acknowledged. A last line without
//! an end was being written when the process was killed, and was not acknowledged.

mod note;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

pub use note::LedgerNote;

use super::data_dir_error::DataDirError;
use super::placement::ERASURES;
use crate::auth::installation_id;
use crate::base::{Error, Id, Result, Time};
use crate::store::engine::{give_to_owner_of_directory, give_up_reserve, is_full};
use crate::store::{ERASURES_KEPT_SECS, Erasure, ErasureLedger, Store};

/// Expired lines are removed once the oldest is 30 days over time: not at each start.
const EXPIRED_SECS: i64 = 30 * 24 * 3600;

/// Erasures stay in the store until 64 of them are recorded, and are forgotten in one commit.
const FORGET_AT_ONCE: usize = 64;

/// A line is some hundred bytes. Longer ones are not read.
const MAX_LINE_BYTES: u64 = 4096;

const TITLE: &str = "roadstead-erasures:1";

/// A ledger that was read.
pub struct Erasures {
    /// The id of the installation.
    pub installation: String,
    /// Since when it is complete.
    pub since: Time,
    /// Erased: for each table, the beginnings of keys by their length.
    erased: BTreeMap<String, BTreeMap<usize, BTreeSet<Vec<u8>>>>,
    /// The erasures, oldest first.
    pub all: Vec<Erasure>,
}

impl Erasures {
    /// The ledger of an installation with these erasures.
    pub fn new(installation: String, since: Time, all: Vec<Erasure>) -> Self {
        let mut erased: BTreeMap<String, BTreeMap<usize, BTreeSet<_>>> = BTreeMap::new();
        for Erasure { table, prefix, .. } in &all {
            let of_table = erased.entry(table.clone()).or_default();
            of_table.entry(prefix.len()).or_default().insert(prefix.clone());
        }
        Erasures { installation, since, erased, all }
    }

    /// Reads a ledger: a file, or the one of a data directory.
    ///
    /// # Errors
    /// If it does not exist, or a line is damaged.
    pub fn read(path: &Path) -> Result<Self, DataDirError> {
        let path = if path.is_dir() { path.join(ERASURES) } else { path.to_path_buf() };
        let broken = |why: String| DataDirError(format!("{}: {why}", path.display()));
        let file = File::open(&path).map_err(|error| broken(format!("cannot be read: {error}")))?;
        let mut lines = Lines::new(BufReader::new(file));
        let first = lines.next().map_err(broken)?;
        let (installation, since) = first
            .as_deref()
            .and_then(parse_title)
            .ok_or_else(|| broken("is no ledger of erasures of Roadstead".into()))?;
        let mut all = Vec::new();
        while let Some(line) = lines.next().map_err(broken)? {
            let Entry { at, table, prefix } = parse_entry(&line).ok_or_else(|| {
                broken(format!(
                    "line {} is damaged; what it says was erased would come back: restore an \
                     intact copy of the file, or remove the line",
                    lines.number
                ))
            })?;
            all.push(Erasure::recorded(at, table, prefix));
        }
        Ok(Erasures::new(installation, since, all))
    }

    /// Adds erasures that were not recorded in it, at its end.
    #[must_use]
    pub fn with(self, others: Vec<Erasure>) -> Self {
        let Erasures { installation, since, mut all, .. } = self;
        let known: BTreeSet<_> = all.iter().map(entry_line).collect();
        all.extend(others.into_iter().filter(|one| !known.contains(&entry_line(one))));
        Erasures::new(installation, since, all)
    }

    /// Whether a record was erased.
    pub fn has(&self, table: &str, key: &[u8]) -> bool {
        self.erased.get(table).is_some_and(|of_table| {
            of_table.iter().any(|(len, prefixes)| {
                key.get(..*len).is_some_and(|prefix| prefixes.contains(prefix))
            })
        })
    }

    /// Writes it into a data directory that has none, durably.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(new_file(&dir.join(ERASURES))?);
        file.write_all(title_line(&self.installation, self.since).as_bytes())?;
        for erasure in &self.all {
            file.write_all(entry_line(erasure).as_bytes())?;
        }
        file.into_inner().map_err(std::io::Error::other)?.sync_all()
    }
}

/// The ledger of an open store.
pub struct Ledger(Mutex<Open>);

struct Open {
    path: PathBuf,
    file: File,
    /// Whether the last append failed, so that a part of a line may be there.
    is_suspect: bool,
    /// Where the next line begins.
    end: u64,
    /// Recorded erasures that are still in the store. One stays here, without consequence, if it is
    /// not known whether the store has forgotten it.
    recorded: BTreeSet<Id<Erasure>>,
}

impl Ledger {
    /// Opens the ledger of a data directory, or begins one; removes what is older than it is kept.
    ///
    /// # Errors
    /// If it cannot be read, or begun.
    pub fn open(dir: &Path, store: &Store) -> Result<Self, DataDirError> {
        let path = dir.join(ERASURES);
        let cannot = |error: std::io::Error| {
            DataDirError(format!("{} cannot be used: {error}", path.display()))
        };
        let (installation, now) = (installation_id(store.keys()), store.clock().now());
        if !path.exists() {
            begin(dir, &installation, now).map_err(cannot)?;
        } else if first_lines(&path).map_err(cannot)?.is_none_or(|(id, _)| id != installation) {
            // Of another installation, or damaged: it is kept for the operator, and a new one begun.
            let aside = path.with_extension(format!("unusable-{}", now.millis()));
            tracing::error!(moved_to = %aside.display(), "the ledger of erasures cannot be used");
            fs::rename(&path, aside).map_err(cannot)?;
            begin(dir, &installation, now).map_err(cannot)?;
        }
        let oldest = first_lines(&path).map_err(cannot)?.and_then(|(_, oldest)| oldest);
        if oldest.is_some_and(|at| at < now.minus_secs(ERASURES_KEPT_SECS + EXPIRED_SECS)) {
            let since = now.minus_secs(ERASURES_KEPT_SECS);
            if let Err(error) = remove_expired(dir, &installation, since) {
                // Such as on a full disk. It can wait.
                tracing::warn!(%error, "what is older than it is kept stays in the file `erasures`");
                let _ = remove_if_there(&dir.join(format!("{ERASURES}.unfinished")));
            }
        }
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(cannot)?;
        let mut open =
            Open { path: path.clone(), file, is_suspect: true, end: 0, recorded: BTreeSet::new() };
        open.find_end().map_err(cannot)?;
        Ok(Ledger(Mutex::new(open)))
    }
}

impl ErasureLedger for Ledger {
    fn record(&self, erasures: &[Erasure]) -> Result<bool> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<_> =
            erasures.iter().filter(|one| !open.recorded.contains(&one.id())).cloned().collect();
        open.append_with_reserve(&new).map_err(|error| {
            Error::internal(format!("{} cannot be written: {error}", open.path.display()))
        })?;
        open.recorded.extend(new.iter().map(Erasure::id));
        Ok(erasures.len() >= FORGET_AT_ONCE)
    }

    fn forgotten(&self, erasures: &[Id<Erasure>]) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in erasures {
            open.recorded.remove(id);
        }
    }
}

impl Open {
    /// Appends erasures durably; on a full disk into the space that is kept in reserve, which deletions
    /// may use.
    fn append_with_reserve(&mut self, erasures: &[Erasure]) -> std::io::Result<()> {
        match self.append(erasures) {
            Err(error) if is_full(&error) => {
                let is_given_up = self.path.parent().is_some_and(give_up_reserve);
                if is_given_up { self.append(erasures) } else { Err(error) }
            }
            appended => appended,
        }
    }

    /// Appends erasures durably.
    fn append(&mut self, erasures: &[Erasure]) -> std::io::Result<()> {
        if erasures.is_empty() {
            return Ok(());
        }
        if self.is_suspect {
            // Also what was written whole, if its sync failed: it may not be on the disk.
            self.file.set_len(self.end)?;
        }
        let lines: String = erasures.iter().map(entry_line).collect();
        self.is_suspect = true;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(lines.as_bytes())?;
        self.file.sync_data()?;
        self.is_suspect = false;
        self.end += lines.len() as u64;
        Ok(())
    }

    /// Finds the end of the last whole line, and cuts off what is behind it.
    fn find_end(&mut self) -> std::io::Result<()> {
        let len = self.file.metadata()?.len();
        let start = len.saturating_sub(MAX_LINE_BYTES);
        self.file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        (&self.file).take(MAX_LINE_BYTES).read_to_end(&mut tail)?;
        let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.end = start + whole as u64;
        if self.end < len {
            self.file.set_len(self.end)?;
            self.file.sync_all()?;
        }
        self.is_suspect = false;
        Ok(())
    }
}

/// Begins an empty ledger.
fn begin(dir: &Path, installation: &str, since: Time) -> std::io::Result<()> {
    let unfinished = dir.join(format!("{ERASURES}.unfinished"));
    remove_if_there(&unfinished)?;
    let mut file = new_file(&unfinished)?;
    file.write_all(title_line(installation, since).as_bytes())?;
    replace(dir, &unfinished, file)
}

/// Writes the ledger again without what was erased before `since`.
fn remove_expired(dir: &Path, installation: &str, since: Time) -> std::io::Result<()> {
    let unfinished = dir.join(format!("{ERASURES}.unfinished"));
    remove_if_there(&unfinished)?;
    let mut lines = Lines::new(BufReader::new(File::open(dir.join(ERASURES))?));
    let title = lines.next().map_err(std::io::Error::other)?;
    // One that was begun later has old lines that were restored into it, and lacks others.
    let begun = title.as_deref().and_then(parse_title).map_or(since, |(_, begun)| begun);
    let mut kept = BufWriter::new(new_file(&unfinished)?);
    kept.write_all(title_line(installation, since.max(begun)).as_bytes())?;
    while let Some(line) = lines.next().map_err(std::io::Error::other)? {
        // A damaged line is kept, so that it is reported when it is needed.
        if parse_entry(&line).is_none_or(|entry| entry.at >= since) {
            writeln!(kept, "{line}")?;
        }
    }
    replace(dir, &unfinished, kept.into_inner().map_err(std::io::Error::other)?)
}

fn replace(dir: &Path, unfinished: &Path, file: File) -> std::io::Result<()> {
    file.sync_all()?;
    fs::rename(unfinished, dir.join(ERASURES))?;
    File::open(dir)?.sync_all()
}

fn new_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    give_to_owner_of_directory(&file, path);
    Ok(file)
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the installation of a ledger and the time of its first erasure, if it has any.
fn first_lines(path: &Path) -> std::io::Result<Option<(String, Option<Time>)>> {
    let mut lines = Lines::new(BufReader::new(File::open(path)?));
    let title = lines.next().ok().flatten();
    let Some((installation, _)) = title.as_deref().and_then(parse_title) else { return Ok(None) };
    let first = lines.next().ok().flatten();
    Ok(Some((installation, first.as_deref().and_then(parse_entry).map(|entry| entry.at))))
}

// ── Lines ────────────────────────────────────────────────────────────────────

/// The whole lines of a ledger.
struct Lines<R> {
    input: R,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    fn new(input: R) -> Self {
        Lines { input, number: 0 }
    }

    /// Returns the next line without its end; `None` after the last whole one.
    fn next(&mut self) -> Result<Option<String>, String> {
        let mut line = Vec::new();
        let read = (&mut self.input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        self.number += 1;
        if line.last() != Some(&b'\n') {
            let is_last = self.input.fill_buf().map_or(true, <[u8]>::is_empty);
            return if is_last {
                Ok(None)
            } else {
                Err(format!("line {} is damaged", self.number))
            };
        }
        line.pop();
        // Other bytes make a checksum wrong.
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }
}

struct Entry {
    at: Time,
    table: String,
    prefix: Vec<u8>,
}

fn with_checksum(text: &str) -> String {
    format!("{text} {:016x}\n", xxh3_64(text.as_bytes()))
}

fn checked(line: &str) -> Option<&str> {
    let (text, checksum) = line.rsplit_once(' ')?;
    (format!("{:016x}", xxh3_64(text.as_bytes())) == checksum).then_some(text)
}

fn title_line(installation: &str, since: Time) -> String {
    with_checksum(&format!("{TITLE} {installation} {}", since.millis()))
}

fn parse_title(line: &str) -> Option<(String, Time)> {
    let mut parts = checked(line)?.split(' ');
    if parts.next()? != TITLE {
        return None;
    }
    let installation = parts.next()?.to_string();
    Some((installation, Time::from_millis(parts.next()?.parse().ok()?)))
}

fn entry_line(erasure: &Erasure) -> String {
    let Erasure { at, table, prefix, .. } = erasure;
    let prefix = crate::store::codec::hex(prefix);
    with_checksum(&format!("{} {table} {prefix}", at.millis()))
}

fn parse_entry(line: &str) -> Option<Entry> {
    let mut parts = checked(line)?.split(' ');
    let at = Time::from_millis(parts.next()?.parse().ok()?);
    let table = parts.next()?.to_string();
    let digits = parts.next()?.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let prefix = digits.map(byte).collect::<Option<Vec<u8>>>()?;
    Some(Entry { at, table, prefix })
}

#[cfg(test)]
mod tests;
