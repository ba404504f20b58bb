//! What waits in the operations of an organization, for the page of today: deliveries that were given
//! up, keys that expire, and a backup.

use serde::Deserialize;

use super::notifications;
use super::system::Backup;
use super::today_group::{Group, ROWS, Row};
use crate::api::Method;
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Keys that expire in so many days are shown: time enough to replace one.
const EXPIRING_DAYS: &str = "14";

/// An organization of this age should have a backup: on the first day there is little to lose.
const UNSAVED_SECS: i64 = 2 * 24 * 3600;

#[derive(Deserialize)]
struct LogPage {
    items: Vec<Entry>,
    pagination: Pagination,
}

#[derive(Deserialize)]
struct Pagination {
    total: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    event_type: String,
    channel_id: String,
    error: Nullable<String>,
    created_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    name: String,
    start: String,
    created_at: Time,
    expires_at: Nullable<Time>,
    replaced_at: Nullable<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    last_backup: Nullable<Backup>,
    backup_due: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Organization {
    slug: String,
    created_at: Time,
}

/// A group of what is a matter of operations.
fn group(title: &'static str, icon: &'static str, rows: Vec<Row>) -> Group {
    Group { title, icon, kind: "warning", rows, is_cut: false, all: String::new() }
}

/// Deliveries that were given up since then, for those who may have them delivered again.
pub async fn deliveries(visit: &Visit, since: Time) -> Result<Group> {
    let (kind, icon, _) = notifications::state("dead");
    let none = Group { kind, ..group("Notifications that were given up", icon, Vec::new()) };
    if !visit.may(Method::Post, "/notifications/logs/id/redeliver") {
        return Ok(none);
    }
    let since = since.to_string();
    let query = [("status", "dead"), ("limit", ROWS), ("dateRange.start", &since)];
    let found: LogPage = visit.api.get("/notifications/logs", &query).await?;
    let log = visit.in_org("/operations/log?status=dead");
    let row = |entry: Entry| Row {
        path: format!("{log}&channel={}", segment(&entry.channel_id)),
        title: entry.event_type,
        detail: entry.error.0.unwrap_or_default(),
        at: entry.created_at,
    };
    let rows: Vec<_> = found.items.into_iter().map(row).collect();
    Ok(Group { is_cut: found.pagination.total > rows.len(), rows, all: log, ..none })
}

/// Keys that expire soon: one's own, for admins those of everybody.
pub async fn keys(visit: &Visit) -> Result<Group> {
    let query = [("expiresWithinDays", EXPIRING_DAYS), ("limit", ROWS)];
    let found: List<Key> = visit.api.get("/api-keys", &query).await?;
    let all = visit.in_org("/settings/keys");
    let row = |key: Key| Row {
        path: all.clone(),
        title: key.name,
        detail: match key.replaced_at.0 {
            Some(_) => format!("{}… was rotated, and ends", key.start),
            None => format!("{}… expires", key.start),
        },
        at: key.expires_at.unwrap_or(key.created_at),
    };
    let mut rows: Vec<_> = found.items.into_iter().map(row).collect();
    rows.sort_by_key(|row| row.at);
    let is_cut = found.next_cursor.is_some();
    Ok(Group { is_cut, all: all.clone(), ..group("Keys that expire soon", "clock", rows) })
}

/// The last backup, if it was long ago, for those who may see the state of the server.
pub async fn backup(visit: &Visit) -> Result<Group> {
    let none = group("A backup is due", "triangle", Vec::new());
    if !visit.may(Method::Get, "/system") {
        return Ok(none);
    }
    let status: Status = visit.api.get("/system", &[]).await?;
    if !status.backup_due {
        return Ok(none);
    }
    let (title, detail, at) = match status.last_backup.0 {
        Some(backup) => ("The last backup is older than two days", "It was made", backup.taken_at),
        None => {
            let now = visit.api.calls.executor.store.clock().now();
            let created_at = created_at(visit).await?;
            match created_at.filter(|at| *at <= now.minus_secs(UNSAVED_SECS)) {
                Some(at) => ("No backup was made yet", "The organization was created", at),
                None => return Ok(none),
            }
        }
    };
    let path = visit.in_org("/operations/system");
    let rows = vec![Row { title: title.into(), path, detail: detail.into(), at }];
    Ok(Group { rows, ..none })
}

/// When the organization of the page was created.
async fn created_at(visit: &Visit) -> Result<Option<Time>> {
    let mine: Vec<Organization> = visit.api.items("/organizations", &[]).await?;
    let slug = &visit.member().org_slug;
    let found = mine.into_iter().find(|organization| organization.slug == *slug);
    Ok(found.map(|organization| organization.created_at))
}
