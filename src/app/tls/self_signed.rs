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

/// What the names of files end in that were of no use.
const UNUSABLE: &str = ".unusable";

/// A certificate or key has about 1 KB.
const MAX_BYTES: u64 = 64 * 1024;

/// The file of the certificate in a data directory.
pub fn certificate_in(dir: &Path) -> PathBuf {
    dir.join(TLS_CERTIFICATE)
}

/// Returns the certificate of a data directory. If there is none, or it is about to expire or not valid
/// yet, one is made for these hosts.
///
/// # Errors
/// If its files cannot be read or written, or its key is readable for others.
pub fn load_or_make(dir: &Path, hosts: &[String], now: Time) -> Result<Pair, DataDirError> {
    let why = match load(dir)? {
        Found::Nothing => return make(dir, hosts, now),
        Found::Part => "has a part missing, or the key of another".into(),
        Found::Broken(why) => {
            put_aside(dir)?;
            format!("cannot be used: {why}; its files are kept, with {UNUSABLE} behind their names")
        }
        Found::Whole(pair) => {
            let CertificateFacts { not_before, not_after, .. } = pair.facts;
            if now < not_before {
                format!("is valid from {not_before} on, and the clock says {now}")
            } else if not_after <= now.plus_secs(RENEW_SECS) {
                format!("is valid until {not_after}")
            } else {
                warn_of_missing(&pair, hosts, dir);
                return Ok(pair);
            }
        }
    };
    tracing::warn!(
        "the self-signed TLS certificate {why}: a new one is made, which clients must trust anew"
    );
    make(dir, hosts, now)
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

/// Moves both files out of the way of new ones: they are somebody's, who may have put them there.
fn put_aside(dir: &Path) -> Result<(), DataDirError> {
    for name in [TLS_KEY, TLS_CERTIFICATE] {
        let aside = dir.join(format!("{name}{UNUSABLE}"));
        fs::rename(dir.join(name), &aside).map_err(|error| {
            DataDirError(format!("{name} cannot be renamed to {}: {error}", aside.display()))
        })?;
    }
    Ok(())
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
    if mode & 0o077 != 0 {
        return Err(DataDirError(format!(
            "the TLS key {path} is accessible to other users (mode {:03o}); run: chmod 600 {path}",
            mode & 0o777,
            path = key_path.display()
        )));
    }
    Ok(match Pair::from_pem(&certificate, &key) {
        Ok(pair) => Found::Whole(pair),
        Err(PairProblem::Mismatch) => Found::Part,
        Err(PairProblem::Certificate(what)) => {
            Found::Broken(format!("{} {what}", certificate_path.display()))
        }
        Err(PairProblem::Key(what)) => Found::Broken(format!("{} {what}", key_path.display())),
    })
}

type Content = (Zeroizing<Vec<u8>>, u32);

fn read(path: &Path) -> Result<Option<Content>, DataDirError> {
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
    Pair::from_pem(certificate.as_bytes(), key.as_bytes())
        .map_err(|problem| DataDirError(format!("the new TLS certificate is broken: {problem:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
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
        // The clock was ahead when it was made, and has been set since.
        let earlier = load(&["b.test"], now);
        assert_ne!(earlier.fingerprint, later.fingerprint);
        assert!(earlier.is_valid_at(now));
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
        let certificate = fs::read(certificate_in(dir.path())).unwrap();
        fs::write(dir.path().join(TLS_KEY), "mine").unwrap();
        let Found::Broken(why) = load(dir.path()).unwrap() else { panic!("it is usable") };
        assert!(why.contains("tls-self-signed.key holds no private key"), "{why}");
        assert_ne!(load_or_make().facts.fingerprint, first);
        let kept = |name: &str| fs::read(dir.path().join(format!("{name}.unusable"))).unwrap();
        assert_eq!(kept(TLS_KEY), b"mine");
        assert_eq!(kept(TLS_CERTIFICATE), certificate);
    }
}
