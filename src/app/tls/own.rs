//! TLS with the certificate that is served, and what is to be known about that.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::files::{FilesState, TlsFiles};
use super::self_signed::{self, Found, Hosts};
use crate::api::SystemTls;
use crate::app::data_dir_error::DataDirError;
use crate::base::Result;
use crate::base::metrics::{Family, FamilyKind, SampleValue};
use crate::http::{Pair, ServerTls, names_this_machine};
use crate::store::Clock;

/// TLS with the certificate that is served, and where it comes from.
pub struct OwnTls {
    tls: Arc<ServerTls>,
    /// The file of the certificate.
    certificate: PathBuf,
    is_self_signed: bool,
    /// The state of the files when they were read at the start, if they are not the server's own.
    read: Option<FilesState>,
    /// Why the files as they are now are not served.
    problem: Mutex<Option<String>>,
}

impl OwnTls {
    /// TLS with the certificate of these files. If they may be half of a replacement, waits for the rest
    /// for some seconds.
    ///
    /// # Errors
    /// A sentence that names the file, if they cannot be served.
    pub fn of_files(files: &TlsFiles) -> std::result::Result<Arc<Self>, String> {
        let (pair, state) = files.load_at_start()?;
        let (not_before, now) = (pair.facts.not_before, Clock::system().now());
        if now < not_before {
            tracing::warn!(%not_before, %now, "the TLS certificate is not valid yet: look at the clock");
        }
        if files.is_key_open() {
            let key = files.key.display();
            tracing::warn!("the TLS key {key} is accessible to all users; run: chmod o= {key}");
        }
        let own = Self::new(pair, &files.certificate, Some(state));
        own.map_err(|error| error.to_string())
    }

    /// TLS with a certificate of the server's own in a data directory, which is made for these hosts
    /// unless there is one.
    ///
    /// # Errors
    /// If its files cannot be read or written.
    pub fn self_signed(dir: &Path, hosts: &Hosts) -> std::result::Result<Arc<Self>, DataDirError> {
        let pair = self_signed::load_or_make(dir, hosts, Clock::system().now())?;
        let own = Self::new(pair, &self_signed::certificate_in(dir), None);
        own.map_err(|error| DataDirError(error.to_string()))
    }

    fn new(pair: Pair, certificate: &Path, read: Option<FilesState>) -> Result<Arc<Self>> {
        let is_self_signed = read.is_none();
        Ok(Arc::new(OwnTls {
            // Nobody trusts it by itself: a browser that was told to insist on TLS would let nobody
            // past a new one.
            tls: Arc::new(ServerTls::new(pair, !is_self_signed)?),
            certificate: std::path::absolute(certificate).unwrap_or_else(|_| certificate.into()),
            is_self_signed,
            read,
            problem: Mutex::default(),
        }))
    }

    /// The TLS that is spoken.
    pub fn tls(&self) -> &Arc<ServerTls> {
        &self.tls
    }

    /// A host by which clients can reach a server with this certificate: the first name that stands for
    /// one host.
    pub fn host(&self) -> Option<String> {
        let pair = self.tls.pair();
        pair.facts.names.iter().find(|name| !name.starts_with('*')).map(|name| bracketed(name))
    }

    /// Whether the certificate is for no host by which other machines could come.
    pub fn is_local(&self) -> bool {
        let pair = self.tls.pair();
        pair.facts.names.iter().all(|name| names_this_machine(&bracketed(name)))
    }

    /// What is to be known about it.
    pub fn status(&self) -> SystemTls {
        let pair = self.tls.pair();
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        SystemTls {
            certificate: self.certificate.display().to_string(),
            self_signed: self.is_self_signed,
            problem,
            ..SystemTls::of(&pair)
        }
    }

    /// The state of the files when they were read at the start.
    pub(super) fn read_state(&self) -> Option<FilesState> {
        self.read.clone()
    }

    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Until when the certificate is valid.
    pub fn family(&self) -> Family {
        Family::single(
            "roadstead_tls_certificate_expiry_timestamp_seconds",
            "When the certificate that is served expires",
            FamilyKind::Gauge,
            SampleValue::Number(self.tls.pair().facts.not_after.secs() as f64),
        )
    }
}

impl fmt::Debug for OwnTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

impl SystemTls {
    fn of(pair: &Pair) -> Self {
        SystemTls {
            certificate: String::new(),
            self_signed: false,
            fingerprint: pair.facts.fingerprint.clone(),
            names: pair.facts.names.clone(),
            not_before: pair.facts.not_before,
            not_after: pair.facts.not_after,
            problem: None,
        }
    }
}

/// A host as a URL has it.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.into() }
}

/// What was found in the files that settings name, without serving it.
///
/// # Errors
/// A sentence, if they cannot be served.
pub fn look_at(files: &TlsFiles) -> std::result::Result<SystemTls, String> {
    let pair = files.load().map_err(|unusable| unusable.why)?;
    let certificate = files.certificate.display().to_string();
    Ok(SystemTls { certificate, ..SystemTls::of(&pair) })
}

/// What was found of a certificate that the server makes itself.
pub enum OwnMade {
    /// It has made one.
    Made(SystemTls),
    /// The next start makes one.
    NotYet,
    /// The next start makes one in place of what is there, of which this says what is wrong.
    Unusable(String),
}

/// What was found of a certificate that the server makes itself.
///
/// # Errors
/// A sentence, if the server does not start so.
pub fn look_at_self_signed(dir: &Path) -> std::result::Result<OwnMade, String> {
    let certificate = self_signed::certificate_in(dir).display().to_string();
    Ok(match self_signed::load(dir).map_err(|error| error.0)? {
        Found::Whole(pair) => {
            OwnMade::Made(SystemTls { certificate, self_signed: true, ..SystemTls::of(&pair) })
        }
        Found::Nothing => OwnMade::NotYet,
        Found::Part => OwnMade::Unusable(format!(
            "{certificate} and its key are not both there, or not a pair"
        )),
        Found::Broken(why) => OwnMade::Unusable(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_local_if_it_is_for_nothing_but_this_machine() {
        for (names, is_local) in [
            (&["localhost", "127.0.0.1", "::1"][..], true),
            (&["localhost", "box"], false),
            (&["localhost", "10.0.0.7"], false),
            (&["::1", "2001:db8::7"], false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let all: Vec<_> = names.iter().map(ToString::to_string).collect();
            let hosts = Hosts { asked: Vec::new(), all };
            let own = OwnTls::self_signed(dir.path(), &hosts).unwrap();
            assert_eq!(own.is_local(), is_local, "{names:?}");
        }
    }
}
