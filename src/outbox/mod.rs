//! What must happen after a commit, as rows written with it: events for people, tasks for jobs.
//!
//! Nothing leaves the process from an operation. The [`runner`] carries tasks out, at least once.

mod events;
mod removals;
pub mod runner;
mod sweeps;
mod tasks;

pub use events::{
    BY_CHANNEL, BY_TIME, BY_TYPE, Channel, Delivery, EventType, Facts, LogEntry, UNSENT, in_app,
    publish,
};
pub use removals::COMPLETE_REMOVALS;
pub use sweeps::{SWEEP_ROWS, Settings, Sweep, Swept, due, remove_due};
pub use tasks::{Job, Next, Step, Subject, Task, enqueue, retry_at};

use crate::store::TableInfo;

/// The tables of this room.
pub const TABLES: &[TableInfo] = &[TableInfo::of::<LogEntry>(), TableInfo::of::<Task>()];
