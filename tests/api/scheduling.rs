//! Many schedules that are due at once, and pauses over many agents that wait (reference:
//! teams-and-wakes, "Schedules", "Pausing").

use std::time::{Duration, Instant};

use roadstead::base::{Keys, Time};
use roadstead::resources;
use roadstead::store::engine::LoggedRedb;
use roadstead::store::{Clock, Store, build_indexes, table_names};
use serde_json::{Value, json};

use crate::client::{Caller, Connection, at_once, raw, within};
use crate::fixture::{Running, config};

/// Teams, each with as many schedules as it may have.
const TEAMS: usize = 10;
const OF_EACH: usize = 100;

/// One after the other takes some seconds where nothing is optimized and others build.
const ALL_BEGUN: Duration = Duration::from_secs(60);

#[test]
fn a_thousand_schedules_that_are_due_in_one_second_are_each_begun_once_and_soon() {
    let noon = Time::parse("2026-03-02T12:00:00Z").unwrap();
    let (place, tables) = (tempfile::tempdir().unwrap(), resources::tables());
    let file = place.path().join("test.redb");
    let mut storage = LoggedRedb::create(&file, table_names(&tables)).unwrap();
    build_indexes(&mut storage, &tables, &|_| {}).unwrap();
    let store = Store::start(storage, Clock::at(noon), Keys::new([7; 32]), &tables).unwrap();
    let running = Running::serve(store, "127.0.0.1:0", config());
    let acme = running.fixture();
    // Sessions are over when the clock is put on.
    let key = &acme.key;
    let teams: Vec<_> = at_once(TEAMS, |number| {
        let team = json!({"slug": format!("t{number}"), "name": "T"});
        let team = format!("/teams/{}", key.post("/teams", team).id());
        for name in 0..OF_EACH {
            let schedule = json!({"name": format!("n{name}"), "cron": "0 * * * *",
                "task": {"title": "Count"}, "overlap": "queue"});
            key.post(&format!("{team}/schedules"), schedule).ok();
        }
        team
    });
    running.store.clock().advance_secs(3600);
    let begun = Instant::now();
    for team in &teams {
        within(ALL_BEGUN, "all tasks", || {
            (key.walk(&format!("{team}/tasks"), 100).len() == OF_EACH).then_some(())
        });
    }
    eprintln!("{} schedules were begun within {:?}", TEAMS * OF_EACH, begun.elapsed());
    // Each has its next time, and did this one once.
    for schedule in key.walk(&format!("{}/schedules", teams[0]), 100) {
        let runs = format!("{}/schedules/{}/runs", teams[0], schedule["id"].as_str().unwrap());
        let runs = key.get(&runs).items();
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert_eq!((&runs[0]["outcome"], &runs[0]["missed"]), (&json!("task_created"), &json!(0)));
        assert_eq!(runs[0]["dueAt"], "2026-03-02T13:00:00.000Z");
        assert_eq!(schedule["nextTimes"][0], "2026-03-02T14:00:00.000Z");
    }
}

/// Agents that wait.
const WAITING: usize = 200;

/// Begins to wait for an agent's wakes.
fn wait(running: &Running, caller: &Caller, wakes: &str) -> Connection {
    let mut connection = Connection::open(running.address).unwrap();
    connection
        .write(&caller.ask("GET", &caller.in_org(&format!("{wakes}?wait=60"))).to_bytes())
        .unwrap();
    connection
}

#[test]
fn a_pause_of_all_or_of_a_team_holds_every_agent_that_waits_from_its_commit_on() {
    let running = Running::start(config());
    let acme = running.fixture();
    let key = &acme.key;
    let team = format!("/teams/{}", key.post("/teams", json!({"slug": "crew", "name": "C"})).id());
    let agents: Vec<String> = (0..WAITING)
        .map(|number| {
            let stable_key = format!("a{number}");
            key.post("/agents", json!({"stableKey": stable_key, "name": stable_key})).ok();
            let member = json!({"stableKey": stable_key, "role": "member"});
            key.post(&format!("{team}/agents"), member).id()
        })
        .collect();
    let wakes = |agent: &String| format!("{team}/agents/{agent}/wakes");
    for place in ["/teams".to_string(), team.clone()] {
        let mut waiting: Vec<_> =
            agents.iter().map(|agent| wait(&running, key, &wakes(agent))).collect();
        within(Duration::from_secs(60), "all agents wait", || {
            let ask = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let waits = format!("\nroadstead_waiting_requests {WAITING}\n");
            raw(running.address, ask).text().contains(&waits).then_some(())
        });
        acme.owner.post(&format!("{place}/pause"), json!({})).ok();
        let mails: Vec<String> = agents
            .iter()
            .map(|agent| {
                let mail = json!({"toAgentId": agent, "body": "b"});
                key.post(&format!("{team}/messages"), mail).id()
            })
            .collect();
        // Whoever asks anew gets nothing, either, and all that came is there.
        for agent in &agents {
            assert_eq!(key.get(&wakes(agent)).items(), Vec::<Value>::new());
            let kept = key.get(&format!("{}?peek=true", wakes(agent))).items();
            assert_eq!((kept.len(), &kept[0]["attempts"]), (1, &json!(0)), "{kept:?}");
        }
        acme.owner.post(&format!("{place}/resume"), json!({})).ok();
        for ((connection, mail), agent) in waiting.iter_mut().zip(&mails).zip(&agents) {
            let given = connection.reply(false).unwrap().items();
            assert_eq!(given[0]["messageId"], json!(mail));
            let ids = json!({"wakeIds": [given[0]["id"]]});
            key.post(&format!("{}/ack", wakes(agent)), ids).ok();
        }
    }
}
