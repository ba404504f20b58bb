//! Restores a backup into a new data directory, which is built beside its place and moved there when
//! it is complete.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::error::BackupError;
use super::header::{Header, Totals};
use super::reader::Backup;
use crate::app::data::DataDir;
use crate::app::erasures::Erasures;
use crate::app::format_file::{Format, check_of};
use crate::app::placement::{self, DATABASE, FORMAT_FILE, KEY};
use crate::app::secret_key::{self, write_private};
use crate::base::MasterKey;
use crate::store::engine::Redb;
use crate::store::{RowLoader, TableInfo, build_indexes, table_names};

/// What is restored besides the backup.
pub struct RestoreSettings {
    /// What messages call the backup.
    pub file: String,
    /// The installation's key, to be stored in the directory; without it the key is taken from the
    /// backup, or is kept outside of the directory.
    pub key: Option<MasterKey>,
    /// The ledger of erasures, a file or a data directory; `None` restores what was erased, too.
    pub erasures: Option<PathBuf>,
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
}

/// Restores a backup, from its decrypted stream, into `dir`, which must not exist or be empty.
///
/// # Errors
/// If the backup is damaged, made by a newer Roadstead, or its key is missing or another one; if the
/// ledger is of another installation or younger than the backup; if the directory is not empty or
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
    let key = key_for(&backup.header, dir, settings)?;
    let erasures = ledger_for(&backup.header, settings)?;
    let building = Building::begin(dir)?;
    let tables = crate::resources::tables();
    let storage = Redb::create(&building.path.join(DATABASE), table_names(&tables))?;
    let mut loader = RowLoader::new(storage);
    let mut erased = 0;
    let add = |table: &TableInfo, key: &[u8], value: &[u8]| {
        if erasures.as_ref().is_some_and(|ledger| ledger.has(table.name, key)) {
            erased += 1;
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
    if let Some(ledger) = &settings.erasures {
        Erasures::copy(ledger, &building.path)?;
    }
    // Last: without it the directory is none.
    write_private(&building.path.join(FORMAT_FILE), header.directory_format.as_bytes())?;
    building.complete(dir)?;
    Ok((header, Restored { totals, erased, has_key: key.is_some() }))
}

/// Refuses a place where something is.
fn require_empty(path: &Path) -> Result<(), BackupError> {
    let refused = |why: String| {
        Err(BackupError::Unusable(format!(
            "{} {why}; restore into a directory that is empty or does not exist",
            path.display()
        )))
    };
    match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => refused(format!("cannot be used: {error}")),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => refused("is not empty".into()),
        },
    }
}

/// Returns the key to store in the directory, if it is to be stored there.
fn key_for(
    header: &Header,
    dir: &DataDir,
    settings: &RestoreSettings,
) -> Result<Option<MasterKey>, BackupError> {
    let format = Format::parse(dir.path(), &header.directory_format)
        .map_err(|_| BackupError::Damaged("it does not say which key it belongs to".into()))?;
    let name = key_name(&format.current);
    let wrong = |what: &str| {
        BackupError::Unusable(format!("{what} is not the key of this backup, whose name is {name}"))
    };
    if let Some(key) = &settings.key {
        if check_of(key) != format.current {
            return Err(wrong("the key in the given file"));
        }
        return Ok(Some(key.clone()));
    }
    // Kept outside of the directory, where the server will find it, too.
    if let Some((key, origin)) = secret_key::find_outside(dir.key_source())? {
        if check_of(&key) != format.current {
            return Err(wrong(&origin.to_string()));
        }
        return Ok(None);
    }
    match header.secret_key.as_deref().map(secret_key::key_in_text) {
        Some(Some(key)) if check_of(&key) == format.current => Ok(Some(key)),
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

/// Reads the ledger, which must be of the same installation and complete since the backup.
fn ledger_for(
    header: &Header,
    settings: &RestoreSettings,
) -> Result<Option<Erasures>, BackupError> {
    let Some(path) = &settings.erasures else { return Ok(None) };
    let ledger = Erasures::read(path)?;
    if ledger.installation != header.installation {
        return Err(BackupError::Unusable(format!(
            "the ledger of erasures {} is of another installation",
            path.display()
        )));
    }
    if ledger.since > header.taken_at {
        return Err(BackupError::Unusable(format!(
            "the backup is of {}, and the ledger of erasures {} begins only at {}: what was erased \
             in between would come back",
            header.taken_at,
            path.display(),
            ledger.since
        )));
    }
    Ok(Some(ledger))
}

/// A directory that is being built. Dropped before it is complete, it is removed.
struct Building {
    path: PathBuf,
    /// Locked, so that another command does not take it for one that was left behind.
    _lock: File,
    is_complete: bool,
}

impl Building {
    fn begin(dir: &DataDir) -> Result<Self, BackupError> {
        let place = dir.absolute();
        let name = place.file_name().ok_or_else(|| {
            BackupError::Unusable(format!("{} cannot be replaced", place.display()))
        })?;
        let mut unfinished = name.to_os_string();
        unfinished.push(".restoring");
        let path = place.with_file_name(unfinished);
        let cannot = |error: std::io::Error| {
            BackupError::Unusable(format!("{} cannot be written: {error}", path.display()))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(cannot)?;
        let lock = File::open(&path).map_err(cannot)?;
        if lock.try_lock().is_err() {
            return Err(BackupError::Failed(format!(
                "another process restores into {}; wait until it is done",
                place.display()
            )));
        }
        // Of a process that was killed.
        placement::require_no_foreign_files(&path)?;
        for entry in fs::read_dir(&path).map_err(cannot)? {
            fs::remove_file(entry.map_err(cannot)?.path()).map_err(cannot)?;
        }
        Ok(Building { path, _lock: lock, is_complete: false })
    }

    /// Moves it to its place.
    fn complete(mut self, dir: &DataDir) -> Result<(), BackupError> {
        File::open(&self.path)?.sync_all()?;
        let place = dir.absolute();
        // Replaces an empty directory, and nothing else.
        fs::rename(&self.path, &place).map_err(|error| {
            BackupError::Unusable(format!(
                "{} cannot be moved to {}: {error}; restore into a directory that does not exist",
                self.path.display(),
                place.display()
            ))
        })?;
        self.is_complete = true;
        if let Some(parent) = place.parent() {
            File::open(parent)?.sync_all()?;
        }
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

/// Returns the name of the key that a header asks for.
pub fn needed_key(header: &Header) -> String {
    let check = header.directory_format.lines().nth(1).unwrap_or_default();
    key_name(check).to_string()
}
