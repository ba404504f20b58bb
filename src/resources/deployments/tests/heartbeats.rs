//! Heartbeats: drift, errors and silence.

use super::super::{deployed, heartbeats};
use super::*;
use crate::auth::Restricted;
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
fn an_agent_is_where_it_is_live_or_reports_from_and_says_what_it_runs() {
    let world = World::new();
    let places = || -> Vec<Value> {
        let page = world.read(deployed::places, "ann".to_string(), ()).unwrap();
        page.items.into_iter().map(|place| json!(place)).collect()
    };
    assert!(places().is_empty());
    beat(&world, "x", None);
    assert_eq!(places()[0]["live"], Value::Null);
    assert_eq!(places()[0]["report"]["hash"], "x");
    world.deployed(&["ann"], json!({}));
    let [place] = <[Value; 1]>::try_from(places()).unwrap();
    assert_eq!(place["environmentId"], json!(world.dev));
    assert_eq!(place["live"]["hash"], json!(world.live("ann").unwrap().hash));
    assert_eq!(place["live"]["promptName"], "hello");
    assert_eq!(place["report"]["hash"], Value::Null, "not since it was deployed");
    beat(&world, "y", Some("out of memory"));
    let report = places()[0]["report"].clone();
    assert_eq!((&report["hash"], &report["drifted"]), (&json!("y"), &json!(true)));
    assert_eq!(report["error"], "out of memory");
    environments::tests::patch(&world, world.dev, json!({"access": "restricted"}));
    let member = world.member.clone();
    let hidden = world.read_as(&member, deployed::places, "ann".to_string(), ()).unwrap();
    assert!(hidden.items.is_empty());
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
    let before = world.reported("ann").unwrap();
    beat(&world, &hash, None);
    assert_eq!(world.reported("ann"), Some(before.clone()));
    world.fixture.pass_secs(1);
    beat(&world, &hash, None);
    assert_ne!(world.reported("ann"), Some(before));
}

#[test]
fn heartbeats_count_where_nothing_is_deployed() {
    let world = World::new();
    let nothing = json!({"drifted": false, "expectedHash": null});
    for (error, status) in [(Some("e"), "error"), (Some("f"), "error"), (None, "undeployed")] {
        assert_eq!(beat(&world, "x", error), nothing);
        assert_eq!(world.agent_status("ann"), status);
        world.fixture.pass_secs(60);
    }
    world.fixture.pass_secs(840);
    sweep(&world, 10_000);
    assert_eq!(world.agent_status("ann"), "stale");
    assert_eq!(about_agents(&world), ["agent.error", "agent.stale"]);
    let payload = world.events().remove(0).1;
    assert_eq!((&payload["deploymentId"], &payload["error"]), (&Value::Null, &json!("e")));
    beat(&world, "x", None);
    // It is expected to report about what is deployed then.
    world.deployed(&["ann"], json!({}));
    assert_eq!(world.agent_status("ann"), "deployed");
    world.fixture.pass_secs(900);
    sweep(&world, 10_000);
    assert_eq!(world.agent_status("ann"), "stale");
    world.assert_sound();
}

#[test]
fn what_was_reported_from_a_deleted_environment_is_forgotten() {
    let world = World::new();
    let staging = environments::tests::make(&world, json!({"slug": "staging", "name": "S"}));
    let beat_from = |place: &str| {
        let body = json!({"environment": place, "hash": "x", "error": "e"});
        let input = Fixture::input(body).unwrap();
        world.write(heartbeats::report, "ann".to_string(), input).unwrap();
    };
    beat_from("staging");
    world.deployed(&["ann"], json!({}));
    assert_eq!(world.agent_status("ann"), "error");
    environments::tests::remove(&world, staging.unwrap().id).unwrap();
    world.complete_removals();
    assert_eq!(world.agent_status("ann"), "deployed");
    beat_from("dev");
    world.write(delete_agent, "ann".to_string(), ()).unwrap();
    world.assert_sound();
    world.fixture.pass_secs(10_000);
    sweep(&world, 10_000);
    assert_eq!(about_agents(&world), ["agent.error", "agent.drifted", "agent.error"]);
}

#[test]
fn silence_does_not_end_with_a_deployment() {
    let world = World::new();
    beat(&world, "x", None);
    for _ in 0..3 {
        world.deployed(&["ann"], json!({}));
        world.fixture.pass_secs(300);
    }
    sweep(&world, 10_000);
    assert_eq!(world.agent_status("ann"), "stale");
    world.deployed(&["ann"], json!({}));
    assert_eq!(world.agent_status("ann"), "stale");
    assert_eq!(about_agents(&world), ["agent.stale"]);
    world.assert_sound();
}

#[test]
fn an_agent_that_never_reported_is_not_silent() {
    let world = World::new();
    world.deployed(&["ann"], json!({}));
    world.fixture.pass_secs(10_000);
    sweep(&world, 100_000);
    assert_eq!(world.agent_status("ann"), "deployed");
    assert!(about_agents(&world).is_empty());
}

#[test]
fn statuses_in_each_environment_are_found_out_for_agents_of_an_earlier_version() {
    let world = World::new();
    world.deployed(&["ann", "bob"], json!({}));
    beat(&world, "x", Some("out of memory"));
    let find = |key: &'static str| {
        let found = world.store.read_now(world.org, move |view| agents::find(view, key));
        found.unwrap().without_caller().clone()
    };
    let known = ["ann", "bob"].map(find);
    for agent in known.clone() {
        let forget = move |tx: &mut Tx| {
            let old = agents::Agent { places: None, ..agent.clone() };
            tx.replace(&Restricted::new(agent.clone()), &Restricted::new(old))
        };
        world.store.write_blocking(world.org, forget).unwrap();
    }
    assert_eq!(find("ann").places, None);
    let run = heartbeats::FIND_PLACES.run;
    let find_places = move |tx: &mut Tx| run(tx, &RetentionSettings::default());
    world.store.write_blocking(world.org, find_places).unwrap();
    assert_eq!(["ann", "bob"].map(find), known);
    world.assert_sound();
}
