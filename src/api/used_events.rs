//! The events that signed a request (NIP-98), each of which is accepted once
//! (reference: exchange, "Signed requests").

use bincode::{Decode, Encode};

use crate::auth::nostr::EventId;
use crate::base::Time;
use crate::outbox::{RetentionSettings, Sweep, delete_due};
use crate::store::{ListSource, Record, TableInfo, Tx};

/// The table of the events.
pub const TABLES: &[TableInfo] = &[TableInfo::of::<UsedEvent>()];

/// The retention of the events.
pub const SWEEPS: &[Sweep] = &[DELETE_ENDED];

/// An event that signed a request. Its key begins with a time that the event says, so that those
/// that are refused for their age are found without an index.
#[derive(Clone, Debug, Encode, Decode)]
pub struct UsedEvent {
    /// When it is refused for its age.
    pub ends_at: Time,
    pub id: EventId,
}

impl Record for UsedEvent {
    const TABLE: &'static str = "used_events";
    type Key = (Time, EventId);
    fn key(&self) -> Self::Key {
        (self.ends_at, self.id)
    }
}

const DELETE_ENDED: Sweep = Sweep {
    name: "delete ended events of signed requests",
    every_secs: 60,
    run: |tx: &mut Tx, _: &RetentionSettings| {
        let now = tx.now();
        delete_due(tx, ListSource::TABLE, |event: &UsedEvent| event.ends_at < now)
    },
    installation: false,
};
