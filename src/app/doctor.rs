//! What `roadstead doctor` looks at: the files of a data directory, the machine, the settings, and
//! what the server or the store says of itself.

mod acme;
mod findings;
#[cfg(feature = "postgres")]
mod store;
mod tls;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::backup::LastBackup;
use super::control::{self, ControlResponse, Request};
use super::data::DataDir;
use super::erasures::Erasures;
use super::moving::Trial;
use super::placement::{
    DATABASE, ERASURES, FORMAT_FILE, KEY, LOST_AND_FOUND, RESERVE, SETUP_LINK, SOCKET,
};
use super::status::{ServerStatus, Setting, Startup, StoreStatus, store_status};
use crate::base::{HttpUrl, Time};
use crate::http::max_connections;
use crate::store::{Clock, KnownDamage};

use findings::Findings;
pub use findings::{Finding, Level};
#[cfg(feature = "postgres")]
pub use store::examine_store;
use tls::{Served, is_local};

/// A backup is expected every day; one may fail.
const BACKUP_SECS: i64 = 2 * 24 * 3600;

/// Ids are at most 10 s ahead of the clock after a restart; a minute is a clock that was set back.
const CLOCK_SECS: i64 = 60;

/// With less than 256 MiB the disk may be full soon, however small the database is.
const FREE_BYTES: u64 = 256 * 1024 * 1024;

/// Fewer connections than this are soon used up by agents that wait.
const FEW_CONNECTIONS: usize = 1024;

/// A setup link is valid for 30 minutes, and renewed by a running server.
const SETUP_LINK_SECS: i64 = 30 * 60;

/// Examines a data directory, its server if one runs, and the settings: those of the running server,
/// or else `own`.
pub fn examine(dir: &DataDir, own: Startup) -> Vec<Finding> {
    let mut found = Findings::default();
    if let Err(error) = dir.require_visible() {
        found.error("directory", error.0, "repeat this as its owner or as root");
        return found.0;
    }
    if !dir.exists() {
        let at = dir.absolute();
        let to_do = "name yours with --data, or create one with: roadstead init";
        found.error("directory", format!("{} is not a data directory", at.display()), to_do);
        return found.0;
    }
    found.ok("directory", format!("{} is a data directory", dir.absolute().display()));
    rights(dir.path(), &mut found);
    let server = server(dir, &mut found);
    let store = match &server {
        Some(server) => Some(server.store.clone()),
        None => offline(dir, &mut found),
    };
    key(dir, server.is_some(), &mut found);
    space(dir, &mut found);
    if let Some(store) = &store {
        clock(store, &mut found);
        setup_link(dir, store, server.is_some(), &mut found);
        import(store, &mut found);
        damage(store, &mut found);
    }
    if Trial::is_left(dir) {
        let message = "an import was interrupted while its file was tried";
        found.warn("import", message, "repeat it, or remove the directory import-trial");
    }
    erasures(dir.path(), &mut found);
    last_backup(dir.path(), &mut found);
    let (startup, served) = match server {
        Some(server) => (server.startup, Served::Running(server.tls)),
        None => (own, Served::Stopped),
    };
    open_files(&startup, &mut found);
    settings(&startup.settings, &mut found);
    tls::judge(&startup.settings, Some(dir.path()), &served, &mut found);
    found.0
}

// ── Files ────────────────────────────────────────────────────────────────────

/// Nobody but the owner may read anything of the directory, and all of it has one owner.
fn rights(path: &Path, found: &mut Findings) {
    let mut wrong = false;
    let owner = fs::metadata(path).map(|dir| dir.uid()).ok();
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.file_name() != LOST_AND_FOUND);
    let entries = own.map(|entry| entry.path());
    for path in std::iter::once(path.to_path_buf()).chain(entries) {
        // Of a link what it leads to: systemd puts one in the place of its state directories.
        let Ok(inspected) = fs::metadata(&path) else { continue };
        let (mode, shown) = (inspected.mode() & 0o777, path.display());
        if mode & 0o077 != 0 {
            wrong = true;
            let private = if inspected.is_dir() { 700 } else { 600 };
            let message = format!("{shown} is accessible to other users (mode {mode:03o})");
            found.error("rights", message, &format!("chmod {private} {shown}"));
        }
        if owner.is_some_and(|owner| owner != inspected.uid()) {
            wrong = true;
            let message = format!("{shown} belongs to another user than its directory");
            found.error("rights", message, &format!("chown it to the user of {shown}'s directory"));
        }
    }
    for name in [DATABASE, FORMAT_FILE] {
        if !path.join(name).exists() {
            wrong = true;
            let message = format!("{name} is missing");
            found.error("files", message, "restore a backup into another directory");
        }
    }
    if !wrong {
        found.ok("rights", "only its owner can read it");
    }
}

