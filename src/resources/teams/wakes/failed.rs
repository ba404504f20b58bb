//! Wakes that failed: an agent was handed them again and again, and never acknowledged them
//! (reference: teams-and-wakes, "Wakes that fail").

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::causes::{self, WakeCause};
use super::delivery::{fetch_agent, is_exhausted};
use super::failed_wake::{BY_TIME, FailedWake, failed_of, has_failed};
use super::reasons::{count_dropped, has_reason};
use super::wake::{Wake, WakeReason, same_subject};
use super::webhooks::{enqueue_pending_posts, give_up};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{BoundedList, Id, Kind, Name, Result, Time};
use crate::outbox::{
    Job, JobHandler, Prepared, RetentionSettings, SWEEP_ROWS, Sweep, SweepProgress, enqueue,
    no_effect,
};
use crate::resources::teams::holds;
use crate::resources::teams::member::{self, Member, scrum_master};
use crate::resources::teams::team::{TEAM_IN_PATH, Team, reaches};
use crate::resources::teams::usable::UsableMembers;
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<FailedWake>()],
    jobs: &[FAIL],
    sweeps: &[DROP_WITHOUT_REASON],
    ..Resource::EMPTY
};

/// A request gives back at most 200 wakes: each is some rows and a post.
const MAX_RETRIED: usize = 200;

// ── Failing ──────────────────────────────────────────────────────────────────

/// Sets a wake aside that was handed out as often as it is to be; the target is its position, the concurrency
/// key the agent. So people hear of it, also if the agent asks for no more wakes.
const FAIL: JobHandler = JobHandler { kind: "wake.fail", prepare: fail_due, settle: no_effect };

/// A wake that is to join a later one is looked at every minute.
const RECHECK_SECS: i64 = 60;

