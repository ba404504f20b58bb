//! Schedules of a team: at certain times a task is created, or an agent woken
//! (reference: teams-and-wakes, "Schedules").

mod fire;
mod runs;
mod stopped;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::holds;
use super::member::Member;
use super::schedule::{
    CronText, OnMissed, Overlap, Schedule, TaskTemplate, WakeTemplate, WakeText, fetch_schedule,
};
use super::task::{ProjectId, TaskDescription};
use super::tasks::{Priority, priority_of};
use super::team::{TEAM_IN_PATH, Team, fetch_team, require_team};
use super::team_changes::{TeamChange, TeamChangeKind};
use super::usable::{AgentRef, UsableMembers};
use super::zone::{ZoneName, utc};
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName, User};
use crate::base::{Error, Id, Int, Issue, Result, Time, Title};
use crate::outbox::cancel;
use crate::resources::pauses::{NewPause, Pause, PauseScope, Resume};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};
pub use fire::rouse;
use fire::{ZONE_UNKNOWN, arm, has_lost_setter};
pub use runs::{BY_TEAM as RUNS_BY_TEAM, ScheduleRun};
use stopped::{begin_again, why_stopped};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Schedule>(), TableInfo::of::<ScheduleRun>()],
    jobs: &[fire::FIRE],
    ..Resource::EMPTY
};

/// Schedules of a team: a page of a list has all of them, and resuming a team touches each.
const MAX_SCHEDULES: usize = 100;

/// At most every minute, as with cron, and at least every year.
type EverySecs = Int<60, 31_622_400>;

// ── What callers send and see ────────────────────────────────────────────────

/// A task to create at certain times.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewTaskTemplate {
    /// A short summary.
    title: Title,
    /// What to do, at length.
    description: Option<TaskDescription>,
    /// Opaque identifier chosen by the client; not interpreted.
    project_id: Option<ProjectId>,
    /// The agent to assign it to; absent, any agent may claim it.
    assignee_agent_id: Option<AgentRef>,
    /// From 0 to 4, not interpreted; 2 if absent.
    priority: Option<Priority>,
}

/// A wake to cause at certain times.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewWakeTemplate {
    /// The agent to wake.
    agent_id: AgentRef,
    /// What it is told.
    text: WakeText,
}

/// A schedule to create: `cron` or `everySecs`, and `task` or `wake`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "Weekly report", "cron": "0 9 * * mon", "timeZone": "Europe/Berlin",
        "task": {"title": "Write the weekly report"}}],
))]
pub struct NewSchedule {
    /// What people call it.
    name: Title,
    /// Minute, hour, day of the month, month and day of the week.
    cron: Option<CronText>,
    /// The seconds between two times; the first is that long after this request.
    every_secs: Option<EverySecs>,
    /// The time zone of `cron`, by its name in the IANA database; UTC if absent.
    time_zone: Option<ZoneName>,
    /// The task to create.
    task: Option<NewTaskTemplate>,
    /// The wake to cause.
    wake: Option<NewWakeTemplate>,
    /// What happens with times that passed while nothing could be begun; `skip` if absent.
    on_missed: Option<OnMissed>,
    /// What happens while the last task is open; `skip` if absent.
    overlap: Option<Overlap>,
}

impl Input for NewSchedule {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.cron.is_none() && self.every_secs.is_none() {
            issues.push(Issue::new("cron", "is required when everySecs is absent"));
        }
        if self.task.is_none() && self.wake.is_none() {
            issues.push(Issue::new("task", "is required when wake is absent"));
        }
        check_pairs(self.cron.is_some() && self.every_secs.is_some(), issues, "everySecs", "cron");
        check_pairs(self.task.is_some() && self.wake.is_some(), issues, "wake", "task");
    }
}

fn check_pairs(are_both: bool, issues: &mut Vec<Issue>, one: &str, other: &str) {
    if are_both {
        issues.push(Issue::new(one, format!("goes without {other}")));
    }
}

