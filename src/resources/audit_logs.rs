//! The audit log as admins read it: what was done and refused, in the order of its chain, newest
//! first (reference: audit-log).

mod checkpoints;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::audit::{
    ActorType, AuditEntry, AuditOutcome, AuditPerson, ChainHead, ChainStart, ChainedEntry,
    PostingList, Term, find_entry, first_at,
};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op, order_issue};
use crate::auth::{Organization, SESSION_ADMIN};
use crate::base::{Id, Issue, Result, Slug, Time};
use crate::store::{Key as _, Order, Page, PageRequest, Record as _, View, codec};
use std::ops::ControlFlow;

/// Reading the audit log; its records are in `api::audit`.
pub const RESOURCE: Resource =
    Resource { routes, children: &[&checkpoints::RESOURCE], ..Resource::EMPTY };

/// A page ends after 20,000 searched postings, as other lists do: a combination of filters that
/// are frequent alone may match nothing.
const MAX_SEEKS: usize = 20_000;

// ── What callers send and see ────────────────────────────────────────────────

/// Filters of the audit log. An absent filter matches every entry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditFilter {
    /// Only entries of the user or API key with this id, and of keys for which the user answered.
    actor: Option<Id<()>>,
    /// Only entries of this action, such as `tool.create`.
    action: Option<String>,
    /// Only entries about resources of this kind, such as `tool`.
    resource_type: Option<String>,
    /// Only entries about the resource with this id or name.
    resource_id: Option<String>,
    /// Only entries from this time on.
    from: Option<Time>,
    /// Only entries before this time.
    to: Option<Time>,
}

impl Input for AuditFilter {
    fn check(&self, issues: &mut Vec<Issue>) {
        issues.extend(order_issue(self.from, self.to));
    }
}

/// An entry of the audit log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditEntry")]
pub struct AuditLogEntry {
    id: Id<AuditEntry>,
    /// The number of the entry in the organization's chain: 1, 2, 3 …
    sequence: u64,
    created_at: Time,
    actor: AuditActor,
    /// The name of the API key that it was done with, also of one that decided in the name of another
    /// user.
    via: Option<String>,
    /// Noun and verb: `tool.create`.
    action: String,
    resource: AuditResource,
    /// The slug of the organization.
    org_slug: Slug,
    /// The id of the request, as in the server's log; of what the service did itself, the id of what
    /// caused it.
    request_id: String,
    outcome: AuditOutcome,
    /// The keyed hash of this entry and of the one before it, in hexadecimal.
    hash: String,
    /// The hash of the entry before it; 64 zeros for the first entry.
    previous_hash: String,
}

/// Who did it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct AuditActor {
    r#type: ActorType,
    /// The id of the user or API key.
    id: Option<Id<()>>,
    /// The name of the user, also of the one that an API key belongs to.
    name: String,
    /// The person who answered for it, if the actor is the API key of a service account; otherwise
    /// null.
    person: Option<AuditPerson>,
}

/// What it was done to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct AuditResource {
    /// The kind of the resource: usually the noun of the action.
    r#type: String,
    /// The id of the resource, or its name where it has no id.
    id: Option<String>,
    /// What else it is named by, for example a version, or a label and where it was moved.
    detail: Option<String>,
}

impl AuditLogEntry {
    fn of(chained: ChainedEntry, org_slug: &Slug) -> Self {
        let ChainedEntry { sequence, entry, previous, hash, .. } = chained;
        AuditLogEntry {
            id: entry.id,
            sequence,
            created_at: entry.created_at,
            actor: AuditActor {
                r#type: entry.actor_type,
                id: entry.actor_id,
                name: entry.actor_name,
                person: entry.person,
            },
            via: entry.via,
            action: entry.action,
            resource: AuditResource {
                r#type: entry.resource_type,
                id: entry.resource_id,
                detail: entry.detail,
            },
            org_slug: org_slug.clone(),
            request_id: entry.request_id,
            outcome: entry.outcome,
            hash: codec::hex(&hash),
            previous_hash: codec::hex(&previous),
        }
    }
}

impl Output for AuditLogEntry {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Searching ────────────────────────────────────────────────────────────────

/// A search of the log: entries with sequence numbers from `from` on and before `end` that match all
/// filters: those of each filter are found by seeking from the newest on, so those of several by
/// seeking in each in turn.
struct Search<'a> {
    view: &'a View<'a>,
    filters: Vec<PostingList>,
    from: u64,
    end: u64,
    /// Postings that were searched so far.
    seeks: usize,
}

