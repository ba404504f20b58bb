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

/// What another server says of this process.
enum There {
    /// It has its row, and stores its heartbeat.
    GoesOn,
    /// It has its row no more: the others have removed it there.
    IsRemoved,
}

impl Shared {
    /// Has this process use another database server than the one that hangs, or the chosen one that is away,
    /// if there is one that stores a heartbeat of its member. Blocks.
    ///
    /// That server accepts writes and finishes commits, which another address of the one that hangs does not.
    /// And it goes on with the same store: no other has the row of this process, whose token is random. What
    /// was not acknowledged by the old one is resolved at the new one, by its slots there, as after any
    /// failover.
    ///
    /// # Errors
    /// [`Failure::Removed`] if one that finishes commits has the row no more: all hosts of a URL are of one
    /// store, so what the one that hangs still answers is old.
    pub fn look_elsewhere(&self, own: &Member) -> Result<(), Failure> {
        let connector = &self.pool.connector;
        let url = connector.url.clone();
        let looked_up = connector.runtime.spawn(async move { url.targets().await });
        let Some(Ok(targets)) = wait(looked_up, Instant::now() + TIME) else { return Ok(()) };
        let current = connector.url.preferred().target;
        for (target, config) in targets {
            if Some(target) == current || !connector.url.is_one_place(target) {
                continue;
            }
            match connector.connect_to(config).and_then(|there| ask(&there, own)) {
                Ok(There::GoesOn) => {
                    // In this order: what is put back meanwhile is not of this choice.
                    connector.url.choose(target);
                    self.pool.clear();
                    tracing::warn!(
                        "the database server is away or does not finish what it is asked, and another \
                         one of the store does: that one is used from now on"
                    );
                    return Ok(());
                }
                Ok(There::IsRemoved) => return Err(Failure::Removed),
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Asks a server whether this process is a member of its store. Only a commit that writes is an answer: one
/// that writes nothing waits for no standby, and an old primary finishes it as well.
fn ask(there: &Connection, own: &Member) -> Result<There, Failure> {
    there.execute(BEGIN_WRITE)?;
    let answer = match own.renew(there)? {
        true => There::GoesOn,
        false => {
            own.write_and_remove(there)?;
            There::IsRemoved
        }
    };
    match there.commit(Instant::now() + TIME) {
        Commit::Done => Ok(answer),
        Commit::Failed(failure) => Err(failure),
        Commit::Doubtful | Commit::Unanswered => Err(Failure::Blocked),
    }
}
