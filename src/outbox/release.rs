//! Enabling and disabling of channels, and its effect on their deliveries.

use super::channels::{Channel, replace_enabled};
use super::deliveries::WAITING;
use super::delivering::schedule;
use super::handlers::{JobHandler, Prepared, enqueue, no_effect};
use super::jobs::Job;
use super::sweeps::SWEEP_ROWS;
use crate::base::{Id, Result};
use crate::store::{Order, PageRequest, Tx};

/// Enables or disables a channel, on behalf of a user. Waiting deliveries are scheduled when it is enabled.
///
/// # Errors
/// If the store fails, or `channel` is not what is stored.
pub fn set_channel_enabled(
    tx: &mut Tx,
    channel: &Channel,
    enabled: bool,
    by: Option<Id<()>>,
) -> Result<()> {
    replace_enabled(tx, channel, enabled, by)?;
    if enabled { release(tx, channel.id) } else { Ok(()) }
}

/// Enqueues the job that schedules the deliveries waiting for a channel, if there are any.
fn release(tx: &mut Tx, channel: Id<Channel>) -> Result<()> {
    if tx.count(&WAITING, &channel, 1)? > 0 {
        let now = tx.now();
        enqueue(tx, &RELEASE, channel.cast(), None, now)?;
    }
    Ok(())
}

/// Schedules the deliveries that wait for a channel, in steps of [`SWEEP_ROWS`]; the target is the
/// channel.
pub(super) const RELEASE: JobHandler =
    JobHandler { kind: "channel.release", prepare: release_some, settle: no_effect };

fn release_some(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let id: Id<Channel> = job.target.cast();
    if tx.get::<Channel>(&id)?.is_none_or(|channel| !channel.enabled) {
        // Deleted in the meantime, or disabled: they end with it, or continue to wait.
        return Ok(Prepared::Done);
    }
    let request = PageRequest { limit: SWEEP_ROWS, after: None };
    let page = tx.page(&WAITING, &id, Order::Ascending, &request, |_| true)?;
    for delivery in &page.items {
        schedule(tx, delivery)?;
    }
    Ok(if page.next.is_some() { Prepared::RetryAt(tx.now()) } else { Prepared::Done })
}
