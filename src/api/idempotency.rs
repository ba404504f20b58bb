//! Idempotency records: the answers to requests with an `Idempotency-Key`, stored in the
//! transaction of the operation (reference: conventions, "Idempotency").

use bincode::{Decode, Encode};

use super::OldestRow;
use crate::base::Time;
use crate::outbox::{RetentionSettings, Sweep, delete_due};
use crate::store::{AnyIndex, Index, Order, Record, TableInfo, Tx};

/// The table of the records.
pub const TABLES: &[TableInfo] = &[TableInfo::of::<IdempotencyRecord>()];

/// The retention of the records.
pub const SWEEPS: &[Sweep] = &[DELETE_EXPIRED];

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
