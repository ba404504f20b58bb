//! Deployments in an in-memory store: plans, queues, running, approvals, history and heartbeats.

mod again;
mod approved;
mod approving;
mod heartbeats;
mod history;
mod in_use;
mod planning;
mod pushing;
mod running;

use serde_json::{Value, json};

use super::heartbeats::{AgentReport, last_report};
use super::in_use::{delete_agent, delete_tool, update_agent, update_tool};
use super::info::JobInfo;
use super::job::DeploymentJob;
use super::live::{Deployment, LiveDeployment};
use super::running::RUN;
use super::{jobs, live};
use crate::api::{Input, Principal, Req};
use crate::auth::User;
use crate::base::{Id, Result};
use crate::outbox::{Effect, EffectResult, Event, Job, JobHandler, Prepared, Settled};
use crate::outside::{Call, Response};
use crate::resources::agents;
use crate::resources::environments::{self, Environment};
use crate::resources::testing::{Fixture, args, user};
use crate::resources::{artifacts, tools};
use crate::store::{ListSource, Tx};

/// An organization with the environment `dev`, the registry `acme/main` with the prompt `hello`
/// 1.0.0, and the agents `ann` and `bob`.
pub struct World {
    pub fixture: Fixture,
    pub dev: Id<Environment>,
}

impl std::ops::Deref for World {
    type Target = Fixture;
    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl World {
    pub fn new() -> Self {
        let fixture = Fixture::new();
        let dev = environments::tests::make(&fixture, json!({"slug": "dev", "name": "Dev"}));
        artifacts::tests::registry(&fixture, "main");
        let world = World { dev: dev.unwrap().id, fixture };
        world.prompt("1.0.0", "Hello.");
        world.agent("ann", json!({}));
        world.agent("bob", json!({}));
        world
    }

    pub fn set_approvals(&self, approvals: Value) {
        environments::tests::patch(self, self.dev, json!({"approvals": approvals}));
    }

    pub fn prompt(&self, version: &str, source: &str) {
        artifacts::tests::prompt(self, "hello", version, source);
    }

    pub fn agent(&self, stable_key: &str, draft: Value) {
        let body = json!({"stableKey": stable_key, "name": stable_key, "draft": draft});
        agents::tests::make(self, body).unwrap();
    }

    pub fn tool(&self, name: &str, config: Value) -> Id<tools::Tool> {
        let body = json!({"name": name, "type": "http", "providerConfig": config});
        tools::tests::make(self, body).unwrap().id
    }

    /// Changes a tool as a member.
    pub fn patch_tool(&self, tool: Id<tools::Tool>, body: Value) -> Result<Value> {
        let changed = self.write(update_tool, tool, Fixture::input(body)?)?;
        Ok(json!(changed))
    }

    /// The body that deploys `hello` to agents.
    pub fn body(&self, agents: &[&str], more: Value) -> Value {
        let mut body = json!({
            "agentIds": agents, "promptName": "hello", "version": "*", "environment": "dev",
            "provider": "p", "registryRef": "acme/main",
        });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    pub fn deploy_as(&self, who: &Principal, agents: &[&str], more: Value) -> Result<Value> {
        let input = Fixture::input(self.body(agents, more))?;
        let job: JobInfo = self.write_as(who, jobs::create, (), input)?;
        Ok(json!(job))
    }

    pub fn deploy(&self, agents: &[&str], more: Value) -> Result<Value> {
        self.deploy_as(&self.member.clone(), agents, more)
    }

    /// Deploys to agents and applies everything.
    pub fn deployed(&self, agents: &[&str], more: Value) -> Value {
        let job = self.deploy(agents, more).unwrap();
        self.run();
        self.job(&job)
    }

    /// The present state of a job.
    pub fn job(&self, job: &Value) -> Value {
        json!(self.read_as(&self.owner, jobs::get, id(job), ()).unwrap())
    }

    pub fn stored(&self, job: &Value) -> DeploymentJob {
        let id: Id<DeploymentJob> = id(job);
        self.store.read_now(self.org, |view| view.fetch(&id)).unwrap()
    }

    pub fn deployments(&self) -> Vec<Deployment> {
        self.store.read_now(self.org, |view| view.all(ListSource::TABLE, &())).unwrap()
    }

    pub fn live(&self, stable_key: &str) -> Option<LiveDeployment> {
        let dev = self.dev;
        self.store
            .read_now(self.org, |view| live::live(view, agents::find(view, stable_key)?.id(), dev))
            .unwrap()
    }

    pub fn reported(&self, stable_key: &str) -> Option<AgentReport> {
        let dev = self.dev;
        self.store
            .read_now(self.org, |view| last_report(view, agents::find(view, stable_key)?.id(), dev))
            .unwrap()
    }

    pub fn agent_status(&self, stable_key: &str) -> Value {
        let agent = self.store.read_now(self.org, |view| agents::find(view, stable_key)).unwrap();
        json!(agent.without_caller().status)
    }

    /// The types of all events, oldest first, with their payloads.
    pub fn events(&self) -> Vec<(String, Value)> {
        let events: Vec<Event> =
            self.store.read_now(self.org, |view| view.all(ListSource::TABLE, &())).unwrap();
        let event =
            |event: Event| (json!(event.event_type).as_str().unwrap().to_string(), event.payload.0);
        let events = events.into_iter().map(event);
        events.filter(|(kind, _)| !kind.starts_with("registry.")).collect()
    }

    /// The types of all events that are about deployments and agents.
    pub fn event_types(&self) -> Vec<String> {
        self.events().into_iter().map(|(kind, _)| kind).collect()
    }

    // ── The runner ───────────────────────────────────────────────────────────

    pub fn tasks(&self) -> Vec<Job> {
        let jobs: Vec<Job> =
            self.store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &())).unwrap();
        jobs.into_iter().filter(|job| job.kind == RUN.kind).collect()
    }

