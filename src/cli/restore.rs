//! `roadstead restore`

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::backup::{described, described_left_out, open, show};
use super::failure::Failure;
use super::installation::Installation;
use super::output;
use super::passphrase::{self, DecryptionFlags};
#[cfg(feature = "postgres")]
use super::serve_store::this_process;
use crate::app::backup::{self, Header, LedgerUsed, RestoreSettings, Restored, Totals};
use crate::app::{DataDir, key_in_file};

/// Restore a backup into a new data directory, or into an empty database
#[derive(Args)]
#[command(
    after_help = "The directory (--data) must be empty or not exist; it is complete, or not \
                        there.\n\nMemories that were deleted after the backup do not come back: give \
                        the ledger of erasures, the file `erasures` of the lost data directory or a \
                        copy of it. If it is lost too, say so with --without-erasures.\n\n\
                        The installation's key is taken from ROADSTEAD_SECRET_KEY or a systemd \
                        credential, from --secret-key-file, or from the backup, if it is in it.\n\n\
                        Example:\n  roadstead restore roadstead.backup --data restored \
                        --erasures /var/lib/roadstead.lost \\\n    --secret-key-file secret.key\n\n\
                        Exit codes: 0 done, 1 failed or damaged, 2 cannot be done."
)]
pub struct Restore {
    /// The backup; - for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// The ledger of erasures: a file, or the data directory (or URL of the store) that has it
    #[arg(long, value_name = "FILE|DIR", env = "ROADSTEAD_ERASURES", hide_env_values = true)]
    erasures: Option<PathBuf>,

    /// Restore what was erased after the backup, too: the ledger is lost
    #[arg(long, env = "ROADSTEAD_WITHOUT_ERASURES", conflicts_with = "erasures")]
    without_erasures: bool,

    /// File with the installation's key, readable by its owner only; it is stored in the directory
    #[arg(long, value_name = "FILE", env = "ROADSTEAD_SECRET_KEY_FILE")]
    secret_key_file: Option<PathBuf>,

    #[command(flatten)]
    decryption: DecryptionFlags,

    #[command(flatten)]
    installation: Installation,
}

impl Restore {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        if self.erasures.is_none() && !self.without_erasures {
            return Err(Failure::Usage(
                "memories that were deleted after the backup would come back: give the ledger of \
                 erasures, the file `erasures` of the lost data directory (--erasures FILE|DIR); if \
                 it is lost too, --without-erasures"
                    .into(),
            ));
        }
        let key = self.secret_key_file.as_deref().map(key_in_file).transpose()?;
        let (erasures, file) = (self.erasures.clone(), self.file.clone());
        let settings =
            RestoreSettings { file, key, erasures, collects_audit_heads: self.installation.json() };
        let dir = self.installation.data_dir();
        let decryption = self.decryption.read()?;
        let (input, encrypted) = decryption
            .unwrap(open(&self.file)?, &mut passphrase::ask)
            .map_err(|error| error.of(&self.file))?;
        let (restored, place) = self.restore(input, &dir, &settings);
        output::progress("");
        let (header, restored) = restored?;
        let mut value = described(&header, &restored.totals);
        value["file"] = json!(self.file);
        value["encrypted"] = json!(encrypted);
        value["erased"] = json!(restored.erased);
        value["keyInDirectory"] = json!(restored.has_key);
        value["erasuresUntil"] = json!(restored.ledger.as_ref().and_then(|ledger| ledger.until));
        value["erasuresCompared"] = json!(restored.ledger.as_ref().map(|used| used.is_compared));
        let (name, flag, data) = match &place {
            Place::Directory(data) => ("dataDirectory", "--data", data),
            #[cfg(feature = "postgres")]
            Place::Store(store) => ("store", "--store", store),
        };
        value[name] = json!(data);
        let text = format!(
            "Restored {} records of {} to {data}; {} were erased since and are left out.\n\n\
             {}{}Next: roadstead check {flag} {data}\n",
            restored.totals.records - restored.erased,
            header.taken_at,
            restored.erased,
            restored.ledger.as_ref().map(described_ledger).unwrap_or_default(),
            match described_left_out(&restored.totals) {
                text if text.is_empty() => text,
                text => format!("{text}\n"),
            },
        );
        output::print(self.installation.json(), &value, &text)
    }

    /// Restores into the directory or the store, and says which.
    fn restore(
        &self,
        input: impl Read,
        dir: &DataDir,
        settings: &RestoreSettings,
    ) -> (Result<(Header, Restored), Failure>, Place) {
        let mut progress = |totals: &Totals| show("Restored", totals);
        #[cfg(feature = "postgres")]
        match self.installation.store.url() {
            Ok(None) => {}
            Err(failure) => return (Err(failure), Place::Store(String::new())),
            Ok(Some(url)) => {
                let (place, owner) = (url.shown(), this_process("roadstead restore"));
                let source = dir.key_source();
                let restored =
                    backup::restore_into(input, url, source, settings, &owner, &mut progress);
                return (restored.map_err(Failure::from), Place::Store(place));
            }
        }
        let restored = backup::restore(input, dir, settings, &mut progress);
        let place = dir.absolute().display().to_string();
        (restored.map_err(Failure::from), Place::Directory(place))
    }
}

/// Says how far the ledger reaches: what was erased later comes back.
fn described_ledger(ledger: &LedgerUsed) -> String {
    let until = match ledger.until {
        Some(at) => format!("The last erasure in the ledger is of {at}."),
        None => "The ledger of erasures is empty.".into(),
    };
    let compared = if ledger.is_compared {
        ""
    } else {
        " The backup does not say how far the ledger was when it was made, so it is not known whether \
         this one is newer: make sure of it."
    };
    format!("{until}{compared}\n\n")
}

/// What was restored into.
enum Place {
    Directory(String),
    #[cfg(feature = "postgres")]
    Store(String),
}
