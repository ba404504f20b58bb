//! An installation with some megabytes of records, and what the API answers about them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::Caller;
use crate::process::{Place, Serving};

/// Tools of 300 kB each: so many that copying them takes several steps.
const TOOLS: u64 = 40;

const TASKS: usize = 50;

/// What there is.
pub struct Filled {
    pub team: String,
    pub agent: String,
    /// A memory that is there, and one that was deleted.
    pub memory: String,
}

impl Filled {
    pub fn memories(&self) -> String {
        format!("/teams/{}/agents/{}/memories", self.team, self.agent)
    }
}

/// Creates records, some of them with secrets; deletes a memory.
pub fn fill(acme: &Caller) -> Filled {
    let team = acme.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    acme.post("/agents", json!({"stableKey": "ann", "name": "Ann"})).ok();
    let hired = json!({"stableKey": "ann", "role": "member"});
    let agent = acme.post(&format!("/teams/{team}/agents"), hired).id();
    let environment = acme.post("/environments", json!({"slug": "e", "name": "E"})).id();
    let secret = format!("/environments/{environment}/secrets/TOKEN");
    acme.put(&secret, json!({"value": "sesame-sesame"})).ok();
    for n in 0..TOOLS {
        let config = json!({"text": noise(n + 1, 300_000)});
        acme.post("/tools", json!({"name": "t", "type": "x", "providerConfig": config})).ok();
    }
    for n in 0..TASKS {
        let task = json!({"title": format!("task {n}")});
        acme.post(&format!("/teams/{team}/tasks"), task).ok();
    }
    let mut filled = Filled { team, agent, memory: String::new() };
    let remember = |text: &str| acme.post(&filled.memories(), json!({"content": text})).id();
    let (gone, kept) = (remember("gone"), remember("kept"));
    acme.delete(&format!("{}/{gone}", filled.memories())).ok();
    filled.memory = kept;
    filled
}

/// Text that compression does not make small.
fn noise(seed: u64, bytes: usize) -> String {
    let mut dice = seed;
    let next = std::iter::repeat_with(|| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        format!("{dice:016x}")
    });
    next.take(bytes / 16).collect()
}

/// What the API answers about the records, by path.
pub fn answers(acme: &Caller, filled: &Filled) -> BTreeMap<String, Vec<Value>> {
    let tasks = format!("/teams/{}/tasks", filled.team);
    let paths =
        [tasks, filled.memories(), "/agents".into(), "/tools".into(), "/environments".into()];
    paths.into_iter().map(|path| (path.clone(), acme.walk(&path, 100))).collect()
}

/// A data directory that is filled, whose server has stopped: with an API key of its owner.
pub fn directory() -> (Place, String, Filled, BTreeMap<String, Vec<Value>>) {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let acme = serving.caller(&key);
    let filled = fill(&acme);
    let answered = answers(&acme, &filled);
    stop(&mut serving);
    (place, key, filled, answered)
}

pub fn stop(serving: &mut Serving) {
    serving.signal("TERM");
    assert_eq!(serving.ends().0, Some(0));
}