/// Changes to a schedule; absent fields keep their value. `cron` takes the place of `everySecs`, `task`
/// that of `wake`, and the other way round.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"cron": "0 8 * * mon-fri", "onMissed": "once"}],
))]
pub struct SchedulePatch {
    /// What people call it.
    name: Option<Title>,
    /// Minute, hour, day of the month, month and day of the week.
    cron: Option<CronText>,
    /// The seconds between two times; the first is that long after this request.
    every_secs: Option<EverySecs>,
    /// The time zone of `cron`, by its name in the IANA database.
    time_zone: Option<ZoneName>,
    /// The task to create.
    task: Option<NewTaskTemplate>,
    /// The wake to cause.
    wake: Option<NewWakeTemplate>,
    /// What happens with times that passed while nothing could be begun.
    on_missed: Option<OnMissed>,
    /// What happens while the last task is open.
    overlap: Option<Overlap>,
}

impl Input for SchedulePatch {
    fn check(&self, issues: &mut Vec<Issue>) {
        check_pairs(self.cron.is_some() && self.every_secs.is_some(), issues, "everySecs", "cron");
        check_pairs(self.task.is_some() && self.wake.is_some(), issues, "wake", "task");
    }
}

/// What a team does at certain times.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Schedule")]
pub struct ScheduleInfo {
    id: Id<Schedule>,
    team_id: Id<Team>,
    /// What people call it.
    name: Title,
    /// Minute, hour, day of the month, month and day of the week; null with `everySecs`.
    cron: Option<CronText>,
    /// The seconds between two times; null with `cron`.
    every_secs: Option<u32>,
    /// The time zone of `cron`.
    time_zone: ZoneName,
    /// The task that it creates; null with `wake`.
    task: Option<TaskTemplate>,
    /// The wake that it causes; null with `task`.
    wake: Option<WakeTemplate>,
    on_missed: OnMissed,
    overlap: Overlap,
    /// What holds it back; null if nothing does.
    paused: Option<Pause>,
    /// Why it begins nothing any more, though nobody paused it; null if that is not so.
    stopped: Option<&'static str>,
    /// When it is due next, up to five times; none while it is paused or stopped.
    next_times: Vec<Time>,
    /// The user who set it last, also through a key: it acts on their account. To pause or resume it is not
    /// to set it.
    set_by: Id<User>,
    created_at: Time,
    updated_at: Time,
}

impl Output for ScheduleInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn info(view: &View, schedule: Schedule) -> Result<ScheduleInfo> {
    let team: Option<Team> = view.get(&schedule.team)?;
    let own = schedule.paused.clone().map(|paused| Pause::of(PauseScope::Schedule, paused));
    let paused = team.map_or(Ok(None), |team| holds::of_team(view, &team))?.or(own);
    let stopped = why_stopped(view, &schedule)?;
    let is_off = paused.is_some() || stopped.is_some();
    let next_times = if is_off { Vec::new() } else { schedule.next_times(view.now()) };
    Ok(ScheduleInfo {
        id: schedule.id,
        team_id: schedule.team,
        name: schedule.name,
        cron: schedule.cron,
        every_secs: schedule.every_secs,
        time_zone: schedule.time_zone,
        task: schedule.task,
        wake: schedule.wake,
        on_missed: schedule.on_missed,
        overlap: schedule.overlap,
        paused,
        stopped,
        next_times,
        set_by: schedule.set_by,
        created_at: schedule.created_at,
        updated_at: schedule.updated_at,
    })
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Team>>) -> Result<Page<ScheduleInfo>> {
    let team = require_team(view, req.params)?;
    let usable = UsableMembers::of(view, req.caller());
    let is_shown =
        |schedule: &Schedule| schedule.agent().is_none_or(|agent| usable.has(team, agent));
    view.page(ListSource::TABLE, &team, Order::Descending, &req.page, is_shown)?
        .try_map(|schedule| info(view, schedule))
}

