//! The runner: leases due jobs, executes their effects, settles them; runs the sweeps.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{self, JoinSet};
use tokio::time::timeout;

use super::attempts::{end_old_leases, finish, leased, postpone, settle, wait};
use super::due_scan::DueScan;
use super::effects::{Calls, Effect, EffectResult, Workflow, WriteRows};
use super::failures::log_failure;
use super::handlers::{JobHandler, Prepared, Settled, was_given_up};
use super::in_flight::{InFlight, MAX_IN_FLIGHT};
use super::jobs::{ENQUEUED, Job, LEASE_SECS};
use super::meters::DeliveryMeters;
use super::misdated::Misdated;
use super::sweeps::{RetentionSettings, Sweep, SweepProgress};
use crate::base::{Error, Id, Kind, LogLimit, Result};
use crate::outside::Outside;
use crate::outside::mail::MailSender;
use crate::outside::smtp::MAIL_TIMEOUT;
use crate::store::{Org, Store, Tx, WorkHints};

/// At most 8 calls of one job at once, as of one request.
const MAX_CONCURRENT_CALLS: usize = 8;

/// Due jobs are polled at least this often, with or without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// So many parts of a scan are looked at before the jobs that have ended meanwhile are noted.
const PARTS_AT_ONCE: usize = 16;

/// How often jobs are looked for that are due later than any can be.
const CORRECT_INTERVAL: Duration = Duration::from_secs(60);

/// The background work of the server, with its dependencies.
#[derive(Clone)]
pub struct Runner {
    pub store: Store,
    /// The HTTP client for calls.
    pub outside: Outside,
    pub mail: Arc<dyn MailSender>,
    /// The handlers of all jobs.
    pub jobs: Vec<&'static JobHandler>,
    /// The workflows of all channels.
    pub workflows: Vec<&'static Workflow>,
    pub sweeps: Vec<&'static Sweep>,
    /// The operator's settings.
    pub settings: RetentionSettings,
    /// Lists the organizations, for the sweeps.
    pub organizations: fn(&Store) -> Result<Vec<Id<Org>>>,
    /// What it counts for the metrics.
    pub meters: Arc<DeliveryMeters>,
}

/// Why an attempt of a job has no result.
struct Unsettled {
    error: Error,
    /// Whether the store is overloaded or stopping and nothing was done yet, which is no failure of the
    /// job.
    may_wait: bool,
    /// Whether its effect was done.
    is_done: bool,
}

impl From<Error> for Unsettled {
    fn from(error: Error) -> Self {
        Unsettled { may_wait: error.kind() == Kind::Busy, is_done: false, error }
    }
}