/// Whether a server runs, and answers.
fn server(dir: &DataDir, found: &mut Findings) -> Option<ServerStatus> {
    match control::ask(dir, &Request::Status, &mut |_| {}) {
        Ok(Some(ControlResponse::Status(status))) => {
            let version = &status.startup.version;
            found.ok("server", format!("Roadstead {version} serves it"));
            if version != env!("CARGO_PKG_VERSION") {
                let message = format!("this command is of version {}", env!("CARGO_PKG_VERSION"));
                found.warn("version", message, "restart the server");
            }
            panics(status.panics, found);
            Some(status)
        }
        Ok(None) if dir.path().join(SOCKET).exists() => {
            found.warn(
                "socket",
                "no server answers at the control socket: it was killed",
                "start the server",
            );
            None
        }
        Ok(None) => {
            found.ok("server", "no server runs");
            None
        }
        Ok(Some(_)) => {
            let message = "the server gave an unexpected reply";
            found.error("server", message, "restart it: it may be of another version");
            None
        }
        Err(error) => {
            let message = format!("the control socket cannot be used: {error}");
            found.error("socket", message, "run this as the user of the server, or as root");
            None
        }
    }
}

/// A panic is a fault of the program, and may have left something half done.
fn panics(count: u64, found: &mut Findings) {
    match count {
        0 => found.ok("panics", "the server has not panicked since its start"),
        _ => found.warn(
            "panics",
            format!("panics of the server since its start: {count}"),
            "find the lines with \"panicked\" in its log and report them; then stop it, and run \
             roadstead check",
        ),
    }
}

/// Opens a directory that no server has open.
fn offline(dir: &DataDir, found: &mut Findings) -> Option<StoreStatus> {
    let opened = dir.open_to_check().map_err(|error| error.0);
    let read = opened.and_then(|store| store_status(&store).map_err(|error| error.to_string()));
    match read {
        Ok(status) => {
            found.ok("database", "it can be opened; roadstead check reads all of it");
            Some(status)
        }
        Err(why) => {
            let to_do = "see the message; if the database is damaged: roadstead restore";
            found.error("database", why, to_do);
            None
        }
    }
}

fn key(dir: &DataDir, is_served: bool, found: &mut Findings) {
    match dir.require_key() {
        Ok(()) if dir.path().join(KEY).exists() => found.ok(
            "key",
            "the key is there and right; a backup does not hold it, so keep a copy elsewhere",
        ),
        Ok(()) => found.ok("key", "the key is kept outside of the directory, and right"),
        Err(_) if is_served => found.ok("key", "the server has the key"),
        Err(error) => found.error(
            "key",
            error.0,
            "give this command the key as the server gets it: CREDENTIALS_DIRECTORY or \
             ROADSTEAD_SECRET_KEY",
        ),
    }
    if dir.is_rotating().unwrap_or(false) {
        let to_do = "roadstead secrets rotate, or start the server, which completes it";
        found.warn("key", "the key is being replaced", to_do);
    }
}

/// Returns the bytes that are free on the disk of a directory; `None` if that cannot be found out.
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(dir).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Judges the free bytes of the disk of a database of `size` bytes.
pub(super) fn space_level(free: u64, size: u64) -> Level {
    if free < FREE_BYTES {
        Level::Error
    } else if free < size {
        Level::Warning
    } else {
        Level::Ok
    }
}

fn space(dir: &DataDir, found: &mut Findings) {
    let size = dir.database().metadata().map_or(0, |file| file.len());
    let Some(free) = free_bytes(dir.path()) else { return };
    let mib = |bytes: u64| format!("{} MiB", bytes / (1024 * 1024));
    let message = format!("{} are free, the database has {}", mib(free), mib(size));
    match space_level(free, size) {
        Level::Error => {
            let to_do = "free some space, or move the directory to a larger disk";
            found.error("space", message, to_do);
        }
        Level::Warning => {
            let to_do = "free some space: a copy of the database would not fit";
            found.warn("space", message, to_do);
        }
        Level::Ok => found.ok("space", message),
    }
    if !dir.path().join(RESERVE).exists() {
        let message = "the space kept for deletions is used up, or no server has run yet";
        found.warn("reserve", message, "free some space, and start the server");
    }
}

// ── Time and records ─────────────────────────────────────────────────────────

/// What requests ran into. Without any, nothing is said: only `check` reads everything.
fn damage(store: &StoreStatus, found: &mut Findings) {
    if let Some(KnownDamage { count, first }) = &store.damage {
        found.error(
            "damage",
            format!("the server has found damage, {count} times since its start; first: {first}"),
            "stop the server and run: roadstead check",
        );
    }
}

fn clock(store: &StoreStatus, found: &mut Findings) {
    let now = Clock::system().now();
    match store.newest_id_at {
        Some(newest) if newest.minus_secs(CLOCK_SECS) > now => {
            let message = format!("the clock says {now}, but something was stored at {newest}");
            found.error("clock", message, "set the clock: times and deadlines are wrong");
        }
        _ => found.ok("clock", format!("{now}, not behind what is stored")),
    }
}

