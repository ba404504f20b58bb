//! The background job that appends entries to the audit logs, and what the commands `roadstead audit`
//! read, from a running server through the control socket or from the directory itself.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::api::audit::{
    self, AUDITED, AuditEntry, Checkpoint, Comparison, Link, append_pending, checkpoint, compare,
};
use crate::auth::{Organization, organization_named};
use crate::base::{Error, Id, Kind, Result};
use crate::outbox::log_failure;
use crate::resources::{audit_logs, organizations};
use crate::store::check::Findings;
use crate::store::{Org, Store};

// ── The job ──────────────────────────────────────────────────────────────────

/// Entries are appended 100 ms after they were committed: then nearly all requests that began before
/// them are done, and many share a step.
const DELAY: Duration = Duration::from_millis(100);

/// Pending entries are looked for at least this often, with or without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Appends pending entries to the chains until the server stops.
pub(super) async fn chain(store: Store, mut stopping: watch::Receiver<bool>) {
    let mut audited = store.signals().subscribe(AUDITED);
    let mut rounds = Rounds::default();
    while !*stopping.borrow() {
        // Entries with later ids are left for the next round.
        let end = Id::new(store.clock().new_id());
        tokio::select! {
            () = tokio::time::sleep(DELAY) => {}
            _ = stopping.changed() => break,
        }
        append_between(&store, rounds.begin(Instant::now(), end), end).await;
        tokio::select! {
            _ = audited.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = stopping.changed() => {}
        }
    }
}

/// Appends all pending entries, of a server that has answered its last request. After a crash the
/// next start does it.
pub(super) async fn append_rest(store: &Store) {
    append_between(store, Id::NIL, Id::new(store.clock().new_id())).await;
}

/// Where rounds begin. Most begin where the one before ended: what is before that is rows that were
/// deleted a moment ago, which a scan passes one by one. An entry may be committed later than entries
/// with larger ids, so one round a second begins at the first.
#[derive(Default)]
struct Rounds {
    last_end: Option<Id<AuditEntry>>,
    last_whole: Option<Instant>,
}

impl Rounds {
    /// Begins a round that ends at `end`; returns where it begins.
    fn begin(&mut self, now: Instant, end: Id<AuditEntry>) -> Id<AuditEntry> {
        let last_end = self.last_end.replace(end);
        let is_recent = |whole: Instant| now.duration_since(whole) < POLL_INTERVAL;
        match last_end {
            Some(last_end) if self.last_whole.is_some_and(is_recent) => last_end,
            _ => {
                self.last_whole = Some(now);
                Id::NIL
            }
        }
    }
}

/// Appends the pending entries with ids from `from` on and before `end`, step by step.
async fn append_between(store: &Store, mut from: Id<AuditEntry>, end: Id<AuditEntry>) {
    loop {
        match store.write(Id::NIL, move |tx| append_pending(tx, from, end)).await {
            Ok(Some(last)) => from = last,
            Ok(None) => break,
            Err(error) => {
                log_failure!(error, "entries could not be appended to the audit log");
                break;
            }
        }
    }
}

// ── What the commands read ───────────────────────────────────────────────────

/// An export gets at most 500 entries at once: some hundred KiB.
const EXPORTED_ENTRIES: usize = 500;

/// What a command reads of the audit logs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditRequest {
    /// The ends of the logs of one organization, by slug, or of all.
    Checkpoint(Option<String>),
    /// The comparison of an earlier checkpoint with the log.
    Compare(String),
    /// Entries of an organization, by id, after this sequence number.
    Entries { organization: String, after: u64 },
}

/// The answer to an [`AuditRequest`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditReply {
    /// The ends of logs.
    Checkpoints(Vec<CheckedLog>),
    /// What is wrong with a log, compared with the checkpoint: nothing if it is the same log.
    Compared { log: CheckedLog, findings: Vec<String> },
    /// Entries as JSON, oldest first, and the sequence number of the last; none after the last.
    Entries { lines: Vec<String>, last: Option<u64> },
}

/// The end of an audit log.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedLog {
    /// The slug of its organization.
    pub org_slug: String,
    pub organization_id: String,
    /// The number of its last entry.
    pub sequence: u64,
    /// The hash of its last entry, in hexadecimal.
    pub hash: String,
    /// The checkpoint as a text.
    pub value: String,
}

