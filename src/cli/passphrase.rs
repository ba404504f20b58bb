//! Flags for the encryption of backups, and reading a passphrase.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::Failure;
use super::password::{require_terminal, unseen};
use super::private_file;
use crate::app::backup::{BackupError, Decryption, Encryption, Secret};

/// What decrypts a backup.
#[derive(Args)]
pub struct DecryptionFlags {
    /// File with the passphrase on its first line, readable by its owner only; without it a terminal
    /// is asked where one is needed
    #[arg(long, value_name = "FILE", env = "ROADSTEAD_PASSPHRASE_FILE")]
    pub passphrase_file: Option<PathBuf>,

    /// File with an age identity, as age-keygen writes it; repeatable
    #[arg(long, value_name = "FILE", env = "ROADSTEAD_IDENTITY", value_delimiter = ',')]
    pub identity: Vec<PathBuf>,
}

impl DecryptionFlags {
    /// Reads the files.
    pub fn read(&self) -> Result<Decryption, Failure> {
        let mut decryption = Decryption::default();
        if let Some(path) = &self.passphrase_file {
            decryption.passphrase = Some(in_file(path)?);
        }
        for path in &self.identity {
            let text = private_file::read(path)?;
            decryption
                .add_identities(&text)
                .map_err(|error| Failure::from(error.of(&path.display().to_string())))?;
        }
        Ok(decryption)
    }
}

/// Returns what a backup is to be encrypted to.
pub fn encryption(
    passphrase: bool,
    file: Option<&Path>,
    recipients: &[String],
) -> Result<Encryption, Failure> {
    Ok(match (recipients, file, passphrase) {
        ([], None, false) => Encryption::None,
        ([], Some(path), _) => Encryption::Passphrase(in_file(path)?),
        ([], None, true) => Encryption::Passphrase(ask_twice()?),
        _ => Encryption::to_recipients(recipients)?,
    })
}

/// Returns the passphrase on the first line of a file.
fn in_file(path: &Path) -> Result<Secret, Failure> {
    let text = private_file::read(path)?;
    let secret = Secret::new(text.lines().next().unwrap_or_default().to_string());
    if secret.is_empty() {
        return Err(Failure::Usage(format!("{}: the first line is empty", path.display())));
    }
    Ok(secret)
}

/// Asks a terminal for the passphrase of a backup that is read.
pub fn ask() -> Result<Secret, BackupError> {
    if !io::stdin().is_terminal() {
        return Err(BackupError::Unusable(
            "it is encrypted to a passphrase; give it in a file (--passphrase-file), or run this in \
             a terminal"
                .into(),
        ));
    }
    Ok(Secret::new(unseen("Passphrase of the backup: ").map_err(|failure| match failure {
        Failure::Failed(why) | Failure::Usage(why) => BackupError::Failed(why),
    })?))
}

/// Asks a terminal twice for the passphrase of a new backup.
fn ask_twice() -> Result<Secret, Failure> {
    require_terminal(
        "there is no terminal to ask for the passphrase; give it in a file (--passphrase-file)",
    )?;
    let secret = Secret::new(unseen("Passphrase for the backup: ")?);
    if secret.is_empty() {
        return Err(Failure::Usage("the passphrase is empty; nothing was written".into()));
    }
    if !secret.is(&Secret::new(unseen("The same passphrase again: ")?)) {
        return Err(Failure::Usage("the two passphrases differ; nothing was written".into()));
    }
    Ok(secret)
}
