//! What the database server promises about commits, as far as its settings say.

use std::time::Instant;

use tokio_postgres::{Client, Row};

use super::connection::{Connector, STATEMENT_TIME};
use super::failure::Failure;
use super::opening::run;
use super::shared::{OPEN_TIME, start_runtime};
use super::sql::SAFETY;
use super::url::PostgresUrl;
use crate::base::{Error, Result};
use crate::store::Clock;

/// Transactions lock what they read; with fewer places for locks than this many of them are lost to
/// false conflicts, or fail.
const MIN_PREDICATE_LOCKS: u32 = 1024;

/// All rows are in one relation. A transaction with more locks than this in it locks all of it, and is
/// in conflict with whoever writes anything.
const MIN_RELATION_LOCKS: u32 = 2000;

/// The oldest version of PostgreSQL that the tests ran with.
const OLDEST_VERSION: u32 = 15;

/// What expires, or is due, is so by the clock of each server; ids sort by it.
const MAX_CLOCK_DIFFERENCE_MILLIS: i64 = 5000;

/// The settings of a database server that commits depend on; empty where it does not know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// `server_version`.
    pub version: String,
    pub fsync: String,
    /// `synchronous_commit`, as it is on a connection that has set it.
    pub synchronous_commit: String,
    /// `synchronous_standby_names`.
    pub synchronous_standby_names: String,
    /// `max_pred_locks_per_transaction`.
    pub max_pred_locks_per_transaction: String,
    /// `max_pred_locks_per_relation`: if it is negative, the part of those per transaction that it is,
    /// less one.
    pub max_pred_locks_per_relation: String,
    /// Whether the URL declares that the service replicates below the database, which no setting shows.
    pub is_replicated_below: bool,
    /// How far the clock of this machine is ahead of the database server's; negative if it is behind.
    pub clock_ahead_millis: i64,
}

impl Durability {
    /// Reads the settings of a server that is not in use here, and changes nothing. Blocks.
    pub fn of(url: &PostgresUrl) -> Result<Self> {
        let runtime = start_runtime()?;
        let connector = Connector::new(url.clone(), None, runtime.handle().clone());
        let raw = connector.connect_raw(Instant::now() + OPEN_TIME);
        let read = raw.and_then(|raw| {
            raw.run(raw.client.batch_execute(SAFETY), STATEMENT_TIME)?;
            Durability::read(&raw.client, url)
        });
        runtime.shutdown_background();
        read.map_err(|failure| failure.error())
    }

    /// Reads the settings, on a connection that has set its own.
    pub(super) fn read(client: &Client, url: &PostgresUrl) -> Result<Self, Failure> {
        let sql = "SELECT coalesce(current_setting('server_version', true), ''), \
             coalesce(current_setting('fsync', true), ''), \
             coalesce(current_setting('synchronous_standby_names', true), ''), \
             coalesce(current_setting('max_pred_locks_per_transaction', true), ''), \
             coalesce(current_setting('synchronous_commit', true), ''), \
             coalesce(current_setting('max_pred_locks_per_relation', true), ''), \
             floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let (asked, asked_at) = (Instant::now(), Clock::system().now());
        let rows = run(client.query(sql, &[]), STATEMENT_TIME)?;
        let between = i64::try_from(asked.elapsed().as_millis() / 2).unwrap_or_default();
        let text = |row: &Row, at: usize| row.try_get::<_, String>(at);
        let settings = rows.first().and_then(|row| {
            Some(Durability {
                version: text(row, 0).ok()?,
                fsync: text(row, 1).ok()?,
                synchronous_standby_names: text(row, 2).ok()?,
                max_pred_locks_per_transaction: text(row, 3).ok()?,
                synchronous_commit: text(row, 4).ok()?,
                max_pred_locks_per_relation: text(row, 5).ok()?,
                is_replicated_below: url.is_replicated_below,
                clock_ahead_millis: asked_at.millis() + between - row.try_get::<_, i64>(6).ok()?,
            })
        });
        settings.ok_or_else(|| Failure::Refused(Error::internal("the settings cannot be read")))
    }

    /// Returns whether a commit is on a second server before it is acknowledged, where it waits for as long
    /// as no standby answers; or on the second machine of a service that is declared to see to that itself,
    /// as far as commits wait for its storage.
    pub fn is_replicated(&self) -> bool {
        (self.has_standbys() || self.is_replicated_below)
            && self.fsync != "off"
            && self.commits_wait()
    }

    fn has_standbys(&self) -> bool {
        !self.synchronous_standby_names.trim().is_empty()
    }

