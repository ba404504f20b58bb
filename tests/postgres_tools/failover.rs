//! A primary and a standby under writers through the API: the primary is killed, paused, cut off.
//! Every acknowledged value must be there, nothing twice, nothing in part. With an asynchronous
//! standby that is behind a loss must be found, or these tests prove nothing.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::client::server_log::DATABASE_AWAY;
use crate::client::{Reply, eventually, within};
use crate::filled::stop;
use crate::postgres_server::PostgresServer;
use crate::process::{Place, Serving};
use crate::relay::Relay;
use crate::tools::{KEY, over, set_up};
use crate::writers::{Found, under_writes};

/// Clusters use much of the machine: one at a time.
static ONE: Mutex<()> = Mutex::new(());

const SYNCHRONOUS: [&str; 1] = ["synchronous_standby_names=second"];
/// Commits do not wait for the standby.
const ASYNCHRONOUS: [&str; 1] = ["synchronous_standby_names="];

/// A primary with a standby, each behind a network of its own, and three servers over both.
struct Cluster {
    primary: PostgresServer,
    standby: PostgresServer,
    /// Between primary and standby.
    stream: Relay,
    /// Between the servers and the primary.
    to_primary: Relay,
    /// Between the servers and the standby.
    to_standby: Relay,
    /// The servers, each over both databases.
    nodes: Vec<(Place, Serving)>,
    api_key: String,
}

impl Cluster {
    fn start(settings: &[&'static str]) -> Option<Self> {
        let primary = PostgresServer::start(settings)?;
        let (stream, to_primary) = (Relay::to(primary.port()), Relay::to(primary.port()));
        // A standby that sleeps before it looks for its primary again is promoted only then.
        let settings = ["synchronous_standby_names=", "wal_retrieve_retry_interval=100ms"];
        let standby = primary.standby(stream.port, "second", &settings);
        let to_standby = Relay::to(standby.port());
        let url = format!(
            "postgres://roadstead@127.0.0.1:{},127.0.0.1:{}/postgres",
            to_primary.port, to_standby.port
        );
        let node = || {
            let place = over(&url, KEY);
            let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
            serving.expect_errors(DATABASE_AWAY);
            (place, serving)
        };
        let first = node();
        let api_key = set_up(&first.1);
        let nodes = vec![first, node(), node()];
        Some(Cluster { primary, standby, stream, to_primary, to_standby, nodes, api_key })
    }

    fn under_writes(&mut self, during: impl FnOnce(&mut Self, &dyn Fn(usize))) -> Found {
        let caller = |(_, serving): &(Place, Serving)| serving.caller(&self.api_key);
        let servers: Vec<_> = self.nodes.iter().map(caller).collect();
        under_writes(&servers, |wait| during(self, wait))
    }

    /// Waits until a commit waits for the standby: that of all writes that a server has begun.
    fn commits_wait(&self) {
        eventually("commits that wait for the standby", || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            let waiting: u32 = self.primary.sql(waiting).parse().unwrap();
            (waiting >= 1).then_some(())
        });
    }

    /// Reports, and compares all records with their indexes: nothing was written in part.
    fn ends(mut self, what: &str, found: Found) {
        let Found { acknowledged, refused, unknown, outage, .. } = &found;
        // Not println!, which the test runner holds back.
        let _ = writeln!(
            std::io::stderr(),
            "{what}: {acknowledged} acknowledged, {refused} refused, {unknown} unknown, \
             {outage:.1?} without an answer"
        );
        assert!(found.is_sound(), "{what}: {found:#?}");
        let checked = self.nodes[0].0.run(&["check", "--json"]);
        assert_eq!(checked.succeeds()["sound"], true, "{what}: {checked:?}");
        self.stop();
    }

    fn stop(&mut self) {
        self.nodes.iter_mut().for_each(|(_, serving)| stop(serving));
    }
}

#[test]
fn a_killed_primary_is_replaced_by_its_synchronous_standby_without_loss() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        cluster.primary.kill();
        cluster.standby.promote();
        wait(200);
    });
    cluster.ends("killed and promoted", found);
}

#[test]
fn a_killed_server_loses_nothing_that_it_acknowledged() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        // The first is the one that is asked in the end.
        for _ in 0..2 {
            let (_place, mut server) = cluster.nodes.pop().unwrap();
            server.kill();
            wait(200);
        }
    });
    assert!(found.unknown > 0, "nothing was under way: {found:#?}");
    cluster.ends("two servers killed", found);
}

#[test]
fn a_paused_primary_goes_on_without_loss() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        cluster.primary.signal(Signal::STOP);
        // The length of the pause is what is tested.
        std::thread::sleep(Duration::from_secs(4));
        cluster.primary.signal(Signal::CONT);
        wait(200);
    });
    cluster.ends("paused for 4 s", found);
}

#[test]
fn a_primary_that_is_cut_off_is_replaced_without_loss() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        cluster.stream.cut();
        cluster.to_primary.cut();
        cluster.standby.promote();
        wait(200);
        // What manages a cluster does not let the old one back as it is.
        cluster.primary.kill();
        cluster.stream.mend();
        cluster.to_primary.mend();
        wait(200);
    });
    cluster.ends("cut off and promoted", found);
}

