//! The job of a schedule: it waits for the next time, and does then what is to be done.
//!
//! One transaction creates the task or the wake, notes it, and sets the next time: so each time is
//! handled once, whatever process begins it and wherever it is killed. No job waits for longer than
//! jobs may (`MAX_DELAY_SECS`); it looks again then.

use super::runs::{ScheduleOutcome, ScheduleRun, note};
use crate::auth::present_caller;
use crate::base::{Description, Id, Int, Result, Time};
use crate::outbox::{Job, JobHandler, MAX_DELAY_SECS, Prepared, cancel, enqueue, no_effect};
use crate::resources::agents;
use crate::resources::teams::holds;
use crate::resources::teams::member::Member;
use crate::resources::teams::schedule::{OnMissed, Overlap, Schedule, TaskTemplate, Timing};
use crate::resources::teams::task::Task;
use crate::resources::teams::tasks::{self, NewTask};
use crate::resources::teams::team::Team;
use crate::resources::teams::wakes::{self, WakeCause};
use crate::store::{ListSource, Tx, View};

/// Waits for a schedule's next time; the target is the schedule, the concurrency key the team.
pub const FIRE: JobHandler = JobHandler { kind: "schedule.fire", prepare: fire, settle: no_effect };

/// A time that is handled later than this was missed. A restart takes less.
const LATE_SECS: i64 = 300;

/// Missed times are counted up to this.
const MAX_MISSED: usize = 1000;

const NOT_PERMITTED: &str = "who set the schedule, or answered for the key that did, may not use \
                             the agent any more; set it again";
const AGENT_GONE: &str = "the agent has left the team; name another one";
/// Why nothing is begun in a zone that this program has not in its table.
pub const ZONE_UNKNOWN: &str =
    "this version of the server does not know the time zone; name another";

/// Gives a schedule the job that waits for its next time in place of the one that it has; none while
/// it is paused.
pub fn arm(tx: &mut Tx, schedule: &mut Schedule) -> Result<()> {
    schedule.held = false;
    if let Some(job) = schedule.job.take() {
        cancel(tx, job)?;
    }
    if let Some(next) = schedule.next_at.filter(|_| schedule.paused.is_none()) {
        let (target, team) = (schedule.id.cast(), Some(schedule.team.cast()));
        let due_at = look_at(tx.now(), next);
        schedule.job = Some(enqueue(tx, &FIRE, target, team, due_at)?);
    }
    Ok(())
}

/// Gives the schedules of a team that was paused their jobs again.
pub fn rouse(tx: &mut Tx, team: Id<Team>) -> Result<()> {
    let all: Vec<Schedule> = tx.all(ListSource::TABLE, &team)?;
    for old in all.iter().filter(|schedule| schedule.held) {
        let mut schedule = old.clone();
        arm(tx, &mut schedule)?;
        tx.replace(old, &schedule)?;
    }
    Ok(())
}

/// Returns when the job looks at a schedule with this next time.
fn look_at(now: Time, next: Time) -> Time {
    next.max(now).min(now.plus_secs(MAX_DELAY_SECS))
}

fn fire(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let team: Id<Team> = job.concurrency_key.map_or(Id::NIL, Id::cast);
    let found = tx.get::<Schedule>(&(team, job.target.cast()))?;
    let Some(old) = found.filter(|schedule| schedule.job == Some(job.id)) else {
        return Ok(Prepared::Done);
    };
    let Some(team) = tx.get::<Team>(&team)? else { return Ok(Prepared::Done) };
    let mut schedule = old.clone();
    let again = if schedule.paused.is_some() || holds::of_team(&tx.view(), &team)?.is_some() {
        // Whoever resumes it gives it another one.
        schedule.held = schedule.paused.is_none();
        None
    } else {
        handle(tx, &mut schedule)?;
        schedule.next_at.map(|next| look_at(tx.now(), next))
    };
    if again.is_none() {
        schedule.job = None;
    }
    if schedule != old {
        tx.replace(&old, &schedule)?;
    }
    Ok(again.map_or(Prepared::Done, Prepared::RetryAt))
}

/// Does what is due, and sets the next time.
fn handle(tx: &mut Tx, schedule: &mut Schedule) -> Result<()> {
    let now = tx.now();
    let Some(timing) = schedule.correct(now) else {
        let run = begun(tx, schedule, schedule.next_at.unwrap_or(now));
        schedule.next_at = None;
        return note(tx, &failed(run, ZONE_UNKNOWN)?);
    };
    let Some(first) = schedule.next_at.filter(|next| *next <= now) else { return Ok(()) };
    let due_at = timing.last(first, now);
    let missed = missed(&timing, first, due_at);
    schedule.last_due_at = Some(due_at);
    schedule.next_at = timing.next(now);
    let run = ScheduleRun { missed, ..begun(tx, schedule, due_at) };
    let is_late = due_at.plus_secs(LATE_SECS) < now;
    let run =
        if is_late && schedule.on_missed == OnMissed::Skip { run } else { act(tx, schedule, run)? };
    note(tx, &run)
}

