//! The files of a certificate and its key (`--tls-cert`, `--tls-key`).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use crate::app::placement;
use crate::base::Time;
use crate::http::{Pair, PairProblem};

/// How long files may be replaced at the start of a server: as long as a running one looks at a change
/// twice.
const REPLACING_TIME: Duration = Duration::from_secs(4);

/// How often they are looked at meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

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
    /// Reads both. The certificate may have expired.
    ///
    /// # Errors
    /// If one cannot be read or used, or they do not belong together.
    pub fn load(&self) -> Result<Pair, Unusable> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let pem = read(&self.certificate).map_err(|one| one.of("--tls-cert"))?;
        let key_pem = read(&self.key).map_err(|one| one.of("--tls-key"))?;
        // Each is also what one sees of a file that is being written.
        Pair::from_pem(&pem, &key_pem).map_err(|problem| match problem {
            PairProblem::Certificate(what) => {
                Unusable::passing(format!("--tls-cert {certificate} {what}"))
            }
            PairProblem::Key(what) => Unusable::passing(format!("--tls-key {key} {what}")),
            PairProblem::Mismatch => Unusable::passing(format!(
                "--tls-key {key} is not the key of the certificate in --tls-cert {certificate}: give \
                 the two that were made together, and the server's own certificate before those of \
                 its issuers"
            )),
        })
    }

    /// Reads both at the start of a server, and their state then. What may be half of a replacement is
    /// looked at again for some seconds: a service manager does not start a server again whose settings
    /// are wrong.
    ///
    /// # Errors
    /// As [`load`](Self::load): a sentence that names the file.
    pub fn load_at_start(&self) -> Result<(Pair, FilesState), String> {
        let until = Instant::now() + REPLACING_TIME;
        self.load_whole(|| {
            thread::sleep(LOOK_INTERVAL);
            Instant::now() < until
        })
    }

    /// Reads both until they are whole, or `wait` returns false.
    fn load_whole(&self, mut wait: impl FnMut() -> bool) -> Result<(Pair, FilesState), String> {
        let mut is_last = false;
        loop {
            // Before they are read: a change meanwhile is one.
            let state = self.state();
            match self.load() {
                Ok(pair) => return Ok((pair, state)),
                Err(one) if one.is_passing && !is_last => is_last = !wait(),
                Err(one) => return Err(one.why),
            }
        }
    }

    /// Whether every user of the machine can read the key.
    pub fn is_key_open(&self) -> bool {
        fs::metadata(&self.key).is_ok_and(|file| file.mode() & 0o007 != 0)
    }

    /// A sentence about a pair of theirs that has expired at `now`.
    pub fn expired(&self, pair: &Pair, now: Time) -> String {
        format!(
            "--tls-cert {} has expired at {}: get a new one, or set the clock, which says {now}",
            self.certificate.display(),
            pair.facts.not_after
        )
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

/// Why files cannot be served.
#[derive(Debug)]
pub struct Unusable {
    /// A sentence that names the file.
    pub why: String,
    /// Whether files look so while they are replaced, one after the other.
    is_passing: bool,
}

impl Unusable {
    fn lasting(why: String) -> Self {
        Unusable { why, is_passing: false }
    }

    fn passing(why: String) -> Self {
        Unusable { why, is_passing: true }
    }

    /// The same of the file that a flag names.
    fn of(self, flag: &str) -> Self {
        Unusable { why: format!("{flag} {}", self.why), ..self }
    }
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Unusable> {
    let shown = path.display();
    // A new file may not be there yet, or not yet belong to the server's user.
    let unreadable = |error: io::Error| Unusable::passing(placement::unreadable(path, &error));
    // Before it is opened, which with a pipe would wait for a writer.
    let kind = fs::metadata(path).map_err(unreadable)?.file_type();
    if kind.is_dir() {
        return Err(Unusable::lasting(format!("{shown} is a directory; name the file in it")));
    }
    if !kind.is_file() {
        return Err(Unusable::lasting(format!(
            "{shown} is no regular file: it is read again whenever it may have changed, so store its \
             content in one"
        )));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(16 * 1024));
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 {
        0 => Err(Unusable::passing(format!("{shown} is empty"))),
        length if length > MAX_BYTES => {
            Err(Unusable::lasting(format!("{shown} has more than 1 MiB: it is another file")))
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
            let why = files.load().expect_err("it is refused").why;
            assert!(why.contains(part), "{why}");
            why
        };
        let (good, good_key) = pair(2099);
        write(&good, &good_key);
        assert!(files.load().is_ok());
        let (_, old_key) = pair(2001);
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
        let device = TlsFiles { key: "/dev/null".into(), ..files.clone() };
        assert!(device.load().expect_err("it is refused").why.contains("is no regular file"));
    }

    #[test]
    fn files_that_are_replaced_at_the_start_are_waited_for_and_others_are_not() {
        let place = tempfile::tempdir().unwrap();
        let files =
            TlsFiles { certificate: place.path().join("a.pem"), key: place.path().join("a.key") };
        let write = |certificate: &str, key: &str| {
            fs::write(&files.certificate, certificate).unwrap();
            fs::write(&files.key, key).unwrap();
        };
        let ((good, good_key), (_, other_key)) = (pair(2099), pair(2099));
        write(&good, &other_key);
        // A mismatch, then an empty file, none, one that is half written, then the right one.
        let mut waited = 0;
        let (served, state) = files
            .load_whole(|| {
                waited += 1;
                match waited {
                    1 => fs::write(&files.key, "").unwrap(),
                    2 => fs::remove_file(&files.key).unwrap(),
                    3 => fs::write(&files.key, &good_key[..good_key.len() / 2]).unwrap(),
                    _ => fs::write(&files.key, &good_key).unwrap(),
                }
                true
            })
            .unwrap();
        assert_eq!((waited, served.certificates(), state), (4, 1, files.state()));
        // Not for ever.
        write(&good, &other_key);
        let why = files.load_whole(|| false).err().unwrap();
        assert!(why.contains("is not the key of the certificate"), "{why}");
        // Nor for what is another kind of file.
        fs::remove_file(&files.key).unwrap();
        fs::create_dir(&files.key).unwrap();
        assert!(files.load_whole(|| panic!("it waits")).is_err());
    }
}
