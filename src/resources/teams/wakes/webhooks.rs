//! Posting wakes to an agent's `wakeUrl`, signed as Standard Webhooks
//! (reference: teams-and-wakes, "Posted wakes").
//!
//! One job per wake posts it; the wake is leased meanwhile as if an agent had fetched it. A 2xx
//! acknowledges it; a 410 removes the `wakeUrl`; otherwise it can be fetched until the next attempt.
//! What a restricted agent is told is posted only while who set the URL may use the agent.

use serde_json::{Value, json};

use super::delivery::{HandOut, Offered, offer};
use super::wake::{LEASE_SECS, Wake, same_subject};
use crate::base::{Error, Id, Result, Time};
use crate::outbox::{
    About, Effect, EffectResult, EventType, Job, JobHandler, MAX_DELAY_SECS, Prepared, SWEEP_ROWS,
    Settled, enqueue, no_effect, publish, retry_at,
};
use crate::outside::webhook;
use crate::resources::teams::changes;
use crate::resources::teams::holds;
use crate::resources::teams::member::{self, Member};
use crate::resources::teams::team::Team;
use crate::store::{ListSource, Order, PageRequest, Tx};

/// The handlers of the jobs about posts.
pub const JOBS: &[JobHandler] = &[POST_WAKE, POST_PENDING];

/// Why a `wakeUrl` was removed.
const NOT_PERMITTED: &str = "who set the wakeUrl, or answered for the key that did, may not use the \
                             agent any more; it was removed";

/// A wake to be merged waits until the newer one is delivered; its job checks every minute.
const RECHECK_SECS: i64 = 60;

/// Posts a wake; the target is its position, the concurrency key the agent.
const POST_WAKE: JobHandler = JobHandler { kind: "wake.post", prepare, settle };

/// Enqueues posts of the wakes that were pending when an agent got its `wakeUrl` or was resumed; the target
/// is the agent, the concurrency key the team.
const POST_PENDING: JobHandler =
    JobHandler { kind: "wake.post_pending", prepare: enqueue_pending, settle: no_effect };

/// Inserts a wake of an agent that has a `wakeUrl` and enqueues its post.
pub fn insert_and_enqueue(tx: &mut Tx, wake: Wake) -> Result<()> {
    let wake = Wake { posting_since: wake.posting_since.or(Some(tx.now())), ..wake };
    tx.insert(&wake)?;
    enqueue_post(tx, &wake)
}

/// Enqueues the job for an agent that has just got its `wakeUrl`, or was resumed.
pub fn enqueue_pending_posts(tx: &mut Tx, member: &Member) -> Result<()> {
    let now = tx.now();
    enqueue(tx, &POST_PENDING, member.id.cast(), Some(member.team.cast()), now).map(|_| ())
}

fn enqueue_pending(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let team: Id<Team> = parent_of(job)?;
    let agent: Id<Member> = job.target.cast();
    let member = tx.get::<Member>(&(team, agent))?;
    let Some(member) = member.filter(|member| member.wake_url.is_some()) else {
        return Ok(Prepared::Done);
    };
    if holds::of_member(&tx.view(), &member)?.is_some() {
        return Ok(Prepared::Done); // Whoever resumes it enqueues this again.
    }
    let part = PageRequest { limit: SWEEP_ROWS, after: None };
    let now = tx.now();
    let page = tx.page(ListSource::TABLE, &agent, Order::Ascending, &part, |wake: &Wake| {
        wake.posting_since.is_none() && !is_given_up(wake, &member, now)
    })?;
    for wake in &page.items {
        start_posting(tx, wake)?;
    }
    Ok(if page.next.is_some() { Prepared::RetryAt(tx.now()) } else { Prepared::Done })
}

/// Whether posting a wake to the URL that its agent has was given up. Another URL, or the same that was set
/// again, has its own attempts. A clock that was ahead then puts off nothing.
fn is_given_up(wake: &Wake, member: &Member, now: Time) -> bool {
    wake.given_up_at.is_some_and(|at| at > member.wake_url_at && !at.is_beyond(now, 0))
}

fn start_posting(tx: &mut Tx, wake: &Wake) -> Result<()> {
    let (posting_since, post_again_at, given_up_at) = (Some(tx.now()), None, None);
    let old = wake.clone();
    let again_at = None;
    tx.replace(wake, &Wake { posting_since, post_again_at, given_up_at, again_at, ..old })?;
    enqueue_post(tx, wake)
}

fn enqueue_post(tx: &mut Tx, wake: &Wake) -> Result<()> {
    let now = tx.now();
    enqueue(tx, &POST_WAKE, wake.position.cast(), Some(wake.agent.cast()), now).map(|_| ())
}

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let key = (parent_of(job)?, job.target.cast());
    let Some(wake) = tx.get::<Wake>(&key)? else { return Ok(Prepared::Done) };
    if let Some(end) = wake.leased_until.filter(|_| wake.is_leased(tx.now())) {
        return Ok(Prepared::RetryAt(end));
    }
    let Some(member) = tx.get::<Member>(&(wake.team, wake.agent))? else {
        return Ok(Prepared::Done);
    };
    if holds::of_member(&tx.view(), &member)?.is_some() {
        return end_posting(tx, &wake); // Whoever resumes it has what waits posted.
    }
    if !member::is_wake_url_permitted(&tx.view(), &member)? {
        tx.replace(&member, &member.clone().without_wake_url())?;
        give_up(tx, &wake, NOT_PERMITTED)?;
        return end_posting(tx, &wake);
    }
    let secret = member::wake_key(&tx.view(), &member)?;
    let (Some(url), Some(secret)) = (&member.wake_url, secret) else {
        return end_posting(tx, &wake);
    };
    // A cause that joins a wake whose post has failed waits for its next attempt.
    let others = same_subject(&tx.view(), &wake)?;
    let others = others.iter().filter(|other| other.id != wake.id);
    if let Some(at) = others.filter_map(|other| other.post_again_at).max()
        && at > tx.now()
        && !at.is_beyond(tx.now(), MAX_DELAY_SECS)
    {
        return Ok(Prepared::RetryAt(at));
    }
    let Offered::Wake(wake) = offer(tx, &wake, HandOut::Post)? else {
        return after_undelivered(tx, &key);
    };
    let data = serde_json::to_value(&wake)
        .map_err(|e| Error::internal(format!("a wake cannot be written: {e}")))?;
    let message = webhook::Message {
        id: wake.id.to_string(),
        kind: "wake".into(),
        at: wake.created_at,
        data,
    };
    let call = webhook::post(url, &secret, &message, tx.now());
    Ok(Prepared::Effect(Effect::Call(Box::new(call))))
}

