//! Tasks that wait for others, are parts of others, or are due.

use serde_json::{Value, json};

mod overdue;
mod parts_of_tasks;

use super::*;
use crate::outbox::{RetentionSettings, SweepProgress};
use crate::resources::teams::member::Member;
use crate::resources::teams::parts::{self, TaskChildren};
use crate::resources::teams::testing::{
    add_agent, add_scrum_master, code, repeat, take, task, team,
};
use crate::resources::teams::wakes::WakeReason;
use crate::resources::teams::{claims, due, leases, manage, tasks};
use crate::resources::testing::{Fixture, NOON};

/// A team with ann in it.
struct World {
    fixture: Fixture,
    team: Id<Team>,
    ann: Id<Member>,
}

impl World {
    fn new() -> Self {
        let fixture = Fixture::new();
        let team = team(&fixture, "crew", None);
        let ann = add_agent(&fixture, team, "ann");
        World { fixture, team, ann }
    }

    /// A task of ann that depends on these.
    fn after(&self, on: &[&Task]) -> Task {
        let ids: Vec<_> = on.iter().map(|task| task.id).collect();
        self.task(json!({"title": "after", "assigneeAgentId": self.ann, "dependsOn": ids}))
    }

    fn task(&self, body: Value) -> Task {
        task(&self.fixture, self.team, body)
    }

    fn free(&self) -> Task {
        self.task(json!({"title": "free"}))
    }

    fn try_patch(&self, task: &Task, body: Value) -> Result<Task> {
        let at = (self.team, task.id);
        Ok(self.fixture.write(tasks::update, at, Fixture::input(body)?)?.task)
    }

    fn patch(&self, task: &Task, body: Value) -> Task {
        self.try_patch(task, body).unwrap()
    }

    fn to(&self, task: &Task, status: &str) {
        self.patch(task, json!({"status": status}));
    }

    fn now(&self, task: &Task) -> Task {
        let key = (self.team, task.id);
        self.fixture.store.read_now(self.fixture.org, |view| view.fetch(&key)).unwrap()
    }

    fn status(&self, task: &Task) -> TaskStatus {
        self.now(task).status
    }

    fn wakes(&self, agent: Id<Member>) -> Vec<(WakeReason, Option<Id<Task>>)> {
        let wakes = take(&self.fixture, self.team, agent);
        wakes.into_iter().map(|wake| (wake.reason, wake.task_id)).collect()
    }

    /// Runs the jobs of releasing to their end; returns the number of steps.
    fn run_jobs(&self) -> usize {
        let jobs = || -> Vec<Job> {
            let all = |view: &View| view.all(ListSource::TABLE, &());
            let jobs: Vec<Job> = self.fixture.store.read_now(Id::NIL, all).unwrap();
            jobs.into_iter().filter(|job| job.kind == RELEASE.kind).collect()
        };
        let mut steps = 0;
        while let Some(job) = jobs().pop() {
            steps += 1;
            let step = move |tx: &mut Tx| {
                let prepared = release_more(tx, &job)?;
                Ok((matches!(prepared, Prepared::Done), job.id))
            };
            let (is_done, id) = self.fixture.store.write_blocking(self.fixture.org, step).unwrap();
            if is_done {
                let end = move |tx: &mut Tx| crate::outbox::cancel(tx, id);
                self.fixture.store.write_blocking(Id::NIL, end).unwrap();
            }
        }
        steps
    }

    fn pass(&self, secs: i64) {
        self.fixture.pass_secs(secs);
        let run = due::RESOURCE.sweeps[0].run;
        let settings = RetentionSettings::default();
        let step = || {
            let settings = settings.clone();
            let (store, org) = (&self.fixture.store, self.fixture.org);
            store.write_blocking(org, move |tx| run(tx, &settings)).unwrap()
        };
        while step() != SweepProgress::Clean {}
    }

    fn create(&self, body: Value) -> Result<Task> {
        Ok(self.fixture.write(tasks::create, self.team, Fixture::input(body)?)?.task)
    }

    fn children(&self, task: &Task) -> TaskChildren {
        let task = self.now(task);
        let counted = |view: &View| parts::children(view, &task);
        self.fixture.store.read_now(self.fixture.org, counted).unwrap()
    }
}

