//! Claims of workers, and what begins, renews and ends their leases.

use serde_json::{Value, json};

mod gaps;

use super::*;
use crate::outbox::{EventType, RetentionSettings, SweepProgress};
use crate::resources::pauses::NewPause;
use crate::resources::teams::lease::insert_moved;
use crate::resources::teams::leases::{self, LeaseWatch, heartbeat};
use crate::resources::teams::testing::{
    add_agent, add_scrum_master, code, events, message, published, repeat, take, task, team,
};
use crate::resources::teams::wakes::{self, WakeReason};
use crate::resources::teams::{manage, members, messages, pausing, runs, tasks};
use crate::resources::testing::{Fixture, NOON, args};
use crate::store::ListSource;

/// A team with ann and a free task.
struct World {
    fixture: Fixture,
    team: Id<Team>,
    ann: Id<Member>,
    task: Task,
}

impl World {
    fn new() -> Self {
        let fixture = Fixture::new();
        let team = team(&fixture, "crew", None);
        let ann = add_agent(&fixture, team, "ann");
        let task = task(&fixture, team, json!({"title": "Count"}));
        World { fixture, team, ann, task }
    }

    fn claim(&self, body: Value) -> Result<Task> {
        self.claim_other(&self.task, body)
    }

    fn claim_other(&self, task: &Task, mut body: Value) -> Result<Task> {
        if body["agentId"].is_null() {
            body["agentId"] = json!(self.ann);
        }
        let claimed = self.fixture.write(claim, (self.team, task.id), Fixture::input(body)?)?;
        let end = self.lease_of(task).map(|lease| lease.ends_at);
        assert_eq!(claimed.lease_ends_at, end, "what is said is what is stored");
        Ok(claimed.task.task)
    }

    /// Has workers of ann claim so many further tasks with a lease of a minute, in one transaction:
    /// the store of tests copies all it has at each commit.
    fn lease_many(&self, body: Value, count: usize) {
        repeat(&self.fixture, tasks::create, self.team, body, count);
        let (team, ann, who) = (self.team, self.ann, self.fixture.member.clone());
        let claimed = self.fixture.store.write_blocking(self.fixture.org, move |tx| {
            let free = |task: &Task| task.assignee_agent_id.is_none() && task.number > 1;
            let tasks: Vec<Task> = tx.all(ListSource::TABLE, &team)?;
            for (n, task) in tasks.iter().filter(|task| free(task)).enumerate() {
                let worker = format!("many-{}", n / MAX_LEASES);
                let body = json!({"agentId": ann, "worker": worker, "leaseSecs": 60});
                claim(tx, &Req::new(&args((team, task.id), Fixture::input(body)?), &who))?;
            }
            Ok(())
        });
        claimed.unwrap();
    }

    /// Has a worker of ann claim the task with a lease of a minute.
    fn lease(&self) -> Task {
        self.claim(json!({"worker": "one", "leaseSecs": 60})).unwrap()
    }

    fn patch(&self, body: Value) -> Result<Task> {
        let at = (self.team, self.task.id);
        Ok(self.fixture.write(tasks::update, at, Fixture::input(body)?)?.task)
    }

    fn beat(&self, worker: &str) -> Vec<Id<Task>> {
        let body = Fixture::input(json!({"worker": worker})).unwrap();
        let leases = self.fixture.write(heartbeat, (self.team, self.ann), body).unwrap().leases;
        leases.into_iter().map(|lease| lease.task_id).collect()
    }

    fn now(&self) -> Task {
        let (team, id) = (self.team, self.task.id);
        self.fixture.store.read_now(self.fixture.org, |view| view.fetch(&(team, id))).unwrap()
    }

    fn lease_of(&self, task: &Task) -> Option<Lease> {
        let key = (task.team_id, task.id);
        self.fixture.store.read_now(self.fixture.org, |view| view.get(&key)).unwrap()
    }

    /// Has the worker claim its task with a lease, and returns that.
    fn lease_of_claim(&self) -> Lease {
        self.lease();
        self.lease_of(&self.task).unwrap()
    }

    fn leases(&self) -> Vec<Lease> {
        let all = |view: &View| view.all(ListSource::TABLE, &());
        self.fixture.store.read_now(self.fixture.org, all).unwrap()
    }

