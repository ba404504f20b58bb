//! Idempotency records: the answers to requests with an `Idempotency-Key`, stored in the
//! transaction of the operation (reference: conventions, "Idempotency").

use bincode::{Decode, Encode};

use super::OldestRow;
use crate::base::Time;
use crate::outbox::{RetentionSettings, Sweep, delete_due};
use crate::store::{AnyIndex, Export, Index, Order, Record, TableInfo, Tx};

/// The table of the records.
pub const TABLES: &[TableInfo] =
    &[TableInfo::of::<IdempotencyRecord>(), TableInfo::of::<StoredAnswers>()];

/// The retention of the records.
pub const SWEEPS: &[Sweep] = &[DELETE_EXPIRED, DELETE_EXPIRED_SUMS];

/// The oldest record, for the metrics.
pub const OLDEST: OldestRow = OldestRow {
    table: IdempotencyRecord::TABLE,
    read: |view| Ok(view.first(&BY_TIME, &(), Order::Ascending)?.map(|record| record.at)),
};

/// Records are kept for a day.
pub const RETENTION_SECS: i64 = 24 * 3600;

/// The answer to a request with an `Idempotency-Key`.
#[derive(Clone, Debug, Encode, Decode)]
pub struct IdempotencyRecord {
    /// A keyed hash of credential, path and key.
    pub request: [u8; 32],
    /// A keyed hash of the query and the body.
    pub body: [u8; 32],
    /// The body of the answer; `None` if it showed a secret or was too large.
    pub answer: Option<Vec<u8>>,
    /// When it was answered.
    pub at: Time,
}

static BY_TIME: Index<IdempotencyRecord, Time> =
    Index::non_unique("idempotency.by_time", |record| Some(record.at));

impl Record for IdempotencyRecord {
    const TABLE: &'static str = "idempotency";
    const EXPORT: Export<Self> =
        Export::LeftOut("for a day, of requests that were sent to this installation");
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TIME];
    type Key = [u8; 32];
    fn key(&self) -> Self::Key {
        self.request
    }
}

const DELETE_EXPIRED: Sweep = Sweep {
    name: "delete expired idempotency records",
    every_secs: 600,
    run: |tx: &mut Tx, _: &RetentionSettings| {
        let end = tx.now().minus_secs(RETENTION_SECS);
        delete_due(tx, &BY_TIME, |record: &IdempotencyRecord| record.at < end)
    },
    installation: true,
};

/// The sum of the answers stored for a credential within an hour, for their quota.
#[derive(Clone, Debug, Encode, Decode)]
pub struct StoredAnswers {
    /// The fingerprint of the credential.
    pub credential: [u8; 32],
    /// The beginning of the hour.
    pub hour: Time,
    /// The bytes of the answers.
    pub bytes: u64,
}

static BY_HOUR: Index<StoredAnswers, Time> =
    Index::non_unique("idempotency.sums_by_hour", |sum| Some(sum.hour));

impl Record for StoredAnswers {
    const TABLE: &'static str = "idempotency.sums";
    const EXPORT: Export<Self> = Export::LeftOut("a sum of what is left out");
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_HOUR];
    type Key = ([u8; 32], Time);
    fn key(&self) -> Self::Key {
        (self.credential, self.hour)
    }
}

const DELETE_EXPIRED_SUMS: Sweep = Sweep {
    name: "delete the sums of expired answers",
    every_secs: 3600,
    run: |tx: &mut Tx, _: &RetentionSettings| {
        // A sum counts until all of its hour has expired.
        let end = tx.now().minus_secs(RETENTION_SECS + 3600);
        delete_due(tx, &BY_HOUR, |sum: &StoredAnswers| sum.hour < end)
    },
    installation: true,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Id;
    use crate::outbox::SweepProgress;
    use crate::store::{Clock, ListSource, Store, View};

    #[test]
    fn more_expired_answers_than_one_transaction_may_read_are_deleted_in_steps() {
        let clock = Clock::at(Time::from_millis(1_800_000_000_000));
        let at = clock.now().minus_secs(RETENTION_SECS + 1);
        let store = Store::in_memory(clock, TABLES);
        let count = 40;
        for n in 0..count {
            let answer = Some(vec![n; 2_000_000]);
            let record = IdempotencyRecord { request: [n; 32], body: [n; 32], answer, at };
            store.write_blocking(Id::NIL, move |tx| tx.put(&record)).unwrap();
        }
        let mut steps = 0;
        loop {
            steps += 1;
            let settings = RetentionSettings::default();
            let step = move |tx: &mut Tx| (DELETE_EXPIRED.run)(tx, &settings);
            if store.write_blocking(Id::NIL, step).unwrap() == SweepProgress::Clean {
                break;
            }
        }
        assert!(steps > 10, "{steps}");
        let left = |view: &View| view.count::<IdempotencyRecord>(ListSource::TABLE, &(), 1);
        assert_eq!(store.read_now(Id::NIL, left).unwrap(), 0);
    }
}
