//! How often a request waits for the database server. Over a network, that is what it takes.

use serde_json::json;

use super::{Node, set_up};
use crate::postgres_server::PostgresServer;

/// The round trips of three quarters of the requests of a kind, at least: beside some of them runs what the
/// server does by itself.
fn usual(node: &Node, mut ask: impl FnMut(usize)) -> u32 {
    let counted = || node.metric("roadstead_database_round_trips_total") as u32;
    let mut counts: Vec<_> = (0..21)
        .map(|nth| {
            let before = counted();
            ask(nth);
            counted() - before
        })
        .collect();
    counts.sort();
    counts[counts.len() / 4]
}

#[test]
fn a_task_is_read_in_4_round_trips_and_created_in_6_also_after_access_was_changed_elsewhere() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let [node, other] = [Node::start(&database.url()), Node::start(&database.url())];
    let owner = set_up(&node);
    let team = owner.post("/teams", json!({"slug": "t", "name": "T"})).id();
    let tasks = format!("/teams/{team}/tasks");
    let task = owner.post(&tasks, json!({"title": "Read me"})).id();
    let one = format!("{tasks}/{task}");
    // Those of the request for the count itself.
    let own = usual(&node, |_| {});
    let of = |ask: &mut dyn FnMut(usize)| usual(&node, ask) - own;
    for _ in 0..2 {
        let read = of(&mut |_| drop(owner.get(&one).ok()));
        let listed = of(&mut |_| drop(owner.get(&tasks).ok()));
        let title = |nth: usize| json!({"title": nth.to_string()});
        let created = of(&mut |nth| drop(owner.post(&tasks, title(nth)).ok()));
        let updated = of(&mut |nth| drop(owner.patch(&one, title(nth)).ok()));
        crate::postgres_server::say(&format!(
            "round trips of a task: read {read}, listed {listed}, created {created}, updated {updated}"
        ));
        assert!(read <= 4 && listed <= 4 && created <= 6 && updated <= 6);
        let key = other.caller(&owner).post("/api-keys", json!({"name": "a key"})).id();
        other.caller(&owner).delete(&format!("/api-keys/{key}")).ok();
    }
    node.stop();
    other.stop();
}
