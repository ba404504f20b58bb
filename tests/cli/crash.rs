//! Killed under load, repeatedly: acknowledged writes are there with their values, nothing is partial,
//! and a repeated unacknowledged request is done once.
//!
//! `ROADSTEAD_TEST_CYCLES` sets the number of cycles (5), `ROADSTEAD_TEST_SEED` repeats a failed run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Caller;
use crate::dice::{Dice, from_environment};
use crate::process::{Place, Serving};
use crate::shelf::{FLAGGED, REGISTRY, Shelf};

const WRITERS: usize = 8;

/// The state of one writer, which has its own agent, prompt and other records.
struct Writer {
    stable_key: String,
    shelf: Shelf,
    agent: String,
    team: String,
    /// Possible responses of a path, the most likely one last.
    things: BTreeMap<String, Vec<Value>>,
    /// Those written since the last verification.
    fresh: BTreeSet<String>,
    /// Whether a memory must be recalled; `None` if the response to its deletion was lost.
    memories: BTreeMap<String, Option<bool>>,
    /// Numbers of tasks and versions created.
    tasks: Vec<String>,
    versions: u64,
    requests: u64,
    /// A request with an `Idempotency-Key` whose response was lost.
    unanswered: Option<(String, String, Value)>,
}

impl Writer {
    /// Writes until the server stops responding.
    fn work(&mut self, caller: &Caller, mut dice: Dice) {
        while self.write(caller, &mut dice).is_some() {}
    }

    /// Writes one random change, if the server responds.
    fn write(&mut self, caller: &Caller, dice: &mut Dice) -> Option<()> {
        let title = format!("{} {}", self.stable_key, dice.below(u64::MAX));
        let memories = format!("/teams/{}/agents/{}/memories", self.team, self.agent);
        match dice.below(13) {
            0..=2 => {
                let tasks = format!("/teams/{}/tasks", self.team);
                let made = self.post(caller, &tasks, json!({"title": title}))?;
                self.know_task(&made);
            }
            3..=4 if !self.tasks.is_empty() => {
                let task = &self.tasks[dice.below(self.tasks.len() as u64) as usize];
                self.fresh.insert(task.clone());
                let before = self.things[task].last().unwrap().clone();
                let ask = caller.ask("PATCH", task).org_json(json!({"title": title}));
                let Ok(reply) = ask.try_send() else {
                    // Either as it was, or with the new title.
                    self.things
                        .get_mut(task)?
                        .push(json!({"number": before["number"], "title": title}));
                    return None;
                };
                self.things.insert(task.clone(), vec![reply.ok()]);
            }
            5 => {
                let versions = format!("/agents/{}/versions", self.stable_key);
                let made = self.post(caller, &versions, json!({}))?;
                self.know_version(&made);
            }
            6 => {
                let made = self.post(caller, &memories, json!({"content": title}))?;
                self.memories.insert(made["id"].as_str()?.into(), Some(true));
            }
            7 => {
                let live = self.memories.iter().find(|(_, live)| **live == Some(true));
                let Some(id) = live.map(|(id, _)| id.clone()) else { return Some(()) };
                self.memories.insert(id.clone(), None);
                let path = caller.in_org(&format!("{memories}/{id}"));
                caller.ask("DELETE", &path).try_send().ok()?.ok();
                self.memories.insert(id, Some(false));
            }
            8 => {
                let new = self.shelf.new_version(&title);
                let made = self.post(caller, "/registries/artifacts", new)?;
                self.shelf.know_version(&made);
            }
            9 => {
                let (drafts, new) = self.shelf.new_draft(&title);
                let saved = self.post(caller, &drafts, new)?;
                self.shelf.know_draft(&saved);
            }
            10 => {
                let Some(publish) = self.shelf.publishing() else { return Some(()) };
                let made = self.post(caller, &publish, json!({"registryRef": REGISTRY}))?;
                self.shelf.know_version(&made);
            }
            11 => {
                let Some(clear) = self.shelf.clearing(caller) else { return Some(()) };
                let flag = self.post(caller, &clear, json!({}))?;
                self.shelf.know_cleared(&flag);
            }
            _ => self.shelf.move_label(caller, dice.below(u64::MAX))?,
        }
        Some(())
    }

    fn post(&mut self, caller: &Caller, path: &str, body: Value) -> Option<Value> {
        self.requests += 1;
        let key = format!("{} {}", self.stable_key, self.requests);
        self.unanswered = Some((path.into(), key.clone(), body.clone()));
        let ask = caller.ask("POST", path).with("Idempotency-Key", &key).org_json(body);
        let made = ask.try_send().ok()?.ok();
        self.unanswered = None;
        Some(made)
    }

    /// Repeats the request without a response; it takes effect now or did before.
    fn repeat(&mut self, caller: &Caller) {
        let Some((path, key, body)) = self.unanswered.take() else { return };
        let ask = caller.ask("POST", &path).with("Idempotency-Key", &key).org_json(body);
        let made = ask.send().ok();
        match path.rsplit('/').next() {
            Some("tasks") => self.know_task(&made),
            Some("versions") => self.know_version(&made),
            Some("artifacts" | "publish") => self.shelf.know_version(&made),
            Some("drafts") => self.shelf.know_draft(&made),
            Some("clear") => self.shelf.know_cleared(&made),
            _ => {
                self.memories.insert(made["id"].as_str().unwrap().into(), Some(true));
            }
        }
    }

    fn know_task(&mut self, task: &Value) {
        let path = format!("/teams/{}/tasks/{}", self.team, task["id"].as_str().unwrap());
        self.tasks.push(path.clone());
        self.fresh.insert(path.clone());
        self.things.insert(path, vec![task.clone()]);
    }

