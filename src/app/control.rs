//! The control socket of a running server, in its data directory: commands of the command line that
//! need the open store.
//!
//! A client connects to `control.sock` and writes one line, a [`Request`] as JSON; the server answers
//! with lines, each a [`ControlResponse`] as JSON, of which the last is no progress, and closes. Before
//! the line of a backup its frames are sent ([`backup`]). The directory and the socket are accessible to
//! their owner only, so there is no other authentication.
//!
//! A command is a variant of [`Request`], a line in [`carry_out`] and a variant of
//! [`ControlResponse`], or [`ControlResponse::Done`].

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::audit::{AuditReply, AuditRequest, audit_reply};
use super::backup::{self, BackupWanted, LastBackup};
use super::data::DataDir;
use super::installation::{AdminsChange, AdminsOfInstallation, admins_of_installation};
use super::moving::{ExportReport, ImportReply, ImportStep, export_organization, import_step};
use super::panics;
use super::placement::SOCKET;
use super::recovery::{PasswordResetLink, reset_password};
use super::rotation::{Rotated, complete_rotation, rotate};
use super::secret_key;
use super::status::{ServerStatus, Startup, store_status};
use super::tls::OwnTls;
use crate::base::{Error, MasterKey, Result};
use crate::store::{Store, codec};

/// A request is small, except a step of an import, which has at least one record.
const MAX_REQUEST_BYTES: u64 = 20 * 1024 * 1024;

/// The lines of an export are sent in parts of about 64 KiB.
const PART_BYTES: usize = 64 * 1024;

/// A client that connects sends its request at once, and reads what it is sent.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// What Linux keeps of a socket's path, with the byte after its end.
const SOCKET_PATH_BYTES: usize = 108;

/// Commands run one at a time; few more may wait.
const MAX_CLIENTS: usize = 8;

/// What a client asks for.
#[derive(Deserialize, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Replace the installation's key.
    #[serde(rename_all = "camelCase")]
    RotateKey {
        /// The new key, in hexadecimal, if the client supplies one.
        new_key: Option<String>,
        /// The check of the key that the client has kept as the old one, if it has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<String>,
    },
    /// Read the audit logs.
    Audit {
        /// What to read of them.
        request: AuditRequest,
    },
    /// Make a link with which a user sets a new password.
    #[serde(rename_all = "camelCase")]
    ResetPassword {
        /// The user's e-mail address.
        email: String,
        /// The base of the link, if not the server's own.
        public_url: Option<String>,
        /// Whether the user's second factor is reset, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reset_second_factor: bool,
    },
    /// Say or change who administers the installation.
    InstallationAdmins {
        /// The change, if there is one.
        change: Option<AdminsChange>,
    },
    /// Write an organization as lines.
    Export { slug: String },
    /// Carry out a step of the import of an organization.
    Import { step: ImportStep },
    /// Send a backup.
    #[serde(rename_all = "camelCase")]
    Backup {
        /// Whether the installation's key is a part of it.
        with_secret_key: bool,
        /// Whether it is made although the server has found damage.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        despite_damage: bool,
    },
    /// Say what the server knows of itself.
    Status,
    /// Note that a backup was made.
    RecordBackup { backup: LastBackup },
}

impl Request {
    /// Returns the request to replace the key.
    pub fn rotate_key(new_key: Option<&MasterKey>, kept: Option<String>) -> Self {
        Request::RotateKey { new_key: new_key.map(|key| codec::hex(key.bytes())), kept }
    }
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ControlResponse {
    /// The command goes on.
    #[serde(rename_all = "camelCase")]
    Progress {
        /// Secrets sealed so far.
        resealed: u64,
        /// Tables done.
        done: usize,
        /// All tables.
        all: usize,
    },
    /// The key is replaced.
    #[serde(rename_all = "camelCase")]
    Rotated {
        /// Secrets sealed with the new key.
        resealed: u64,
        /// What the operator must do now.
        to_do: Option<String>,
        /// Whether the old key was a file of the data directory.
        #[serde(default)]
        is_destroyed: bool,
    },
    /// What was read of the audit logs.
    Audit(AuditReply),
    /// The link was made.
    PasswordReset(PasswordResetLink),
    /// Who administers the installation.
    InstallationAdmins(AdminsOfInstallation),
    /// The next lines of an export.
    Lines(String),
    /// The export is complete.
    Exported(ExportReport),
    /// The step of the import is done.
    Imported(ImportReply),
    /// What the server knows of itself.
    Status(ServerStatus),
    /// It is done; there is nothing more to say.
    Done,
    /// The command failed: a sentence.
    Failed(String),
}

// ── The server's side ────────────────────────────────────────────────────────

/// The socket of a server; removed when it is dropped.
pub struct ControlSocket(PathBuf);

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // One that is left behind refuses connections, as a missing one does.
        let _ = fs::remove_file(&self.0);
    }
}

/// What commands are carried out on.
#[derive(Clone)]
struct Server {
    dir: DataDir,
    store: Store,
    /// What links that a command makes begin with.
    link_base: String,
    startup: Startup,
    tls: Option<Arc<OwnTls>>,
}

