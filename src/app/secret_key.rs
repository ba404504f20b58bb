//! The installation's key: an environment variable, a systemd credential, or the file `secret.key`
//! in the data directory; the first of them that exists. The key that is to replace it has a name of
//! its own in each place.
//!
//! An invalid key is refused, and so is a file that other users may read. No message contains a
//! key, not even an invalid one.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD_INDIFFERENT};

use zeroize::Zeroizing;

use super::data_dir_error::DataDirError;
use super::placement::{self, KEY};
use crate::base::MasterKey;
use crate::store::codec;
use crate::store::engine::give_to_owner_of_directory;

/// The same of the key that is to replace it.
const NEW_KEY: &str = "secret.key.new";

/// Padding is optional: some tools omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PAD_INDIFFERENT);

/// Bytes read of a file. A key with whitespace around it has about 70.
const MAX_TEXT_BYTES: u64 = 1024;

/// Where a key may come from besides the data directory. It has no `Debug`: it may hold the key.
#[derive(Clone, Default)]
pub struct KeySource {
    /// The value of `ROADSTEAD_SECRET_KEY`; used if it is set, even to an empty text.
    pub variable: Option<OsString>,
    /// `$CREDENTIALS_DIRECTORY`: where systemd puts the unit's `LoadCredential=` files.
    pub credentials: Option<PathBuf>,
    /// The value of `ROADSTEAD_NEW_SECRET_KEY`: the key that is to replace that of `variable` or of a
    /// credential.
    pub new_variable: Option<OsString>,
}

