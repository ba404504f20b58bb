//! The engine over PostgreSQL, with real servers.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

mod client;
mod postgres_engine;
mod postgres_nodes;
mod postgres_server;
#[path = "api/receiver.rs"]
mod receiver;

use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use postgres_server::{PostgresServer, new_schema, shared};
use roadstead::base::Result;
use roadstead::store::Signals;
use roadstead::store::engine::conformance::{
    Anomaly, Book, Effort, LeaseCheck, Report, TABLE, anomalies, run_suite, write_book,
};
use roadstead::store::engine::postgres::{Control, Owner, Postgres, PostgresSettings};
use roadstead::store::engine::{
    Attempt, Budget, Engine, GivenBack, GroupCommit, Memory, OnConflict, Reader, Terms, WriteBatch,
    WriteOp,
};
use serde_json::Value;

fn open(server: &PostgresServer, schema: &str, owner: Option<Owner>) -> Arc<Postgres> {
    let settings = PostgresSettings {
        schema: Some(schema.into()),
        owner,
        ..PostgresSettings::new(server.parsed_url(), vec![TABLE])
    };
    Arc::new(Postgres::open(settings, Arc::<Signals>::default(), &|_| {}).unwrap())
}

#[test]
fn postgresql_passes_the_suite_and_its_controls_fail() {
    let Some(server) = shared() else { return };
    let effort = Effort { rounds: 30, cuts: 40 };
    let report = run_suite(&server.parsed_url(), effort, &|_| {}).unwrap();
    assert_eq!(report.problems(), Vec::<String>::new(), "{report:#?}");
    assert!(report.book.acknowledged > 100, "{report:#?}");
}

#[test]
fn engines_on_this_machine_have_no_anomalies_either() {
    let engine: Arc<dyn Engine> =
        Arc::new(GroupCommit::start(Memory::default(), Arc::default()).unwrap());
    for Anomaly { name, found, .. } in anomalies(&engine, 20, &|_| {}).unwrap() {
        assert_eq!(found, 0, "{name}");
    }
}

/// Reads a table that the store does not have, goes on as if nothing were in it, and writes.
struct Ignoring(Sender<Result<()>>);

impl Attempt for Ignoring {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        assert!(reader.get("in no catalog", b"x", &mut |_| Ok(())).is_err());
        let mut writes = WriteBatch::default();
        writes.add(TABLE, b"ignored".to_vec(), WriteOp::Put(Vec::new()));
        Ok(writes)
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        self.0.send(end).unwrap();
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        panic!("given back: {why:?}");
    }
}

#[test]
fn an_attempt_that_ignores_a_failed_read_is_not_committed() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let (end, ended) = channel();
    let terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::RunOnWriter };
    engine.submit(Box::new(Ignoring(end)), terms).unwrap();
    let error = ended.recv().unwrap().unwrap_err();
    assert!(error.log_detail().is_some_and(|why| why.contains("in no catalog")), "{error:?}");
    assert!(!engine.snapshot().get(TABLE, b"ignored", &mut |_| Ok(())).unwrap());
}

#[test]
fn what_was_acknowledged_is_there_after_the_server_has_crashed() {
    let Some(server) = PostgresServer::start(&["max_connections=100"]) else { return };
    let schema = new_schema();
    let engine = open(&server, &schema, None);
    let (server, crashes) = (Mutex::new(server), Mutex::new(0));
    let writing: Arc<dyn Engine> = engine.clone();
    let entries = write_book(&writing, "crashes", 8, &|steps| {
        let mut crashes = crashes.lock().unwrap();
        if *crashes < 3 && steps > (*crashes + 1) * 300 {
            *crashes += 1;
            let mut server = server.lock().unwrap();
            server.crash();
            server.resume();
        }
        *crashes == 3 && steps > 1500
    });
    let book = Book::compare(&*engine, "crashes", &entries.unwrap()).unwrap();
    assert!(book.is_sound() && book.acknowledged > 1000, "{book:#?}");
}

#[test]
fn whoever_is_still_at_the_store_goes_on_over_a_standby_that_lacks_commits() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let engine = open(server, &schema, Some(Owner::new("the only one")));
    let setbacks = Mutex::new(0);
    let writing: Arc<dyn Engine> = engine.clone();
    // The slots have earlier values, as where an asynchronous standby was promoted.
    let entries = write_book(&writing, "setbacks", 4, &|steps| {
        let mut setbacks = setbacks.lock().unwrap();
        if *setbacks < 3 && steps > (*setbacks + 1) * 40 {
            *setbacks += 1;
            server.sql(&format!(
                "UPDATE {schema}.kv_slot SET value = decode(repeat('00', 16), 'hex')"
            ));
        }
        *setbacks == 3 && steps > 200
    });
    let book = Book::compare(&*engine, "setbacks", &entries.unwrap()).unwrap();
    assert!(book.is_sound() && book.acknowledged > 150, "{book:#?}");
    assert!(!*engine.is_removed().borrow());
}

