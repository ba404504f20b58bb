//! A simulated disk in memory that fails or loses power at a chosen operation.
//!
//! What was written to a file reaches the disk at a sync of that file. Until then a power cut keeps any
//! part of it, in any order, also across files, torn in sectors.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use crate::random::Random;

/// Disks write whole sectors, and only these.
const SECTOR: usize = 512;
/// The size of the first page, which holds the header of a file.
const HEADER: u64 = 4096;

/// What goes wrong, counted in writes, changes of length and syncs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// So many operations from the `at`-th on fail.
    Fails {
        at: u64,
        times: u64,
    },
    /// The `at`-th operation is answered as done and is not (a control: this must be noticed).
    Swallows {
        at: u64,
    },
    /// The next read fails.
    FailsRead,
    /// The power goes at the `at`-th operation.
    Cut {
        at: u64,
    },
    /// Syncs do nothing and the power goes at the `at`-th operation (a control).
    CutWithoutSyncs {
        at: u64,
    },
}

/// A file of the disk. Clones are the same file.
#[derive(Clone)]
pub struct SimDisk {
    disk: Arc<Mutex<State>>,
    file: usize,
}

struct State {
    files: Vec<Content>,
    /// Written since the last sync of the file, in order.
    pending: Vec<Pending>,
    operations: u64,
    fault: Fault,
    off: bool,
    random: Random,
}

struct Content {
    /// What is on the disk.
    kept: Vec<u8>,
    /// What reads see: everything written.
    seen: Vec<u8>,
}

struct Pending {
    file: usize,
    change: Change,
}

#[derive(Clone)]
enum Change {
    Bytes { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

impl SimDisk {
    /// The only file of a disk, with this content. `seed` decides what a failure leaves.
    pub fn new(content: Vec<u8>, seed: u64) -> Self {
        Self::with_files(vec![content], seed)
    }

    /// The first file of a disk with files of these contents.
    pub fn with_files(contents: Vec<Vec<u8>>, seed: u64) -> Self {
        let content = |bytes: Vec<u8>| Content { kept: bytes.clone(), seen: bytes };
        let state = State {
            files: contents.into_iter().map(content).collect(),
            pending: Vec::new(),
            operations: 0,
            fault: Fault::None,
            off: false,
            random: Random(seed),
        };
        SimDisk { disk: Arc::new(Mutex::new(state)), file: 0 }
    }

    /// Another file of the same disk.
    pub fn file(&self, file: usize) -> SimDisk {
        SimDisk { disk: self.disk.clone(), file }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.disk.lock().unwrap()
    }

    /// Sets the fault; operations are counted from 1 again.
    pub fn set_fault(&self, fault: Fault) {
        let mut state = self.state();
        state.operations = 0;
        state.fault = fault;
    }

    /// Returns how many operations there were since the fault was set.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// What is on the disk after the power came back: what was synced, and any part of the rest.
    pub fn restarted(&self, seed: u64) -> SimDisk {
        let mut state = self.state();
        state.off = true;
        let State { files, pending, random, .. } = &mut *state;
        keep_some(files, pending, random);
        let kept = files.iter_mut().map(|file| std::mem::take(&mut file.kept)).collect();
        SimDisk::with_files(kept, seed)
    }

    /// The contents of all files, all of which are synced.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        let state = self.state();
        assert!(state.pending.is_empty());
        state.files.iter().map(|file| file.kept.clone()).collect()
    }
}

/// Applies what a power cut or a failed sync leaves of unsynced changes, in one of the ways that
/// disks and file systems have of doing it.
fn keep_some(files: &mut [Content], pending: &[Pending], random: &mut Random) {
    let way = random.below(8);
    let prefix = random.below(pending.len() + 1);
    let mut order: Vec<usize> = (0..pending.len()).collect();
    if way == 3 || way == 4 {
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at + 1));
        }
    }
    for at in order {
        let Pending { file, change } = &pending[at];
        let kept = &mut files[*file].kept;
        let header = matches!(change, Change::Bytes { offset, .. } if *offset < HEADER);
        let applies = match way {
            0 => false,
            1 => true,
            2 | 3 => random.one_in(2),
            4 => true,
            5 => header,
            6 => !header,
            _ => at < prefix,
        };
        match change {
            Change::Length(len) if applies => kept.resize(*len as usize, 0),
            Change::Length(_) => {}
            Change::Bytes { offset, bytes } => {
                for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                    let torn = (way == 2 || way == 4) && random.one_in(3);
                    if applies && !torn {
                        put(kept, *offset as usize + number * SECTOR, sector);
                    }
                }
            }
        }
    }
}