    fn secs_left(&self) -> Option<i64> {
        let end = self.lease_of(&self.task)?.ends_at;
        Some(end.secs() - self.clock().secs())
    }

    fn clock(&self) -> Time {
        self.fixture.store.clock().now()
    }

    /// Lets time pass on a server whose sweep runs every few seconds; returns the steps of its last run.
    fn pass(&self, secs: i64) -> usize {
        self.fixture.pass_secs(secs);
        let now = self.clock();
        let watched = move |tx: &mut Tx| {
            let since = tx.get::<LeaseWatch>(&())?.map_or(NOON, |watch| watch.since);
            tx.put(&LeaseWatch { since, last: now })
        };
        self.fixture.store.write_blocking(self.fixture.org, watched).unwrap();
        self.sweep()
    }

    /// Runs the sweep to its end; returns its steps.
    fn sweep(&self) -> usize {
        let run = leases::RESOURCE.sweeps[0].run;
        let step = || {
            let (store, org) = (&self.fixture.store, self.fixture.org);
            let settings = RetentionSettings::default();
            store.write_blocking(org, move |tx| run(tx, &settings)).unwrap()
        };
        1 + (0..1000).take_while(|_| step() == SweepProgress::More).count()
    }

    fn wakes(&self, agent: Id<Member>) -> Vec<(WakeReason, Option<Id<Task>>)> {
        let wakes = take(&self.fixture, self.team, agent);
        wakes.into_iter().map(|wake| (wake.reason, wake.task_id)).collect()
    }
}

#[test]
fn of_two_processes_of_an_agent_one_gets_the_task_and_may_say_so_again() {
    let world = World::new();
    let won = world.claim(json!({"worker": "one"})).unwrap();
    assert_eq!((won.status, won.assignee_agent_id), (TaskStatus::InProgress, Some(world.ann)));
    let claim = json!({"worker": "one", "since": NOON, "leaseSecs": null});
    assert_eq!(json!(won)["claim"], claim);
    world.fixture.pass_secs(5);
    assert_eq!(world.claim(json!({"worker": "one"})).unwrap(), won);
    let bob = add_agent(&world.fixture, world.team, "bob");
    for other in [
        json!({"worker": "two"}),
        json!({"worker": "two", "leaseSecs": 60}),
        json!({}),
        json!({"agentId": bob}),
        json!({"agentId": bob, "worker": "one"}),
    ] {
        let refused = world.claim(other).unwrap_err();
        assert_eq!(refused.code(), "task_claimed");
        let said = "the worker one of ann has the task since 2026-01-15T12:00:00.000Z";
        assert_eq!(refused.message(), said);
    }
    // It never ends by itself.
    world.pass(1_000_000);
    assert_eq!(world.now(), won);
    world.fixture.assert_sound();
}

#[test]
fn what_an_agent_claimed_without_a_worker_its_workers_may_take() {
    let world = World::new();
    let plain = world.claim(json!({})).unwrap();
    assert_eq!(plain.claim, None);
    assert_eq!(world.claim(json!({})).unwrap(), plain);
    let taken = world.claim(json!({"worker": "one", "leaseSecs": 60})).unwrap();
    assert_eq!(taken.claim.unwrap().worker.as_str(), "one");
    // It was the agent's already, and stays so.
    world.pass(60);
    assert_eq!(world.now().assignee_agent_id, Some(world.ann));
}

#[test]
fn a_lease_takes_a_worker_and_its_seconds_are_bounded() {
    let world = World::new();
    for wrong in [
        json!({"leaseSecs": 60}),
        json!({"worker": "one", "leaseSecs": 9}),
        json!({"worker": "one", "leaseSecs": 86_401}),
        json!({"worker": ""}),
        json!({"worker": "x".repeat(129)}),
    ] {
        assert_eq!(code(world.claim(wrong)), "invalid_request");
    }
    assert_eq!(code(world.patch(json!({"worker": "one"}))), "invalid_request");
    assert_eq!(world.now(), world.task);
}

