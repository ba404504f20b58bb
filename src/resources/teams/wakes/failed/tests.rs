//! Wakes that are never acknowledged.

use serde_json::json;

use super::super::fetching::{acknowledge as ack, look};
use super::*;
use crate::outbox::EventType;
use crate::resources::teams::member::Member;
use crate::resources::teams::members;
use crate::resources::teams::task::Task;
use crate::resources::teams::tasks;
use crate::resources::teams::testing::{
    add_agent, add_scrum_master, events, message, published, take, task, team,
};
use crate::resources::testing::Fixture;

/// A team with ann, who has a task, and sam, its Scrum Master.
struct World {
    fixture: Fixture,
    team: Id<Team>,
    ann: Id<Member>,
    sam: Id<Member>,
    task: Task,
}

impl World {
    fn new(max_attempts: u32) -> Self {
        let fixture = Fixture::new();
        let crew = team(&fixture, "crew", None);
        let [ann, sam] =
            [add_agent(&fixture, crew, "ann"), add_scrum_master(&fixture, crew, "sam")];
        let of_ann = task(&fixture, crew, json!({"title": "x", "assigneeAgentId": ann}));
        let world = World { fixture, team: crew, ann, sam, task: of_ann };
        world.set_max(max_attempts);
        world
    }

    fn set_max(&self, max_attempts: u32) {
        let body = Fixture::input(json!({"maxAttempts": max_attempts})).unwrap();
        self.fixture.write(members::update, (self.team, self.ann), body).unwrap();
    }

    fn take(&self) -> Vec<Wake> {
        take(&self.fixture, self.team, self.ann)
    }

    /// Runs the jobs that are due, as the runner would.
    fn run_jobs(&self) {
        let run = |tx: &mut Tx| {
            let (mut jobs, now) = (tx.all::<Job>(ListSource::TABLE, &())?, tx.now());
            jobs.retain(|job| job.kind == FAIL.kind && job.due_at <= now);
            for job in &jobs {
                tx.remove(job)?;
                if let Prepared::RetryAt(at) = (FAIL.prepare)(tx, job)? {
                    tx.insert(&Job { due_at: at, ..job.clone() })?;
                }
            }
            Ok(())
        };
        self.fixture.store.write_blocking(self.fixture.org, run).unwrap();
    }

    /// Lets a wake of one attempt fail.
    fn fail(&self) {
        assert_eq!(self.take().len(), 1);
        self.fixture.pass_secs(60);
        self.run_jobs();
    }

    fn failed(&self) -> Vec<FailedWakeInfo> {
        let own = self.fixture.read(list, (self.team, self.ann), ()).unwrap().items;
        let ids = |rows: &[FailedWakeInfo]| rows.iter().map(|row| row.wake.id).collect::<Vec<_>>();
        let all = self.fixture.read(list_all, (), ()).unwrap().items;
        assert_eq!(ids(&all), ids(&own).into_iter().rev().collect::<Vec<_>>());
        own
    }

    fn retry(&self, body: serde_json::Value) -> (usize, usize) {
        let body = Fixture::input(body).unwrap();
        let retried = self.fixture.write(retry, (self.team, self.ann), body).unwrap();
        (retried.retried, retried.left)
    }

    fn wakes_of_sam(&self) -> Vec<(WakeReason, Option<Id<Member>>)> {
        let wakes = take(&self.fixture, self.team, self.sam);
        wakes.into_iter().map(|wake| (wake.reason, wake.failed_agent)).collect()
    }
}

#[test]
fn a_wake_comes_back_after_growing_pauses_and_fails_after_ten_times() {
    let world = World::new(10);
    let mut waited = Vec::new();
    let mut secs = 0;
    while world.failed().is_empty() {
        let readiness = world
            .fixture
            .read(look, (world.team, world.ann), Fixture::input(json!({})).unwrap())
            .unwrap();
        let taken = world.take();
        assert_eq!(readiness.ready, !taken.is_empty());
        if let [wake] = taken.as_slice() {
            assert_eq!(wake.attempts as usize, waited.len() + 1);
            waited.push(secs);
            secs = 0;
        }
        let now = world.fixture.store.clock().now();
        let again = world
            .fixture
            .read(look, (world.team, world.ann), Fixture::input(json!({})).unwrap())
            .unwrap();
        let at = again.again_at.expect("it comes back");
        world.fixture.pass_secs(at.secs() - now.secs());
        secs += at.secs() - now.secs();
        world.run_jobs();
    }
    // From one time to the next, as the reference says: a minute of lease, and the pause.
    let minutes = [0, 1, 1, 1, 2, 5, 11, 21, 61, 121].map(|minutes| minutes * 60);
    assert_eq!(waited, minutes);
    assert_eq!(secs, 60, "it fails when its last lease ends");
    assert_eq!(world.take().len(), 0);
    world.fixture.pass_secs(24 * 3600);
    assert_eq!(world.take().len(), 0);
    world.fixture.assert_sound();
}

