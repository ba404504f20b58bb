//! What schedules cause, when they are missed, overlap or are paused.

use serde_json::{Value, json};

use super::fire::FIRE;
use super::runs::ScheduleOutcome;
use super::*;
use crate::api::Principal;
use crate::auth::Grant;
use crate::outbox::{Job, Prepared};
use crate::resources::teams::task::Task;
use crate::resources::teams::testing::{add_agent, code, take, team};
use crate::resources::teams::{members, pausing, tasks};
use crate::resources::testing::{Fixture, user};
use crate::resources::{agents, fleets};

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
    let runs = fixture.read_as(&fixture.owner, list_runs, at, ()).unwrap().items;
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

// ── Who set it, and what stopped by itself ───────────────────────────────────

fn patch_as(fixture: &Fixture, who: &Principal, at: Place, body: Value) -> ScheduleInfo {
    fixture.write_as(who, update, at, Fixture::input(body).unwrap()).unwrap()
}

fn stored(fixture: &Fixture, (team, id): Place) -> Schedule {
    fixture.store.read_now(fixture.org, |view| fetch_schedule(view, team, id)).unwrap()
}

/// Changes the row of a schedule.
fn set(fixture: &Fixture, at: Place, change: impl Fn(&mut Schedule) + Send + Sync + 'static) {
    let run = move |tx: &mut Tx| {
        let old = fetch_schedule(&tx.view(), at.0, at.1)?;
        let mut new = old.clone();
        change(&mut new);
        tx.replace(&old, &new)
    };
    fixture.store.write_blocking(fixture.org, run).unwrap();
}

#[test]
fn a_patch_that_changes_nothing_sets_it_anew_only_if_who_set_it_lost_the_agent() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, team, "ann");
    let closed = json!({"name": "Closed", "access": "restricted"});
    let closed = fleets::tests::make(&fixture, closed).id;
    fleets::tests::grant(&fixture, &fixture.member, closed);
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(&fixture, &fixture.owner, "ann", fleet).unwrap();
    let wake = json!({"agentId": ann, "text": "Look."});
    let at = (team, make(&fixture, team, json!({"name": "l", "everySecs": 600, "wake": wake})).id);
    let same = || json!({"name": "l", "everySecs": 600, "wake": wake});
    fixture.pass_secs(60);
    let before = stored(&fixture, at);
    for body in [json!({}), same()] {
        assert_eq!(patch_as(&fixture, &fixture.owner, at, body).set_by, user(&fixture.member));
    }
    assert_eq!(stored(&fixture, at), before);
    // What changes is on the account of whoever changes it.
    let renamed = patch_as(&fixture, &fixture.owner, at, json!({"name": "other"}));
    assert_eq!(renamed.set_by, user(&fixture.owner));
    patch_as(&fixture, &fixture.member, at, json!({"name": "l"}));
    let withdraw = |tx: &mut Tx| {
        let grants: Vec<Grant> = tx.all(ListSource::TABLE, &())?;
        grants.iter().try_for_each(|grant| tx.remove(grant))
    };
    fixture.store.write_blocking(fixture.org, withdraw).unwrap();
    pass(&fixture, 600);
    assert_eq!(history(&fixture, at).last(), Some(&(Failed, 0)));
    let rhythm = stored(&fixture, at).next_at;
    let kept = patch_as(&fixture, &fixture.owner, at, json!({}));
    assert_eq!(kept.set_by, user(&fixture.owner));
    assert_eq!(stored(&fixture, at).next_at, rhythm, "its times stay");
    pass(&fixture, 600);
    assert_eq!(history(&fixture, at).last(), Some(&(AgentWoken, 0)));
}

#[test]
fn who_set_it_before_their_account_was_proved_sets_it_anew_by_saving_it_as_it_is() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, team, "ann");
    let closed = json!({"name": "Closed", "access": "restricted"});
    let closed = fleets::tests::make(&fixture, closed).id;
    fleets::tests::grant(&fixture, &fixture.member, closed);
    let fleet = json!({"fleetId": closed});
    agents::tests::patch_as(&fixture, &fixture.owner, "ann", fleet).unwrap();
    let wake = json!({"agentId": ann, "text": "Look."});
    let at = (team, make(&fixture, team, json!({"name": "l", "everySecs": 600, "wake": wake})).id);
    let member = user(&fixture.member);
    let prove = move |tx: &mut Tx| {
        let unproved: User = tx.fetch(&member)?;
        tx.replace(&unproved, &User { keys_from: Some(tx.now()), ..unproved.clone() })
    };
    fixture.pass_secs(1);
    fixture.store.write_blocking(fixture.org, prove).unwrap();
    pass(&fixture, 600);
    assert_eq!(history(&fixture, at), [(Failed, 0)]);
    patch_as(&fixture, &fixture.member, at, json!({"name": "l"}));
    assert_eq!(stored(&fixture, at).set_at, fixture.store.clock().now());
    pass(&fixture, 600);
    assert_eq!(history(&fixture, at).last(), Some(&(AgentWoken, 0)));
}

#[test]
fn a_zone_is_no_other_rhythm_of_seconds() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let made =
        make(&fixture, team, json!({"name": "n", "everySecs": 3600, "task": {"title": "t"}}));
    let before = jobs(&fixture)[0].id;
    fixture.pass_secs(1800);
    let zone = json!({"timeZone": "Europe/Berlin"});
    let patched = patch_as(&fixture, &fixture.member, (team, made.id), zone);
    assert_eq!(patched.time_zone.as_str(), "Europe/Berlin");
    assert_eq!((patched.next_times, jobs(&fixture)[0].id), (made.next_times, before));
    // For cron it is.
    let cron = make(&fixture, team, hourly(json!({"cron": "0 9 * * *"})));
    let zone = json!({"timeZone": "Asia/Tokyo"});
    let patched = patch_as(&fixture, &fixture.member, (team, cron.id), zone);
    assert_ne!(patched.next_times, cron.next_times);
}

