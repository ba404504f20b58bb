//! The integrity check of a redb file, page by page: the first step of `roadstead check`.
//!
//! The file is only read: redb would repair a broken file, possibly by rolling back to an older state,
//! so it should be copied first.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use super::file_holder::in_use;
use super::redb::{Redb, open_error};
use crate::base::Result;

/// Reads the whole file and verifies the checksum of every page. Returns `false` if one is wrong.
///
/// On a broken file redb may panic, which is caught, but also exhaust memory or loop forever: run this
/// in a separate process.
///
/// # Errors
/// If the file cannot be read or is served by another process.
pub fn integrity(path: &Path) -> Result<bool> {
    let unreadable = |error: std::io::Error| open_error(path, format!("cannot be read: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(open_error(path, in_use(path)));
        }
        Err(TryLockError::Error(error)) => return Err(unreadable(error)),
    }
    let len = file.metadata().map_err(unreadable)?.len();
    if len == 0 {
        return Ok(false);
    }
    let content = FileContent { file, file_len: len, len, changed: BTreeMap::new() };
    let whole = catch_unwind(|| {
        let patched = PatchedFile(Mutex::new(content));
        let mut database = Redb::builder().create_with_backend(patched).ok()?;
        database.check_integrity().ok()
    });
    Ok(whole.is_ok_and(|whole| whole == Some(true)))
}

const PAGE: u64 = 4096;

/// A file with changes that stay in memory.
#[derive(Debug)]
struct PatchedFile(Mutex<FileContent>);

#[derive(Debug)]
struct FileContent {
    file: File,
    /// How many bytes of the file still count.
    file_len: u64,
    len: u64,
    /// Changed pages by their number.
    changed: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
}

impl PatchedFile {
    fn content(&self) -> MutexGuard<'_, FileContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileContent {
    fn page(&mut self, number: u64) -> io::Result<Box<[u8; PAGE as usize]>> {
        if let Some(page) = self.changed.get(&number) {
            return Ok(page.clone());
        }
        let mut page = Box::new([0; PAGE as usize]);
        let start = number * PAGE;
        let there = self.file_len.saturating_sub(start).min(PAGE) as usize;
        if there > 0 {
            self.file.seek(SeekFrom::Start(start))?;
            self.file.read_exact(&mut page[..there])?;
        }
        Ok(page)
    }

    /// Calls `f` for each page that the range touches, with the bytes of the page in the range and
    /// their position in the range. Stores the page if `f` returns that it changed it.
    fn pages(
        &mut self,
        offset: u64,
        len: usize,
        mut f: impl FnMut(&mut [u8], std::ops::Range<usize>) -> bool,
    ) -> io::Result<()> {
        let end = offset + len as u64;
        if end > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = offset;
        while at < end {
            let (number, start) = (at / PAGE, (at % PAGE) as usize);
            let take = (PAGE as usize - start).min((end - at) as usize);
            let mut page = self.page(number)?;
            let place = (at - offset) as usize;
            if f(&mut page[start..start + take], place..place + take) {
                self.changed.insert(number, page);
            }
            at += take as u64;
        }
        Ok(())
    }
}

impl StorageBackend for PatchedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.content().pages(offset, out.len(), |page, place| {
            out[place].copy_from_slice(page);
            false
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.content();
        if len < content.len {
            // What is behind the new end reads as zeros if the file grows again.
            content.file_len = content.file_len.min(len);
            content.changed.split_off(&len.div_ceil(PAGE));
            if let Some(last) = content.changed.get_mut(&(len / PAGE)) {
                last[(len % PAGE) as usize..].fill(0);
            }
        }
        content.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.content().pages(offset, bytes.len(), |page, place| {
            page.copy_from_slice(&bytes[place]);
            true
        })
    }
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

    #[test]
    fn a_patched_file_reads_as_a_written_one_would() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [1; 10_000]).unwrap();
        let file = File::open(&path).unwrap();
        let content = FileContent { file, file_len: 10_000, len: 10_000, changed: BTreeMap::new() };
        let patched = PatchedFile(Mutex::new(content));
        let mut model = vec![1; 10_000];
        let same = |model: &[u8]| {
            let mut out = vec![9; model.len()];
            patched.read(0, &mut out).unwrap();
            assert!(out == model && patched.len().unwrap() == model.len() as u64);
        };
        same(&model);
        for (offset, len) in [(0, 1), (4095, 2), (4096, 4096), (100, 9000), (9999, 1)] {
            patched.write(offset, &vec![len as u8; len]).unwrap();
            model[offset as usize..offset as usize + len].fill(len as u8);
            same(&model);
        }
        for len in [20_000, 5000, 9000, 4096, 8192, 0, 3] {
            patched.set_len(len).unwrap();
            model.resize(len as usize, 0);
            same(&model);
        }
        assert!(patched.read(0, &mut [0; 4]).is_err() && patched.write(3, &[0]).is_err());
        assert!(std::fs::read(&path).unwrap() == [1; 10_000]);
    }
}
