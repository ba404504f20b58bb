//! Two servers of a URL that both accept writes, as an old primary and the one that was promoted.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use roadstead::store::Signals;
use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::postgres::{Postgres, PostgresSettings, PostgresUrl};
use roadstead::store::engine::{Engine as _, is_outcome_unknown};

use super::{commit, get, put};
use crate::open;
use crate::postgres_server::{PostgresServer, new_schema, shared};

/// A way to a server on which no connection is opened any more once it is closed. Those that are open go on.
#[derive(Default)]
struct Way {
    is_closed: AtomicBool,
    /// How many connections were made ready on it: one that a full server refuses is none.
    opened: AtomicUsize,
    /// What the answers are held back from, once it is asked.
    held_from: Mutex<Option<&'static [u8]>>,
    is_held: Mutex<bool>,
    changed: Condvar,
}

impl Way {
    /// Returns it with its port.
    fn to(server: u16) -> (Arc<Self>, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Arc::<Way>::default();
        let own = way.clone();
        thread::spawn(move || {
            for here in listener.incoming().flatten() {
                if own.is_closed.load(Ordering::SeqCst) {
                    continue;
                }
                let there = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let _ = (here.set_nodelay(true), there.set_nodelay(true));
                let (from, to) = (there.try_clone().unwrap(), here.try_clone().unwrap());
                let (asking, answering) = (own.clone(), own.clone());
                thread::spawn(move || forward(here, there, |bytes| asking.asked(bytes)));
                thread::spawn(move || forward(from, to, |_| answering.wait(false)));
            }
        });
        (way, port)
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// Holds the answers back from that to what contains this on.
    fn hold_from(&self, part: &'static [u8]) {
        *self.held_from.lock().unwrap() = Some(part);
    }

    fn asked(&self, bytes: &[u8]) {
        let contains = |part: &[u8]| bytes.windows(part.len()).any(|one| one == part);
        if contains(b"SET synchronous_commit") {
            self.opened.fetch_add(1, Ordering::SeqCst);
        }
        let mut held_from = self.held_from.lock().unwrap();
        if held_from.is_some_and(&contains) {
            *held_from = None;
            self.set_held(true);
        }
    }

    fn set_held(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.changed.notify_all();
    }

    /// Waits until an answer is held back, or none is.
    fn wait(&self, is_held: bool) {
        let other = |now: &mut bool| *now != is_held;
        drop(self.changed.wait_while(self.is_held.lock().unwrap(), other).unwrap());
    }
}

/// Forwards what is sent one way, until that ends.
pub fn forward(mut from: TcpStream, mut to: TcpStream, before: impl Fn(&[u8])) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        before(&bytes[..read]);
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// An engine over two servers, each with its own store, which says in a row which it is, and the ways to
/// them. The first one is used while connections are opened to it.
fn two() -> Option<(PostgresServer, [Arc<Way>; 2], Arc<Postgres>)> {
    let (old, new) = (PostgresServer::start(&["fsync=off"])?, shared()?);
    let schema = new_schema();
    for (server, name) in [(&old, "old"), (new, "new")] {
        let engine = open(server, &schema, None);
        commit(&engine, move |_| Ok(put(&[("where", name.as_bytes())]))).unwrap();
        engine.close();
    }
    let [(way, port), (other_way, other)] = [Way::to(old.port()), Way::to(new.port())];
    let url = format!("postgres://roadstead@127.0.0.1:{port},127.0.0.1:{other}/postgres");
    let settings = PostgresSettings {
        schema: Some(schema),
        ..PostgresSettings::new(PostgresUrl::parse(&url).unwrap(), vec![TABLE])
    };
    let engine = Postgres::open(settings, Arc::<Signals>::default(), &|_| {}).unwrap();
    Some((old, [way, other_way], Arc::new(engine)))
}

/// Which server a new snapshot reads at.
fn place(engine: &Postgres) -> String {
    String::from_utf8(get(&*engine.snapshot(), b"where").unwrap()).unwrap()
}

#[test]
fn once_connections_are_opened_elsewhere_nothing_is_read_at_the_server_before() {
    let Some((_old, [way, _], engine)) = two() else { return };
    let held = engine.snapshot();
    assert_eq!(get(&*held, b"where"), Some(b"old".to_vec()));
    way.close();
    // It has to open a connection: the only one is held.
    assert_eq!(place(&engine), "new");
    let refused = held.get(TABLE, b"not read yet", &mut |_| Ok(())).unwrap_err();
    assert_eq!(refused.code(), "store_unavailable", "{refused:?}");
    drop(held);
    for _ in 0..3 {
        assert_eq!(place(&engine), "new", "what was held is not used again");
    }
}

#[test]
fn an_attempt_that_has_read_at_the_server_before_runs_again_over_a_connection_to_the_next() {
    let Some((_old, [way, next], engine)) = two() else { return };
    let (seen, beside) = (Arc::<Mutex<Vec<String>>>::default(), engine.clone());
    let found = seen.clone();
    commit(&engine, move |reader| {
        let place_then = get(reader, b"where").unwrap();
        found.lock().unwrap().push(String::from_utf8(place_then.clone()).unwrap());
        way.close();
        assert_eq!(place(&beside), "new");
        Ok(put(&[("seen", &place_then)]))
    })
    .unwrap();
    assert_eq!(*seen.lock().unwrap(), ["old", "new"]);
    assert_eq!(get(&*engine.snapshot(), b"seen"), Some(b"new".to_vec()));
    // What was read beside it in the first run, it then goes on over; in the second, beside that.
    assert_eq!(next.opened(), 2, "none that is open there is closed");
}

#[test]
fn a_commit_that_only_the_server_before_has_is_not_acknowledged() {
    let Some((_old, [way, next], engine)) = two() else { return };
    thread::scope(|scope| {
        let committing = scope.spawn(|| {
            let way = way.clone();
            commit(&engine, move |reader| {
                assert_eq!(get(reader, b"where"), Some(b"old".to_vec()));
                way.hold_from(b"COMMIT");
                Ok(put(&[("lost", b"")]))
            })
        });
        way.wait(true);
        way.close();
        assert_eq!(place(&engine), "new");
        way.set_held(false);
        // The server in force does not have its slot, which a standby has.
        let end = committing.join().unwrap();
        assert!(end.as_ref().is_err_and(is_outcome_unknown), "{end:?}");
    });
    let opened = next.opened();
    assert_eq!(get(&*engine.snapshot(), b"lost"), None);
    assert_eq!(next.opened(), opened, "the one that is open to the server in force is not closed");
}

#[test]
fn what_was_asked_at_the_server_before_is_not_used_when_it_answers_late() {
    let Some((_old, [way, _], engine)) = two() else { return };
    let held = engine.snapshot();
    assert_eq!(get(&*held, b"where"), Some(b"old".to_vec()));
    thread::scope(|scope| {
        way.hold_from(b"asked before");
        let asking = scope.spawn(|| held.get(TABLE, b"asked before", &mut |_| Ok(())));
        way.wait(true);
        way.close();
        assert_eq!(place(&engine), "new");
        way.set_held(false);
        let refused = asking.join().unwrap().unwrap_err();
        assert_eq!(refused.code(), "store_unavailable", "{refused:?}");
    });
}