#[test]
fn a_store_has_one_owner_until_it_is_given_up() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let first = open(server, &schema, Some(Owner::new("the first")));
    let settings = PostgresSettings {
        schema: Some(schema.clone()),
        owner: Some(Owner::new("the second")),
        ..PostgresSettings::new(server.parsed_url(), vec![TABLE])
    };
    let refused = Postgres::open(settings, Arc::default(), &|_| {}).err().unwrap();
    assert_eq!(refused.code(), "store_in_use");
    assert!(refused.message().contains("the first"), "{refused}");
    drop(first);
    let waited = Mutex::new(false);
    let settings = PostgresSettings {
        schema: Some(schema),
        owner: Some(Owner::new("the third")),
        ..PostgresSettings::new(server.parsed_url(), vec![TABLE])
    };
    let progress = |line: &str| *waited.lock().unwrap() |= !line.is_empty();
    Postgres::open(settings, Arc::default(), &progress).unwrap();
    assert!(!*waited.lock().unwrap(), "the first has given it up");
}

const LEASED: LeaseCheck = LeaseCheck {
    second_waits: true,
    silent_is_replaced: true,
    replaced_is_fenced: true,
    replaced_goes_on: true,
    control_is_stored: true,
};

#[test]
fn a_report_names_what_is_wrong_and_what_proves_nothing() {
    let anomaly = |found| {
        let one = |name| Anomaly { name, rounds: 9, found };
        vec![one("lost update"), one("write skew")]
    };
    let broken = Book { repeated: 1, ..Book::default() };
    let sound = Report {
        anomalies: anomaly(0),
        control_anomalies: anomaly(9),
        book: Book::default(),
        cuts: 2,
        unanswered: [1, 1, 0],
        control_book: broken.clone(),
        lease: LEASED,
    };
    assert_eq!(sound.problems(), Vec::<String>::new());
    for (report, problem) in [
        (Report { anomalies: anomaly(1), ..sound.clone() }, "write skew, 1 of 9"),
        (Report { control_anomalies: anomaly(0), ..sound.clone() }, "write skew was not found"),
        (Report { book: broken, ..sound.clone() }, "1 repeated"),
        (Report { unanswered: [1, 0, 0], ..sound.clone() }, "on both sides"),
        (Report { control_book: Book::default(), ..sound.clone() }, "did no harm"),
        (
            Report { lease: LeaseCheck { second_waits: false, ..LEASED }, ..sound.clone() },
            "at once",
        ),
        (
            Report { lease: LeaseCheck { replaced_is_fenced: false, ..LEASED }, ..sound.clone() },
            "at once",
        ),
        (
            Report { lease: LeaseCheck { control_is_stored: false, ..LEASED }, ..sound.clone() },
            "is blind",
        ),
    ] {
        let problems = report.problems();
        assert!(problems.iter().any(|one| one.contains(problem)), "{problem}: {problems:?}");
    }
}

#[test]
fn connections_are_encrypted_and_the_certificate_is_verified() {
    use roadstead::store::engine::postgres::{Durability, PostgresUrl};
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let files = [("server.crt", certificate.as_str()), ("server.key", key.as_str())];
    let hba = "hostssl all all 127.0.0.1/32 trust\n";
    let files = [files[0], files[1], ("pg_hba.conf", hba)];
    let Some(server) = PostgresServer::start_with(&["ssl=on"], &files, false) else { return };
    let place = tempfile::tempdir().unwrap();
    let roots = place.path().join("roots.pem");
    std::fs::write(&roots, &certificate).unwrap();
    let url = server.url().replace("127.0.0.1", "localhost");
    for (query, is_reached) in [
        (format!("sslmode=verify-full&sslrootcert={}", roots.display()), true),
        ("sslmode=verify-full".into(), false),
        ("sslmode=require".into(), false),
        ("sslmode=disable".into(), false),
    ] {
        let url = PostgresUrl::parse(&format!("{url}?{query}")).unwrap();
        let reached = Durability::of(&url);
        assert_eq!(reached.is_ok(), is_reached, "{query}: {reached:?}");
    }
    // The name of the certificate counts.
    let query = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    let url = PostgresUrl::parse(&format!("{}?{query}", server.url())).unwrap();
    assert!(Durability::of(&url).is_err());
}

