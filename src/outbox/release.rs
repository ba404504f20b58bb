//! What becomes of deliveries when their channel is switched on or off, or deleted.

use super::channels::{Channel, SUBSCRIPTIONS, replace_enabled};
use super::deliveries::WAITING;
use super::delivering::schedule;
use super::handlers::{JobHandler, Prepared, enqueue, no_effect};
use super::jobs::Job;
use super::sweeps::SWEEP_ROWS;
use crate::base::{Id, Result};
use crate::store::{Order, PageRequest, Tx};

/// Switches a channel on or off. What waited for it is delivered once it is on.
///
/// # Errors
/// If the store fails, or `channel` is not what is stored.
pub fn set_channel_enabled(tx: &mut Tx, channel: &Channel, enabled: bool) -> Result<()> {
    replace_enabled(tx, channel, enabled)?;
    if enabled { release(tx, channel.id) } else { Ok(()) }
}

/// Deletes a channel with its subscriptions. Its deliveries that are not done become dead: those
/// that wait at once, the others when they would be tried next.
///
/// # Errors
/// If the store fails, or `channel` is not what is stored.
pub fn delete_channel(tx: &mut Tx, channel: &Channel) -> Result<()> {
    for subscription in tx.all(&SUBSCRIPTIONS, &channel.id)? {
        tx.remove(&subscription)?;
    }
    tx.remove(channel)?;
    release(tx, channel.id)
}

/// Lets the deliveries that wait for a channel go on: what becomes of each is decided anew.
fn release(tx: &mut Tx, channel: Id<Channel>) -> Result<()> {
    if tx.count(&WAITING, &channel, 1)? > 0 {
        let now = tx.now();
        enqueue(tx, &RELEASE, channel.cast(), None, now)?;
    }
    Ok(())
}

/// Schedules what waits for a channel, in steps; the target is the channel.
pub(super) const RELEASE: JobHandler = JobHandler {
    kind: "channel.release",
    prepare: release_some,
    settle: |_, job, _| Err(no_effect(job)),
};

fn release_some(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let channel: Id<Channel> = job.target.cast();
    // Switched off meanwhile: they go on waiting.
    if tx.get::<Channel>(&channel)?.is_some_and(|channel| !channel.enabled) {
        return Ok(Prepared::Done);
    }
    let part = PageRequest { limit: SWEEP_ROWS, after: None };
    let page = tx.page(&WAITING, &channel, Order::Ascending, &part, |_| true)?;
    for delivery in &page.items {
        schedule(tx, delivery)?;
    }
    Ok(if page.next.is_some() { Prepared::RetryAt(tx.now()) } else { Prepared::Done })
}