#[test]
fn a_free_task_is_free_again_when_the_lease_ends_and_the_scrum_master_is_woken() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    world.lease();
    world.pass(59);
    assert!(world.now().claim.is_some());
    world.pass(1);
    let open = world.now();
    // Nobody did it.
    let updated_at = NOON.plus_secs(60);
    let expected = Task { updated_at, updated_by: None, ..world.task.clone() };
    assert_eq!(open, expected);
    assert_eq!(world.wakes(sam), [(WakeReason::ClaimExpired, Some(open.id))]);
    assert!(world.wakes(world.ann).is_empty());
    let last = events(&world.fixture).pop().unwrap();
    assert_eq!(last.event_type, EventType::TeamTimelineProgressUpdate);
    let title = "#1 is open again: no sign of life of the worker one for 60 s";
    assert_eq!(last.payload.0["title"], title);
    assert_eq!(last.payload.0["agentId"], json!(world.ann));
    // Once.
    world.pass(3600);
    assert_eq!(world.now(), open);
    assert_eq!(world.claim(json!({"worker": "two"})).unwrap().status, TaskStatus::InProgress);
    world.fixture.assert_sound();
}

#[test]
fn an_assigned_task_stays_with_its_agent_when_the_lease_ends_and_it_is_woken() {
    let world = World::new();
    add_scrum_master(&world.fixture, world.team, "sam");
    world.patch(json!({"assigneeAgentId": world.ann, "fromAgentId": world.ann})).unwrap();
    world.lease();
    world.pass(60);
    let open = world.now();
    assert_eq!((open.status, open.assignee_agent_id), (TaskStatus::Open, Some(world.ann)));
    assert_eq!(open.claim, None);
    assert_eq!(world.wakes(world.ann), [(WakeReason::ClaimExpired, Some(open.id))]);
    // Another process has taken it meanwhile: there is nothing to wake for.
    world.claim(json!({"worker": "two"})).unwrap();
    world.fixture.pass_secs(60);
    assert!(world.wakes(world.ann).is_empty());
}

#[test]
fn without_a_scrum_master_the_agent_that_had_a_free_task_is_woken() {
    let world = World::new();
    world.lease();
    world.pass(60);
    assert_eq!(world.now().assignee_agent_id, None);
    assert_eq!(world.wakes(world.ann), [(WakeReason::ClaimExpired, Some(world.task.id))]);
    world.fixture.assert_sound();
}

#[test]
fn every_sign_of_life_of_the_worker_renews_its_leases() {
    let world = World::new();
    let before = world.lease();
    let (ann, team) = (world.ann, world.team);
    let says = |body: Value| {
        message(&world.fixture, team, body);
    };
    let sends = |body: Value| {
        let body = Fixture::input(body).unwrap();
        world.fixture.write(messages::send_to_humans, team, body).unwrap();
    };
    let ran = |body: Value| {
        world.fixture.write(runs::create, (team, ann), Fixture::input(body).unwrap()).unwrap();
    };
    let from = |worker: &str| json!({"body": "b", "fromAgentId": ann, "worker": worker});
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let makes = |body: Value| drop(task(&world.fixture, team, body));
    let acknowledges = |body: Value| {
        let body = Fixture::input(body).unwrap();
        world.fixture.write(wakes::acknowledge, (team, ann), body).unwrap();
    };
    let signs: [&dyn Fn(&str); 8] = [
        &|worker| makes(json!({"title": "t", "fromAgentId": ann, "worker": worker})),
        &|worker| acknowledges(json!({"wakeIds": [], "worker": worker})),
        &|worker| drop(world.claim(json!({"worker": worker}))),
        &|worker| drop(world.patch(json!({"fromAgentId": ann, "worker": worker}))),
        &|worker| drop(world.beat(worker)),
        &|worker| says(with(from(worker), "taskId", json!(world.task.id))),
        &|worker| sends(from(worker)),
        &|worker| ran(json!({"status": "succeeded", "worker": worker})),
    ];
    for sign in signs {
        world.pass(30);
        sign("two");
        assert_eq!(world.secs_left(), Some(30), "of another worker");
        sign("one");
        assert_eq!(world.secs_left(), Some(60));
    }
    assert_eq!(world.now(), before, "signs of life leave the task as it is");
    // Without a worker, and by its people, nothing is renewed.
    world.pass(30);
    world.patch(json!({"title": "New", "fromAgentId": ann})).unwrap();
    assert_eq!(world.secs_left(), Some(30));
    // Another length counts from now on.
    world.claim(json!({"worker": "one", "leaseSecs": 600})).unwrap();
    assert_eq!(world.secs_left(), Some(600));
    world.claim(json!({"worker": "one"})).unwrap();
    assert_eq!(world.secs_left(), Some(600));
    world.fixture.assert_sound();
}

