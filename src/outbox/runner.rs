//! The runner: leases due tasks, makes their calls, settles them; runs the sweeps in their turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{self, JoinError, JoinSet};

use super::sweeps::{Settings, Sweep, Swept};
use super::tasks::{BY_DUE, Job, Next, Step, Subject, Task, WRITTEN, retry_at};
use crate::base::{Error, Id, Result, Time};
use crate::outside::Outside;
use crate::store::{Order, Org, Step as Go, Store, Tx, View};

/// A lease lasts a minute: longer than the longest call, short enough to come back soon after a
/// crash.
const LEASE_SECS: i64 = 60;

/// At most 128 tasks at once: each may hold a connection.
const MAX_AT_ONCE: usize = 128;

/// At most 4 of them are of what lies in one place: an address that does not answer must not hold
/// up the others, and there have to be 32 such addresses until they do.
const MAX_WITHIN_ONE: usize = 4;

/// Looks at least this often, signal or not.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the runner runs.
pub struct Runner {
    /// The store.
    pub store: Store,
    /// The way out.
    pub outside: Outside,
    /// The jobs of all resources.
    pub jobs: Vec<&'static Job>,
    /// The sweeps of all resources.
    pub sweeps: Vec<&'static Sweep>,
    /// What the operator chose.
    pub settings: Settings,
    /// The organizations there are, for the sweeps.
    pub organizations: fn(&Store) -> Result<Vec<Id<Org>>>,
}

impl Runner {
    /// Runs until `stop` says so, then lets what is under way end.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let runner = Arc::new(self);
        let mut sweeps = JoinSet::new();
        for sweep in runner.sweeps.iter().copied() {
            sweeps.spawn(runner.clone().sweep(sweep, stop.clone()));
        }
        let mut tasks = JoinSet::new();
        let mut under_way = UnderWay::new();
        let mut written = runner.store.signals().listen(WRITTEN);
        while !*stop.borrow() {
            while let Some(ended) = tasks.try_join_next_with_id() {
                under_way.remove(&id_of(ended));
            }
            while under_way.len() < MAX_AT_ONCE {
                let Some(task) = runner.lease(&under_way).await else { break };
                let (runner, within) = (runner.clone(), task.within);
                let handle = tasks.spawn(async move { runner.carry_out(task).await });
                under_way.insert(handle.id(), within);
            }
            tokio::select! {
                () = written.heard() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                Some(ended) = tasks.join_next_with_id() => {
                    under_way.remove(&id_of(ended));
                }
                _ = stop.changed() => break,
            }
        }
        while tasks.join_next().await.is_some() {}
        while sweeps.join_next().await.is_some() {}
    }

    /// The task that has been due longest of those whose turn it can be, now leased.
    async fn lease(&self, under_way: &UnderWay) -> Option<Task> {
        let due = match self.store.read(Id::NOTHING, |view| first_due(view, under_way)).await {
            Ok(due) => due?,
            Err(error) => {
                tracing::error!(%error, "due tasks cannot be read");
                return None;
            }
        };
        let leased = self.store.write(Id::NOTHING, move |tx| {
            let now = tx.now();
            let Some(old) = tx.get::<Task>(&due)?.filter(|task| task.due_at <= now) else {
                return Ok(None);
            };
            let task = Task {
                due_at: now.plus_secs(LEASE_SECS),
                attempts: old.attempts + 1,
                ..old.clone()
            };
            tx.replace(&old, &task)?;
            Ok(Some(task))
        });
        leased.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a due task cannot be leased");
            None
        })
    }

    async fn carry_out(&self, task: Task) {
        let Err(error) = self.try_task(&task).await else { return };
        tracing::error!(%error, kind = task.kind, task = %task.id, "a task failed");
        let put_off = self.store.write(Id::NOTHING, move |tx| put_off(tx, &task));
        if let Err(error) = put_off.await {
            // It becomes due again when its lease ends.
            tracing::error!(%error, "a task that failed cannot be put off");
        }
    }

    async fn try_task(&self, task: &Task) -> Result<()> {
        let Some(job) = self.jobs.iter().copied().find(|job| job.kind == task.kind) else {
            return Err(Error::internal(format!("no job does {}", task.kind)));
        };
        let own = task.clone();
        let step = self.store.write(task.org, move |tx| match leased(tx, &own)? {
            Some(_) => (job.prepare)(tx, &own).map(Some),
            None => Ok(None),
        });
        let next = match step.await? {
            None => return Ok(()),
            Some(Step::Done) => Next::Done,
            Some(Step::Later(at)) => Next::Again(at),
            Some(Step::Call(call)) => {
                let answer = Arc::new(self.outside.send(*call).await);
                let own = task.clone();
                let settled = self.store.write(task.org, move |tx| {
                    if leased(tx, &own)?.is_none() {
                        return Ok(());
                    }
                    let next = (job.settle)(tx, &own, &answer)?;
                    finish(tx, &own, &next)
                });
                return settled.await;
            }
        };
        let own = task.clone();
        self.store.write(Id::NOTHING, move |tx| finish(tx, &own, &next)).await
    }

    async fn sweep(self: Arc<Self>, sweep: &'static Sweep, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            if let Err(error) = self.sweep_once(sweep, &stop).await {
                tracing::error!(%error, sweep = sweep.name, "a sweep failed");
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(sweep.every_secs)) => {}
                _ = stop.changed() => {}
            }
        }
    }

    async fn sweep_once(&self, sweep: &'static Sweep, stop: &watch::Receiver<bool>) -> Result<()> {
        let organizations = match sweep.installation {
            true => vec![Id::NOTHING],
            false => (self.organizations)(&self.store)?,
        };
        for org in organizations {
            // What is wrong with one organization must not keep the others from their turn.
            if let Err(error) = self.sweep_one(sweep, org, stop).await {
                tracing::error!(%error, sweep = sweep.name, %org, "a sweep failed");
            }
        }
        Ok(())
    }

    async fn sweep_one(
        &self,
        sweep: &'static Sweep,
        org: Id<Org>,
        stop: &watch::Receiver<bool>,
    ) -> Result<()> {
        while !*stop.borrow() {
            let settings = self.settings.clone();
            let swept = self.store.write(org, move |tx| (sweep.run)(tx, &settings)).await?;
            if swept == Swept::Clean {
                break;
            }
        }
        Ok(())
    }
}

