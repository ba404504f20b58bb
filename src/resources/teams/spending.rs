//! What is spent of monthly budgets (reference: teams-and-wakes, "Budgets").

use bincode::{Decode, Encode};

use super::member::Member;
use super::team::Team;
use crate::api::Resource;
use crate::base::{Id, Time};
use crate::store::{AnyIndex, AnyReference, Export, Index, Key, Record, Reference, TableInfo};

pub(super) const RESOURCE: Resource = Resource {
    tables: &[TableInfo::of::<MonthlySpending>(), TableInfo::of::<BudgetState>()],
    ..Resource::EMPTY
};

crate::base::portable! {
/// The cost of a team's runs in a calendar month. One record per month, so no job has to reset it when a
/// month ends.
#[derive(Clone, Debug, Encode, Decode)]
pub struct MonthlySpending {
    pub team: Id<Team>,
    /// The month ([`Calendar::month`](super::zone::Calendar::month)).
    pub month_start: Time,
    /// In US dollars.
    pub spent_usd: f64,
    /// Whether a release before [`BudgetState`] was stored has published that the budget was passed.
    pub exhaustion_published: bool,
}
}

static TEAM: Reference<MonthlySpending, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |spending: &MonthlySpending, _| vec![spending.team.to_bytes()],
)
.deferred();

impl Record for MonthlySpending {
    const TABLE: &'static str = "teams.spending";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    type Key = (Id<Team>, Time);
    fn key(&self) -> Self::Key {
        (self.team, self.month_start)
    }
}

crate::base::portable! {
/// How a budget stands, or stood, that was low or used up in a month: of a team, or of an agent in it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct BudgetState {
    pub team: Id<Team>,
    /// The agent whose budget it is; `None` for that of the team.
    pub agent: Option<Id<Member>>,
    /// The month ([`Calendar::month`](super::zone::Calendar::month)).
    pub month_start: Time,
    /// Since when four fifths of it are spent.
    pub low_since: Option<Time>,
    /// Since when it is used up.
    pub exhausted_at: Option<Time>,
    /// Whether the event that it is used up was published: it is, once a month.
    pub exhaustion_published: bool,
    /// Whether the month has ended, and those were told that it held back.
    pub is_over: bool,
    /// Since when it holds agents back.
    pub held_since: Option<Time>,
    /// Whether the event has told that it does: it has, once a month.
    pub hold_published: bool,
}
}

/// A month, and the team or agent whose budget it is.
pub type CurrentPlace = (Time, Id<()>);

/// Those of months that have not ended, by month.
pub static CURRENT: Index<BudgetState, CurrentPlace> =
    Index::non_unique("teams.budgets.current", |state| {
        let subject = state.agent.map_or(state.team.cast(), Id::cast);
        (!state.is_over).then_some((state.month_start, subject))
    });

static STATE_TEAM: Reference<BudgetState, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |state: &BudgetState, _| vec![state.team.to_bytes()],
)
.deferred();

impl Record for BudgetState {
    const TABLE: &'static str = "teams.budgets";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&CURRENT];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&STATE_TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("agent", "removed with the agent by what removes that")];
    type Key = (Id<Team>, Option<Id<Member>>, Time);
    fn key(&self) -> Self::Key {
        (self.team, self.agent, self.month_start)
    }
}
