//! The events that signed a request (NIP-98), each of which is accepted once
//! (reference: exchange, "Signed requests").

use bincode::{Decode, Encode};

use crate::auth::nostr::EventId;
use crate::base::Time;
use crate::outbox::{RetentionSettings, Sweep, delete_due};
use crate::store::{Export, ListSource, Record, TableInfo, Tx};

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

/// Of the installation: a request may name an organization that does not exist.
impl Record for UsedEvent {
    const TABLE: &'static str = "used_events";
    const ORG_SCOPED: bool = false;
    const EXPORT: Export<Self> =
        Export::LeftOut("for two minutes, of requests that were signed for this installation");
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
    installation: true,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Id;
    use crate::outbox::SweepProgress;
    use crate::store::{Clock, Store};

    #[test]
    fn an_event_is_forgotten_once_it_would_be_refused_for_its_age() {
        let now = Time::from_millis(1_768_478_400_000);
        let store = Store::in_memory(Clock::at(now), TABLES);
        let add = move |tx: &mut Tx| {
            (0..3).try_for_each(|n| {
                tx.insert(&UsedEvent { ends_at: now.plus_secs(60 * i64::from(n)), id: [n; 32] })
            })
        };
        store.write_blocking(Id::NIL, add).unwrap();
        let left = || {
            let sweep = |tx: &mut Tx| (DELETE_ENDED.run)(tx, &RetentionSettings::default());
            assert_eq!(store.write_blocking(Id::NIL, sweep).unwrap(), SweepProgress::Clean);
            store
                .read_now(Id::NIL, |view| view.count::<UsedEvent>(ListSource::TABLE, &(), 9))
                .unwrap()
        };
        assert_eq!(left(), 3);
        store.clock().advance_secs(60);
        assert_eq!(left(), 2);
        store.clock().advance_secs(1);
        assert_eq!(left(), 1);
        store.clock().advance_secs(60);
        assert_eq!(left(), 0);
    }
}
