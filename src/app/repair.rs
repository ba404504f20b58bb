//! Repair of a data directory (reference: backup, "Repair"): a new directory is made of what can be read
//! of the damaged one, which is only read.
//!
//! A dry run makes the same directory, and removes it again: so it says what a repair would do, not
//! what it might.

mod losses;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::backup::{BackupError, Building, require_empty, unwritable};
use super::check::check_store;
use super::data::DataDir;
use super::erasures::Erasures;
use super::placement::{
    ACME_CERTIFICATE, ACME_STATE, DATABASE, ERASURES, FORMAT_FILE, KEY, LAST_BACKUP, LEFT_OUT,
    SETUP_LINK, TLS_CERTIFICATE, TLS_KEY,
};
use super::written_by;
use crate::api::audit::Restart;
use crate::auth::{BY_SLUG, Organization};
use crate::base::{Error, Id, Keys, Result as BaseResult};
use crate::resources::{self, organizations};
use crate::store::check::Findings;
use crate::store::engine::{
    LocalStorage as _, LoggedRedb, Redb, give_to_owner_of_directory, open_read_only, open_salvaged,
};
use crate::store::repair::{Damaged, Mending, copy_readable, resolve_references, unique_keys};
use crate::store::{Clock, Org, Store, build_indexes, table_names};

pub use losses::{Losses, MAX_LISTED};

/// What is copied beside the database, if it is there, in this order: without the last one the
/// directory is none.
const COPIED: [&str; 10] = [
    KEY,
    "secret.key.new",
    ERASURES,
    LAST_BACKUP,
    SETUP_LINK,
    TLS_KEY,
    TLS_CERTIFICATE,
    ACME_CERTIFICATE,
    ACME_STATE,
    FORMAT_FILE,
];

/// What is to be repaired, and how.
pub struct RepairSettings<'a> {
    /// The damaged directory.
    pub damaged: &'a DataDir,
    /// Where the new one is made.
    pub into: PathBuf,
    /// Whether it stays.
    pub apply: bool,
    /// Whether the pages of the damaged database are whole, as the first step of the check found.
    pub is_file_intact: bool,
}

/// What a repair found and did, or would do.
pub struct Repaired {
    /// What the check finds in the damaged directory.
    pub before: Findings,
    /// What was done; `None`: the directory is sound.
    pub done: Option<Done>,
}

/// What was done.
pub struct Done {
    /// Records in the new directory.
    pub records: u64,
    /// What is missing of the write-ahead log, a sentence each: changes that were acknowledged.
    pub missing_log: Vec<String>,
    pub losses: Losses,
    /// The audit logs whose chain was restarted.
    pub restarted: Vec<RestartedLog>,
    /// What the check finds in the new directory.
    pub after: Findings,
}

/// An audit log whose chain was restarted.
pub struct RestartedLog {
    /// The slug of its organization.
    pub org_slug: String,
    /// The first entry that was not as it was appended; `None`: only what its filters find was
    /// made anew.
    pub broken_at: Option<u64>,
    /// How many entries were chained again.
    pub chained: u64,
}

/// Repairs a data directory that no server has open.
///
/// # Errors
/// If it cannot be opened at all, or the new one cannot be written.
pub fn repair(settings: &RepairSettings<'_>) -> Result<Repaired, BackupError> {
    let RepairSettings { damaged, into, .. } = settings;
    damaged.require_exists()?;
    let target = DataDir::at(into.clone());
    let (old, new) = (damaged.absolute(), target.absolute());
    if new.starts_with(&old) {
        return Err(BackupError::Unusable(format!(
            "{} is in the damaged directory, which stays as it is; name another place with --into",
            new.display()
        )));
    }
    if old.starts_with(&new) {
        return Err(BackupError::Unusable(format!(
            "{} has the damaged directory in it, which stays as it is; name another place with \
             --into",
            new.display()
        )));
    }
    require_empty(into)?;
    let (keys, _) = damaged.keys_to_read()?;
    let before = check_damaged(settings, keys.clone())?;
    if before.wrong == 0 {
        return Ok(Repaired { before, done: None });
    }
    let building = Building::begin(&target, ".repairing", "repairs")?;
    give_like(&building.path, &old)?;
    let done = build(settings, &building.path, &keys)?;
    if settings.apply {
        copy_files(&old, &building.path)?;
        building.complete(&target)?;
    }
    Ok(Repaired { before, done: Some(done) })
}

/// The damaged database with its log.
struct Opened {
    disk: LoggedRedb,
    /// Why the log cannot be used as it is, if it cannot.
    log_error: Option<String>,
    /// What is missing of the log, a sentence each.
    missing_log: Vec<String>,
}

/// Opens the damaged database, with what is left of its log.
fn open(damaged: &DataDir) -> BaseResult<Opened> {
    let (path, tables) = (damaged.database(), table_names(&resources::tables()));
    let error = match open_read_only(&path, tables.clone()) {
        Ok(disk) => return Ok(Opened { disk, log_error: None, missing_log: Vec::new() }),
        Err(error) => error,
    };
    // The database library panics on some damaged pages.
    match catch_unwind(AssertUnwindSafe(|| open_salvaged(&path, tables))) {
        Ok(Ok((disk, missing_log))) => {
            Ok(Opened { disk, log_error: Some(detail(&error)), missing_log })
        }
        // The first error says what can be done.
        Ok(Err(_)) | Err(_) => Err(error),
    }
}