impl Runner {
    /// Runs until `stop` becomes true, then waits for jobs and sweeps in flight.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let runner = Arc::new(self);
        if let Err(error) = runner.end_old_leases().await {
            log_failure!(error, "leases of the last run cannot be ended before their time");
        }
        let mut sweeps = JoinSet::new();
        for sweep in runner.sweeps.iter().copied() {
            sweeps.spawn(runner.clone().sweep(sweep, stop.clone()));
        }
        sweeps.spawn(runner.clone().correct_times(stop.clone()));
        let mut jobs = JoinSet::new();
        let (mut in_flight, mut scan) = (InFlight::default(), DueScan::default());
        let mut enqueued = runner.store.signals().subscribe(ENQUEUED);
        let mut is_new = true;
        while !*stop.borrow() {
            while let Some(ended) = jobs.try_join_next_with_id() {
                in_flight.end(ended);
            }
            scan.begin(in_flight.take_freed(), is_new, Instant::now());
            let start = |job| jobs.spawn(runner.clone().execute_timed(job)).id();
            runner.start_due(&mut in_flight, &mut scan, start).await;
            if !scan.is_over() && in_flight.len() < MAX_IN_FLIGHT {
                // There is more to look at; jobs have ended meanwhile.
                is_new = false;
                task::yield_now().await;
                continue;
            }
            is_new = tokio::select! {
                _ = enqueued.notified() => true,
                () = tokio::time::sleep(POLL_INTERVAL) => true,
                Some(ended) = jobs.join_next_with_id() => {
                    in_flight.end(ended);
                    false
                }
                _ = stop.changed() => break,
            };
        }
        while jobs.join_next().await.is_some() {}
        while sweeps.join_next().await.is_some() {}
    }

    /// Leases due jobs that may run now beside those in flight, and starts them: as far as some parts of
    /// a scan find them.
    async fn start_due(
        &self,
        in_flight: &mut InFlight,
        scan: &mut DueScan,
        mut start: impl FnMut(Job) -> task::Id,
    ) {
        for _ in 0..PARTS_AT_ONCE {
            let free = MAX_IN_FLIGHT - in_flight.len();
            if free == 0 || scan.is_over() {
                break;
            }
            for job in self.lease(in_flight, scan, free).await {
                let (key, org) = (job.concurrency_key, job.org);
                in_flight.begin(start(job), key, org);
            }
        }
    }

    /// Executes a job; returns how long that took.
    async fn execute_timed(self: Arc<Self>, job: Job) -> Duration {
        let started = Instant::now();
        self.execute(job).await;
        started.elapsed()
    }

    /// Makes the jobs due that the last process was executing when it was killed, so that they need
    /// not wait for the end of their leases.
    async fn end_old_leases(&self) -> Result<()> {
        while self.store.write(Id::NIL, end_old_leases).await? == SweepProgress::More {}
        Ok(())
    }

    /// Leases due jobs that may run now, at most `limit`, those that have been due longest first.
    async fn lease(&self, in_flight: &InFlight, scan: &mut DueScan, limit: usize) -> Vec<Job> {
        let due = self.store.read(Id::NIL, |view| scan.next(view, in_flight, limit));
        let due = match due.await {
            Ok(due) if due.is_empty() => return Vec::new(),
            Ok(due) => due,
            Err(error) => {
                log_failure!(error, "due jobs cannot be read");
                scan.abort();
                return Vec::new();
            }
        };
        let leased = self.store.write(Id::NIL, move |tx| {
            let now = tx.now();
            let (mut leased, mut lost) = (Vec::with_capacity(due.len()), Vec::new());
            for due in &due {
                let old = match tx.get::<Job>(due) {
                    Err(error) if error.kind() == Kind::Internal => {
                        lost.push(*due);
                        continue;
                    }
                    found => found?,
                };
                if let Some(old) = old.filter(|job| !job.dead && job.due_at <= now) {
                    let job = old.due(now.plus_secs(LEASE_SECS), now);
                    let job = Job { attempts: old.attempts + 1, ..job };
                    tx.replace(&old, &job)?;
                    leased.push(job);
                }
            }
            Ok((leased, lost))
        });
        match leased.await {
            Ok((leased, lost)) => {
                lost.into_iter().for_each(|job| scan.skip(job));
                leased
            }
            Err(error) => {
                log_failure!(error, "due jobs cannot be leased");
                scan.abort();
                Vec::new()
            }
        }
    }

    async fn execute(&self, job: Job) {
        /// All jobs of an organization may have to.
        static WAITS: LogLimit = LogLimit::new();
        /// What is tried once more was reported when it was given up.
        static AGAIN: LogLimit = LogLimit::new();
        let Err(Unsettled { error, may_wait, is_done }) = self.try_job(&job).await else {
            return;
        };
        let was_given_up = was_given_up(&job);
        if may_wait || error.kind() == Kind::Busy {
            if let Some(suppressed) = WAITS.admit(Instant::now()) {
                let Job { kind, id, .. } = &job;
                tracing::warn!(%error, kind, job = %id, suppressed, "a job must wait");
            }
        } else if was_given_up {
            if let Some(suppressed) = AGAIN.admit(Instant::now()) {
                let Job { kind, id, .. } = &job;
                tracing::warn!(%error, kind, job = %id, suppressed, "a job that was given up failed again");
            }
        } else {
            self.meters.broken();
            tracing::error!(%error, kind = job.kind, job = %job.id, "a job failed");
        }
        let (kind, id) = (job.kind.clone(), job.id);
        let again = move |tx: &mut Tx| match may_wait {
            true => wait(tx, &job),
            false => postpone(tx, &job, is_done),
        };
        match self.store.write(Id::NIL, again).await {
            Ok(true) if !was_given_up => tracing::error!(kind, job = %id, "a job is given up"),
            Ok(_) => {}
            // It becomes due again when its lease ends.
            Err(error) => log_failure!(error, "a failed job cannot be postponed"),
        }
    }

    async fn try_job(&self, job: &Job) -> Result<(), Unsettled> {
        let Some(handler) = self.jobs.iter().copied().find(|handler| handler.kind == job.kind)
        else {
            return Err(Error::internal(format!("there is no handler for {}", job.kind)).into());
        };
        let Some(effect) = self.prepare(handler, job).await? else { return Ok(()) };
        let outside = self.outside.clone().part_of(job.trace);
        let result = match effect {
            Effect::Call(call) => match outside.send(job.traced(*call)).await {
                Ok(answer) => EffectResult::Response(answer),
                Err(failure) => EffectResult::Failed(failure.to_string()),
            },
            Effect::Calls(Calls { calls, total, goes_on }) => {
                let urls: Vec<_> = calls.iter().map(|call| call.url.clone()).collect();
                let deadline = tokio::time::Instant::now() + total;
                // What is looked up in the background was confirmed before.
                let outside = outside.for_holder();
                let sent = outside.send_while(calls, MAX_CONCURRENT_CALLS, deadline, goes_on);
                let results = sent.await;
                EffectResult::Answers(urls.into_iter().zip(results).collect())
            }
            Effect::Mail(mail) => match timeout(MAIL_TIMEOUT, self.mail.send(&mail)).await {
                Ok(Ok(())) => EffectResult::Done,
                Ok(Err(failure)) => EffectResult::Failed(failure.to_string()),
                Err(_) => EffectResult::Failed("the mail server did not answer in time".into()),
            },
            Effect::Rows(write) => match self.write_rows(handler, job, write).await {
                Err(error) if error.kind() == Kind::NotFound => {
                    EffectResult::Gone(error.message().into())
                }
                Err(error) if error.kind() != Kind::Busy => {
                    EffectResult::Failed(error.message().into())
                }
                written => return Ok(written?),
            },
            Effect::Work(work) => {
                let hints = WorkHints::small(job.org).costly();
                let work = move || panic::catch_unwind(AssertUnwindSafe(work));
                let done = self.store.run_in_turn(hints, work).await?;
                let write = done.map_err(|_| Error::internal("the work of a job panicked"))?;
                // It delivers nothing that would be counted.
                return Ok(self.write_and_settle(handler, job, write).await.map(drop)?);
            }
        };
        let (own, outcome) = (job.clone(), result.clone());
        let settle = move |tx: &mut Tx| settle(tx, handler, &own, &result);
        // The effect is done: that its result cannot be stored counts as a failure, so that it is not done
        // again and again without an end.
        let settled = self.store.write(job.org, settle).await;
        let settled =
            settled.map_err(|error| Unsettled { error, may_wait: false, is_done: true })?;
        self.count(handler, job, &outcome, settled);
        Ok(())
    }

    /// Counts an attempt, unless its lease was lost: then another one counts.
    fn count(
        &self,
        handler: &JobHandler,
        job: &Job,
        result: &EffectResult,
        settled: Option<Settled>,
    ) {
        /// A receiver that is down fails many.
        static LIMIT: LogLimit = LogLimit::new();
        /// So does a mail server.
        static WARNINGS: LogLimit = LogLimit::new();
        let Some(settled) = settled else { return };
        if let Settled::Warning(warning) = &settled
            && let Some(suppressed) = WARNINGS.admit(Instant::now())
        {
            let Job { kind, target, org, .. } = job;
            tracing::warn!(kind, target = %target, %org, suppressed, "{warning}");
        }
        if matches!(result, EffectResult::Answers(_)) {
            return; // It delivers nothing.
        }
        self.meters.settled(handler.kind, result, &settled);
        if let Some(error) = result.failure("the receiver")
            && let Some(suppressed) = LIMIT.admit(Instant::now())
        {
            let Job { kind, target, org, concurrency_key, .. } = job;
            let owner = concurrency_key.map(|owner| owner.to_string());
            tracing::warn!(kind, %target, owner, %org, error, suppressed, "a delivery failed");
        }
    }

    /// Prepares a job; returns its effect, if it has one. The end of a job without an effect is
    /// committed with the writes of its handler.
    async fn prepare(&self, handler: &'static JobHandler, job: &Job) -> Result<Option<Effect>> {
        let (own, workflows) = (job.clone(), self.workflows.clone());
        let prepare = move |tx: &mut Tx| {
            let mut refused = None;
            tx.set_trace(own.trace);
            if leased(tx, &own)?.is_none() {
                return Ok((None, refused));
            }
            match (handler.prepare)(tx, &own)? {
                Prepared::Done => finish(tx, &own, &Settled::Done)?,
                Prepared::RetryAt(at) => finish(tx, &own, &Settled::RetryAt(at))?,
                Prepared::Effect(effect) => return Ok((Some(effect), refused)),
                Prepared::Delivery(attempt) => {
                    let key = &attempt.channel.workflow;
                    let workflow = workflows.iter().find(|workflow| workflow.key == key);
                    let effect = match workflow {
                        Some(workflow) => (workflow.effect)(tx, &attempt),
                        None => Err(Error::internal(format!("there is no workflow {key}"))),
                    };
                    match effect {
                        Ok(effect) => return Ok((Some(effect), refused)),
                        Err(error) => {
                            let result = EffectResult::Failed(error.message().into());
                            refused = settle(tx, handler, &own, &result)?.map(|end| (result, end));
                        }
                    }
                }
            }
            Ok((None, refused))
        };
        let (effect, refused) = self.store.write(job.org, prepare).await?;
        if let Some((result, settled)) = refused {
            self.count(handler, job, &result, Some(settled));
        }
        Ok(effect)
    }

    /// Writes the rows of an effect and settles its job, in one transaction.
    async fn write_rows(
        &self,
        handler: &'static JobHandler,
        job: &Job,
        write: WriteRows,
    ) -> Result<()> {
        let settled = self.write_and_settle(handler, job, write).await?;
        self.count(handler, job, &EffectResult::Done, settled);
        Ok(())
    }

    async fn write_and_settle(
        &self,
        handler: &'static JobHandler,
        job: &Job,
        write: WriteRows,
    ) -> Result<Option<Settled>> {
        let own = job.clone();
        let write = move |tx: &mut Tx| {
            tx.set_trace(own.trace);
            if leased(tx, &own)?.is_none() {
                return Ok(None);
            }
            write(tx)?;
            settle(tx, handler, &own, &EffectResult::Done)
        };
        self.store.write(job.org, write).await
    }

    /// Makes jobs due that are due later than any can be.
    async fn correct_times(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut misdated = Misdated::default();
        while !*stop.borrow() {
            let looked = tokio::select! {
                looked = misdated.look(&self.store, Instant::now()) => looked,
                _ = stop.changed() => break,
            };
            match looked {
                Ok(0) => {}
                Ok(jobs) => tracing::warn!(
                    jobs,
                    "jobs were due later than any can be, and are due now: the clock was ahead when \
                     they were written, or is behind now; see that it is synchronized (NTP)"
                ),
                Err(error) => log_failure!(error, "the times of jobs cannot be corrected"),
            }
            tokio::select! {
                () = tokio::time::sleep(CORRECT_INTERVAL) => {}
                _ = stop.changed() => {}
            }
        }
    }

    async fn sweep(self: Arc<Self>, sweep: &'static Sweep, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            if let Err(error) = self.sweep_once(sweep, &stop).await {
                log_failure!(error, sweep = sweep.name, "a sweep failed");
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(sweep.every_secs)) => {}
                _ = stop.changed() => {}
            }
        }
    }

    async fn sweep_once(&self, sweep: &'static Sweep, stop: &watch::Receiver<bool>) -> Result<()> {
        let organizations =
            if sweep.installation { vec![Id::NIL] } else { (self.organizations)(&self.store)? };
        for org in organizations {
            // A failure in one organization must not stop the sweep of the others.
            if let Err(error) = self.sweep_one(sweep, org, stop).await {
                log_failure!(error, sweep = sweep.name, %org, "a sweep failed");
            }
        }
        Ok(())
    }

    async fn sweep_one(
        &self,
        sweep: &'static Sweep,
        org: Id<Org>,
        stop: &watch::Receiver<bool>,
    ) -> Result<()> {
        let mut settings = self.settings.clone();
        while !*stop.borrow() {
            let own = settings.clone();
            let step = move |tx: &mut Tx| {
                tx.mark_deletion();
                let progress = (sweep.run)(tx, &own)?;
                Ok((progress, tx.removed_rows().clone()))
            };
            let (swept, removed) = self.store.write(org, step).await?;
            self.meters.swept(&removed);
            match swept {
                SweepProgress::Clean => break,
                SweepProgress::More => {}
                SweepProgress::MoreBehind(position) => settings.behind = Some(position),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