/// Enqueues that for wakes of an agent that may be fetched less often now: for 200, which is more than an
/// agent fetches and forgets. Others fail when it asks for them.
pub fn fail_exhausted(tx: &mut Tx, member: &Member) -> Result<()> {
    let mut exhausted: Vec<Wake> = Vec::new();
    tx.view().for_each(ListSource::TABLE, &member.id, Order::Ascending, |wake: Wake| {
        if is_exhausted(&wake, member) {
            exhausted.push(wake);
        }
        let is_full = exhausted.len() == MAX_RETRIED;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    exhausted.iter().try_for_each(|wake| enqueue_fail(tx, wake))
}

/// Enqueues that for a wake that has just been handed out.
pub(super) fn enqueue_fail(tx: &mut Tx, wake: &Wake) -> Result<()> {
    let end = wake.leased_until.unwrap_or(tx.now());
    enqueue(tx, &FAIL, wake.position.cast(), Some(wake.agent.cast()), end).map(drop)
}

fn fail_due(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let agent: Id<Member> = job.concurrency_key.map_or(Id::NIL, Id::cast);
    let Some(wake) = tx.get::<Wake>(&(agent, job.target.cast()))? else {
        return Ok(Prepared::Done);
    };
    let Some(member) = tx.get::<Member>(&(wake.team, agent))? else { return Ok(Prepared::Done) };
    if !is_exhausted(&wake, &member) {
        return Ok(Prepared::Done);
    }
    if let Some(end) = wake.leased_until.filter(|_| wake.is_leased(tx.now())) {
        return Ok(Prepared::RetryAt(end));
    }
    let now = tx.now();
    if holds::of_member(&tx.view(), &member)?.is_some() {
        // It may have been paused while it worked: it is handed this once more when it is resumed.
        let fetches = member.max_attempts() - 1;
        tx.replace(&wake, &Wake { fetches, again_at: None, ..wake.clone() })?;
        return Ok(Prepared::Done);
    }
    if same_subject(&tx.view(), &wake)?.last().is_some_and(|newest| newest.id != wake.id) {
        return Ok(Prepared::RetryAt(now.plus_secs(RECHECK_SECS))); // It joins a later cause.
    }
    set_aside(tx, &member, std::slice::from_ref(&wake), &wake)?;
    Ok(Prepared::Done)
}

/// Sets a wake aside in place of these rows, or drops it if its reason is gone. People hear of the first of an
/// agent, and the Scrum Master of each.
pub(super) fn set_aside(tx: &mut Tx, member: &Member, rows: &[Wake], of: &Wake) -> Result<()> {
    rows.iter().try_for_each(|row| tx.remove(row))?;
    if !has_reason(&tx.view(), of)? {
        return count_dropped(tx);
    }
    if !has_failed(&tx.view(), member.id)? {
        let times = of.fetches;
        give_up(tx, of, &format!("it was handed out {times} times, and never acknowledged"))?;
    }
    let wake = Wake { leased_until: None, again_at: None, ..of.clone() };
    tx.insert(&FailedWake { failed_at: tx.now(), wake })?;
    tx.signal(member.id.uuid());
    match scrum_master(&tx.view(), member.team)? {
        Some(master) if master.id != member.id && of.reason != WakeReason::WakeFailed => {
            causes::wake(tx, &master, &WakeCause::WakeFailed(member.id))
        }
        _ => Ok(()),
    }
}

/// Returns a failed wake; none if it is gone, or cannot be read, which is noted as damage.
fn readable(tx: &Tx, key: &(Id<Member>, Id<Wake>)) -> Result<Option<FailedWake>> {
    match tx.get(key) {
        Err(error) if error.kind() == Kind::Internal => Ok(None),
        failed => failed,
    }
}

/// Drops those whose reason is gone.
const DROP_WITHOUT_REASON: Sweep = Sweep {
    name: "failed wakes without a reason",
    every_secs: 600,
    run: drop_without_reason,
    installation: false,
};

fn drop_without_reason(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let behind = settings.behind.map(|(at, wake)| (at, Id::new(wake)));
    let start = behind.unwrap_or((Time::from_millis(i64::MIN), Id::NIL));
    let end = (Time::from_millis(i64::MAX), Id::<Wake>::NIL);
    let mut found = Vec::new();
    tx.view().entries(&BY_TIME, &start, &end, Order::Ascending, |place, key| {
        if Some(place) != behind {
            found.push((place, key));
        }
        let is_full = found.len() == SWEEP_ROWS;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for (_, key) in &found {
        let Some(failed) = readable(tx, key)? else { continue };
        if !has_reason(&tx.view(), &failed.wake)? {
            tx.remove(&failed)?;
            count_dropped(tx)?;
        }
    }
    let last = found.last().filter(|_| found.len() == SWEEP_ROWS);
    Ok(last.map_or(SweepProgress::Clean, |((at, wake), _)| {
        SweepProgress::MoreBehind((*at, Uuid::from_bytes(*wake.bytes())))
    }))
}

// ── What callers send and see ────────────────────────────────────────────────

/// A wake that its agent was handed as often as it is to be, and never acknowledged.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FailedWake")]
pub struct FailedWakeInfo {
    team_id: Id<Team>,
    /// The agent in the team.
    agent_id: Id<Member>,
    /// The agent's current name.
    agent_name: Name,
    /// When it was set aside.
    failed_at: Time,
    /// As it was handed out last.
    wake: Wake,
}

impl Output for FailedWakeInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.wake.id)
    }
}

impl FailedWakeInfo {
    fn of(view: &View, failed: FailedWake) -> Result<Self> {
        let FailedWake { failed_at, wake } = failed;
        let member: Member = view.fetch(&(wake.team, wake.agent))?;
        let agent_name = member::name(view, &member)?;
        Ok(FailedWakeInfo { team_id: wake.team, agent_id: wake.agent, agent_name, failed_at, wake })
    }
}

/// Which failed wakes to hand out again.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"wakeIds": ["01890a5d-ac96-774b-bcce-b302099a8057"]}, {}]))]
pub struct RetryWakes {
    /// These; unknown ones are ignored. Absent: the first 200.
    wake_ids: Option<BoundedList<Id<Wake>, 0, MAX_RETRIED>>,
}
impl Input for RetryWakes {}

/// What became of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetriedWakes {
    /// How many wait again; unknown ids are not counted.
    pub retried: usize,
    /// How many failed wakes of the agent are left, up to 1,000.
    pub left: usize,
}

