//! Repeating the verification of verified domains every day.
//!
//! A domain that is not verified is not looked up: it becomes verified by the explicit step alone.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::domain::{BY_REPEAT, Domain, DomainState};
use super::recent::recent;
use super::verification::{Checked, REPEAT_SECS, VERIFY_SECS, Verdict, Verification, check, store};
use crate::api::Resource;
use crate::base::{Id, Result, word};
use crate::outbox::{
    Calls, Effect, EffectResult, Job, JobHandler, Prepared, RetentionSettings, Settled, Sweep,
    SweepProgress, due, enqueue,
};
use crate::outside::nip05;
use crate::resources::listings::{ListedHandle, Outcome, handles_of_domain};
use crate::store::{Order, Tx};

pub(super) const RESOURCE: Resource =
    Resource { jobs: &[REPEAT], sweeps: &[ENQUEUE_DUE], ..Resource::EMPTY };

/// A repeated verification that had no answer is tried again after these times, in seconds, before the
/// next day. It takes no verified name away.
const RETRY_SECS: [i64; 3] = [600, 1200, 1800];

/// Another organization causes a repetition unless the domain was verified so often within so many
/// seconds.
const MAX_ASKED: usize = 3;
const ASKED_SECS: i64 = 3600;

/// A repetition with all of its retries is over after this time, in seconds.
const PENDING_SECS: i64 = 2 * 3600;

/// In a run of the sweep an organization begins at most 2 repetitions, those that are due longest:
/// 2,880 a day. All wait in one queue, in which the slow domains of one must not stand before those of
/// the others.
const BEGUN_PER_RUN: usize = 2;

/// Enqueues the due verifications of an organization.
pub(super) const ENQUEUE_DUE: Sweep = Sweep {
    name: "repeat the verification of domains",
    every_secs: 60,
    run: enqueue_due,
    installation: false,
};

fn enqueue_due(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let now = tx.now();
    let is_due = |domain: &Domain| domain.repeat_at.is_some_and(|at| at <= now);
    let (mut due, _) = due(&tx.view(), &BY_REPEAT, is_due)?;
    // Those that were verified while the clock was ahead are due, too.
    tx.view().for_each(&BY_REPEAT, &(), Order::Descending, |domain: Domain| {
        let is_beyond = domain.repeat_at.is_some_and(|at| at.is_beyond(now, REPEAT_SECS));
        if !is_beyond || due.len() >= BEGUN_PER_RUN {
            return Ok(ControlFlow::Break(()));
        }
        due.push(domain);
        Ok(ControlFlow::Continue(()))
    })?;
    for domain in due.iter().take(BEGUN_PER_RUN) {
        begin(tx, domain)?;
    }
    Ok(SweepProgress::Clean)
}

/// Enqueues a repetition; the next one is due a day later.
fn begin(tx: &mut Tx, domain: &Domain) -> Result<()> {
    let now = tx.now();
    let repeat_at = Some(now.plus_secs(REPEAT_SECS));
    tx.replace(domain, &Domain { repeat_at, ..domain.clone() })?;
    // One key for all: they must not take the calls of everyone else.
    enqueue(tx, &REPEAT, domain.id.cast(), Some(Id::NIL), now)?;
    Ok(())
}

/// Repeats the verification of the transaction's organization because another one asks for it, unless
/// it was verified several times in the last hour: its domain did not ask for that.
pub(super) fn ask(tx: &mut Tx, claim: Id<Domain>) -> Result<()> {
    let domain: Domain = tx.fetch(&claim)?;
    let recent = recent(&tx.view(), &domain.domain, ASKED_SECS)?;
    let begun = domain.repeat_at.map(|at| at.minus_secs(REPEAT_SECS));
    // The one that was begun last has its result, or cannot have one any more.
    let is_over = begun.is_none_or(|begun| match recent.first() {
        Some(newest) if *newest >= begun => true,
        _ => begun.plus_secs(PENDING_SECS) <= tx.now(),
    });
    if is_over && recent.len() < MAX_ASKED { begin(tx, &domain) } else { Ok(()) }
}

/// Repeats the verification of a domain.
pub(super) const REPEAT: JobHandler =
    JobHandler { kind: "domain.repeat_verification", prepare, settle };

