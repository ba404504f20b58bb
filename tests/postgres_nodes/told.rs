//! What a node is told of commits that end late: while their node stops, or after their outcome was given up.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::postgres::{Control, Node, Postgres, PostgresSettings};
use roadstead::store::engine::{Engine as _, WriteBatch, is_outcome_unknown};
use roadstead::store::{Listener, Signals, Topic};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

use crate::client::eventually;
use crate::postgres_engine::{commit, put, submit};
use crate::postgres_server::{PostgresServer, new_schema, shared};

const TOPIC: Topic = Topic::from_u128(7);

/// What is waited for comes within a second or two, on an idle machine.
const LONG: Duration = Duration::from_secs(60);

/// A node, and what those hear who wait there.
fn node(server: &PostgresServer, schema: &str) -> (Postgres, Arc<Signals>) {
    node_under(server, schema, None)
}

fn node_under(
    server: &PostgresServer,
    schema: &str,
    control: Option<Control>,
) -> (Postgres, Arc<Signals>) {
    let signals = Arc::<Signals>::default();
    let settings = PostgresSettings {
        schema: Some(schema.into()),
        node: Some(Node::new("1.0", "a test")),
        control,
        ..PostgresSettings::new(server.parsed_url(), vec![TABLE])
    };
    (Postgres::open(settings, signals.clone(), &|_| {}).unwrap(), signals)
}

/// A row, of which those are told who wait for the topic.
fn told() -> WriteBatch {
    let mut writes = put(&[("told", b"")]);
    writes.topics.push(TOPIC);
    writes
}

/// Whether the topic, or all, are signalled within this time.
fn hears(listener: &mut Listener, time: Duration) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { timeout(time, listener.notified()).await }).is_ok()
}

/// Waits until nothing is heard any more: what is heard at the start, or was missed of it, wakes everybody.
fn quiet(listener: &mut Listener) {
    while hears(listener, Duration::from_millis(2500)) {}
}

#[test]
fn a_heavy_write_that_is_committed_while_its_server_stops_is_told_to_the_others() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let (stopping, _) = node(server, &schema);
    // It does not find out by itself that a slot has moved, or that a server has left.
    let (_hearing, heard) = node_under(server, &schema, Some(Control::Blind));
    let mut listener = heard.subscribe(TOPIC);
    quiet(&mut listener);
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    thread::scope(|scope| {
        let mut may_go = Some(may_go);
        let stopping = &stopping;
        let committing = scope.spawn(move || {
            commit(stopping, move |_| {
                if let Some(may_go) = may_go.take() {
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                }
                Ok(told())
            })
        });
        has_begun.recv().unwrap();
        scope.spawn(move || stopping.close());
        eventually("the stop", || submit(stopping, |_| Ok(WriteBatch::default())).err());
        go.send(()).unwrap();
        committing.join().unwrap().unwrap();
    });
    assert!(hears(&mut listener, LONG), "nobody was told");
    stopping.close();
}

#[test]
fn what_a_server_committed_before_it_left_is_looked_for_where_its_notification_is_lost() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    // It has written nothing, so that no slot of it was there at any check.
    let (leaving, _) = node(server, &schema);
    let (_deaf, signals) = node_under(server, &schema, Some(Control::Deaf));
    let mut listener = signals.subscribe(TOPIC);
    quiet(&mut listener);
    commit(&leaving, |_| Ok(told())).unwrap();
    leaving.close();
    assert!(hears(&mut listener, LONG), "nobody was woken");
}

/// A stopped process, which goes on when this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(process: &str) -> Self {
        let process = Pid::from_raw(process.parse().unwrap()).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn who_waits_is_woken_when_a_commit_of_unknown_outcome_becomes_visible_and_not_only_before() {
    let Some(server) = PostgresServer::start(&["max_connections=100"]) else { return };
    let schema = new_schema();
    let (engine, signals) = node(&server, &schema);
    // From here on a connection has its slot.
    commit(&engine, |_| Ok(put(&[("first", b"")]))).unwrap();
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("SELECT pg_reload_conf()");
    // A heartbeat does: so will what is committed from here on.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually("a commit that waits", || (server.sql(waits) != "0").then_some(()));
    let end = commit(&engine, |_| Ok(told()));
    assert!(end.as_ref().is_err_and(is_outcome_unknown), "{end:?}");
    assert_eq!(engine.meters().refuses_writes.value(), 1);
    // The process that has changed a slot is held up, as on a busy machine.
    let changes_slot = format!(
        "SELECT one.pid FROM pg_stat_activity AS one JOIN pg_locks AS lock ON lock.pid = one.pid \
         WHERE one.wait_event = 'SyncRep' AND lock.mode = 'RowExclusiveLock' \
         AND lock.relation = '{schema}.kv_slot'::regclass"
    );
    let stopped = Stopped::new(&server.sql(&changes_slot));
    server.sql("ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("SELECT pg_reload_conf()");
    eventually("a heartbeat", || (engine.meters().refuses_writes.value() == 0).then_some(()));
    let mut listener = signals.subscribe(TOPIC);
    let is_there = || engine.snapshot().get(TABLE, b"told", &mut |_| Ok(())).unwrap();
    assert!(!is_there());
    listener.forget();
    drop(stopped);
    // Who waits reads each time that it is woken, also if that was for something else.
    loop {
        assert!(hears(&mut listener, LONG), "nobody was woken");
        if is_there() {
            break;
        }
    }
    engine.close();
}
