//! Giving slots to connections, and finding out by them what became of a commit.

use std::thread;
use std::time::Instant;

use super::attempts::MAX_TIME;
use super::connection::{Commit, Connection, STATEMENT_TIME};
use super::failure::Failure;
use super::membership::TABLE;
use super::shared::Shared;
use super::slot::{RECONNECT_PAUSE, Resolved, Slot, SlotValue};
use super::sql::{BEGIN_WRITE, MOVE_SLOT};

impl Shared {
    /// Gives the connection a slot, if it has none.
    ///
    /// # Errors
    /// [`Failure::Removed`] if this process is not at the store any more.
    pub(super) fn require_slot<'a>(
        &self,
        connection: &'a mut Connection,
    ) -> Result<&'a Slot, Failure> {
        if connection.slot.is_none() {
            let mut slot = None;
            while slot.is_none()
                && let Some(rested) = self.slots().reuse(Instant::now())
            {
                slot = self.take_over(connection, rested)?;
            }
            connection.slot = Some(slot.map_or_else(|| self.create_slot(connection), Ok)?);
        }
        Ok(connection.slot.as_ref().expect("it was just created"))
    }

    /// Changes a slot of a connection that was closed; `None` if it is not as it was known to be: a
    /// standby was promoted that lacks commits. A new connection commits before it is used, as one that
    /// creates its slot does: what it reads then is on the standby, also where the primary was restarted.
    fn take_over(&self, connection: &Connection, slot: Slot) -> Result<Option<Slot>, Failure> {
        let next = self.slots().next_value();
        connection.execute(BEGIN_WRITE)?;
        let (id, from, to): (&[u8], &[u8], &[u8]) = (&slot.id, &slot.value, &next);
        match connection.change_once(MOVE_SLOT, &[&id, &from, &to]) {
            Ok(1) => {}
            Ok(_) => {
                connection.roll_back();
                return Ok(None);
            }
            Err(failure) => {
                connection.roll_back();
                self.slots().give_back(slot);
                return Err(failure);
            }
        }
        match connection.commit(Instant::now() + STATEMENT_TIME) {
            Commit::Done => Ok(Some(Slot { value: next, ..slot })),
            Commit::Failed(failure) => {
                self.slots().give_back(slot);
                Err(failure)
            }
            // Its value is not known, or not on the standby.
            Commit::Doubtful | Commit::Unanswered => Err(not_committed(connection)),
        }
    }

    fn create_slot(&self, connection: &Connection) -> Result<Slot, Failure> {
        let slot = self.slots().create(self.token);
        connection.execute(BEGIN_WRITE)?;
        let (id, value): (&[u8], &[u8]) = (&slot.id, &slot.value);
        let created = match &self.member {
            None => connection
                .change_once("INSERT INTO kv_slot (id, value) VALUES ($1, $2)", &[&id, &value]),
            Some(own) => connection.change_once(
                "INSERT INTO kv_slot (id, value) SELECT $1::bytea, $2::bytea WHERE EXISTS \
                 (SELECT 1 FROM kv WHERE tbl = $3 AND key = $4 AND value = $5)",
                &[&id, &value, &TABLE, &own.key, &own.value],
            ),
        };
        match created {
            Ok(1) => {}
            Ok(_) => {
                connection.roll_back();
                return Err(Failure::Removed);
            }
            Err(failure) => {
                connection.roll_back();
                return Err(failure);
            }
        }
        match connection.commit(Instant::now() + STATEMENT_TIME) {
            Commit::Done => Ok(slot),
            Commit::Failed(failure) => Err(failure),
            // If it was created, nobody uses it.
            Commit::Doubtful | Commit::Unanswered => Err(not_committed(connection)),
        }
    }

    /// Finds out what became of a commit that was to change `slot` to `new`. Blocks until then, at
    /// most until `deadline`. The slot may be used again, with the value it has now, unless that is
    /// unknown.
    pub(super) fn resolve(&self, slot: &mut Slot, new: SlotValue, deadline: Instant) -> Resolved {
        let mut tried = Tried { instead: Vec::new(), after: vec![new] };
        let mut blocked_tries = 0;
        while Instant::now() < deadline {
            self.give_up_what_is_over();
            match self.try_resolve(slot, &mut tried, deadline) {
                Ok(Some(resolved)) => return resolved,
                Ok(None) | Err(Failure::Conflict) => {}
                Err(Failure::Blocked) => {
                    blocked_tries += 1;
                    // A transaction whose process is gone would have been ended.
                    if blocked_tries > 1 {
                        self.note_blocked();
                    }
                }
                Err(failure) => {
                    tracing::debug!(?failure, "the outcome of a commit is not known yet");
                    blocked_tries = 0;
                    thread::sleep(RECONNECT_PAUSE);
                }
            }
        }
        self.give_up_what_is_over();
        Resolved::Unknown
    }

    /// Completes what waits, perhaps for this, and has no time left.
    fn give_up_what_is_over(&self) {
        self.give_up(self.queue.remove(|waiting| Instant::now() >= waiting.submitted + MAX_TIME));
    }

    /// Tries once to change the slot; `None` if this was not answered either.
    fn try_resolve(
        &self,
        slot: &mut Slot,
        tried: &mut Tried,
        deadline: Instant,
    ) -> Result<Option<Resolved>, Failure> {
        let connection = self.pool.connector.connect(deadline)?;
        let next = self.slots().next_value();
        let id: &[u8] = &slot.id;
        let change = |from: &SlotValue| {
            let (from, to): (&[u8], &[u8]) = (from, &next);
            connection.change_once(MOVE_SLOT, &[&id, &from, &to])
        };
        connection.execute(BEGIN_WRITE)?;
        // Waits for the lost transaction to end, if it has changed the same row and has not. If it has not got
        // there yet, it fails when it does.
        if change(&slot.value)? == 1 {
            tried.instead.push(next);
            return match connection.commit(deadline) {
                Commit::Done | Commit::Doubtful => {
                    slot.value = next;
                    self.pool.put(connection);
                    Ok(Some(Resolved::NotCommitted))
                }
                Commit::Failed(failure) => Err(failure),
                Commit::Unanswered => Ok(None),
            };
        }
        let found = connection.query_once("SELECT value FROM kv_slot WHERE id = $1", &[&id])?;
        let Some(found) = found.first().and_then(|row| row.try_get::<_, &[u8]>(0).ok()) else {
            // Who removed this process has removed it, before the commit or after.
            connection.roll_back();
            return Ok(Some(Resolved::Unknown));
        };
        let is_found = |value: &&SlotValue| found == value.as_slice();
        if let Some(value) = tried.after.iter().find(is_found) {
            // Seen at the primary, it may still not be on the standby, and a primary that was
            // restarted does not wait for that any more. A later commit of the same server is on the
            // standby only after it.
            if change(value)? != 1 {
                // An empty transaction would wait for nothing.
                connection.roll_back();
                return Ok(None);
            }
            tried.after.push(next);
            return match connection.commit(deadline) {
                Commit::Done => {
                    slot.value = next;
                    self.pool.put(connection);
                    Ok(Some(Resolved::Committed))
                }
                Commit::Doubtful => Ok(Some(Resolved::Unknown)),
                Commit::Failed(failure) => Err(failure),
                Commit::Unanswered => Ok(None),
            };
        }
        connection.roll_back();
        match tried.instead.iter().find(is_found) {
            Some(value) => {
                slot.value = *value;
                Ok(Some(Resolved::NotCommitted))
            }
            None => Ok(Some(Resolved::Unknown)),
        }
    }
}

/// Why a connection did not get its slot: the commit goes on where the connection is still there.
fn not_committed(connection: &Connection) -> Failure {
    if connection.is_usable() { Failure::Blocked } else { connection.not_answered() }
}

/// The values that a slot may have, by what they prove of the commit.
struct Tried {
    /// It did not happen: these were to be set in its place.
    instead: Vec<SlotValue>,
    /// It did happen: its own, and those that were to be set after it.
    after: Vec<SlotValue>,
}
