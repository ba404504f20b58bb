//! The installation's key as the operator keeps it: a variable, a systemd credential, or the file
//! `secret.key` in the data directory, the first of them that there is.
//!
//! What is not exactly a key is refused, and so is a file that others may read. Nothing here ever
//! repeats a key, not even a wrong one.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD_INDIFFERENT};

use super::data::Unusable;
use crate::base::Keys;
use crate::store::codec;

/// The key's file in a data directory, and the name of the credential.
pub(super) const KEY: &str = "secret.key";

/// Some tools leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PAD_INDIFFERENT);

/// A key is some 70 bytes with what stands around it; what is longer than this is not read whole.
const MAX_TEXT_BYTES: u64 = 1024;

/// Keys from outside the data directory. There is no `Debug`: it may hold the key.
#[derive(Clone, Default)]
pub struct OutsideKey {
    /// What `ROADSTEAD_SECRET_KEY` holds; it is used wherever it is set, even to nothing.
    pub variable: Option<OsString>,
    /// `$CREDENTIALS_DIRECTORY`: where systemd puts what the unit's `LoadCredential=` names.
    pub credentials: Option<PathBuf>,
}

/// Where a key came from.
pub(super) enum Origin {
    Variable,
    Credential(PathBuf),
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Variable => f.write_str("the variable ROADSTEAD_SECRET_KEY"),
            Origin::Credential(path) => write!(f, "the credential {}", path.display()),
            Origin::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// The key that is there for the data directory `dir`, and where it came from.
pub(super) fn find(dir: &Path, outside: &OutsideKey) -> Result<Option<(Keys, Origin)>, Unusable> {
    if let Some(text) = &outside.variable {
        return read(text.as_encoded_bytes(), Origin::Variable).map(Some);
    }
    if let Some(credentials) = &outside.credentials {
        let path = credentials.join(KEY);
        // Who may read it is systemd's business: it grants access by means that modes do not show.
        if let Some((text, _)) = content(&path)? {
            return read(&text, Origin::Credential(path)).map(Some);
        }
    }
    let path = dir.join(KEY);
    match content(&path)? {
        None => Ok(None),
        Some((text, mode)) if mode & 0o077 == 0 => read(&text, Origin::File(path)).map(Some),
        Some((_, mode)) => Err(Unusable(format!(
            "the key {path} is not its owner's alone (mode {:03o}); make it so: chmod 600 {path}",
            mode & 0o777,
            path = path.display()
        ))),
    }
}

/// What a file holds, and its mode; none if there is no such file.
fn content(path: &Path) -> Result<Option<(Vec<u8>, u32)>, Unusable> {
    let read = || -> std::io::Result<(Vec<u8>, u32)> {
        let file = File::open(path)?;
        let mode = file.metadata()?.permissions().mode();
        let mut text = Vec::new();
        file.take(MAX_TEXT_BYTES).read_to_end(&mut text)?;
        Ok((text, mode))
    };
    match read() {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Unusable(format!("the key {} cannot be read: {error}", path.display()))),
    }
}

fn read(text: &[u8], origin: Origin) -> Result<(Keys, Origin), Unusable> {
    match parse(text) {
        Some(key) => Ok((Keys::new(key), origin)),
        None => Err(Unusable(format!(
            "{origin} holds no key: a key is 64 hex digits, or 32 bytes in base64; one for a new \
             data directory is made by: openssl rand -hex 32"
        ))),
    }
}

/// 64 hex digits, or 32 bytes in base64, blanks around them aside.
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

/// Writes a new key into the data directory, whole or not at all.
pub(super) fn keep(dir: &Path, key: &[u8; 32]) -> std::io::Result<()> {
    // Not under its own name at first: what is found there is a key.
    let unfinished = dir.join("secret.key.unfinished");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => write_private(&unfinished, format!("{}\n", codec::hex(key)).as_bytes())?,
    }
    fs::rename(unfinished, dir.join(KEY))?;
    // Nothing that needs the key may be on the disk before it is.
    File::open(dir)?.sync_all()
}

/// Writes a file that only its owner may read, durably.
pub(super) fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
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
    fn what_is_not_exactly_a_key_is_none() {
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
