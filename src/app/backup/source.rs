//! Sends the records of an open store to a [`Sink`]: of the same process, or of the command at the
//! other end of the control socket.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::error::BackupError;
use super::header::{FORMAT, Header, PRODUCT, TableHeader};
use super::rows::add_row;
use crate::api::audit::checkpoint;
use crate::app::data::DataDir;
use crate::app::erasures::LedgerNote;
use crate::app::format_file::{self, Format, check_of};
use crate::app::written_by;
use crate::auth::{Organization, installation_id};
use crate::base::{Error, Id, Kind, Result as BaseResult};
use crate::store::{
    KnownDamage, Org, Record as _, Rows, Store, codec, decode, lower_priority, record_tables,
};

/// A block is sent once it has 1 MiB: checksums and compression cost little more than with larger
/// ones, and little is in memory.
const BLOCK_BYTES: usize = 1024 * 1024;

/// A block of ends of audit logs has 64 KiB: some 500 organizations, each of which is a read.
const AUDIT_HEADS_BYTES: usize = 64 * 1024;

/// A server reads for a third of the time and leaves the rest to requests: they read through the same
/// cache, and share the disk.
const PAUSE_FACTOR: u32 = 2;

/// A pause ends after a second at the latest, however slow the disk was.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A command that takes nothing for a minute has stopped; the records that it holds fixed are freed.
const STALLED: Duration = Duration::from_secs(60);

/// How often, and for how long, a replacement of the key that begins or ends is waited for.
const KEY_ATTEMPTS: usize = 200;
const KEY_PAUSE: Duration = Duration::from_millis(25);

/// What a command asks a server for.
#[derive(Clone, Copy, Debug)]
pub struct BackupWanted {
    /// Whether the installation's key is a part of it.
    pub with_secret_key: bool,
    /// Whether it is made although there is damage, without what cannot be read.
    pub despite_damage: bool,
}

/// What takes a backup.
pub trait Sink {
    /// Takes the header, first.
    ///
    /// # Errors
    /// If it cannot; the backup ends then.
    fn header(&mut self, header: &Header) -> std::io::Result<()>;
    /// Takes ends of audit logs, after the header: checkpoints, a line each.
    ///
    /// # Errors
    /// If it cannot; the backup ends then.
    fn audit_heads(&mut self, block: &[u8]) -> std::io::Result<()>;
    /// Takes rows of one table: `[position of the table in the header: 2 bytes]`, and of each row
    /// `[length of the key: 4][length of the value: 4][key][value]`.
    ///
    /// # Errors
    /// If it cannot; the backup ends then.
    fn rows(&mut self, block: &[u8]) -> std::io::Result<()>;
}

/// Sends all records of a store at one commit: of a data directory, or, without `dir`, of a store
/// that has none. With `gently` it leaves most of the time to others. Records are sent as they are
/// stored: whether they can be decoded is for the sink, which in a server is another process.
pub fn send(
    dir: Option<&DataDir>,
    store: &Store,
    with_secret_key: bool,
    gently: bool,
    sink: &mut dyn Sink,
) -> Result<(), BackupError> {
    let (header, rows) = begin(dir, store, with_secret_key)?;
    sink.header(&header)?;
    send_audit_heads(&rows, gently, sink)?;
    let tables = record_tables(&crate::resources::tables());
    for (at, table) in tables.iter().enumerate() {
        let at = u16::try_from(at).expect("there are few tables");
        let mut block = Block { at, bytes: Vec::new(), sink, gently, begun: Instant::now() };
        let mut lost = None;
        let read = rows.scan(table.name, &mut |key, value| match block.add(key, value) {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(error) => {
                lost = Some(error);
                Ok(ControlFlow::Break(()))
            }
        });
        if let Some(error) = lost {
            return Err(error.into());
        }
        read.map_err(reopened)?;
        block.flush()?;
    }
    Ok(())
}

fn reopened(error: Error) -> BackupError {
    match error.code() {
        "reopening" => BackupError::Failed(
            "the server had to reopen its database meanwhile; repeat the command".into(),
        ),
        _ => error.into(),
    }
}

/// The rows of a table that are sent next.
struct Block<'a> {
    at: u16,
    bytes: Vec<u8>,
    sink: &'a mut dyn Sink,
    gently: bool,
    /// When the work for this block began.
    begun: Instant,
}

impl Block<'_> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&self.at.to_be_bytes());
        }
        add_row(&mut self.bytes, key, value);
        if self.bytes.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let worked = self.begun.elapsed();
        self.sink.rows(&self.bytes)?;
        self.bytes.clear();
        if self.gently {
            pause(worked);
        }
        self.begun = Instant::now();
        Ok(())
    }
}

fn pause(worked: Duration) {
    std::thread::sleep((worked * PAUSE_FACTOR).min(MAX_PAUSE));
}

/// Sends the ends of the audit logs of all organizations: as many as there are, so not in one block.
fn send_audit_heads(rows: &Rows, gently: bool, sink: &mut dyn Sink) -> Result<(), BackupError> {
    let (mut block, mut begun) = (String::new(), Instant::now());
    for org in readable_organizations(rows).map_err(reopened)? {
        let Some(head) = unless_damaged(rows.read(org, checkpoint))? else { continue };
        block.push_str(&format!("{head}\n"));
        if block.len() >= AUDIT_HEADS_BYTES {
            let worked = begun.elapsed();
            sink.audit_heads(block.as_bytes())?;
            block.clear();
            if gently {
                pause(worked);
            }
            begun = Instant::now();
        }
    }
    if !block.is_empty() {
        sink.audit_heads(block.as_bytes())?;
    }
    Ok(())
}

