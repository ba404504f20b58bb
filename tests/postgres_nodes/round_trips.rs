//! How often a request waits for the database server. Over a network, that is what it takes.

use serde_json::json;

use super::{Node, set_up, team};
use crate::client::{Caller, Reply, eventually, raw};
use crate::postgres_server::PostgresServer;

/// The round trips of a kind of request, each asked for while the server does nothing else. Where it begins
/// something meanwhile, as on a busy machine, there are more: those of a quarter of the requests count.
fn usual(node: &Node, ask: impl FnMut(usize)) -> u32 {
    usual_of(node, 21, ask)
}

/// The same of so many requests.
fn usual_of(node: &Node, times: usize, mut ask: impl FnMut(usize)) -> u32 {
    let counted = || node.metric("roadstead_database_round_trips_total") as u32;
    // What the request for the count takes itself.
    let own = (0..5).map(|_| counted()).collect::<Vec<_>>();
    let own = own.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
    let mut counts: Vec<_> = (0..times)
        .map(|nth| {
            let before = eventually("quiet", || {
                let before = counted();
                (counted() - before == own).then_some(before + own)
            });
            ask(nth);
            counted() - before - own
        })
        .collect();
    counts.sort();
    counts[counts.len() / 4]
}

#[test]
fn a_task_is_read_in_3_round_trips_and_created_in_5_also_after_access_was_changed_elsewhere() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let [node, other] = [Node::start(&database.url()), Node::start(&database.url())];
    let owner = set_up(&node);
    let team = owner.post("/teams", json!({"slug": "t", "name": "T"})).id();
    let tasks = format!("/teams/{team}/tasks");
    let task = owner.post(&tasks, json!({"title": "Read me"})).id();
    let one = format!("{tasks}/{task}");
    let of = |ask: &mut dyn FnMut(usize)| usual(&node, ask);
    // Nothing is asked about what can be no credential.
    let credential = owner.credential().to_string();
    let (signed, _) = credential.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", "A".repeat(43));
    let unquoted = Caller::anonymous(node.address, "acme");
    for bearer in ["nonsense".to_string(), format!("\"{credential}\""), forged] {
        let refused = unquoted.with_bearer(&bearer);
        let trips = of(&mut |_| drop(refused.get(&one).refused(401, "unauthenticated")));
        assert_eq!(trips, 0, "{bearer}");
    }
    for _ in 0..2 {
        let read = of(&mut |_| drop(owner.get(&one).ok()));
        let listed = of(&mut |_| drop(owner.get(&tasks).ok()));
        let title = |nth: usize| json!({"title": nth.to_string()});
        let created = of(&mut |nth| drop(owner.post(&tasks, title(nth)).ok()));
        let updated = of(&mut |nth| drop(owner.patch(&one, title(nth)).ok()));
        crate::postgres_server::say(&format!(
            "round trips of a task: read {read}, listed {listed}, created {created}, updated {updated}"
        ));
        assert!(read <= 3 && listed <= 3 && created <= 5 && updated <= 5);
        let key = other.caller(&owner).post("/api-keys", json!({"name": "a key"})).id();
        other.caller(&owner).delete(&format!("/api-keys/{key}")).ok();
    }
    node.stop();
    other.stop();
}

/// A page of the console, as a browser with these cookies asks for it.
fn page(node: &Node, path: &str, cookies: &str) -> Reply {
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\nCookie: {cookies}\r\n\
         Sec-Fetch-Site: same-origin\r\nConnection: close\r\n\r\n"
    );
    raw(node.address, head.as_bytes())
}

/// The cookie of a session: its name begins as those do that are set before there is one.
fn cookie(node: &Node, owner: &Caller) -> String {
    let page = page(node, "/sign-in", "");
    let mut set = page.headers.iter().filter(|(name, _)| name == "set-cookie");
    let (name, _) = set.find_map(|(_, cookie)| cookie.split_once("-visitor=")).unwrap();
    format!("{name}={}", owner.credential())
}

#[test]
fn a_message_a_prompt_a_page_and_a_sign_in_take_few_round_trips() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=200"]) else {
        return;
    };
    let node = Node::start(&database.url());
    let owner = set_up(&node);
    let (team, wakes) = team(&owner, "t");
    let agent = wakes.split('/').nth(4).unwrap();
    owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let prompt = json!({"registryRef": "acme/main", "artifactType": "prompt", "name": "p",
        "version": "1.0.0", "source": "Hello."});
    owner.post("/registries/artifacts", prompt).ok();
    let label = json!({"registryRef": "acme/main", "promptName": "p", "label": "live",
        "version": "1.0.0"});
    owner.patch("/registries/artifacts/labels", label).ok();

    let message = |nth: usize| json!({"toAgentId": agent, "body": nth.to_string()});
    let messages = format!("{team}/messages");
    let sent = usual(&node, |nth| drop(owner.post(&messages, message(nth)).ok()));
    let content = "/registries/artifact-versions/content?registryRef=acme/main&promptName=p";
    let content = format!("{content}&version=live");
    let read = usual(&node, |_| drop(owner.get(&content).ok()));
    let cookie = cookie(&node, &owner);
    let shown = usual(&node, |_| {
        let prompts = page(&node, "/o/acme/prompts", &cookie);
        assert!(prompts.status == 200 && prompts.text().contains("Main"), "{}", prompts.text());
    });
    // The last: after it rights are read again. Ten in a minute are allowed. It takes so long that what the
    // server does by itself is often counted with its own eight.
    let ada = json!({"email": "ada@acme.test", "password": "seven green bottles"});
    let anonymous = Caller::anonymous(node.address, "acme");
    let signed_in = usual_of(&node, 7, |_| {
        drop(anonymous.ask("POST", "/auth/sign-in").json(&ada).send().ok());
    });
    crate::postgres_server::say(&format!(
        "round trips: message sent {sent}, prompt read at a label {read}, page of the console {shown}, \
         sign-in {signed_in}"
    ));
    assert!(sent <= 5 && read <= 6 && shown <= 22 && signed_in <= 16);
    node.stop();
}