/// Writes the bytes up to the end of the content; the rest is dropped.
fn put(content: &mut [u8], offset: usize, bytes: &[u8]) {
    let end = content.len().min(offset + bytes.len());
    if offset < end {
        content[offset..end].copy_from_slice(&bytes[..end - offset]);
    }
}

impl State {
    /// Counts an operation; says whether it is to be done, or how it fails.
    fn begin(&mut self) -> io::Result<bool> {
        self.on()?;
        self.operations += 1;
        let now = self.operations;
        match self.fault {
            Fault::Fails { at, times } if (at..at + times).contains(&now) => {
                // EIO and ENOSPC.
                Err(io::Error::from_raw_os_error(if at % 2 == 0 { 5 } else { 28 }))
            }
            Fault::Cut { at } | Fault::CutWithoutSyncs { at } if now == at => {
                self.off = true;
                Ok(true)
            }
            Fault::Swallows { at } => Ok(now != at),
            _ => Ok(true),
        }
    }

    fn on(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn change(&mut self, file: usize, change: Change) {
        let seen = &mut self.files[file].seen;
        match &change {
            Change::Length(len) => seen.resize(*len as usize, 0),
            Change::Bytes { offset, bytes } => put(seen, *offset as usize, bytes),
        }
        self.pending.push(Pending { file, change });
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

impl StorageBackend for SimDisk {
    fn len(&self) -> io::Result<u64> {
        let state = self.state();
        state.on().map(|()| state.files[self.file].seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        state.on()?;
        if state.fault == Fault::FailsRead {
            state.fault = Fault::None;
            return Err(io::Error::from_raw_os_error(5));
        }
        let seen = &state.files[self.file].seen;
        let bytes = seen.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        if state.begin()? {
            state.change(self.file, Change::Length(len));
        }
        state.on()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        match state.begin() {
            Ok(true) => state.change(self.file, Change::Bytes { offset, bytes: bytes.to_vec() }),
            Ok(false) => {}
            Err(error) => {
                // A failed write may have written a part.
                let part = state.random.below(bytes.len() + 1);
                state.change(self.file, Change::Bytes { offset, bytes: bytes[..part].to_vec() });
                return Err(error);
            }
        }
        state.on()
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        let begun = state.begin();
        state.on()?;
        let State { files, pending, random, fault, .. } = &mut *state;
        match begun {
            Ok(_) if matches!(fault, Fault::CutWithoutSyncs { .. }) => {}
            Ok(true) => {
                let kept = &mut files[self.file].kept;
                for Pending { change, .. } in pending.extract_if(.., |p| p.file == self.file) {
                    match change {
                        Change::Length(len) => kept.resize(len as usize, 0),
                        Change::Bytes { offset, bytes } => put(kept, offset as usize, &bytes),
                    }
                }
            }
            Ok(false) => {}
            // As Linux does it: what could not be written counts as written from then on. Reads
            // see it, the next sync does not try again, and a power cut loses it. The length is
            // different: a power cut may lose it until the next sync, but that syncs it too, as
            // fdatasync promises. A file system that cannot write it allows no more writes.
            Err(_) => {
                let own: Vec<_> = pending.extract_if(.., |p| p.file == self.file).collect();
                keep_some(files, &own, random);
                let Content { kept, seen } = &files[self.file];
                if kept.len() != seen.len() {
                    let change = Change::Length(seen.len() as u64);
                    pending.push(Pending { file: self.file, change });
                }
            }
        }
        begun.map(|_| ())
    }
}