#[test]
fn a_task_is_blocked_until_the_last_it_depends_on_is_done_and_wakes_then() {
    let world = World::new();
    let (one, two) = (world.free(), world.free());
    let after = world.after(&[&one, &two]);
    assert_eq!((after.status, &after.depends_on[..]), (TaskStatus::Blocked, &[one.id, two.id][..]));
    assert!(world.wakes(world.ann).is_empty(), "there is nothing to do yet");
    world.to(&one, "in_progress");
    world.to(&one, "done");
    assert_eq!(world.status(&after), TaskStatus::Blocked);
    world.to(&two, "done");
    assert_eq!(world.status(&after), TaskStatus::Open);
    assert_eq!(world.wakes(world.ann), [(WakeReason::DependencyDone, Some(after.id))]);
    // What is done once counts; what depends on it only from now on does not wait.
    world.to(&one, "open");
    assert_eq!(world.status(&after), TaskStatus::Open);
    world.to(&two, "done");
    assert_eq!(world.after(&[&two]).status, TaskStatus::Open);
    assert_eq!(world.after(&[&one]).status, TaskStatus::Blocked);
    world.fixture.assert_sound();
}

#[test]
fn a_free_task_that_opens_wakes_the_scrum_master_and_who_did_the_last_is_woken_for_its_own() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    let one = world.task(json!({"title": "one", "assigneeAgentId": world.ann}));
    world.wakes(world.ann);
    let free = world.task(json!({"title": "free", "dependsOn": [one.id]}));
    let anns = world.after(&[&one]);
    world.patch(&one, json!({"status": "done", "fromAgentId": world.ann}));
    assert_eq!(world.wakes(sam), [(WakeReason::DependencyDone, Some(free.id))]);
    assert_eq!(world.wakes(world.ann), [(WakeReason::DependencyDone, Some(anns.id))]);
}

#[test]
fn what_waits_is_not_worked_on_but_may_be_claimed_and_closed() {
    let world = World::new();
    let one = world.free();
    let after = world.after(&[&one]);
    let refused = world.try_patch(&after, json!({"status": "in_progress"})).unwrap_err();
    assert_eq!(refused.code(), "dependency_open");
    assert!(refused.message().contains("#1"), "{}", refused.message());
    let claim = json!({"agentId": world.ann, "worker": "one", "leaseSecs": 60});
    let input = Fixture::input(claim).unwrap();
    let claimed = world.fixture.write(claims::claim, (world.team, after.id), input).unwrap();
    assert_eq!(claimed.task.task.status, TaskStatus::Blocked);
    // It is released as any other.
    let released = world.patch(&after, json!({"status": "open"}));
    assert_eq!((released.status, released.is_waiting), (TaskStatus::Blocked, true));
    assert_eq!((released.claim, released.assignee_agent_id), (None, Some(world.ann)));
    let claim = json!({"agentId": world.ann, "worker": "two", "leaseSecs": 60});
    let input = Fixture::input(claim).unwrap();
    world.fixture.write(claims::claim, (world.team, after.id), input).unwrap();
    world.to(&one, "done");
    // Who has claimed it goes on with it.
    let now = world.now(&after);
    assert_eq!((now.status, now.claim.is_some()), (TaskStatus::InProgress, true));

    let two = world.free();
    let closed = world.after(&[&two]);
    world.to(&closed, "cancelled");
    assert_eq!(code(world.try_patch(&closed, json!({"status": "in_progress"}))), "dependency_open");
    assert_eq!(world.patch(&closed, json!({"status": "open"})).status, TaskStatus::Blocked);
    world.to(&closed, "cancelled");
    world.to(&two, "done");
    assert_eq!(world.status(&closed), TaskStatus::Cancelled);
    world.to(&closed, "in_progress");
    assert_eq!(world.status(&closed), TaskStatus::InProgress);
    world.fixture.assert_sound();
}

