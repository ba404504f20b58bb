//! A server killed between any two steps of a deployment job, under the control of the storage
//! (`doomed`): the next one completes the job, and every target is applied exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::doomed::{Doomed, Moment, kill};
use crate::process::{PASSWORD, Place, Serving};
use crate::receiver::{Receiver, Sent};

/// One more than a step of a job applies.
const AGENTS: usize = 21;

pub const LOOPBACK: [&str; 4] = ["--allow-private-network", "127.0.0.0/8", "--rate-limit", "0"];

// ── What is deployed ─────────────────────────────────────────────────────────

/// A data directory with agents, tools, prompts and environments, to be copied.
pub struct Template {
    pub place: Place,
    pub key: String,
    /// A session of the owner.
    pub token: String,
    pub dev: String,
    pub tools: Vec<String>,
    /// A finished job that replaced an earlier one in `dev`.
    second: String,
}

pub static TEMPLATE: LazyLock<Template> = LazyLock::new(|| {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &LOOPBACK);
    let api = serving.caller(&key);
    let body = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = api.with_fields(&[]).post("/auth/sign-in", body).ok();
    let token = session["token"].as_str().unwrap().to_string();
    let owner = api.with_bearer(&token);
    owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    for version in ["1.0.0", "1.1.0"] {
        let prompt = json!({"registryRef": "main", "artifactType": "prompt", "name": "hello",
            "version": version, "source": format!("Hello from {version}.")});
        api.post("/registries/artifacts", prompt).ok();
    }
    let ada = session["user"]["id"].clone();
    let dev = api.post("/environments", json!({"slug": "dev", "name": "Dev"})).id();
    let approvals = json!({"approverIds": [ada]});
    api.post("/environments", json!({"slug": "prod", "name": "P", "approvals": approvals})).ok();
    for agent in agents() {
        api.post("/agents", json!({"stableKey": agent, "name": agent})).ok();
    }
    let tool = |name| api.post("/tools", json!({"name": name, "type": "mcp"})).id();
    let tools = ["a", "b"].map(tool).into();
    let mut second = String::new();
    for version in ["1.0.0", "1.1.0"] {
        let job = api.post("/agents/deployments", body_of(&agents(), "dev", version)).ok();
        second = job["id"].as_str().unwrap().into();
        eventually("it is deployed", || {
            let job = api.get(&format!("/agents/deployments/{second}")).ok();
            (job["state"] == "complete").then_some(())
        });
    }
    serving.signal("TERM");
    serving.ends();
    Template { place, key, token, dev, tools, second }
});

pub fn agents() -> Vec<String> {
    (0..AGENTS).map(|n| format!("agent-{n}")).collect()
}

pub fn body_of(agents: &[String], environment: &str, version: &str) -> Value {
    json!({"agentIds": agents, "promptName": "hello", "version": version, "registryRef": "main",
        "environment": environment, "provider": "p"})
}

// ── Scripts ──────────────────────────────────────────────────────────────────

/// A run of a script against a server that may be killed meanwhile.
struct Run<'a> {
    api: Caller,
    template: &'a Template,
    receiver: &'a Receiver,
}

pub const UNFINISHED: [&str; 3] = ["pending_approval", "approved", "running"];

/// What callers do. It is repeated after the kill, and each request has its effect once. Returns the
/// finished jobs; nothing once the server is gone.
type Script = fn(&Run) -> Option<Vec<Value>>;

impl Run<'_> {
    /// Posts; `name` tells the requests of a script from each other.
    fn post(&self, name: &str, path: &str, body: Value) -> Option<Value> {
        let ask = self.api.ask("POST", path).with("Idempotency-Key", name).org_json(body);
        Some(ask.try_send().ok()?.ok())
    }

    /// Waits for the end of a job.
    fn finished(&self, job: &Value) -> Option<Value> {
        self.watched(job, |_| {})
    }

    /// Waits for the end of a job; calls `check` with each state of it.
    fn watched(&self, job: &Value, check: fn(&Value)) -> Option<Value> {
        let path = self.api.in_org(&path_of(job, ""));
        eventually("the job ends", || match self.api.ask("GET", &path).try_send() {
            Err(_) => Some(None),
            Ok(reply) => {
                let job = reply.ok();
                check(&job);
                let is_waiting = UNFINISHED.contains(&job["state"].as_str().unwrap());
                (!is_waiting).then_some(Some(job))
            }
        })
    }

    fn deploy(
        &self,
        name: &str,
        agents: &[String],
        environment: &str,
        version: &str,
    ) -> Option<Value> {
        self.post(name, "/agents/deployments", body_of(agents, environment, version))
    }

    /// Sets the endpoint to which manifests for `dev` are posted, unless it is set: jobs that wait are
    /// not posted with a credential that was set again.
    fn set_endpoint(&self) -> Option<()> {
        let path = format!("/environments/{}/provider-credentials", self.template.dev);
        let set = self.api.ask("GET", &self.api.in_org(&path)).try_send().ok()?;
        if !set.items().is_empty() {
            return Some(());
        }
        let body = json!({"apiKey": "k", "endpoint": self.receiver.url});
        self.api.ask("PUT", &format!("{path}/p")).org_json(body).try_send().ok()?.ok();
        Some(())
    }
}

