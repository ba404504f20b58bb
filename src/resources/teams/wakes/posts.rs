//! Posting wakes to an agent's `wakeUrl`, signed as Standard Webhooks (contract §6, "Wakes").
//!
//! A wake is posted by a task of its own and leased meanwhile as if somebody had fetched it. A 2xx
//! acknowledges it; else it is free for whoever fetches it, until the next attempt.

use serde_json::{Value, json};

use super::Wake;
use super::hand_out::offer;
use crate::base::{Error, Id, Result};
use crate::outbox::{EventType, Job, Next, SWEEP_ROWS, Step, Task, enqueue, publish, retry_at};
use crate::outside::{Answer, Failure, webhook};
use crate::resources::teams::member::{self, Member};
use crate::resources::teams::team::Team;
use crate::store::{Order, Part, Source, Tx};

/// What is done after a commit.
pub const JOBS: &[Job] = &[POST_WAKE, POST_PENDING];

/// What joins another wake waits until that one is handed out, and looks every minute.
const LOOK_AGAIN_SECS: i64 = 60;

/// Posts a wake: `subject` is the wake, `within` the agent.
const POST_WAKE: Job = Job { kind: "wake.post", prepare, settle };

/// Begins to post what was pending when an agent got its `wakeUrl`: `subject` is the agent,
/// `within` the team.
const POST_PENDING: Job = Job {
    kind: "wake.post_pending",
    prepare: enqueue_pending,
    settle: |_, _, _| Ok(Next::Done), // It calls nobody.
};

/// Adds a wake of an agent that has a `wakeUrl`.
pub fn insert_and_post(tx: &mut Tx, wake: Wake) -> Result<()> {
    let wake = Wake { posting: true, ..wake };
    tx.insert(&wake)?;
    enqueue_post(tx, &wake)
}

/// Posts what is pending for an agent that just got its `wakeUrl`.
pub fn post_pending(tx: &mut Tx, member: &Member) -> Result<()> {
    let now = tx.now();
    enqueue(tx, &POST_PENDING, member.id.cast(), Some(member.team.cast()), now)
}

fn enqueue_pending(tx: &mut Tx, task: &Task) -> Result<Step> {
    let team: Id<Team> = within(task)?;
    let agent: Id<Member> = task.subject.cast();
    let member = tx.get::<Member>(&(team, agent))?;
    if member.is_none_or(|member| member.wake_url.is_none()) {
        return Ok(Step::Done);
    }
    let part = Part { limit: SWEEP_ROWS, after: None };
    let page =
        tx.page(Source::TABLE, &agent, Order::Ascending, &part, |wake: &Wake| !wake.posting)?;
    for wake in &page.items {
        begin_to_post(tx, wake)?;
    }
    Ok(if page.next.is_some() { Step::Later(tx.now()) } else { Step::Done })
}

fn begin_to_post(tx: &mut Tx, wake: &Wake) -> Result<()> {
    tx.replace(wake, &Wake { posting: true, ..wake.clone() })?;
    enqueue_post(tx, wake)
}

fn enqueue_post(tx: &mut Tx, wake: &Wake) -> Result<()> {
    let now = tx.now();
    enqueue(tx, &POST_WAKE, wake.id.cast(), Some(wake.agent.cast()), now)
}

fn prepare(tx: &mut Tx, task: &Task) -> Result<Step> {
    let key = (within(task)?, task.subject.cast());
    let Some(wake) = tx.get::<Wake>(&key)? else { return Ok(Step::Done) };
    if let Some(end) = wake.leased_until.filter(|_| wake.is_leased(tx.now())) {
        return Ok(Step::Later(end));
    }
    let Some(member) = tx.get::<Member>(&(wake.team, wake.agent))? else {
        return Ok(Step::Done);
    };
    let secret = member::wake_key(&tx.view(), &member)?;
    let (Some(url), Some(secret)) = (&member.wake_url, secret) else {
        tx.replace(&wake, &Wake { posting: false, ..wake.clone() })?;
        return Ok(Step::Done);
    };
    let Some(wake) = offer(tx, &wake, true)? else {
        return not_offered(tx, &key);
    };
    let data = serde_json::to_value(&wake)
        .map_err(|e| Error::internal(format!("a wake cannot be written: {e}")))?;
    let message = webhook::Message {
        id: wake.id.to_string(),
        kind: "wake".into(),
        at: wake.created_at,
        data,
    };
    Ok(Step::Call(Box::new(webhook::post(url, &secret, &message, tx.now()))))
}

/// What becomes of the post of a wake that was not handed out: it was dropped, or it joins an older
/// one once that is handed out, which somebody must do.
fn not_offered(tx: &mut Tx, key: &(Id<Member>, Id<Wake>)) -> Result<Step> {
    let Some(wake) = tx.get::<Wake>(key)? else { return Ok(Step::Done) };
    let now = tx.now();
    let older = super::about_the_same(&tx.view(), &wake)?.into_iter().find(|w| !w.is_leased(now));
    if let Some(older) = older.filter(|older| !older.posting) {
        begin_to_post(tx, &older)?;
    }
    Ok(Step::Later(now.plus_secs(LOOK_AGAIN_SECS)))
}

fn settle(tx: &mut Tx, task: &Task, answer: &Result<Answer, Failure>) -> Result<Next> {
    let key = (within(task)?, task.subject.cast());
    let Some(wake) = tx.get::<Wake>(&key)? else { return Ok(Next::Done) };
    let error = match answer {
        Ok(answer) if answer.is_success() => {
            tx.remove(&wake)?;
            return Ok(Next::Done);
        }
        Ok(answer) => format!("the wakeUrl answered with status {}", answer.status),
        Err(failure) => failure.to_string(),
    };
    let again = retry_at(tx.now(), task.created_at, wake.attempts);
    let free = Wake { leased_until: None, posting: again.is_some(), ..wake.clone() };
    tx.replace(&wake, &free)?;
    tx.signal(wake.agent.uuid());
    match again {
        Some(at) => Ok(Next::Again(at)),
        None => {
            give_up(tx, &wake, &error)?;
            Ok(Next::Done)
        }
    }
}

/// Tells the humans that an agent could not be woken. The wake stays for whoever fetches it.
fn give_up(tx: &mut Tx, wake: &Wake, error: &str) -> Result<()> {
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
    publish(tx, EventType::TeamRunFailed, payload)
}

fn within<T>(task: &Task) -> Result<Id<T>> {
    task.within.map(Id::cast).ok_or_else(|| {
        Error::internal(format!("the task {} of the kind {} has no within", task.id, task.kind))
    })
}

#[cfg(test)]
mod tests;
