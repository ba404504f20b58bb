//! Erasures: what must not come back from a backup, because its deletion was acknowledged.
//!
//! A transaction that erases writes an [`Erasure`] with its other rows. It is acknowledged only once
//! the [`ErasureLedger`], which is kept outside of the database, has recorded it: a ledger in the
//! database would be lost with it. A row stays until it is recorded, so a crash loses none.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use bincode::{Decode, Encode};

use super::key::Key;
use super::record::{Export, Record};
use super::tx::Tx;
use crate::base::{Id, Result, Time};

/// An erasure that the ledger may not have recorded yet.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Erasure {
    id: Id<Erasure>,
    /// When it was requested.
    pub at: Time,
    /// The table of the erased records.
    pub table: String,
    /// The beginning of the keys of all records that are erased, from the organization's id on.
    pub prefix: Vec<u8>,
}

impl Erasure {
    /// Returns an erasure that a ledger has recorded, always with the same id.
    pub fn recorded(at: Time, table: String, prefix: Vec<u8>) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(table.as_bytes()).update(&[0]).update(&prefix);
        let mut random = [0; 10];
        hash.finalize_xof().fill(&mut random);
        let millis = u64::try_from(at.millis()).unwrap_or_default();
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
        Erasure { id: Id::new(id), at, table, prefix }
    }

    /// Returns its id.
    pub fn id(&self) -> Id<Erasure> {
        self.id
    }
}

impl Record for Erasure {
    const TABLE: &'static str = "erasures";
    const EXPORT: Export<Self> = Export::LeftOut("recorded in the ledger of this installation");
    const ORG_SCOPED: bool = false;
    type Key = Id<Erasure>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// How long erasures are kept, in seconds: 400 days, longer than logs are (365 days), which is as long
/// as backups are usually kept. A backup that is older is not restored with them.
pub const ERASURES_KEPT_SECS: i64 = 400 * 24 * 3600;

/// Where erasures are recorded outside of the database.
pub trait ErasureLedger: Send + Sync {
    /// Records erasures that are in the store durably, those that were recorded before only once.
    /// Returns whether the store should forget them: not always, so that it takes few commits. Blocks.
    ///
    /// # Errors
    /// If the ledger cannot be written. The erasures stay in the store, and are recorded by the next
    /// call.
    fn record(&self, erasures: &[Erasure]) -> Result<bool>;

    /// Takes notice that the store has forgotten these, and will not bring them again.
    fn forgotten(&self, erasures: &[Id<Erasure>]);
}

/// The ledger of a store, with the recordings so far: one recording serves all who wait.
#[derive(Default)]
pub(super) struct Ledger {
    pub ledger: OnceLock<Arc<dyn ErasureLedger>>,
    /// Recordings that were begun.
    pub begun: AtomicU64,
    /// The number of the last recording that succeeded; locked while one runs.
    pub recorded: Arc<tokio::sync::Mutex<u64>>,
}

impl Tx<'_> {
    /// Has the records of this organization in `table` whose keys begin with `prefix` removed from
    /// whatever is restored later from a backup that has them. They are deleted separately.
    ///
    /// `table` must be of records that organizations own, and that no other record refers to.
    ///
    /// # Errors
    /// If the transaction becomes too large.
    pub fn record_erasure(&mut self, table: &'static str, prefix: &impl Key) -> Result<()> {
        let mut bytes = self.org().bytes().to_vec();
        prefix.write(&mut bytes);
        let (id, at) = (self.new_id(), self.now());
        self.insert(&Erasure { id, at, table: table.into(), prefix: bytes })
    }

    /// Forgets erasures that the ledger has recorded.
    pub fn forget_erasures(&mut self, recorded: &[Erasure]) -> Result<()> {
        self.mark_deletion();
        for erasure in recorded {
            if self.get::<Erasure>(&erasure.id)?.is_some() {
                self.remove(erasure)?;
            }
        }
        Ok(())
    }
}
