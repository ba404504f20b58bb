//! A certificate that the server makes itself, for networks without an authority: once, in its data
//! directory, as private as the installation's key.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::app::data_dir_error::DataDirError;
use crate::app::placement::{self, TLS_CERTIFICATE, TLS_KEY};
use crate::app::secret_key::replace_private;
use crate::base::Time;
use crate::http::{CertificateFacts, Pair, PairProblem};

const DAY_SECS: i64 = 24 * 3600;

/// How long it is valid: Apple's systems take none of more than 825 days, also if it is trusted.
const VALID_SECS: i64 = 820 * DAY_SECS;

/// Its beginning lies before it is made: clocks of clients may be behind.
const EARLIER_SECS: i64 = DAY_SECS;

/// A server that starts so shortly before the end makes a new one.
const RENEW_SECS: i64 = 30 * DAY_SECS;

/// What the names of files end in that gave way to new ones, with a number from the second on.
const OLD: &str = ".old";

/// So many are kept.
const MAX_OLD: usize = 100;

/// A certificate or key has about 1 KB.
const MAX_BYTES: u64 = 64 * 1024;

/// The file of the certificate in a data directory.
pub fn certificate_in(dir: &Path) -> PathBuf {
    dir.join(TLS_CERTIFICATE)
}

/// Returns the certificate of a data directory. If there is none that can be used, or it is about to
/// expire, one is made for these hosts, and what was there is kept under another name: it may be
/// somebody's who has put it there.
///
/// # Errors
/// If its files cannot be read or written, or its key is readable for others.
pub fn load_or_make(dir: &Path, hosts: &Hosts, now: Time) -> Result<Pair, DataDirError> {
    let why = match load(dir)? {
        Found::Nothing => return make(dir, &hosts.all, now),
        Found::Part => "has a part missing, or the key of another".into(),
        Found::Broken(why) => format!("cannot be used: {why}"),
        Found::Whole(pair) => {
            let CertificateFacts { not_before, not_after, .. } = pair.facts;
            if not_after > now.plus_secs(RENEW_SECS) {
                if now < not_before {
                    warn_of_clock(not_before, now, dir);
                }
                warn_of_missing(&pair, &hosts.asked, dir);
                return Ok(pair);
            }
            format!("is valid until {not_after}")
        }
    };
    let ending = put_aside(dir)?;
    tracing::warn!(
        "the self-signed TLS certificate {why}: a new one is made, which clients must trust anew; the \
         files before it are kept, with {ending} behind their names"
    );
    make(dir, &hosts.all, now)
}

/// The hosts by which clients may reach a server.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Those that its settings name.
    pub asked: Vec<String>,
    /// These, and what the machine is called, which in a container changes.
    pub all: Vec<String>,
}

impl Hosts {
    /// These domains before all others.
    pub fn with(mut self, domains: &[String]) -> Self {
        for hosts in [&mut self.asked, &mut self.all] {
            hosts.retain(|host| !domains.contains(host));
            hosts.splice(..0, domains.iter().cloned());
        }
        self
    }
}

/// What a data directory has.
pub enum Found {
    /// A certificate and its key.
    Whole(Pair),
    /// Neither of the two files.
    Nothing,
    /// One of the two, or those of different certificates: what a crash between writing them leaves.
    Part,
    /// Something else, in words that begin with the file.
    Broken(String),
}

/// Moves the files out of the way of new ones; returns what their names end in from then on.
fn put_aside(dir: &Path) -> Result<String, DataDirError> {
    let names = [TLS_CERTIFICATE, TLS_KEY];
    let mut endings = (1..=MAX_OLD).map(|n| if n == 1 { OLD.into() } else { format!("{OLD}-{n}") });
    let is_free =
        |ending: &String| names.iter().all(|name| !dir.join(format!("{name}{ending}")).exists());
    let ending = endings.find(is_free).ok_or_else(|| {
        let dir = dir.display();
        DataDirError(format!("{dir} has {MAX_OLD} old TLS certificates: remove those nobody needs"))
    })?;
    for name in names {
        let aside = dir.join(format!("{name}{ending}"));
        match fs::rename(dir.join(name), &aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(DataDirError(format!(
                    "{name} cannot be renamed to {}: {error}",
                    aside.display()
                )));
            }
            _ => {}
        }
    }
    Ok(ending)
}

