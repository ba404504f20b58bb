//! The families that are read from the records of organizations.

use std::time::Duration;

use crate::api::{Metric, OldestRow};
use crate::base::metrics::{Family, FamilyKind, SampleValue};
use crate::base::{Id, Result, Time};
use crate::store::{Org, Store};

/// How long the store is waited for: a collector gives up after 10 s by default, and then has nothing of
/// a server whose database is away.
pub const STORE_TIME: Duration = Duration::from_secs(3);

/// How long the sums over its organizations are waited for.
pub const SUMS_TIME: Duration = Duration::from_secs(6);

/// Lists the organizations over which a number is summed.
pub type Organizations = fn(&Store) -> Result<Vec<Id<Org>>>;

/// What is read from the store.
#[derive(Clone)]
pub struct StoredSources {
    /// Numbers kept in the records of organizations.
    pub stored: Vec<&'static Metric>,
    /// Records that a retention removes.
    pub oldest: Vec<&'static OldestRow>,
    /// Lists the organizations.
    pub organizations: Organizations,
}

impl StoredSources {
    /// Reads them.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn families(self, store: Store, organizations: Vec<Id<Org>>) -> Result<Vec<Family>> {
        let mut families = Vec::new();
        for Metric { name, kind, help, read } in self.stored.iter().copied() {
            let mut sum = 0;
            for org in &organizations {
                sum += store.read(*org, read).await?;
            }
            families.push(Family::single(name, help, *kind, SampleValue::Number(sum as f64)));
        }
        families.push(self.oldest_rows(&store, &organizations).await?);
        Ok(families)
    }

    /// The time of the oldest record of each table with a retention, of all organizations.
    async fn oldest_rows(&self, store: &Store, organizations: &[Id<Org>]) -> Result<Family> {
        let mut times = Vec::new();
        for OldestRow { table, read } in self.oldest.iter().copied() {
            let mut oldest: Option<Time> = None;
            for org in organizations {
                let time = store.read(*org, read).await?;
                oldest = oldest.into_iter().chain(time).min();
            }
            times.extend(oldest.map(|time| (*table, time.millis().max(0) as u64 / 1000)));
        }
        let help = "Time of the oldest record kept, of those that a retention removes";
        let name = "roadstead_oldest_row_timestamp_seconds";
        Ok(Family::by_label(name, help, FamilyKind::Gauge, "table", times))
    }
}
