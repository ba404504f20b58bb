//! Deployments under load on a server that is killed at random moments: the data is sound after each
//! kill, and in the end every job is finished with each target applied at most once.
//!
//! `ROADSTEAD_TEST_CYCLES` sets the number of kills (4), `ROADSTEAD_TEST_SEED` repeats a failed run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Caller;
use crate::deploying::{LOOPBACK, TEMPLATE, UNFINISHED, agents, assert_once, body_of};
use crate::dice::{Dice, from_environment};
use crate::process::Serving;
use crate::receiver::Receiver;

const CALLERS: usize = 4;

/// A person or pipeline that deploys, approves, cancels and rolls back.
struct Deployer {
    name: usize,
    requests: u64,
    /// The paths of its jobs.
    jobs: Vec<String>,
    /// A request whose response was lost.
    unanswered: Option<Request>,
}

#[derive(Clone)]
struct Request {
    key: String,
    path: String,
    body: Value,
}

impl Deployer {
    /// Sends requests until the server stops responding.
    fn work(&mut self, api: &Caller, mut dice: Dice) {
        loop {
            let (path, body) = self.choose(&mut dice);
            self.requests += 1;
            let key = format!("{} {}", self.name, self.requests);
            self.unanswered = Some(Request { key, path, body });
            if self.send(api).is_none() {
                return;
            }
        }
    }

    fn choose(&self, dice: &mut Dice) -> (String, Value) {
        let job = dice.below(self.jobs.len().max(1) as u64) as usize;
        if let Some(job) = self.jobs.get(job) {
            let vote = json!({"actingUserEmail": "ada@acme.test"});
            match dice.below(8) {
                0 => return (format!("{job}/cancel"), json!({})),
                1 => return (format!("{job}/rollback"), json!({"force": true})),
                2 | 3 => return (format!("{job}/approve"), vote),
                4 => {
                    let new = json!({"toolIds": TEMPLATE.tools, "environment": "dev"});
                    return ("/agents/tool-deployments".into(), new);
                }
                _ => {}
            }
        }
        let all = agents();
        let (start, count) = (dice.below(10) as usize, 1 + dice.below(4) as usize);
        let environment = ["dev", "prod"][dice.below(2) as usize];
        let version = ["1.0.0", "1.1.0"][dice.below(2) as usize];
        let mut body = body_of(&all[start..start + count], environment, version);
        // Only p is posted to.
        body["provider"] = ["p", "q"][dice.below(2) as usize].into();
        ("/agents/deployments".into(), body)
    }

    /// Sends the request without a response; it has its effect once, now or before.
    fn send(&mut self, api: &Caller) -> Option<()> {
        let Some(Request { key, path, body }) = self.unanswered.clone() else { return Some(()) };
        let ask = api.ask("POST", &path).with("Idempotency-Key", &key).org_json(body);
        let reply = ask.try_send().ok()?;
        // Jobs for dev have no approvers, and many are finished already.
        assert!([200, 403, 409].contains(&reply.status), "{path}: {reply:?}");
        self.unanswered = None;
        if reply.status == 200 && !path.ends_with("/approve") && !path.ends_with("/cancel") {
            let job = reply.ok()["id"].as_str().unwrap().to_string();
            self.jobs.push(format!("/agents/deployments/{job}"));
        }
        Some(())
    }
}

#[test]
fn deployments_under_load_survive_kills() {
    let cycles = from_environment("ROADSTEAD_TEST_CYCLES").unwrap_or(4);
    let mut dice = Dice::new();
    let place = TEMPLATE.place.copy();
    let receiver = Receiver::answering(&[204]);
    let mut serving = Serving::start(&place, &LOOPBACK);
    let credential = json!({"apiKey": "k", "endpoint": receiver.url});
    let path = format!("/environments/{}/provider-credentials/p", TEMPLATE.dev);
    serving.caller(&TEMPLATE.key).put(&path, credential).ok();
    let new = |name| Deployer { name, requests: 0, jobs: Vec::new(), unanswered: None };
    let mut deployers: Vec<_> = (0..CALLERS).map(new).collect();
    for cycle in 0..cycles {
        let after = Duration::from_millis(100 + dice.below(500));
        println!("cycle {cycle}: killed after {after:?}");
        std::thread::scope(|scope| {
            for deployer in &mut deployers {
                let (api, dice) = (serving.caller(&TEMPLATE.key), Dice(dice.below(u64::MAX) | 1));
                scope.spawn(move || {
                    deployer.send(&api)?;
                    deployer.work(&api, dice);
                    Some(())
                });
            }
            // Time decides only when the process is killed.
            std::thread::sleep(after);
            serving.kill();
        });
        assert_eq!(place.run(&["check", "--json"]).succeeds()["wrong"], json!(0));
        serving = Serving::start(&place, &LOOPBACK);
    }
    let api = serving.caller(&TEMPLATE.key);
    for deployer in &mut deployers {
        deployer.send(&api).expect("it is not killed");
    }
    let jobs = all_finished(&api);
    let known: usize = deployers.iter().map(|deployer| deployer.jobs.len()).sum();
    println!("{} jobs", jobs.len());
    assert_eq!(jobs.len(), known + 2, "two are of the template, and none is unknown");
    assert!(known > CALLERS, "they hardly deployed anything");
    let unrecorded = assert_once(&api.with_bearer(&TEMPLATE.token), &jobs, &receiver.arrived());
    // A kill may leave open whether an endpoint accepted a message at the last try.
    let targets = jobs.iter().flat_map(|job| job["targets"].as_array().unwrap());
    let failed = targets.filter(|target| target["state"] == "failed").count();
    assert!(unrecorded <= failed, "{unrecorded} messages were not recorded, {failed} failed");
    drop(serving);
    assert_eq!(place.run(&["check", "--json"]).succeeds()["wrong"], json!(0));
}

/// Approves what waits for that, and waits until all jobs are finished.
fn all_finished(api: &Caller) -> Vec<Value> {
    for job in api.walk("/agents/deployments?state=pending_approval", 50) {
        let path = format!("/agents/deployments/{}/approve", job["id"].as_str().unwrap());
        api.post(&path, json!({"actingUserEmail": "ada@acme.test"})).ok();
    }
    let begun = Instant::now();
    loop {
        let open = |state| api.get(&format!("/agents/deployments?state={state}&limit=1")).items();
        if UNFINISHED.iter().all(|state| open(state).is_empty()) {
            return api.walk("/agents/deployments", 50);
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "jobs do not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}
