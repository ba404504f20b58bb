//! What a server says while its database cannot be used.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::client::server_log::DATABASE_AWAY;
use crate::client::{Connection, Reply, eventually};
use crate::filled::stop;
use crate::postgres_server::PostgresServer;
use crate::process::Serving;
use crate::tools::{KEY, found, over, set_up};

/// The value of a metric without labels.
fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
    line.split(' ').nth(1)?.parse().ok()
}

/// A page outside of the API.
fn page(serving: &Serving, path: &str) -> Reply {
    let mut connection = Connection::open(serving.address).unwrap();
    connection.write(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    connection.reply(false).unwrap()
}

#[test]
fn while_the_database_does_not_answer_probes_are_answered_soon() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let place = over(&server.url(), KEY);
    let mut serving = Serving::start(&place, &[]);
    serving.expect_errors(DATABASE_AWAY);
    set_up(&serving);
    page(&serving, "/readyz").ok();
    let before = page(&serving, "/metrics").text();
    assert_eq!(metric(&before, "roadstead_store_up"), Some(1.0));
    assert!(metric(&before, "roadstead_document_changes").is_some());
    server.signal(Signal::STOP);
    let begin = Instant::now();
    page(&serving, "/readyz").refused(503, "not_ready");
    // A read waits for 15 s.
    assert!(begin.elapsed() < Duration::from_secs(14), "{:?}", begin.elapsed());
    let begin = Instant::now();
    let metrics = page(&serving, "/metrics");
    assert!(begin.elapsed() < Duration::from_secs(14), "{:?}", begin.elapsed());
    assert_eq!(metric(&metrics.text(), "roadstead_store_up"), Some(0.0));
    assert!(metric(&metrics.text(), "roadstead_http_connections").is_some());
    server.signal(Signal::CONT);
    eventually("it is ready again", || (page(&serving, "/readyz").status == 200).then_some(()));
    stop(&mut serving);
}

#[test]
fn a_write_behind_a_commit_that_waits_for_its_standby_says_so() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let place = over(&server.url(), KEY);
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    serving.expect_errors(DATABASE_AWAY);
    let acme = found(&serving);
    acme.post("/agents", json!({"stableKey": "ann", "name": "Ann"})).ok();
    // Reading appends what waits to be: in the background that would be the commit that waits.
    acme.get("/audit-logs").ok();
    let agent = "/agents/ann";
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("SELECT pg_reload_conf()");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| acme.patch(agent, json!({"name": "First"})));
        eventually("a commit that waits", || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            (server.sql(waiting) != "0").then_some(())
        });
        let blocked = acme.patch(agent, json!({"name": "Second"}));
        assert_eq!(blocked.status, 503, "{}", blocked.text());
        assert!(blocked.text().contains("does not finish commits"), "{}", blocked.text());
        waiting.join().unwrap().refused(503, "outcome_unknown");
    });
    // None more is begun, which would take another connection of the database each.
    let begun = Instant::now();
    for _ in 0..50 {
        acme.post("/tools", json!({"name": "t", "type": "x"})).refused(503, "store_unavailable");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let refuses = || metric(&page(&serving, "/metrics").text(), "roadstead_store_writes_refused");
    assert_eq!(refuses(), Some(1.0));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let waiting: u32 = server.sql(waiting).parse().unwrap();
    assert!(waiting < 20, "{waiting} connections wait");
    acme.get("/tools").ok();
    // It is measured every ten seconds.
    eventually("the state of the server says so", || {
        let state = acme.get("/system").ok();
        (state["storage"]["writesRefused"] == true).then_some(())
    });
    server.sql("ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("SELECT pg_reload_conf()");
    // Others see it once the database server has ended its wait.
    eventually("the write that waited", || (acme.get(agent).ok()["name"] == "First").then_some(()));
    eventually("writes go on", || {
        let reply = acme.post("/tools", json!({"name": "t", "type": "x"}));
        (reply.status == 200).then_some(())
    });
    assert_eq!(refuses(), Some(0.0));
    stop(&mut serving);
}
