//! Restores a backup into a new data directory, which is built beside its place and moved there when
//! it is complete.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::error::BackupError;
use super::header::{Header, Totals};
use super::reader::Backup;
use crate::app::data::DataDir;
use crate::app::erasures::Erasures;
use crate::app::format_file::{Format, check_of};
use crate::app::placement::{self, DATABASE, FORMAT_FILE, KEY, LOST_AND_FOUND, UNFINISHED};
use crate::app::secret_key::{self, KeySource, write_private};
use crate::app::written_by;
use crate::base::{MasterKey, Time};
use crate::store::engine::Redb;
use crate::store::{
    Clock, Erasure, Record as _, RowLoader, TableInfo, build_indexes, decode, table_names,
};

/// What is restored besides the backup.
pub struct RestoreSettings {
    /// What messages call the backup.
    pub file: String,
    /// The installation's key, to be stored in the directory; without it the key is taken from the
    /// backup, or is kept outside of the directory.
    pub key: Option<MasterKey>,
    /// The ledger of erasures: a file, a data directory, or the URL of a store in PostgreSQL; `None`
    /// restores what was erased, too.
    pub erasures: Option<PathBuf>,
    /// Whether the ends of the audit logs are returned in the header.
    pub collects_audit_heads: bool,
}

/// What was restored.
#[derive(Debug, PartialEq)]
pub struct Restored {
    /// What the backup held.
    pub totals: Totals,
    /// Records that were erased after the backup, and left out.
    pub erased: u64,
    /// Whether the key is in the directory.
    pub has_key: bool,
    /// What is known of the ledger of erasures; `None` without one.
    pub ledger: Option<LedgerUsed>,
}

/// The ledger of erasures that was used.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerUsed {
    /// When the last erasure in it was requested; `None` if it has none.
    pub until: Option<Time>,
    /// Whether it could be compared with what the backup notes of it: the backup of an earlier release
    /// notes nothing.
    pub is_compared: bool,
}

impl LedgerUsed {
    pub(super) fn of(ledger: &Erasures, header: &Header) -> Self {
        LedgerUsed { until: ledger.until(), is_compared: header.erasures.is_some() }
    }
}

/// Restores a backup, from its decrypted stream, into `dir`, which must not exist or be empty.
///
/// # Errors
/// If the backup is damaged, made by a newer Roadstead, or its key is missing or another one; if the
/// ledger is of another installation, was begun after the backup or is older than it; if the directory
/// is not empty or
/// cannot be written. Nothing is left behind then.
pub fn restore(
    input: impl Read,
    dir: &DataDir,
    settings: &RestoreSettings,
    progress: &mut dyn FnMut(&Totals),
) -> Result<(Header, Restored), BackupError> {
    require_empty(dir.path())?;
    let of_file = |error: BackupError| error.of(&settings.file);
    let backup = Backup::open(input).map_err(of_file)?;
    let backup = backup.collecting_audit_heads(settings.collects_audit_heads);
    let key = key_of(&backup.header, dir.key_source(), settings)?;
    let erasures = ledger_for(&backup.header, settings, &key.key)?;
    let key = Some(key.key).filter(|_| !key.is_outside);
    let building = Building::begin(dir, ".restoring", "restores")?;
    let tables = crate::resources::tables();
    let storage = Redb::create(&building.path.join(DATABASE), table_names(&tables))?;
    let mut loader = RowLoader::new(storage);
    let mut erased = 0;
    // A store that is its own ledger has all of them there; over a directory they are in a file.
    let mut own: Vec<Erasure> = Vec::new();
    let add = |table: &TableInfo, key: &[u8], value: &[u8]| {
        if erasures.as_ref().is_some_and(|ledger| ledger.has(table.name, key)) {
            erased += 1;
            return Ok(());
        }
        if table.name == Erasure::TABLE {
            own.push(decode(key, value)?);
            return Ok(());
        }
        Ok(loader.add(table.name, key, value)?)
    };
    let (header, totals) = backup.read(add, progress).map_err(of_file)?;
    let mut storage = loader.finish()?;
    build_indexes(&mut storage, &tables, &dir.progress())?;
    drop(storage);
    if let Some(key) = &key {
        secret_key::write(&building.path, KEY, key)?;
    }
    let ledger = erasures.as_ref().map(|ledger| LedgerUsed::of(ledger, &header));
    if let Some(ledger) = new_ledger(erasures, own, &header) {
        ledger.write(&building.path)?;
    }
    if let Some(version) = &header.written_by {
        // Without it the first start recommends a check, as it would have of the directory itself.
        written_by::note_version(&building.path, version).map_err(unwritable(&building.path))?;
    }
    // Last: without it the directory is none.
    write_private(&building.path.join(FORMAT_FILE), header.directory_format.as_bytes())?;
    building.complete(dir)?;
    Ok((header, Restored { totals, erased, has_key: key.is_some(), ledger }))
}

