//! Storage engines: ordered tables of bytes, read at a snapshot, changed by batches of writes.
//!
//! The interface leaves room for an engine over several machines: reads are at a snapshot; an
//! attempt may run repeatedly, with no effect but its writes; the outcome of a commit may stay
//! unknown; the notification of a commit is a hint that may be lost; and a lease is an ordinary row.
//!
//! | What for | Files |
//! |---|---|
//! | the interface to transactions | [`attempt`], [`snapshot`], [`reader`], [`writes`], [`optimistic`] |
//! | one server: queue and writer | [`group_commit`], over a storage |
//! | storages ([`storage`]) | [`logged`] in front of [`redb`](self::redb); [`memory`] |
//! | several servers | `postgres`; what it shows of them: [`seen_node`], [`work_lease`] |
//! | readers over readers | [`overlay`], [`meter`], [`observed`] |
//! | what several of them use | [`fair_queue`], [`file_owner`], [`metrics`] |
//! | what must be true of each | [`conformance`] |

mod attempt;
#[cfg(test)]
mod counting;
pub mod conformance;
mod fair_queue;
mod file_owner;
mod group_commit;
mod logged;
mod memory;
mod meter;
mod metrics;
mod observed;
mod optimistic;
mod overlay;
#[cfg(feature = "postgres")]
pub mod postgres;
mod reader;
mod redb;
mod seen_node;
mod snapshot;
mod storage;
mod work_lease;
mod writes;

pub use attempt::{Attempt, Engine, GivenBack, OnConflict, Terms};
#[cfg(test)]
pub use counting::Counting;
pub use fair_queue::{Bounds, FairQueue, Lane};
pub use file_owner::give_to_owner_of_directory;
pub use group_commit::{GroupCommit, is_outcome_unknown, outcome_unknown};
#[cfg(any(test, fuzzing))]
pub use logged::fuzzing;
pub use logged::{
    LogBeside, LogFile, LogFiles, LogPlace, LogSettings, LoggedRedb, open_read_only, open_salvaged,
};
pub use memory::Memory;
pub use meter::Meter;
pub use metrics::{CountPages, Pages, StorageSize, StoreMeters};
pub use observed::ObservedReader;
pub use optimistic::{Budget, too_large};
pub use overlay::Overlay;
pub use reader::{KeyRange, Order, REOPENING, Reader, ScanFn};
pub use redb::{Redb, give_up_reserve, give_up_reserve_if_full, integrity, is_full};
pub use seen_node::{SeenNode, SeenNodes};
pub use snapshot::{NextReader, PendingReader, Snapshot};
pub use storage::{CommitOutcome, LocalStorage, RenewFn};
pub use work_lease::{WorkLease, WorkLeases, is_lease_lost};
pub use writes::{WriteBatch, WriteOp};
