//! Delivering a range of a channel's deliveries again, for a receiver that lost what it was sent or
//! was down for longer than deliveries are retried.
//!
//! The request writes a row; a job schedules the deliveries in steps, so that a long range holds
//! nobody up.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::channels::Channel;
use super::deliveries::{BY_CHANNEL, Delivery, DeliveryStatus, LogEntry};
use super::delivering::schedule;
use super::events::EventType;
use super::handlers::{JobHandler, Prepared, cancel, enqueue, no_effect};
use super::jobs::{Job, pending_job};
use super::log::combinations;
use crate::base::{Error, Id, Result, Time};
use crate::store::{AnyReference, Export, Key, Order, Record, Reference, Tx, upgrade_shorter};

/// A step schedules at most 100 deliveries, with about 20 keys each.
const STEP: usize = 100;

crate::base::portable! {
/// A redelivery that is under way, one for a channel.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Redelivery {
    pub channel: Id<Channel>,
    /// The earliest events.
    pub from: Time,
    /// Events before this.
    pub to: Time,
    /// The status of the deliveries; both failed and dead ones without it.
    pub status: Option<DeliveryStatus>,
    /// When it was requested.
    pub created_at: Time,
    /// How many of the ranges of the index are done.
    done: u32,
    /// The last delivery that was looked at in the next range.
    after: Option<(Time, Id<LogEntry>)>,
    /// The job that does it; unknown of one that an earlier version began.
    job: Option<Id<Job>>,
}
}

static CHANNEL: Reference<Redelivery, Channel> = Reference::cascade(
    &["channel"],
    |channel: &Channel| channel.id.to_bytes(),
    |redelivery: &Redelivery, _| vec![redelivery.channel.to_bytes()],
);

impl Record for Redelivery {
    const TABLE: &'static str = "redeliveries";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&CHANNEL];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("after", "a position: the entry may be removed meanwhile"),
        ("job", "ends together with it; without it another redelivery may begin"),
    ];
    const VERSION: u8 = 2;
    type Key = Id<Channel>;
    fn key(&self) -> Self::Key {
        self.channel
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

impl Redelivery {
    /// Returns the ranges of the index to look at. What is scheduled becomes failed, so that failed
    /// ones come first: no delivery is met again in a later range.
    fn ranges(&self) -> Vec<(DeliveryStatus, EventType)> {
        let statuses = match self.status {
            Some(status) => vec![status],
            None => vec![DeliveryStatus::Failed, DeliveryStatus::Dead],
        };
        statuses.into_iter().flat_map(|status| combinations(Some(status), None)).collect()
    }
}

/// Starts to deliver again the deliveries of a channel whose events happened from `from` until `to`,
/// excluded: those with this status, or the failed and dead ones. Those that were never tried are
/// tried now.
///
/// # Errors
/// 409 if one is under way in this channel.
pub fn redeliver_range(
    tx: &mut Tx,
    channel: Id<Channel>,
    (from, to): (Time, Time),
    status: Option<DeliveryStatus>,
) -> Result<Redelivery> {
    if let Some(earlier) = tx.get::<Redelivery>(&channel)? {
        let job = earlier.job;
        // One that was given up or lost is done by nobody.
        let is_under_way = match job {
            Some(job) => pending_job(&tx.view(), &job)?.is_some(),
            None => earlier.created_at > tx.now().minus_secs(24 * 3600),
        };
        if is_under_way {
            return Err(Error::conflict(
                "redelivery_under_way",
                "another redelivery of this channel is under way; wait until it is done",
            ));
        }
        job.map_or(Ok(()), |job| cancel(tx, job))?;
        tx.remove(&earlier)?;
    }
    let now = tx.now();
    let job = Some(enqueue(tx, &REDELIVER, channel.cast(), None, now)?);
    let redelivery =
        Redelivery { channel, from, to, status, created_at: now, done: 0, after: None, job };
    tx.insert(&redelivery)?;
    Ok(redelivery)
}

/// Schedules the deliveries of a redelivery in steps of [`STEP`]; the target is the channel.
pub(super) const REDELIVER: JobHandler =
    JobHandler { kind: "channel.redeliver", prepare: redeliver_some, settle: no_effect };

fn redeliver_some(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let redelivery = tx.get::<Redelivery>(&job.target.cast())?;
    let Some(old) = redelivery.filter(|row| row.job.is_none_or(|own| own == job.id)) else {
        return Ok(Prepared::Done);
    };
    let ranges = old.ranges();
    let mut next = Redelivery { job: Some(job.id), ..old.clone() };
    let mut left = STEP;
    while left > 0
        && let Some(range) = ranges.get(next.done as usize)
    {
        let found = in_range(tx, &next, *range, left)?;
        for delivery in &found {
            // One that was sent since it was asked for has been delivered again.
            if delivery.sent_at.is_none_or(|sent| sent < next.created_at) {
                schedule(tx, delivery)?;
            }
            next.after = Some((delivery.created_at, delivery.id));
        }
        if found.len() < left {
            (next.done, next.after) = (next.done + 1, None);
        }
        left -= found.len();
    }
    if next.done as usize == ranges.len() {
        tx.remove(&old)?;
        return Ok(Prepared::Done);
    }
    tx.replace(&old, &next)?;
    Ok(Prepared::RetryAt(tx.now()))
}

/// Returns the next deliveries in a range of the index.
fn in_range(
    tx: &Tx,
    redelivery: &Redelivery,
    (status, event_type): (DeliveryStatus, EventType),
    limit: usize,
) -> Result<Vec<Delivery>> {
    let of = (redelivery.channel, status, event_type);
    let after = redelivery.after;
    let from = (of, after.unwrap_or((redelivery.from, Id::NIL)));
    let to = (of, redelivery.to);
    let mut ids = Vec::new();
    tx.view().entries(&BY_CHANNEL, &from, &to, Order::Ascending, |(_, (at, id, _)), _| {
        if after != Some((at, id)) {
            ids.push(id);
        }
        Ok(if ids.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    ids.iter().map(|id| tx.fetch(id)).collect()
}
