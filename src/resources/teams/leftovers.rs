//! What deleted teams and removed agents leave behind, cleared away in steps.
//!
//! Deleting takes away at once what makes the rest unreachable, and writes down that there is a
//! rest: there may be more rows than one transaction changes.

use bincode::{Decode, Encode};

use super::members::{self, Member};
use super::team::{self, Team};
use super::{approvals, memories, messages, runs, tasks, timeline, wakes};
use crate::base::{Id, Result};
use crate::outbox::{SWEEP_ROWS, Settings, Sweep, Swept};
use crate::store::{Order, Record, Source, Tx};

pub use crate::outbox::{first, remove_first};

type ClearOfTeam = fn(&mut Tx, Id<Team>, usize) -> Result<usize>;
type ClearOfMember = fn(&mut Tx, Id<Team>, Id<Member>, usize) -> Result<usize>;

/// What a team has, each removed by a function that clears at most so many rows and says how many.
/// Where it is less than it was allowed, nothing is left.
const OF_A_TEAM: &[ClearOfTeam] = &[
    members::clear,
    tasks::clear,
    messages::clear,
    memories::clear,
    runs::clear,
    approvals::clear,
    timeline::clear,
    team::clear,
];

/// What an agent has in a team and leaves with it, in the same way.
const OF_A_MEMBER: &[ClearOfMember] = &[tasks::unassign, wakes::clear, memories::clear_of_member];

/// A deletion clears so many rows itself: few agents have more, and with three index entries each
/// they are well within what one transaction may change.
const AT_ONCE: usize = 1000;

// ── Records ──────────────────────────────────────────────────────────────────

/// That a team was deleted of which rows may be left.
#[derive(Clone, Debug, Encode, Decode)]
pub struct DeletedTeam {
    /// Which.
    pub team: Id<Team>,
}

impl Record for DeletedTeam {
    const TABLE: &'static str = "teams.deleted";
    type Key = Id<Team>;
    fn key(&self) -> Self::Key {
        self.team
    }
}

/// That an agent was taken out of a team in which it may have rows left.
#[derive(Clone, Debug, Encode, Decode)]
pub struct LeftMember {
    /// The team, which may be gone too.
    pub team: Id<Team>,
    /// What the agent was in it.
    pub member: Id<Member>,
}

impl Record for LeftMember {
    const TABLE: &'static str = "team_agents.left";
    type Key = (Id<Team>, Id<Member>);
    fn key(&self) -> Self::Key {
        (self.team, self.member)
    }
}

// ── Clearing ─────────────────────────────────────────────────────────────────

/// Clears what a team that is being deleted has, its agents first.
pub fn clear_team(tx: &mut Tx, team: Id<Team>) -> Result<()> {
    members::clear(tx, team, AT_ONCE)?;
    tx.insert(&DeletedTeam { team })
}

/// Clears what an agent that is being taken out of a team has in it.
pub fn clear_member(tx: &mut Tx, team: Id<Team>, member: Id<Member>) -> Result<()> {
    if clear_of_member(tx, team, member, AT_ONCE)? == AT_ONCE {
        tx.insert(&LeftMember { team, member })?;
    }
    Ok(())
}

fn clear_of_member(
    tx: &mut Tx,
    team: Id<Team>,
    member: Id<Member>,
    at_most: usize,
) -> Result<usize> {
    let mut cleared = 0;
    for clear in OF_A_MEMBER {
        cleared += clear(tx, team, member, at_most - cleared)?;
    }
    Ok(cleared)
}