#[test]
fn a_heartbeat_says_what_the_worker_still_has() {
    let world = World::new();
    let other = task(&world.fixture, world.team, json!({"title": "Another"}));
    world.lease();
    world.claim_other(&other, json!({"worker": "one", "leaseSecs": 600})).unwrap();
    let mut both = world.beat("one");
    both.sort();
    assert_eq!(both, [world.task.id, other.id]);
    assert!(world.beat("two").is_empty());
    world.pass(60);
    assert_eq!(world.beat("one"), [other.id]);
}

#[test]
fn a_worker_that_has_lost_its_task_is_refused() {
    let world = World::new();
    let as_one = |body: Value| {
        let mut body = body;
        body["fromAgentId"] = json!(world.ann);
        body["worker"] = json!("one");
        world.patch(body)
    };
    assert_eq!(code(as_one(json!({"status": "done"}))), "claim_ended");
    world.lease();
    world.pass(60);
    assert_eq!(code(as_one(json!({"status": "done"}))), "claim_ended");
    world.claim(json!({"worker": "two"})).unwrap();
    let refused = as_one(json!({"status": "done"})).unwrap_err();
    assert_eq!(refused.code(), "task_claimed");
    assert!(refused.message().starts_with("the worker two of ann has the task since"));
    assert_eq!(world.now().status, TaskStatus::InProgress);
}

#[test]
fn a_claim_ends_with_the_work_and_when_the_task_is_released_or_given_away() {
    let world = World::new();
    let bob = add_agent(&world.fixture, world.team, "bob");
    let one = json!({"fromAgentId": world.ann, "worker": "one"});
    let mut released = one.clone();
    released["status"] = json!("open");
    let mut done = one.clone();
    done["status"] = json!("done");
    for (change, is_ended) in [
        (json!({"status": "in_progress"}), false),
        (json!({"status": "blocked", "title": "Wait"}), false),
        (json!({"assigneeAgentId": world.ann}), false),
        (released, true),
        (json!({"assigneeAgentId": null}), true),
        (json!({"assigneeAgentId": bob}), true),
        (json!({"status": "cancelled"}), true),
        (done, true),
    ] {
        world.patch(json!({"status": "open", "assigneeAgentId": null})).unwrap();
        world.lease();
        let changed = world.patch(change.clone()).unwrap();
        assert_eq!(changed.claim.is_none(), is_ended, "{change}");
    }
    // What has ended does not end again.
    let (done, before) = (world.now(), published(&world.fixture).len());
    world.pass(3600);
    assert_eq!(world.now(), done);
    assert_eq!(published(&world.fixture).len(), before);
    world.fixture.assert_sound();
}

#[test]
fn the_claims_of_an_agent_that_leaves_end_and_those_of_a_deleted_team() {
    let world = World::new();
    world.lease();
    world.fixture.write(members::delete, (world.team, world.ann), ()).unwrap();
    world.fixture.complete_removals();
    let left = world.now();
    assert_eq!((left.assignee_agent_id, left.claim), (None, None));

    let bob = add_agent(&world.fixture, world.team, "bob");
    world.claim(json!({"agentId": bob, "worker": "b", "leaseSecs": 60})).unwrap();
    world.fixture.write_as(&world.fixture.owner, manage::delete, world.team, ()).unwrap();
    let before = published(&world.fixture).len();
    world.pass(60);
    world.fixture.complete_removals();
    world.pass(60);
    assert_eq!(published(&world.fixture).len(), before);
    world.fixture.assert_sound();
}

#[test]
fn an_agent_that_leaves_is_not_woken_for_what_it_had() {
    let world = World::new();
    world.lease();
    world.fixture.write(members::delete, (world.team, world.ann), ()).unwrap();
    world.pass(60);
    let left = world.now();
    assert_eq!((left.assignee_agent_id, left.claim), (None, None));
    world.fixture.complete_removals();
    world.fixture.assert_sound();
}