#[test]
fn dependencies_that_are_added_block_and_those_taken_out_open() {
    let world = World::new();
    let (one, two) = (world.free(), world.free());
    let task = world.after(&[]);
    world.wakes(world.ann);
    let with = |ids: Value| world.patch(&task, json!({"dependsOn": ids})).status;
    assert_eq!(with(json!([one.id, one.id])), TaskStatus::Blocked);
    assert_eq!(world.now(&task).depends_on, [one.id]);
    assert_eq!(with(json!([two.id])), TaskStatus::Blocked);
    world.to(&one, "done");
    assert_eq!(world.status(&task), TaskStatus::Blocked);
    assert_eq!(with(json!([])), TaskStatus::Open);
    assert_eq!(world.wakes(world.ann), [(WakeReason::DependencyDone, Some(task.id))]);
    assert_eq!(with(json!([one.id])), TaskStatus::Open);
    let both = json!({"dependsOn": [two.id], "status": "in_progress"});
    assert_eq!(code(world.try_patch(&task, both)), "dependency_open");
    assert_eq!(world.now(&task).depends_on, [one.id]);
    // One that somebody blocked stays so.
    world.to(&task, "blocked");
    assert!(!world.patch(&task, json!({"dependsOn": [two.id]})).is_waiting);
    world.to(&two, "done");
    assert_eq!(world.status(&task), TaskStatus::Blocked);
    world.fixture.pass_secs(60);
    let told = (WakeReason::DependencyDone, Some(task.id));
    assert!(!world.wakes(world.ann).contains(&told));
    world.to(&task, "open");
    assert!(world.wakes(world.ann).contains(&(WakeReason::TaskUnblocked, Some(task.id))));
    world.fixture.assert_sound();
}

#[test]
fn a_block_by_hand_ends_while_the_task_waits_and_one_for_what_it_waits_for_ends_by_itself() {
    let world = World::new();
    let one = world.free();
    let by_hand = world.task(json!({"title": "by hand"}));
    world.to(&by_hand, "blocked");
    world.patch(&by_hand, json!({"dependsOn": [one.id]}));
    assert_eq!(
        code(world.try_patch(&by_hand, json!({"status": "in_progress"}))),
        "dependency_open"
    );
    let opened = world.patch(&by_hand, json!({"status": "open"}));
    assert_eq!((opened.status, opened.is_waiting), (TaskStatus::Blocked, true));
    // A model says both.
    let both = world.task(json!({"title": "both"}));
    world.patch(&both, json!({"status": "blocked", "dependsOn": [one.id]}));
    world.to(&one, "done");
    let open = [TaskStatus::Open; 2];
    assert_eq!([world.status(&by_hand), world.status(&both)], open);
}

#[test]
fn what_a_closed_task_depends_on_is_checked_and_one_that_is_cancelled_holds_back_no_reopened_one() {
    let world = World::new();
    let (one, done) = (world.free(), world.free());
    world.to(&done, "done");
    for status in ["done", "cancelled"] {
        let unknown = json!({"dependsOn": [Id::<Task>::NIL], "status": status});
        assert_eq!(code(world.try_patch(&done, unknown)), "not_found");
    }
    let after = world.after(&[&one]);
    world.to(&after, "cancelled");
    world.to(&one, "cancelled");
    assert_eq!(
        code(world.try_patch(&done, json!({"dependsOn": [one.id]}))),
        "dependency_cancelled"
    );
    assert_eq!(code(world.try_patch(&after, json!({"status": "open"}))), "dependency_cancelled");
    world.patch(&after, json!({"status": "open", "dependsOn": []}));
    assert_eq!(world.status(&after), TaskStatus::Open);
    world.fixture.assert_sound();
}

#[test]
fn the_agent_that_had_a_free_task_hears_of_the_end_of_its_lease_though_the_task_waits() {
    let world = World::new();
    let one = world.free();
    let task = world.free();
    let claim = json!({"agentId": world.ann, "worker": "w", "leaseSecs": 60});
    let claim = Fixture::input(claim).unwrap();
    world.fixture.write(claims::claim, (world.team, task.id), claim).unwrap();
    world.patch(&task, json!({"dependsOn": [one.id]}));
    let sweep = || {
        let run = leases::RESOURCE.sweeps[0].run;
        let step = move |tx: &mut Tx| run(tx, &RetentionSettings::default());
        world.fixture.store.write_blocking(world.fixture.org, step).unwrap();
    };
    for secs in [60, 15, 15] {
        world.fixture.pass_secs(secs);
        sweep();
    }
    let now = world.now(&task);
    assert_eq!((now.status, now.assignee_agent_id), (TaskStatus::Blocked, None));
    assert_eq!(world.wakes(world.ann), [(WakeReason::ClaimExpired, Some(task.id))]);
}

#[test]
fn a_status_that_is_sent_back_as_it_was_does_not_block_by_hand() {
    let world = World::new();
    let one = world.free();
    let after = world.after(&[&one]);
    let same = json!({"status": "blocked", "priority": 4, "dependsOn": [one.id]});
    assert!(world.patch(&after, same).is_waiting);
    world.to(&one, "done");
    assert_eq!(world.status(&after), TaskStatus::Open);
}