    /// Leases a job, as the runner does, and prepares it; the end of a job without an effect is
    /// committed with what it wrote.
    pub fn prepare(&self, task: &Job) -> Option<(Job, Call)> {
        let now = self.store.clock().now();
        let task = Job { due_at: now.plus_secs(60), attempts: task.attempts + 1, ..task.clone() };
        let own = task.clone();
        let prepared = self.store.write_blocking(self.org, move |tx| {
            tx.put(&own)?;
            let handler: &JobHandler = &RUN;
            match (handler.prepare)(tx, &own)? {
                Prepared::Done => finish(tx, &own, Settled::Done).map(|()| None),
                Prepared::RetryAt(at) => finish(tx, &own, Settled::RetryAt(at)).map(|()| None),
                Prepared::Effect(Effect::Call(call)) => Ok(Some(*call)),
                _ => panic!("a deployment is posted"),
            }
        });
        prepared.unwrap().map(|call| (task, call))
    }

    pub fn settle(&self, task: &Job, result: EffectResult) {
        let own = task.clone();
        let settled = self.store.write_blocking(self.org, move |tx| {
            let settled = (RUN.settle)(tx, &own, &result)?;
            finish(tx, &own, settled)
        });
        settled.unwrap();
    }

    /// Does one step of every job that is due; returns what is to be posted.
    pub fn step(&self) -> Vec<(Job, Call)> {
        let now = self.store.clock().now();
        let due = self.tasks().into_iter().filter(|task| task.due_at <= now);
        due.filter_map(|task| self.prepare(&task)).collect()
    }

    /// Runs all jobs that are due, without anything to be posted.
    pub fn run(&self) {
        for _ in 0..100 {
            let now = self.store.clock().now();
            if self.tasks().iter().all(|task| task.due_at > now) {
                return;
            }
            assert!(self.step().is_empty(), "nothing is posted");
        }
        panic!("jobs end");
    }
}

fn finish(tx: &mut Tx, task: &Job, settled: Settled) -> Result<()> {
    let task: Job = tx.fetch(&task.id)?;
    match settled {
        Settled::Done | Settled::Warning(_) => tx.remove(&task),
        Settled::RetryAt(due_at) => tx.put(&Job { due_at, ..task }),
    }
}

pub fn answer(status: u16) -> EffectResult {
    EffectResult::Response(Response { status, headers: vec![], body: vec![] })
}

/// The id in a representation.
pub fn id<T: ?Sized>(value: &Value) -> Id<T> {
    Id::parse(value["id"].as_str().unwrap())
}

/// The states of a job's targets.
pub fn states(job: &Value) -> Vec<&str> {
    let targets = job["targets"].as_array().unwrap();
    targets.iter().map(|target| target["state"].as_str().unwrap()).collect()
}

/// Reads as a caller.
pub fn read<P, I: Input, O>(
    fixture: &Fixture,
    who: &Principal,
    operation: fn(&crate::store::View, &Req<P, I>) -> Result<O>,
    params: P,
    query: Value,
) -> Result<O> {
    let args = args(params, Fixture::input::<I>(query)?);
    fixture.store.read_now(fixture.org, |view| operation(view, &Req::new(&args, who)))
}
