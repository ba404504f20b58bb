//! The stored watermark of ids: what keeps them increasing across restarts.

use bincode::{Decode, Encode};

use super::record::{Export, Record};

/// The time of the newest id when this was stored. It is written with another commit once the
/// stored one is 10 s old ([`Clock::watermark_due`](super::clock::Clock::watermark_due)), so no
/// stored id is more than 10 s later.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(super) struct IdWatermark {
    pub newest_millis: i64,
}

impl Record for IdWatermark {
    const TABLE: &'static str = "id_watermark";
    const EXPORT: Export<Self> = Export::LeftOut("of this installation's clock");
    const ORG_SCOPED: bool = false;
    type Key = ();
    fn key(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Id, Time};
    use crate::store::sample::{note, org};
    use crate::store::{Clock, Store};

    #[test]
    fn a_watermark_is_stored_every_ten_seconds_and_only_with_another_row() {
        let store = Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), &[]);
        let stored = || store.read_now(Id::NIL, |view| view.get::<IdWatermark>(&())).unwrap();
        let clock =
            |secs: i64| Some(IdWatermark { newest_millis: 1_800_000_000_000 + secs * 1000 });
        let write = |id| {
            store.write_blocking(org(1), move |tx| {
                tx.new_id::<()>();
                if id == 0 { Ok(()) } else { tx.insert(&note(id, "", "")) }
            })
        };
        write(0).unwrap();
        assert_eq!(stored(), None, "a transaction without rows stores no watermark");
        write(1).unwrap();
        assert_eq!(stored(), clock(0));
        store.clock().advance_secs(9);
        write(2).unwrap();
        assert_eq!(stored(), clock(0));
        store.clock().advance_secs(1);
        write(1).unwrap_err();
        assert_eq!(stored(), clock(0), "what was refused is not stored");
        write(3).unwrap();
        assert_eq!(stored(), clock(10));
    }

    #[test]
    fn a_later_watermark_of_another_server_stays() {
        let store = Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), &[]);
        let later = IdWatermark { newest_millis: 1_800_000_060_000 };
        store.write_blocking(org(1), move |tx| tx.put(&later)).unwrap();
        store
            .write_blocking(org(1), |tx| {
                tx.new_id::<()>();
                tx.insert(&note(1, "", ""))
            })
            .unwrap();
        let stored = store.read_now(Id::NIL, |view| view.get::<IdWatermark>(&())).unwrap();
        assert_eq!(stored, Some(later));
        assert_eq!(store.clock().watermark_due(), None);
    }

    #[test]
    fn a_watermark_whose_commit_failed_is_stored_again() {
        use crate::base::Error;
        use crate::store::WorkHints;
        use crate::store::engine::Attempt as _;
        use crate::store::writing::WriteAttempt;
        let store = Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), &[]);
        for is_stored in [false, true] {
            let write = |tx: &mut crate::store::Tx| {
                tx.new_id::<()>();
                tx.insert(&note(1, "", ""))
            };
            let reply = tokio::sync::oneshot::channel().0;
            let pending = store.pending(WorkHints::small(org(1)), org(1), write);
            let mut attempt = Box::new(WriteAttempt { pending, reply });
            let writes = attempt.run(&*store.engine.snapshot()).unwrap();
            assert!(writes.tables.contains_key("id_watermark"));
            attempt.complete(if is_stored { Ok(()) } else { Err(Error::internal("not stored")) });
            assert_eq!(store.clock().watermark_due().is_none(), is_stored);
        }
    }

    #[test]
    fn a_watermark_of_the_first_release_still_reads() {
        let body = [0x01, 0x01, 0x40, 0x34, 0x41, 0x01, 0xa2, 0x01, 0x00, 0x00];
        let checksum = [0xe5, 0x73, 0xc9, 0x41, 0x56, 0x71, 0x40, 0x26];
        let stored = [body.as_slice(), &checksum].concat();
        let watermark = crate::store::record::decode::<IdWatermark>(b"", &stored).unwrap();
        assert_eq!(watermark, IdWatermark { newest_millis: 1_795_317_380_160 });
    }
}
