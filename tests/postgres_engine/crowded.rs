//! A database server that has no connection left: those that are open are of use, and stay.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use roadstead::store::Signals;
use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::postgres::{Postgres, PostgresSettings, PostgresUrl};
use roadstead::store::engine::{Budget, Engine as _, OnConflict, Reader, Terms};

use super::replaced::forward;
use super::{Does, get, put};
use crate::client::within;
use crate::postgres_server::{new_schema, shared};

/// Snapshots at once: as many as threads that block may have, and more than there are connections.
const READERS: usize = 6;
const OPEN: usize = 3;

const ROUNDS: usize = 8;

/// A way to a server on which those wait that open a connection while it is shut. Those that are open go on.
#[derive(Default)]
struct Door {
    /// Whether it is shut, and how many wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Door {
    /// Returns it with its port.
    fn to(server: u16) -> (Arc<Self>, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let door = Arc::<Self>::default();
        let own = door.clone();
        thread::spawn(move || {
            for here in listener.incoming().flatten() {
                let door = own.clone();
                thread::spawn(move || {
                    door.pass();
                    let there = TcpStream::connect(("127.0.0.1", server)).unwrap();
                    let _ = (here.set_nodelay(true), there.set_nodelay(true));
                    let (from, to) = (there.try_clone().unwrap(), here.try_clone().unwrap());
                    thread::spawn(move || forward(from, to, |_| {}));
                    forward(here, there, |_| {});
                });
            }
        });
        (door, port)
    }

    fn set_shut(&self, is_shut: bool) {
        self.state.lock().unwrap().0 = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        if state.0 {
            state.1 += 1;
            self.changed.notify_all();
            state = self.changed.wait_while(state, |(is_shut, _)| *is_shut).unwrap();
            state.1 -= 1;
        }
    }

    fn waiting(&self) -> usize {
        self.state.lock().unwrap().1
    }

    /// Waits until so many wait, for a moment.
    fn wait_for(&self, most: usize) {
        let (state, moment) = (self.state.lock().unwrap(), Duration::from_millis(300));
        let fewer = |(_, waiting): &mut (bool, usize)| *waiting < most;
        drop(self.changed.wait_timeout_while(state, moment, fewer).unwrap());
    }
}

fn read(engine: &Postgres) -> Arc<dyn Reader> {
    let reader = engine.snapshot();
    assert_eq!(get(&*reader, b"absent"), None);
    reader
}

/// Has reads and a write find no connection and open one, and those that others have be put back before the
/// server refuses it.
fn is_refused_while_others_are_put_back(engine: &Postgres, door: &Door) {
    door.set_shut(true);
    let (gate, held, back) = (Mutex::new(()), AtomicUsize::new(0), AtomicUsize::new(0));
    let (end, ended) = channel();
    thread::scope(|scope| {
        let closed = gate.lock().unwrap();
        for _ in 0..READERS {
            scope.spawn(|| {
                let reader = read(engine);
                held.fetch_add(1, Ordering::SeqCst);
                drop(gate.lock());
                drop(reader);
                back.fetch_add(1, Ordering::SeqCst);
            });
        }
        let holding = || held.load(Ordering::SeqCst);
        within(Duration::from_secs(10), "each has a connection or waits for one", || {
            (holding() + door.waiting() >= READERS).then_some(())
        });
        let light = Terms { budget: Budget::LIGHT, on_conflict: OnConflict::RunOnWriter };
        let run = Box::new(|_: &dyn Reader| Ok(put(&[("written", b"")])));
        engine.submit(Box::new(Does(run, end)), light).unwrap();
        // The readers without a connection, and who writes.
        let before = holding();
        door.wait_for(READERS + 1 - before);
        assert!(door.waiting() > 0);
        drop(closed);
        within(Duration::from_secs(10), "they are put back", || {
            (back.load(Ordering::SeqCst) >= before).then_some(())
        });
        door.set_shut(false);
    });
    ended.recv().unwrap().unwrap();
}

#[test]
fn a_server_without_a_free_connection_costs_none_of_those_that_are_open() {
    let Some(server) = shared() else { return };
    // Nobody else is to be refused, and who administers the server never is.
    server.sql("CREATE ROLE crowded LOGIN");
    server.sql("CREATE DATABASE crowded OWNER crowded");
    let (door, port) = Door::to(server.port());
    let url = format!("postgres://crowded@127.0.0.1:{port}/crowded");
    let settings = PostgresSettings {
        schema: Some(new_schema()),
        ..PostgresSettings::new(PostgresUrl::parse(&url).unwrap(), vec![TABLE])
    };
    let engine = Postgres::open(settings, Arc::<Signals>::default(), &|_| {}).unwrap();
    let open: Vec<_> = (0..OPEN).map(|_| read(&engine)).collect();
    let pids = |of: &str| {
        let query = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity \
                     WHERE usename = 'crowded'";
        let found = server.sql(&format!("{query} {of}"));
        found.split(' ').map(String::from).collect::<Vec<_>>()
    };
    let before = pids("AND state = 'idle in transaction'");
    assert!(before.len() >= OPEN, "{before:?}");
    drop(open);
    server.sql("ALTER ROLE crowded CONNECTION LIMIT 1");
    for _ in 0..ROUNDS {
        is_refused_while_others_are_put_back(&engine, &door);
    }
    let left = pids("");
    assert!(before.iter().all(|pid| left.contains(pid)), "{before:?}, {left:?}");
    assert!(get(&*engine.snapshot(), b"written").is_some());
}