/// The organizations whose records can be decoded.
fn readable_organizations(rows: &Rows) -> BaseResult<Vec<Id<Org>>> {
    let mut ids = Vec::new();
    rows.scan(Organization::TABLE, &mut |key, value| {
        // Another is met again among the rows, and refused or left out there.
        ids.extend(decode::<Organization>(key, value).map(|organization| organization.id));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(ids)
}

/// Returns `None` of what cannot be decoded: it is met again among the rows, and refused or left out
/// there.
fn unless_damaged<T>(read: BaseResult<T>) -> Result<Option<T>, BackupError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == Kind::Internal => Ok(None),
        Err(error) => Err(reopened(error)),
    }
}

/// Takes the records at one commit, with the header that belongs to them.
fn begin(
    dir: Option<&DataDir>,
    store: &Store,
    with_secret_key: bool,
) -> Result<(Header, Rows), BackupError> {
    let taken_at = store.clock().now();
    let (directory_format, rows) = match dir {
        Some(dir) => rows_of_one_key(dir, store)?,
        None => {
            let format = Format { current: check_of(&store.keys().current()), previous: None };
            (format.text(), store.rows())
        }
    };
    let erasures = match dir {
        Some(dir) => LedgerNote::of_directory(dir.path()),
        None => unless_damaged(LedgerNote::of_store(&rows))?,
    };
    let tables = record_tables(&crate::resources::tables());
    let header = Header {
        product: PRODUCT.into(),
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        backup_id: store.clock().new_id().to_string(),
        installation: installation_id(store.keys()),
        taken_at,
        directory_format,
        secret_key: with_secret_key.then(|| codec::hex(store.keys().current().bytes())),
        erasures,
        written_by: match dir {
            Some(dir) => written_by::version_of(dir.path()),
            // It never had a log that could lose rows.
            None => Some(env!("CARGO_PKG_VERSION").into()),
        },
        audit_checkpoints: Vec::new(),
        tables: tables.iter().map(TableHeader::of).collect(),
    };
    Ok((header, rows))
}

/// Returns the records and the format file that names their key: while a replacement of the key
/// begins or ends, one could be older than the other.
fn rows_of_one_key(dir: &DataDir, store: &Store) -> Result<(String, Rows), BackupError> {
    for _ in 0..KEY_ATTEMPTS {
        let before = format_file::text_of(dir.path())?;
        let rows = store.rows();
        let format = Format::parse(dir.path(), &before)?;
        let is_present = format.current == check_of(&store.keys().current())
            && format.previous.is_some() == store.keys().previous().is_some();
        if is_present && format_file::text_of(dir.path())? == before {
            return Ok((before, rows));
        }
        std::thread::sleep(KEY_PAUSE);
    }
    Err(BackupError::Failed("the key is being replaced; repeat the command when it is done".into()))
}

// ── Over the control socket ──────────────────────────────────────────────────

/// The frames that a server sends: each a byte, the length (4 bytes), and the content. After
/// [`END`] it answers as to any other command.
pub(super) const HEADER: u8 = b'H';
pub(super) const AUDIT_HEADS: u8 = b'A';
pub(super) const ROWS: u8 = b'R';
pub(super) const END: u8 = b'E';

/// Sends frames.
struct RemoteSink<'a>(&'a UnixStream);

impl RemoteSink<'_> {
    fn frame(&mut self, kind: u8, content: &[u8]) -> std::io::Result<()> {
        let len = u32::try_from(content.len()).map_err(std::io::Error::other)?;
        self.0.write_all(&[&[kind], len.to_be_bytes().as_slice()].concat())?;
        self.0.write_all(content)
    }
}

impl Sink for RemoteSink<'_> {
    fn header(&mut self, header: &Header) -> std::io::Result<()> {
        self.frame(HEADER, &serde_json::to_vec(header)?)
    }

    fn audit_heads(&mut self, block: &[u8]) -> std::io::Result<()> {
        self.frame(AUDIT_HEADS, block)
    }

    fn rows(&mut self, block: &[u8]) -> std::io::Result<()> {
        self.frame(ROWS, block)
    }
}

/// Sends the end of the frames where there is no backup.
///
/// # Errors
/// If it cannot be sent.
pub fn send_end(stream: &UnixStream) -> std::io::Result<()> {
    RemoteSink(stream).frame(END, &[])
}

/// Sends a backup of a running server to a command, on a thread with a lower priority.
///
/// # Errors
/// If it cannot be made or sent. The end of the frames is sent either way.
pub fn serve(
    stream: &UnixStream,
    dir: &DataDir,
    store: &Store,
    wanted: BackupWanted,
) -> Result<(), BackupError> {
    lower_priority();
    stream.set_write_timeout(Some(STALLED))?;
    let mut sink = RemoteSink(stream);
    let sent = require_no_damage(store, wanted)
        .and_then(|()| send(Some(dir), store, wanted.with_secret_key, true, &mut sink));
    sink.frame(END, &[])?;
    sent
}

/// Refuses to back up what is known to be damaged, unless that is wanted: backups are kept in place of
/// earlier ones, which may be sound.
fn require_no_damage(store: &Store, wanted: BackupWanted) -> Result<(), BackupError> {
    match store.known_damage().filter(|_| !wanted.despite_damage) {
        None => Ok(()),
        Some(KnownDamage { count, first }) => Err(BackupError::Unusable(format!(
            "the server has found damage in its data, {count} times since its start; first: {first}. \
             A backup would lack what is damaged: keep the earlier ones, stop the server, and run \
             roadstead check. To make one of what can be read nevertheless: --despite-damage"
        ))),
    }
}
