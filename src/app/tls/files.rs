//! The files of a certificate and its key (`--tls-cert`, `--tls-key`).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::app::placement;
use crate::base::Time;
use crate::http::{Pair, PairProblem};

/// A chain of certificates has some 10 KB.
const MAX_BYTES: u64 = 1024 * 1024;

/// Where a certificate and its key are, both in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// `--tls-cert`: the server's own certificate, and those of its issuers.
    pub certificate: PathBuf,
    /// `--tls-key`: its private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads both.
    ///
    /// # Errors
    /// A sentence that names the file, if one cannot be read or used, they do not belong together, or
    /// the certificate has expired at `now`.
    pub fn load(&self, now: Time) -> Result<Pair, String> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let pem = read(&self.certificate).map_err(|why| format!("--tls-cert {why}"))?;
        let key_pem = read(&self.key).map_err(|why| format!("--tls-key {why}"))?;
        let pair = Pair::from_pem(&pem, &key_pem).map_err(|problem| match problem {
            PairProblem::Certificate(what) => format!("--tls-cert {certificate} {what}"),
            PairProblem::Key(what) => format!("--tls-key {key} {what}"),
            PairProblem::Mismatch => format!(
                "--tls-key {key} is not the key of the certificate in --tls-cert {certificate}: give \
                 the two that were made together, and the server's own certificate before those of \
                 its issuers"
            ),
        })?;
        if pair.facts.not_after < now {
            return Err(format!(
                "--tls-cert {certificate} has expired at {}: get a new one, or set the clock, which \
                 says {now}",
                pair.facts.not_after
            ));
        }
        Ok(pair)
    }

    /// A sentence about a pair of theirs that is not valid yet at `now`.
    pub fn not_yet(&self, pair: &Pair, now: Time) -> String {
        format!(
            "--tls-cert {} is valid from {} on: it is served then; if that is wrong, look at the \
             clock, which says {now}",
            self.certificate.display(),
            pair.facts.not_before
        )
    }

    /// Their state now.
    pub fn state(&self) -> FilesState {
        FilesState([&self.certificate, &self.key].map(|path| {
            let file = fs::metadata(path).ok()?;
            Some(FileState {
                file: (file.dev(), file.ino()),
                length: file.len(),
                written: (file.mtime(), file.mtime_nsec()),
                changed: (file.ctime(), file.ctime_nsec()),
            })
        }))
    }
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let shown = path.display();
    let unreadable = |error: io::Error| placement::unreadable(path, &error);
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(format!("{shown} is a directory; name the file in it"));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(16 * 1024));
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 {
        0 => Err(format!("{shown} is empty")),
        length if length > MAX_BYTES => {
            Err(format!("{shown} has more than 1 MiB: it is another file"))
        }
        _ => Ok(bytes),
    }
}

/// What says whether the two were changed, of each that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesState([Option<FileState>; 2]);

/// Which file it is, and when it was written.
#[derive(Clone, Debug, PartialEq)]
struct FileState {
    file: (u64, u64),
    length: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;
    use crate::store::Clock;

    fn pair(until: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["a.test".to_string()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_file_that_cannot_be_served_is_named_with_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let files =
            TlsFiles { certificate: place.path().join("a.pem"), key: place.path().join("a.key") };
        let write = |certificate: &str, key: &str| {
            fs::write(&files.certificate, certificate).unwrap();
            fs::write(&files.key, key).unwrap();
        };
        let refused = |part: &str| {
            let why = files.load(Clock::system().now()).expect_err("it is refused");
            assert!(why.contains(part), "{why}");
            why
        };
        let (good, good_key) = pair(2099);
        write(&good, &good_key);
        assert!(files.load(Clock::system().now()).is_ok());
        let (old, old_key) = pair(2001);
        write(&old, &old_key);
        assert!(refused("has expired at 2001-01-01").contains("a.pem"));
        write(&good, &old_key);
        assert!(refused("is not the key of the certificate").contains("a.key"));
        write("", &old_key);
        assert!(refused("is empty").starts_with("--tls-cert "));
        write(&good, &"x".repeat(MAX_BYTES as usize + 1));
        assert!(refused("more than 1 MiB").starts_with("--tls-key "));
        fs::remove_file(&files.key).unwrap();
        refused("cannot be read");
        fs::create_dir(&files.key).unwrap();
        refused("is a directory");
    }
}