impl Output for RetriedWakes {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists the failed wakes of all teams, what failed last first.
pub fn list_all(view: &View, req: &Req) -> Result<Page<FailedWakeInfo>> {
    let usable = UsableMembers::of(view, req.caller());
    let is_listed = |failed: &FailedWake| {
        let wake = &failed.wake;
        reaches(view, req.caller(), ScopeName::TeamRead, wake.team)
            && usable.has(wake.team, wake.agent)
            // Of one that has left they go some time later.
            && view.has::<Member>(&(wake.team, wake.agent)).unwrap_or(false)
            && has_reason(view, wake).unwrap_or(true)
    };
    view.page_map(&BY_TIME, &(), Order::Descending, &req.page, is_listed, FailedWakeInfo::of)
}

/// Lists the failed wakes of an agent, the oldest first.
pub fn list(view: &View, req: &Req<(Id<Team>, Id<Member>)>) -> Result<Page<FailedWakeInfo>> {
    let agent = fetch_agent(view, req.caller(), req.params)?.id;
    let has_reason = |failed: &FailedWake| has_reason(view, &failed.wake).unwrap_or(true);
    let of = FailedWakeInfo::of;
    view.page_map(ListSource::TABLE, &agent, Order::Ascending, &req.page, has_reason, of)
}

/// Hands failed wakes out again, as if they had not been handed out before.
pub fn retry(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), RetryWakes>) -> Result<RetriedWakes> {
    let member = fetch_agent(&tx.view(), req.caller(), req.params)?;
    let mut keys: Vec<(Id<Member>, Id<Wake>)> = Vec::new();
    match &req.input.wake_ids {
        Some(ids) => keys.extend(ids.iter().map(|id| (member.id, *id))),
        None => {
            let (start, end) =
                ((member.id, Id::<Wake>::NIL), (member.id, Id::<Wake>::new(Uuid::max())));
            tx.view().record_keys::<FailedWake>(&start, &end, Order::Ascending, |key| {
                keys.push(key);
                let is_full = keys.len() == MAX_RETRIED;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let mut chosen: Vec<FailedWake> = Vec::new();
    for key in &keys {
        chosen.extend(readable(tx, key)?);
    }
    for failed in &chosen {
        tx.remove(failed)?;
        let wake = failed.wake.clone();
        let (posting_since, post_again_at, given_up_at) = (None, None, None);
        let (attempts, fetches) = (0, 0);
        tx.insert(&Wake { attempts, fetches, posting_since, post_again_at, given_up_at, ..wake })?;
    }
    if !chosen.is_empty() {
        tx.signal(member.id.uuid());
        if member.wake_url.is_some() {
            enqueue_pending_posts(tx, &member)?;
        }
    }
    Ok(RetriedWakes { retried: chosen.len(), left: failed_of(&tx.view(), member.id)? })
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/teams/failed-wakes", MEMBER, "failed_wake.list_all", op::list(list_all))
            .needs_listed(ScopeName::TeamRead)
            .about("List the failed wakes of all teams"),
        Route::get(
            "/teams/{teamId}/agents/{agentId}/wakes/failed",
            MEMBER,
            "failed_wake.list",
            op::list(list),
        )
        .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
        .about("List an agent's failed wakes"),
        Route::post(
            "/teams/{teamId}/agents/{agentId}/wakes/retry",
            MEMBER,
            "failed_wake.retry",
            op::write(retry),
        )
        .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
        .about("Hand failed wakes out again"),
    ]
}

#[cfg(test)]
mod tests;