/// What commands exclude each other by.
#[derive(Default)]
struct Turns {
    /// Commands run one at a time, except backups, which take long.
    command: Mutex<()>,
    /// Backups run one at a time.
    backup: Mutex<()>,
}

/// Listens at the socket of a directory that this process serves, on a thread that ends with the
/// process. Links that a command makes begin with `link_base`.
///
/// # Errors
/// If the socket cannot be made.
pub fn listen(
    dir: DataDir,
    store: Store,
    link_base: String,
    startup: Startup,
    tls: Option<Arc<OwnTls>>,
) -> std::io::Result<ControlSocket> {
    let path = dir.path().join(SOCKET);
    let server = Server { dir: dir.clone(), store, link_base, startup, tls };
    // Left by a process that was killed: this one holds the directory's lock.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = in_directory(dir.path(), UnixListener::bind)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let clients: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let turns: &'static Turns = Box::leak(Box::default());
    std::thread::Builder::new().name("control".into()).spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            if clients.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let server = server.clone();
            let work = move || {
                if let Err(error) = serve(&stream, &server, turns) {
                    tracing::debug!(%error, "a client of the control socket was lost");
                }
                clients.fetch_sub(1, Ordering::Relaxed);
            };
            if let Err(error) = std::thread::Builder::new().name("client".into()).spawn(work) {
                tracing::warn!(%error, "a client of the control socket cannot be served");
                clients.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })?;
    Ok(ControlSocket(path))
}

/// Names the socket of a directory. Where its path is too long for a socket, the directory is opened,
/// and the socket named in it.
fn in_directory<T>(
    dir: &Path,
    open: impl FnOnce(PathBuf) -> std::io::Result<T>,
) -> std::io::Result<T> {
    let path = dir.join(SOCKET);
    if path.as_os_str().len() < SOCKET_PATH_BYTES {
        return open(path);
    }
    let opened = File::open(dir)?;
    let by_number = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string());
    if !by_number.exists() {
        let why = "its path is too long for a socket where /proc is not mounted: use a shorter one";
        return Err(std::io::Error::other(format!("the data directory {}: {why}", dir.display())));
    }
    open(by_number.join(SOCKET))
}

fn serve(stream: &UnixStream, server: &Server, turns: &Turns) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_REQUEST_BYTES)).read_line(&mut line)?;
    let reply = match serde_json::from_str(&line) {
        Ok(Request::Backup { with_secret_key, despite_damage }) => {
            let wanted = BackupWanted { with_secret_key, despite_damage };
            back_up(wanted, stream, server, &turns.backup)
        }
        Ok(request) => {
            let _one = turns.command.lock().unwrap_or_else(PoisonError::into_inner);
            carry_out(&request, stream, server)
        }
        // The error of the parser would repeat the line, which may hold a key.
        Err(_) => {
            ControlResponse::Failed("the server does not know this command; it may be older".into())
        }
    };
    send(stream, &reply)
}

fn carry_out(request: &Request, stream: &UnixStream, server: &Server) -> ControlResponse {
    let Server { dir, store, link_base, startup, tls } = server;
    match request {
        Request::RotateKey { new_key, kept } => {
            rotate_key((new_key.as_deref(), kept.as_deref()), stream, dir, store)
        }
        Request::Audit { request } => match audit_reply(store, request) {
            Ok(reply) => ControlResponse::Audit(reply),
            Err(error) => ControlResponse::Failed(error.message().into()),
        },
        Request::ResetPassword { email, public_url, reset_second_factor } => {
            let link_base = public_url.as_deref().unwrap_or(link_base);
            match reset_password(store, email, link_base, *reset_second_factor) {
                Ok(link) => ControlResponse::PasswordReset(link),
                Err(error) => ControlResponse::Failed(error.message().into()),
            }
        }
        Request::InstallationAdmins { change } => {
            match admins_of_installation(store, change.as_ref()) {
                Ok(admins) => ControlResponse::InstallationAdmins(admins),
                Err(error) => ControlResponse::Failed(error.message().into()),
            }
        }
        Request::Export { slug } => match export(slug, stream, store) {
            Ok(report) => ControlResponse::Exported(report),
            Err(error) => ControlResponse::Failed(error.message().into()),
        },
        Request::Import { step } => match import_step(store, step) {
            Ok(reply) => ControlResponse::Imported(reply),
            Err(error) => ControlResponse::Failed(error.message().into()),
        },
        Request::Status => match store_status(store) {
            Ok(store) => {
                let (startup, panics) = (startup.clone(), panics::count());
                let tls = tls.as_ref().map(|own| own.status());
                ControlResponse::Status(ServerStatus { startup, store, panics, tls })
            }
            Err(error) => ControlResponse::Failed(error.message().into()),
        },
        Request::RecordBackup { backup } => match backup.write(dir.path()) {
            Ok(()) => ControlResponse::Done,
            Err(error) => ControlResponse::Failed(format!("it cannot be recorded: {error}")),
        },
        Request::Backup { .. } => unreachable!("a backup has its own turn"),
    }
}