/// Where a key was found.
pub(super) enum Origin {
    Variable(&'static str),
    Credential(PathBuf),
    File(PathBuf),
    /// The file of a key that is to replace another.
    NewFile(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Variable(name) => write!(f, "the variable {name}"),
            Origin::Credential(path) => write!(f, "the credential {}", path.display()),
            Origin::File(path) | Origin::NewFile(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// Returns the key for the data directory `dir`, and where it was found.
pub(super) fn find(dir: &Path, source: &KeySource) -> Result<Option<FoundKey>, DataDirError> {
    let variable = ("ROADSTEAD_SECRET_KEY", &source.variable);
    find_named(dir, source, variable, KEY, Origin::File)
}

/// Returns the key that is to replace the one of `dir`, if there is one, and where it was found.
pub(super) fn find_new(dir: &Path, source: &KeySource) -> Result<Option<FoundKey>, DataDirError> {
    let variable = ("ROADSTEAD_NEW_SECRET_KEY", &source.new_variable);
    find_named(dir, source, variable, NEW_KEY, Origin::NewFile)
}

/// A key, and where it was found.
pub(super) type FoundKey = (MasterKey, Origin);

fn find_named(
    dir: &Path,
    source: &KeySource,
    (variable, value): (&'static str, &Option<OsString>),
    name: &str,
    file: fn(PathBuf) -> Origin,
) -> Result<Option<FoundKey>, DataDirError> {
    match find_outside_named(source, (variable, value), name)? {
        Some(found) => Ok(Some(found)),
        None => read_private(&dir.join(name), file),
    }
}

/// Returns the key that is kept outside of any data directory, and where it was found.
pub(super) fn find_outside(source: &KeySource) -> Result<Option<FoundKey>, DataDirError> {
    find_outside_named(source, ("ROADSTEAD_SECRET_KEY", &source.variable), KEY)
}

fn find_outside_named(
    source: &KeySource,
    (variable, value): (&'static str, &Option<OsString>),
    name: &str,
) -> Result<Option<FoundKey>, DataDirError> {
    if let Some(text) = value {
        return read(text.as_encoded_bytes(), Origin::Variable(variable)).map(Some);
    }
    if let Some(credentials) = &source.credentials {
        let path = credentials.join(name);
        // systemd controls who may read it, by means that file modes do not show.
        if let Some((text, _)) = content(&path)? {
            return read(&text, Origin::Credential(path)).map(Some);
        }
    }
    Ok(None)
}

/// Returns the key in a file that only its owner may read; none if there is no such file.
pub(super) fn read_private(
    path: &Path,
    origin: fn(PathBuf) -> Origin,
) -> Result<Option<FoundKey>, DataDirError> {
    match content(path)? {
        None => Ok(None),
        Some((text, mode)) if mode & 0o077 == 0 => read(&text, origin(path.into())).map(Some),
        Some((_, mode)) => Err(DataDirError(format!(
            "the key {path} is accessible to other users (mode {:03o}); run: chmod 600 {path}",
            mode & 0o777,
            path = path.display()
        ))),
    }
}

/// The content and the mode of a file.
type FileContent = (Zeroizing<Vec<u8>>, u32);

/// Returns the content and the mode of a file; none if it does not exist.
fn content(path: &Path) -> Result<Option<FileContent>, DataDirError> {
    let read = || -> std::io::Result<FileContent> {
        let file = File::open(path)?;
        let mode = file.metadata()?.permissions().mode();
        // As much as can be read, so that it does not grow and leave a copy.
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_TEXT_BYTES as usize + 1));
        file.take(MAX_TEXT_BYTES).read_to_end(&mut text)?;
        Ok((text, mode))
    };
    match read() {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(DataDirError(format!("the key {}", placement::unreadable(path, &error)))),
    }
}

fn read(text: &[u8], origin: Origin) -> Result<FoundKey, DataDirError> {
    match parse(text) {
        Some(key) => Ok((MasterKey::new(key), origin)),
        None => {
            let quoted = matches!(text.first(), Some(b'"' | b'\''));
            let hint = if quoted { "; remove the quotation marks around it" } else { "" };
            Err(DataDirError(format!(
                "{origin} holds no key: a key is 64 hex digits, or 32 bytes in base64{hint}; for a \
                 new data directory, create one with: openssl rand -hex 32"
            )))
        }
    }
}

/// Parses 64 hex digits, or 32 bytes in base64, with whitespace around them.
fn parse(text: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if text.len() != 64 {
        return BASE64.decode(text).ok()?.try_into().ok();
    }
    let mut key = [0; 32];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some(key)
}

/// Returns the key in a file that is not in the data directory.
///
/// # Errors
/// If it does not exist, other users may read it, or it holds no key.
pub fn key_in_file(path: &Path) -> Result<MasterKey, DataDirError> {
    match read_private(path, Origin::File)? {
        Some((key, _)) => Ok(key),
        None => Err(DataDirError(format!("the key file {} does not exist", path.display()))),
    }
}

/// Returns the key in a text, as a key file holds it.
pub(super) fn key_in_text(text: &str) -> Option<MasterKey> {
    parse(text.as_bytes()).map(MasterKey::new)
}

/// Writes a key into a file of the data directory, atomically and durably.
pub(super) fn write(dir: &Path, name: &str, key: &MasterKey) -> std::io::Result<()> {
    // The key must be durable before anything that needs it.
    replace_private(dir, name, format!("{}\n", codec::hex(key.bytes())).as_bytes())
}

/// Writes a file of the data directory, in place of the one before, atomically and durably. Only its
/// owner may read it.
pub(super) fn replace_private(dir: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    // Under another name first, so that the file is complete whenever it exists.
    let unfinished = dir.join(format!("{name}.unfinished"));
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => write_private(&unfinished, content)?,
    }
    fs::rename(unfinished, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Writes the key that is to replace the one in the data directory, beside that.
pub(super) fn write_new(dir: &Path, key: &MasterKey) -> std::io::Result<()> {
    write(dir, NEW_KEY, key)
}

/// Puts the file of the new key in the place of the old one, durably.
pub(super) fn adopt(dir: &Path) -> std::io::Result<()> {
    fs::rename(dir.join(NEW_KEY), dir.join(KEY))?;
    File::open(dir)?.sync_all()
}

/// Writes a new file durably, readable by its owner only, who is that of its directory.
pub(super) fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    give_to_owner_of_directory(&file, path);
    file.write_all(content)?;
    file.sync_all()
}

/// Writes a key into a new file of the operator's choice, which may be there if it has this key.
///
/// # Errors
/// If there is another file, or a link, or it cannot be written.
pub(super) fn keep(path: &Path, key: &MasterKey) -> Result<(), DataDirError> {
    let failed = |why: String| DataDirError(format!("{} {why}", path.display()));
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let text = format!("{}\n", codec::hex(key.bytes()));
    let was_there = fs::symlink_metadata(path).is_ok();
    let written = match write_private(path, text.as_bytes()) {
        // Of an attempt that ended early, maybe before it was durable.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !is_file_with(path, key) {
                return Err(failed("exists; choose another name for the old key".into()));
            }
            File::open(path).and_then(|file| file.sync_all())
        }
        Err(error) => {
            // A part of a key is none; what was there before is another's, or one that was kept before.
            if !was_there {
                let _ = fs::remove_file(path);
            }
            Err(error)
        }
        Ok(()) => Ok(()),
    };
    // Durably: the old key is destroyed afterwards.
    let durable = written.and_then(|()| File::open(parent)?.sync_all());
    durable.map_err(|error| failed(format!("cannot be written: {error}")))
}

/// Whether there is a file, and no link to one, that only its owner may read, with this key.
fn is_file_with(path: &Path, key: &MasterKey) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    is_file && matches!(read_private(path, Origin::File), Ok(Some((kept, _))) if kept == *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "00010203040506070809101112131415161718192021222324252627282930ff";

    fn bytes() -> [u8; 32] {
        parse(HEX.as_bytes()).unwrap()
    }

    #[test]
    fn a_key_is_read_from_hex_and_from_base64() {
        assert_eq!(codec::hex(&bytes()), HEX);
        let base64 = BASE64.encode(bytes());
        let texts = [
            HEX.to_string(),
            HEX.to_uppercase(),
            format!("  {HEX}\r\n"),
            base64.trim_end_matches('=').to_string(),
            format!("{base64}\n"),
        ];
        for text in texts {
            assert_eq!(parse(text.as_bytes()), Some(bytes()), "{text:?}");
        }
    }

    #[test]
    fn a_key_is_kept_in_a_new_file_or_one_that_has_it_and_through_no_link() {
        let place = tempfile::tempdir().unwrap();
        let [file, link] = ["old.key", "link.key"].map(|name| place.path().join(name));
        let key = MasterKey::new(bytes());
        keep(&file, &key).unwrap();
        keep(&file, &key).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{HEX}\n"));
        assert!(keep(&file, &MasterKey::new([9; 32])).unwrap_err().0.contains("another name"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(keep(&link, &key).unwrap_err().0.contains("exists; choose another name"));
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{HEX}\n"));
        let nowhere = keep(&place.path().join("none/old.key"), &key).unwrap_err().0;
        assert!(nowhere.contains("cannot be written"), "{nowhere}");
    }

    #[test]
    fn an_invalid_key_is_refused() {
        let texts = [
            String::new(),
            " \n".into(),
            HEX[..63].into(),
            format!("{HEX}0"),
            format!("{HEX}00"),
            format!("{HEX}\n{HEX}"),
            format!("{}g", &HEX[..63]),
            format!("+{}", &HEX[1..]),
            format!("{} {}", &HEX[..32], &HEX[33..]),
            "ä".repeat(32),
            BASE64.encode([7; 31]),
            BASE64.encode([7; 33]),
            BASE64.encode([7; 48]), // As long as the hex digits are.
            "correct horse battery staple".into(),
        ];
        for text in texts {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(&[0xFF; 64]), None);
    }
}
