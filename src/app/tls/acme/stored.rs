//! What is kept in the data directory: the certificate with its key, the account with the authority, and
//! what became of the last attempt, so that restarts do not make others.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::account_fault::AccountFault;
use super::schedule;
use super::settings::AcmeSettings;
use crate::api::SystemAcme;
use crate::app::data_dir_error::DataDirError;
use crate::app::placement::{ACME_CERTIFICATE, ACME_STATE};
use crate::app::secret_key::replace_private;
use crate::app::tls::self_signed::{read, require_private};
use crate::base::Time;
use crate::http::{CertificateFacts, Pair, PairProblem};

/// The layout of [`Stored`].
const VERSION: u32 = 1;

/// What an attempt is recorded to have failed of before it is made: without another end it was this.
const INTERRUPTED: &str = "it was interrupted: the server stopped meanwhile";

/// The file of the certificate in a data directory: those of its issuers are behind it, and its key.
pub fn certificate_in(dir: &Path) -> PathBuf {
    dir.join(ACME_CERTIFICATE)
}

/// Returns the certificate of a data directory, if it has one that can be served.
///
/// # Errors
/// If its file cannot be read, or is accessible to others.
pub fn load(dir: &Path) -> Result<Option<Pair>, DataDirError> {
    let path = certificate_in(dir);
    let Some((pem, mode)) = read(&path)? else { return Ok(None) };
    require_private(&path, mode)?;
    match Pair::from_pem(&pem, &pem) {
        Ok(pair) => Ok(Some(pair)),
        Err(problem) => {
            let what = match problem {
                PairProblem::Certificate(what) | PairProblem::Key(what) => what,
                PairProblem::Mismatch => "has the key of another certificate".into(),
            };
            let path = path.display();
            tracing::warn!("{path} {what}: the authority is asked for another certificate");
            Ok(None)
        }
    }
}

/// Keeps a certificate that was issued, with its key.
pub fn keep(dir: &Path, pem: &str) -> std::io::Result<()> {
    replace_private(dir, ACME_CERTIFICATE, pem.as_bytes())
}

/// What is known of the authority. It holds a private key.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stored {
    version: u32,
    /// The account with the authority that was asked last.
    pub account: Option<StoredAccount>,
    /// Whether it took the place of one that the authority had refused, and has brought nothing yet.
    pub is_account_replaced: bool,
    /// The directory of the authority that has issued the certificate.
    pub issued_by: Option<String>,
    /// The domains that it was asked for, of those that it has.
    pub issued_for: Vec<String>,
    /// What the last attempt was for.
    pub asked: Option<AcmeSettings>,
    /// When it was made.
    pub attempted_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// How many have failed in a row.
    pub failures: u32,
    /// Why the last one failed.
    pub error: Option<String>,
    /// When the next one may be made at the earliest.
    pub earliest: Option<Time>,
}

/// An account with an authority.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredAccount {
    /// The directory of the authority.
    pub directory: String,
    /// What the authority calls it.
    pub url: String,
    /// Its private key: PKCS #8 in Base64.
    pub key: String,
    /// The contact that the authority has.
    pub contact: Option<String>,
}

impl Stored {
    /// Reads what a data directory has.
    ///
    /// # Errors
    /// If its file cannot be read, is accessible to others, or was written by a newer version.
    pub fn load(dir: &Path) -> Result<Self, DataDirError> {
        let path = dir.join(ACME_STATE);
        let Some((json, mode)) = read(&path)? else { return Ok(Stored::default()) };
        require_private(&path, mode)?;
        let path = path.display();
        match serde_json::from_slice::<Stored>(&json) {
            Ok(stored) if stored.version <= VERSION => Ok(stored),
            Ok(_) => Err(DataDirError(format!(
                "{path} was written by a newer version: use that, or remove the file to have another \
                 account made with the authority"
            ))),
            Err(error) => {
                tracing::warn!("{path} cannot be understood ({error}): another account is made");
                Ok(Stored::default())
            }
        }
    }

    /// Keeps it in a data directory.
    pub fn save(&self, dir: &Path) -> std::io::Result<()> {
        let stored = Stored { version: VERSION, ..self.clone() };
        let json = serde_json::to_vec_pretty(&stored).map_err(std::io::Error::other)?;
        replace_private(dir, ACME_STATE, &json)
    }

