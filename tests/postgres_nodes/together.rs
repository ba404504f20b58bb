//! What one server does is known to the others.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Node, send, set_up, team, three};
use crate::client::{Caller, eventually, within};
use crate::postgres_server::PostgresServer;
use crate::{KEY, Served};

#[test]
fn any_server_sets_the_store_up_and_a_key_revoked_at_one_is_refused_by_the_others() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let url = database.url();
    let nodes = [Node::start(&url), Node::start(&url), Node::start(&url)];
    for node in &nodes {
        assert!(node.setup_link.is_some());
        let early = Caller::anonymous(node.address, "acme");
        early.ask("GET", "/organizations").send().refused(503, "setup_required");
    }
    let token = |node: &Node| node.setup_link.clone().unwrap().rsplit('#').next().map(String::from);
    assert_eq!(token(&nodes[0]), token(&nodes[2]));
    let owner = set_up(&nodes[1]);
    for node in &nodes {
        node.caller(&owner).get("/tools").ok();
    }
    for (at, node) in nodes.iter().enumerate() {
        let made = node.caller(&owner).post("/api-keys", json!({"name": "a key"})).ok();
        let key = owner.with_key(made["key"].as_str().unwrap());
        for other in &nodes {
            other.caller(&key).get("/tools").ok();
        }
        let path = format!("/api-keys/{}", made["id"].as_str().unwrap());
        node.caller(&owner).delete(&path).ok();
        for step in [1, 2, 0] {
            let other = &nodes[(at + step) % 3];
            other.caller(&key).get("/tools").refused(401, "unauthenticated");
        }
    }
    for node in nodes {
        node.stop();
    }
}

#[test]
fn a_session_that_is_ended_at_one_server_is_refused_by_the_others() {
    let Some((_database, nodes, _)) = three() else { return };
    let credentials = json!({"email": "ada@acme.test", "password": "seven green bottles"});
    for (at, node) in nodes.iter().enumerate() {
        let anonymous = Caller::anonymous(node.address, "acme");
        let begun = anonymous.ask("POST", "/auth/sign-in").json(&credentials).send().ok();
        let session = anonymous.with_bearer(begun["token"].as_str().unwrap());
        // The second time all know it.
        for other in nodes.iter().chain(&nodes) {
            other.caller(&session).get("/tools").ok();
        }
        session.ask("POST", "/auth/sign-out").json(&json!({})).send().ok();
        for step in [1, 2, 0] {
            let other = &nodes[(at + step) % 3];
            other.caller(&session).get("/tools").refused(401, "unauthenticated");
        }
    }
    for node in nodes {
        node.stop();
    }
}

#[test]
fn a_long_poll_hears_at_once_of_a_message_sent_to_another_server() {
    let Some((_database, nodes, owner)) = three() else { return };
    let mut times = Vec::new();
    for round in 0..6 {
        let team = team(&owner, &format!("t{round}"));
        let (waits, sends) = (&nodes[round % 3], &nodes[(round + 1) % 3]);
        let mut poll = waits.poll(&owner, &format!("{}?wait=20", team.1));
        let sent = Instant::now();
        send(sends, &owner, &team);
        let woken = poll.reply(false).unwrap().items();
        times.push(sent.elapsed());
        assert_eq!(woken[0]["reason"], "direct_message", "{woken:?}");
    }
    times.sort();
    crate::postgres_server::say(&format!("woken by another server, with the send: {times:?}"));
    // Without notifications it would be between one and two seconds.
    assert!(times[0] < Duration::from_millis(700), "{times:?}");
}

#[test]
fn a_server_with_another_key_or_of_no_store_is_refused_and_others_join() {
    let Some(database) = PostgresServer::start(&["fsync=off"]) else { return };
    let url = database.url();
    let first = Served::start(&url, Some(KEY)).ok().unwrap();
    let second = Served::start(&url, Some(KEY)).ok().unwrap();
    assert_eq!(
        (&first.started["created"], &second.started["created"]),
        (&true.into(), &false.into())
    );
    let (code, errors) = Served::start(&url, Some(&KEY.replace('0', "1"))).err().unwrap();
    assert_eq!(code, Some(2), "{errors}");
    assert_eq!(first.stop(), Some(0));
    eventually("the lease", || {
        second.get("/metrics").contains("\nroadstead_background_work 1\n").then_some(())
    });
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn servers_that_start_at_once_found_one_store() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let url = database.url();
    let nodes = crate::client::at_once(3, |_| Node::start(&url));
    let owner = set_up(&nodes[2]);
    for (at, node) in nodes.iter().enumerate() {
        let tool = json!({"name": format!("t{at}"), "type": "function"});
        node.caller(&owner).post("/tools", tool).ok();
    }
    assert_eq!(nodes[0].caller(&owner).get("/tools").items().len(), 3);
    nodes[1].signal(Signal::TERM);
}

#[test]
fn writes_through_three_servers_at_once_all_succeed() {
    let Some((_database, nodes, owner)) = three() else { return };
    // The store is small, so that all keys are in a few pages of the index, which conflict.
    std::thread::scope(|scope| {
        for writer in 0..12 {
            let caller = nodes[writer % nodes.len()].caller(&owner);
            scope.spawn(move || {
                for nth in 0..15 {
                    let name = format!("w{writer}-{nth}");
                    caller.post("/tools", json!({"name": name, "type": "function"})).ok();
                }
            });
        }
    });
    assert_eq!(owner.walk("/tools", 100).len(), 12 * 15);
    let ran_again: f64 =
        nodes.iter().map(|node| node.metric("roadstead_transaction_conflicts_total")).sum();
    assert!(ran_again > 0.0, "nothing conflicted");
    for node in nodes {
        node.stop();
    }
}

#[test]
fn each_server_says_which_there_are_and_who_does_the_background_work() {
    let Some((database, mut nodes, owner)) = three() else { return };
    let count = |seen: &Value, flag: &str| {
        seen["nodes"].as_array().unwrap().iter().filter(|one| one[flag] == true).count()
    };
    // It is measured every ten seconds.
    let time = Duration::from_secs(30);
    let mut ids = nodes.iter().map(|node| {
        let seen = within(time, "three servers", || {
            let seen = node.caller(&owner).get("/system").ok();
            let is_whole = seen["nodes"].as_array().unwrap().len() == 3;
            (is_whole && count(&seen, "backgroundWork") == 1).then_some(seen)
        });
        assert_eq!((count(&seen, "answering"), &seen["storage"]["replicated"]), (1, &json!(false)));
        let own = seen["nodes"].as_array().unwrap().iter().find(|one| one["answering"] == true);
        let own = own.unwrap();
        let port = node.address.port().to_string();
        assert!(own["address"].as_str().unwrap().ends_with(&port), "{own}");
        assert_eq!(own["version"], env!("CARGO_PKG_VERSION"));
        own["id"].as_str().unwrap().to_string()
    });
    let ids: [String; 3] = std::array::from_fn(|_| ids.next().unwrap());
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);

    nodes.pop().unwrap().kill();
    let doctor = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
        command.args(["doctor", "--json"]).env("ROADSTEAD_STORE", database.url());
        let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        report["findings"].as_array().unwrap().clone()
    };
    let servers: Vec<_> = doctor().into_iter().filter(|one| one["check"] == "servers").collect();
    for (at, id) in ids.iter().enumerate() {
        let one = servers.iter().find(|one| one["message"].as_str().unwrap().contains(id)).unwrap();
        assert_eq!(one["level"], if at == 2 { "warning" } else { "ok" }, "{one}");
    }
}
