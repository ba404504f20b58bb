//! Running a job: its targets are applied one after the other, a few in each transaction, or posted to
//! the provider's endpoint first.
//!
//! A row of the outbox runs a job, so that it is resumed after a crash. A job whose next target is
//! not yet first in its queue gives up its row; the job in front of it gives it a new one. A job that
//! waits for no other has a row: without that it would wait forever, and those behind it with it.

use std::ops::ControlFlow;

use super::access::outdated;
use super::applying::{self, apply, fail};
use super::delivery::push_target;
use super::job::{DeploymentJob, JobState, Push, TargetState, save};
use super::target::{
    DeploymentTarget, Subject, failures, first_in_queue, join_queues, publish_job, targets,
};
use crate::api::Resource;
use crate::base::{Id, Kind, Result};
use crate::outbox::{Effect, EffectResult, EventType, Job, JobHandler, Prepared, Settled, enqueue};
use crate::outside::Call;
use crate::resources::environments::{self, Environment, PushTarget};
use crate::store::check::Findings;
use crate::store::{ListSource, Order, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    jobs: &[RUN],
    events: &[
        EventType::DeploymentComplete,
        EventType::DeploymentPartial,
        EventType::DeploymentError,
    ],
    ..Resource::EMPTY
};

/// A step applies at most 20 targets: some 400 keys, a few milliseconds of the writer.
const STEP_TARGETS: usize = 20;

/// A provider's endpoint is called at most three times for a target.
const MAX_TRIES: u32 = 3;

/// The pause before the second and the third try: long enough for a restart of the endpoint to be
/// noticed, short enough for a person who waits for the job.
const PAUSES_SECS: [i64; 2] = [1, 5];

/// Runs a job; the target is the job, the concurrency key its environment.
pub const RUN: JobHandler = JobHandler { kind: "deployment.run", prepare, settle };

/// Starts a job that is approved: it joins the queues of its targets.
pub fn start(tx: &mut Tx, job: &DeploymentJob) -> Result<DeploymentJob> {
    join_queues(tx, job)?;
    resume(tx, job)
}

/// Enqueues the row that runs a job.
pub fn resume(tx: &mut Tx, job: &DeploymentJob) -> Result<DeploymentJob> {
    let now = tx.now();
    let task = enqueue(tx, &RUN, job.id.cast(), Some(job.environment.cast()), now)?;
    save(tx, job, DeploymentJob { task: Some(task), ..job.clone() })
}

/// Resumes the job whose target is now first in the queue of an agent or tool.
pub fn resume_next(tx: &mut Tx, environment: Id<Environment>, subject: Id<Subject>) -> Result<()> {
    let Some(first) = first_in_queue(&tx.view(), environment, subject)? else { return Ok(()) };
    let job: DeploymentJob = tx.fetch(&first.job)?;
    if job.task.is_none() && !job.state.is_final() {
        resume(tx, &job)?;
    }
    Ok(())
}

/// What a step of a job comes to.
enum Step {
    /// The job is finished, or waits for another one.
    Ended,
    /// There is more to do.
    More,
    /// A target is posted.
    Post(Box<Call>),
}

fn prepare(tx: &mut Tx, task: &Job) -> Result<Prepared> {
    let job = tx.get::<DeploymentJob>(&task.target.cast())?;
    let Some(old) = job.filter(|job| job.task == Some(task.id)) else {
        return Ok(Prepared::Done);
    };
    let mut job = old.clone();
    let step = step(tx, &mut job)?;
    if matches!(step, Step::Ended) {
        job.task = None;
    }
    let job = save(tx, &old, job)?;
    match step {
        Step::Ended => {
            publish_end(tx, &old, &job)?;
            Ok(Prepared::Done)
        }
        Step::More => Ok(Prepared::RetryAt(tx.now())),
        Step::Post(call) => Ok(Prepared::Effect(Effect::Call(call))),
    }
}

fn step(tx: &mut Tx, job: &mut DeploymentJob) -> Result<Step> {
    let view = tx.view();
    let endpoint = push_target(&view, job.environment, job.provider.as_ref())?;
    let outdated = outdated(&view, job)?.map(|why| format!("{why}; deploy it again"));
    let is_at_once = job.at_once && endpoint.is_none();
    if is_at_once && !are_first(&tx.view(), job)? {
        return Ok(Step::Ended);
    }
    // A job has at most 100 targets, and ends when there is none left.
    for _ in 0..if is_at_once { usize::MAX } else { STEP_TARGETS } {
        let Some(target) = tx.get::<DeploymentTarget>(&(job.id, job.next))? else {
            return finish(tx, job).map(|()| Step::Ended);
        };
        if target.state != TargetState::Waiting {
            job.next += 1;
            continue;
        }
        if job.push.is_none() && !is_first(&tx.view(), &target)? {
            return Ok(Step::Ended);
        }
        // A job that waits for another one has not begun.
        if job.state == JobState::Approved {
            job.state = JobState::Running;
        }
        if let Some(why) = not_posted_again(job).or(outdated.as_deref()) {
            fail(tx, job, &target, why)?;
        } else if let Some(endpoint) = &endpoint {
            if let Some(call) = post(tx, job, &target, endpoint)? {
                return Ok(Step::Post(Box::new(call)));
            }
        } else {
            // The endpoint of a job that an earlier release planned may have been removed since.
            let push = job.push.take();
            apply(tx, job, &target, push.as_ref())?;
        }
        done(tx, job, &target)?;
    }
    Ok(Step::More)
}

