//! Restarting a chain that is broken: what `roadstead repair` does to it.
//!
//! The entries before the first break stay as they are, so that checkpoints of them still hold. Those
//! after it are chained again, with new numbers and hashes: that they are as they were appended
//! cannot be proved any more. The last entry says so.

use std::ops::ControlFlow;

use super::chain::{ChainHead, ChainedEntry, Link};
use super::postings::{Posting, Postings};
use super::retention::ChainStart;
use super::verify::verify;
use super::{SystemAction, system_entry};
use crate::base::Result;
use crate::store::check::Findings;
use crate::store::{ListSource, Order, Tx, View};

/// A step chains or indexes at most 500 entries: with their postings far fewer rows than a transaction
/// may write.
const STEP_ROWS: usize = 500;

/// The chain of an organization that is being restarted.
#[derive(Clone)]
pub struct Restart {
    stage: Stage,
    head: ChainHead,
    /// The first entry that is not as it was appended; `None`: the chain is whole, and only its filters
    /// find something else.
    pub broken_at: Option<u64>,
    /// How many entries were chained again.
    pub chained: u64,
    /// What was found first.
    why: String,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Entries from this number on are chained again.
    Chaining(u64),
    /// The last entry is to be added, and the head to be written.
    Noting,
    /// The postings are being removed.
    ClearingPostings,
    /// Postings are added of the entries from this number on.
    Posting(u64),
}

impl Restart {
    /// Verifies the chain of the view's organization; `None` if it is as it was left.
    pub fn of_broken(view: &View) -> Result<Option<Self>> {
        let mut findings = Findings::default();
        verify(view, &mut findings)?;
        let Some(why) = findings.messages.into_iter().next() else { return Ok(None) };
        let mut walk = Walk::begin(view)?;
        view.for_each(ListSource::TABLE, &(), Order::Ascending, |chained: ChainedEntry| {
            Ok(if walk.follows(view, &chained) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        let next = walk.head.last.sequence + 1;
        let stored: Option<ChainHead> = view.get(&())?;
        let is_whole = stored.is_some_and(|head| {
            head.last == walk.head.last
                && head.broken_before.is_none()
                && head.is_sealed(view.keys(), view.org())
        });
        let is_start_right = view.get::<ChainStart>(&())?.is_none() || walk.has_start;
        let (stage, broken_at) = if is_whole && is_start_right {
            (Stage::ClearingPostings, None)
        } else {
            (Stage::Chaining(if walk.has_start { next } else { 0 }), Some(next))
        };
        Ok(Some(Restart { stage, head: walk.head, broken_at, chained: 0, why }))
    }

    /// Does the next step; `Ok(true)` if it was the last.
    pub fn step(&mut self, tx: &mut Tx) -> Result<bool> {
        match self.stage {
            Stage::Chaining(from) => self.chain(tx, from)?,
            Stage::Noting => self.note(tx)?,
            Stage::ClearingPostings => self.clear_postings(tx)?,
            Stage::Posting(from) => return self.post(tx, from),
        }
        Ok(false)
    }

    /// Chains the next entries again. A new number is never larger than the old one.
    fn chain(&mut self, tx: &mut Tx, from: u64) -> Result<()> {
        if self.head.last == Link::START
            && let Some(start) = tx.get::<ChainStart>(&())?
        {
            tx.remove(&start)?;
        }
        let entries = entries_from(&tx.view(), from)?;
        self.stage = Stage::Noting;
        for old in entries {
            self.stage = Stage::Chaining(old.sequence + 1);
            tx.remove(&old)?;
            let chained = self.head.append(tx.keys(), tx.org(), old.entry);
            tx.insert(&chained)?;
            self.chained += 1;
        }
        Ok(())
    }

    /// Adds the entry that says where the chain broke, and writes its head.
    fn note(&mut self, tx: &mut Tx) -> Result<()> {
        let first = self.broken_at.unwrap_or_default();
        let again = match self.chained {
            0 => "no entry after it was left".to_string(),
            count => format!(
                "the {count} entries that were left after it, now {first} to {}, were chained again",
                self.head.last.sequence
            ),
        };
        let done = SystemAction {
            action: "audit_log.restart",
            resource_id: &first.to_string(),
            detail: &format!("the chain was broken at entry {first} ({}); {again}", self.why),
            cause: "roadstead repair",
        };
        let entry = system_entry(tx, done);
        let chained = self.head.append(tx.keys(), tx.org(), entry);
        tx.insert(&chained)?;
        self.head.seal = self.head.seal_in(tx.keys(), tx.org());
        tx.put(&self.head)?;
        self.stage = Stage::ClearingPostings;
        Ok(())
    }

    fn clear_postings(&mut self, tx: &mut Tx) -> Result<()> {
        let mut postings = Vec::new();
        tx.view().for_each(ListSource::TABLE, &(), Order::Ascending, |posting: Posting| {
            postings.push(posting);
            let is_full = postings.len() == STEP_ROWS;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if postings.is_empty() {
            self.stage = Stage::Posting(0);
        }
        postings.iter().try_for_each(|posting| tx.remove(posting))
    }

    fn post(&mut self, tx: &mut Tx, from: u64) -> Result<bool> {
        let entries = entries_from(&tx.view(), from)?;
        let mut postings = Postings::default();
        for chained in &entries {
            postings.add(chained.sequence, &chained.entry);
            self.stage = Stage::Posting(chained.sequence + 1);
        }
        postings.insert(tx)?;
        Ok(entries.len() < STEP_ROWS)
    }
}

/// Returns the next entries from a number on.
fn entries_from(view: &View, from: u64) -> Result<Vec<ChainedEntry>> {
    let mut entries = Vec::new();
    view.for_each_between((&from, &u64::MAX), Order::Ascending, |chained: ChainedEntry| {
        entries.push(chained);
        let is_full = entries.len() == STEP_ROWS;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(entries)
}

/// The walk along the entries that are as they were appended.
struct Walk {
    /// The head of the chain as it would be after them.
    head: ChainHead,
    /// Whether the chain begins where its start says.
    has_start: bool,
    /// Where the end of the log was not as it was left when it was continued.
    broken_before: u64,
}

impl Walk {
    fn begin(view: &View) -> Result<Self> {
        let stored: Option<ChainHead> = view.get(&())?;
        let broken_before = stored.and_then(|head| head.broken_before).unwrap_or(u64::MAX);
        let mut head = ChainHead::EMPTY;
        let Some(start) = view.get::<ChainStart>(&())? else {
            return Ok(Walk { head, has_start: true, broken_before });
        };
        let first = view.first::<ChainedEntry>(ListSource::TABLE, &(), Order::Ascending)?;
        // Entries that retention has removed, and are there, are numbered anew.
        let has_start = start.is_sealed(view.keys(), view.org())
            && first.is_none_or(|first| first.sequence > start.before.sequence);
        if has_start {
            head.last = start.before;
        }
        Ok(Walk { head, has_start, broken_before })
    }

    /// Goes on to the next entry, if it continues those before it.
    fn follows(&mut self, view: &View, next: &ChainedEntry) -> bool {
        let last = &self.head.last;
        let is_next = self.has_start
            && next.sequence == last.sequence + 1
            && next.sequence < self.broken_before
            && next.previous == last.hash
            && next.hash == next.hash_as(view.keys(), view.org(), next.sequence);
        if is_next {
            let lag = next.latest.millis() - next.entry.created_at.millis();
            self.head.last = next.link();
            self.head.latest = self.head.latest.max(next.latest);
            self.head.lag_millis = self.head.lag_millis.max(lag);
        }
        is_next
    }
}
