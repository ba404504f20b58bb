//! Asking the authority for a certificate when one is wanted, and serving it.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::task::block_in_place;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::account_fault::AccountFault;
use super::calls::{Callers, Calls};
use super::order::{self, Issued, Refused};
use super::schedule;
use super::settings::AcmeSettings;
use super::stored::{self, Stored};
use crate::app::data_dir_error::DataDirError;
use crate::app::placement::ACME_STATE;
use crate::app::tls::own::OwnTls;
use crate::app::tls::watch::Expiry;
use crate::base::Time;
use crate::http::CertificateFacts;
use crate::outside::{ClientConfig, Resolver};
use crate::store::Clock;

/// How often it is looked whether a certificate is wanted.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Time of an attempt.
const ATTEMPT_TIME: Duration = Duration::from_secs(10 * 60);

/// Serves certificates that an authority issues, each until the next: asks for one when it is wanted, and
/// on each of these signals if it is.
///
/// # Errors
/// If what a data directory has of the authority cannot be read, or the settings for outgoing calls are
/// wrong.
pub fn renew(
    own: Arc<OwnTls>,
    dir: PathBuf,
    settings: AcmeSettings,
    calls: (ClientConfig, Resolver),
    mut hangup: Signal,
) -> Result<impl Future<Output = Infallible>, DataDirError> {
    let callers = Callers::new(calls.0, calls.1).map_err(|e| DataDirError(e.to_string()))?;
    let stored = Stored::load(&dir)?;
    let mut renewing = Renewing { own, dir, settings, callers, stored, unkept: None };
    Ok(async move {
        let mut expiry = Expiry::default();
        let mut is_asked = false;
        loop {
            let now = Clock::system().now();
            expiry.look(&renewing.own, now);
            renewing.keep_again();
            if renewing.is_due(now, is_asked) {
                renewing.attempt(now).await;
            }
            is_asked = tokio::select! {
                received = hangup.recv() => received.is_some(),
                () = tokio::time::sleep(LOOK_INTERVAL) => false,
            };
        }
    })
}

/// The certificate, and what is known of the authority.
struct Renewing {
    own: Arc<OwnTls>,
    dir: PathBuf,
    settings: AcmeSettings,
    callers: Callers,
    stored: Stored,
    /// The certificate that is served with its key, in PEM, while it could not be written.
    unkept: Option<Zeroizing<String>>,
}

impl Renewing {
    /// What is served, if an authority has issued it.
    fn issued(&self) -> Option<CertificateFacts> {
        let pair = self.own.tls().pair();
        (!pair.is_self_made).then(|| pair.facts.clone())
    }

    fn is_due(&self, now: Time, is_asked: bool) -> bool {
        let (stored, settings, issued) = (&self.stored, &self.settings, self.issued());
        if stored.next_attempt(settings, issued.as_ref(), now) <= now {
            return true;
        }
        let is_hurried = is_asked && stored.may_be_hurried(settings, issued.as_ref(), now);
        if is_asked && !is_hurried {
            tracing::info!(
                "a signal asks for a TLS certificate: none is wanted yet, or the last attempt is less \
                 than a minute ago"
            );
        }
        is_hurried
    }

    async fn attempt(&mut self, now: Time) {
        let (directory, domains) = (&self.settings.directory, self.settings.domains.join(", "));
        tracing::info!(%directory, %domains, "asking the authority for a TLS certificate");
        let [noise] = Clock::system().random();
        self.stored.begin(&self.settings, now, noise);
        // Nothing is asked that a restart would not know of.
        if let Err(refused) = self.save() {
            return self.refuse(refused, None);
        }
        self.tell(now);
        let calls = Calls::new(self.callers.clone(), &self.settings.directory);
        let done = timeout(ATTEMPT_TIME, self.obtained(&calls)).await;
        if let Some(challenges) = self.own.tls().challenges() {
            challenges.clear();
        }
        let late = |_| Refused::of("the authority took more than ten minutes");
        match done.map_err(late).and_then(|done| done).and_then(|issued| self.kept(issued)) {
            Ok(()) => {}
            Err(refused) => self.refuse(refused, calls.asked_pause()),
        }
    }

    /// Gets a certificate; also by another account, if the authority does not take the one that it had.
    async fn obtained(&mut self, calls: &Calls) -> Result<Issued, Refused> {
        let directory = &self.settings.directory;
        let had_account =
            self.stored.account.as_ref().is_some_and(|account| account.directory == *directory);
        match self.ordered(calls, false).await {
            Err(refused) if had_account && self.stored.may_replace_account(refused.account) => {
                let why = &refused.why;
                tracing::warn!(
                    "the authority does not take the account any more, and another one is made: {why}"
                );
                self.ordered(calls, true).await
            }
            done => done,
        }
    }

