//! Looking for another database server than the one that hangs: an old primary that can still be reached,
//! and whose commits wait for the standby that was promoted.

use std::time::{Duration, Instant};

use super::connection::{Commit, Connection};
use super::failure::Failure;
use super::membership::Member;
use super::shared::Shared;
use super::sql::BEGIN_WRITE;
use super::waiting::wait;

/// How long the addresses are looked up, and a heartbeat may take to be committed.
const TIME: Duration = Duration::from_secs(3);

impl Shared {
    /// Has this process use another database server than the one that hangs, if there is one that stores a
    /// heartbeat of its member. Blocks.
    ///
    /// That server accepts writes and finishes commits, which another address of the one that hangs does not.
    /// And it goes on with the same store: no other has the row of this process, whose token is random. What
    /// was not acknowledged by the old one is resolved at the new one, by its slots there, as after any
    /// failover.
    pub fn look_elsewhere(&self, own: &Member) {
        let connector = &self.pool.connector;
        let url = connector.url.clone();
        let looked_up = connector.runtime.spawn(async move { url.targets().await });
        let Some(Ok(targets)) = wait(looked_up, Instant::now() + TIME) else { return };
        let current = connector.url.preferred();
        for (target, config) in targets {
            if Some(target) == current {
                continue;
            }
            let there = connector.connect_to(config);
            if there.is_ok_and(|there| stores_heartbeat(&there, own).is_ok_and(|stored| stored)) {
                // In this order: what is put back meanwhile is not of this choice.
                connector.url.choose(target);
                self.pool.clear();
                tracing::warn!(
                    "the database server does not finish what it is asked, and another one of the \
                     store does: that one is used from now on"
                );
                return;
            }
        }
    }
}

fn stores_heartbeat(there: &Connection, own: &Member) -> Result<bool, Failure> {
    there.execute(BEGIN_WRITE)?;
    let is_member = own.renew(there)?;
    Ok(is_member && matches!(there.commit(Instant::now() + TIME), Commit::Done))
}
