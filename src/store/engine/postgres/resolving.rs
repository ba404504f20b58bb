//! Giving slots to connections, and finding out by them what became of a commit.

use std::thread;
use std::time::Instant;

use super::connection::{Commit, Connection, STATEMENT_TIME};
use super::failure::Failure;
use super::presence::TABLE;
use super::shared::Shared;
use super::slot::{RECONNECT_PAUSE, Resolved, Slot, SlotValue};
use super::sql::BEGIN_WRITE;

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
            connection.slot = Some(self.create_slot(connection)?);
        }
        Ok(connection.slot.as_ref().expect("it was just created"))
    }

    fn create_slot(&self, connection: &Connection) -> Result<Slot, Failure> {
        let slot = self.slots.create(self.token);
        connection.execute(BEGIN_WRITE)?;
        let (id, value): (&[u8], &[u8]) = (&slot.id, &slot.value);
        let created = match &self.presence {
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
            Commit::Done | Commit::Doubtful => Ok(slot),
            Commit::Failed(failure) => Err(failure),
            // If it was created, nobody uses it.
            Commit::Unanswered => Err(Failure::Unavailable("a slot could not be created".into())),
        }
    }

    /// Finds out what became of a commit that was to change `slot` to `new`. Blocks until then, at
    /// most until `deadline`. The slot may be used again, with the value it has now, unless that is
    /// unknown.
    pub(super) fn resolve(&self, slot: &mut Slot, new: SlotValue, deadline: Instant) -> Resolved {
        // The values that this has tried to set: any of them proves that the commit did not happen.
        let mut tried = Vec::new();
        while Instant::now() < deadline {
            match self.try_resolve(slot, new, &mut tried, deadline) {
                Ok(Some(resolved)) => return resolved,
                Ok(None) | Err(Failure::Conflict) => {}
                Err(failure) => {
                    tracing::debug!(?failure, "the outcome of a commit is not known yet");
                    thread::sleep(RECONNECT_PAUSE);
                }
            }
        }
        Resolved::Unknown
    }

    /// Tries once to change the slot; `None` if this was not answered either.
    fn try_resolve(
        &self,
        slot: &mut Slot,
        new: SlotValue,
        tried: &mut Vec<SlotValue>,
        deadline: Instant,
    ) -> Result<Option<Resolved>, Failure> {
        let connection = self.pool.connector.connect(deadline)?;
        let next = self.slots.next_value();
        let (id, old, changed): (&[u8], &[u8], &[u8]) = (&slot.id, &slot.value, &next);
        connection.execute(BEGIN_WRITE)?;
        // Waits for the lost transaction to end, if it has not: it has changed the same row.
        let moved = connection.change_once(
            "UPDATE kv_slot SET value = $3 WHERE id = $1 AND value = $2",
            &[&id, &old, &changed],
        )?;
        if moved == 1 {
            tried.push(next);
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
        connection.roll_back();
        let Some(found) = found.first().and_then(|row| row.try_get::<_, &[u8]>(0).ok()) else {
            // Who removed this process has removed it, before the commit or after.
            return Ok(Some(Resolved::Unknown));
        };
        if found == new {
            slot.value = new;
            return Ok(Some(Resolved::Committed));
        }
        match tried.iter().find(|value| found == value.as_slice()) {
            Some(value) => {
                slot.value = *value;
                Ok(Some(Resolved::NotCommitted))
            }
            None => Ok(Some(Resolved::Unknown)),
        }
    }
}
