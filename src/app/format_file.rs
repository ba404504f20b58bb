//! The format file of a data directory: the number of its format, and which key it belongs to.
//!
//! Three lines: the number; the check of the key; and, while the key is being replaced, the check of
//! the previous key with that key itself, sealed under the present one.

use std::fs::{self, File};
use std::path::Path;

use super::data_dir_error::DataDirError;
use super::placement::{self, FORMAT_FILE};
use super::secret_key::write_private;
use crate::base::{Keys, MasterKey, Sealed};
use crate::store::{Clock, codec};

/// The format of the directory. A newer Roadstead writes a larger number.
pub const FORMAT: u32 = 1;

/// What the previous key is sealed for.
const CONTEXT: &[&[u8]] = &[b"format", b"previous key"];

/// The content of a format file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Format {
    /// The check of the key.
    pub current: String,
    /// The key before it, during a rotation.
    pub previous: Option<PreviousKey>,
}

/// The previous key, as the format file has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PreviousKey {
    pub check: String,
    sealed: String,
}

/// Returns the text by which a key is recognized.
pub(super) fn check_of(key: &MasterKey) -> String {
    codec::hex(&key.check())
}

impl PreviousKey {
    /// Seals `previous` under `current`.
    pub fn seal(previous: &MasterKey, current: &MasterKey) -> Result<Self, DataDirError> {
        let sealed = Keys::with_previous(current.clone(), None)
            .seal(None, CONTEXT, Clock::system().random(), &codec::hex(previous.bytes()))
            .map_err(|error| DataDirError(error.to_string()))?;
        Ok(PreviousKey { check: check_of(previous), sealed: codec::hex(sealed.bytes()) })
    }

    /// Its text, in which it is stored.
    pub fn text(&self) -> String {
        format!("{} {}", self.check, self.sealed)
    }

    /// Parses its text.
    pub fn parse(text: &str) -> Option<Self> {
        let (check, sealed) = text.split_once(' ')?;
        Some(PreviousKey { check: check.into(), sealed: sealed.into() })
    }

    /// Returns the key; `None` if it is damaged.
    pub fn unseal(&self, current: &MasterKey) -> Option<MasterKey> {
        let sealed = Sealed::from_bytes(bytes_of(&self.sealed)?);
        let keys = Keys::with_previous(current.clone(), None);
        let previous = bytes_of(&keys.unseal(CONTEXT, &sealed).ok()?)?;
        let previous = MasterKey::new(previous.try_into().ok()?);
        (check_of(&previous) == self.check).then_some(previous)
    }
}

/// Returns the text of the file of a directory.
pub(super) fn text_of(dir: &Path) -> Result<String, DataDirError> {
    let path = dir.join(FORMAT_FILE);
    fs::read_to_string(&path).map_err(|error| DataDirError(placement::unreadable(&path, &error)))
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

impl Format {
    /// Reads the file of a directory.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or is of a newer Roadstead.
    pub fn read(dir: &Path) -> Result<Self, DataDirError> {
        Format::parse(dir, &text_of(dir)?)
    }

    /// Parses the text of the file of a directory.
    ///
    /// # Errors
    /// If it is damaged, or of a newer Roadstead.
    pub fn parse(dir: &Path, text: &str) -> Result<Self, DataDirError> {
        let path = dir.join(FORMAT_FILE);
        let mut lines = text.lines();
        match lines.next().and_then(|line| line.parse::<u32>().ok()) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                return Err(DataDirError(format!(
                    "{} was written by a newer Roadstead (format {newer}); use that version",
                    dir.display()
                )));
            }
            _ => return Err(DataDirError(format!("{} is damaged", path.display()))),
        }
        let current = lines.next().unwrap_or_default().to_string();
        let previous = lines.next().and_then(PreviousKey::parse);
        Ok(Format { current, previous })
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut text = format!("{FORMAT}\n{}\n", self.current);
        if let Some(previous) = &self.previous {
            text.push_str(&format!("{}\n", previous.text()));
        }
        text
    }

    /// Writes the file of a directory atomically and durably.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let text = self.text();
        let unfinished = dir.join("format.unfinished");
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => write_private(&unfinished, text.as_bytes())?,
        }
        fs::rename(unfinished, dir.join(FORMAT_FILE))?;
        File::open(dir)?.sync_all()
    }
}