/// Returns a row about a time that was missed.
fn begun(tx: &Tx, schedule: &Schedule, due_at: Time) -> ScheduleRun {
    ScheduleRun {
        id: tx.new_id(),
        team: schedule.team,
        schedule: schedule.id,
        due_at,
        outcome: ScheduleOutcome::Missed,
        missed: 0,
        task_id: None,
        error: None,
        created_at: tx.now(),
    }
}

fn failed(run: ScheduleRun, why: &str) -> Result<ScheduleRun> {
    let error = Description::parse(why).ok();
    Ok(ScheduleRun { outcome: ScheduleOutcome::Failed, error, ..run })
}

/// Counts the times before the last one.
fn missed(timing: &Timing, first: Time, last: Time) -> u32 {
    let next = |at: &Time| timing.next(*at);
    let times = std::iter::successors(Some(first), next);
    times.take_while(|at| *at < last).take(MAX_MISSED).count() as u32
}

/// Creates the task, or wakes the agent; returns the row about it.
fn act(tx: &mut Tx, schedule: &mut Schedule, run: ScheduleRun) -> Result<ScheduleRun> {
    let agent: Option<Member> = match schedule.agent() {
        Some(agent) => tx.get(&(schedule.team, agent))?,
        None => None,
    };
    if let Some(agent) = &agent
        && !is_permitted(&tx.view(), schedule, agent)?
    {
        return failed(run, NOT_PERMITTED);
    }
    if let Some(wake) = &schedule.wake {
        let Some(agent) = agent else { return failed(run, AGENT_GONE) };
        wakes::wake(tx, &agent, &WakeCause::Schedule(schedule.id, &wake.text))?;
        return Ok(ScheduleRun { outcome: ScheduleOutcome::AgentWoken, ..run });
    }
    let Some(template) = &schedule.task else { return Ok(run) };
    if let Some(open) = open_task(&tx.view(), schedule)? {
        let (outcome, task_id) = (ScheduleOutcome::Overlapped, Some(open));
        return Ok(ScheduleRun { outcome, task_id, ..run });
    }
    let new = new_task(template);
    let task = tasks::make(tx, schedule.team, &new, (agent.as_ref(), None), None)?;
    schedule.last_task = Some(task.id);
    let (outcome, task_id) = (ScheduleOutcome::TaskCreated, Some(task.id));
    Ok(ScheduleRun { outcome, task_id, ..run })
}

/// Returns the last task that a schedule created, if it is open and no further one may be created then.
fn open_task(view: &View, schedule: &Schedule) -> Result<Option<Id<Task>>> {
    let Some(last) = schedule.last_task.filter(|_| schedule.overlap == Overlap::Skip) else {
        return Ok(None);
    };
    let task = view.get::<Task>(&(schedule.team, last))?;
    Ok(task.filter(|task| !task.is_closed()).map(|task| task.id))
}

fn new_task(template: &TaskTemplate) -> NewTask {
    NewTask {
        title: template.title.clone(),
        description: template.description.clone(),
        project_id: template.project_id.clone(),
        assignee_agent_id: None,
        assignee_user_id: None,
        priority: Int::new(template.priority.into()),
        from_agent_id: None,
        worker: None,
        parent_task_id: None,
        depends_on: None,
        due_at: None,
        labels: None,
    }
}

/// Whether who set a schedule, or answered then for the key that did, may not use its agent any more.
pub fn has_lost_setter(view: &View, schedule: &Schedule) -> Result<bool> {
    let Some(agent) = schedule.agent() else { return Ok(false) };
    match view.get::<Member>(&(schedule.team, agent))? {
        Some(agent) => Ok(!is_permitted(view, schedule, &agent)?),
        None => Ok(false),
    }
}

/// Whether a schedule may give an agent something to do: a restricted one as long as who set the schedule
/// may use it.
fn is_permitted(view: &View, schedule: &Schedule, agent: &Member) -> Result<bool> {
    if agents::is_open(view, agent.agent)? {
        return Ok(true);
    }
    let Schedule { set_by, set_by_sponsor, set_at, .. } = schedule;
    match present_caller(view, *set_by, *set_by_sponsor, *set_at)? {
        Some(setter) => agents::is_usable(view, &setter, agent.agent),
        None => Ok(false),
    }
}
