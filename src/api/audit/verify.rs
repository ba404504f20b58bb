//! The verification of a chain: every entry as it was appended, none missing, none out of order.

use std::ops::ControlFlow;

use super::chain::{ChainHead, ChainedEntry, Link};
use super::postings::Comparer;
use super::retention::ChainStart;
use crate::auth::Organization;
use crate::base::Result;
use crate::store::check::Findings;
use crate::store::{ListSource, Order, View};

/// Of at most 100 entries that are not as they were appended, it is found out where they were.
const MAX_PLACED: usize = 100;

/// An entry that is not as it was appended is also compared with the 8 places on both sides: those
/// after a removed entry may have been moved up.
const NEIGHBOURS: u64 = 8;

/// Verifies the chain of the organization: a finding says where it was changed, cut or reordered.
pub fn verify(view: &View, findings: &mut Findings) -> Result<()> {
    let slug = view.get::<Organization>(&view.org())?.map(|organization| organization.slug);
    let name = slug.map_or_else(|| view.org().to_string(), |slug| slug.to_string());
    let mut walk = Walk {
        view,
        findings,
        log: format!("the audit log of {name}"),
        last: Link::START,
        last_is_altered: false,
        altered: Vec::new(),
    };
    let found = walk.findings.messages.len();
    let mut postings = Comparer::new(view);
    walk.start()?;
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |chained: ChainedEntry| {
        postings.add(chained.sequence, &chained.entry)?;
        walk.entry(chained);
        Ok(ControlFlow::Continue(()))
    })?;
    walk.place_altered();
    walk.end()?;
    // Those of a chain that was attacked differ for that reason.
    if walk.findings.messages.len() == found
        && let Some(differs) = postings.finish()?
    {
        walk.report(format_args!("{differs}"));
    }
    Ok(())
}

/// The walk along one chain.
struct Walk<'a> {
    view: &'a View<'a>,
    findings: &'a mut Findings,
    /// What messages call the log.
    log: String,
    /// The entry before the next one.
    last: Link,
    /// Whether its hash is wrong, so that the next one says nothing about it.
    last_is_altered: bool,
    /// The first entries whose hash is wrong.
    altered: Vec<ChainedEntry>,
}

impl Walk<'_> {
    fn report(&mut self, what: std::fmt::Arguments<'_>) {
        self.findings.report(format!("{}: {what}", self.log));
    }

    fn start(&mut self) -> Result<()> {
        let Some(start) = self.view.get::<ChainStart>(&())? else { return Ok(()) };
        if !start.is_sealed(self.view.keys(), self.view.org()) {
            self.report(format_args!(
                "the record of what retention removed was changed; entries up to {} may have been \
                 cut off",
                start.before.sequence
            ));
        }
        self.last = start.before;
        Ok(())
    }

    fn entry(&mut self, chained: ChainedEntry) {
        let next = self.last.sequence + 1;
        let (sequence, is_next) = (chained.sequence, chained.sequence == next);
        if sequence > next {
            self.report_missing(next, sequence - 1);
        } else if sequence < next {
            self.report(format_args!("entry {sequence} was removed by retention, but is there"));
        }
        let right = chained.hash_as(self.view.keys(), self.view.org(), sequence);
        let continues = chained.previous == self.last.hash;
        let last = std::mem::replace(&mut self.last, chained.link());
        let follows_altered = std::mem::replace(&mut self.last_is_altered, right != chained.hash);
        if right != chained.hash {
            if self.altered.len() < MAX_PLACED {
                self.altered.push(chained);
            } else {
                self.report(format_args!("entry {sequence} was changed"));
            }
        } else if is_next && !continues && !follows_altered {
            self.report(format_args!(
                "entry {sequence} does not continue entry {}: what was before it was cut off or \
                 replaced",
                last.sequence
            ));
        }
    }

    fn report_missing(&mut self, first: u64, last: u64) {
        if first == last {
            self.report(format_args!("entry {first} is missing"));
        } else {
            self.report(format_args!("entries {first} to {last} are missing"));
        }
    }

    /// Reports the altered entries: as moved where they are right with another number.
    fn place_altered(&mut self) {
        let altered = std::mem::take(&mut self.altered);
        let places: Vec<u64> = altered.iter().map(|chained| chained.sequence).collect();
        for chained in &altered {
            let at = chained.sequence;
            let near = at.saturating_sub(NEIGHBOURS)..=at.saturating_add(NEIGHBOURS);
            let (keys, org) = (self.view.keys(), self.view.org());
            let origin = places
                .iter()
                .copied()
                .chain(near)
                .find(|number| chained.hash_as(keys, org, *number) == chained.hash);
            match origin {
                Some(origin) => self.report(format_args!(
                    "entry {at} was appended as entry {origin}: the entries were reordered"
                )),
                None => self.report(format_args!(
                    "entry {at} ({}, {}) was changed",
                    chained.entry.id, chained.entry.action
                )),
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        let last = self.last;
        let Some(head) = self.view.get::<ChainHead>(&())? else {
            if last.sequence > 0 {
                self.report(format_args!("the record of its end is missing"));
            }
            return Ok(());
        };
        if !head.is_sealed(self.view.keys(), self.view.org()) {
            self.report(format_args!("the record of its end was replaced"));
        }
        if let Some(first) = head.broken_before {
            self.report(format_args!(
                "when entry {first} was appended, the end of the log was not as it was left: \
                 entries before it were cut off or replaced"
            ));
        }
        let end = head.last;
        if last.sequence < end.sequence {
            self.report_missing(last.sequence + 1, end.sequence);
            self.report(format_args!("it was cut off after entry {}", last.sequence));
        } else if last.sequence > end.sequence {
            self.report(format_args!(
                "it ends with entry {}, but entries up to {} follow: the record of its end is an \
                 older one",
                end.sequence, last.sequence
            ));
        } else if last.hash != end.hash {
            self.report(format_args!("its last entry, {}, is another one", last.sequence));
        }
        Ok(())
    }
}
