//! What must happen after a commit, as rows written with it: events for people and channels, jobs
//! for the server itself.
//!
//! Nothing leaves the process from an operation. The [`runner`] carries jobs out at least once; what
//! a job does beyond its rows is an [`Effect`], which is data.

mod channels;
mod deliveries;
mod effects;
mod events;
mod fan_out;
mod jobs;
mod log;
pub mod runner;
mod sweeps;

pub use channels::{
    Channel, MAX_CHANNELS, SUBSCRIPTIONS, Subscription, delete as delete_channel, in_app,
    set_enabled as set_channel_enabled,
};
pub use deliveries::{Delivery, DeliveryAttempt, DeliveryStatus, check_deliveries};
pub use effects::{Effect, EffectResult, Workflow, WriteRows};
pub use events::{About, EVENTS_BY_TYPE, Event, EventType, ResourceId, find_event, publish};
pub use jobs::{Job, JobHandler, Prepared, Settled, Target, enqueue, retry_at};
pub use log::{LogEntry, LogPosition, LogQuery, read_log, redeliver, remove_old_entries, walk_log};
pub use sweeps::{
    SWEEP_ROWS, Settings, Sweep, Swept, due, first, first_rows, remove_due, remove_first, rows_of,
};

use crate::store::TableInfo;

/// The tables of this layer.
pub const TABLES: &[TableInfo] = &[
    TableInfo::of::<Event>(),
    TableInfo::of::<Channel>(),
    TableInfo::of::<Subscription>(),
    TableInfo::of::<Delivery>(),
    TableInfo::of::<Job>(),
];

/// The handlers of this layer's own jobs.
pub const JOBS: &[JobHandler] = &[fan_out::FAN_OUT, deliveries::DELIVER, channels::RELEASE];