#[test]
fn a_sign_in_by_password_is_bound_to_the_encrypted_connection() {
    use roadstead::store::engine::postgres::{Durability, PostgresUrl};
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let hba =
        "host all roadstead 127.0.0.1/32 trust\nhostssl all bound 127.0.0.1/32 scram-sha-256\n";
    let files =
        [("server.crt", certificate.as_str()), ("server.key", key.as_str()), ("pg_hba.conf", hba)];
    let settings = ["ssl=on", "password_encryption=scram-sha-256"];
    let Some(server) = PostgresServer::start_with(&settings, &files, false) else { return };
    server.sql("CREATE ROLE bound LOGIN PASSWORD 'right'");
    let place = tempfile::tempdir().unwrap();
    let roots = place.path().join("roots.pem");
    std::fs::write(&roots, &certificate).unwrap();
    let read = |password: &str, binding: &str| {
        let url = format!(
            "postgres://bound:{password}@localhost:{}/postgres?sslrootcert={}&sslmode=verify-full{binding}",
            server.port(),
            roots.display()
        );
        Durability::of(&PostgresUrl::parse(&url).unwrap())
    };
    // With `require` the driver refuses to sign in without.
    for binding in ["", "&channel_binding=require", "&channel_binding=disable"] {
        let read = read("right", binding);
        assert!(read.is_ok(), "{binding}: {read:?}");
    }
    assert!(read("wrong", "&channel_binding=require").is_err());
}

#[test]
fn a_tool_that_was_taken_for_gone_can_neither_change_the_key_nor_complete_the_store() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let settings = PostgresSettings {
        schema: Some(schema.clone()),
        owner: Some(Owner::new("one that is paused")),
        control: Some(Control::Silent),
        ..PostgresSettings::new(server.parsed_url(), vec![TABLE])
    };
    let paused = Postgres::open(settings, Arc::<Signals>::default(), &|_| {}).unwrap();
    paused.set_note("who", "the first").unwrap();
    paused.require_membership().unwrap();
    // It waits until the other has shown no heartbeat for eight seconds.
    let next = open(server, &schema, Some(Owner::new("the next")));
    for refused in [
        paused.require_membership(),
        paused.set_key("another key", None),
        paused.set_note("who", "the first again"),
        paused.complete(),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.log_detail().unwrap().contains("removed this process"), "{refused:?}");
    }
    next.require_membership().unwrap();
    assert_eq!(next.note("who").unwrap().as_deref(), Some("the first"));
}

#[test]
fn who_is_at_an_old_primary_whose_standby_was_promoted_is_no_member_for_all_it_knows() {
    let Some(server) = PostgresServer::start(&["max_connections=100"]) else { return };
    let tool = open(&server, &new_schema(), Some(Owner::new("a tool")));
    tool.require_membership().unwrap();
    // As where the standby does not follow it any more: it reads, and no commit is finished.
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("SELECT pg_reload_conf()");
    let refused = client::eventually("a commit that waits", || tool.require_membership().err());
    assert_eq!(refused.code(), "store_unavailable", "{refused:?}");
    server.sql("ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("SELECT pg_reload_conf()");
    client::eventually("it goes on", || tool.require_membership().ok());
}

fn store_check(url: &str) -> (Option<i32>, Vec<u8>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command.args(["store-check", "--json", "--rounds", "5", "--cuts", "20", "--store", url]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), output.stdout, errors)
}

#[test]
fn the_command_reports_as_json_and_leaves_nothing_behind() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let (code, report, errors) = store_check(&server.url());
    assert_eq!(code, Some(0), "{errors}");
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["conforms"], true, "{report}");
    let remarks = report["remarks"].to_string();
    for setting in ["fsync is off", "max_pred_locks_per_relation is -2"] {
        assert!(remarks.contains(setting), "{setting}: {report}");
    }
    let schemas = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("psql -At -c '\\dn' '{}'", server.url()))
        .output()
        .unwrap();
    let schemas = String::from_utf8_lossy(&schemas.stdout).into_owned();
    assert!(schemas.contains("public") && !schemas.contains("roadstead_check"), "{schemas}");
}