impl<'a> Search<'a> {
    fn new(view: &'a View<'a>, filter: &AuditFilter) -> Result<Self> {
        let terms = [
            filter.actor.map(Term::actor),
            filter.action.as_deref().map(Term::action),
            filter.resource_type.as_deref().map(Term::resource_type),
            filter.resource_id.as_deref().map(Term::resource),
        ];
        let filters = terms.into_iter().flatten().map(PostingList::of).collect();
        let (mut from, mut end) = bounds(view)?;
        if let Some(time) = filter.from {
            from = first_at(view, time, from, end)?;
        }
        if let (Some(time), Some(head)) = (filter.to, view.get::<ChainHead>(&())?) {
            // The time of an entry may be before that of entries before it, by no more than this.
            let latest = time.millis().saturating_add(head.lag_millis);
            end = first_at(view, Time::from_millis(latest), from, end)?;
        }
        Ok(Search { view, filters, from, end, seeks: 0 })
    }

    /// Returns the newest entry that matches all filters; `None` if there is none, or if the search
    /// became too long.
    fn newest(&mut self) -> Result<Option<u64>> {
        let mut candidate = match self.end.checked_sub(1) {
            Some(last) if last >= self.from => last,
            _ => return Ok(None),
        };
        let mut agreed = 0;
        let mut turn = 0;
        while agreed < self.filters.len() {
            if self.is_long() {
                self.end = candidate + 1;
                return Ok(None);
            }
            self.seeks += 1;
            let place = turn % self.filters.len();
            let filter = &mut self.filters[place];
            let Some(found) = filter.newest(self.view, self.from, candidate + 1)? else {
                self.end = self.from;
                return Ok(None);
            };
            agreed = if found == candidate { agreed + 1 } else { 1 };
            candidate = found;
            turn += 1;
        }
        self.seeks += 1;
        Ok(Some(candidate))
    }

    fn is_long(&self) -> bool {
        self.seeks >= MAX_SEEKS
    }
}

/// Returns the sequence numbers of the chain: the first that is kept, and the one after the last.
fn bounds(view: &View) -> Result<(u64, u64)> {
    let removed = view.get::<ChainStart>(&())?.map_or(0, |start| start.before.sequence);
    let last = view.get::<ChainHead>(&())?.map_or(removed, |head| head.last.sequence);
    Ok((removed + 1, last + 1))
}

/// Returns a page of the log. A cursor is the number before which the next page begins.
fn page(view: &View, filter: &AuditFilter, part: &PageRequest) -> Result<Page<ChainedEntry>> {
    let mut search = Search::new(view, filter)?;
    if let Some(position) = &part.after {
        let before = u64::read(&mut position.as_slice()).unwrap_or_default();
        search.end = search.end.min(before);
    }
    let (from, to) = (filter.from, filter.to);
    let mut items: Vec<ChainedEntry> = Vec::new();
    while let Some(sequence) = search.newest()? {
        let found = view.get::<ChainedEntry>(&sequence)?.filter(|chained| {
            let at = chained.entry.created_at;
            from.is_none_or(|from| from <= at)
                && to.is_none_or(|to| at < to)
                && filter.resource_id.as_ref().is_none_or(|wanted| {
                    // Their terms are equal.
                    chained.entry.resource_id.as_ref() == Some(wanted)
                })
        });
        if found.is_some() && items.len() == part.limit {
            let next = items.last().map(|last| last.sequence.to_bytes());
            return Ok(Page { items, next });
        }
        search.end = sequence;
        items.extend(found);
        if search.is_long() {
            break;
        }
    }
    let next = (search.is_long() && search.end > search.from).then(|| search.end.to_bytes());
    Ok(Page { items, next })
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), AuditFilter>) -> Result<Page<AuditLogEntry>> {
    let page = page(view, &req.input, &req.page)?;
    Ok(page.map(|chained| AuditLogEntry::of(chained, &req.caller().org_slug)))
}

fn get(view: &View, req: &Req<Id<AuditEntry>>) -> Result<AuditLogEntry> {
    let (from, end) = bounds(view)?;
    let chained = find_entry(view, req.params, from, end)?;
    let chained = chained.ok_or_else(|| ChainedEntry::missing(&req.params))?;
    Ok(AuditLogEntry::of(chained, &req.caller().org_slug))
}

/// Returns the entries after this number, oldest first, at most `limit`: for an export.
pub fn entries_after(view: &View, sequence: u64, limit: usize) -> Result<Vec<AuditLogEntry>> {
    let organization: Organization = view.fetch(&view.org())?;
    let mut keys = Vec::new();
    let (from, _) = bounds(view)?;
    let from = from.max(sequence.saturating_add(1));
    view.record_keys::<ChainedEntry>(&from, &u64::MAX, Order::Ascending, |key| {
        keys.push(key);
        Ok(if keys.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let show = |key| Ok(AuditLogEntry::of(view.fetch(key)?, &organization.slug));
    keys.iter().map(show).collect()
}

impl AuditLogEntry {
    /// Returns its number in the chain.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/audit-logs", SESSION_ADMIN, "audit_entry.list", op::list(list))
            .reads_audit_log()
            .about("List audit entries, newest first"),
        Route::get("/audit-logs/{eventId}", SESSION_ADMIN, "audit_entry.get", op::read(get))
            .reads_audit_log()
            .about("Get an audit entry"),
    ]
}

#[cfg(test)]
mod tests;
