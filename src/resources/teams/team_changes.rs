//! Changes in teams that leave no other row: pauses, budgets and schedules
//! (reference: teams-and-wakes, "Activity").

use bincode::{Decode, Encode};

use super::budget::Budget;
use super::changes;
use super::member::Member;
use super::schedule::Schedule;
use super::team::Team;
use crate::api::Resource;
use crate::auth::User;
use crate::base::{Description, Id, Result, Time, Title};
use crate::resources::pauses::{PauseScope, Paused};
use crate::store::{AnyReference, Export, Key, Record, Reference, TableInfo, Tx};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<TeamChange>()], ..Resource::EMPTY };

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamChangeKind {
    /// Something was paused.
    Paused,
    /// Something was resumed.
    Resumed,
    /// A budget was set, changed or removed.
    BudgetChanged,
    /// A budget was used up once more in a month. The first time is an event.
    BudgetExhausted,
    /// The month of a budget that was used up has ended.
    BudgetRenewed,
    /// A schedule was created.
    ScheduleCreated,
    /// A schedule was changed.
    ScheduleChanged,
    /// A schedule was deleted.
    ScheduleDeleted,
}
crate::store::stored_enum!(TeamChangeKind {
    Paused = 0,
    Resumed = 1,
    BudgetChanged = 2,
    BudgetExhausted = 3,
    BudgetRenewed = 4,
    ScheduleCreated = 5,
    ScheduleChanged = 6,
    ScheduleDeleted = 7,
});

crate::base::portable! {
/// A change in a team, or in all of them.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct TeamChange {
    pub id: Id<TeamChange>,
    /// `None` for all teams of the organization.
    pub team: Option<Id<Team>>,
    pub kind: TeamChangeKind,
    /// The user who made it, also through a key; `None` if the service did.
    pub by: Option<Id<User>>,
    /// The agent that it is about, or that a schedule names: those who may use it see the change.
    pub agent: Option<Id<Member>>,
    pub schedule: Option<Id<Schedule>>,
    /// What was paused or resumed.
    pub scope: Option<PauseScope>,
    /// Why it was paused.
    pub reason: Option<Description>,
    /// The name of the schedule.
    pub name: Option<Title>,
    /// The budget since then.
    pub budget: Option<Budget>,
    pub created_at: Time,
}
}

static TEAM: Reference<TeamChange, Team> = Reference::cascade(
    &["team"],
    |team: &Team| Some(team.id).to_bytes(),
    |change: &TeamChange, _| change.team.iter().map(Key::to_bytes).collect(),
)
.deferred();

impl Record for TeamChange {
    const TABLE: &'static str = "teams.changes";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("by", "history: who made it may have left"),
        ("agent", "history: the agent may have left"),
        ("schedule", "history: the schedule may have been deleted"),
    ];
    type Key = (Option<Id<Team>>, Id<TeamChange>);
    fn key(&self) -> Self::Key {
        (self.team, self.id)
    }
}

impl TeamChange {
    /// Makes a change of a team that this user makes now.
    pub fn of(tx: &Tx, team: Option<Id<Team>>, kind: TeamChangeKind, by: Option<Id<User>>) -> Self {
        TeamChange {
            id: tx.new_id(),
            team,
            kind,
            by,
            agent: None,
            schedule: None,
            scope: None,
            reason: None,
            name: None,
            budget: None,
            created_at: tx.now(),
        }
    }

    /// Makes the change that something is paused, or without `paused` resumed.
    pub fn of_pause(
        tx: &Tx,
        (team, scope): (Option<Id<Team>>, PauseScope),
        paused: Option<&Paused>,
        by: Id<User>,
    ) -> Self {
        let kind = if paused.is_some() { TeamChangeKind::Paused } else { TeamChangeKind::Resumed };
        TeamChange {
            scope: Some(scope),
            reason: paused.and_then(|paused| paused.reason.clone()),
            ..TeamChange::of(tx, team, kind, Some(by))
        }
    }

    /// Makes the change of a team's budget, or of that of an agent in it.
    pub fn of_budget(
        tx: &Tx,
        (team, agent): (Id<Team>, Option<Id<Member>>),
        budget: Option<Budget>,
        by: Id<User>,
    ) -> Self {
        let change = TeamChange::of(tx, Some(team), TeamChangeKind::BudgetChanged, Some(by));
        TeamChange { agent, budget, ..change }
    }

    /// Says which schedule it is about.
    #[must_use]
    pub fn about(self, schedule: &Schedule) -> Self {
        let (agent, name) = (schedule.agent(), Some(schedule.name.clone()));
        TeamChange { agent, schedule: Some(schedule.id), name, ..self }
    }

    /// Stores it, and wakes those who follow what happens in the team. Those of other teams find a change of
    /// all teams when they look again, within seconds.
    pub fn note(&self, tx: &mut Tx) -> Result<()> {
        if let Some(team) = self.team {
            changes::tell(tx, team);
        }
        tx.insert(self)
    }
}