#[test]
fn a_task_that_is_given_to_another_agent_and_waits_no_longer_is_begun_by_nobody() {
    let world = World::new();
    let bob = add_agent(&world.fixture, world.team, "bob");
    let one = world.free();
    let after = world.after(&[&one]);
    let claim = Fixture::input(json!({"agentId": world.ann, "worker": "w"})).unwrap();
    world.fixture.write(claims::claim, (world.team, after.id), claim).unwrap();
    let given = world.patch(&after, json!({"assigneeAgentId": bob, "dependsOn": []}));
    assert_eq!((given.status, given.claim), (TaskStatus::Open, None));
    assert_eq!(world.wakes(bob), [(WakeReason::TaskAssigned, Some(after.id))]);
    assert!(world.wakes(world.ann).is_empty());
    // One that waits wakes its new agent when it may be begun.
    let two = world.free();
    world.patch(&after, json!({"dependsOn": [two.id]}));
    world.patch(&after, json!({"assigneeAgentId": world.ann}));
    assert!(world.wakes(world.ann).is_empty());
    world.to(&two, "done");
    assert_eq!(world.wakes(world.ann), [(WakeReason::DependencyDone, Some(after.id))]);
}

#[test]
fn an_assignment_is_not_told_while_the_task_waits_and_a_free_one_tells_the_scrum_master() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    let one = world.free();
    let task = world.after(&[]);
    world.patch(&task, json!({"dependsOn": [one.id]}));
    assert!(world.wakes(world.ann).is_empty(), "assigned before it waited");
    let free = world.task(json!({"title": "free", "dependsOn": [one.id]}));
    world.patch(&free, json!({"dependsOn": [], "fromAgentId": world.ann}));
    assert_eq!(world.wakes(sam), [(WakeReason::DependencyDone, Some(free.id))]);
    world.patch(&task, json!({"dependsOn": [], "fromAgentId": world.ann}));
    assert!(world.wakes(world.ann).is_empty(), "its own act");
    // Who was told, and does not have it any more before it has looked.
    let two = world.free();
    let given = world.after(&[&two]);
    world.to(&two, "done");
    world.patch(&given, json!({"assigneeAgentId": null}));
    assert!(world.wakes(world.ann).is_empty());
}

#[test]
fn no_task_waits_for_itself_or_for_what_is_not_in_the_team() {
    let world = World::new();
    let one = world.free();
    let two = world.after(&[&one]);
    let three = world.after(&[&two]);
    let on = |task: &Task, ids: Value| world.try_patch(task, json!({"dependsOn": ids}));
    assert_eq!(code(on(&one, json!([one.id]))), "dependency_cycle");
    assert_eq!(code(on(&one, json!([two.id]))), "dependency_cycle");
    assert_eq!(code(on(&one, json!([three.id]))), "dependency_cycle");
    let other = team(&world.fixture, "other", None);
    let foreign = task(&world.fixture, other, json!({"title": "x"}));
    assert_eq!(code(on(&one, json!([foreign.id]))), "not_found");
    let many: Vec<_> = (0..51).map(|_| one.id).collect();
    assert_eq!(code(on(&two, json!(many))), "invalid_request");
    assert_eq!(world.now(&one), one);
    // What is done holds nothing back, so that work may go in circles, but for that of one.
    world.to(&one, "done");
    assert_eq!(code(on(&one, json!([one.id]))), "dependency_cycle");
    let both = json!({"status": "open", "dependsOn": [one.id]});
    assert_eq!(code(world.try_patch(&one, both)), "dependency_cycle");
    world.to(&two, "done");
    on(&one, json!([three.id])).unwrap();
    world.fixture.assert_sound();
}

#[test]
fn a_cancelled_task_holds_back_what_depends_on_it_and_the_scrum_master_is_told() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    let (one, lone) = (world.free(), world.free());
    let after = world.after(&[&one]);
    world.to(&lone, "cancelled");
    world.to(&one, "cancelled");
    assert_eq!(world.status(&after), TaskStatus::Blocked);
    assert_eq!(world.wakes(sam), [(WakeReason::DependencyCancelled, Some(one.id))]);
    world.patch(&after, json!({"dependsOn": []}));
    world.fixture.pass_secs(60);
    assert!(world.wakes(sam).is_empty(), "nothing waits for it any more");
    let late = json!({"title": "late", "dependsOn": [one.id]});
    assert_eq!(code(world.create(late)), "dependency_cancelled");
    world.to(&one, "done");
    world.fixture.assert_sound();
}

