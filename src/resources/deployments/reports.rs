//! What agents reported about themselves: one record for each agent and environment from which it has
//! sent a heartbeat, whether something is deployed there or not.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use super::live::LiveDeployment;
use crate::auth::Restricted;
use crate::base::{Id, Result, Time};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress, due};
use crate::resources::agents::{self, Agent, AgentStatus, PlaceStatus, WITHOUT_PLACES};
use crate::resources::environments::Environment;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, Tx, View, codec,
    no_upgrade,
};

/// The last heartbeat of an agent from an environment.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct AgentReport {
    pub agent: Id<Agent>,
    pub environment: Id<Environment>,
    /// The time of the heartbeat: silence counts from then.
    pub reported_at: Time,
    /// Whether the agent runs something other than what is live.
    pub drifted: bool,
    /// Whether it has been silent for too long.
    pub stale: bool,
    /// The error that it reported.
    pub error: Option<String>,
    /// The hash of what it said it runs; none until it reports what it runs since the newest
    /// deployment.
    pub hash: Option<String>,
}
crate::base::portable!(AgentReport {
    agent,
    environment,
    reported_at,
    drifted,
    stale,
    error,
    hash,
});

impl AgentReport {
    /// The status that it gives the agent; none if all is well.
    fn problem(&self) -> Option<AgentStatus> {
        match self {
            _ if self.error.is_some() => Some(AgentStatus::Error),
            _ if self.stale => Some(AgentStatus::Stale),
            _ if self.drifted => Some(AgentStatus::Drifted),
            _ => None,
        }
    }
}

static IN_ENVIRONMENT: Index<AgentReport, Id<Environment>> =
    Index::non_unique("agent_reports.by_environment", |report| Some(report.environment));

/// Those that are not stale, by time.
pub static BY_TIME: Index<AgentReport, Time> =
    Index::non_unique("agent_reports.by_time", |report| {
        (!report.stale).then_some(report.reported_at)
    });

static AGENT: Reference<AgentReport, Restricted<Agent>> = Reference::cascade(
    &["agent"],
    |agent: &Restricted<Agent>| agent.id().to_bytes(),
    |report: &AgentReport, _| vec![report.agent.to_bytes()],
);

/// Deferred: thousands of agents may have reported from an environment.
static ENVIRONMENT: Reference<AgentReport, Restricted<Environment>> = Reference::cascade(
    &["environment"],
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |report: &AgentReport, _| vec![report.environment.to_bytes()],
)
.by(&IN_ENVIRONMENT)
.deferred();

impl Record for AgentReport {
    const TABLE: &'static str = "agent_reports";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&IN_ENVIRONMENT, &BY_TIME];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT, &ENVIRONMENT];
    const VERSION: u8 = 2;
    type Key = (Id<Agent>, Id<Environment>);
    fn key(&self) -> Self::Key {
        (self.agent, self.environment)
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        update_status(tx, self.agent)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => codec::decode_shorter(body),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// Returns what an agent reported last from an environment.
pub fn report(
    view: &View,
    agent: Id<Agent>,
    environment: Id<Environment>,
) -> Result<Option<AgentReport>> {
    view.get(&(agent, environment))
}

/// Replaces what an agent reported, and updates its status.
pub fn set_report(tx: &mut Tx, new: &AgentReport) -> Result<()> {
    let old = report(&tx.view(), new.agent, new.environment)?;
    tx.put(new)?;
    let before = old.and_then(|old| old.problem());
    if before == new.problem() { Ok(()) } else { update_status(tx, new.agent) }
}

/// Forgets what an agent reported about an earlier deployment: nothing is known yet about the one
/// that has just become live. It stays as silent as it was. Updates its status.
pub fn expect_report(tx: &mut Tx, agent: Id<Agent>, environment: Id<Environment>) -> Result<()> {
    if let Some(old) = report(&tx.view(), agent, environment)? {
        let (drifted, error, hash) = (false, None, None);
        tx.put(&AgentReport { drifted, error, hash, ..old })?;
    }
    update_status(tx, agent)
}

/// Sets the status of an agent in each environment, if it still exists.
fn update_status(tx: &mut Tx, agent: Id<Agent>) -> Result<()> {
    if !tx.view().has::<Restricted<Agent>>(&agent)? {
        return Ok(());
    }
    let live = tx.all(ListSource::<LiveDeployment>::TABLE, &agent)?;
    let reports = tx.all(ListSource::<AgentReport>::TABLE, &agent)?;
    let deployed = live.iter().map(|live| (live.environment, AgentStatus::Deployed));
    let problems = reports.iter().filter_map(|one| Some((one.environment, one.problem()?)));
    let places: BTreeMap<_, _> = deployed.chain(problems).collect();
    let place = |(environment, status)| PlaceStatus { environment, status };
    agents::set_statuses(tx, agent, places.into_iter().map(place).collect())
}

/// Finds out in which environments agents of an earlier version have which status.
pub(super) const FIND_PLACES: Sweep =
    Sweep { name: "statuses of agents", every_secs: 60, run: find_places, installation: false };

fn find_places(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let (agents, progress) = due(&tx.view(), &WITHOUT_PLACES, |_: &Restricted<Agent>| true)?;
    agents.iter().try_for_each(|agent| update_status(tx, agent.id()))?;
    Ok(progress)
}
