//! The record of the last backup: the file `last-backup` in the data directory.

use std::fs::{self, File};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::app::placement::LAST_BACKUP;
use crate::app::secret_key::write_private;
use crate::base::Time;
use crate::base::metrics::Family;

/// The last backup that was completed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBackup {
    pub backup_id: String,
    /// When it was begun: what was acknowledged before is in it.
    pub taken_at: Time,
    /// Its size as stored.
    pub bytes: u64,
    pub records: u64,
    pub encrypted: bool,
}

impl LastBackup {
    /// Reads the record of a data directory; `None` if there is none that can be read.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(LAST_BACKUP)).ok()?).ok()
    }

    /// Replaces the record of a data directory, atomically.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let unfinished = dir.join(format!("{LAST_BACKUP}.unfinished"));
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => write_private(&unfinished, &serde_json::to_vec(self)?)?,
        }
        fs::rename(unfinished, dir.join(LAST_BACKUP))?;
        File::open(dir)?.sync_all()
    }
}

/// Returns the metric of the last backup of a data directory; none before the first.
pub fn families(dir: &Path) -> Vec<Family> {
    let last = LastBackup::read(dir).map(|last| {
        Family::gauge(
            "roadstead_last_backup_timestamp_seconds",
            "When the last completed backup was begun, in seconds since 1970",
            last.taken_at.millis() as f64 / 1000.0,
        )
    });
    last.into_iter().collect()
}