/// Returns the ledger of the new directory: the one that was given, with the erasures in the backup. If
/// none was given, the new one is complete from now on; `None` if it would be empty.
fn new_ledger(given: Option<Erasures>, own: Vec<Erasure>, header: &Header) -> Option<Erasures> {
    match given {
        Some(given) => Some(given.with(own)),
        None if own.is_empty() => None,
        None => {
            let now = Clock::system().now();
            Some(Erasures::new(header.installation.clone(), now, own))
        }
    }
}

/// Refuses a place where something is, but for what every new file system has.
pub(in crate::app) fn require_empty(path: &Path) -> Result<(), BackupError> {
    let refused = |why: String| {
        Err(BackupError::Unusable(format!(
            "{} {why}; use a directory that is empty or does not exist",
            path.display()
        )))
    };
    match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return refused(format!("cannot be used: {error}")),
        Ok(_) => {}
    }
    let is_own = std::path::absolute(path).is_ok_and(|path| is_mount_point(&path));
    let own: &[&str] = if is_own { &[UNFINISHED] } else { &[] };
    match placement::what_is_in(path, own) {
        None => Ok(()),
        Some(found) if path.join(UNFINISHED).join(FORMAT_FILE).exists() => refused(format!(
            "has {found}, which a restore or migration was moving there when it was interrupted; \
             delete all of it, and {UNFINISHED}"
        )),
        Some(found) => refused(format!("is not empty: it has {found}")),
    }
}

/// Whether a directory cannot be replaced by another: something is mounted there. What becomes its
/// content is made in it, which is also where there is room for it.
fn is_mount_point(place: &Path) -> bool {
    let known = statx(CWD, place, AtFlags::empty(), StatxFlags::empty());
    if known.is_ok_and(|known| known.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        return true;
    }
    // Kernels before Linux 5.8 do not say it.
    let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
    let Some((own, above)) = device(place).zip(place.parent().and_then(device)) else {
        return false;
    };
    own != above || place.join(LOST_AND_FOUND).exists()
}

/// The key of a backup.
pub(super) struct BackupKey {
    pub key: MasterKey,
    /// Whether it is kept outside of any directory, where the server will find it, too.
    pub is_outside: bool,
}

