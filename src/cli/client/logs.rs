//! `roadstead logs`

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::api::Api;
use super::backoff::Backoff;
use super::flags::ClientFlags;
use super::listed::{Listed, require_some};
use super::refusal::Refusal;
use super::stop::Stop;
use super::table::{cell, cells, one_line, time};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// Between two looks at the log.
const PAUSE: Duration = Duration::from_secs(2);

/// Entries of a page.
const PAGE: usize = 100;

/// The most entries read at once: of more that came between two looks, only these are shown.
const MAX_ENTRIES: usize = 2000;

/// Show what has happened: the notification log
#[derive(Args)]
#[command(
    after_help = "Oldest first. With --follow new entries are shown until Ctrl-C, or until nobody reads them; with --json \
                        each is then a line of its own.\n\n\
                        A key needs the scope notification:read.\n\n\
                        Example: roadstead logs --event deployment.complete --follow"
)]
pub struct Logs {
    /// Only events of this type
    #[arg(long, value_name = "TYPE")]
    event: Option<String>,

    /// Only deliveries with this status: sent, failed or dead
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,

    /// How many at most, the newest; 0 with --follow: only what comes
    #[arg(long, value_name = "N", default_value = "50")]
    limit: usize,

    /// Go on with what comes
    #[arg(long, short)]
    follow: bool,

    #[command(flatten)]
    client: ClientFlags,
}

impl Logs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        require_some(self.limit, self.follow)?;
        let api = self.client.connect()?;
        let org = api.org()?.to_string();
        let most = self.limit.saturating_add(1);
        let entries = api.block_on(self.newest(&api, &org, most, &HashSet::new()))?;
        let read = ids(&entries);
        let mut listed = Listed::first(entries, self.limit);
        listed.items.reverse();
        if !self.follow {
            let head = ["TIME (UTC)", "EVENT", "STATUS", "ABOUT"];
            return listed.show(self.client.json, head, "no entries", row);
        }
        api.block_on(self.follow(&api, &org, listed.items, read))
    }

    /// Shows entries, and then those that come. `read` are those that do not count as new.
    async fn follow(
        &self,
        api: &Api,
        org: &str,
        mut entries: Vec<Value>,
        mut read: HashSet<String>,
    ) -> Result<(), Failure> {
        let mut stop = Stop::new().map_err(Failure::io("signals"))?.or_without_reader();
        let mut backoff = Backoff::default();
        loop {
            for entry in entries.drain(..) {
                let text = one_line(&row(&entry).join("  "));
                output::print(self.client.json, &entry, text)?;
            }
            tokio::select! {
                () = stop.asked() => return Ok(()),
                () = tokio::time::sleep(PAUSE) => {}
            }
            match self.newest(api, org, MAX_ENTRIES, &read).await {
                Ok(newest) => {
                    let now_read = ids(&newest);
                    entries = unread(newest, &read);
                    entries.reverse();
                    read = now_read;
                    backoff.end();
                }
                Err(refusal) => {
                    if !backoff.pause(refusal, &mut stop).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The newest entries, newest first, in whole pages: until there are `most`, or one was `read`.
    async fn newest(
        &self,
        api: &Api,
        org: &str,
        most: usize,
        read: &HashSet<String>,
    ) -> Result<Vec<Value>, Refusal> {
        let mut entries: Vec<Value> = Vec::new();
        loop {
            let (limit, offset) = (PAGE.to_string(), entries.len().to_string());
            let query = [
                ("orgSlug", Some(org)),
                ("eventType", self.event.as_deref()),
                ("status", self.status.as_deref()),
                ("pagination.limit", Some(limit.as_str())),
                ("pagination.offset", Some(&offset)),
            ];
            let mut page = api.request(Method::GET, "/notifications/logs", &query, None).await?;
            let Value::Array(items) = page["items"].take() else { return Ok(entries) };
            let is_last = items.len() < PAGE;
            let meets = items.iter().any(|entry| read.contains(&cell(&entry["id"])));
            entries.extend(items);
            if is_last || meets || entries.len() >= most {
                return Ok(entries);
            }
        }
    }
}

fn ids(entries: &[Value]) -> HashSet<String> {
    entries.iter().map(|entry| cell(&entry["id"])).collect()
}

/// The entries, newest first, that were not read. One that was committed late may be behind one that
/// was; what is behind all of them is older than the first look.
fn unread(mut entries: Vec<Value>, read: &HashSet<String>) -> Vec<Value> {
    let is_read = |entry: &Value| read.contains(&cell(&entry["id"]));
    if let Some(last) = entries.iter().rposition(is_read) {
        entries.truncate(last);
    }
    entries.retain(|entry| !is_read(entry));
    entries
}

fn row(entry: &Value) -> [String; 4] {
    let payload = entry["payload"].as_object().into_iter().flatten();
    let about: Vec<String> = payload
        .filter(|(_, value)| !value.is_object() && !value.is_null())
        .map(|(name, value)| format!("{name}={}", cell(value)))
        .collect();
    let [event, status] = cells(entry, ["eventType", "status"]);
    [time(&entry["createdAt"]), event, status, about.join(" ")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_not_read_is_new() {
        let of = |ids: &[&str]| ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>();
        let read = ids(&of(&["c", "b"]));
        assert_eq!(unread(of(&["d", "c", "b", "a"]), &read), of(&["d"]));
        assert_eq!(unread(of(&["d", "c", "late", "b"]), &read), of(&["d", "late"]));
        assert_eq!(unread(of(&["f", "e"]), &read), of(&["f", "e"]));
        assert_eq!(unread(of(&["b"]), &HashSet::new()), of(&["b"]));
    }
}
