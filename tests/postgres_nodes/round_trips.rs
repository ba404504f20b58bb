//! How often a request waits for the database server. Over a network, that is what it takes.

use serde_json::json;

use super::{Node, set_up};
use crate::client::{Caller, eventually};
use crate::postgres_server::PostgresServer;

/// The round trips of a kind of request, each asked for while the server does nothing else. Where it begins
/// something meanwhile, as on a busy machine, there are more: those of a quarter of the requests count.
fn usual(node: &Node, mut ask: impl FnMut(usize)) -> u32 {
    let counted = || node.metric("roadstead_database_round_trips_total") as u32;
    // What the request for the count takes itself.
    let own = (0..5).map(|_| counted()).collect::<Vec<_>>();
    let own = own.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
    let mut counts: Vec<_> = (0..21)
        .map(|nth| {
            let before = eventually("quiet", || {
                let before = counted();
                (counted() - before == own).then_some(before + own)
            });
            ask(nth);
            counted() - before - own
        })
        .collect();
    counts.sort();
    counts[counts.len() / 4]
}

#[test]
fn a_task_is_read_in_3_round_trips_and_created_in_6_also_after_access_was_changed_elsewhere() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let [node, other] = [Node::start(&database.url()), Node::start(&database.url())];
    let owner = set_up(&node);
    let team = owner.post("/teams", json!({"slug": "t", "name": "T"})).id();
    let tasks = format!("/teams/{team}/tasks");
    let task = owner.post(&tasks, json!({"title": "Read me"})).id();
    let one = format!("{tasks}/{task}");
    let of = |ask: &mut dyn FnMut(usize)| usual(&node, ask);
    // Nothing is asked about what can be no credential.
    let credential = owner.credential().to_string();
    let (signed, _) = credential.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", "A".repeat(43));
    let unquoted = Caller::anonymous(node.address, "acme");
    for bearer in ["nonsense".to_string(), format!("\"{credential}\""), forged] {
        let refused = unquoted.with_bearer(&bearer);
        let trips = of(&mut |_| drop(refused.get(&one).refused(401, "unauthenticated")));
        assert_eq!(trips, 0, "{bearer}");
    }
    for _ in 0..2 {
        let read = of(&mut |_| drop(owner.get(&one).ok()));
        let listed = of(&mut |_| drop(owner.get(&tasks).ok()));
        let title = |nth: usize| json!({"title": nth.to_string()});
        let created = of(&mut |nth| drop(owner.post(&tasks, title(nth)).ok()));
        let updated = of(&mut |nth| drop(owner.patch(&one, title(nth)).ok()));
        crate::postgres_server::say(&format!(
            "round trips of a task: read {read}, listed {listed}, created {created}, updated {updated}"
        ));
        assert!(read <= 3 && listed <= 3 && created <= 6 && updated <= 6);
        let key = other.caller(&owner).post("/api-keys", json!({"name": "a key"})).id();
        other.caller(&owner).delete(&format!("/api-keys/{key}")).ok();
    }
    node.stop();
    other.stop();
}
