//! Reading the files of a certificate again when they change.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;

use super::files::{FilesState, TlsFiles};
use super::own::OwnTls;
use crate::api::SystemTls;
use crate::base::Time;
use crate::http::Pair;
use crate::store::Clock;

/// How often it is looked whether the files have changed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How often it is looked whether a certificate that does not change has expired.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

/// Reads the files again when they change, and on each of these signals. A certificate that can be
/// served takes the place of the one before; another is an error in the log, and that goes on. So it
/// does until a certificate that is not valid yet becomes valid.
pub async fn watch(own: Arc<OwnTls>, files: TlsFiles, mut hangup: Signal) -> Infallible {
    let mut watched = Watched::new(own, files);
    let mut is_asked = false;
    loop {
        let (own, files) = (watched.own.clone(), watched.files.clone());
        // A file system may be slow.
        let look = tokio::task::spawn_blocking(move || {
            watched.look(is_asked);
            watched
        });
        watched = match look.await {
            Ok(watched) => watched,
            // A panic, which is logged and counted.
            Err(error) if error.is_panic() => Watched::new(own, files),
            // The server is stopping.
            Err(_) => return std::future::pending().await,
        };
        is_asked = tokio::select! {
            received = hangup.recv() => received.is_some(),
            () = tokio::time::sleep(POLL_INTERVAL) => false,
        };
    }
}

/// Logs, once for each certificate, that the one that is served has expired: where no files are watched.
pub async fn watch_expiry(own: Option<Arc<OwnTls>>) -> Infallible {
    let Some(own) = own else { return std::future::pending().await };
    let mut expiry = Expiry::default();
    loop {
        expiry.look(&own, Clock::system().now());
        tokio::time::sleep(EXPIRY_INTERVAL).await;
    }
}

/// What was logged of the end of certificates.
#[derive(Default)]
pub(super) struct Expiry {
    /// The end of the last that was logged.
    logged: Option<Time>,
}

impl Expiry {
    /// Logs that what is served has expired, if it has and that was not logged yet; returns whether it
    /// did.
    pub(super) fn look(&mut self, own: &OwnTls, now: Time) -> bool {
        let SystemTls { not_after, self_signed, acme, .. } = own.status();
        if now <= not_after || self.logged == Some(not_after) {
            return false;
        }
        self.logged = Some(not_after);
        let to_do = match (acme, self_signed) {
            (Some(_), _) => "roadstead doctor says why the authority issues none",
            (None, true) => "a restart makes a new one",
            (None, false) => "replace its files",
        };
        tracing::error!(
            %not_after,
            "the TLS certificate that is served has expired, and clients refuse it: {to_do}"
        );
        true
    }
}

/// The files, and what is known of them.
struct Watched {
    own: Arc<OwnTls>,
    files: TlsFiles,
    /// Their state when they were read and served.
    served: Option<FilesState>,
    /// Their state when they were last found to be unusable; always there once `reported` is.
    tried: Option<FilesState>,
    /// Their state when that was last logged.
    reported: Option<FilesState>,
    expiry: Expiry,
}

/// Why files are not served.
struct Refused {
    problem: String,
    /// Whether they will be, in time.
    is_early: bool,
}

impl Refused {
    fn ever(problem: String) -> Self {
        Refused { problem, is_early: false }
    }
}

impl Watched {
    fn new(own: Arc<OwnTls>, files: TlsFiles) -> Self {
        let (served, expiry) = (own.read_state(), Expiry::default());
        Watched { own, files, served, tried: None, reported: None, expiry }
    }

    /// Serves the files if they have changed, or somebody asks for it.
    fn look(&mut self, is_asked: bool) {
        self.look_at(Clock::system().now(), is_asked);
    }

    fn look_at(&mut self, now: Time, is_asked: bool) {
        self.renew(now, is_asked);
        self.expiry.look(&self.own, now);
    }