/// Returns a schedule that the caller may see: one for a restricted agent is like mail to it.
///
/// # Errors
/// 404; 403 if it names an agent of a restricted fleet and the caller has no grant.
fn fetch(view: &View, caller: &Caller, (team, id): (Id<Team>, Id<Schedule>)) -> Result<Schedule> {
    require_team(view, team)?;
    let schedule = fetch_schedule(view, team, id)?;
    if let Some(agent) = schedule.agent() {
        UsableMembers::of(view, caller).require(team, agent)?;
    }
    Ok(schedule)
}

fn get(view: &View, req: &Req<(Id<Team>, Id<Schedule>)>) -> Result<ScheduleInfo> {
    info(view, fetch(view, req.caller(), req.params)?)
}

fn list_runs(view: &View, req: &Req<(Id<Team>, Id<Schedule>)>) -> Result<Page<ScheduleRun>> {
    let schedule = fetch(view, req.caller(), req.params)?;
    view.page(ListSource::TABLE, &schedule.id, Order::Descending, &req.page, |_| true)
}

/// Creates a schedule.
pub fn create(tx: &mut Tx, req: &Req<Id<Team>, NewSchedule>) -> Result<ScheduleInfo> {
    let (new, view) = (&req.input, tx.view());
    let team = fetch_team(&view, req.params)?.id;
    let task = opened_task(&view, req.caller(), (team, None), new.task.as_ref())?;
    let wake = opened_wake(&view, req.caller(), (team, None), new.wake.as_ref())?;
    let count = view.count::<Schedule>(ListSource::TABLE, &team, MAX_SCHEDULES)?;
    if count == MAX_SCHEDULES {
        return Err(Error::conflict(
            "too_many_schedules",
            format!("a team has at most {MAX_SCHEDULES} schedules; delete one first"),
        ));
    }
    let now = tx.now();
    let mut schedule = Schedule {
        id: tx.new_id(),
        team,
        name: new.name.clone(),
        cron: new.cron.clone(),
        every_secs: new.every_secs.map(|secs| secs.get() as u32),
        time_zone: new.time_zone.clone().unwrap_or_else(utc),
        task,
        wake,
        on_missed: new.on_missed.unwrap_or_default(),
        overlap: new.overlap.unwrap_or_default(),
        first_at: now,
        next_at: None,
        last_due_at: None,
        last_task: None,
        job: None,
        held: false,
        paused: None,
        set_by: req.caller().user(),
        set_by_sponsor: sponsor(req.caller()),
        set_at: now,
        created_at: now,
        updated_at: now,
    };
    begin(&mut schedule, now);
    arm(tx, &mut schedule)?;
    tx.insert(&schedule)?;
    note(tx, &schedule, TeamChangeKind::ScheduleCreated, req.caller())?;
    info(&tx.view(), schedule)
}

/// Notes a change of a schedule.
fn note(tx: &mut Tx, schedule: &Schedule, kind: TeamChangeKind, by: &Caller) -> Result<()> {
    TeamChange::of(tx, Some(schedule.team), kind, Some(by.user())).about(schedule).note(tx)
}

/// Notes that a schedule was paused or resumed.
fn note_pause(tx: &mut Tx, schedule: &Schedule, by: &Caller) -> Result<()> {
    let at = (Some(schedule.team), PauseScope::Schedule);
    let change = TeamChange::of_pause(tx, at, schedule.paused.as_ref(), by.user());
    change.about(schedule).note(tx)
}

fn sponsor(caller: &Caller) -> Option<Id<User>> {
    caller.identity.sponsor.as_ref().map(|sponsor| sponsor.user)
}

/// Sets the first time of a schedule whose times are new.
fn begin(schedule: &mut Schedule, now: Time) {
    schedule.first_at = now.plus_secs(schedule.every_secs.unwrap_or_default().into());
    schedule.next_at = schedule.timing().and_then(|timing| timing.next(now));
}

