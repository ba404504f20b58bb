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
    /// Has this process use another database server than the one that hangs, or the chosen one that is away,
    /// if there is one that stores a heartbeat of its member. Blocks.
    ///
    /// That server accepts writes and finishes commits, which another address of the one that hangs does not.
    /// And it goes on with the same store: no other has the row of this process, whose token is random. What
    /// was not acknowledged by the old one is resolved at the new one, by its slots there, as after any
    /// failover.
    ///
    /// Returns whether there is none, but one without the row. That says nothing: the others have removed
    /// this process there, or it has a store that was restored or founded anew.
    pub fn look_elsewhere(&self, own: &Member) -> bool {
        let connector = &self.pool.connector;
        let url = connector.url.clone();
        let looked_up = connector.runtime.spawn(async move { url.targets().await });
        let Some(Ok(targets)) = wait(looked_up, Instant::now() + TIME) else { return false };
        let current = connector.url.preferred().target;
        let mut is_missing = false;
        for (target, config) in targets {
            if Some(target) == current || !connector.url.is_one_place(target) {
                continue;
            }
            match connector.connect_to(config).and_then(|there| stores_heartbeat(&there, own)) {
                Ok(true) => {
                    // In this order: what is put back meanwhile is not of this choice.
                    connector.url.choose(target);
                    self.pool.clear();
                    tracing::warn!(
                        "the database server is away or does not finish what it is asked, and another \
                         one of the store does: that one is used from now on"
                    );
                    return false;
                }
                Ok(false) => is_missing = true,
                Err(_) => {}
            }
        }
        is_missing
    }
}

/// Stores a heartbeat at a server; returns false if it does not have the row of this process.
fn stores_heartbeat(there: &Connection, own: &Member) -> Result<bool, Failure> {
    there.execute(BEGIN_WRITE)?;
    if !own.renew(there)? {
        return Ok(false);
    }
    match there.commit(Instant::now() + TIME) {
        Commit::Done => Ok(true),
        Commit::Failed(failure) => Err(failure),
        Commit::Doubtful | Commit::Unanswered => Err(Failure::Blocked),
    }
}