#[test]
fn an_assigned_task_that_is_blocked_wakes_its_agent_when_it_is_unblocked() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    world.patch(json!({"assigneeAgentId": world.ann, "fromAgentId": world.ann})).unwrap();
    world.lease();
    world.patch(json!({"status": "blocked"})).unwrap();
    world.pass(60);
    let now = world.now();
    assert_eq!((now.status, now.claim), (TaskStatus::Blocked, None));
    let title = "#1 has no worker: no sign of life of the worker one for 60 s";
    assert_eq!(events(&world.fixture).pop().unwrap().payload.0["title"], title);
    assert!(world.wakes(world.ann).is_empty() && world.wakes(sam).is_empty());
    world.patch(json!({"status": "open"})).unwrap();
    assert_eq!(world.wakes(world.ann), [(WakeReason::TaskUnblocked, Some(now.id))]);
}

#[test]
fn a_free_task_that_is_blocked_when_the_lease_ends_wakes_the_scrum_master() {
    for is_opened in [false, true] {
        let world = World::new();
        let sam = add_scrum_master(&world.fixture, world.team, "sam");
        world.lease();
        world.patch(json!({"status": "blocked"})).unwrap();
        world.pass(60);
        let now = world.now();
        assert_eq!((now.status, now.assignee_agent_id), (TaskStatus::Blocked, None));
        if is_opened {
            world.patch(json!({"status": "open"})).unwrap();
        }
        assert_eq!(world.wakes(sam), [(WakeReason::ClaimExpired, Some(now.id))]);
        assert!(world.wakes(world.ann).is_empty());
        world.fixture.assert_sound();
    }
}

#[test]
fn a_paused_agent_keeps_its_lease_by_heartbeats_alone_and_is_woken_when_it_is_resumed() {
    let world = World::new();
    world.patch(json!({"assigneeAgentId": world.ann, "fromAgentId": world.ann})).unwrap();
    world.lease();
    let at = (world.team, world.ann);
    let pause: NewPause = Fixture::input(json!({})).unwrap();
    world.fixture.write(pausing::pause_member, at, pause).unwrap();
    assert_eq!(code(world.claim(json!({"worker": "one"}))), "agent_paused");
    world.pass(50);
    assert_eq!(world.beat("one").len(), 1);
    world.pass(50);
    assert!(world.now().claim.is_some());
    world.pass(10);
    assert_eq!(world.now().status, TaskStatus::Open);
    assert!(world.wakes(world.ann).is_empty());
    let resume = Fixture::input(json!({})).unwrap();
    world.fixture.write(pausing::resume_member, at, resume).unwrap();
    assert_eq!(world.wakes(world.ann), [(WakeReason::ClaimExpired, Some(world.task.id))]);
}

#[test]
fn leases_of_large_tasks_are_renewed_and_ended() {
    let world = World::new();
    let text = "\u{1f600}".repeat(100_000); // 400 KB
    for _ in 0..5 {
        world.lease_many(json!({"title": "Long", "description": text}), 10);
    }
    let renewed = || -> usize { (0..2).map(|_| world.beat("many-0").len()).sum() };
    world.fixture.pass_secs(30);
    assert_eq!(renewed(), 100, "20 MB of tasks");
    assert_eq!(world.pass(60), 9, "6 in a step");
    assert!(world.leases().is_empty());
    world.fixture.assert_sound();
}

#[test]
fn a_worker_has_at_most_a_hundred_leases() {
    let world = World::new();
    for _ in 0..MAX_LEASES {
        let more = task(&world.fixture, world.team, json!({"title": "More"}));
        world.claim_other(&more, json!({"worker": "one", "leaseSecs": 60})).unwrap();
    }
    let lease = |worker: &str| world.claim(json!({"worker": worker, "leaseSecs": 60}));
    assert_eq!(code(lease("one")), "too_many_leases");
    assert_eq!(world.now(), world.task);
    assert_eq!(world.beat("one").len(), MAX_LEASES);
    lease("two").unwrap();
    world.patch(json!({"status": "open", "assigneeAgentId": null})).unwrap();
    world.claim(json!({"worker": "one"})).unwrap();
    let kept =
        world.fixture.store.read_now(world.fixture.org, |view| view.all(ListSource::TABLE, &()));
    let kept: Vec<Task> = kept.unwrap();
    assert_eq!(kept.iter().filter(|task| task.claim.is_some()).count(), MAX_LEASES + 1);
    world.fixture.assert_sound();
}