    /// Orders a certificate, by another account if that is wanted. The one that there is stays until another
    /// is made: the authority may have refused it for a reason of its own, and may make none.
    async fn ordered(&mut self, calls: &Calls, by_another: bool) -> Result<Issued, Refused> {
        let known = self.stored.account.as_ref().filter(|_| !by_another);
        let (account, new) = order::account(calls, &self.settings, known).await?;
        if let Some(new) = new {
            self.stored.account = Some(new);
            self.stored.is_account_replaced |= by_another;
            self.save()?;
        }
        let challenges = self.own.tls().challenges().cloned();
        let challenges = challenges.ok_or_else(|| Refused::of("TLS answers no authority"))?;
        order::certificate(&account, &self.settings, &challenges).await
    }

    /// Keeps and serves a certificate.
    fn kept(&mut self, Issued { pair, pem }: Issued) -> Result<(), Refused> {
        let now = Clock::system().now();
        let is_served = |facts: &CertificateFacts| {
            facts.is_valid_at(now) && schedule::has_all(facts, &self.settings.domains)
        };
        if !pair.facts.is_valid_at(now) && self.issued().is_some_and(|facts| is_served(&facts)) {
            let CertificateFacts { not_before, not_after, .. } = &pair.facts;
            return Err(Refused::of(format!(
                "the certificate that was issued is valid from {not_before} to {not_after} only, and \
                 not now: look at the clock"
            )));
        }
        let facts = pair.facts.clone();
        self.own.serve_issued(pair, &stored::certificate_in(&self.dir));
        self.stored.succeeded(&self.settings.directory, &facts, now);
        self.unkept = Some(pem);
        if let Err(error) = self.keep() {
            // A start would not find all: so what is written of the attempt stays that it was interrupted.
            tracing::error!("the TLS certificate that was issued is served, and {error}");
        }
        self.tell(now);
        let CertificateFacts { not_before, not_after, fingerprint, .. } = &facts;
        let next = self.stored.next_attempt(&self.settings, Some(&facts), now);
        tracing::info!(%fingerprint, %not_after, %next, "a new TLS certificate is served from now on");
        if !facts.is_valid_at(now) {
            tracing::warn!(%not_before, %not_after, %now, "it is not valid now: look at the clock");
        }
        Ok(())
    }

    /// Writes the certificate that is served and what is known of it, if that is still to be done.
    fn keep(&mut self) -> Result<(), String> {
        let Some(pem) = &self.unkept else { return Ok(()) };
        let written = block_in_place(|| stored::keep(&self.dir, pem)).map_err(|error| {
            let dir = self.dir.display();
            format!("it cannot be written to {dir}, so that a restart loses it: {error}")
        });
        let saved = written.and_then(|()| {
            self.save()
                .map_err(|refused| format!("{}, so that a start asks for another", refused.why))
        });
        if let Err(problem) = saved {
            let secs = LOOK_INTERVAL.as_secs();
            let problem = format!("{problem}; that is tried again every {secs} s");
            self.own.set_problem(Some(problem.clone()));
            return Err(problem);
        }
        self.unkept = None;
        self.own.set_problem(None);
        Ok(())
    }

    /// Writes what could not be written before.
    fn keep_again(&mut self) {
        if self.unkept.is_some() && self.keep().is_ok() {
            tracing::info!("the TLS certificate that is served is written now");
        }
    }

    /// Notes and logs why there is no new certificate.
    fn refuse(&mut self, refused: Refused, asked_pause: Option<i64>) {
        let Refused { mut why, account } = refused;
        let now = Clock::system().now();
        if account != AccountFault::None && self.stored.is_account_replaced {
            why.push_str(&format!(
                "; to have another account made, stop the server and remove {ACME_STATE} from its data \
                 directory"
            ));
        }
        self.stored.failed(why.clone(), asked_pause, now);
        let unsaved = self.save().err();
        let next = self.stored.next_attempt(&self.settings, self.issued().as_ref(), now);
        self.tell(now);
        // An error once clients are about to refuse what is served, or do already.
        let facts = self.own.tls().pair().facts.clone();
        let left = facts.not_after.secs() - now.secs();
        let lifetime = facts.not_after.secs() - facts.not_before.secs();
        let is_urgent = self.issued().is_none() || left < lifetime / 6;
        if is_urgent {
            tracing::error!(%next, "there is no new TLS certificate: {why}");
        } else {
            let not_after = facts.not_after;
            tracing::warn!(%not_after, %next, "the TLS certificate is not renewed yet: {why}");
        }
        if let Some(unsaved) = unsaved.filter(|unsaved| unsaved.why != why) {
            tracing::warn!("{}", unsaved.why);
        }
    }

    fn save(&self) -> Result<(), Refused> {
        let saved = block_in_place(|| self.stored.save(&self.dir));
        saved.map_err(|error| {
            Refused::of(format!(
                "what is known of the authority cannot be written to {}: {error}",
                self.dir.display()
            ))
        })
    }

    /// Tells those who ask for the state of the server.
    fn tell(&self, now: Time) {
        self.own.set_acme(self.stored.status(&self.settings, self.issued().as_ref(), now));
    }
}