/// Goes on with what was begun.
pub const CLEAR: Sweep = Sweep {
    name: "clear deleted teams and removed agents",
    every_secs: 60,
    run: |tx: &mut Tx, _: &Settings| {
        // Teams first: what is gone with its team need not be unassigned before.
        let deleted = tx.view().first(Source::<DeletedTeam>::TABLE, &(), Order::Ascending)?;
        if let Some(deleted) = deleted {
            let mut cleared = 0;
            for clear in OF_A_TEAM {
                cleared += clear(tx, deleted.team, SWEEP_ROWS - cleared)?;
            }
            if cleared < SWEEP_ROWS {
                tx.remove(&deleted)?;
            }
            return Ok(Swept::More);
        }
        let left = tx.view().first(Source::<LeftMember>::TABLE, &(), Order::Ascending)?;
        if let Some(left) = left {
            if clear_of_member(tx, left.team, left.member, SWEEP_ROWS)? < SWEEP_ROWS {
                tx.remove(&left)?;
            }
            return Ok(Swept::More);
        }
        Ok(Swept::Clean)
    },
    installation: false,
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::teams::testing::{agent, hire, message, repeat, task, team};
    use crate::resources::teams::{members, team as teams};
    use crate::resources::testing::World;

    /// Sweeps until all is clear; how many steps had something to do.
    fn sweep(world: &World) -> usize {
        let settings = Settings { memory_retention_secs: 0, log_retention_secs: 0 };
        for steps in 0..20 {
            let settings = settings.clone();
            let swept = world.store.write_now(world.org, move |tx| (CLEAR.run)(tx, &settings));
            if swept.unwrap() == Swept::Clean {
                return steps;
            }
        }
        panic!("it is never clear");
    }

    fn count<R: Record>(world: &World) -> usize {
        let count = |view: &crate::store::View| view.count(Source::<R>::TABLE, &(), usize::MAX);
        world.store.read(world.org, count).unwrap()
    }

    fn rows(world: &World) -> Vec<usize> {
        vec![
            count::<Team>(world),
            count::<Member>(world),
            count::<tasks::Task>(world),
            count::<tasks::Counter>(world),
            count::<messages::Message>(world),
            count::<wakes::Wake>(world),
            count::<team::Spending>(world),
            count::<DeletedTeam>(world),
            count::<LeftMember>(world),
        ]
    }

    #[test]
    fn a_deleted_team_takes_everything_along_and_leaves_other_teams_alone() {
        let world = World::new();
        let (crew, other) = (team(&world, "crew", None), team(&world, "other", None));
        let ann = hire(&world, crew, "ann");
        let eve = hire(&world, other, "eve");
        for (team, member) in [(other, eve), (crew, ann)] {
            task(&world, team, json!({"title": "x", "assigneeAgentId": member}));
            message(&world, team, json!({"body": "x", "toAgentId": member}));
        }
        let mail = json!({"body": "x", "toAgentId": ann});
        repeat(&world, messages::send, crew, mail, SWEEP_ROWS + 20);
        let spent = world.store.write_now(world.org, move |tx| {
            let month_start = tx.now();
            let spending =
                team::Spending { team: crew, month_start, spent_usd: 1.0, exhausted_told: false };
            tx.insert(&spending)
        });
        spent.unwrap();

        world.write(teams::remove, crew, ()).unwrap();
        assert!(sweep(&world) > 2, "the rows are more than one step removes");
        assert_eq!(rows(&world), [1, 1, 1, 1, 1, 2, 0, 0, 0]);
        world.assert_sound();
    }

    #[test]
    fn a_deleted_teams_agents_are_free_at_once() {
        let world = World::new();
        let crew = team(&world, "crew", None);
        let ann = agent(&world, "ann");
        let body = json!({"stableKey": "ann", "role": "member"});
        world.write(members::hire, crew, World::input(body).unwrap()).unwrap();
        world.write(teams::remove, crew, ()).unwrap();
        // It counts as in no team: leaving one more is an error.
        let once_more = world
            .store
            .write_now(world.org, move |tx| crate::resources::agents::left_team(tx, ann));
        assert!(once_more.is_err());
    }

    #[test]
    fn what_a_removed_agent_leaves_goes_though_it_be_much() {
        let world = World::new();
        let crew = team(&world, "crew", None);
        let (ann, bob) = (hire(&world, crew, "ann"), hire(&world, crew, "bob"));
        let other = message(&world, crew, json!({"body": "x", "toAgentId": bob}));
        let many = AT_ONCE / 2 + 10;
        let new = json!({"title": "x", "assigneeAgentId": ann});
        repeat(&world, tasks::create, crew, new, many);
        world.write(members::remove, (crew, ann), ()).unwrap();
        assert_eq!(count::<LeftMember>(&world), 1);
        sweep(&world);
        assert_eq!(rows(&world), [1, 1, many, 1, 1, 1, 0, 0, 0]);
        let view = |view: &crate::store::View| view.all(Source::<tasks::Task>::TABLE, &());
        let all = world.store.read(world.org, view).unwrap();
        assert!(all.iter().all(|task| task.assignee_agent_id.is_none()));
        let wakes = |view: &crate::store::View| view.all(Source::<wakes::Wake>::TABLE, &());
        let left = world.store.read(world.org, wakes).unwrap();
        assert_eq!(left[0].message_id, Some(other.id));
        world.assert_sound();
    }

    #[test]
    fn few_rows_of_a_removed_agent_go_with_it() {
        let world = World::new();
        let crew = team(&world, "crew", None);
        let ann = hire(&world, crew, "ann");
        task(&world, crew, json!({"title": "x", "assigneeAgentId": ann}));
        world.write(members::remove, (crew, ann), ()).unwrap();
        assert_eq!(rows(&world), [1, 0, 1, 1, 0, 0, 0, 0, 0]);
    }
}
