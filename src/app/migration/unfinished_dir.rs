//! A data directory that is being filled, beside its place. It stays when it is interrupted, and the
//! next migration of the same installation goes on with it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::app::backup::{BackupError, lock_beside, move_into_place, require_empty, unwritable};
use crate::app::data::DataDir;
use crate::app::format_file::Format;
use crate::app::placement::DATABASE;
use crate::app::secret_key::write_private;
use crate::resources;
use crate::store::engine::Redb;
use crate::store::table_names;

/// The file that names the installation.
const MARK: &str = "migration";

/// A data directory that is being filled.
pub struct UnfinishedDir {
    path: PathBuf,
    /// Locked, so that one process at a time fills it.
    _lock: File,
    is_resumed: bool,
}

impl UnfinishedDir {
    /// Begins one for this installation, or goes on with the one that is there.
    ///
    /// # Errors
    /// If one of another installation is there, another process fills it, or it cannot be written.
    pub fn begin(dir: &DataDir, installation: &str) -> Result<Self, BackupError> {
        let (path, lock) = lock_beside(dir, ".migrating", "migrates")?;
        let cannot = unwritable(&path);
        let mark = path.join(MARK);
        let is_resumed = match fs::read_to_string(&mark) {
            Ok(text) if text == installation => true,
            // Killed before it was written.
            Ok(text) if text.is_empty() => {
                fs::remove_file(&mark).map_err(&cannot)?;
                false
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                require_empty(&path)?;
                false
            }
            Err(error) => return Err(cannot(error)),
            Ok(_) => {
                return Err(BackupError::Unusable(format!(
                    "{} holds an interrupted migration of another installation; remove it",
                    path.display()
                )));
            }
        };
        if !is_resumed {
            write_private(&mark, installation.as_bytes()).map_err(&cannot)?;
        }
        Ok(UnfinishedDir { path, _lock: lock, is_resumed })
    }

    /// The path where it is until it is complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether an earlier process began it.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Opens its database, or creates it.
    pub fn database(&self) -> Result<Redb, BackupError> {
        let path = self.path.join(DATABASE);
        let tables = || table_names(&resources::tables());
        if path.exists() {
            match Redb::open(&path, tables()) {
                Ok(database) => return Ok(database),
                // Killed while it was created.
                Err(error) => tracing::warn!(%error, "the unfinished database is created again"),
            }
            fs::remove_file(&path)?;
        }
        Ok(Redb::create(&path, tables())?)
    }

    /// Removes a file that an earlier process left.
    pub fn require_absent(&self, name: &str) -> std::io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes it a data directory, and moves it to its place.
    pub fn complete(self, format: &Format, dir: &DataDir) -> Result<(), BackupError> {
        // Last: without it the directory is none.
        format.write(&self.path)?;
        let place = dir.absolute();
        move_into_place(&self.path, &place)?;
        // Until here it says whose the directory is.
        Ok(fs::remove_file(place.join(MARK))?)
    }
}
