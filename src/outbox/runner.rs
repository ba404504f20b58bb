//! The runner: leases due tasks, makes their calls, settles them; runs the sweeps in their turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::tasks::{BY_DUE, Job, Next, Settings, Step, Sweep, Swept, Task, WRITTEN};
use crate::base::{Id, Result};
use crate::outside::Outside;
use crate::store::{Order, Org, Step as Go, Store};

/// A lease lasts a minute: longer than the longest call, short enough to come back soon after a
/// crash.
const LEASE_SECS: i64 = 60;

/// At most 32 tasks at once: each may hold a connection.
const MAX_AT_ONCE: usize = 32;

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
        let places = Arc::new(Semaphore::new(MAX_AT_ONCE));
        let mut under_way = JoinSet::new();
        for sweep in runner.sweeps.iter().copied() {
            under_way.spawn(runner.clone().sweep(sweep, stop.clone()));
        }
        let mut written = runner.store.signals().listen(WRITTEN);
        while !*stop.borrow() {
            loop {
                let Ok(place) = places.clone().try_acquire_owned() else { break };
                let Some(task) = runner.lease().await else { break };
                let runner = runner.clone();
                under_way.spawn(async move {
                    runner.carry_out(task).await;
                    drop(place);
                });
            }
            tokio::select! {
                () = written.heard() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = under_way.join_next(), if under_way.len() > runner.sweeps.len() => {}
                _ = stop.changed() => break,
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// The task that has been due longest, now leased.
    async fn lease(&self) -> Option<Task> {
        let due = self.store.read(Id::NOTHING, |view| {
            Ok(view.first(&BY_DUE, &(), Order::Ascending)?.filter(|task| task.due_at <= view.now()))
        });
        match due {
            Ok(None) => return None,
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::error!(%error, "due tasks cannot be read");
                return None;
            }
        }
        let leased = self.store.write(Id::NOTHING, |tx| {
            let now = tx.now();
            let mut due = None;
            tx.view().each(&BY_DUE, &(), Order::Ascending, |task: Task| {
                due = (task.due_at <= now).then_some(task);
                Ok(Go::Enough)
            })?;
            let Some(old) = due else { return Ok(None) };
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
        if let Err(error) = self.try_task(&task).await {
            // It becomes due again when its lease ends.
            tracing::error!(%error, kind = task.kind, task = %task.id, "a task failed");
        }
    }

    async fn try_task(&self, task: &Task) -> Result<()> {
        let Some(job) = self.jobs.iter().copied().find(|job| job.kind == task.kind) else {
            return Err(crate::base::Error::internal(format!("no job does {}", task.kind)));
        };
        let own = task.clone();
        let step = self.store.write(task.org, move |tx| (job.prepare)(tx, &own)).await?;
        let next = match step {
            Step::Done => Next::Done,
            Step::Later(at) => Next::Again(at),
            Step::Call(call) => {
                let answer = Arc::new(self.outside.send(*call).await);
                let own = task.clone();
                return self
                    .store
                    .write(task.org, move |tx| {
                        let next = (job.settle)(tx, &own, &answer)?;
                        finish(tx, &own, &next)
                    })
                    .await;
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
            let settings = self.settings.clone();
            while !*stop.borrow() {
                let settings = settings.clone();
                let swept = self.store.write(org, move |tx| (sweep.run)(tx, &settings)).await?;
                if swept == Swept::Clean {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Removes a task or puts it off, unless its lease ran out and somebody else has it.
fn finish(tx: &mut crate::store::Tx, task: &Task, next: &Next) -> Result<()> {
    let Some(now) = tx.get::<Task>(&task.id)? else { return Ok(()) };
    if now.attempts != task.attempts {
        return Ok(());
    }
    match next {
        Next::Done => tx.remove(&now),
        Next::Again(at) => tx.replace(&now, &Task { due_at: *at, ..now.clone() }),
    }
}
