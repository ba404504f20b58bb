//! Having agents look again for what waits for them: what held them back is over
//! (reference: teams-and-wakes, "Pausing"). Of many agents a job does that, in steps.

use super::member::Member;
use super::team::Team;
use super::{holds, schedules, wakes};
use crate::api::Resource;
use crate::base::{Error, Id, Result};
use crate::outbox::{Job, JobHandler, Prepared, SWEEP_ROWS, Target, enqueue, no_effect};
use crate::resources::pauses;
use crate::store::{Key, ListSource, Order, Page, PageRequest, Record, Tx};

pub(super) const RESOURCE: Resource =
    Resource { jobs: &[ROUSE_ALL, ROUSE_TEAM], ..Resource::EMPTY };

/// So many agents are told to look again in one transaction: servers that share a store tell each other of
/// so many at once.
pub const AT_ONCE: usize = 100;

/// Has an agent look again for what waits for it.
pub fn rouse(tx: &mut Tx, member: &Member) -> Result<()> {
    tx.signal(member.id.uuid());
    match member.wake_url {
        Some(_) => wakes::enqueue_pending_posts(tx, member),
        None => Ok(()),
    }
}

/// Has the agents of all teams look again.
pub fn rouse_teams(tx: &mut Tx) -> Result<()> {
    let now = tx.now();
    enqueue(tx, &ROUSE_ALL, Id::NIL, None, now).map(drop)
}

/// Has the agents of a team look again, from the one after `last` on.
pub fn rouse_members(tx: &mut Tx, team: Id<Team>, last: Id<Member>) -> Result<()> {
    let now = tx.now();
    enqueue(tx, &ROUSE_TEAM, last.cast(), Some(team.cast()), now).map(drop)
}

/// Has the agents of all teams look again; the target is the last team that was seen to.
const ROUSE_ALL: JobHandler =
    JobHandler { kind: "team.rouse_all", prepare: rouse_all, settle: no_effect };

/// Gives a team's schedules their jobs again, and has its agents look for what waits, or that posted; the
/// target is the last agent that was seen to, the concurrency key the team.
const ROUSE_TEAM: JobHandler =
    JobHandler { kind: "team.rouse", prepare: rouse_team, settle: no_effect };

/// Does the job for some of the teams.
pub fn rouse_all(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    if pauses::of_all(&tx.view())?.is_some() {
        return Ok(Prepared::Done); // Whoever ends that pause has it done.
    }
    let last: Id<Team> = job.target.cast();
    let teams: Page<Team> = part(tx, &(), (!last.is_nil()).then(|| last.to_bytes()), SWEEP_ROWS)?;
    for team in &teams.items {
        rouse_members(tx, team.id, Id::NIL)?;
    }
    if let Some(next) = position::<Id<Team>>(&teams)? {
        enqueue(tx, &ROUSE_ALL, next.cast(), None, tx.now())?;
    }
    Ok(Prepared::Done)
}

/// Does the job for some of a team's agents.
pub fn rouse_team(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let key: Id<Target> = job.concurrency_key.unwrap_or(Id::NIL);
    let Some(team) = tx.get::<Team>(&key.cast())? else { return Ok(Prepared::Done) };
    if holds::of_team(&tx.view(), &team)?.is_some() {
        return Ok(Prepared::Done);
    }
    let last: Id<Member> = job.target.cast();
    if last.is_nil() {
        schedules::rouse(tx, team.id)?;
    }
    let (members, next) = next_members(tx, team.id, last)?;
    for member in &members {
        rouse(tx, member)?;
    }
    if let Some(next) = next {
        rouse_members(tx, team.id, next)?;
    }
    Ok(Prepared::Done)
}

/// Returns the next [`AT_ONCE`] agents of a team, from the one after `last` on, and which of them is the
/// last if there are more.
pub fn next_members(
    tx: &Tx,
    team: Id<Team>,
    last: Id<Member>,
) -> Result<(Vec<Member>, Option<Id<Member>>)> {
    let after = (!last.is_nil()).then(|| (team, last).to_bytes());
    let members: Page<Member> = part(tx, &team, after, AT_ONCE)?;
    let next = position::<(Id<Team>, Id<Member>)>(&members)?;
    Ok((members.items, next.map(|(_, next)| next)))
}

fn part<R: Record>(
    tx: &Tx,
    prefix: &impl Key,
    after: Option<Vec<u8>>,
    limit: usize,
) -> Result<Page<R>> {
    let part = PageRequest { limit, after };
    tx.page(ListSource::TABLE, prefix, Order::Ascending, &part, |_| true)
}

/// Returns the key after which a list goes on.
fn position<K: Key>(page: &Page<impl Record>) -> Result<Option<K>> {
    let read = |bytes: &Vec<u8>| {
        K::read(&mut bytes.as_slice()).ok_or_else(|| Error::internal("a position is no key"))
    };
    page.next.as_ref().map(read).transpose()
}

/// Does what the jobs of resuming do, until there are none.
#[cfg(test)]
pub fn run_jobs(fixture: &crate::resources::testing::Fixture) {
    let run = |tx: &mut Tx| {
        let jobs: Vec<Job> = tx.all(ListSource::TABLE, &())?;
        for job in &jobs {
            match job.kind.as_str() {
                "team.rouse_all" => rouse_all(tx, job)?,
                "team.rouse" => rouse_team(tx, job)?,
                _ => continue,
            };
            tx.remove(job)?;
        }
        Ok(jobs.iter().any(|job| job.kind.starts_with("team.rouse")))
    };
    // The jobs of all organizations are in one table, those here of one.
    while fixture.store.write_blocking(fixture.org, run).unwrap() {}
}
