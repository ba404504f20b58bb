//! Tasks that are due.

use serde_json::{Value, json};

use super::*;

/// A task that is due so many seconds after noon.
fn due_at(secs: i64) -> Value {
    json!({"title": "x", "dueAt": NOON.plus_secs(secs)})
}

#[test]
fn the_scrum_master_is_woken_once_when_the_time_of_a_task_has_passed() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    let (first, done) = (world.task(due_at(60)), world.task(due_at(60)));
    world.to(&done, "done");
    world.pass(59);
    assert!(world.wakes(sam).is_empty());
    world.pass(1);
    let told = [(WakeReason::TaskOverdue, Some(first.id))];
    assert_eq!(world.wakes(sam), told);
    world.pass(3600);
    assert_eq!(world.wakes(sam), told, "the same again");
    world.patch(&first, json!({"dueAt": NOON.plus_secs(7200)}));
    world.fixture.pass_secs(60);
    assert!(world.wakes(sam).is_empty(), "it is not overdue any more");
    world.pass(3600);
    assert_eq!(world.wakes(sam), told);
    world.patch(&first, json!({"title": "y"}));
    assert!(world.wakes(sam).is_empty(), "not again");
    world.to(&first, "done");
    world.pass(60);
    assert!(world.wakes(sam).is_empty());
    // Opened again it is overdue anew, also at a time that has passed long ago.
    world.to(&first, "open");
    assert_eq!(world.wakes(sam), told);
    world.to(&first, "done");
    world.pass(60);
    assert!(world.wakes(sam).is_empty());
    world.patch(&first, json!({"status": "open", "fromAgentId": sam}));
    assert!(world.wakes(sam).is_empty(), "its own act");
    world.fixture.assert_sound();
}

#[test]
fn tasks_that_a_clock_ahead_made_overdue_are_told_of_when_their_time_comes() {
    const YEAR: i64 = 365 * 24 * 3600;
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    let task = world.task(due_at(3600));
    world.pass(YEAR);
    world.fixture.pass_secs(-YEAR);
    let later = world.task(due_at(7200));
    let listed = || {
        let page = world.fixture.read(due::list, (), ()).unwrap();
        page.items.iter().map(|shown| shown.task.number).collect::<Vec<_>>()
    };
    assert_eq!(listed(), [0; 0]);
    assert!(world.wakes(sam).is_empty(), "it is not overdue");
    world.pass(3500);
    assert!(world.wakes(sam).is_empty());
    world.pass(100);
    assert_eq!(world.wakes(sam), [(WakeReason::TaskOverdue, Some(task.id))]);
    world.pass(3600);
    let told = world.wakes(sam);
    assert!(told.contains(&(WakeReason::TaskOverdue, Some(later.id))), "{told:?}");
    assert_eq!(listed(), [2, 1]);
    world.fixture.assert_sound();
}

#[test]
fn many_tasks_of_one_time_are_told_of_in_steps() {
    let world = World::new();
    let sam = add_scrum_master(&world.fixture, world.team, "sam");
    let text = "\u{1f600}".repeat(100_000); // 400 KB: they are not read.
    repeat(&world.fixture, tasks::create, world.team, due_at(60), 120);
    let long = json!({"title": "x", "description": text, "dueAt": NOON});
    repeat(&world.fixture, tasks::create, world.team, long, 10);
    world.pass(60);
    let mut told = 0;
    while let part = world.wakes(sam).len()
        && part > 0
    {
        told += part;
    }
    assert_eq!(told, 130);
    world.fixture.assert_sound();
}