    fn renew(&mut self, now: Time, is_asked: bool) {
        let state = self.files.state();
        if self.served.as_ref() == Some(&state) && !is_asked {
            // Those that are served are back, after others that were not.
            if self.tried.take().is_some() {
                self.reported = None;
                self.own.set_problem(None);
            }
            return;
        }
        let found = self.files.load();
        if self.files.state() != state {
            // Changed while they were read: the next look shows how they are now.
            return;
        }
        match found.map_err(|unusable| Refused::ever(unusable.why)) {
            Err(refused) => self.refuse(refused, state, is_asked),
            Ok(pair) => match self.worse(&pair, now) {
                Some(refused) => self.refuse(refused, state, is_asked),
                None => self.serve(pair, state),
            },
        }
    }

    /// Why what is served is better than a pair, if it is: it is valid, and the other is not.
    fn worse(&self, pair: &Pair, now: Time) -> Option<Refused> {
        if !self.own.tls().pair().facts.is_valid_at(now) {
            None
        } else if now < pair.facts.not_before {
            Some(Refused { problem: self.files.not_yet(pair, now), is_early: true })
        } else if pair.facts.not_after < now {
            Some(Refused::ever(self.files.expired(pair, now)))
        } else {
            None
        }
    }

    fn serve(&mut self, pair: Pair, state: FilesState) {
        let (fingerprint, not_after) = (pair.facts.fingerprint.clone(), pair.facts.not_after);
        let certificates = pair.certificates();
        (self.served, self.tried, self.reported) = (Some(state), None, None);
        self.own.set_problem(None);
        if self.own.tls().replace(pair) {
            tracing::info!(
                %fingerprint,
                %not_after,
                certificates,
                "another TLS certificate is served from now on"
            );
        }
    }

    /// Files are often written one after the other: only what stays so is an error.
    fn refuse(
        &mut self,
        Refused { problem, is_early }: Refused,
        state: FilesState,
        is_asked: bool,
    ) {
        let stays = is_asked || self.tried.as_ref() == Some(&state);
        self.tried = Some(state.clone());
        if !stays || (self.reported.as_ref() == Some(&state) && !is_asked) {
            return;
        }
        self.reported = Some(state);
        if is_early {
            tracing::warn!("the TLS certificate before the new one is still served: {problem}");
        } else {
            tracing::error!(
                "the new TLS certificate cannot be served, and the one before is still: {problem}"
            );
        }
        self.own.set_problem(Some(problem));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    struct Made {
        _place: tempfile::TempDir,
        files: TlsFiles,
    }

    impl Made {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let files = TlsFiles {
                certificate: place.path().join("a.pem"),
                key: place.path().join("a.key"),
            };
            let made = Made { _place: place, files };
            let (certificate, key) = pair(2099);
            made.write(&certificate, &key);
            made
        }

        fn write(&self, certificate: &str, key: &str) {
            fs::write(&self.files.certificate, certificate).unwrap();
            fs::write(&self.files.key, key).unwrap();
        }

        fn watched(&self) -> Watched {
            Watched::new(OwnTls::of_files(&self.files).unwrap(), self.files.clone())
        }
    }

    fn pair(until: i32) -> (String, String) {
        valid(2000, until)
    }

