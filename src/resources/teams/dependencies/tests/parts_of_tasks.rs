//! Tasks that are parts of others, and labels.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_parent_counts_its_parts_and_what_of_them_is_closed() {
    let world = World::new();
    let (parent, other) = (world.free(), world.free());
    let part = |parent: &Task| world.task(json!({"title": "x", "parentTaskId": parent.id}));
    let parts = [part(&parent), part(&parent), part(&parent)];
    let counted = |task: &Task| {
        let TaskChildren { total, done, cancelled } = world.children(task);
        (total, done, cancelled)
    };
    assert_eq!(counted(&parent), (3, 0, 0));
    let before = world.now(&parent);
    world.fixture.pass_secs(1);
    world.to(&parts[0], "done");
    world.to(&parts[1], "cancelled");
    world.to(&parts[2], "in_progress");
    assert_eq!(counted(&parent), (3, 1, 1));
    assert_eq!(world.now(&parent), before, "its row stays as it is");
    world.to(&parts[1], "open");
    world.patch(&parts[0], json!({"parentTaskId": other.id}));
    assert_eq!((counted(&parent), counted(&other)), ((2, 0, 0), (1, 1, 0)));
    world.patch(&parts[0], json!({"parentTaskId": null}));
    assert_eq!(counted(&other), (0, 0, 0));
    let query = |query: Value| -> Vec<u32> {
        let input = Fixture::input(query).unwrap();
        let page = world.fixture.read(tasks::list, world.team, input).unwrap();
        page.items.iter().map(|shown| shown.task.number).collect()
    };
    assert_eq!(query(json!({"parentTaskId": parent.id})), [5, 4]);
    assert_eq!(query(json!({"parentTaskId": parent.id, "status": "open"})), [4]);
    assert_eq!(query(json!({"parentTaskId": parent.id, "unassigned": false})), [0; 0]);
    world.fixture.assert_sound();
}

#[test]
fn parts_are_at_most_20_deep_from_above_and_from_below() {
    let world = World::new();
    let part = |parent: &Task| world.task(json!({"title": "x", "parentTaskId": parent.id}));
    let chain = |first: Task, more: usize| {
        let mut all = vec![first];
        for _ in 0..more {
            all.push(part(all.last().unwrap()));
        }
        all
    };
    let into = |task: &Task, parent: &Task| {
        let made = world.try_patch(task, json!({"parentTaskId": parent.id}));
        made.map(|_| ()).map_err(|error| error.code())
    };
    let long = chain(world.free(), 20);
    let deepest = json!({"title": "x", "parentTaskId": long[20].id});
    assert_eq!(code(world.create(deepest)), "too_many_levels");
    for wrong in [&long[0], &long[1], &long[20]] {
        assert_eq!(into(&long[0], wrong), Err("parent_cycle"));
    }
    let short = chain(world.free(), 10);
    assert_eq!(into(&short[0], &long[10]), Err("too_many_levels"));
    assert_eq!(into(&short[0], &long[9]), Ok(()));
    assert_eq!(into(&long[0], &short[10]), Err("parent_cycle"));
    world.fixture.assert_sound();
}

#[test]
fn a_task_has_at_most_a_thousand_parts() {
    let world = World::new();
    let parent = world.free();
    let body = json!({"title": "x", "parentTaskId": parent.id});
    repeat(&world.fixture, tasks::create, world.team, body.clone(), 999);
    let last = world.free();
    world.patch(&last, json!({"parentTaskId": parent.id}));
    let more = world.free();
    let refused = world.try_patch(&more, json!({"parentTaskId": parent.id}));
    assert_eq!(code(refused), "too_many_parts");
    assert_eq!(code(world.create(body)), "too_many_parts");
    assert_eq!(world.children(&parent).total, 1000);
    let all = |view: &View| view.all::<Task>(ListSource::TABLE, &());
    let tasks = world.fixture.store.read_now(world.fixture.org, all).unwrap();
    for part in &tasks[1..=3] {
        let body = json!({"title": "x", "parentTaskId": part.id});
        repeat(&world.fixture, tasks::create, world.team, body, 400);
    }
    let top = world.free();
    assert_eq!(code(world.try_patch(&parent, json!({"parentTaskId": top.id}))), "too_many_parts");
}

#[test]
fn tasks_are_found_by_the_labels_that_they_have() {
    let world = World::new();
    let labelled = |labels: Value| world.task(json!({"title": "x", "labels": labels}));
    let (one, two) = (labelled(json!(["red", "big"])), labelled(json!(["red", "red"])));
    assert_eq!(two.labels.len(), 1);
    let found = |query: Value| -> Vec<u32> {
        let input = Fixture::input(query).unwrap();
        let page = world.fixture.read(tasks::list, world.team, input).unwrap();
        page.items.iter().map(|shown| shown.task.number).collect()
    };
    assert_eq!(found(json!({"label": "red"})), [2, 1]);
    assert_eq!(found(json!({"label": "big"})), [1]);
    assert_eq!(found(json!({"label": "re"})), [0; 0]);
    world.to(&two, "done");
    assert_eq!(found(json!({"label": "red", "status": "done"})), [2]);
    assert_eq!(found(json!({"label": "red", "status": "open"})), [1]);
    for wrong in ["a, b", " a", "a ", ","] {
        let body = json!({"title": "x", "labels": ["b", wrong]});
        assert_eq!(code(world.create(body)), "invalid_request");
    }
    world.patch(&one, json!({"labels": ["blue"]}));
    assert_eq!(
        (found(json!({"label": "red"})), found(json!({"label": "blue"}))),
        (vec![2], vec![1])
    );
    let other = team(&world.fixture, "other", None);
    task(&world.fixture, other, json!({"title": "x", "labels": ["red"]}));
    assert_eq!(found(json!({"label": "red"})), [2]);
    world.fixture.write_as(&world.fixture.owner, manage::delete, world.team, ()).unwrap();
    world.fixture.complete_removals();
    world.fixture.assert_sound();
}
