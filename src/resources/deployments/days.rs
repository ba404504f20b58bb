//! Counts of deployment jobs by day and state, kept with each change of a state, so that the heatmap
//! reads a row per day instead of every job.
//!
//! A job counts on the day of its creation, under its current state: among all jobs, among those of
//! its environment, and among those of its scope, which is its environment, registries and agents.
//! So the jobs that are hidden from a caller can be subtracted without reading them: those of hidden
//! environments, and of scopes with a hidden registry or agent.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::state::JobState;
use crate::auth::Granted;
use crate::base::{Id, Result, Time};
use crate::resources::agents::Agent;
use crate::resources::environments::Environment;
use crate::resources::registries::Registry;
use crate::store::{Export, Key, Record, Tx};

/// A day in days since 1970, UTC.
pub type Day = u32;

/// The seconds of a day.
pub const DAY_SECS: i64 = 24 * 3600;

// ── Scopes ───────────────────────────────────────────────────────────────────

/// The environment, registries and agents of a job.
pub enum Scope {}

/// A registry or agent of a scope.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentScope {
    /// The registry or agent.
    pub subject: Id<Granted>,
    /// The environment of the scope.
    pub environment: Id<Environment>,
    pub scope: Id<Scope>,
}
crate::base::portable!(DeploymentScope { subject, environment, scope });

impl Record for DeploymentScope {
    const TABLE: &'static str = "deployment_scopes";
    const EXPORT: Export<Self> = Export::WHOLE;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("subject", "history: a registry or agent may be deleted, its jobs stay counted"),
        ("environment", "history: an environment may be deleted, its jobs stay counted"),
        ("scope", "a hash of the environment, registries and agents of a job"),
    ];
    type Key = (Id<Granted>, Id<Environment>, Id<Scope>);
    fn key(&self) -> Self::Key {
        (self.subject, self.environment, self.scope)
    }
}

/// What a job is counted under, besides its state.
pub struct CountedJob<'a> {
    /// Where it deploys to.
    pub environment: Id<Environment>,
    /// The registries of its prompts.
    pub registries: &'a [Id<Registry>],
    pub agents: &'a [Id<Agent>],
    /// When it was created.
    pub created_at: Time,
}

impl CountedJob<'_> {
    /// Its registries and agents, in order.
    fn subjects(&self) -> Vec<Id<Granted>> {
        let registries = self.registries.iter().map(|registry| registry.cast());
        let agents = self.agents.iter().map(|agent| agent.cast());
        let mut all: Vec<_> = registries.chain(agents).collect();
        all.sort();
        all
    }
}

/// Returns the scope of a job, which it enters if it is new; none for a job of tools, which every
/// member sees who may use the environment.
fn enter_scope(tx: &mut Tx, job: &CountedJob) -> Result<Option<Id<Scope>>> {
    let all = job.subjects();
    let Some(first) = all.first() else { return Ok(None) };
    let bytes = all.iter().flat_map(|subject| subject.to_bytes());
    let bytes: Vec<u8> = job.environment.to_bytes().into_iter().chain(bytes).collect();
    let hash = blake3::derive_key("roadstead 2026 scope of a deployment", &bytes);
    let scope = Id::new(Uuid::from_bytes(*hash.first_chunk().expect("a hash has 32 bytes")));
    let environment = job.environment;
    if !tx.view().has::<DeploymentScope>(&(*first, environment, scope))? {
        for subject in &all {
            tx.insert(&DeploymentScope { subject: *subject, environment, scope })?;
        }
    }
    Ok(Some(scope))
}

// ── Counts ───────────────────────────────────────────────────────────────────

/// The number of jobs of a day, by state.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentDay {
    /// Only jobs of this environment; none for the jobs of all.
    pub environment: Option<Id<Environment>>,
    /// Only jobs of this scope; none for the jobs of all.
    pub scope: Option<Id<Scope>>,
    pub day: Day,
    /// The jobs by state, without zeros.
    pub counts: BTreeMap<JobState, u64>,
}
crate::base::portable!(DeploymentDay { environment, scope, day, counts });

impl Record for DeploymentDay {
    const TABLE: &'static str = "deployment_days";
    const EXPORT: Export<Self> = Export::WHOLE;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("environment", "history: an environment may be deleted, its jobs stay counted"),
        ("scope", "a hash of the environment, registries and agents of a job"),
    ];
    type Key = (Option<Id<Environment>>, Option<Id<Scope>>, Day);
    fn key(&self) -> Self::Key {
        (self.environment, self.scope, self.day)
    }
}

/// Returns the day of a time.
pub fn day_of(time: Time) -> Day {
    Day::try_from(time.secs().div_euclid(DAY_SECS)).unwrap_or(0)
}

/// Returns the start of a day.
pub fn start_of(day: Day) -> Time {
    Time::from_millis(i64::from(day) * DAY_SECS * 1000)
}

/// Counts a job under the state `to` instead of `from`.
pub fn count(tx: &mut Tx, job: &CountedJob, from: Option<JobState>, to: JobState) -> Result<()> {
    let (day, environment) = (day_of(job.created_at), Some(job.environment));
    let scope = enter_scope(tx, job)?;
    let mut rows = vec![(None, None, day), (environment, None, day)];
    rows.extend(scope.map(|scope| (environment, Some(scope), day)));
    for (environment, scope, day) in rows {
        let row = tx.get::<DeploymentDay>(&(environment, scope, day))?;
        let mut counts = row.map(|row| row.counts).unwrap_or_default();
        if let Some(count) = from.and_then(|from| counts.get_mut(&from)) {
            *count = count.saturating_sub(1);
        }
        *counts.entry(to).or_default() += 1;
        counts.retain(|_, count| *count > 0);
        tx.put(&DeploymentDay { environment, scope, day, counts })?;
    }
    Ok(())
}
