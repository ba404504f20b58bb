//! What schedules cause, when they are missed, overlap or are paused.

use serde_json::{Value, json};

use super::fire::FIRE;
use super::runs::ScheduleOutcome;
use super::*;
use crate::outbox::{Job, Prepared};
use crate::resources::teams::task::Task;
use crate::resources::teams::testing::{add_agent, code, take, team};
use crate::resources::teams::{members, pausing, tasks};
use crate::resources::testing::Fixture;

type Place = (Id<Team>, Id<Schedule>);

fn make(fixture: &Fixture, team: Id<Team>, body: Value) -> ScheduleInfo {
    fixture.write(create, team, Fixture::input(body).unwrap()).unwrap()
}

/// A task each hour.
fn hourly(more: Value) -> Value {
    let mut body = json!({"name": "Hourly", "cron": "0 * * * *", "task": {"title": "Count"}});
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    body
}

fn jobs(fixture: &Fixture) -> Vec<Job> {
    let all = |view: &View| view.all::<Job>(ListSource::TABLE, &());
    let jobs = fixture.store.read_now(Id::NIL, all).unwrap();
    jobs.into_iter().filter(|job| job.kind == FIRE.kind).collect()
}

/// Does what the runner does with the jobs of schedules that are due.
fn run_due(fixture: &Fixture) {
    for job in jobs(fixture) {
        let run = move |tx: &mut Tx| {
            if job.due_at > tx.now() {
                return Ok(());
            }
            let prepared = (FIRE.prepare)(tx, &job)?;
            let Some(job) = tx.get::<Job>(&job.id)? else { return Ok(()) };
            match prepared {
                Prepared::RetryAt(at) => tx.replace(&job, &job.due(at, tx.now())),
                _ => tx.remove(&job),
            }
        };
        fixture.store.write_blocking(fixture.org, run).unwrap();
    }
}

/// Lets time pass in small steps, as a server does that runs.
fn pass(fixture: &Fixture, secs: i64) {
    for _ in 0..secs / 60 {
        fixture.pass_secs(60);
        run_due(fixture);
    }
}

fn tasks_of(fixture: &Fixture, team: Id<Team>) -> Vec<Task> {
    fixture.store.read_now(fixture.org, |view| view.all(ListSource::TABLE, &team)).unwrap()
}

fn history(fixture: &Fixture, at: Place) -> Vec<(ScheduleOutcome, u32)> {
    let runs = fixture.read(list_runs, at, ()).unwrap().items;
    runs.into_iter().rev().map(|run| (run.outcome, run.missed)).collect()
}

fn close(fixture: &Fixture, task: &Task) {
    let done = Fixture::input(json!({"status": "done"})).unwrap();
    fixture.write(tasks::update, (task.team_id, task.id), done).unwrap();
}

use ScheduleOutcome::*;

#[test]
fn each_time_creates_one_task_and_says_so() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, team, "ann");
    let task = json!({"title": "Count", "description": "all", "assigneeAgentId": ann});
    let made = make(&fixture, team, hourly(json!({"task": task, "overlap": "queue"})));
    let times: Vec<_> =
        made.next_times.iter().map(|at| at.to_string()[11..16].to_string()).collect();
    assert_eq!(times, ["13:00", "14:00", "15:00", "16:00", "17:00"]);
    pass(&fixture, 3 * 3600);
    let tasks = tasks_of(&fixture, team);
    assert_eq!(tasks.len(), 3);
    let newest = tasks.last().unwrap();
    assert_eq!((newest.title.as_str(), newest.priority), ("Count", 2));
    assert_eq!((newest.assignee_agent_id, newest.created_by), (Some(ann), None));
    assert_eq!(history(&fixture, (team, made.id)), [(TaskCreated, 0); 3]);
    assert_eq!(take(&fixture, team, ann).len(), 3);
    fixture.assert_sound();
}

#[test]
fn an_agent_is_woken_with_the_text_and_once_for_several_times() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, team, "ann");
    let body = json!({"name": "Look", "everySecs": 600, "wake": {"agentId": ann, "text": "Look."}});
    let made = make(&fixture, team, body);
    pass(&fixture, 1800);
    let wakes = take(&fixture, team, ann);
    assert_eq!(wakes.len(), 1);
    let wake = json!(wakes[0]);
    assert_eq!((&wake["reason"], &wake["text"]), (&json!("schedule"), &json!("Look.")));
    assert_eq!(wake["scheduleId"], json!(made.id));
    assert_eq!(history(&fixture, (team, made.id)), [(AgentWoken, 0); 3]);
    // What the agent is left with when it has gone.
    fixture.write(members::delete, (team, ann), ()).unwrap();
    pass(&fixture, 600);
    assert_eq!(history(&fixture, (team, made.id)).last(), Some(&(Failed, 0)));
}

#[test]
fn a_task_that_is_open_keeps_the_next_one_away_until_it_is_closed() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let made = make(&fixture, team, hourly(json!({})));
    pass(&fixture, 2 * 3600);
    let tasks = tasks_of(&fixture, team);
    assert_eq!(tasks.len(), 1);
    close(&fixture, &tasks[0]);
    pass(&fixture, 3600);
    assert_eq!(tasks_of(&fixture, team).len(), 2);
    let all = [(TaskCreated, 0), (Overlapped, 0), (TaskCreated, 0)];
    assert_eq!(history(&fixture, (team, made.id)), all);
}

