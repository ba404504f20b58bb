//! The integrity check of a redb file, page by page: the first step of `roadstead check`.
//!
//! The file is only read: redb would repair a broken file, possibly by rolling back to an older state,
//! so it should be copied first.

use std::panic::catch_unwind;
use std::path::Path;

use redb::StorageBackend as _;

use super::patched_file::PatchedFile;
use super::{Redb, open_error};
use crate::base::Result;

/// Reads the whole file and verifies the checksum of every page. Returns `false` if one is wrong.
///
/// On a broken file redb may panic, which is caught, but also exhaust memory or loop forever: run this
/// in a separate process.
///
/// # Errors
/// If the file cannot be read or is served by another process.
pub fn integrity(path: &Path) -> Result<bool> {
    let patched = PatchedFile::open_locked(path)?;
    if patched.len().map_err(|error| open_error(path, format!("cannot be read: {error}")))? == 0 {
        return Ok(false);
    }
    let whole = catch_unwind(move || {
        let mut database = Redb::builder().create_with_backend(patched).ok()?;
        database.check_integrity().ok()
    });
    Ok(whole.is_ok_and(|whole| whole == Some(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::{LocalStorage as _, WriteBatch, WriteOp};

    fn file_with(rows: u32, path: &Path) {
        let mut redb = Redb::create(path, vec!["t"]).unwrap();
        let mut writes = WriteBatch::default();
        for row in 0..rows {
            writes.add("t", row.to_be_bytes().to_vec(), WriteOp::Insert(vec![7; 300]));
        }
        redb.commit(&writes);
    }

    #[test]
    fn an_intact_file_passes_and_stays_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        file_with(500, &path);
        let before = std::fs::read(&path).unwrap();
        assert!(integrity(&path).unwrap());
        assert!(std::fs::read(&path).unwrap() == before);

        let redb = Redb::open(&path, vec!["t"]).unwrap();
        assert!(integrity(&path).unwrap_err().message().ends_with("in use by another process"));
        // As after a crash: the file was not closed.
        let crashed = dir.path().join("crashed.redb");
        std::fs::copy(&path, &crashed).unwrap();
        assert!(integrity(&crashed).unwrap());
        drop(redb);
        assert!(integrity(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn a_flipped_bit_in_a_row_is_found_and_not_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        file_with(500, &path);
        let whole = std::fs::read(&path).unwrap();
        let in_rows = (0..whole.len()).filter(|at| whole[*at..].starts_with(&[7; 16]));
        for at in in_rows.step_by(4000) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            std::fs::write(&path, &flipped).unwrap();
            assert!(!integrity(&path).unwrap(), "at {at}");
            assert!(std::fs::read(&path).unwrap() == flipped);
        }
        for broken in [vec![], b"some other text".to_vec(), whole[..whole.len() / 2].to_vec()] {
            std::fs::write(&path, &broken).unwrap();
            assert!(!integrity(&path).unwrap());
        }
    }
}