/// Returns the key of a backup.
pub(super) fn key_of(
    header: &Header,
    source: &KeySource,
    settings: &RestoreSettings,
) -> Result<BackupKey, BackupError> {
    let format = Format::parse(Path::new(""), &header.directory_format)
        .map_err(|_| BackupError::Damaged("it does not say which key it belongs to".into()))?;
    let name = key_name(&format.current);
    let wrong = |what: &str| {
        BackupError::Unusable(format!("{what} is not the key of this backup, whose name is {name}"))
    };
    if let Some(key) = &settings.key {
        if check_of(key) != format.current {
            return Err(wrong("the key in the given file"));
        }
        return Ok(BackupKey { key: key.clone(), is_outside: false });
    }
    if let Some((key, origin)) = secret_key::find_outside(source)? {
        if check_of(&key) != format.current {
            return Err(wrong(&origin.to_string()));
        }
        return Ok(BackupKey { key, is_outside: true });
    }
    match header.secret_key.as_deref().map(secret_key::key_in_text) {
        Some(Some(key)) if check_of(&key) == format.current => {
            Ok(BackupKey { key, is_outside: false })
        }
        Some(_) => Err(BackupError::Damaged("the key in it is another one".into())),
        None => Err(BackupError::Unusable(format!(
            "the key of this backup is not in it; its name is {name}. Give it as \
             --secret-key-file FILE or in the variable ROADSTEAD_SECRET_KEY: without it the secrets \
             in the backup cannot be decrypted"
        ))),
    }
}

/// The name of a key: the beginning of its check.
pub fn key_name(check: &str) -> &str {
    check.get(..16).unwrap_or(check)
}

/// Reads the ledger, which must be of the same installation, complete since the backup, and not older
/// than it.
pub(super) fn ledger_for(
    header: &Header,
    settings: &RestoreSettings,
    key: &MasterKey,
) -> Result<Option<Erasures>, BackupError> {
    let Some(path) = &settings.erasures else { return Ok(None) };
    let (ledger, place) = read_ledger(path, key)?;
    if ledger.installation != header.installation {
        return Err(BackupError::Unusable(format!(
            "the ledger of erasures {place} is of another installation"
        )));
    }
    if ledger.since > header.taken_at {
        return Err(BackupError::Unusable(format!(
            "the backup is of {}, and the ledger of erasures {place} begins only at {}: what was \
             erased in between would come back",
            header.taken_at, ledger.since
        )));
    }
    if header.erasures.as_ref().is_some_and(|note| ledger.is_older_than(note)) {
        let until = ledger.until().map_or("is empty".into(), |at| format!("ends at {at}"));
        return Err(BackupError::Unusable(format!(
            "the ledger of erasures {place} is older than the backup: it {until}, and lacks \
             erasures that were in it when the backup was made, at {}. Give a newer copy of it; if \
             there is none, --without-erasures restores what was erased since",
            header.taken_at
        )));
    }
    Ok(Some(ledger))
}

/// Reads a ledger, and returns how messages call it: a file, that of a data directory, or that of a
/// store in PostgreSQL, whose URL has a password.
fn read_ledger(path: &Path, key: &MasterKey) -> Result<(Erasures, String), BackupError> {
    #[cfg(feature = "postgres")]
    if let Some(text) = path.to_str().filter(|text| text.contains("://")) {
        use crate::app::shared_store::SharedStore;
        use crate::store::engine::postgres::PostgresUrl;
        let url = PostgresUrl::parse(text)
            .map_err(|problem| BackupError::Unusable(format!("--erasures {problem}")))?;
        let place = url.shown();
        let store = SharedStore::open_to_read(url, key.clone(), None, &|_| {})?;
        return Ok((store.erasures()?, place));
    }
    #[cfg(not(feature = "postgres"))]
    let _ = key;
    Ok((Erasures::read(path)?, path.display().to_string()))
}

/// A directory that is being built beside its place. Dropped before it is complete, it is removed.
pub(in crate::app) struct Building {
    pub path: PathBuf,
    /// Locked, so that another command does not take it for one that was left behind.
    _lock: File,
    is_complete: bool,
}

impl Building {
    /// Begins a directory with this at the end of its name; what a killed process left there is removed.
    ///
    /// # Errors
    /// See [`lock_beside`]; if something else is there.
    pub fn begin(dir: &DataDir, ending: &str, does: &str) -> Result<Self, BackupError> {
        let (path, lock) = lock_beside(dir, ending, does)?;
        let cannot = unwritable(&path);
        placement::require_no_foreign_files(&path)?;
        for entry in fs::read_dir(&path).map_err(&cannot)? {
            fs::remove_file(entry.map_err(&cannot)?.path()).map_err(&cannot)?;
        }
        Ok(Building { path, _lock: lock, is_complete: false })
    }