fn warn_of_clock(not_before: Time, now: Time, dir: &Path) {
    tracing::warn!(
        %not_before,
        %now,
        "the self-signed TLS certificate is not valid yet: look at the clock, or, if that was ahead when \
         it was made, remove {} to have a new one made at the next start",
        certificate_in(dir).display()
    );
}

/// Returns what a data directory has.
///
/// # Errors
/// If its files cannot be read, or its key is readable for others.
pub fn load(dir: &Path) -> Result<Found, DataDirError> {
    let (key_path, certificate_path) = (dir.join(TLS_KEY), certificate_in(dir));
    let ((key, mode), (certificate, _)) = match (read(&key_path)?, read(&certificate_path)?) {
        (Some(key), Some(certificate)) => (key, certificate),
        (None, None) => return Ok(Found::Nothing),
        _ => return Ok(Found::Part),
    };
    require_private(&key_path, mode)?;
    Ok(match Pair::from_pem(&certificate, &key) {
        Ok(pair) => Found::Whole(pair.self_made()),
        Err(PairProblem::Mismatch) => Found::Part,
        Err(PairProblem::Certificate(what)) => {
            Found::Broken(format!("{} {what}", certificate_path.display()))
        }
        Err(PairProblem::Key(what)) => Found::Broken(format!("{} {what}", key_path.display())),
    })
}

/// Refuses a file with a key that others than its owner may read.
///
/// # Errors
/// If they may.
pub(super) fn require_private(path: &Path, mode: u32) -> Result<(), DataDirError> {
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(DataDirError(format!(
        "the TLS key {path} is accessible to other users (mode {:03o}); run: chmod 600 {path}",
        mode & 0o777,
        path = path.display()
    )))
}

/// The content of a file, and its mode.
type Content = (Zeroizing<Vec<u8>>, u32);

/// Reads a small file; `None` if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Content>, DataDirError> {
    let read = || -> std::io::Result<Content> {
        let file = File::open(path)?;
        let mode = file.metadata()?.permissions().mode();
        let mut bytes = Zeroizing::new(Vec::with_capacity(8 * 1024));
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok((bytes, mode))
    };
    match read() {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DataDirError(placement::unreadable(path, &error))),
    }
}

fn warn_of_missing(pair: &Pair, hosts: &[String], dir: &Path) {
    for host in hosts.iter().filter(|host| !pair.facts.names_exactly(host)) {
        tracing::warn!(
            %host,
            "the self-signed TLS certificate is not for this host: remove {} to have a new one made at \
             the next start, which clients must trust anew",
            certificate_in(dir).display()
        );
    }
}