/// What is being carried out, and what it lies in.
type UnderWay = HashMap<task::Id, Option<Id<Subject>>>;

fn id_of(ended: Result<(task::Id, ()), JoinError>) -> task::Id {
    ended.map_or_else(|error| error.id(), |(id, ())| id)
}

/// The task that has been due longest, of what lies in nothing that is busy enough.
fn first_due(view: &View, under_way: &UnderWay) -> Result<Option<Id<Task>>> {
    let mut busy: HashMap<Id<Subject>, usize> = HashMap::new();
    for within in under_way.values().flatten() {
        *busy.entry(*within).or_default() += 1;
    }
    let is_busy = |within: Id<Subject>| busy.get(&within).is_some_and(|n| *n >= MAX_WITHIN_ONE);
    let start = Time::from_millis(i64::MIN);
    let end = view.now().plus_millis(1);
    let mut first = None;
    view.entries(&BY_DUE, &start, &end, Order::Ascending, |(_, within), task| {
        if within.is_some_and(is_busy) {
            return Ok(Go::More);
        }
        first = Some(task);
        Ok(Go::Enough)
    })?;
    Ok(first)
}

/// The task as it is now, unless its lease ran out and somebody else has it, or did it.
fn leased(tx: &Tx, task: &Task) -> Result<Option<Task>> {
    Ok(tx.get::<Task>(&task.id)?.filter(|now| now.attempts == task.attempts))
}

/// Removes a task that was done, or sees that it is due again.
fn finish(tx: &mut Tx, task: &Task, next: &Next) -> Result<()> {
    let Some(now) = leased(tx, task)? else { return Ok(()) };
    match next {
        Next::Done => tx.remove(&now),
        Next::Again(at) => {
            let again = Task { due_at: *at, failing_since: None, failures: 0, ..now.clone() };
            tx.replace(&now, &again)
        }
    }
}