pub fn path_of(job: &Value, rest: &str) -> String {
    format!("/agents/deployments/{}{rest}", job["id"].as_str().unwrap())
}

fn pulled(run: &Run) -> Option<Vec<Value>> {
    let job = run.deploy("deploy", &agents(), "dev", "1.0.0")?;
    Some(vec![run.finished(&job)?])
}

fn posted(run: &Run) -> Option<Vec<Value>> {
    run.set_endpoint()?;
    let job = run.deploy("deploy", &agents()[..2], "dev", "1.0.0")?;
    Some(vec![run.finished(&job)?])
}

fn tools(run: &Run) -> Option<Vec<Value>> {
    let new = json!({"toolIds": run.template.tools, "environment": "dev"});
    let job = run.post("deploy", "/agents/tool-deployments", new)?;
    Some(vec![run.finished(&job)?])
}

/// Two jobs for an agent, approved in the reverse order of their creation.
fn queued(run: &Run) -> Option<Vec<Value>> {
    let last = run.deploy("last", &agents()[AGENTS - 1..], "prod", "1.1.0")?;
    let first = run.deploy("first", &agents(), "prod", "1.0.0")?;
    for (name, job) in [("approve first", &first), ("approve last", &last)] {
        let vote = json!({"actingUserEmail": "ada@acme.test"});
        run.post(name, &path_of(job, "/approve"), vote)?;
    }
    let jobs = vec![run.finished(&first)?, run.finished(&last)?];
    let live = format!("/agents/agent-{}/deployed?environment=prod", AGENTS - 1);
    let live = run.api.ask("GET", &run.api.in_org(&live)).try_send().ok()?.ok();
    assert_eq!(live["version"], "1.1.0", "the job that was approved last is applied last");
    Some(jobs)
}

fn rolled_back(run: &Run) -> Option<Vec<Value>> {
    let second = json!({"id": run.template.second});
    let job = run.post("roll back", &path_of(&second, "/rollback"), json!({}))?;
    let is_whole = |job: &Value| {
        let mut states = job["targets"].as_array().unwrap().iter().map(|target| &target["state"]);
        let first = states.next();
        assert!(states.all(|state| Some(state) == first), "it is not one transaction: {job}");
    };
    Some(vec![run.watched(&job, is_whole)?])
}

fn cancelled(run: &Run) -> Option<Vec<Value>> {
    let job = run.deploy("deploy", &agents(), "dev", "1.0.0")?;
    let path = path_of(&job, "/cancel");
    let ask = run.api.ask("POST", &path).with("Idempotency-Key", "cancel").org_json(json!({}));
    let cancelled = ask.try_send().ok()?;
    // It may have been complete by then.
    assert!([200, 409].contains(&cancelled.status), "{cancelled:?}");
    Some(vec![run.finished(&job)?])
}

// ── The kill ─────────────────────────────────────────────────────────────────

/// Runs a script against a server that is killed at `moment`, and again against the next one; checks
/// what it left. Returns whether the server was killed.
fn survives(script: Script, moment: Moment, receiver: &Receiver, target: &Target) -> bool {
    let template = &*TEMPLATE;
    let place = template.place.copy();
    let mut doomed = Doomed::start(&place, moment);
    if let Some(pid) = &mut *target.lock().unwrap() {
        *pid = doomed.pid();
    }
    let run = |api| Run { api, template, receiver };
    let first = script(&run(doomed.caller(&template.key)));
    let was_killed = !doomed.survived(first.is_some());
    drop(doomed);
    let serving = Serving::start(&place, &LOOPBACK);
    let jobs = script(&run(serving.caller(&template.key))).expect("it is not killed");
    let owner = serving.caller(&template.key).with_bearer(&template.token);
    let unrecorded = assert_once(&owner, &jobs, &receiver.arrived());
    assert_eq!(unrecorded, 0, "what an endpoint accepted is recorded: {jobs:?}");
    drop(serving);
    assert_eq!(place.run(&["check", "--json"]).succeeds()["wrong"], json!(0), "{moment:?}");
    was_killed
}