/// Sends a backup, unless another is being sent: two would slow down requests more than one may.
fn back_up(
    wanted: BackupWanted,
    stream: &UnixStream,
    server: &Server,
    turn: &Mutex<()>,
) -> ControlResponse {
    let _turn = match turn.try_lock() {
        Ok(turn) => turn,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let _ = backup::send_end(stream);
            return ControlResponse::Failed(
                "another backup of this server is being made; repeat the command when it is done"
                    .into(),
            );
        }
    };
    match backup::serve(stream, &server.dir, &server.store, wanted) {
        Ok(()) => ControlResponse::Done,
        Err(error) => {
            tracing::warn!(%error, "a backup was not completed");
            ControlResponse::Failed(error.message().into())
        }
    }
}

/// Sends the lines of an export in parts. A client that does not read them ends it, and with it the
/// snapshot.
fn export(slug: &str, stream: &UnixStream, store: &Store) -> Result<ExportReport> {
    let lost = |_| Error::internal("the client does not read what it asked for");
    let mut part = String::new();
    let report = export_organization(store, slug, &mut |line| {
        part.push_str(&line);
        if part.len() >= PART_BYTES {
            send(stream, &ControlResponse::Lines(std::mem::take(&mut part))).map_err(lost)?;
        }
        Ok(())
    })?;
    send(stream, &ControlResponse::Lines(part)).map_err(lost)?;
    Ok(report)
}

fn rotate_key(
    (new_key, kept): (Option<&str>, Option<&str>),
    stream: &UnixStream,
    dir: &DataDir,
    store: &Store,
) -> ControlResponse {
    let next = match new_key.map(secret_key::key_in_text) {
        Some(None) => return ControlResponse::Failed("the new key is no key".into()),
        Some(key) => key,
        None => None,
    };
    let rotated = rotate(dir, store, next, kept, &mut |progress| {
        let crate::store::RotationProgress { resealed, done, all } = progress;
        // A client that has gone does not end the rotation.
        let _ = send(stream, &ControlResponse::Progress { resealed, done, all });
    });
    match rotated {
        Ok(rotated) => {
            report(&rotated);
            let Rotated { resealed, to_do, is_destroyed } = rotated;
            ControlResponse::Rotated { resealed, to_do, is_destroyed }
        }
        Err(error) => {
            tracing::error!(%error, "the key could not be replaced");
            ControlResponse::Failed(error.0)
        }
    }
}

fn report(rotated: &Rotated) {
    let resealed = rotated.resealed;
    tracing::info!(resealed, "the key was replaced; the old one opens nothing any more");
}

fn send(mut stream: &UnixStream, reply: &ControlResponse) -> std::io::Result<()> {
    let line = serde_json::to_string(reply).map_err(std::io::Error::other)?;
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Completes a replacement of the key that an earlier process began, on a thread of its own.
///
/// # Errors
/// If the format file cannot be read.
pub fn resume_rotation(
    dir: DataDir,
    store: Store,
) -> std::result::Result<(), super::data_dir_error::DataDirError> {
    if !dir.is_rotating()? {
        return Ok(());
    }
    tracing::info!("resuming the replacement of the key");
    std::thread::spawn(move || match complete_rotation(&dir, &store) {
        Ok(rotated) => rotated.iter().for_each(report),
        Err(error) => tracing::error!(%error, "the key could not be replaced"),
    });
    Ok(())
}

// ── The client's side ────────────────────────────────────────────────────────

/// Returns whether a server of this directory answers.
pub fn is_served(dir: &DataDir) -> bool {
    in_directory(dir.path(), UnixStream::connect).is_ok()
}

/// Sends a request to the server of a directory, and passes every reply but the last to `progress`.
/// Returns the last one; `None` if no server runs.
///
/// # Errors
/// If the server ends without one, or the socket fails.
pub fn ask(
    dir: &DataDir,
    request: &Request,
    progress: &mut dyn FnMut(ControlResponse),
) -> std::io::Result<Option<ControlResponse>> {
    let Some(stream) = connect(dir, request)? else { return Ok(None) };
    last_reply(BufReader::new(stream), progress).map(Some)
}

/// Sends a request to the server of a directory; `None` if no server runs.
///
/// # Errors
/// If the socket fails.
pub fn connect(dir: &DataDir, request: &Request) -> std::io::Result<Option<UnixStream>> {
    let mut stream = match in_directory(dir.path(), UnixStream::connect) {
        Ok(stream) => stream,
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let line = serde_json::to_string(request).map_err(std::io::Error::other)?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    Ok(Some(stream))
}

/// Reads the replies to a request, and passes every one but the last to `progress`.
///
/// # Errors
/// If the server ends without one, or the socket fails.
pub fn last_reply(
    stream: impl BufRead,
    progress: &mut dyn FnMut(ControlResponse),
) -> std::io::Result<ControlResponse> {
    for line in stream.lines() {
        match serde_json::from_str(&line?).map_err(std::io::Error::other)? {
            part @ (ControlResponse::Progress { .. } | ControlResponse::Lines(_)) => progress(part),
            last => return Ok(last),
        }
    }
    let ended = "the server ended before the command did; start it again, or repeat the command";
    Err(std::io::Error::other(ended))
}