/// A team, and the agent that a schedule of it names already: that may have left.
type Crew = (Id<Team>, Option<Id<Member>>);

fn opened_task(
    view: &View,
    caller: &Caller,
    crew: Crew,
    new: Option<&NewTaskTemplate>,
) -> Result<Option<TaskTemplate>> {
    let Some(new) = new else { return Ok(None) };
    let assignee = new.assignee_agent_id.as_ref().map(|named| opened(view, caller, crew, named));
    let assignee = assignee.transpose().map_err(|error| error.at("task.assigneeAgentId"))?;
    Ok(Some(TaskTemplate {
        title: new.title.clone(),
        description: new.description.clone(),
        project_id: new.project_id.clone(),
        assignee_agent_id: assignee,
        priority: priority_of(new.priority),
    }))
}

fn opened_wake(
    view: &View,
    caller: &Caller,
    crew: Crew,
    new: Option<&NewWakeTemplate>,
) -> Result<Option<WakeTemplate>> {
    let Some(new) = new else { return Ok(None) };
    let agent_id =
        opened(view, caller, crew, &new.agent_id).map_err(|error| error.at("wake.agentId"))?;
    Ok(Some(WakeTemplate { agent_id, text: new.text.clone() }))
}

/// Returns the agent that a body names. Whoever may see a schedule may use the agent that it has.
fn opened(
    view: &View,
    caller: &Caller,
    (team, known): Crew,
    named: &AgentRef,
) -> Result<Id<Member>> {
    match known.filter(|known| named.is(*known)) {
        Some(known) => Ok(known),
        None => Ok(named.open(view, caller, team)?.id),
    }
}

/// Changes a schedule, which is on the account of the caller from then on; if nothing changes, only if
/// who set it may not use its agent any more. One that has stopped begins again.
pub fn update(
    tx: &mut Tx,
    req: &Req<(Id<Team>, Id<Schedule>), SchedulePatch>,
) -> Result<ScheduleInfo> {
    let (patch, view, now) = (&req.input, tx.view(), tx.now());
    let old = fetch(&view, req.caller(), req.params)?;
    let mut schedule = old.clone();
    if let Some(name) = &patch.name {
        schedule.name = name.clone();
    }
    let crew = (old.team, old.agent());
    if let Some(task) = opened_task(&view, req.caller(), crew, patch.task.as_ref())? {
        (schedule.task, schedule.wake) = (Some(task), None);
    }
    // A wake for an agent that has left fails; a task for it is for the team.
    let crew = (old.team, old.wake.as_ref().map(|wake| wake.agent_id));
    if let Some(wake) = opened_wake(&view, req.caller(), crew, patch.wake.as_ref())? {
        (schedule.task, schedule.wake) = (None, Some(wake));
    }
    schedule.on_missed = patch.on_missed.unwrap_or(old.on_missed);
    schedule.overlap = patch.overlap.unwrap_or(old.overlap);
    if let Some(cron) = &patch.cron {
        (schedule.cron, schedule.every_secs) = (Some(cron.clone()), None);
    }
    if let Some(secs) = patch.every_secs {
        (schedule.cron, schedule.every_secs) = (None, Some(secs.get() as u32));
    }
    schedule.time_zone = patch.time_zone.clone().unwrap_or(schedule.time_zone);
    // Seconds have no zone.
    let zone = |one: &Schedule| one.cron.as_ref().map(|_| one.time_zone.clone());
    let times = |one: &Schedule| (one.cron.clone(), one.every_secs, zone(one));
    let has_other_times = times(&schedule) != times(&old);
    let is_stopped = why_stopped(&view, &old)?.is_some();
    if schedule != old || has_lost_setter(&view, &old)? {
        schedule.set_by = req.caller().user();
        schedule.set_by_sponsor = sponsor(req.caller());
        (schedule.set_at, schedule.updated_at) = (now, now);
    }
    if has_other_times {
        begin(&mut schedule, now);
        arm(tx, &mut schedule)?;
    } else if is_stopped {
        begin_again(tx, &mut schedule)?;
    }
    if schedule != old {
        tx.replace(&old, &schedule)?;
        note(tx, &schedule, TeamChangeKind::ScheduleChanged, req.caller())?;
    }
    info(&tx.view(), schedule)
}

