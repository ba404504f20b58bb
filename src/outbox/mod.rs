//! Work that follows a commit, stored as rows in the same transaction: events for people and
//! channels, jobs for the server itself.
//!
//! Operations never call the outside. The [`runner`] executes jobs at least once; what a job does
//! beyond its own rows is an [`Effect`], which is data.

mod attempts;
mod channels;
mod dead;
mod deliveries;
mod delivering;
mod due_scan;
mod effects;
mod events;
mod failures;
mod fan_out;
mod guards;
mod handlers;
mod headlines;
mod in_flight;
mod jobs;
mod log;
mod meters;
mod misdated;
mod redelivery;
mod release;
mod removals;
pub mod runner;
mod sweeps;

pub use channels::{
    CHANNEL_SECRET, Channel, MAX_CHANNELS, OLD_SECRET_SECS, SUBSCRIPTIONS, Subscription,
    forget_old_secrets, in_app, in_app_since,
};
pub use dead::{RETRY_DEAD, dead_jobs};
pub use deliveries::{
    Delivery, DeliveryAttempt, DeliveryStatus, LogEntry, Notice, TEST_TYPE, check_deliveries,
    mend_deliveries,
};
pub use effects::{Calls, Effect, EffectResult, GoesOn, Work, Workflow, WriteRows};
pub use events::{
    About, EVENTS_BY_TASK, EVENTS_BY_TEAM, EVENTS_BY_TYPE, Event, EventType, ResourceId, find_event,
};
pub(crate) use failures::log_failure;
pub use fan_out::publish;
pub use guards::HiddenGuards;
pub use handlers::{
    JobHandler, MAX_DELAY_SECS, Prepared, Settled, cancel, enqueue, no_effect, retry_at,
    settle_mail,
};
pub use jobs::{Job, Target, pending_job};
pub use log::{LogPosition, LogQuery, Walked, read_log, redeliver, remove_old_entries, walk_log};
pub use meters::DeliveryMeters;
pub use redelivery::{Redelivery, redeliver_range};
pub use release::set_channel_enabled;
pub use removals::{COMPLETE_REMOVALS, FORGET_ERASURES};
pub use sweeps::{RetentionSettings, SWEEP_ROWS, Sweep, SweepProgress, delete_due, due};

use crate::store::TableInfo;

/// The tables of this layer.
pub const TABLES: &[TableInfo] = &[
    TableInfo::of::<Event>(),
    TableInfo::of::<Channel>(),
    TableInfo::of::<Subscription>(),
    TableInfo::of::<Delivery>(),
    TableInfo::of::<Job>(),
    TableInfo::of::<Redelivery>(),
];

/// The handlers of this layer's own jobs.
pub const JOBS: &[JobHandler] =
    &[fan_out::FAN_OUT, delivering::DELIVER, release::RELEASE, redelivery::REDELIVER];
