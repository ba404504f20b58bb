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
        for Metric { name, kind, help, read, installation } in self.stored.iter().copied() {
            let mut sum = 0;
            let once = [Id::NIL];
            for org in if *installation { &once } else { organizations.as_slice() } {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Clock, View};

    #[tokio::test]
    async fn a_number_of_the_installation_is_read_once_and_others_are_summed() {
        const ALL: Metric = Metric {
            name: "roadstead_all",
            kind: FamilyKind::Gauge,
            help: "All",
            read: |view: &View| Ok(if view.org().is_nil() { 7 } else { 100 }),
            installation: true,
        };
        const EACH: Metric = Metric {
            name: "roadstead_each",
            read: |view: &View| Ok(if view.org().is_nil() { 100 } else { 4 }),
            installation: false,
            ..ALL
        };
        let store = Store::in_memory(Clock::at(Time::from_millis(0)), &[]);
        let organizations: Vec<Id<Org>> =
            [1, 2].map(|n| Id::new(uuid::Uuid::from_u128(n))).to_vec();
        let sources = StoredSources {
            stored: vec![&ALL, &EACH],
            oldest: vec![],
            organizations: |_| Ok(vec![]),
        };
        let families = sources.families(store, organizations).await.unwrap();
        let shown = format!("{families:?}");
        assert!(shown.contains("Number(7.0)") && shown.contains("Number(8.0)"), "{shown}");
    }
}