#[test]
fn people_and_the_scrum_master_hear_of_it_once_and_each_wake_can_be_handed_out_again() {
    let world = World::new(1);
    world.fail();
    let [failed] = world.failed().try_into().unwrap();
    assert_eq!((failed.agent_id, failed.agent_name.as_str()), (world.ann, "ann"));
    assert_eq!((failed.wake.reason, failed.wake.attempts), (WakeReason::TaskAssigned, 1));
    assert_eq!(failed.failed_at, world.fixture.store.clock().now());
    message(&world.fixture, world.team, json!({"body": "x", "toAgentId": world.ann}));
    world.fail();
    assert_eq!(world.failed().len(), 2);
    let told = published(&world.fixture);
    assert_eq!(told.iter().filter(|event| **event == EventType::TeamRunFailed).count(), 1);
    let event =
        events(&world.fixture).into_iter().find(|e| e.event_type == EventType::TeamRunFailed);
    let payload = event.unwrap().payload.0;
    assert_eq!(payload["wakeId"], json!(failed.wake.id));
    assert_eq!(payload["error"], "it was handed out 1 times, and never acknowledged");
    assert_eq!(world.wakes_of_sam(), [(WakeReason::WakeFailed, Some(world.ann))]);

    assert_eq!(world.retry(json!({"wakeIds": [failed.wake.id, Id::<Wake>::NIL]})), (1, 1));
    let [again] = world.take().try_into().unwrap();
    assert_eq!((again.id, again.attempts), (failed.wake.id, 1));
    assert_eq!(world.retry(json!({})), (1, 0));
    assert_eq!(world.retry(json!({})), (0, 0));
    world.fixture.assert_sound();
}

#[test]
fn a_late_acknowledgement_takes_a_failed_wake_and_a_reason_that_is_gone_drops_it() {
    let world = World::new(1);
    world.fail();
    let [failed] = world.failed().try_into().unwrap();
    let body = Fixture::input(json!({"wakeIds": [failed.wake.id]})).unwrap();
    world.fixture.write(ack, (world.team, world.ann), body).unwrap();
    assert_eq!(world.failed().len(), 0);

    let note = json!({"body": "x", "toAgentId": world.ann, "taskId": world.task.id});
    message(&world.fixture, world.team, note);
    let other =
        task(&world.fixture, world.team, json!({"title": "y", "assigneeAgentId": world.ann}));
    assert_eq!(world.take().len(), 2);
    world.fixture.pass_secs(60);
    world.run_jobs();
    assert_eq!(world.failed().len(), 2);
    let body = Fixture::input(json!({"status": "done"})).unwrap();
    world.fixture.write(tasks::update, (world.team, other.id), body).unwrap();
    // It is not shown from then on, and is gone after the sweep.
    let shown = world.fixture.read(list_all, (), ()).unwrap().items;
    assert_eq!(shown.len(), 1);
    let sweep = |tx: &mut Tx| drop_without_reason(tx, &RetentionSettings::default());
    world.fixture.store.write_blocking(world.fixture.org, sweep).unwrap();
    assert_eq!(world.failed().len(), 1);
    world.fixture.assert_sound();
}

#[test]
fn a_later_cause_wakes_the_agent_anew_and_does_not_fail_unseen() {
    let world = World::new(1);
    let [first] = world.take().try_into().unwrap();
    world.fixture.pass_secs(30);
    // The same reason and task while the wake is out: they join, and are handed out once more.
    let body =
        |agent: Option<Id<Member>>| Fixture::input(json!({"assigneeAgentId": agent})).unwrap();
    for agent in [None, Some(world.ann)] {
        world.fixture.write(tasks::update, (world.team, world.task.id), body(agent)).unwrap();
    }
    world.fixture.pass_secs(30);
    let [joined] = world.take().try_into().unwrap();
    assert_ne!(joined.id, first.id);
    world.run_jobs();
    assert_eq!(world.failed().len(), 0, "its last lease has not ended");
    world.fixture.pass_secs(60);
    world.run_jobs();
    assert_eq!(world.failed().len(), 1);
    for agent in [None, Some(world.ann)] {
        world.fixture.write(tasks::update, (world.team, world.task.id), body(agent)).unwrap();
    }
    assert_eq!(world.take().len(), 1);
    assert_eq!(world.failed().len(), 1);
    world.fixture.assert_sound();
}

