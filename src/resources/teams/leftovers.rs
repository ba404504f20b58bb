//! What deleted teams and removed agents leave behind, cleared away in steps.
//!
//! Deleting takes away at once what makes the rest unreachable, and writes down that there is a
//! rest: there may be more rows than one transaction changes.

use bincode::{Decode, Encode};

use super::members::{self, Member};
use super::team::{self, Team};
use super::{messages, tasks, wakes};
use crate::base::{Id, Result};
use crate::outbox::{SWEEP_ROWS, Settings, Sweep, Swept};
use crate::store::{Key, Order, Part, Record, Source, Tx};

/// What a team has, each removed by a function that clears at most so many rows and says how many.
/// Where it is less than it was allowed, nothing is left.
const OF_A_TEAM: &[fn(&mut Tx, Id<Team>, usize) -> Result<usize>] =
    &[members::clear, tasks::clear, messages::clear, team::clear];

/// What an agent has in a team and leaves with it, in the same way.
const OF_A_MEMBER: &[fn(&mut Tx, Id<Team>, Id<Member>, usize) -> Result<usize>] =
    &[tasks::unassign, wakes::clear];

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

/// Removes the first records whose keys begin with `prefix`; says how many.
pub fn remove_first<R: Record>(tx: &mut Tx, prefix: &impl Key, at_most: usize) -> Result<usize> {
    let part = Part { limit: at_most, after: None };
    let first = tx.page(Source::<R>::TABLE, prefix, Order::Ascending, &part, |_| true)?.items;
    for record in &first {
        tx.remove(record)?;
    }
    Ok(first.len())
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