    fn know_version(&mut self, version: &Value) {
        self.versions += 1;
        // No other writer creates versions of this agent.
        assert_eq!(version["version"], self.versions);
        let path = format!("/agents/{}/versions/{}", self.stable_key, self.versions);
        self.fresh.insert(path.clone());
        self.things.insert(path, vec![version.clone()]);
    }

    /// Fails unless all writes are as acknowledged.
    fn verify(&mut self, caller: &Caller) {
        for path in std::mem::take(&mut self.fresh) {
            let expected = self.things.get_mut(&path).unwrap();
            let found = caller.get(&path).ok();
            let fits = |expected: &Value| {
                let fields = expected.as_object().unwrap();
                fields.iter().all(|(name, value)| found[name] == *value)
            };
            assert!(expected.iter().any(fits), "{path}: {found} is none of {expected:?}");
            *expected = vec![found];
        }
        let path = format!("/teams/{}/agents/{}/memories", self.team, self.agent);
        let recalled = caller.walk(&path, 200);
        let recalled: BTreeSet<_> = recalled.iter().map(|m| m["id"].as_str().unwrap()).collect();
        for (id, live) in &mut self.memories {
            let found = recalled.contains(id.as_str());
            assert!(live.is_none_or(|live| live == found), "the memory {id}: {found}");
            *live = Some(found);
        }
        // No unknown ones.
        assert!(recalled.iter().all(|id| self.memories.contains_key(*id)));
        let made = caller.get(&format!("/agents/{}", self.stable_key)).ok();
        assert_eq!(made["latestVersion"].as_u64().unwrap_or(0), self.versions);
        self.shelf.verify(caller);
    }
}

/// Creates the registry with a promptlet that all texts import and a policy that flags some of them.
fn open_the_registry(owner: &Caller) {
    let registry = json!({"slug": "main", "name": "Main"});
    let registry = owner.post("/registries", registry).id();
    let rules = json!([{"type": "forbidPattern", "value": FLAGGED}]);
    let policy = json!({"name": "P", "severity": "warning", "rules": rules});
    let policy = owner.post("/governance/policies", policy).id();
    let assignments = format!("/governance/policies/{policy}/assignments");
    owner.post(&assignments, json!({"registryId": registry})).ok();
    let tone = json!({
        "registryRef": REGISTRY, "artifactType": "promptlet", "name": "tone", "version": "1.0.0",
        "source": "calm {{mood}}",
    });
    owner.post("/registries/artifacts", tone).ok();
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let cycles = from_environment("ROADSTEAD_TEST_CYCLES").unwrap_or(5);
    let mut dice = Dice::new();
    let place = Place::new();
    let password = "correct horse battery";
    let made = place.init(&["--json"], Some(password)).succeeds();
    let key = made["apiKey"]["key"].as_str().unwrap().to_string();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let ada = serving.caller(&key);
    let signed_in = json!({"email": "ada@acme.test", "password": password});
    let session = ada.with_fields(&[]).post("/auth/sign-in", signed_in).ok();
    open_the_registry(&ada.with_bearer(session["token"].as_str().unwrap()));
    let team = ada.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let stable_key = format!("agent-{n}");
            ada.post("/agents", json!({"stableKey": stable_key, "name": "A"})).ok();
            let body = json!({"stableKey": stable_key, "role": "member"});
            let agent = ada.post(&format!("/teams/{team}/agents"), body).id();
            Writer {
                shelf: Shelf::new(format!("prompt_{n}")),
                stable_key,
                agent,
                team: team.clone(),
                things: BTreeMap::new(),
                fresh: BTreeSet::new(),
                memories: BTreeMap::new(),
                tasks: Vec::new(),
                versions: 0,
                requests: 0,
                unanswered: None,
            }
        })
        .collect();

    for cycle in 0..cycles {
        let after = Duration::from_millis(20 + dice.below(480));
        println!("cycle {cycle}: killed after {after:?}");
        let callers: Vec<_> = writers.iter().map(|_| serving.caller(&key)).collect();
        std::thread::scope(|scope| {
            for (writer, caller) in writers.iter_mut().zip(callers) {
                let dice = Dice(dice.below(u64::MAX) | 1);
                scope.spawn(move || writer.work(&caller, dice));
            }
            // Time decides only when the process is killed.
            std::thread::sleep(after);
            serving.kill();
        });

        let checked = place.run(&["check", "--json"]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        serving = Serving::start(&place, &["--rate-limit", "0"]);
        let ada = serving.caller(&key);
        for writer in &mut writers {
            writer.repeat(&ada);
            writer.verify(&ada);
        }
        // There are no unknown tasks and no gaps in the numbers.
        let tasks = ada.walk(&format!("/teams/{team}/tasks"), 200);
        let numbers: BTreeSet<_> = tasks.iter().map(|t| t["number"].as_u64().unwrap()).collect();
        let made: usize = writers.iter().map(|writer| writer.tasks.len()).sum();
        assert_eq!((tasks.len(), numbers.len()), (made, made));
        assert_eq!(numbers.last().copied().unwrap_or(0), made as u64);
    }
    // Old writes have not changed.
    let ada = serving.caller(&key);
    for writer in &mut writers {
        writer.fresh = writer.things.keys().cloned().collect();
        writer.shelf.refresh();
        writer.verify(&ada);
    }
    let published: usize = writers.iter().map(|writer| writer.shelf.versions()).sum();
    let tone = format!("registryRef={REGISTRY}&promptName=tone&artifactType=promptlet");
    let dependents = format!("/registries/artifact-versions/dependents?{tone}");
    assert_eq!(ada.walk(&dependents, 200).len(), published);
    let written = published + writers.iter().map(|writer| writer.things.len()).sum::<usize>();
    assert!(written > WRITERS, "they hardly wrote anything");
    println!("{written} things were written");
}