/// Leaves a wake to be fetched.
fn end_posting(tx: &mut Tx, wake: &Wake) -> Result<Prepared> {
    tx.replace(wake, &Wake { posting_since: None, post_again_at: None, ..wake.clone() })?;
    Ok(Prepared::Done)
}

/// Decides on the job of a wake that was not delivered: done if it was dropped; otherwise it waits
/// for a newer one to merge into, which needs a job of its own.
fn after_undelivered(tx: &mut Tx, key: &(Id<Member>, Id<Wake>)) -> Result<Prepared> {
    let Some(wake) = tx.get::<Wake>(key)? else { return Ok(Prepared::Done) };
    let now = tx.now();
    let newer = same_subject(&tx.view(), &wake)?.into_iter().rfind(|w| !w.is_leased(now));
    if let Some(newer) = newer.filter(|newer| newer.posting_since.is_none()) {
        start_posting(tx, &newer)?;
    }
    Ok(Prepared::RetryAt(now.plus_secs(RECHECK_SECS)))
}

fn settle(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    let key = (parent_of(job)?, job.target.cast());
    let Some(wake) = tx.get::<Wake>(&key)? else { return Ok(Settled::Done) };
    let Some(error) = result.failure("the wakeUrl") else {
        tx.remove(&wake)?;
        return Ok(Settled::Done);
    };
    let end = if result.is_gone() { remove_url(tx, &wake)? } else { None };
    let member = tx.get::<Member>(&(wake.team, wake.agent))?;
    // Another URL has its 24 hours, too, unless the clock was ahead when it was set.
    let set_at = member.map(|member| member.wake_url_at).filter(|at| !at.is_beyond(tx.now(), 0));
    let since = wake.posting_since.unwrap_or(job.created_at);
    let since = set_at.map_or(since, |set_at| set_at.max(since));
    let again = retry_at(tx.now(), since, wake.attempts).filter(|_| end.is_none());
    let posting_since = wake.posting_since.filter(|_| again.is_some());
    let post_again_at = again;
    let given_up_at = again.is_none().then(|| tx.now());
    let (leased_until, old) = (None, wake.clone());
    tx.replace(&wake, &Wake { leased_until, posting_since, post_again_at, given_up_at, ..old })?;
    tx.signal(wake.agent.uuid());
    if let Some(at) = again {
        return Ok(Settled::RetryAt(at));
    }
    if end != Some(UrlRemoval::Earlier) {
        give_up(tx, &wake, &error)?;
    }
    Ok(Settled::Done)
}

/// The end of a `wakeUrl` that answered 410. Of several posts the first removes it and is the event.
#[derive(PartialEq)]
enum UrlRemoval {
    Now,
    Earlier,
}

/// Removes the agent's `wakeUrl` unless it was set since the wake was posted.
fn remove_url(tx: &mut Tx, wake: &Wake) -> Result<Option<UrlRemoval>> {
    let member = tx.get::<Member>(&(wake.team, wake.agent))?;
    let Some(member) = member.filter(|member| member.wake_url.is_some()) else {
        return Ok(Some(UrlRemoval::Earlier));
    };
    let posted_at = wake.leased_until.map_or(tx.now(), |end| end.plus_secs(-LEASE_SECS));
    let is_removed = member::remove_wake_url(tx, &member, posted_at)?;
    Ok(is_removed.then_some(UrlRemoval::Now))
}

/// Publishes the event that an agent could not be woken. The wake stays and can be fetched.
pub(super) fn give_up(tx: &mut Tx, wake: &Wake, error: &str) -> Result<()> {
    let view = tx.view();
    let team = view.get::<Team>(&wake.team)?;
    let member = view.get::<Member>(&(wake.team, wake.agent))?;
    let (Some(team), Some(member)) = (team, member) else { return Ok(()) };
    let payload: Value = json!({
        "teamId": team.id,
        "teamName": team.name,
        "agentId": member.id,
        "stableKey": member.stable_key,
        "agentName": member::name(&view, &member)?,
        "wakeId": wake.id,
        "reason": wake.reason,
        "taskId": wake.task_id,
        "messageId": wake.message_id,
        "error": error,
    });
    let about = About::resource("team_agent", member.id).guarded_by("agent", member.agent);
    changes::tell(tx, wake.team);
    publish(tx, EventType::TeamRunFailed, about, payload)
}

/// Returns the id in the job's concurrency key: the parent of its target.
fn parent_of<T>(job: &Job) -> Result<Id<T>> {
    job.concurrency_key.map(Id::cast).ok_or_else(|| {
        Error::internal(format!(
            "the job {} of the kind {} has no concurrency key",
            job.id, job.kind
        ))
    })
}

#[cfg(test)]
mod tests;
