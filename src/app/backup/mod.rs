//! Backups: a stream of all records of an installation at one commit, and what is restored from it
//! (reference: backup).
//!
//! The stream is made from the tables of the store, not from the file of its engine, so that it can be
//! restored into another one. [`source`] sends it from an open store, in the server over the control
//! socket; [`stream`] writes and reads it, in the process of the command, which also compresses and
//! encrypts it; [`target`] is the file; [`restore`] builds a data directory.

mod block;
mod encryption;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod header;
#[cfg(feature = "postgres")]
mod into_store;
mod last;
mod reader;
mod restore;
mod row_check;
mod rows;
mod source;
mod take;
mod target;
mod writer;

pub use encryption::{Decryption, Encryption, Secret};
pub use error::BackupError;
pub use header::{FORMAT, Header, LeftOut, Totals};
#[cfg(feature = "postgres")]
pub use into_store::restore_into;
pub use last::{LastBackup, families};
pub use reader::{Backup, verify};
pub(super) use restore::{Building, require_empty, unwritable};
pub use restore::{LedgerUsed, RestoreSettings, Restored, needed_key, restore};
#[cfg(feature = "postgres")]
pub(super) use restore::{lock_beside, move_into_place};
pub use source::{BackupWanted, send_end, serve};
pub use take::{Progress, Source, record};
pub use target::Target;
pub use writer::BackupWriter;

#[cfg(test)]
mod tests;