#[test]
fn servers_that_still_reach_the_old_primary_go_on_at_the_new_one_without_loss() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        cluster.stream.cut();
        cluster.commits_wait();
        cluster.standby.promote();
        // Nobody stops the old one. It accepts writes, whose commits wait for the standby that it had.
        wait(200);
        cluster.primary.kill();
        wait(200);
    });
    cluster.ends("promoted beside the old primary", found);
}

/// The old primary reads on, and takes connections.
#[test]
fn while_the_new_primary_does_not_answer_nobody_reads_at_the_old_one() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let callers = cluster.nodes.iter().map(|(_, serving)| serving.caller(&cluster.api_key));
    let callers: Vec<_> = callers.collect();
    callers[0].post("/agents", json!({"stableKey": "ann", "name": "Old"})).ok();
    let name = |reply: &Reply| reply.json()["name"].as_str().unwrap().to_string();
    cluster.stream.cut();
    cluster.standby.promote();
    // What is acknowledged is at the new one: each of them goes on there.
    for (number, caller) in callers.iter().enumerate() {
        let rename = json!({"name": format!("New {number}")});
        within(Duration::from_secs(120), "a write", || {
            let renamed = caller.ask("PATCH", "/agents/ann").org_json(rename.clone()).try_send();
            renamed.is_ok_and(|reply| reply.status == 200).then_some(())
        });
    }
    let (name, last) = (&name, &format!("New {}", callers.len() - 1));
    cluster.to_standby.cut();
    std::thread::scope(|scope| {
        for caller in &callers {
            scope.spawn(move || {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_secs(20) {
                    let path = caller.in_org("/agents/ann");
                    let Ok(reply) = caller.ask("GET", &path).try_send() else { continue };
                    assert!(reply.status == 503 || name(&reply) == *last, "{}", reply.text());
                }
            });
        }
    });
    cluster.to_standby.mend();
    for caller in &callers {
        let path = caller.in_org("/agents/ann");
        eventually("reads go on", || {
            let reply = caller.ask("GET", &path).try_send().ok()?;
            (reply.status == 200).then(|| assert_eq!(name(&reply), *last))
        });
    }
    cluster.stop();
}

/// They may have been removed there, or it is another store, as after a restore.
#[test]
fn servers_without_rows_at_the_new_primary_go_on_refusing_writes_and_are_not_stopped() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let callers = cluster.nodes.iter().map(|(_, serving)| serving.caller(&cluster.api_key));
    let callers: Vec<_> = callers.collect();
    cluster.stream.cut();
    cluster.standby.promote();
    // Before they notice that the old one hangs, which takes seconds.
    cluster.standby.sql("DELETE FROM kv WHERE tbl IN (1, 3)");
    cluster.standby.sql("DELETE FROM kv_slot");
    std::thread::scope(|scope| {
        for caller in &callers {
            scope.spawn(move || {
                let begun = Instant::now();
                // They look elsewhere after 8 to 12 s.
                while begun.elapsed() < Duration::from_secs(25) {
                    let agent = json!({"stableKey": "ann", "name": "Ann"});
                    let asked = caller.ask("POST", "/agents").org_json(agent);
                    let Ok(reply) = asked.try_send() else { continue };
                    assert!(reply.status >= 400, "{}", reply.text());
                }
            });
        }
    });
    for (_, serving) in &mut cluster.nodes {
        serving.kill();
        let (_, _, log) = serving.ends();
        assert!(log.contains("has no row of this server"), "{log}");
        assert!(!log.contains("others have removed this server"), "{log}");
    }
}

#[test]
fn a_network_that_is_cut_for_a_while_costs_nothing() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        cluster.to_primary.cut();
        // The length of the cut is what is tested.
        std::thread::sleep(Duration::from_secs(4));
        cluster.to_primary.mend();
        wait(200);
    });
    cluster.ends("cut off for 4 s", found);
}

#[test]
fn a_write_that_only_a_restarted_primary_has_is_not_acknowledged() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&SYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        cluster.stream.cut();
        cluster.commits_wait();
        // It has the commits that waited, and waits for the standby no more.
        cluster.primary.crash();
        cluster.primary.resume();
        cluster.commits_wait();
        cluster.primary.kill();
        cluster.standby.promote();
        wait(200);
    });
    cluster.ends("restarted without its standby, then replaced", found);
}

/// The control: without it the other tests might be blind.
#[test]
fn an_asynchronous_standby_that_is_behind_loses_writes_and_that_is_noticed() {
    let _one = ONE.lock();
    let Some(mut cluster) = Cluster::start(&ASYNCHRONOUS) else { return };
    let found = cluster.under_writes(|cluster, wait| {
        cluster.stream.cut();
        wait(200);
        cluster.primary.kill();
        cluster.standby.promote();
        wait(200);
    });
    assert!(found.lost.len() > 50, "no loss was found: {found:#?}");
    cluster.stop();
}
