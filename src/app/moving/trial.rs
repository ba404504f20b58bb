//! The directory, in the data directory, into which a file is imported first: one that is not sound
//! changes nothing then.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::Problem;
use crate::app::data::DataDir;
use crate::app::data_dir_error::DataDirError;
#[cfg(feature = "postgres")]
use crate::store::Clock;
use crate::store::Store;

/// Its name.
const TRIAL: &str = "import-trial";

/// What is in it: a data directory, which locks itself.
const STORE: &str = "data";

/// A file that came from a stream.
const INPUT: &str = "input";

/// The directory of a trial; removed when it is dropped.
pub struct Trial {
    path: PathBuf,
    /// Locked, so that another command does not take it for one that was left behind.
    _lock: File,
}

impl Trial {
    /// Begins a trial; what a killed one left is removed.
    ///
    /// # Errors
    /// If another one runs, or the directory cannot be written.
    pub fn begin(dir: &DataDir) -> Result<Self, Problem> {
        let path = place(dir);
        let lock = prepare(&path)
            .map_err(|error| Problem(format!("{} cannot be used: {error}", path.display())))?;
        match lock {
            Some(lock) => Ok(Trial { path, _lock: lock }),
            None => Err(Problem(
                "another import reads its file at the moment; repeat the command when it is done"
                    .into(),
            )),
        }
    }

    /// Begins a trial in a new directory in `parent`, that of temporary files: for an installation
    /// without a data directory.
    ///
    /// # Errors
    /// If the directory cannot be written.
    #[cfg(feature = "postgres")]
    pub fn begin_in(parent: &Path) -> Result<Self, Problem> {
        let random: [u8; 8] = Clock::system().random();
        let name = format!("roadstead-{TRIAL}-{:016x}", u64::from_be_bytes(random));
        let path = parent.join(name);
        // Nobody else has made it, and nobody else can look into it.
        let made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| File::open(&path));
        match made {
            Ok(lock) => Ok(Trial { path, _lock: lock }),
            Err(error) => Err(Problem(format!("{} cannot be used: {error}", path.display()))),
        }
    }

    /// Keeps what comes from a stream as a file, which can be read twice, until the trial is dropped.
    ///
    /// # Errors
    /// If the stream cannot be read, or the file not be written.
    pub fn keep(&self, stream: &mut dyn Read) -> Result<PathBuf, Problem> {
        let path = self.path.join(INPUT);
        let kept = File::create(&path).and_then(|mut file| std::io::copy(stream, &mut file));
        kept.map_err(|error| Problem(format!("{} cannot be written: {error}", path.display())))?;
        Ok(path)
    }

    /// Creates the store of the trial.
    pub fn store(&self) -> Result<Store, DataDirError> {
        DataDir::at(self.path.join(STORE)).create()
    }

    /// Whether a killed command left a trial in a data directory.
    pub fn is_left(dir: &DataDir) -> bool {
        File::open(place(dir)).is_ok_and(|left| left.try_lock().is_ok())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // One that stays is removed by the next import.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn place(dir: &DataDir) -> PathBuf {
    dir.path().join(TRIAL)
}

/// Makes an empty directory and locks it; `None` if another process has.
fn prepare(path: &Path) -> std::io::Result<Option<File>> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let lock = File::open(path)?;
    if lock.try_lock().is_err() {
        return Ok(None);
    }
    for removed in [fs::remove_file(path.join(INPUT)), fs::remove_dir_all(path.join(STORE))] {
        removed.or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
    }
    Ok(Some(lock))
}