    /// Notes that an attempt is made: it counts as failed until it is known to have succeeded.
    pub fn begin(&mut self, settings: &AcmeSettings, now: Time, noise: u8) {
        if self.asked.as_ref() != Some(settings) {
            self.failures = 0;
        }
        if self.asked.as_ref().is_none_or(|asked| asked.directory != settings.directory) {
            self.is_account_replaced = false;
        }
        self.failures = self.failures.saturating_add(1);
        self.asked = Some(settings.clone());
        (self.attempted_at, self.ended_at) = (Some(now), None);
        self.error = Some(INTERRUPTED.into());
        self.earliest = Some(now.plus_secs(schedule::pause_secs(self.failures, noise)));
    }

    /// Notes that the attempt has failed, and how many seconds the authority asks to be left alone.
    pub fn failed(&mut self, why: String, asked_pause: Option<i64>, now: Time) {
        (self.error, self.ended_at) = (Some(why), Some(now));
        let asked = now.plus_secs(asked_pause.unwrap_or(0).clamp(0, schedule::LONGEST_PAUSE_SECS));
        self.earliest = Some(self.earliest.map_or(asked, |earliest| earliest.max(asked)));
    }

    /// Notes that the attempt has brought this certificate.
    pub fn succeeded(&mut self, directory: &str, facts: &CertificateFacts, now: Time) {
        self.issued_by = Some(directory.into());
        self.issued_for =
            self.asked.as_ref().map(|asked| asked.domains.clone()).unwrap_or_default();
        (self.failures, self.error, self.ended_at) = (0, None, Some(now));
        self.is_account_replaced = false;
        self.earliest = Some(now.plus_secs(schedule::pause_after_success_secs(facts)));
    }

    /// What is told of it, beside this certificate that was issued.
    pub fn status(
        &self,
        settings: &AcmeSettings,
        issued: Option<&CertificateFacts>,
        now: Time,
    ) -> SystemAcme {
        SystemAcme {
            directory: settings.directory.clone(),
            domains: settings.domains.clone(),
            last_attempt_at: self.attempted_at,
            failures: self.failures,
            error: self.error.clone(),
            next_attempt_at: self.next_attempt(settings, issued, now),
        }
    }

    /// When the next attempt is to be made; `now` if that is now.
    pub fn next_attempt(
        &self,
        settings: &AcmeSettings,
        issued: Option<&CertificateFacts>,
        now: Time,
    ) -> Time {
        let wanted = self.wanted_at(settings, issued, now);
        // Another question is asked at once. A clock that was ahead puts off nothing.
        let is_valid = |at: &Time| !at.is_beyond(now, schedule::LONGEST_PAUSE_SECS);
        let is_same = self.asked.as_ref() == Some(settings);
        // A certificate that was issued and is gone is soon replaced.
        let soon = schedule::pause_secs(1, 0);
        let earliest = match (issued, self.failures) {
            (None, 0) => self.attempted_at.map(|at| at.plus_secs(soon)),
            _ => self.earliest,
        };
        let earliest = earliest.filter(|at| is_same && is_valid(at));
        earliest.map_or(wanted, |earliest| earliest.max(wanted))
    }

    /// Whether another account is made in place of the one that an authority has refused so: one, until it has
    /// issued something. Authorities take few accounts.
    pub fn may_replace_account(&self, fault: AccountFault) -> bool {
        fault != AccountFault::None && !self.is_account_replaced
    }

    /// Whether an attempt may be made because somebody asks for it: a certificate is wanted, and the last
    /// attempt was not just made. One that was asked for while that was under way is that one.
    pub fn may_be_hurried(
        &self,
        settings: &AcmeSettings,
        issued: Option<&CertificateFacts>,
        now: Time,
    ) -> bool {
        let is_recent = |at: Time| (at..at.plus_secs(schedule::SHORTEST_PAUSE_SECS)).contains(&now);
        let mut last = self.attempted_at.into_iter().chain(self.ended_at);
        self.wanted_at(settings, issued, now) <= now && !last.any(is_recent)
    }

    /// From when on another certificate is wanted; `now` if from now on.
    fn wanted_at(
        &self,
        settings: &AcmeSettings,
        issued: Option<&CertificateFacts>,
        now: Time,
    ) -> Time {
        let is_of_authority = self.issued_by.as_ref() == Some(&settings.directory);
        match issued {
            Some(facts)
                if is_of_authority
                    && self.issued_for == settings.domains
                    && schedule::has_all(facts, &settings.domains) =>
            {
                schedule::renewal(facts).max(now)
            }
            _ => now,
        }
    }
}