#[test]
fn what_is_closed_waits_for_nothing_and_nobody_is_woken_for_their_own_act() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    let (one, two) = (world.free(), world.free());
    let after = world.after(&[&one, &two]);
    world.to(&after, "done");
    world.to(&one, "cancelled");
    assert!(world.wakes(sam).is_empty(), "nothing waits for it");
    world.patch(&after, json!({"status": "open", "dependsOn": [two.id]}));
    assert!(world.now(&after).is_waiting);
    world.patch(&two, json!({"status": "cancelled", "fromAgentId": sam}));
    assert!(world.wakes(sam).is_empty(), "it knows");
    assert_eq!(world.patch(&after, json!({"priority": 4})).status, TaskStatus::Blocked);
    world.to(&two, "open");
    world.to(&two, "done");
    assert_eq!(world.status(&after), TaskStatus::Open);
    world.fixture.assert_sound();
}

#[test]
fn long_tasks_that_wait_for_one_do_not_keep_it_from_being_done() {
    let world = World::new();
    let one = world.free();
    let text = "\u{1f600}".repeat(100_000); // 400 KB
    let body = json!({"title": "long", "description": text, "dependsOn": [one.id]});
    for _ in 0..2 {
        repeat(&world.fixture, tasks::create, world.team, body.clone(), 15);
    }
    world.to(&one, "done");
    assert_eq!(world.run_jobs(), 9, "3 at once");
    let all = |view: &View| view.all::<Task>(ListSource::TABLE, &());
    let tasks = world.fixture.store.read_now(world.fixture.org, all).unwrap();
    assert!(tasks.iter().all(|task| task.is_workable() || task.id == one.id));
    world.fixture.assert_sound();
}

#[test]
fn a_task_may_be_begun_before_its_turn_when_what_it_waits_for_is_done() {
    let world = World::new();
    let one = world.free();
    let all: Vec<Task> = (0..AT_ONCE + 1).map(|_| world.after(&[&one])).collect();
    world.to(&one, "done");
    let last = &all[AT_ONCE];
    assert!(world.now(last).is_waiting, "it is told later");
    world.to(last, "in_progress");
    world.patch(&one, json!({"dependsOn": [last.id], "status": "open"}));
    assert!(world.now(&one).is_waiting, "no cycle");
    world.run_jobs();
    assert_eq!(world.status(last), TaskStatus::InProgress);
    world.fixture.assert_sound();
}

#[test]
fn too_many_dependencies_to_follow_are_refused() {
    let world = World::new();
    let first = world.free();
    let mut layer = vec![world.after(&[&first])];
    for _ in 0..=MAX_FOLLOWED / 50 / 50 + 1 {
        layer = (0..50).map(|_| world.after(&layer.iter().collect::<Vec<_>>())).collect();
    }
    let top = world.after(&layer.iter().collect::<Vec<_>>());
    let other = world.free();
    world.after(&[&other]);
    assert_eq!(
        code(world.try_patch(&other, json!({"dependsOn": [top.id]}))),
        "too_many_dependencies"
    );
    assert_eq!(world.now(&other), other);
}

#[test]
fn many_that_wait_for_one_are_opened_in_steps() {
    let world = World::new();
    let one = world.free();
    let all: Vec<Task> = (0..AT_ONCE * 2 + 1).map(|_| world.after(&[&one])).collect();
    world.to(&one, "done");
    let open = || all.iter().filter(|task| world.status(task) == TaskStatus::Open).count();
    assert_eq!(open(), AT_ONCE);
    // Reopened, it holds the others back again.
    world.to(&one, "open");
    assert_eq!(world.run_jobs(), 1);
    assert_eq!(open(), AT_ONCE);
    world.to(&one, "done");
    assert_eq!(open(), AT_ONCE * 2);
    assert_eq!(world.run_jobs(), 1);
    assert_eq!(open(), all.len());
    world.fixture.assert_sound();
}

#[test]
fn a_deleted_team_takes_its_dependencies_with_it() {
    let world = World::new();
    let one = world.free();
    world.after(&[&one]);
    world.fixture.write_as(&world.fixture.owner, manage::delete, world.team, ()).unwrap();
    world.fixture.complete_removals();
    let all = |view: &View| view.all::<OpenDependency>(ListSource::TABLE, &());
    assert!(world.fixture.store.read_now(world.fixture.org, all).unwrap().is_empty());
    world.fixture.assert_sound();
}