#[test]
fn what_was_missed_is_skipped_or_done_once() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let skip = make(&fixture, team, hourly(json!({})));
    let once = make(&fixture, team, hourly(json!({"onMissed": "once"})));
    // The server is off from 12:00 to 15:30.
    fixture.pass_secs(3 * 3600 + 1800);
    run_due(&fixture);
    assert_eq!(history(&fixture, (team, skip.id)), [(Missed, 2)]);
    assert_eq!(history(&fixture, (team, once.id)), [(TaskCreated, 2)]);
    // At 16:00 it runs again; a restart of a minute misses nothing.
    fixture.pass_secs(1800 + 60);
    run_due(&fixture);
    assert_eq!(history(&fixture, (team, skip.id)).last(), Some(&(TaskCreated, 0)));
}

#[test]
fn a_time_is_handled_once_however_often_its_job_is_run() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let made = make(&fixture, team, hourly(json!({"overlap": "queue"})));
    fixture.pass_secs(3600);
    let job = jobs(&fixture).remove(0);
    for _ in 0..3 {
        let own = job.clone();
        let run = move |tx: &mut Tx| (FIRE.prepare)(tx, &own).map(drop);
        fixture.store.write_blocking(fixture.org, run).unwrap();
    }
    assert_eq!(tasks_of(&fixture, team).len(), 1);
    assert_eq!(history(&fixture, (team, made.id)), [(TaskCreated, 0)]);
}

#[test]
fn other_times_have_one_job_and_the_old_one_does_nothing() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let made = make(&fixture, team, hourly(json!({})));
    let old = jobs(&fixture).remove(0);
    let patch = Fixture::input(json!({"everySecs": 86_400})).unwrap();
    let patched = fixture.write(update, (team, made.id), patch).unwrap();
    assert_eq!((patched.cron, patched.every_secs), (None, Some(86_400)));
    let now = jobs(&fixture);
    assert_eq!(now.len(), 1);
    assert_ne!(now[0].id, old.id);
    fixture.pass_secs(3600);
    let run = move |tx: &mut Tx| (FIRE.prepare)(tx, &old).map(drop);
    fixture.store.write_blocking(fixture.org, run).unwrap();
    assert!(tasks_of(&fixture, team).is_empty());
    // No job waits for longer than jobs may.
    assert!(now[0].due_at < patched.next_times[0]);
    pass(&fixture, 86_400 - 3600);
    assert_eq!(tasks_of(&fixture, team).len(), 1);
    fixture.write(delete, (team, made.id), ()).unwrap();
    assert!(jobs(&fixture).is_empty());
    fixture.assert_sound();
}

#[test]
fn a_pause_is_a_time_in_which_nothing_is_begun() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let made = make(&fixture, team, hourly(json!({"onMissed": "once"})));
    let at = (team, made.id);
    let begin = || Fixture::input(json!({"reason": "r"})).unwrap();
    let end = || Fixture::input(json!({})).unwrap();
    let paused = fixture.write(pause, at, begin()).unwrap();
    assert!(paused.next_times.is_empty());
    assert_eq!(json!(paused.paused)["scope"], "schedule");
    pass(&fixture, 7200);
    assert!(history(&fixture, at).is_empty() && jobs(&fixture).is_empty());
    fixture.write(resume, at, end()).unwrap();
    run_due(&fixture);
    assert_eq!(history(&fixture, at), [(TaskCreated, 1)]);
    close(&fixture, &tasks_of(&fixture, team)[0]);

    fixture.write(pausing::pause_team, team, begin()).unwrap();
    pass(&fixture, 7200);
    assert_eq!(history(&fixture, at).len(), 1);
    fixture.write(pausing::resume_team, team, end()).unwrap();
    fixture.store.write_blocking(fixture.org, move |tx| rouse(tx, team)).unwrap();
    run_due(&fixture);
    assert_eq!(history(&fixture, at), [(TaskCreated, 1), (TaskCreated, 1)]);
}

#[test]
fn a_schedule_says_when_and_what_and_each_once() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, team, "ann");
    let wake = json!({"agentId": ann, "text": "x"});
    for (body, path) in [
        (json!({"name": "n", "task": {"title": "t"}}), "cron"),
        (json!({"name": "n", "cron": "0 9 * * *"}), "task"),
        (hourly(json!({"everySecs": 60})), "everySecs"),
        (hourly(json!({"wake": wake})), "wake"),
        (hourly(json!({"cron": "0 0 30 2 *"})), "cron"),
        (hourly(json!({"timeZone": "Mars/Olympus"})), "timeZone"),
        (json!({"name": "n", "everySecs": 59, "task": {"title": "t"}}), "everySecs"),
    ] {
        let refused = Fixture::input::<NewSchedule>(body.clone()).err().unwrap();
        assert_eq!(refused.issues()[0].path, path, "{body}");
    }
}

#[test]
fn a_team_has_at_most_a_hundred_schedules_and_each_as_many_rows_of_history() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let busy = json!({"everySecs": 60, "name": "b", "task": {"title": "t"}});
    let made = make(&fixture, team, busy);
    crate::resources::teams::testing::repeat(&fixture, create, team, hourly(json!({})), 99);
    let more = Fixture::input(hourly(json!({}))).unwrap();
    assert_eq!(code(fixture.write(create, team, more)), "too_many_schedules");
    for _ in 0..103 {
        fixture.pass_secs(60);
        let run = move |tx: &mut Tx| {
            let schedule = fetch_schedule(&tx.view(), team, made.id)?;
            let job: Job = tx.fetch(&schedule.job.unwrap())?;
            (FIRE.prepare)(tx, &job).map(drop)
        };
        fixture.store.write_blocking(fixture.org, run).unwrap();
    }
    let all = |view: &View| view.count::<ScheduleRun>(ListSource::TABLE, &made.id, 1000);
    assert_eq!(fixture.store.read_now(fixture.org, all).unwrap(), 100);
}