fn make(dir: &Path, hosts: &[String], now: Time) -> Result<Pair, DataDirError> {
    let failed = |error: rcgen::Error| {
        DataDirError(format!("a TLS certificate cannot be made for {}: {error}", hosts.join(", ")))
    };
    let at = |time: Time| {
        OffsetDateTime::from_unix_timestamp(time.secs()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    };
    let mut params = CertificateParams::new(hosts).map_err(failed)?;
    // The longest that X.509 has there.
    let name = hosts.iter().find(|host| host.len() <= 64).map_or("localhost", String::as_str);
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "Roadstead (self-signed)");
    params.not_before = at(now.minus_secs(EARLIER_SECS));
    params.not_after = at(now.plus_secs(VALID_SECS - EARLIER_SECS));
    // It vouches for this server alone, also where somebody trusts it as an authority.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?.pem();
    let key = Zeroizing::new(key.serialize_pem());
    let written = replace_private(dir, TLS_KEY, key.as_bytes())
        .and_then(|()| replace_private(dir, TLS_CERTIFICATE, certificate.as_bytes()));
    written.map_err(|error| {
        DataDirError(format!("the TLS certificate cannot be written to {}: {error}", dir.display()))
    })?;
    match Pair::from_pem(certificate.as_bytes(), key.as_bytes()) {
        Ok(pair) => Ok(pair.self_made()),
        Err(problem) => {
            Err(DataDirError(format!("the new TLS certificate is broken: {problem:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Hosts {
        let all: Vec<String> = names.iter().map(ToString::to_string).collect();
        Hosts { asked: all.clone(), all }
    }

    fn kept(dir: &Path, name: &str, ending: &str) -> String {
        fs::read_to_string(dir.join(format!("{name}{ending}"))).unwrap()
    }

    #[test]
    fn a_certificate_is_made_once_and_again_before_it_expires() {
        let dir = tempfile::tempdir().unwrap();
        let now = Time::parse("2030-01-01T00:00:00Z").unwrap();
        let load =
            |names: &[&str], now| load_or_make(dir.path(), &hosts(names), now).unwrap().facts;
        let made = load(&["a.test", "localhost", "10.0.0.7", "::1"], now);
        assert_eq!(made.names, ["a.test", "localhost", "10.0.0.7", "::1"]);
        assert_eq!(load(&["b.test"], now.plus_secs(780 * DAY_SECS)), made);
        for name in [TLS_KEY, TLS_CERTIFICATE] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert!((made.not_after.secs() - made.not_before.secs()) <= 825 * DAY_SECS);
        let later = load(&["b.test"], now.plus_secs(800 * DAY_SECS));
        assert_ne!(later.fingerprint, made.fingerprint);
        assert_eq!(later.names, ["b.test"]);
        // A clock that is behind for a moment costs nobody's trust.
        assert_eq!(load(&["b.test"], now), later);
        assert!(kept(dir.path(), TLS_KEY, ".old").contains("PRIVATE KEY"));
    }

    #[test]
    fn what_a_crash_leaves_is_made_again_and_a_key_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let now = Time::parse("2030-01-01T00:00:00Z").unwrap();
        let load = || load_or_make(dir.path(), &hosts(&["a.test"]), now);
        let first = load().unwrap().facts.fingerprint;
        let (key, certificate) = (dir.path().join(TLS_KEY), dir.path().join(TLS_CERTIFICATE));
        let other = tempfile::tempdir().unwrap();
        load_or_make(other.path(), &hosts(&["a.test"]), now).unwrap();
        fs::copy(other.path().join(TLS_KEY), &key).unwrap();
        let second = load().unwrap().facts.fingerprint;
        fs::remove_file(&certificate).unwrap();
        let third = load().unwrap().facts.fingerprint;
        assert!(first != second && second != third);
        assert_eq!(load().unwrap().facts.fingerprint, third);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = load().err().unwrap().0;
        assert!(refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn what_somebody_put_there_and_is_of_no_use_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let now = Time::parse("2030-01-01T00:00:00Z").unwrap();
        let load_or_make = || load_or_make(dir.path(), &hosts(&["a.test"]), now).unwrap();
        let first = load_or_make().facts.fingerprint;
        let certificate = fs::read_to_string(certificate_in(dir.path())).unwrap();
        fs::write(dir.path().join(TLS_KEY), "mine").unwrap();
        let Found::Broken(why) = load(dir.path()).unwrap() else { panic!("it is usable") };
        assert!(why.contains("tls-self-signed.key holds no private key"), "{why}");
        assert_ne!(load_or_make().facts.fingerprint, first);
        let is_kept = |ending: &str| {
            assert_eq!(kept(dir.path(), TLS_KEY, ending), "mine");
            assert_eq!(kept(dir.path(), TLS_CERTIFICATE, ending), certificate);
        };
        is_kept(".old");
        // Nor does the next one cost what is kept.
        fs::remove_file(certificate_in(dir.path())).unwrap();
        let key = fs::read_to_string(dir.path().join(TLS_KEY)).unwrap();
        load_or_make();
        is_kept(".old");
        assert_eq!(kept(dir.path(), TLS_KEY, ".old-2"), key);
    }
}