    /// Says whether it is replicated, and how that is known.
    pub fn replication(&self) -> &'static str {
        match (self.is_replicated(), self.has_standbys()) {
            (false, _) => "not replicated",
            (true, true) => "replicated",
            (true, false) => "replicated below the database, as the URL declares",
        }
    }

    /// Returns whether what every connection sets is so: a pooler that gives each transaction to
    /// another connection loses it.
    fn commits_wait(&self) -> bool {
        matches!(&*self.synchronous_commit, "on" | "remote_apply")
    }

    /// How many locks a transaction may have in a relation before it locks all of it.
    fn relation_locks(&self) -> Option<u32> {
        let set: i32 = self.max_pred_locks_per_relation.parse().ok()?;
        match u32::try_from(set) {
            Ok(locks) => Some(locks),
            Err(_) => {
                let of_transaction: u32 = self.max_pred_locks_per_transaction.parse().ok()?;
                Some(of_transaction.checked_div(set.unsigned_abs())?.saturating_sub(1))
            }
        }
    }

    /// Returns what is to be known or changed, a line each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.fsync == "off" {
            remarks.push("fsync is off: a crash loses acknowledged writes; switch it on".into());
        }
        // A database that does not know the setting has none.
        if !self.commits_wait() && !self.synchronous_commit.is_empty() {
            remarks.push(format!(
                "synchronous_commit is {} although every connection sets it to on: a crash loses \
                 acknowledged writes; a pooler before the database must be in session mode",
                self.synchronous_commit
            ));
        }
        if !self.is_replicated() {
            remarks.push(
                "the store is not replicated: if the database server is lost, so is what was \
                 written since its last backup, and a standby that is promoted may lack the last \
                 acknowledged writes; set synchronous_standby_names, or add replicated=storage to the URL \
                 of a service that replicates below the database"
                    .into(),
            );
        }
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major < OLDEST_VERSION) {
            remarks.push(format!(
                "version {} is older than {OLDEST_VERSION}, the oldest that was tested; run \
                 roadstead store-check, or upgrade the database",
                self.version
            ));
        }
        let locks = self.max_pred_locks_per_transaction.parse::<u32>();
        if locks.is_ok_and(|locks| locks < MIN_PREDICATE_LOCKS) {
            remarks.push(format!(
                "max_pred_locks_per_transaction is {}: set it to {MIN_PREDICATE_LOCKS} or more, so \
                 that transactions rarely conflict without reason",
                self.max_pred_locks_per_transaction
            ));
        }
        if self.relation_locks().is_some_and(|locks| locks < MIN_RELATION_LOCKS) {
            remarks.push(format!(
                "max_pred_locks_per_relation is {}: set it to 10000 (a reload is enough), so that \
                 transactions that read much do not conflict with all that write",
                self.max_pred_locks_per_relation
            ));
        }
        let ahead = self.clock_ahead_millis;
        if ahead.abs() > MAX_CLOCK_DIFFERENCE_MILLIS {
            // The same text each time, though they are never the same by a millisecond.
            remarks.push(format!(
                "the clock of this machine is over {} s {} that of the database server: times, and \
                 what expires, differ from server to server; synchronize the clocks (NTP)",
                MAX_CLOCK_DIFFERENCE_MILLIS / 1000,
                if ahead > 0 { "ahead of" } else { "behind" }
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_replicated_only_if_commits_wait_for_a_standby() {
        let safe = Durability {
            version: "15.18".into(),
            fsync: "on".into(),
            synchronous_commit: "on".into(),
            synchronous_standby_names: "FIRST 1 (b)".into(),
            max_pred_locks_per_transaction: "1024".into(),
            max_pred_locks_per_relation: "10000".into(),
            is_replicated_below: false,
            clock_ahead_millis: -5000,
        };
        assert!(safe.is_replicated() && safe.remarks().is_empty());
        for (other, remark) in [
            (
                Durability { synchronous_standby_names: " ".into(), ..safe.clone() },
                "not replicated",
            ),
            (Durability { fsync: "off".into(), ..safe.clone() }, "switch it on"),
            (
                Durability { synchronous_commit: "local".into(), ..safe.clone() },
                "synchronous_commit is local",
            ),
            (Durability { max_pred_locks_per_transaction: "64".into(), ..safe.clone() }, "is 64"),
            (
                Durability { max_pred_locks_per_transaction: "256".into(), ..safe.clone() },
                "max_pred_locks_per_transaction is 256: set it to 1024",
            ),
            (
                Durability { max_pred_locks_per_relation: "-2".into(), ..safe.clone() },
                "max_pred_locks_per_relation is -2",
            ),
            (
                Durability { max_pred_locks_per_relation: "128".into(), ..safe.clone() },
                "max_pred_locks_per_relation is 128",
            ),
            (Durability { clock_ahead_millis: 7000, ..safe.clone() }, "is over 5 s ahead of"),
            (Durability { clock_ahead_millis: -7000, ..safe.clone() }, "is over 5 s behind"),
        ] {
            assert!(other.remarks()[0].contains(remark), "{other:?}");
        }
        let enough = [("-2", "4002"), ("2000", "64"), ("", "")];
        for (relation, transaction) in enough {
            let other = Durability {
                max_pred_locks_per_relation: relation.into(),
                max_pred_locks_per_transaction: transaction.into(),
                ..safe.clone()
            };
            let said = other.remarks();
            assert!(!said.iter().any(|said| said.contains("per_relation")), "{said:?}");
        }
        assert!(!Durability { fsync: "off".into(), ..safe.clone() }.is_replicated());
        for commit in ["off", "local", "remote_write", ""] {
            let other = Durability { synchronous_commit: commit.into(), ..safe.clone() };
            assert!(!other.is_replicated(), "{commit}");
        }
        // What is declared is no standby, and does not make up for commits that do not wait.
        let declared = Durability {
            synchronous_standby_names: String::new(),
            is_replicated_below: true,
            ..safe.clone()
        };
        assert!(declared.is_replicated() && declared.remarks().is_empty());
        assert!(declared.replication().contains("as the URL declares"));
        for unsafe_one in [
            Durability { fsync: "off".into(), ..declared.clone() },
            Durability { synchronous_commit: "off".into(), ..declared.clone() },
        ] {
            assert_eq!(unsafe_one.replication(), "not replicated");
        }
        // A database that does not know the setting is not taken at its word.
        assert!(!Durability::default().is_replicated());
    }
}