#[test]
fn a_database_that_cannot_be_reached_is_not_a_verdict() {
    for (url, why) in [
        ("postgres://a:hunter2@127.0.0.1:1/b", "cannot be checked"),
        ("postgres://a:hunter2@127.0.0.1:1/b?sslmode=prefer", "--store sslmode must be"),
    ] {
        let (code, _, errors) = store_check(url);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(why) && !errors.contains("hunter2"), "{errors}");
    }
}

// ── Serving ──────────────────────────────────────────────────────────────────

const KEY: &str = "00010203040506070809101112131415161718192021222324252627282930ff";

/// A server of `roadstead serve --store`.
struct Served {
    child: std::process::Child,
    /// What it printed when it was ready.
    started: Value,
    /// Reads its log.
    log: Option<std::thread::JoinHandle<String>>,
}

impl Served {
    fn start(url: &str, key: Option<&str>) -> Result<Self, (Option<i32>, String)> {
        use std::io::{BufRead as _, BufReader, Read as _};
        use std::process::Stdio;
        let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]).env("ROADSTEAD_STORE", url);
        command.env_remove("ROADSTEAD_SECRET_KEY").env_remove("CREDENTIALS_DIRECTORY");
        if let Some(key) = key {
            command.env("ROADSTEAD_SECRET_KEY", key);
        }
        let place = tempfile::tempdir().unwrap();
        command.current_dir(place.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        match serde_json::from_str(&line) {
            Ok(started) => Ok(Served { child, started, log: Some(log) }),
            Err(_) => Err((child.wait().unwrap().code(), log.join().unwrap())),
        }
    }

    fn get(&self, path: &str) -> String {
        use std::io::{Read as _, Write as _};
        let address = self.started["listening"].as_str().unwrap().trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log.take().map(|log| log.join().unwrap_or_default());
        client::server_log::assert_clean(&log.unwrap_or_default(), &[]);
    }
}

#[test]
fn what_a_new_database_lacks_is_named_with_what_to_do() {
    let Some(database) = PostgresServer::start(&["fsync=off"]) else { return };
    let refused = |url: &str| Served::start(url, Some(KEY)).err().unwrap();
    let granted = database.database("granted").replace("roadstead@", "guest@");
    database.sql("CREATE USER guest");
    let owner = granted.replace("guest@", "roadstead@");
    database.sql_at(&owner, "REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let (code, errors) = refused(&granted);
    assert!(code == Some(2) && errors.contains("be granted USAGE and CREATE"), "{errors}");
    database.sql_at(&owner, "DROP SCHEMA public");
    let (code, errors) = refused(&owner);
    assert!(code == Some(2) && errors.contains("search_path names no schema"), "{errors}");
    let other = database.database("other");
    database.sql_at(&other, "CREATE TABLE kv (key text, value text)");
    let (code, errors) = refused(&other);
    assert!(code == Some(2) && errors.contains("is not Roadstead's"), "{errors}");
}

#[test]
fn a_server_founds_a_store_which_belongs_to_its_key() {
    let Some(database) = PostgresServer::start(&["fsync=off"]) else { return };
    let url = database.url();
    let (code, errors) = Served::start(&url, None).err().unwrap();
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("ROADSTEAD_SECRET_KEY"), "{errors}");

    let first = Served::start(&url, Some(KEY)).ok().unwrap();
    assert_eq!(first.started["created"], true);
    assert!(first.started["setupLink"].as_str().unwrap().contains("/setup#"));
    let ready = first.get("/readyz");
    assert!(ready.contains("200 OK") && ready.contains("\"replicated\":false"), "{ready}");
    assert!(first.get("/metrics").contains("\nroadstead_store_replicated 0\n"));
    assert_eq!(first.stop(), Some(0));

    let other = KEY.replace('0', "1");
    let (code, errors) = Served::start(&url, Some(&other)).err().unwrap();
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("the key is not the one of this store"), "{errors}");
    assert!(!errors.contains(&other) && !errors.contains(KEY), "{errors}");
    let again = Served::start(&url, Some(KEY)).ok().unwrap();
    assert_eq!(again.started["created"], false);
    assert_eq!(again.stop(), Some(0));
}

#[test]
fn doctor_says_whether_a_store_is_replicated() {
    let Some(database) = PostgresServer::start(&["fsync=off"]) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command.args(["doctor", "--json"]).env("ROADSTEAD_STORE", database.url());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].to_string();
    for part in [
        "not replicated",
        "fsync is off",
        "max_pred_locks_per_transaction is 64",
        "max_pred_locks_per_relation is -2",
    ] {
        assert!(findings.contains(part), "{part}: {findings}");
    }
}