/// Answers a request from the store. Blocks.
///
/// # Errors
/// 404 if there is no such organization, 400 if a text is no checkpoint; if the store fails.
pub fn audit_reply(store: &Store, request: &AuditRequest) -> Result<AuditReply> {
    match request {
        AuditRequest::Checkpoint(slug) => {
            let selected = match slug {
                None => store.read_now(Id::NIL, organizations::all)?,
                Some(slug) => vec![organization_of(store, slug)?],
            };
            let logs = selected.into_iter().map(|org| checked(store, org));
            Ok(AuditReply::Checkpoints(logs.collect::<Result<_>>()?))
        }
        AuditRequest::Compare(value) => compared(store, value),
        AuditRequest::Entries { organization, after } => {
            let org = Id::parse(organization);
            let entries = store
                .read_now(org, |view| audit_logs::entries_after(view, *after, EXPORTED_ENTRIES))?;
            let last = entries.last().map(audit_logs::AuditLogEntry::sequence);
            let line =
                |entry| serde_json::to_string(entry).map_err(|e| Error::internal(e.to_string()));
            let lines = entries.iter().map(line).collect::<Result<_>>()?;
            Ok(AuditReply::Entries { lines, last })
        }
    }
}

fn organization_of(store: &Store, slug: &str) -> Result<Id<Org>> {
    let found = store.read_now(Id::NIL, |view| organization_named(view, slug))?;
    found.ok_or_else(|| Error::no_such("organization"))
}

fn checked(store: &Store, org: Id<Org>) -> Result<CheckedLog> {
    store.read_now(org, |view| {
        let organization: Organization = view.fetch(&org)?;
        let checkpoint = checkpoint(view)?;
        let Link { sequence, hash } = checkpoint.link;
        Ok(CheckedLog {
            org_slug: organization.slug.to_string(),
            organization_id: org.to_string(),
            sequence,
            hash: crate::store::codec::hex(&hash),
            value: checkpoint.to_string(),
        })
    })
}

/// Compares a checkpoint with the log, whose chain is verified: a hash that is stored need not be
/// right.
fn compared(store: &Store, value: &str) -> Result<AuditReply> {
    let checkpoint =
        Checkpoint::parse(value).ok_or_else(|| Error::no_such("checkpoint").at("against"))?;
    let mut found = Findings::default();
    let sequence = checkpoint.link.sequence;
    if !store.read_now(Id::NIL, |view| view.has::<Organization>(&checkpoint.org))? {
        return Err(Error::new(
            Kind::NotFound,
            "not_found",
            format!(
                "the checkpoint {value} is of an organization that this installation does not \
                 have: compare it with the data directory it was taken of"
            ),
        ));
    }
    let compared = store.read_now(checkpoint.org, |view| {
        let compared = compare(view, &checkpoint)?;
        audit::verify(view, &mut found)?;
        Ok(compared)
    })?;
    let mut findings = Vec::new();
    match compared {
        Comparison::Continues => {}
        Comparison::EndsBefore(last) => findings.push(format!(
            "the log ends with entry {last}, before entry {sequence} of the checkpoint: it is an \
             older state, or was cut off"
        )),
        Comparison::Missing => {
            findings.push(format!("entry {sequence} of the checkpoint is missing in the log"));
        }
        Comparison::Differs => findings.push(format!(
            "entry {sequence} is another one than in the checkpoint: the log was replaced, or went \
             on from an older state"
        )),
        Comparison::Removed(last) => findings.push(format!(
            "entries up to {last} were removed by retention, entry {sequence} of the checkpoint \
             too: it can no longer be compared; use a later one"
        )),
    }
    findings.append(&mut found.messages);
    Ok(AuditReply::Compared { log: checked(store, checkpoint.org)?, findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_a_second_begins_at_the_first_entry_and_the_others_where_the_last_ended() {
        let (mut rounds, begun) = (Rounds::default(), Instant::now());
        let id = |number: u128| Id::new(uuid::Uuid::from_u128(number));
        let mut at = |millis, end| rounds.begin(begun + Duration::from_millis(millis), id(end));
        assert_eq!(at(0, 10), Id::NIL);
        assert_eq!(at(100, 20), id(10));
        assert_eq!(at(999, 30), id(20));
        assert_eq!(at(1_000, 40), Id::NIL);
        assert_eq!(at(1_999, 50), id(40));
    }
}