fn setup_link(dir: &DataDir, store: &StoreStatus, is_served: bool, found: &mut Findings) {
    let path = dir.path().join(SETUP_LINK);
    let Ok(file) = path.metadata() else { return };
    let age = Clock::system().now().secs() - file.mtime();
    if store.is_set_up {
        let message = "there is a setup link although it is set up";
        found.warn("setup-link", message, &format!("rm {}", path.display()));
    } else if !is_served && age > SETUP_LINK_SECS {
        let message = "the setup link has expired";
        found.warn("setup-link", message, "start the server, which makes another");
    }
}

fn import(store: &StoreStatus, found: &mut Findings) {
    if let Some(slug) = &store.unfinished_import {
        let message = format!("the import of the organization {slug} is not finished");
        let to_do = "repeat it with the same file, or remove it: roadstead import --undo";
        found.warn("import", message, to_do);
    }
}

fn erasures(path: &Path, found: &mut Findings) {
    match Erasures::read(&path.join(ERASURES)) {
        Ok(ledger) => {
            let Erasures { all, since, .. } = ledger;
            let count = all.len();
            found.ok(
                "erasures",
                format!("the ledger is complete since {since}; erasures in it: {count}"),
            );
        }
        Err(error) => found.error(
            "erasures",
            error.0,
            "copy it from where you keep a copy, or start the server, which begins another: older \
             backups then bring back what was deleted",
        ),
    }
}

/// Whether another backup should have been made by `now`.
pub(super) fn is_backup_due(last: Option<&LastBackup>, now: Time) -> bool {
    // One of a time to come was made while the clock was ahead: when is not known.
    let is_recent = |at: Time| at >= now.minus_secs(BACKUP_SECS) && !at.is_beyond(now, 0);
    last.is_none_or(|last| !is_recent(last.taken_at))
}

fn last_backup(path: &Path, found: &mut Findings) {
    let to_do = "roadstead backup FILE, every day by a timer: see packaging/README.md";
    let last = LastBackup::read(path);
    let message = match &last {
        None => "no backup was made yet".to_string(),
        Some(last) => format!("the last backup is of {}", last.taken_at),
    };
    if is_backup_due(last.as_ref(), Clock::system().now()) {
        found.warn("backup", message, to_do);
    } else {
        found.ok("backup", message);
    }
}

// ── Settings ─────────────────────────────────────────────────────────────────

fn open_files(startup: &Startup, found: &mut Findings) {
    let connections = max_connections(startup.open_files);
    let message = format!("{} files: {connections} connections", startup.open_files);
    if connections < FEW_CONNECTIONS {
        found.warn("open-files", message, "raise the limit: LimitNOFILE=32768 of the unit");
    } else {
        found.ok("open-files", message);
    }
}

fn settings(settings: &[Setting], found: &mut Findings) {
    let value = |flag: &str| tls::value(settings, flag);
    let listen = value("--listen").unwrap_or_default();
    let is_local = is_local(listen);
    let has_tls = tls::is_on(settings);
    match (value("--public-url"), value("--trusted-proxy")) {
        (Some(url), _) if !HttpUrl::parse(url).is_ok_and(|url| url.is_origin()) => found.error(
            "public-url",
            format!("{url} has a path: the web console works at the root of a host only"),
            "--public-url with a host of its own for the server, without a path",
        ),
        (Some(url), _) if url.starts_with("http:") && has_tls => found.error(
            "public-url",
            format!("{url} is plain HTTP, and the server speaks TLS: it does not start so"),
            "--public-url with https://",
        ),
        (Some(url), None) if url.starts_with("https:") && !has_tls => found.warn(
            "trusted-proxy",
            format!(
                "{url} is served through a proxy, and none is trusted: all clients count as one"
            ),
            "--trusted-proxy with the address of the proxy",
        ),
        (None, Some(_)) => found.warn(
            "public-url",
            "there is a proxy, and no public URL: links and signed requests need it",
            "--public-url with the URL that clients use",
        ),
        (None, None) if !is_local && !has_tls => found.warn(
            "public-url",
            format!("it listens on {listen}, and has no public URL"),
            "--public-url with the URL that clients use",
        ),
        (Some(url), _) => found.ok("public-url", url),
        (None, None) if has_tls => {} // Judged by the names of the certificate.
        (None, None) => found.ok("public-url", "not set: it is for this machine"),
    }
    match value("--smtp-url") {
        Some(_) => found.ok("mail", "mail is configured"),
        None => found.ok("mail", "no mail can be sent: --smtp-url and --mail-from are not set"),
    }
    if value("--oidc").is_some() {
        let message =
            "providers of sign-ins are configured, and not asked: what fails is in the log";
        found.ok("sign-in", message);
    }
    if value("--rate-limit") == Some("0") {
        let message = "requests are not limited: --rate-limit is 0";
        found.warn("rate-limit", message, "set a limit, so that one caller cannot use it all");
    }
}