/// The process that a receiver kills.
type Target = Arc<Mutex<Option<u32>>>;

/// Fails unless every target of the jobs was applied once, if it was applied, and what is live is the
/// last that was. Returns how many of the messages that arrived at an endpoint were not recorded.
pub fn assert_once(owner: &Caller, jobs: &[Value], arrived: &[Sent]) -> usize {
    let records = owner.walk("/deployments", 200);
    for job in jobs {
        let of_job = records.iter().filter(|one| one["jobId"] == job["id"]);
        let mut recorded: Vec<_> = of_job.map(|one| (&one["stableKey"], &one["id"])).collect();
        let targets = job["targets"].as_array().unwrap().iter();
        let applied = targets.filter(|one| one["state"] == "applied" && job["kind"] == "agents");
        let mut applied: Vec<_> =
            applied.map(|one| (&one["stableKey"], &one["deploymentId"])).collect();
        recorded.sort_by_key(|(key, _)| key.to_string());
        applied.sort_by_key(|(key, _)| key.to_string());
        assert_eq!(recorded, applied, "{job}");
    }
    // Newest first: the first of an agent in an environment is live, and no other.
    let mut seen = BTreeSet::new();
    for record in &records {
        let is_first =
            seen.insert((record["stableKey"].to_string(), record["environmentId"].to_string()));
        assert_eq!(record["live"], json!(is_first), "{record}");
    }
    for state in UNFINISHED {
        let open = owner.get(&format!("/agents/deployments?state={state}")).items();
        assert!(open.is_empty(), "{open:?}");
    }
    let mut messages = BTreeMap::new();
    for sent in arrived {
        let body = messages.entry(sent.field("webhook-id")).or_insert(&sent.body);
        assert_eq!(*body, &sent.body, "a message is the same at every try");
    }
    let is_recorded = |id: &str| records.iter().any(|one| one["id"] == *id);
    messages.keys().filter(|id| !is_recorded(id)).count()
}

/// Kills servers at each commit in turn while a script runs, until one survives it.
#[track_caller]
fn killed_at_every_step(moments: &[fn(u32) -> Moment], script: Script) {
    let receiver = Receiver::answering(&[204]);
    for moment in moments {
        let n = (1..).find(|n| !survives(script, moment(*n), &receiver, &Target::default()));
        let steps = n.unwrap() - 1;
        println!("killed at {steps} commits");
        // A script writes twice at least, one after the other. What jobs write may share a commit with
        // it, or take more.
        assert!(steps >= 2, "{steps}");
    }
}

#[test]
fn a_deployment_in_two_steps_survives_a_kill_after_each() {
    killed_at_every_step(&[Moment::After], pulled);
}

#[test]
fn a_posted_deployment_survives_a_kill_before_and_after_each_step() {
    killed_at_every_step(&[Moment::Before, Moment::After], posted);
}

#[test]
fn a_deployment_is_posted_again_if_the_server_is_killed_before_the_answer() {
    let target = Target::default();
    *target.lock().unwrap() = Some(0);
    let to_kill = target.clone();
    let receiver = Receiver::responding(move |_| match to_kill.lock().unwrap().take() {
        Some(pid) => {
            kill(pid);
            String::new()
        }
        None => "HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n".into(),
    });
    assert!(survives(posted, Moment::Before(u32::MAX), &receiver, &target));
    assert!(target.lock().unwrap().is_none());
}

#[test]
fn a_deployment_of_tools_survives_a_kill_after_each_step() {
    killed_at_every_step(&[Moment::After], tools);
}

#[test]
fn jobs_in_a_queue_survive_a_kill_after_each_step_and_keep_their_order() {
    killed_at_every_step(&[Moment::After], queued);
}

#[test]
fn a_rollback_survives_a_kill_after_each_step() {
    killed_at_every_step(&[Moment::After], rolled_back);
}

#[test]
fn a_cancelled_deployment_survives_a_kill_after_each_step() {
    killed_at_every_step(&[Moment::After], cancelled);
}
