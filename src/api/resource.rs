//! The entry with which a resource registers everything it contributes to the server.

use super::{PublicDocument, Route, Webhook};
use crate::base::metrics::FamilyKind;
use crate::base::{Result, Time};
use crate::outbox::{EventType, JobHandler, Sweep, Workflow};
use crate::store::check::Findings;
use crate::store::{TableInfo, Tx, View};

/// Everything that one file of the product contributes. What an entry does not have, it takes from
/// [`Resource::EMPTY`]:
///
/// ```text
/// pub const RESOURCE: Resource = Resource { routes, tables: &[…], ..Resource::EMPTY };
/// ```
///
/// Every file with routes has an entry of its own. A folder's `mod.rs` lists the entries of its
/// files as [`children`](Resource::children); `resources::ALL` lists the rest.
pub struct Resource {
    pub routes: fn() -> Vec<Route>,
    /// The tables of its records.
    pub tables: &'static [TableInfo],
    /// The handlers of the jobs that it enqueues.
    pub jobs: &'static [JobHandler],
    /// Its periodic work.
    pub sweeps: &'static [Sweep],
    /// What `roadstead check` verifies across its records.
    pub checks: &'static [Check],
    /// What `roadstead repair` does about that.
    pub mends: &'static [Mend],
    /// What it shows at `/metrics`.
    pub metrics: &'static [Metric],
    /// Its records that are removed when they are old, for `/metrics`.
    pub oldest: &'static [OldestRow],
    /// The types of the events that it publishes; `tests/tidy/events.rs` compares them with the
    /// sources.
    pub events: &'static [EventType],
    /// The workflows that it offers to notification channels.
    pub workflows: &'static [Workflow],
    /// What it posts to addresses that its users configure.
    pub webhooks: &'static [Webhook],
    /// What it serves outside of `/api`.
    pub documents: &'static [PublicDocument],
    /// The entries of its files, in the order in which their routes are documented.
    pub children: &'static [&'static Resource],
}

impl Resource {
    /// The entry that contributes nothing.
    pub const EMPTY: Resource = Resource {
        routes: Vec::new,
        tables: &[],
        jobs: &[],
        sweeps: &[],
        checks: &[],
        mends: &[],
        metrics: &[],
        oldest: &[],
        events: &[],
        workflows: &[],
        webhooks: &[],
        documents: &[],
        children: &[],
    };

    /// The tables of the entry and of all below it.
    pub fn tables(&self) -> Vec<TableInfo> {
        self.flatten().iter().flat_map(|entry| entry.tables).copied().collect()
    }

    /// The entry itself and, after it, all below it.
    pub fn flatten(&self) -> Vec<&Resource> {
        let below = self.children.iter().flat_map(|child| child.flatten());
        std::iter::once(self).chain(below).collect()
    }
}

/// Verifies what must hold between the records of one organization and no table's own check sees;
/// adds a finding for each contradiction.
pub type Check = fn(&View, &mut Findings) -> Result<()>;

/// Mends some of what a [`Check`] finds in the transaction's organization; returns what was wrong, or
/// `None` if nothing is.
pub type Mend = fn(&mut Tx) -> Result<Option<String>>;

/// A number that is kept in the records of each organization; `/metrics` shows the sum.
pub struct Metric {
    /// Its name, which begins with `roadstead_`, without the suffix `_total` of a counter.
    pub name: &'static str,
    /// A counter or a gauge. A counter continues after a restart.
    pub kind: FamilyKind,
    /// Its help text.
    pub help: &'static str,
    /// Reads the value of the view's organization.
    pub read: fn(&View) -> Result<u64>,
    /// Whether it is read once for the installation, in no organization, instead of once for each.
    pub installation: bool,
}

/// Records that a retention removes when they are old; `/metrics` shows the time of the oldest.
pub struct OldestRow {
    pub table: &'static str,
    /// Reads the time of the oldest one of the view's organization; none without any.
    pub read: fn(&View) -> Result<Option<Time>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_precedes_its_children_in_their_order() {
        const LEAF: Resource = Resource { events: &[EventType::AgentError], ..Resource::EMPTY };
        const BRANCH: Resource =
            Resource { events: &[EventType::AgentStale], children: &[&LEAF], ..Resource::EMPTY };
        const ROOT: Resource = Resource { children: &[&BRANCH, &LEAF], ..Resource::EMPTY };
        let events: Vec<_> = ROOT.flatten().iter().map(|entry| entry.events.to_vec()).collect();
        let (stale, error) = (vec![EventType::AgentStale], vec![EventType::AgentError]);
        assert_eq!(events, [vec![], stale, error.clone(), error]);
    }
}