/// Puts off a task that could not be carried out, or gives it up.
fn put_off(tx: &mut Tx, task: &Task) -> Result<()> {
    let Some(now) = leased(tx, task)? else { return Ok(()) };
    let since = now.failing_since.unwrap_or(tx.now());
    let failures = now.failures + 1;
    let again = retry_at(tx.now(), since, failures);
    let failed = Task {
        due_at: again.unwrap_or(now.due_at),
        failing_since: Some(since),
        failures,
        dead: again.is_none(),
        ..now.clone()
    };
    tx.replace(&now, &failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{EventType, LogEntry, TABLES, enqueue, publish};
    use crate::outside;
    use crate::store::{Moment, Source};
    use serde_json::json;

    const NOON: Time = Time::from_millis(1_800_000_000_000);

    /// Leaves one event each time it is done.
    const DONE: Job = Job {
        kind: "test.done",
        prepare: |tx, _| publish(tx, EventType::AgentError, json!({})).map(|()| Step::Done),
        settle: |_, _, _| Ok(Next::Done),
    };
    /// Cannot be done.
    const BROKEN: Job = Job {
        kind: "test.broken",
        prepare: |_, _| Err(Error::internal("it cannot be done")),
        settle: |_, _, _| Ok(Next::Done),
    };

    fn org(number: u128) -> Id<Org> {
        Id::new(uuid::Uuid::from_u128(number))
    }

    fn runner() -> Runner {
        Runner {
            store: Store::in_memory(Moment::at(NOON), &[]),
            outside: outside::Outside::new(outside::Config::default()).unwrap(),
            jobs: vec![&DONE, &BROKEN],
            sweeps: vec![],
            settings: Settings { memory_retention_secs: 0, log_retention_secs: 0 },
            organizations: |_| Ok(vec![org(1), org(2)]),
        }
    }

    async fn write_task(runner: &Runner, job: &'static Job) {
        write_task_within(runner, job, None).await;
    }

    async fn write_task_within(runner: &Runner, job: &'static Job, within: Option<Id<Subject>>) {
        let now = runner.store.moment().now();
        let write = move |tx: &mut Tx| enqueue(tx, job, Id::NOTHING, within, now);
        runner.store.write(org(1), write).await.unwrap();
    }

    fn tasks(runner: &Runner) -> Vec<Task> {
        assert_eq!(runner.store.check(TABLES).unwrap().messages, Vec::<String>::new());
        runner.store.read_now(Id::NOTHING, |view| view.all(Source::TABLE, &())).unwrap()
    }

    fn events(runner: &Runner, org: Id<Org>) -> usize {
        runner.store.read_now(org, |view| view.count::<LogEntry>(Source::TABLE, &(), 9)).unwrap()
    }

    #[tokio::test]
    async fn a_task_that_cannot_be_done_is_tried_ever_more_seldom_and_then_dead() {
        for job in [&BROKEN, &Job { kind: "test.nobody_knows_it", ..BROKEN }] {
            let runner = runner();
            write_task(&runner, job).await;
            let mut waited = vec![];
            while let Some(task) = runner.lease(&UnderWay::new()).await {
                runner.carry_out(task).await;
                let secs = tasks(&runner)[0].due_at.secs() - runner.store.moment().now().secs();
                waited.push(secs);
                runner.store.moment().advance_secs(secs);
            }
            let delays = [5, 300, 1800, 7200, 18_000, 18_000, 18_000, 18_000];
            assert_eq!(waited[..delays.len()], delays);
            assert_eq!(waited.len(), delays.len() + 1, "the last attempt is not followed by any");
            assert!(tasks(&runner)[0].dead);
            // One that can be done is not held up by it.
            write_task(&runner, &DONE).await;
            runner.carry_out(runner.lease(&UnderWay::new()).await.unwrap()).await;
            assert_eq!((events(&runner, org(1)), tasks(&runner).len()), (1, 1));
        }
    }

    #[tokio::test]
    async fn an_attempt_that_comes_back_late_changes_nothing() {
        let runner = runner();
        write_task(&runner, &DONE).await;
        let late = runner.lease(&UnderWay::new()).await.unwrap();
        assert!(runner.lease(&UnderWay::new()).await.is_none());
        runner.store.moment().advance_secs(LEASE_SECS);
        let own = runner.lease(&UnderWay::new()).await.unwrap();
        runner.carry_out(late).await;
        assert_eq!((events(&runner, org(1)), tasks(&runner).len()), (0, 1));
        runner.carry_out(own).await;
        assert_eq!((events(&runner, org(1)), tasks(&runner).len()), (1, 0));
    }

    #[tokio::test]
    async fn what_lies_in_a_busy_place_lets_the_others_go_first() {
        let runner = runner();
        let [busy, other] = [1, 2].map(|n| Some(Id::new(uuid::Uuid::from_u128(n))));
        for within in [busy, busy, other, None] {
            write_task_within(&runner, &DONE, within).await;
            runner.store.moment().advance_secs(1);
        }
        let first = |places: &[_]| {
            let task = || tokio::spawn(async {}).id();
            let under_way = places.iter().map(|within| (task(), *within)).collect();
            let due =
                runner.store.read_now(Id::NOTHING, |view| first_due(view, &under_way)).unwrap();
            tasks(&runner).iter().position(|task| Some(task.id) == due)
        };
        assert_eq!(first(&[]), Some(0));
        assert_eq!(first(&[busy; MAX_WITHIN_ONE - 1]), Some(0));
        assert_eq!(first(&[busy; MAX_WITHIN_ONE]), Some(2));
        assert_eq!(first(&[[busy; MAX_WITHIN_ONE], [other; MAX_WITHIN_ONE]].concat()), Some(3));
    }

    #[tokio::test]
    async fn a_sweep_that_fails_in_one_organization_goes_on_to_the_next() {
        const SWEEP: Sweep = Sweep {
            name: "test",
            every_secs: 1,
            run: |tx, _| {
                if tx.org() == org(1) {
                    return Err(Error::internal("it cannot be swept"));
                }
                publish(tx, EventType::AgentError, json!({})).map(|()| Swept::Clean)
            },
            installation: false,
        };
        let runner = runner();
        let (_stop, stopping) = watch::channel(false);
        runner.sweep_once(&SWEEP, &stopping).await.unwrap();
        assert_eq!([1, 2].map(|n| events(&runner, org(n))), [0, 1]);
    }
}