#[test]
fn an_agent_that_asks_before_the_job_is_not_handed_it_once_more_and_a_lower_limit_counts_at_once() {
    let world = World::new(5);
    for _ in 0..2 {
        assert_eq!(world.take().len(), 1);
        world.fixture.pass_secs(60);
    }
    world.set_max(2);
    assert_eq!(world.take().len(), 0);
    assert_eq!(world.failed().len(), 1);
    world.set_max(3);
    assert_eq!(world.retry(json!({})), (1, 0));
    for attempts in 1..=3 {
        world.fixture.pass_secs(3600);
        assert_eq!(world.take()[0].attempts, attempts);
    }
    world.fixture.pass_secs(3600);
    assert_eq!(world.take().len(), 0);
    assert_eq!(world.failed().len(), 1);
    world.fixture.assert_sound();
}

#[test]
fn the_scrum_masters_own_failures_wake_nobody() {
    let world = World::new(1);
    let body = Fixture::input(json!({"maxAttempts": 1})).unwrap();
    world.fixture.write(members::update, (world.team, world.sam), body).unwrap();
    world.fail();
    // It does not acknowledge that either.
    assert_eq!(world.wakes_of_sam().len(), 1);
    world.fixture.pass_secs(60);
    world.run_jobs();
    assert_eq!(world.wakes_of_sam(), []);
    assert_eq!(world.fixture.read(list_all, (), ()).unwrap().items.len(), 2);
    world.fixture.assert_sound();
}

#[test]
fn a_wake_that_is_put_off_is_shown_and_goes_along_with_one_that_is_handed_out_again() {
    let world = World::new(5);
    let assign = || {
        for agent in [None, Some(world.ann)] {
            let body = Fixture::input(json!({"assigneeAgentId": agent})).unwrap();
            world.fixture.write(tasks::update, (world.team, world.task.id), body).unwrap();
        }
    };
    world.set_max(1);
    world.fail();
    world.set_max(10);
    assign();
    for _ in 0..4 {
        assert_eq!(world.take().len(), 1);
        world.fixture.pass_secs(60);
    }
    assert_eq!(world.take().len(), 0, "it is put off");
    let at = (world.team, world.ann);
    let peek = || Fixture::input(json!({"peek": true})).unwrap();
    assert!(world.fixture.read(look, at, peek()).unwrap().ready);
    let shown = world.fixture.write(super::super::take, at, peek()).unwrap().items;
    assert!(shown[0].again_at.is_some());
    assert_eq!(world.retry(json!({})), (1, 0));
    assert_eq!(world.take().len(), 1, "both are handed out as one");
    assert_eq!(world.take().len(), 0);
    world.fixture.assert_sound();
}

#[test]
fn a_wake_whose_last_lease_ended_joins_a_later_cause_and_does_not_fail() {
    let world = World::new(1);
    assert_eq!(world.take().len(), 1);
    for agent in [None, Some(world.ann)] {
        let body = Fixture::input(json!({"assigneeAgentId": agent})).unwrap();
        world.fixture.write(tasks::update, (world.team, world.task.id), body).unwrap();
    }
    world.fixture.pass_secs(60);
    world.run_jobs();
    assert_eq!(world.failed().len(), 0);
    let [joined] = world.take().try_into().unwrap();
    let body = Fixture::input(json!({"wakeIds": [joined.id]})).unwrap();
    world.fixture.write(ack, (world.team, world.ann), body).unwrap();
    world.fixture.pass_secs(120);
    world.run_jobs();
    assert_eq!((world.failed().len(), world.take().len()), (0, 0));
    world.fixture.assert_sound();
}

#[test]
fn no_wake_fails_while_its_agent_is_paused_and_it_is_handed_out_once_more() {
    use crate::resources::teams::pausing::{pause_member, resume_member};
    let world = World::new(1);
    assert_eq!(world.take().len(), 1);
    let at = (world.team, world.ann);
    world.fixture.write(pause_member, at, Fixture::input(json!({})).unwrap()).unwrap();
    world.fixture.pass_secs(60);
    world.run_jobs();
    assert_eq!(world.failed().len(), 0);
    world.fixture.write(resume_member, at, Fixture::input(json!({})).unwrap()).unwrap();
    assert_eq!(world.take().len(), 1);
    world.fixture.assert_sound();
}