/// Checks the damaged directory, as `roadstead check` does.
fn check_damaged(settings: &RepairSettings<'_>, keys: Keys) -> Result<Findings, BackupError> {
    let mut findings = Findings::default();
    if !settings.is_file_intact {
        let file = settings.damaged.database();
        findings.report(format!("{}: the file is damaged", file.display()));
    }
    let Opened { disk, log_error, missing_log } =
        open(settings.damaged).map_err(|error| unusable(&error))?;
    log_error.into_iter().chain(missing_log).for_each(|what| findings.report(what));
    let progress = settings.damaged.progress();
    match Store::start(disk, Clock::system(), keys, &resources::tables()) {
        Ok(store) => check_store(&store, &progress, &mut findings)?,
        Err(error) => findings.report(detail(&error)),
    }
    Ok(findings)
}

fn detail(error: &Error) -> String {
    error.log_detail().unwrap_or(error.message()).to_string()
}

fn unusable(error: &Error) -> BackupError {
    BackupError::Unusable(format!(
        "{}; if it cannot be opened, nothing can be read of it: restore a backup",
        detail(error)
    ))
}

/// Builds the new directory, except for the files beside the database.
fn build(settings: &RepairSettings<'_>, path: &Path, keys: &Keys) -> Result<Done, BackupError> {
    let tables = resources::tables();
    let progress = settings.damaged.progress();
    let mut losses = Losses::begin(&path.join(LEFT_OUT))?;
    let ledger = ledger(settings.damaged)?;
    let Opened { mut disk, missing_log, .. } =
        open(settings.damaged).map_err(|error| unusable(&error))?;
    missing_log.iter().try_for_each(|what| losses.add_missing_log(what))?;
    let damaged = Damaged {
        reader: &*disk.snapshot()?,
        tables: &tables,
        is_erased: &|table, key| ledger.as_ref().is_some_and(|ledger| ledger.has(table, key)),
        progress: &progress,
    };
    let storage = Redb::create(&path.join(DATABASE), table_names(&tables))?;
    let mut lost = |loss: &crate::store::repair::Loss<'_>| losses.add(loss, &tables);
    let (mut storage, _) = copy_readable(&damaged, storage, &mut lost)?;
    build_indexes(&mut storage, &tables, &progress)?;
    let slugs = unique_keys(damaged.reader, &BY_SLUG);
    let mending = Mending {
        recreate: &|tx| organizations::recreate(tx, &slugs),
        organizations: organizations::all,
        mend: resources::mend,
    };
    resolve_references(&mut storage, &tables, (keys, &mending), &progress, &mut lost)?;
    losses.finish()?;
    let store = Store::start(storage, Clock::system(), keys.clone(), &tables)?;
    progress("audit logs");
    let restarted = restart_audit_logs(&store)?;
    let mut after = Findings::default();
    check_store(&store, &progress, &mut after)?;
    store.close();
    Ok(Done { records: after.records, missing_log, losses, restarted, after })
}

/// Reads the ledger of erasures: what it names does not come back. One that cannot be read is refused,
/// as a restore does.
fn ledger(damaged: &DataDir) -> Result<Option<Erasures>, BackupError> {
    if !damaged.path().join(ERASURES).exists() {
        return Ok(None);
    }
    Erasures::read(damaged.path()).map(Some).map_err(|error| BackupError::Unusable(error.0))
}

/// Restarts the chains that are not as they were left.
fn restart_audit_logs(store: &Store) -> BaseResult<Vec<RestartedLog>> {
    let mut restarted = Vec::new();
    for org in store.read_now(Id::NIL, organizations::all)? {
        let Some(mut restart) = store.read_now(org, Restart::of_broken)? else { continue };
        while !restart_step(store, org, &mut restart)? {}
        let organization = store.read_now(org, |view| view.fetch::<Organization>(&org))?;
        let Restart { broken_at, chained, .. } = restart;
        let org_slug = organization.slug.to_string();
        restarted.push(RestartedLog { org_slug, broken_at, chained });
    }
    Ok(restarted)
}

fn restart_step(store: &Store, org: Id<Org>, restart: &mut Restart) -> BaseResult<bool> {
    let before = restart.clone();
    let (is_over, after) = store.write_blocking(org, move |tx| {
        let mut restart = before.clone(); // The transaction may run again.
        Ok((restart.step(tx)?, restart))
    })?;
    *restart = after;
    Ok(is_over)
}

/// Copies what belongs to the directory besides the database.
fn copy_files(old: &Path, new: &Path) -> Result<(), BackupError> {
    written_by::note(new).map_err(unwritable(new))?;
    for name in COPIED {
        let (from, to) = (old.join(name), new.join(name));
        if !from.exists() {
            continue;
        }
        // With its mode: keys are readable by their owner only.
        fs::copy(&from, &to).map_err(unwritable(&to))?;
        let file = File::open(&to)?;
        give_to_owner_of_directory(&file, &to);
        file.sync_all()?;
    }
    Ok(())
}

/// Gives a new directory to the owner of the old one, if this is root.
fn give_like(new: &Path, old: &Path) -> Result<(), BackupError> {
    let (owner, own) = (old.metadata()?, new.metadata()?);
    if owner.uid() != own.uid() {
        // Only root may. For others there is nothing to give.
        let _ = chown(new, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(())
}
