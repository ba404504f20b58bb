//! Storage engines: ordered tables of bytes, read at a snapshot, changed by batches of writes.
//!
//! The interface leaves room for an engine over several machines: reads are at a snapshot; an
//! attempt may run repeatedly, with no effect but its writes; the outcome of a commit may stay
//! unknown; the notification of a commit is a hint that may be lost; and a lease is an ordinary row.

mod attempt;
#[cfg(test)]
mod counting;
pub mod conformance;
mod fair_queue;
mod file_holder;
mod file_owner;
mod group_commit;
mod integrity;
mod logged;
mod memory;
mod meter;
mod metrics;
mod observed;
mod optimistic;
mod overlay;
mod patched_file;
#[cfg(feature = "postgres")]
pub mod postgres;
mod read_only;
mod reader;
mod redb;
mod reserve;
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
pub use integrity::integrity;
#[cfg(any(test, fuzzing))]
pub use logged::fuzzing;
pub use logged::{LogBeside, LogFile, LogFiles, LogPlace, LogSettings, LoggedRedb};
pub use memory::Memory;
pub use meter::Meter;
pub use metrics::{CountPages, Pages, StorageSize, StoreMeters};
pub use observed::ObservedReader;
pub use optimistic::{Budget, too_large};
pub use overlay::Overlay;
pub use read_only::{open_read_only, open_salvaged};
pub use reader::{KeyRange, Order, REOPENING, Reader, ScanFn};
pub use redb::Redb;
pub use reserve::{give_up_reserve, give_up_reserve_if_full, is_full};
pub use seen_node::{SeenNode, SeenNodes};
pub use snapshot::{NextReader, PendingReader, Snapshot};
pub use storage::{CommitOutcome, LocalStorage, RenewFn};
pub use work_lease::{WorkLease, WorkLeases};
pub use writes::{WriteBatch, WriteOp};
