//! TLS with the certificate that is served, and what is to be known about that.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acme::{self, AcmeSettings, Stored};
use super::files::{FilesState, TlsFiles};
use super::self_signed::{self, Found, Hosts};
use crate::api::{SystemAcme, SystemTls};
use crate::app::data_dir_error::DataDirError;
use crate::base::metrics::{Family, FamilyKind, SampleValue};
use crate::http::{Pair, ServerTls, names_this_machine};
use crate::store::Clock;

/// TLS with the certificate that is served, and where it comes from.
pub struct OwnTls {
    tls: Arc<ServerTls>,
    /// The state of the files when they were read at the start, if they are not the server's own.
    read: Option<FilesState>,
    told: Mutex<Told>,
}

/// What is told of it beside what the certificate says.
struct Told {
    /// The file of the certificate.
    certificate: PathBuf,
    /// Why the files as they are now are not served.
    problem: Option<String>,
    /// The authority that issues it.
    acme: Option<Box<SystemAcme>>,
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
        let tls = ServerTls::new(pair, None).map_err(|error| error.to_string())?;
        Ok(Self::new(tls, &files.certificate, Some(state)))
    }

    /// TLS with a certificate of the server's own in a data directory, which is made for these hosts
    /// unless there is one.
    ///
    /// # Errors
    /// If its files cannot be read or written.
    pub fn self_signed(dir: &Path, hosts: &Hosts) -> std::result::Result<Arc<Self>, DataDirError> {
        let pair = self_signed::load_or_make(dir, hosts, Clock::system().now())?;
        let tls = ServerTls::new(pair, None).map_err(|error| DataDirError(error.to_string()))?;
        Ok(Self::new(tls, &self_signed::certificate_in(dir), None))
    }

    /// TLS with the certificate that an authority has issued, if a data directory has one. Until there is
    /// one it is self-signed, for these hosts.
    ///
    /// # Errors
    /// If its files cannot be read or written, or are accessible to others.
    pub fn of_acme(
        dir: &Path,
        hosts: &Hosts,
        settings: &AcmeSettings,
    ) -> std::result::Result<Arc<Self>, DataDirError> {
        let (issued, stored, now) = (acme::load(dir)?, Stored::load(dir)?, Clock::system().now());
        let acme = stored.status(settings, issued.as_ref().map(|pair| &pair.facts), now);
        let (pair, certificate) = match issued {
            Some(pair) => (pair, acme::certificate_in(dir)),
            None => {
                tracing::warn!(
                    domains = %settings.domains.join(", "),
                    "there is no TLS certificate of the authority yet: a self-signed one is served until it \
                     has issued one"
                );
                (self_signed::load_or_make(dir, hosts, now)?, self_signed::certificate_in(dir))
            }
        };
        let tls = ServerTls::new(pair, Some(Arc::default()));
        let own = Self::new(tls.map_err(|e| DataDirError(e.to_string()))?, &certificate, None);
        own.told().acme = Some(Box::new(acme));
        Ok(own)
    }

    fn new(tls: ServerTls, certificate: &Path, read: Option<FilesState>) -> Arc<Self> {
        let certificate = std::path::absolute(certificate).unwrap_or_else(|_| certificate.into());
        let told = Mutex::new(Told { certificate, problem: None, acme: None });
        Arc::new(OwnTls { tls: Arc::new(tls), read, told })
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether an authority has issued the certificate, or is about to.
    pub fn is_of_authority(&self) -> bool {
        let SystemTls { self_signed, acme, .. } = self.status();
        !self_signed || acme.is_some()
    }

    /// What is to be known about it.
    pub fn status(&self) -> SystemTls {
        let pair = self.tls.pair();
        let told = self.told();
        SystemTls {
            problem: told.problem.clone(),
            acme: told.acme.clone(),
            ..SystemTls::of(&pair, &told.certificate)
        }
    }

    /// The state of the files when they were read at the start.
    pub(super) fn read_state(&self) -> Option<FilesState> {
        self.read.clone()
    }

    pub(super) fn set_problem(&self, problem: Option<String>) {
        self.told().problem = problem;
    }

    pub(super) fn set_acme(&self, acme: SystemAcme) {
        self.told().acme = Some(Box::new(acme));
    }

    /// Serves a certificate that an authority has issued and that is in this file.
    pub(super) fn serve_issued(&self, pair: Pair, certificate: &Path) {
        let certificate = std::path::absolute(certificate).unwrap_or_else(|_| certificate.into());
        let mut told = self.told();
        self.tls.replace(pair);
        told.certificate = certificate;
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
    fn of(pair: &Pair, certificate: &Path) -> Self {
        SystemTls {
            certificate: certificate.display().to_string(),
            self_signed: pair.is_self_made,
            fingerprint: pair.facts.fingerprint.clone(),
            names: pair.facts.names.clone(),
            not_before: pair.facts.not_before,
            not_after: pair.facts.not_after,
            problem: None,
            acme: None,
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
    Ok(SystemTls::of(&pair, &files.certificate))
}

/// What was found of a certificate that an authority issues.
pub enum OfAuthority {
    /// It is served, or what is served until it is issued.
    Served(Box<SystemTls>),
    /// There is none yet; what came of asking for it, if somebody has.
    NotYet(Option<Box<SystemAcme>>),
}

/// What was found of a certificate that an authority has issued, and of what the server knows of that.
///
/// # Errors
/// A sentence, if the server does not start so.
pub fn look_at_acme(dir: &Path) -> std::result::Result<OfAuthority, String> {
    let issued = acme::load(dir).map_err(|error| error.0)?;
    let stored = Stored::load(dir).map_err(|error| error.0)?;
    let (facts, now) = (issued.as_ref().map(|pair| &pair.facts), Clock::system().now());
    let acme = stored.asked.as_ref().map(|asked| Box::new(stored.status(asked, facts, now)));
    let Some(pair) = issued else { return Ok(OfAuthority::NotYet(acme)) };
    let served = SystemTls { acme, ..SystemTls::of(&pair, &acme::certificate_in(dir)) };
    Ok(OfAuthority::Served(Box::new(served)))
}

/// What was found of a certificate that the server makes itself.
pub enum OwnMade {
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
    let certificate = self_signed::certificate_in(dir);
    Ok(match self_signed::load(dir).map_err(|error| error.0)? {
        Found::Whole(pair) => OwnMade::Made(SystemTls::of(&pair, &certificate)),
        Found::Nothing => OwnMade::NotYet,
        Found::Part => OwnMade::Unusable(format!(
            "{} and its key are not both there, or not a pair",
            certificate.display()
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