/// Whether all waiting targets of a job are first in their queues.
fn are_first(view: &View, job: &DeploymentJob) -> Result<bool> {
    for target in targets(view, job.id)? {
        if target.state == TargetState::Waiting && !is_first(view, &target)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a job that is approved has nothing before it that it would wait for.
pub fn may_go_on(view: &View, job: &DeploymentJob) -> Result<bool> {
    if job.at_once {
        return are_first(view, job);
    }
    let targets = targets(view, job.id)?;
    let next = targets.iter().find(|target| target.state == TargetState::Waiting);
    next.map_or(Ok(true), |next| is_first(view, next))
}

/// Why the target that was being posted is not posted again.
fn not_posted_again(job: &DeploymentJob) -> Option<&'static str> {
    let push = job.push.as_ref()?;
    match job.state {
        JobState::Cancelled => Some("the job was cancelled while it was being posted"),
        // The server stopped during the last try.
        _ if push.tries >= MAX_TRIES => Some("it is unknown whether the endpoint accepted it"),
        _ => None,
    }
}

fn is_first(view: &View, target: &DeploymentTarget) -> Result<bool> {
    let first = first_in_queue(view, target.environment, target.planned.subject_id())?;
    Ok(first.is_some_and(|first| first.job == target.job))
}

/// Goes on to the next target.
fn done(tx: &mut Tx, job: &mut DeploymentJob, target: &DeploymentTarget) -> Result<()> {
    job.next += 1;
    job.push = None;
    resume_next(tx, target.environment, target.planned.subject_id())
}

/// Returns the call that posts a target; none if the target has failed.
fn post(
    tx: &mut Tx,
    job: &mut DeploymentJob,
    target: &DeploymentTarget,
    endpoint: &PushTarget,
) -> Result<Option<Call>> {
    let first = || Push { id: tx.new_id(), at: tx.now(), tries: 0 };
    let mut push = job.push.clone().unwrap_or_else(first);
    let Some(to) = target.planned.agent() else {
        // No plan says so: tools are not posted.
        fail(tx, job, target, "only agents are posted")?;
        return Ok(None);
    };
    match applying::post(tx, endpoint, (job, target, to), &push) {
        Ok(call) => {
            push.tries += 1;
            job.push = Some(push);
            Ok(Some(call))
        }
        Err(error) if matches!(error.kind(), Kind::Conflict | Kind::TooLarge) => {
            fail(tx, job, target, error.message())?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn settle(tx: &mut Tx, task: &Job, result: &EffectResult) -> Result<Settled> {
    let job = tx.get::<DeploymentJob>(&task.target.cast())?;
    let Some(old) = job.filter(|job| job.task == Some(task.id)) else { return Ok(Settled::Done) };
    let Some(push) = old.push.clone() else { return Ok(Settled::RetryAt(tx.now())) };
    let target: DeploymentTarget = tx.fetch(&(old.id, old.next))?;
    let mut job = old.clone();
    let provider = old.provider.as_deref().unwrap_or_default();
    if let Some(error) = result.failure("the provider's endpoint") {
        let pause = PAUSES_SECS.get(push.tries.saturating_sub(1) as usize);
        if let Some(pause) = pause.filter(|_| job.state != JobState::Cancelled) {
            return Ok(Settled::RetryAt(tx.now().plus_secs(*pause)));
        }
        fail(tx, &job, &target, &error)?;
        if matches!(result, EffectResult::Failed(_)) {
            environments::push_failed(tx, job.environment, provider, &error)?;
        }
    } else {
        environments::push_succeeded(tx, job.environment, provider)?;
        apply(tx, &job, &target, Some(&push))?;
    }
    done(tx, &mut job, &target)?;
    save(tx, &old, job)?;
    Ok(Settled::RetryAt(tx.now()))
}

/// Sets the final state of a job without waiting targets.
fn finish(tx: &Tx, job: &mut DeploymentJob) -> Result<()> {
    if job.state.is_final() {
        return Ok(());
    }
    let targets = targets(&tx.view(), job.id)?;
    let applied = targets.iter().filter(|target| target.state == TargetState::Applied).count();
    job.state = match applied {
        _ if applied == targets.len() => JobState::Complete,
        0 => JobState::Error,
        _ => JobState::Partial,
    };
    Ok(())
}

fn publish_end(tx: &mut Tx, old: &DeploymentJob, job: &DeploymentJob) -> Result<()> {
    let event = match job.state {
        _ if old.state == job.state => return Ok(()),
        JobState::Complete => EventType::DeploymentComplete,
        JobState::Partial => EventType::DeploymentPartial,
        JobState::Error => EventType::DeploymentError,
        _ => return Ok(()),
    };
    let failures = failures(&tx.view(), job)?;
    publish_job(tx, event, job, &[("failures", failures)])
}

// ── Consistency ──────────────────────────────────────────────────────────────

/// Verifies it for all deployments.
pub fn check(view: &View, findings: &mut Findings) -> Result<()> {
    for job in stuck(view)? {
        findings.report(format!("deployment {}: nothing runs it any more", job.id));
    }
    Ok(())
}

/// Has those run again that nothing runs any more. Returns what was wrong, if anything was.
pub fn mend(tx: &mut Tx) -> Result<Option<String>> {
    let stuck = stuck(&tx.view())?;
    for job in &stuck {
        resume(tx, job)?;
    }
    Ok(stuck.first().map(|_| "nothing runs it any more".into()))
}

/// Returns deployments that nothing runs though they wait for nothing, at most a hundred.
fn stuck(view: &View) -> Result<Vec<DeploymentJob>> {
    let mut stuck = Vec::new();
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |job: DeploymentJob| {
        let is_stuck = match job.task {
            Some(task) => !view.has::<Job>(&task)?,
            None if matches!(job.state, JobState::Approved | JobState::Running) => {
                may_go_on(view, &job)?
            }
            None => false,
        };
        if is_stuck {
            stuck.push(job);
        }
        let is_full = stuck.len() == 100;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(stuck)
}