    fn valid(from: i32, until: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["a.test".to_string()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_change_that_stays_unusable_is_said_once_and_what_was_served_goes_on() {
        let made = Made::new();
        let mut watched = made.watched();
        let served = watched.own.status();
        let (certificate, key) = pair(2098);
        // Half of a replacement: the next look decides.
        fs::write(&made.files.certificate, &certificate).unwrap();
        watched.look(false);
        assert_eq!(watched.own.status(), served);
        watched.look(false);
        let problem = watched.own.status().problem.expect("it is said");
        assert!(problem.contains("is not the key"), "{problem}");
        assert_eq!(watched.own.status().fingerprint, served.fingerprint);
        let reported = watched.reported.clone();
        watched.look(false);
        assert!(reported.is_some() && watched.reported == reported);
        fs::write(&made.files.key, &key).unwrap();
        watched.look(false);
        let replaced = watched.own.status();
        assert_eq!(replaced.problem, None);
        assert_ne!(replaced.fingerprint, served.fingerprint);
        assert_eq!(replaced.not_after.to_string(), "2098-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_same_certificate_with_the_issuers_that_it_lacked_is_served() {
        let made = Made::new();
        let mut watched = made.watched();
        let own = watched.own.clone();
        let served = || own.tls().pair();
        let (certificate, facts) =
            (fs::read_to_string(&made.files.certificate).unwrap(), served().facts.clone());
        assert_eq!(served().certificates(), 1);
        fs::write(&made.files.certificate, certificate + &pair(2099).0).unwrap();
        watched.look(false);
        assert_eq!((served().certificates(), &served().facts), (2, &facts));
    }

    #[test]
    fn files_that_were_away_and_come_back_are_no_problem_any_more() {
        let made = Made::new();
        let mut watched = made.watched();
        let served = watched.own.status();
        // To another directory and back: nothing of the files themselves changes.
        let folder = made.files.key.parent().unwrap().to_path_buf();
        let away = folder.with_extension("away");
        fs::rename(&folder, &away).unwrap();
        watched.look(false);
        watched.look(false);
        assert!(watched.own.status().problem.unwrap().contains("cannot be read"));
        fs::rename(&away, &folder).unwrap();
        watched.look(false);
        assert_eq!(watched.own.status(), served);
        // And away again is another event.
        fs::rename(&folder, &away).unwrap();
        watched.look(false);
        assert_eq!(watched.own.status(), served);
        watched.look(false);
        assert!(watched.own.status().problem.is_some());
        fs::rename(&away, &folder).unwrap();
    }

    #[test]
    fn a_certificate_that_is_not_valid_yet_waits_while_the_one_before_is_good() {
        let made = Made::new();
        let mut watched = made.watched();
        let fingerprint = watched.own.status().fingerprint;
        let (certificate, key) = valid(2060, 2110);
        made.write(&certificate, &key);
        let year = |year: i32| Time::parse(&format!("{year}-06-01T00:00:00Z")).unwrap();
        watched.look_at(year(2050), false);
        watched.look_at(year(2050), false);
        let waits = watched.own.status();
        assert_eq!(waits.fingerprint, fingerprint);
        assert!(waits.problem.unwrap().contains("2060-01-01"));
        watched.look_at(year(2061), false);
        let due = watched.own.status();
        assert_ne!(due.fingerprint, fingerprint);
        assert_eq!(due.problem, None);
        // What is served has expired, so that nothing is lost with one that is not valid yet.
        let (certificate, key) = valid(2130, 2140);
        made.write(&certificate, &key);
        watched.look_at(year(2120), false);
        assert_ne!(watched.own.status().fingerprint, due.fingerprint);
    }

    #[test]
    fn an_expired_certificate_replaces_no_good_one() {
        let made = Made::new();
        let mut watched = made.watched();
        let fingerprint = watched.own.status().fingerprint;
        let year = |year: i32| Time::parse(&format!("{year}-06-01T00:00:00Z")).unwrap();
        // What is served has expired since: that is no problem of another certificate.
        watched.look_at(year(2100), true);
        assert_eq!(watched.own.status().problem, None);
        let (certificate, key) = pair(2040);
        made.write(&certificate, &key);
        watched.look_at(year(2050), true);
        let waits = watched.own.status();
        assert_eq!(waits.fingerprint, fingerprint);
        assert!(waits.problem.unwrap().contains("has expired at 2040-01-01"));
    }

    #[test]
    fn that_what_is_served_has_expired_is_said_once() {
        let made = Made::new();
        let mut watched = made.watched();
        let own = watched.own.clone();
        let year = |year: i32| Time::parse(&format!("{year}-06-01T00:00:00Z")).unwrap();
        assert!(!watched.expiry.look(&own, year(2098)));
        watched.look_at(year(2099), false);
        assert_eq!(watched.expiry.logged.unwrap().to_string(), "2099-01-01T00:00:00.000Z");
        assert!(!watched.expiry.look(&own, year(2099)), "it was said");
        let (certificate, key) = valid(2000, 2110);
        made.write(&certificate, &key);
        watched.look_at(year(2099), false);
        assert!(!watched.expiry.look(&own, year(2109)));
        assert!(watched.expiry.look(&own, year(2110)), "the next one, too");
    }

    #[test]
    fn who_asks_is_told_at_once() {
        let made = Made::new();
        let mut watched = made.watched();
        made.write("text", "text");
        watched.look(true);
        assert!(watched.own.status().problem.is_some());
    }
}
