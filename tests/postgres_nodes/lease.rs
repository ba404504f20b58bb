//! The background work goes on at another server when the one that does it dies or is paused.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::{Node, holder, three, verify_audit_logs};
use crate::client::{Caller, within};

/// What is posted here: how often each event was.
#[derive(Clone, Default)]
struct Posted(Arc<Mutex<BTreeMap<String, usize>>>);

impl Posted {
    /// Listens; each answer takes 20 ms, so that some are under way at any time.
    fn listen() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let posted = Posted::default();
        let noted = posted.clone();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let noted = noted.clone();
                std::thread::spawn(move || {
                    let Some(sent) = crate::receiver::read(&mut stream) else { return };
                    let title = sent.json()["data"].to_string();
                    *noted.0.lock().unwrap().entry(title).or_default() += 1;
                    std::thread::sleep(Duration::from_millis(20));
                    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                });
            }
        });
        (posted, url)
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn most(&self) -> usize {
        self.0.lock().unwrap().values().copied().max().unwrap_or_default()
    }
}

/// Has milestones posted; returns the path of the team's timeline.
fn subscribe(owner: &Caller, url: &str) -> String {
    let body = json!({"name": "Hook", "workflow": "webhook", "config": {"url": url}});
    let channel = owner.post("/notifications/channels", body).id();
    let kind = "team.timeline_milestone";
    let subscription = json!({"channelId": channel, "eventType": kind});
    owner.post("/notifications/subscriptions", subscription).ok();
    let team = owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    format!("/teams/{team}/timeline")
}

fn ship(node: &Node, owner: &Caller, timeline: &str, titles: std::ops::Range<usize>) {
    let caller = node.caller(owner);
    for title in titles {
        let entry = json!({"kind": "milestone", "title": format!("Shipped {title}.")});
        caller.post(timeline, entry).ok();
    }
}

#[test]
fn deliveries_go_on_within_ten_seconds_when_the_server_that_makes_them_is_killed() {
    let Some((database, mut nodes, owner)) = three() else { return };
    let (posted, url) = Posted::listen();
    let timeline = subscribe(&owner, &url);
    let killed = nodes.remove(holder(&nodes));
    ship(&nodes[0], &owner, &timeline, 0..20);
    within(Duration::from_secs(30), "the first delivery", || (posted.len() > 2).then_some(()));
    ship(&nodes[1], &owner, &timeline, 20..40);
    let at = Instant::now();
    killed.kill();
    let before = posted.len();
    ship(&nodes[0], &owner, &timeline, 40..50);
    let next = holder(&nodes);
    let taken_after = at.elapsed();
    within(Duration::from_secs(60), "the next delivery", || (posted.len() > before).then_some(()));
    let went_on_after = at.elapsed();
    within(Duration::from_secs(30), "the last delivery", || (posted.len() == 50).then_some(()));
    crate::postgres_server::say(&format!(
        "the lease was taken over after {taken_after:?}, deliveries went on after {went_on_after:?}; \
         {before} of 50 were delivered before, none more than {} times",
        posted.most()
    ));
    // Eight seconds of silence, which begin again where the others could not look for three seconds; ten
    // minutes later its rows would be removed in any case.
    assert!(went_on_after < Duration::from_secs(40), "{went_on_after:?}");
    // Those under way may be made twice.
    assert!(posted.most() <= 2, "{posted:?}", posted = posted.0);
    // A clean stop hands the work over at once.
    let (stopped, stays) = (nodes.remove(next), nodes.remove(0));
    let at = Instant::now();
    stopped.stop();
    within(Duration::from_secs(7), "the lease", || stays.has_lease().then_some(()));
    crate::postgres_server::say(&format!("handed over {:?} after the signal", at.elapsed()));
    ship(&stays, &owner, &timeline, 50..55);
    within(Duration::from_secs(20), "the delivery", || (posted.len() == 55).then_some(()));
    stays.stop();
    verify_audit_logs(&database.url());
}

#[test]
fn a_paused_server_loses_the_background_work_and_serves_on() {
    let Some((database, nodes, owner)) = three() else { return };
    let (posted, url) = Posted::listen();
    let timeline = subscribe(&owner, &url);
    let paused = holder(&nodes);
    ship(&nodes[paused], &owner, &timeline, 0..5);
    nodes[paused].signal(Signal::STOP);
    let others: Vec<_> = nodes.iter().enumerate().filter(|(at, _)| *at != paused).collect();
    ship(others[0].1, &owner, &timeline, 5..15);
    let next = within(Duration::from_secs(60), "the takeover", || {
        others.iter().find(|(_, node)| node.has_lease()).map(|(at, _)| *at)
    });
    within(Duration::from_secs(30), "all deliveries", || (posted.len() == 15).then_some(()));
    nodes[paused].signal(Signal::CONT);
    ship(&nodes[paused], &owner, &timeline, 15..30);
    within(Duration::from_secs(30), "the end of its lease", || {
        (!nodes[paused].has_lease()).then_some(())
    });
    within(Duration::from_secs(30), "all deliveries", || (posted.len() == 30).then_some(()));
    assert!(nodes[next].has_lease() && !nodes[paused].has_lease());
    assert!(nodes[paused].log().contains("another server does the background work now"));
    assert!(posted.most() <= 2, "{:?}", posted.0);
    assert_eq!(nodes[paused].caller(&owner).get("/teams").items().len(), 1);
    for node in nodes {
        node.stop();
    }
    verify_audit_logs(&database.url());
}
