//! The two files of the log, which take turns, and what is at the front of each.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64;

use super::super::file_owner::give_to_owner_of_directory;
use super::record::LogId;

/// A file of the log.
pub type LogFile = Arc<dyn StorageBackend>;

/// The files of a log: one has the records that are being written, the other those before them.
pub type LogFiles = [LogFile; 2];

/// Where a log is kept.
pub trait LogPlace: Send {
    /// Opens the files; `None` if one of them is missing.
    ///
    /// # Errors
    /// If they cannot be opened.
    fn open(&self) -> io::Result<Option<LogFiles>>;
    /// Creates empty files, in place of those that are there.
    ///
    /// # Errors
    /// If they cannot be written.
    fn create(&self) -> io::Result<LogFiles>;
    /// Makes durable that the files exist.
    fn sync(&self) -> io::Result<()>;
    /// Returns what messages call it.
    fn name(&self) -> String;
}

/// The files of a log beside those of its database, of the same name with the endings `wal-1` and
/// `wal-2`.
pub struct LogBeside {
    paths: [PathBuf; 2],
}

impl LogBeside {
    /// The log of a database.
    pub fn database(path: &Path) -> Self {
        LogBeside { paths: ["wal-1", "wal-2"].map(|ending| path.with_extension(ending)) }
    }
}

impl LogPlace for LogBeside {
    fn open(&self) -> io::Result<Option<LogFiles>> {
        let open = |path: &PathBuf| OpenOptions::new().read(true).write(true).open(path);
        match self.paths.each_ref().map(open) {
            [Ok(one), Ok(two)] => Ok(Some([one, two].map(DiskFile::shared))),
            [Err(error), _] | [_, Err(error)] if error.kind() == ErrorKind::NotFound => Ok(None),
            [Err(error), _] | [_, Err(error)] => Err(error),
        }
    }

    fn create(&self) -> io::Result<LogFiles> {
        let mut new = OpenOptions::new();
        new.read(true).write(true).create(true).truncate(true).mode(0o600);
        let [one, two] = self.paths.each_ref().map(|path| {
            let file = new.open(path)?;
            give_to_owner_of_directory(&file, path);
            io::Result::Ok(DiskFile::shared(file))
        });
        Ok([one?, two?])
    }

    fn sync(&self) -> io::Result<()> {
        let parent = self.paths[0].parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn name(&self) -> String {
        self.paths[0].with_extension("wal-*").display().to_string()
    }
}

/// A file on the disk. It has no lock: that of the database excludes other processes.
#[derive(Debug)]
struct DiskFile(File);

impl DiskFile {
    fn shared(file: File) -> LogFile {
        Arc::new(DiskFile(file))
    }
}

impl StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|file| file.len())
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// Where the first record of a file is: its front is never written together with one.
pub const FIRST: u64 = 4096;

/// What the front of a file begins with: the format. Logs of the first one had a magic that everybody
/// knows; they are read, and replaced once nothing is in them.
const FORMATS: [[u8; 16]; 2] = [*b"roadstead log 1\n", *b"roadstead log 2\n"];
const FRONT_BYTES: usize = 40;

/// Writes the front of a new file: its format, the id of the log, and a checksum.
pub fn write_front(file: &LogFile, log: LogId) -> io::Result<()> {
    let mut front = [FORMATS[usize::from(!log.is_of_first_format())], log.id].concat();
    front.extend_from_slice(&xxh3_64(&front).to_le_bytes());
    let mut page = vec![0; usize::try_from(FIRST).unwrap_or(usize::MAX)];
    page[..FRONT_BYTES].copy_from_slice(&front);
    if file.len()? < FIRST {
        file.set_len(FIRST)?;
    }
    file.write(0, &page)?;
    file.sync_data()
}

/// Reads the id of the log that a file belongs to; `None` if it has no valid front.
pub fn read_front(file: &LogFile) -> io::Result<Option<LogId>> {
    if file.len()? < FIRST {
        return Ok(None);
    }
    let mut front = [0; FRONT_BYTES];
    file.read(0, &mut front)?;
    let (content, sum) = front.split_at(32);
    let (format, id) = content.split_at(16);
    let is_valid = xxh3_64(content).to_le_bytes() == *sum;
    let id = id.try_into().ok().filter(|_| is_valid);
    Ok(match FORMATS.iter().position(|known| known == format) {
        Some(0) => id.map(LogId::of_first_format),
        Some(_) => id.map(LogId::new),
        None => None,
    })
}
