//! Counts of deployment jobs by day and state, kept with each change of a state, so that the heatmap
//! reads a row per day instead of every job.
//!
//! A job counts on the day of its creation, under its current state.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use super::state::JobState;
use crate::base::{Id, Result, Time};
use crate::resources::environments::Environment;
use crate::store::{Record, Tx};

/// A day in days since 1970, UTC.
pub type Day = u32;

/// The seconds of a day.
pub const DAY_SECS: i64 = 24 * 3600;

/// The number of jobs of a day, by state.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentDay {
    /// Only jobs of this environment; none for the jobs of all.
    pub environment: Option<Id<Environment>>,
    /// The day.
    pub day: Day,
    /// The jobs by state, without zeros.
    pub counts: BTreeMap<JobState, u64>,
}

impl Record for DeploymentDay {
    const TABLE: &'static str = "deployment_days";
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("environment", "history: an environment may be deleted, its jobs stay counted")];
    type Key = (Option<Id<Environment>>, Day);
    fn key(&self) -> Self::Key {
        (self.environment, self.day)
    }
}

/// Returns the day of a time.
pub fn day_of(time: Time) -> Day {
    Day::try_from(time.secs().div_euclid(DAY_SECS)).unwrap_or(0)
}

/// Returns the start of a day.
pub fn start_of(day: Day) -> Time {
    Time::from_millis(i64::from(day) * DAY_SECS * 1000)
}

/// Counts a job of `environment`, created at `created_at`, under the state `to` instead of `from`.
///
/// # Errors
/// If the store fails.
pub fn count(
    tx: &mut Tx,
    environment: Id<Environment>,
    created_at: Time,
    from: Option<JobState>,
    to: JobState,
) -> Result<()> {
    let day = day_of(created_at);
    for environment in [None, Some(environment)] {
        let counts = tx.get::<DeploymentDay>(&(environment, day))?.map(|day| day.counts);
        let mut counts = counts.unwrap_or_default();
        if let Some(count) = from.and_then(|from| counts.get_mut(&from)) {
            *count = count.saturating_sub(1);
        }
        *counts.entry(to).or_default() += 1;
        counts.retain(|_, count| *count > 0);
        tx.put(&DeploymentDay { environment, day, counts })?;
    }
    Ok(())
}
