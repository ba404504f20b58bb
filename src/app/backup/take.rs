//! Takes a backup, from the running server of a data directory or from the directory itself.

use std::io::{BufReader, Read};
use std::os::unix::net::UnixStream;

use super::error::BackupError;
use super::header::{Header, Totals};
use super::last::LastBackup;
use super::source::{AUDIT_HEADS, BackupWanted, END, HEADER, ROWS, Sink, send};
use crate::app::control::{self, ControlResponse, Request};
use crate::app::data::DataDir;
use crate::store::Store;

/// A frame is a block of rows or the header, which are smaller.
const MAX_FRAME_BYTES: u32 = 8 * 1024 * 1024;

/// Shows the progress of a backup.
pub type Progress<'a> = dyn FnMut(&Totals) + 'a;

/// Where the records come from.
pub enum Source {
    /// The server that has the directory open.
    Server(UnixStream),
    /// The directory, which no server has open.
    Directory(Box<Store>),
    /// A store that has no directory.
    Elsewhere(Box<Store>),
}

impl Source {
    /// Asks the server of a directory for a backup, or opens the directory if none runs.
    ///
    /// # Errors
    /// If there is no such directory, it cannot be opened, or the socket fails.
    pub fn open(dir: &DataDir, wanted: BackupWanted) -> Result<Self, BackupError> {
        let BackupWanted { with_secret_key, despite_damage } = wanted;
        dir.require_exists()?;
        match control::connect(dir, &Request::Backup { with_secret_key, despite_damage })? {
            Some(stream) => Ok(Source::Server(stream)),
            None => Ok(Source::Directory(Box::new(dir.open()?))),
        }
    }

    /// Passes all records to `sink`.
    pub fn send(
        self,
        dir: &DataDir,
        with_secret_key: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), BackupError> {
        match self {
            Source::Server(stream) => receive(stream, sink),
            Source::Directory(store) => send(Some(dir), &store, with_secret_key, false, sink),
            Source::Elsewhere(store) => send(None, &store, with_secret_key, false, sink),
        }
    }
}

/// Passes the frames of a server to `sink`.
fn receive(stream: UnixStream, sink: &mut dyn Sink) -> Result<(), BackupError> {
    let ended = |error: std::io::Error| {
        BackupError::Failed(format!(
            "the server ended before the backup did ({error}); start it again, or repeat the command"
        ))
    };
    let mut frames = BufReader::new(&stream);
    loop {
        let mut head = [0; 5];
        frames.read_exact(&mut head).map_err(ended)?;
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        if len > MAX_FRAME_BYTES {
            return Err(unexpected());
        }
        let mut content = vec![0; len as usize];
        frames.read_exact(&mut content).map_err(ended)?;
        match head[0] {
            HEADER => {
                let header: Header = serde_json::from_slice(&content).map_err(|_| unexpected())?;
                sink.header(&header)?;
            }
            AUDIT_HEADS => sink.audit_heads(&content)?,
            ROWS => sink.rows(&content)?,
            END => break,
            _ => return Err(unexpected()),
        }
    }
    match control::last_reply(frames, &mut |_| {}).map_err(ended)? {
        ControlResponse::Done => Ok(()),
        ControlResponse::Failed(why) => Err(BackupError::Failed(why)),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> BackupError {
    BackupError::Failed(
        "the server gave an unexpected reply; it may be of another version: restart it".into(),
    )
}

/// Records a completed backup with the server of a directory, or in the directory if none runs.
///
/// # Errors
/// If it cannot be recorded.
pub fn record(dir: &DataDir, backup: LastBackup) -> Result<(), BackupError> {
    match control::ask(dir, &Request::RecordBackup { backup: backup.clone() }, &mut |_| {})? {
        Some(ControlResponse::Done) => Ok(()),
        Some(ControlResponse::Failed(why)) => Err(BackupError::Failed(why)),
        Some(_) => Err(unexpected()),
        None => Ok(backup.write(dir.path())?),
    }
}