    /// Moves it to its place.
    pub fn complete(mut self, dir: &DataDir) -> Result<(), BackupError> {
        move_into_place(&self.path, &dir.absolute())?;
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Creates a directory beside the place of a data directory, with this at the end of its name, or in
/// it, where something is mounted there, and locks it. What an earlier process left in it is there.
///
/// # Errors
/// If it cannot be written, or another process `does` the same.
pub(in crate::app) fn lock_beside(
    dir: &DataDir,
    ending: &str,
    does: &str,
) -> Result<(PathBuf, File), BackupError> {
    let place = dir.absolute();
    let path = if is_mount_point(&place) {
        place.join(UNFINISHED)
    } else {
        let name = place.file_name().ok_or_else(|| {
            BackupError::Unusable(format!("{} cannot be replaced", place.display()))
        })?;
        let mut unfinished = name.to_os_string();
        unfinished.push(ending);
        place.with_file_name(unfinished)
    };
    let created = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    created.map_err(unwritable(&path))?;
    let lock = File::open(&path).map_err(unwritable(&path))?;
    if lock.try_lock().is_err() {
        return Err(BackupError::Failed(format!(
            "another process {does} into {}; wait until it is done",
            place.display()
        )));
    }
    Ok((path, lock))
}

/// Says that a directory cannot be written.
pub(in crate::app) fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> BackupError + use<> {
    let path = path.display().to_string();
    move |error| BackupError::Unusable(format!("{path} cannot be written: {error}"))
}

/// Moves a directory to its place, where there is none or an empty one, durably. One that was made in
/// its place is emptied into it, and is complete with its last file.
pub(in crate::app) fn move_into_place(path: &Path, place: &Path) -> Result<(), BackupError> {
    File::open(path)?.sync_all()?;
    if path.parent() == Some(place) {
        return move_files_up(path, place).map_err(unwritable(place));
    }
    // Replaces an empty directory, and nothing else.
    fs::rename(path, place).map_err(|error| {
        BackupError::Unusable(format!(
            "{} cannot be moved to {}: {error}; use a directory that does not exist",
            path.display(),
            place.display()
        ))
    })?;
    if let Some(parent) = place.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Moves the files of a directory into the one above it, which becomes as private as it, the one that
/// makes it a data directory last, and removes it.
fn move_files_up(path: &Path, place: &Path) -> std::io::Result<()> {
    let made = fs::metadata(path)?;
    let found = fs::metadata(place)?;
    // Who may write there and is not its owner cannot change them, and need not.
    if (made.uid(), made.gid()) != (found.uid(), found.gid()) {
        let _ = chown(place, Some(made.uid()), Some(made.gid()));
    }
    let _ = fs::set_permissions(place, made.permissions());
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name());
    }
    names.sort_by_key(|name| (name == FORMAT_FILE, name.clone()));
    for (at, name) in names.iter().enumerate() {
        let synced = if name == FORMAT_FILE { File::open(place)?.sync_all() } else { Ok(()) };
        let moved = synced.and_then(|()| fs::rename(path.join(name), place.join(name)));
        if let Err(error) = moved {
            // So that it can be removed, or gone on with, as a whole.
            for name in &names[..at] {
                let _ = fs::rename(place.join(name), path.join(name));
            }
            return Err(error);
        }
    }
    fs::remove_dir(path)?;
    File::open(place)?.sync_all()
}

/// Returns the name of the key that a header asks for.
pub fn needed_key(header: &Header) -> String {
    let check = header.directory_format.lines().nth(1).unwrap_or_default();
    key_name(check).to_string()
}
