//! Servers that cannot notify each other.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use roadstead::base::Result;
use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::postgres::{self, Control, Postgres, PostgresSettings};
use roadstead::store::engine::{
    Attempt, Budget, Engine as _, GivenBack, OnConflict, Reader, Terms, WriteBatch, WriteOp,
};
use roadstead::store::{Signals, Topic};
use tokio::time::timeout;

use super::{Node, send, set_up, team};
use crate::postgres_server::{PostgresServer, new_schema, say, shared};

/// A way to the database on which every connection is closed that wants to listen.
fn deaf_way(database: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let Ok(server) = TcpStream::connect(database) else { continue };
            let (from_server, to_client) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || pass(client, server, true));
            std::thread::spawn(move || pass(from_server, to_client, false));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_refusing: bool) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if is_refusing && bytes[..read].windows(7).any(|part| part == b"LISTEN ") {
            break;
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_long_poll_is_answered_within_two_seconds_without_notifications() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let way = deaf_way(SocketAddr::from(([127, 0, 0, 1], database.port())));
    let url = database.url();
    let deaf_url = url.replace(&database.port().to_string(), &way.port().to_string());
    let (hearing, deaf) = (Node::start(&url), Node::start(&deaf_url));
    let owner = set_up(&hearing);
    let mut times = Vec::new();
    for round in 0..6 {
        let team = team(&owner, &format!("t{round}"));
        // It neither hears nor tells.
        let (waits, sends) = if round % 2 == 0 { (&deaf, &hearing) } else { (&hearing, &deaf) };
        let mut poll = waits.poll(&owner, &format!("{}?wait=20", team.1));
        let sent = Instant::now();
        send(sends, &owner, &team);
        assert_eq!(poll.reply(false).unwrap().items().len(), 1);
        times.push(sent.elapsed());
    }
    say(&format!("woken without notifications: {times:?}"));
    // A waiter looks by itself after a minute; who was not notified is woken within two or three seconds.
    assert!(times.iter().all(|time| *time < Duration::from_secs(4)), "{times:?}");
}

/// Writes a row, and has a topic signalled.
struct Put(Sender<Result<()>>);

impl Attempt for Put {
    fn run(&mut self, _: &dyn Reader) -> Result<WriteBatch> {
        let mut writes = WriteBatch::default();
        writes.add(TABLE, b"key".to_vec(), WriteOp::Put(b"value".to_vec()));
        writes.topics.push(TOPIC);
        Ok(writes)
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        self.0.send(end).unwrap();
    }

    fn give_back(self: Box<Self>, _: GivenBack) {
        panic!("it is given back");
    }
}

const TOPIC: Topic = Topic::from_u128(7);

#[test]
fn a_notification_that_is_lost_is_made_up_for_by_the_second_look() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let open = |control| {
        let signals = Arc::<Signals>::default();
        let settings = PostgresSettings {
            schema: Some(schema.clone()),
            node: Some(postgres::Node::new("1.0", "a test")),
            control,
            ..PostgresSettings::new(server.parsed_url(), vec![TABLE])
        };
        (Postgres::open(settings, signals.clone(), &|_| {}).unwrap(), signals)
    };
    let (telling, _) = open(None);
    let (_hearing, heard) = open(None);
    let (_deaf, missed) = open(Some(Control::Deaf));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let wait = |signals: &Signals, limit: Duration| {
        let mut listener = signals.subscribe(TOPIC);
        // What they hear at their start, or missed of it, wakes everybody.
        let quiet = Duration::from_millis(2500);
        while runtime.block_on(async { timeout(quiet, listener.notified()).await }).is_ok() {}
        let (end, ended) = channel();
        let terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::RunOnWriter };
        telling.submit(Box::new(Put(end)), terms).unwrap();
        ended.recv().unwrap().unwrap();
        // The commit itself may take longer than either on a busy machine.
        let begun = Instant::now();
        let woken = runtime.block_on(async { timeout(limit, listener.notified()).await });
        assert!(woken.is_ok(), "nobody was woken within {limit:?}");
        begun.elapsed()
    };
    let at_once = wait(&heard, Duration::from_millis(900));
    let later = wait(&missed, Duration::from_secs(4));
    assert!(later > at_once, "{later:?} {at_once:?}");
    say(&format!("heard after {at_once:?}; missed, and made up for after {later:?}"));
}
