//! What appending to an audit log costs does not depend on how many entries are appended.

use roadstead::api::audit::{ActorType, AuditEntry, AuditOutcome, append_pending};
use roadstead::app::KeySource;
use roadstead::app::shared_store::SharedStore;
use roadstead::base::Id;
use roadstead::store::engine::postgres::{Node, PostgresUrl};
use roadstead::store::{Org, Tx};

use crate::KEY;
use crate::postgres_server::{PostgresServer, say};

/// An entry about a resource of its own.
fn entry(tx: &Tx, nth: usize) -> AuditEntry {
    AuditEntry {
        id: tx.new_id(),
        org: tx.org(),
        created_at: tx.now(),
        actor_type: ActorType::User,
        actor_id: Some(Id::new(uuid::Uuid::from_u128(7))),
        actor_name: "Ada".into(),
        via: None,
        person: None,
        action: "task.create".into(),
        resource_type: "task".into(),
        resource_id: Some(format!("task {nth}")),
        detail: None,
        request_id: format!("request {nth}"),
        outcome: AuditOutcome::Success,
    }
}

#[test]
fn appending_many_entries_takes_as_many_round_trips_as_a_few() {
    let Some(database) = PostgresServer::start(&["fsync=off"]) else { return };
    let source = KeySource { variable: Some(KEY.into()), ..KeySource::default() };
    let url = PostgresUrl::parse(&database.url()).unwrap();
    let node = Node::new(env!("CARGO_PKG_VERSION"), "the test");
    let opened = SharedStore::open(url, &source, node, false, &|_| {});
    let SharedStore { store, .. } = opened.unwrap();
    let org: Id<Org> = Id::new(uuid::Uuid::from_u128(1));
    let mut written = 0;
    let mut trips = |entries: usize| {
        let numbers = written..written + entries;
        written += entries;
        let write = store.write_blocking(org, move |tx| {
            numbers.clone().try_for_each(|nth| {
                let entry = entry(tx, nth);
                tx.insert(&entry)
            })
        });
        write.unwrap();
        let before = store.meters().round_trips.value();
        let end = Id::new(uuid::Uuid::max());
        let append = store.write_blocking(Id::NIL, move |tx| append_pending(tx, Id::NIL, end));
        assert_eq!(append.unwrap(), None, "all are appended");
        store.meters().round_trips.value() - before
    };
    let (first, few, many) = (trips(1), trips(2), trips(90));
    say(&format!("round trips to append entries: 1 in {first}, 2 in {few}, 90 in {many}"));
    // The range of the pending ones is read in two parts.
    assert!(many <= few + 2, "{few}, {many}");
    store.close();
}
