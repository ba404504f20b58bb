//! A file whose changes stay in memory: a database library may open it, and it stays as it is.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use super::file_holder::in_use;
use super::open_error;
use crate::base::Result;

const PAGE: u64 = 4096;

/// A file with changes that stay in memory.
#[derive(Debug)]
pub struct PatchedFile(Mutex<FileContent>);

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
    /// Opens a file that no other process may write meanwhile.
    ///
    /// # Errors
    /// If it cannot be read, or another process writes it.
    pub fn open_locked(path: &Path) -> Result<Self> {
        let unreadable = |error: io::Error| open_error(path, format!("cannot be read: {error}"));
        let file = File::open(path).map_err(unreadable)?;
        match file.try_lock_shared() {
            Ok(()) => Self::of(file).map_err(unreadable),
            Err(TryLockError::WouldBlock) => Err(open_error(path, in_use(path))),
            Err(TryLockError::Error(error)) => Err(unreadable(error)),
        }
    }

    /// Reads a file that is open.
    ///
    /// # Errors
    /// If its length cannot be read.
    pub fn of(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let content = FileContent { file, file_len: len, len, changed: BTreeMap::new() };
        Ok(PatchedFile(Mutex::new(content)))
    }

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

    #[test]
    fn a_patched_file_reads_as_a_written_one_would() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [1; 10_000]).unwrap();
        let file = File::open(&path).unwrap();
        let patched = PatchedFile::of(file).unwrap();
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