/// Deletes a schedule with its history. What it has caused stays.
pub fn delete(tx: &mut Tx, req: &Req<(Id<Team>, Id<Schedule>)>) -> Result<Deleted> {
    let schedule = fetch(&tx.view(), req.caller(), req.params)?;
    if let Some(job) = schedule.job {
        cancel(tx, job)?;
    }
    tx.remove(&schedule)?;
    note(tx, &schedule, TeamChangeKind::ScheduleDeleted, req.caller())?;
    Ok(Deleted::new(schedule.id))
}

/// Pauses a schedule.
pub fn pause(tx: &mut Tx, req: &Req<(Id<Team>, Id<Schedule>), NewPause>) -> Result<ScheduleInfo> {
    let old = fetch(&tx.view(), req.caller(), req.params)?;
    let mut schedule = old.clone();
    if old.paused.is_none() {
        schedule.paused = Some(req.input.begun(tx, req.caller().user()));
        schedule.updated_at = tx.now();
        arm(tx, &mut schedule)?;
        tx.replace(&old, &schedule)?;
        note_pause(tx, &schedule, req.caller())?;
    }
    info(&tx.view(), schedule)
}

/// Resumes a schedule, or one that has stopped.
pub fn resume(tx: &mut Tx, req: &Req<(Id<Team>, Id<Schedule>), Resume>) -> Result<ScheduleInfo> {
    let old = fetch(&tx.view(), req.caller(), req.params)?;
    let mut schedule = old.clone();
    let is_stopped = why_stopped(&tx.view(), &old)?.is_some();
    if is_stopped && old.timing().is_none() {
        return Err(Error::conflict("time_zone_unknown", ZONE_UNKNOWN));
    }
    if old.paused.is_some() || is_stopped {
        schedule.paused = None;
        schedule.updated_at = tx.now();
        begin_again(tx, &mut schedule)?;
        tx.replace(&old, &schedule)?;
        note_pause(tx, &schedule, req.caller())?;
    }
    info(&tx.view(), schedule)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/schedules";
    const ONE: &str = "/teams/{teamId}/schedules/{scheduleId}";
    let read = |route: Route| route.needs_for(ScopeName::TeamRead, &TEAM_IN_PATH);
    let write = |route: Route| route.needs_for(ScopeName::TeamWrite, &TEAM_IN_PATH);
    let post = |path, name, operation| write(Route::post(path, MEMBER, name, operation));
    vec![
        read(Route::get(ALL, MEMBER, "schedule.list", op::walk(list)))
            .about("List a team's schedules, newest first"),
        post(ALL, "schedule.create", op::write(create)).about("Create a schedule"),
        read(Route::get(ONE, MEMBER, "schedule.get", op::read(get))).about("Get a schedule"),
        write(Route::patch(ONE, MEMBER, "schedule.update", op::write(update)))
            .about("Update a schedule"),
        write(Route::delete(ONE, MEMBER, "schedule.delete", op::write(delete)))
            .about("Delete a schedule with its history"),
        post("/teams/{teamId}/schedules/{scheduleId}/pause", "schedule.pause", op::write(pause))
            .about("Pause a schedule"),
        post("/teams/{teamId}/schedules/{scheduleId}/resume", "schedule.resume", op::write(resume))
            .about("Resume a schedule"),
        read(Route::get(
            "/teams/{teamId}/schedules/{scheduleId}/runs",
            MEMBER,
            "schedule_run.list",
            op::list(list_runs),
        ))
        .about("List what a schedule caused, newest first"),
    ]
}

#[cfg(test)]
mod tests;
