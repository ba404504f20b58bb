//! Wakes, when the server dies that holds the long polls of those who wait for them.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Node, team, three};
use crate::client::{Caller, eventually};

/// Agents that wait, and as many senders.
const AGENTS: usize = 6;

/// Messages to each agent.
const MESSAGES: usize = 25;

/// Longer than the lease of a wake, 60 s: one whose answer died with the server comes back after it.
const PATIENCE: Duration = Duration::from_secs(180);

/// The same caller at each server, who turns to the next one when a server fails.
struct Client {
    callers: Vec<Caller>,
    at: usize,
}

impl Client {
    fn new(nodes: &[Node], owner: &Caller, first: usize) -> Self {
        Client { callers: nodes.iter().map(|node| node.caller(owner)).collect(), at: first }
    }

    /// Asks until a server answers.
    fn ask(&mut self, ask: impl Fn(&Caller) -> io::Result<crate::client::Reply>) -> Value {
        let begun = Instant::now();
        loop {
            match ask(&self.callers[self.at]) {
                Ok(reply) if reply.status < 500 => return reply.ok(),
                failed => {
                    let failed = failed.map(|reply| reply.text());
                    assert!(begun.elapsed() < PATIENCE, "no server answers: {failed:?}");
                    self.at = (self.at + 1) % self.callers.len();
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

/// Sends the agent its messages, each with an `Idempotency-Key`; returns their ids.
fn send(mut client: Client, (team, wakes): &(String, String), sent: &AtomicUsize) -> Vec<String> {
    let agent = wakes.split('/').nth(4).unwrap();
    let send = |number: usize| {
        let message = json!({"toAgentId": agent, "body": format!("Number {number}")});
        let key = format!("{agent}-{number}");
        let posted = client.ask(|caller| {
            let ask = caller.ask("POST", &format!("{team}/messages"));
            ask.with("Idempotency-Key", &key).org_json(message.clone()).try_send()
        });
        sent.fetch_add(1, Ordering::SeqCst);
        posted["id"].as_str().unwrap().to_string()
    };
    (0..MESSAGES).map(send).collect()
}

/// Waits for wakes and acknowledges each, as an agent does, until there was one for each message;
/// returns the messages that it was woken for.
fn listen(mut client: Client, wakes: &str) -> BTreeSet<String> {
    let begun = Instant::now();
    let (mut acknowledged, mut messages) = (BTreeSet::new(), BTreeSet::new());
    while messages.len() < MESSAGES {
        assert!(begun.elapsed() < PATIENCE, "woken for {} of {MESSAGES}", messages.len());
        let path = format!("{wakes}?wait=5");
        let page = client.ask(|caller| caller.ask("GET", &caller.in_org(&path)).try_send());
        for wake in page["items"].as_array().unwrap() {
            let id = wake["id"].as_str().unwrap().to_string();
            assert!(!acknowledged.contains(&id), "it came again after it was acknowledged: {wake}");
            let body = json!({"wakeIds": [id]});
            client.ask(|caller| {
                caller.ask("POST", &format!("{wakes}/ack")).org_json(body.clone()).try_send()
            });
            messages.insert(wake["messageId"].as_str().unwrap().to_string());
            acknowledged.insert(id);
        }
    }
    messages
}

#[test]
fn every_message_wakes_its_agent_though_the_server_that_holds_its_long_poll_is_killed() {
    let Some((_database, mut nodes, owner)) = three() else { return };
    let teams: Vec<_> = (0..AGENTS).map(|at| team(&owner, &format!("t{at}"))).collect();
    let sent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // All agents wait at the same server, the senders write through all three.
        let agents: Vec<_> = teams
            .iter()
            .map(|(_, wakes)| {
                let client = Client::new(&nodes, &owner, 0);
                scope.spawn(move || listen(client, wakes))
            })
            .collect();
        eventually("all agents wait", || {
            (nodes[0].metric("roadstead_waiting_requests") == AGENTS as f64).then_some(())
        });
        let senders: Vec<_> = teams
            .iter()
            .enumerate()
            .map(|(at, team)| {
                let (client, sent) = (Client::new(&nodes, &owner, at % 3), &sent);
                scope.spawn(move || send(client, team, sent))
            })
            .collect();
        eventually("some messages", || {
            (sent.load(Ordering::SeqCst) > AGENTS * MESSAGES / 4).then_some(())
        });
        nodes.remove(0).kill();
        let before = sent.load(Ordering::SeqCst);
        assert!(before < AGENTS * MESSAGES, "it was killed too late");
        for (agent, sender) in agents.into_iter().zip(senders) {
            let messages: BTreeSet<_> = sender.join().unwrap().into_iter().collect();
            assert_eq!(messages.len(), MESSAGES);
            assert_eq!(agent.join().unwrap(), messages);
        }
        crate::postgres_server::say(&format!("the server was killed after {before} messages"));
    });
    let caller = nodes[0].caller(&owner);
    for (_, wakes) in &teams {
        assert_eq!(caller.get(&format!("{wakes}?peek=true")).items(), Vec::<Value>::new());
    }
    for node in nodes {
        node.stop();
    }
}

#[test]
fn a_wake_that_a_killed_server_handed_out_is_acknowledged_at_another() {
    let Some((_database, mut nodes, owner)) = three() else { return };
    let (path, wakes) = team(&owner, "t");
    let mut poll = nodes[0].poll(&owner, &format!("{wakes}?wait=20"));
    super::send(&nodes[1], &owner, &(path, wakes.clone()));
    let handed_out = poll.reply(false).unwrap().items();
    nodes.remove(0).kill();
    let caller = nodes[1].caller(&owner);
    // It is leased, which the other servers know.
    assert_eq!(caller.get(&wakes).items(), Vec::<Value>::new());
    let ids = json!({"wakeIds": [handed_out[0]["id"]]});
    assert_eq!(caller.post(&format!("{wakes}/ack"), ids).ok()["acknowledged"], 1);
    assert_eq!(caller.get(&format!("{wakes}?peek=true")).items(), Vec::<Value>::new());
}
