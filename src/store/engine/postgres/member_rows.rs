//! The rows of the members of a store: written, changed, removed and read.

use tokio_postgres::Client;

use super::connection::{Connection, STATEMENT_TIME};
use super::failure::Failure;
use super::membership::{HEARTBEATS, Member, TABLE};
use super::opening::run;
use super::slot::{SeenSlot, fresh, sequence_in};

impl Member {
    /// Writes its row, and its first heartbeat.
    pub fn write(&self, connection: &Connection) -> Result<(), Failure> {
        let heartbeat = fresh();
        let heartbeat: &[u8] = &heartbeat;
        let written = connection.change_once(
            "INSERT INTO kv (tbl, key, value) VALUES ($1, $3, $4), ($2, $3, $5)",
            &[&TABLE, &HEARTBEATS, &self.key, &self.value, &heartbeat],
        );
        written.map(drop)
    }

    /// Changes its heartbeat; returns whether its row is still there.
    pub fn renew(&self, connection: &Connection) -> Result<bool, Failure> {
        let next = fresh();
        let next: &[u8] = &next;
        let changed = connection.change_once(
            "UPDATE kv SET value = $1 WHERE tbl = $2 AND key = $3 AND EXISTS \
             (SELECT 1 FROM kv WHERE tbl = $4 AND key = $3 AND value = $5)",
            &[&next, &HEARTBEATS, &self.key, &TABLE, &self.value],
        )?;
        Ok(changed == 1)
    }

    /// Removes its row with its heartbeat and its slots: no commit of it can succeed from here on.
    /// Returns whether the row was there.
    pub fn remove(&self, connection: &Connection) -> Result<bool, Failure> {
        let removed = connection.change_once(
            "DELETE FROM kv WHERE tbl = $1 AND key = $2 AND value = $3",
            &[&TABLE, &self.key, &self.value],
        )?;
        if removed == 1 {
            connection.change_once(
                "DELETE FROM kv WHERE tbl = $1 AND key = $2",
                &[&HEARTBEATS, &self.key],
            )?;
            let (first, last) = (self.token(), [self.token().as_slice(), &[0xFF; 16]].concat());
            let first: &[u8] = &first;
            connection
                .change_once("DELETE FROM kv_slot WHERE id >= $1 AND id <= $2", &[&first, &last])?;
        }
        Ok(removed == 1)
    }
}

/// A member of a store, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenMember {
    pub member: Member,
    pub heartbeat: Vec<u8>,
}

/// Reads the members. Over a connection to the store, do so within [`Connection::in_force`].
pub fn read_members(client: &Client) -> Result<Vec<SeenMember>, Failure> {
    let sql = "SELECT there.key, there.value, beat.value FROM kv AS there JOIN kv AS beat \
         ON beat.tbl = $2 AND beat.key = there.key WHERE there.tbl = $1 ORDER BY there.key";
    let rows = run(client.query(sql, &[&TABLE, &HEARTBEATS]), STATEMENT_TIME)?;
    let bytes = |row: &tokio_postgres::Row, at| row.try_get::<_, Vec<u8>>(at);
    let seen = rows.iter().map(|row| {
        let member = Member { key: bytes(row, 0)?, value: bytes(row, 1)? };
        Ok(SeenMember { member, heartbeat: bytes(row, 2)? })
    });
    seen.collect::<Result<_, _>>().map_err(|error| Failure::of(&error))
}

/// Reads all slots.
pub fn read_slots(connection: &Connection) -> Result<Vec<SeenSlot>, Failure> {
    let rows = connection.query_once("SELECT id, value FROM kv_slot", &[])?;
    let slots = rows
        .iter()
        .map(|row| Ok((row.try_get::<_, Vec<u8>>(0)?, sequence_in(row.try_get::<_, &[u8]>(1)?))));
    slots.collect::<Result<_, _>>().map_err(|error| Failure::of(&error))
}
