//! Encryption of backups in the format of age (<https://age-encryption.org/v1>), which the tool `age`
//! decrypts too: to a passphrase, or to recipients whose identity is kept elsewhere.

use std::io::{BufRead, Read, Write};

use age::secrecy::{ExposeSecret as _, SecretString};
use age::stream::StreamWriter;
use age::{DecryptError, Decryptor, Encryptor};

use super::error::BackupError;

/// How an encrypted file begins.
pub(super) const AGE: &[u8] = b"age-encryption.org/";

/// How an identity begins.
const IDENTITY: &str = "AGE-SECRET-KEY-1";

/// A passphrase. It is zeroed when it is dropped, and has no `Display`.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a passphrase.
    pub fn new(text: String) -> Self {
        Secret(SecretString::from(text))
    }

    /// Whether two are the same.
    pub fn is(&self, other: &Secret) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.expose_secret().is_empty()
    }
}

/// What a backup is encrypted to.
#[derive(Clone)]
pub enum Encryption {
    /// Nothing.
    None,
    Passphrase(Secret),
    /// Recipients: the public keys of age.
    Recipients(Vec<age::x25519::Recipient>),
}

impl Encryption {
    /// Parses recipients.
    ///
    /// # Errors
    /// If a text is none.
    pub fn to_recipients(texts: &[String]) -> Result<Self, BackupError> {
        let parse = |text: &String| {
            text.trim().parse::<age::x25519::Recipient>().map_err(|error| {
                BackupError::Unusable(format!(
                    "\"{text}\" is no recipient ({error}): give the public key that age-keygen \
                     prints, age1…"
                ))
            })
        };
        Ok(Encryption::Recipients(texts.iter().map(parse).collect::<Result<_, _>>()?))
    }

    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        !matches!(self, Encryption::None)
    }

    /// Returns what decrypts it again, which recipients alone do not.
    pub fn decryption(&self) -> Option<Decryption> {
        match self {
            Encryption::None => Some(Decryption::default()),
            Encryption::Passphrase(secret) => {
                Some(Decryption { passphrase: Some(secret.clone()), identities: Vec::new() })
            }
            Encryption::Recipients(_) => None,
        }
    }

    /// Encrypts what is written.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn wrap<W: Write>(&self, out: W) -> Result<Encrypted<W>, BackupError> {
        let encryptor = match self {
            Encryption::None => return Ok(Encrypted::Plain(out)),
            Encryption::Passphrase(secret) => Encryptor::with_user_passphrase(secret.0.clone()),
            Encryption::Recipients(recipients) => {
                let recipients = recipients.iter().map(|one| one as &dyn age::Recipient);
                Encryptor::with_recipients(recipients)
                    .map_err(|error| BackupError::Unusable(error.to_string()))?
            }
        };
        Ok(Encrypted::Age(encryptor.wrap_output(out)?))
    }
}

/// A stream that may be encrypted.
pub enum Encrypted<W: Write> {
    /// It is not.
    Plain(W),
    /// It is.
    Age(StreamWriter<W>),
}

impl<W: Write> Encrypted<W> {
    /// Writes the end.
    pub fn finish(self) -> std::io::Result<W> {
        match self {
            Encrypted::Plain(out) => Ok(out),
            Encrypted::Age(stream) => stream.finish(),
        }
    }
}

impl<W: Write> Write for Encrypted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Encrypted::Plain(out) => out.write(bytes),
            Encrypted::Age(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Encrypted::Plain(out) => out.flush(),
            Encrypted::Age(stream) => stream.flush(),
        }
    }
}

/// What an encrypted backup may be decrypted with.
#[derive(Clone, Default)]
pub struct Decryption {
    pub passphrase: Option<Secret>,
    identities: Vec<age::x25519::Identity>,
}

impl Decryption {
    /// Adds the identities of a file as `age-keygen` writes it: one a line, and comments.
    ///
    /// # Errors
    /// If it has none, or a line is something else.
    pub fn add_identities(&mut self, text: &str) -> Result<(), BackupError> {
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            // Never repeated in a message.
            let identity = line.parse().map_err(|_| {
                BackupError::Unusable(format!(
                    "a line of it is no identity: one begins with {IDENTITY}, as age-keygen writes it"
                ))
            })?;
            self.identities.push(identity);
        }
        if self.identities.is_empty() {
            return Err(BackupError::Unusable("it has no identity".into()));
        }
        Ok(())
    }

    /// Decrypts a backup, if it is encrypted. `ask` returns a passphrase where there is none and one
    /// is needed.
    ///
    /// # Errors
    /// If it is encrypted to something else than there is.
    pub fn unwrap<'a>(
        &self,
        mut input: impl BufRead + 'a,
        ask: &mut dyn FnMut() -> Result<Secret, BackupError>,
    ) -> Result<(Box<dyn Read + 'a>, bool), BackupError> {
        if !input.fill_buf()?.starts_with(AGE) {
            return Ok((Box::new(input), false));
        }
        let decryptor = Decryptor::new_buffered(input).map_err(undecryptable)?;
        let is_scrypt = decryptor.is_scrypt();
        let stream = if is_scrypt {
            let secret = match &self.passphrase {
                Some(secret) => secret.clone(),
                None => ask()?,
            };
            let identity = age::scrypt::Identity::new(secret.0);
            decryptor.decrypt(std::iter::once(&identity as &dyn age::Identity))
        } else if self.identities.is_empty() {
            return Err(BackupError::Unusable(
                "it is encrypted to a recipient; give the file with its identity (--identity)"
                    .into(),
            ));
        } else {
            decryptor.decrypt(self.identities.iter().map(|one| one as &dyn age::Identity))
        };
        let stream = stream.map_err(|error| match error {
            DecryptError::NoMatchingKeys
            | DecryptError::DecryptionFailed
            | DecryptError::KeyDecryptionFailed
                if is_scrypt =>
            {
                BackupError::Unusable("the passphrase is wrong".into())
            }
            DecryptError::NoMatchingKeys => BackupError::Unusable(
                "it is encrypted to another recipient; none of the identities is of it".into(),
            ),
            error => undecryptable(error),
        })?;
        Ok((Box::new(stream), true))
    }
}

fn undecryptable(error: DecryptError) -> BackupError {
    match error {
        DecryptError::ExcessiveWork { .. } => BackupError::Unusable(
            "it takes too long to try a passphrase: it was made on a far faster machine".into(),
        ),
        error => BackupError::Damaged(format!("it cannot be decrypted: {error}")),
    }
}