/// Returns the domain of a job, while it is verified and no later repetition was begun.
fn verified(tx: &Tx, job: &Job) -> Result<Option<Domain>> {
    let domain: Option<Domain> = tx.get(&job.target.cast())?;
    let is_last = |domain: &Domain| {
        let begun = domain.repeat_at.map(|at| at.minus_secs(REPEAT_SECS));
        begun.is_none_or(|begun| begun <= job.created_at)
    };
    Ok(domain.filter(|domain| domain.state == DomainState::Verified && is_last(domain)))
}

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let Some(domain) = verified(tx, job)? else { return Ok(Prepared::Done) };
    let handles = handles_of_domain(&tx.view(), &domain.domain)?;
    if handles.is_empty() {
        store(tx, &domain, Vec::new())?;
        return Ok(Prepared::Done);
    }
    let calls = handles.iter().map(|listed| nip05::lookup(&listed.handle)).collect();
    Ok(Prepared::Effect(Effect::Calls(Calls {
        calls,
        total: Duration::from_secs(VERIFY_SECS),
        // One that is not confirmed decides, and the domain need not be asked for the others.
        goes_on: Box::new(move |index, result| {
            let listed: &ListedHandle = &handles[index];
            nip05::read(result, listed.handle.name()).confirms(&listed.pubkey)
        }),
    })))
}

fn settle(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    let Some(domain) = verified(tx, job)? else { return Ok(Settled::Done) };
    let EffectResult::Answers(answers) = result else { return Ok(Settled::Done) };
    let answers: HashMap<_, _> = answers.iter().map(|(url, result)| (url, result)).collect();
    let handles = handles_of_domain(&tx.view(), &domain.domain)?;
    let all = handles.len();
    let mut checked = Vec::new();
    for listed in handles {
        // One that was listed meanwhile, or was not asked for after another, is verified the next time.
        if let Some(result) = answers.get(&nip05::lookup(&listed.handle).url) {
            let answer = nip05::read(result, listed.handle.name());
            checked.push(check(listed, &answer));
        }
    }
    // The one after which no others were asked for is gone: there is no result yet.
    if checked.len() < all.min(answers.len())
        && !matches!(Verdict::of(&checked), Verdict::Denied | Verdict::NoAnswer)
    {
        return Ok(Settled::RetryAt(tx.now().plus_secs(RETRY_SECS[0])));
    }
    if let Some(secs) = retry_after(job, &checked) {
        return Ok(Settled::RetryAt(tx.now().plus_secs(secs)));
    }
    let verdict = Verdict::of(&checked);
    let verification = store(tx, &domain, checked)?;
    match verdict {
        Verdict::Confirmed | Verdict::NoHandles => Ok(Settled::Done),
        Verdict::Denied => {
            Ok(Settled::Warning(warning(&domain, "is no longer verified", &verification)))
        }
        Verdict::NoAnswer => Ok(Settled::Warning(warning(
            &domain,
            "gave no answer and stays verified",
            &verification,
        ))),
    }
}

/// What the log says of a domain that did not confirm all handles.
fn warning(domain: &Domain, what: &str, verification: &Verification) -> String {
    let failed = verification.results.iter().filter(|one| one.outcome != Outcome::Match);
    let words = failed.map(|one| match &one.reason {
        Some(reason) => format!("{} is {}: {reason}", one.handle, word(one.outcome)),
        None => format!("{} is {}", one.handle, word(one.outcome)),
    });
    let words: Vec<_> = words.collect();
    let first = words.first().map_or("", String::as_str);
    let (some, all) = (words.len(), verification.results.len());
    let domain = &domain.domain;
    format!("the domain {domain} {what}, {some} of {all} handles failed: {first}")
}

/// Returns after how long a verification is tried again to which the domain gave no answer.
fn retry_after(job: &Job, checked: &[Checked]) -> Option<i64> {
    let is_outage = Verdict::of(checked) == Verdict::NoAnswer;
    let attempt = job.attempts.max(1) as usize - 1;
    is_outage.then(|| RETRY_SECS.get(attempt).copied()).flatten()
}
