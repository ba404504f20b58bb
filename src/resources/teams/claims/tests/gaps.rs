//! Leases that could not be renewed for a while.

use serde_json::json;

use super::*;

#[test]
fn after_a_gap_a_lease_lasts_for_30_seconds_or_its_whole_length() {
    let world = World::new();
    let short = task(&world.fixture, world.team, json!({"title": "Short"}));
    world.lease();
    world.claim_other(&short, json!({"worker": "two", "leaseSecs": 10})).unwrap();
    world.pass(5);
    // So it is after a disk was full, and after the clock has jumped ahead.
    world.fixture.pass_secs(7200);
    world.sweep();
    assert_eq!(world.secs_left(), Some(30));
    world.pass(9);
    assert_eq!(world.leases().len(), 2);
    world.pass(1);
    assert_eq!(world.leases().len(), 1, "the shorter one");
    world.pass(19);
    assert!(world.now().claim.is_some());
    world.pass(1);
    assert!(world.leases().is_empty());
    world.fixture.assert_sound();
}

#[test]
fn a_lease_lasts_for_30_seconds_after_a_start() {
    let world = World::new();
    world.lease();
    world.pass(55);
    world.fixture.pass_secs(10);
    let settings = RetentionSettings { started_at: world.clock(), ..Default::default() };
    let run = leases::RESOURCE.sweeps[0].run;
    let step = move |tx: &mut Tx| run(tx, &settings);
    world.fixture.store.write_blocking(world.fixture.org, step).unwrap();
    assert_eq!(world.secs_left(), Some(30));
}

#[test]
fn a_clock_that_was_ahead_at_the_start_keeps_no_lease() {
    let world = World::new();
    world.lease();
    let ahead = world.clock().plus_secs(7200);
    let settings = RetentionSettings { started_at: ahead, ..Default::default() };
    for _ in 0..7 {
        world.fixture.pass_secs(10);
        let settings = settings.clone();
        let run = leases::RESOURCE.sweeps[0].run;
        let step = move |tx: &mut Tx| run(tx, &settings);
        world.fixture.store.write_blocking(world.fixture.org, step).unwrap();
    }
    assert_eq!(world.now().claim, None);
}

#[test]
fn sweeps_that_are_late_by_some_seconds_come_after_no_gap() {
    let world = World::new();
    world.lease();
    for _ in 0..3 {
        world.fixture.pass_secs(15);
        world.sweep();
    }
    assert!(world.now().claim.is_some());
    world.fixture.pass_secs(15);
    world.sweep();
    assert_eq!(world.now().claim, None, "after 60 s");
    world.lease();
    world.pass(45);
    world.beat("one");
    world.fixture.pass_secs(16);
    world.sweep();
    assert_eq!(world.secs_left(), Some(44), "renewed in the gap");
}

#[test]
fn a_sweep_writes_only_while_a_lease_is_about_to_end() {
    let world = World::new();
    let watch = || -> Option<LeaseWatch> {
        world.fixture.store.read_now(world.fixture.org, |view| view.get(&())).unwrap()
    };
    world.sweep();
    world.lease();
    world.fixture.pass_secs(29);
    world.sweep();
    assert_eq!(watch(), None);
    world.fixture.pass_secs(1);
    world.sweep();
    let at = NOON.plus_secs(30);
    assert_eq!(watch(), Some(LeaseWatch { since: at, last: at }));
    for secs in [10, -5, 2] {
        world.fixture.pass_secs(secs);
        world.sweep();
    }
    let [since, last] = [35, 37].map(|secs| NOON.plus_secs(secs));
    assert_eq!(watch(), Some(LeaseWatch { since, last }), "by a clock that was set back");
}

#[test]
fn leases_of_a_clock_that_was_ahead_begin_anew_however_many_they_are() {
    let world = World::new();
    const YEAR: i64 = 365 * 24 * 3600;
    world.fixture.pass_secs(YEAR);
    world.lease();
    world.lease_many(json!({"title": "More"}), 600);
    world.fixture.pass_secs(-YEAR);
    assert_eq!(world.sweep(), 2, "500 in a step");
    assert_eq!(world.secs_left(), Some(60), "it begins anew");
    world.pass(59);
    assert_eq!(world.leases().len(), 601);
    assert_eq!(world.pass(1), 7, "100 ends in a step");
    assert_eq!((world.now().claim, world.leases().len()), (None, 0));
    world.fixture.assert_sound();
}

#[test]
fn a_lease_that_has_moved_with_its_organization_begins_anew_where_it_is_served() {
    let world = World::new();
    let arrives = || {
        let worker = WorkerName::parse("one").unwrap();
        let (team, task, agent) = (world.team, world.task.id, world.ann);
        let moved = Lease { team, task, agent, worker, secs: 60, ends_at: Time::from_millis(0) };
        let insert = move |tx: &mut Tx| insert_moved(tx, &moved);
        world.fixture.store.write_blocking(world.fixture.org, insert).unwrap();
        world.lease_of(&world.task).is_some()
    };
    assert!(!arrives(), "its task has no claim");
    world.claim(json!({"worker": "one"})).unwrap();
    assert!(!arrives(), "the claim has no lease");
    let lease = world.lease_of_claim();
    world.fixture.store.write_blocking(world.fixture.org, move |tx| tx.remove(&lease)).unwrap();
    assert!(arrives());
    world.fixture.pass_secs(24 * 3600);
    world.sweep();
    assert_eq!(world.secs_left(), Some(60), "it took a day to move all");
    world.pass(60);
    assert_eq!(world.now().claim, None);
    world.fixture.assert_sound();
}
