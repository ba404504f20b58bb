//! Heartbeats: drift, errors and silence.

use super::super::heartbeats;
use super::*;
use crate::outbox::RetentionSettings;

fn beat(world: &World, hash: &str, error: Option<&str>) -> Value {
    let body = json!({"environment": "dev", "hash": hash, "error": error});
    let input = Fixture::input(body).unwrap();
    json!(world.write(heartbeats::report, "ann".to_string(), input).unwrap())
}

fn sweep(world: &World, started_secs_ago: i64) {
    let started_at = world.store.clock().now().minus_secs(started_secs_ago);
    let settings = RetentionSettings { stale_after_secs: 900, started_at, ..Default::default() };
    let run = heartbeats::RESOURCE.sweeps[0].run;
    world.store.write_blocking(world.org, move |tx| run(tx, &settings)).unwrap();
}

fn about_agents(world: &World) -> Vec<String> {
    let types = world.event_types().into_iter();
    types.filter(|kind| kind.starts_with("agent.")).collect()
}

#[test]
fn a_different_hash_is_drift_which_is_told_once_each_time_it_begins() {
    let world = World::new();
    let nothing = json!({"drifted": false, "expectedHash": null});
    assert_eq!(beat(&world, "x", None), nothing);
    world.deployed(&["ann"], json!({}));
    let hash = world.live("ann").unwrap().hash;
    for (reported, status) in [
        (hash.as_str(), "deployed"),
        ("x", "drifted"),
        ("y", "drifted"),
        (hash.as_str(), "deployed"),
        ("x", "drifted"),
    ] {
        let answer = beat(&world, reported, None);
        assert_eq!(answer, json!({"drifted": status == "drifted", "expectedHash": hash}));
        assert_eq!(world.agent_status("ann"), status);
        world.fixture.pass_secs(60);
    }
    assert_eq!(about_agents(&world), ["agent.drifted"; 2]);
    // What is deployed again has not been reported about.
    world.deployed(&["ann"], json!({}));
    assert_eq!(world.agent_status("ann"), "deployed");
    world.assert_sound();
}

#[test]
fn an_error_is_told_when_it_begins() {
    let world = World::new();
    world.deployed(&["ann"], json!({}));
    let hash = world.live("ann").unwrap().hash;
    for (error, status) in
        [(Some("a"), "error"), (Some("b"), "error"), (None, "deployed"), (Some("a"), "error")]
    {
        beat(&world, &hash, error);
        assert_eq!(world.agent_status("ann"), status);
        world.fixture.pass_secs(60);
    }
    assert_eq!(about_agents(&world), ["agent.error"; 2]);
}

#[test]
fn silence_is_found_for_agents_that_have_reported_and_counts_from_the_start_of_the_server() {
    let world = World::new();
    world.deployed(&["ann", "bob"], json!({}));
    let hash = world.live("ann").unwrap().hash;
    beat(&world, &hash, None);
    world.fixture.pass_secs(899);
    sweep(&world, 10_000);
    assert_eq!(world.agent_status("ann"), "deployed");
    world.fixture.pass_secs(1);
    sweep(&world, 899);
    assert_eq!(world.agent_status("ann"), "deployed");
    sweep(&world, 900);
    sweep(&world, 900);
    assert_eq!(world.agent_status("ann"), "stale");
    assert_eq!(world.agent_status("bob"), "deployed");
    assert_eq!(about_agents(&world), ["agent.stale"]);
    beat(&world, &hash, None);
    assert_eq!(world.agent_status("ann"), "deployed");
    world.fixture.pass_secs(900);
    sweep(&world, 10_000);
    assert_eq!(about_agents(&world), ["agent.stale"; 2]);
    world.assert_sound();
}

#[test]
fn the_status_of_an_agent_is_the_worst_of_its_environments() {
    let world = World::new();
    environments::tests::make(&world, json!({"slug": "prod", "name": "P"})).unwrap();
    world.deployed(&["ann"], json!({}));
    beat(&world, "x", Some("e"));
    assert_eq!(world.agent_status("ann"), "error");
    world.deployed(&["ann"], json!({"environment": "prod"}));
    assert_eq!(world.agent_status("ann"), "error");
    world.fixture.pass_secs(2);
    beat(&world, "x", None);
    assert_eq!(world.agent_status("ann"), "drifted");
    let listed = |status: &str| agents::tests::count_of(&world, status);
    assert_eq!(["drifted", "deployed", "undeployed"].map(listed), [1, 0, 1]);
}

#[test]
fn a_heartbeat_that_repeats_the_last_second_writes_nothing() {
    let world = World::new();
    world.deployed(&["ann"], json!({}));
    let hash = world.live("ann").unwrap().hash;
    beat(&world, &hash, None);
    let before = world.live("ann");
    world.store.clock().advance_secs(0);
    beat(&world, &hash, None);
    assert_eq!(world.live("ann"), before);
    world.fixture.pass_secs(1);
    beat(&world, &hash, None);
    assert_ne!(world.live("ann"), before);
}