#[test]
fn an_agent_that_has_left_stays_in_a_wake_and_comes_into_none() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let ann = add_agent(&fixture, team, "ann");
    let wake = json!({"wake": {"agentId": ann, "text": "Look."}});
    let patch = |at| fixture.write(update, at, Fixture::input(wake.clone()).unwrap());
    let task = json!({"title": "Count", "assigneeAgentId": ann});
    let task = (team, make(&fixture, team, hourly(json!({"task": task}))).id);
    let woken = json!({"name": "n", "everySecs": 600, "wake": {"agentId": ann, "text": "x"}});
    let woken = (team, make(&fixture, team, woken).id);
    fixture.write(members::delete, (team, ann), ()).unwrap();
    assert_eq!(code(patch(task)), "not_found");
    assert_eq!(patch(woken).unwrap().wake.unwrap().text.as_str(), "Look.");
}

/// Gives the job of the only schedule up, as the runner does after a day of failures.
fn give_up(fixture: &Fixture) {
    let job = jobs(fixture).remove(0);
    let run = move |tx: &mut Tx| tx.replace(&job, &Job { dead: true, ..job.clone() });
    fixture.store.write_blocking(Id::NIL, run).unwrap();
}

#[test]
fn a_schedule_whose_job_was_given_up_says_so_and_begins_again_when_it_is_saved_or_resumed() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let at = (team, make(&fixture, team, hourly(json!({"overlap": "queue"}))).id);
    let shown = || fixture.read(get, at, ()).unwrap();
    let saved = || drop(patch_as(&fixture, &fixture.member, at, json!({})));
    let resumed = || {
        let input = Fixture::input(json!({})).unwrap();
        assert_eq!(fixture.write(resume, at, input).unwrap().stopped, None);
    };
    for (again, count) in [(&saved as &dyn Fn(), 1), (&resumed, 2)] {
        assert_eq!(shown().stopped, None);
        give_up(&fixture);
        assert!(shown().stopped.unwrap().contains("was given up"));
        assert!(shown().next_times.is_empty());
        again();
        assert_eq!((shown().stopped, shown().next_times.len()), (None, 5));
        assert_eq!(jobs(&fixture).iter().map(|job| job.dead).collect::<Vec<_>>(), [false]);
        pass(&fixture, 3600);
        assert_eq!(history(&fixture, at), vec![(TaskCreated, 0); count]);
    }
    fixture.assert_sound();
}

#[test]
fn a_zone_that_the_program_did_not_know_stops_a_schedule_until_it_is_saved_or_resumed() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let at = (team, make(&fixture, team, hourly(json!({"overlap": "queue"}))).id);
    let shown = || fixture.read(get, at, ()).unwrap();
    let name = |zone: &'static str| {
        set(&fixture, at, move |one| one.time_zone = ZoneName::from_trusted(zone.into()));
    };
    let saved = || fixture.write(update, at, Fixture::input(json!({})).unwrap());
    let resumed = || fixture.write(resume, at, Fixture::input(json!({})).unwrap());
    for (again, count) in [(&saved as &dyn Fn() -> Result<ScheduleInfo>, 1), (&resumed, 2)] {
        // Another version has it, this one does not.
        name("Europe/Nowhere");
        assert!(shown().stopped.unwrap().contains("does not know the time zone"));
        // The console offers what the reason names.
        assert!(!shown().stopped.unwrap().contains("resume the schedule"));
        pass(&fixture, 3600);
        assert_eq!(history(&fixture, at).last(), Some(&(Failed, 0)));
        assert_eq!((stored(&fixture, at).next_at, jobs(&fixture).len()), (None, 0));
        let before = stored(&fixture, at);
        saved().unwrap();
        assert_eq!(code(resumed()), "time_zone_unknown");
        assert_eq!(stored(&fixture, at), before, "it is not known yet");
        // A pause is ended all the same.
        fixture.write(pause, at, Fixture::input(json!({})).unwrap()).unwrap();
        assert!(resumed().unwrap().stopped.is_some());
        // The upgrade.
        name("UTC");
        assert!(shown().stopped.unwrap().contains("did not know"));
        assert!(shown().stopped.unwrap().contains("resume the schedule"));
        again().unwrap();
        assert_eq!((shown().stopped, shown().next_times.len()), (None, 5));
        pass(&fixture, 3600);
        assert_eq!(history(&fixture, at).len(), 2 * count);
        assert_eq!(history(&fixture, at).last(), Some(&(TaskCreated, 0)));
    }
}

#[test]
fn a_schedule_that_began_while_the_clock_was_ahead_is_due_once_it_is_right() {
    let fixture = Fixture::new();
    let team = team(&fixture, "crew", None);
    let body = json!({"name": "n", "everySecs": 600, "task": {"title": "t"}, "overlap": "queue"});
    let at = (team, make(&fixture, team, body).id);
    let year = 365 * 86_400;
    set(&fixture, at, move |one| {
        one.first_at = one.first_at.plus_secs(year);
        one.next_at = one.next_at.map(|next| next.plus_secs(year));
    });
    let now = fixture.store.clock().now();
    assert_eq!(fixture.read(get, at, ()).unwrap().next_times[0], now.plus_secs(600));
    // Its job is found to be too far off, and made due (`outbox::misdated`).
    pass(&fixture, 1800);
    assert_eq!(history(&fixture, at), [(TaskCreated, 0); 2]);
    let stored = stored(&fixture, at);
    assert!(!stored.first_at.is_beyond(fixture.store.clock().now(), 600));
}
