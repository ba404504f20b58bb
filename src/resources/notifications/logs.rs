//! The notification log, the only list with pagination by offset (reference: notifications, "The log").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::guards::hidden_from;
use crate::api::{Input, Output, Req, ResourceRef};
use crate::auth::{DELETED_IN_LOG, DeletedRestricted};
use crate::base::{Id, Int, Issue, Result, Time};
use crate::outbox::{
    Channel, DeliveryStatus, EventType, HiddenGuards, LogEntry, LogQuery, RetentionSettings, Sweep,
    SweepProgress, due, read_log, remove_old_entries, walk_log,
};
use crate::store::{Tx, View};

/// Totals are counted up to 10,000: clients do not page through more, and counting a year's log
/// would cost more than the page itself (reference: notifications, "The log").
const MAX_TOTAL: usize = 10_000;

/// The largest offset: the entries before a page are skipped one by one. Older entries can be
/// reached with `dateRange`.
const MAX_OFFSET: i64 = 1_000_000;

/// The default size of a page (reference: notifications, "The log").
const DEFAULT_LIMIT: i64 = 50;

// ── What callers send and see ────────────────────────────────────────────────

/// Filters of the log. An absent filter matches every entry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogFilter {
    /// Type of the event.
    event_type: Option<EventType>,
    /// Channel of the delivery; one that does not exist has no entries.
    channel_id: Option<Id<Channel>>,
    /// Status of the delivery.
    status: Option<DeliveryStatus>,
    /// Time of the event.
    date_range: Option<DateRange>,
    /// Page of the list.
    pagination: Option<Pagination>,
}

/// A half-open range of time.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct DateRange {
    /// Inclusive start; unbounded if absent.
    start: Option<Time>,
    /// Exclusive end; unbounded if absent.
    end: Option<Time>,
}

/// A page of a list, by offset.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Pagination {
    /// Maximum number of entries; 50 if absent.
    limit: Option<Int<1, 200>>,
    /// Number of entries to skip; 0 if absent.
    offset: Option<Int<0, MAX_OFFSET>>,
}

impl Input for LogFilter {
    fn check(&self, issues: &mut Vec<Issue>) {
        if let Some(DateRange { start: Some(start), end: Some(end) }) = &self.date_range
            && end < start
        {
            issues.push(Issue::new("dateRange.end", "must not be before dateRange.start"));
        }
    }
}

impl LogFilter {
    fn query<'a>(&self, hidden: HiddenGuards<'a>) -> LogQuery<'a> {
        let DateRange { start, end } = self.date_range.clone().unwrap_or_default();
        LogQuery {
            event_type: self.event_type,
            channel: self.channel_id,
            status: self.status,
            start: start.unwrap_or(Time::from_millis(i64::MIN)),
            end: end.unwrap_or(Time::from_millis(i64::MAX)),
            hidden,
        }
    }
}

/// A page of the log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogPage {
    /// Entries of the page, newest first.
    items: Vec<LogEntry>,
    /// Position of the page in the list.
    pagination: LogPagination,
}

impl Output for LogPage {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The position of a page in the list.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPagination {
    /// Maximum number of entries of the page.
    limit: i64,
    /// Number of entries before the page.
    offset: i64,
    /// Number of matching entries; counting stops at 10,000.
    total: usize,
    /// Whether `total` is the exact number rather than the limit of counting.
    total_exact: bool,
}

// ── Operations ───────────────────────────────────────────────────────────────

/// GET /notifications/logs, newest first, without the entries about resources that the caller may
/// not use. Scans keys up to the page's end or the largest total, and reads only the records of the
/// page.
pub fn list(view: &View, req: &Req<(), LogFilter>) -> Result<LogPage> {
    let Pagination { limit, offset } = req.input.pagination.clone().unwrap_or_default();
    let limit = limit.map_or(DEFAULT_LIMIT, Int::get);
    let offset = offset.map_or(0, Int::get);
    let wanted = offset as usize..(offset + limit) as usize;
    let enough = wanted.end.max(MAX_TOTAL + 1);

    let mut found = 0;
    let mut positions = Vec::new();
    let hidden = hidden_from(view, req.caller())?;
    let walked = walk_log(view, &req.input.query(hidden), |position| {
        if wanted.contains(&found) {
            positions.push(position);
        }
        found += 1;
        if found == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;

    let items =
        positions.iter().map(|position| read_log(view, *position)).collect::<Result<_>>()?;
    let total = found.min(MAX_TOTAL);
    Ok(LogPage {
        items,
        pagination: LogPagination {
            limit,
            offset,
            total,
            total_exact: walked.is_whole && found == total,
        },
    })
}

// ── Retention ────────────────────────────────────────────────────────────────

/// Deletes entries that are older than the operator's `--log-retention`.
pub const DELETE_EXPIRED: Sweep = Sweep {
    name: "delete expired notifications",
    every_secs: 600,
    run: delete_expired,
    installation: false,
};

fn delete_expired(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let end = tx.now().minus_secs(settings.log_retention_secs);
    match remove_old_entries(tx, end)? {
        SweepProgress::Clean => forget_deleted(tx, end),
        more => Ok(more),
    }
}

/// The log no longer has entries about what was deleted at or before `end`.
fn forget_deleted(tx: &mut Tx, end: Time) -> Result<SweepProgress> {
    let is_due = |gone: &DeletedRestricted| gone.deleted_at <= end;
    let (forgotten, progress) = due(&tx.view(), &DELETED_IN_LOG, is_due)?;
    for old in &forgotten {
        tx.replace(old, &DeletedRestricted { in_log: false, ..old.clone() })?;
    }
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use serde_json::json;

    use super::*;
    use crate::api::Principal;
    use crate::api::read::{SourceFormat, UnknownFields, parse_query, read_input};
    use crate::outbox::{self, About, Delivery, Event, SWEEP_ROWS, in_app};
    use crate::resources::testing::{Fixture, NOON};
    use crate::store::{ListSource, Order, Org};

    const TYPES: [EventType; 3] =
        [EventType::AgentStale, EventType::TeamRunFailed, EventType::TeamTimelineSummary];
    const STATUSES: [DeliveryStatus; 3] =
        [DeliveryStatus::Sent, DeliveryStatus::Failed, DeliveryStatus::Dead];

    fn filter(query: &str) -> Result<LogFilter> {
        read_input(&parse_query(query), SourceFormat::Query, UnknownFields::Ignored)
    }

    fn log(fixture: &Fixture, query: &str) -> LogPage {
        fixture.read(list, (), filter(query).unwrap()).unwrap()
    }

    fn channels(org: Id<Org>) -> [Id<Channel>; 2] {
        [in_app(org), Id::parse("01890a5d-ac96-774b-bcce-b302099a8057")]
    }

    /// Inserts an event for every type and status, with its delivery through the other channel, in
    /// `times` rounds a second apart.
    fn fill(fixture: &Fixture, times: usize) {
        fixture.store.write_blocking(fixture.org, insert_channel).unwrap();
        for _ in 0..times {
            fixture
                .store
                .write_blocking(fixture.org, |tx| {
                    for event_type in TYPES {
                        for status in STATUSES {
                            insert(tx, event_type, status)?;
                        }
                    }
                    Ok(())
                })
                .unwrap();
            fixture.pass_secs(1);
        }
    }

    fn insert_channel(tx: &mut Tx) -> Result<()> {
        let channel = Channel::new(tx, "c", "webhook", json!({}), None)?;
        tx.insert(&Channel { id: channels(tx.org())[1], ..channel })
    }

    fn insert(tx: &mut Tx, event_type: EventType, status: DeliveryStatus) -> Result<()> {
        publish(tx, event_type)?;
        let newest = tx.view().first(ListSource::<Event>::TABLE, &(), Order::Descending)?;
        tx.insert(&Delivery {
            id: tx.new_id(),
            channel: channels(tx.org())[1],
            event: newest.unwrap().id,
            event_type,
            guarded_by: Vec::new(),
            created_at: tx.now(),
            status,
            attempts: 1,
            error: None,
            sent_at: None,
            next_attempt_at: None,
            job: None,
        })
    }

    fn publish(tx: &mut Tx, event_type: EventType) -> Result<()> {
        outbox::publish(tx, event_type, About::resource("team", tx.org()), json!({"a": 1}))
    }

    #[test]
    fn every_combination_of_filters_equals_a_full_scan() {
        let fixture = Fixture::new();
        fill(&fixture, 4);
        let all = log(&fixture, "pagination[limit]=200").items;
        assert_eq!(all.len(), 4 * 18);
        assert!(all.is_sorted_by_key(|entry| Reverse((entry.created_at, entry.id))));
        let (start, end) = (NOON.plus_secs(1), NOON.plus_secs(3));
        let mut combinations = 0;
        for event_type in TYPES.map(Some).into_iter().chain([None]) {
            for channel_id in channels(fixture.org).map(Some).into_iter().chain([None]) {
                for status in STATUSES.map(Some).into_iter().chain([None]) {
                    for range in [None, Some(DateRange { start: Some(start), end: Some(end) })] {
                        let wanted = |entry: &&LogEntry| {
                            event_type.is_none_or(|wanted| wanted == entry.event_type)
                                && channel_id.is_none_or(|wanted| wanted == entry.channel_id)
                                && status.is_none_or(|wanted| wanted == entry.status)
                                && range.as_ref().is_none_or(|_| {
                                    start <= entry.created_at && entry.created_at < end
                                })
                        };
                        let expected: Vec<_> = all.iter().filter(wanted).map(|e| e.id).collect();
                        let date_range = range.clone();
                        let pagination = filter("pagination.limit=200").unwrap().pagination;
                        let filter =
                            LogFilter { event_type, channel_id, status, date_range, pagination };
                        let page = fixture.read(list, (), filter).unwrap();
                        let found: Vec<_> = page.items.iter().map(|entry| entry.id).collect();
                        assert_eq!(found, expected);
                        assert_eq!(page.pagination.total, expected.len());
                        combinations += 1;
                    }
                }
            }
        }
        assert_eq!(combinations, 4 * 3 * 4 * 2);
        fixture.assert_sound();
    }

    #[test]
    fn a_filter_reads_no_entries_that_do_not_match() {
        let fixture = Fixture::new();
        let add = |tx: &mut Tx| {
            for _ in 0..1_000 {
                insert(tx, TYPES[0], DeliveryStatus::Dead)?;
                insert(tx, TYPES[1], DeliveryStatus::Sent)?;
            }
            Ok(())
        };
        fixture.store.write_blocking(fixture.org, insert_channel).unwrap();
        fixture.store.write_blocking(fixture.org, add).unwrap();
        let rare = |tx: &mut Tx| insert(tx, TYPES[2], DeliveryStatus::Failed);
        fixture.store.write_blocking(fixture.org, rare).unwrap();
        let other = channels(fixture.org)[1];
        for (query, expected) in [
            (format!("channelId={other}&eventType={}", "team.timeline_summary"), 1),
            (format!("channelId={other}&status=failed"), 1),
            ("status=failed".into(), 1),
            ("eventType=team.timeline_summary&status=failed".into(), 1),
            (format!("channelId={other}&eventType=agent.stale&status=sent"), 0),
            ("eventType=team.run_failed&status=dead".into(), 0),
            // The event and its delivery.
            ("eventType=team.timeline_summary".into(), 2),
        ] {
            let query = filter(&query).unwrap().query(HiddenGuards::none());
            let walk = |view: &View| {
                let mut found = 0;
                let walked = walk_log(view, &query, |_| {
                    found += 1;
                    ControlFlow::Continue(())
                })?;
                Ok((found, walked))
            };
            let (found, walked) = fixture.store.read_now(fixture.org, walk).unwrap();
            assert_eq!((found, walked.scanned), (expected, expected), "{query:?}");
        }
        fixture.assert_sound();
    }

    #[test]
    fn a_range_has_three_encodings_and_an_exclusive_end() {
        let fixture = Fixture::new();
        fill(&fixture, 3);
        for query in [
            "dateRange[start]=2026-01-15T12:00:01Z&dateRange[end]=2026-01-15T12:00:02Z",
            "dateRange.start=2026-01-15T12:00:01Z&dateRange.end=2026-01-15T12:00:02Z",
            "dateRange={\"start\":\"2026-01-15T12:00:01Z\",\"end\":\"2026-01-15T13:00:02%2B01:00\"}",
        ] {
            let page = log(&fixture, query);
            assert_eq!(page.pagination.total, 18, "{query}");
            assert!(page.items.iter().all(|entry| entry.created_at == NOON.plus_secs(1)));
        }
        assert_eq!(log(&fixture, "dateRange.start=2026-01-15T12:00:01Z").pagination.total, 36);
        assert_eq!(log(&fixture, "dateRange.end=2026-01-15T12:00:01Z").pagination.total, 18);
        let none = "dateRange.start=2026-01-15T12:00:01Z&dateRange.end=2026-01-15T12:00:01Z";
        assert_eq!(log(&fixture, none).pagination.total, 0);
    }

    #[test]
    fn invalid_filters_are_refused_with_their_path() {
        for (query, path) in [
            (
                "dateRange.start=2026-01-02T00:00:00Z&dateRange.end=2026-01-01T00:00:00Z",
                "dateRange.end",
            ),
            ("dateRange[start]=yesterday", "dateRange.start"),
            ("eventType=agent.happy", "eventType"),
            ("status=open", "status"),
            ("pagination.limit=0", "pagination.limit"),
            ("pagination={\"limit\":201}", "pagination.limit"),
            ("pagination[offset]=-1", "pagination.offset"),
            ("pagination[offset]=1000001", "pagination.offset"),
        ] {
            let error = filter(query).unwrap_err();
            assert_eq!(error.issues()[0].path, path, "{query}");
        }
    }

    #[test]
    fn pages_are_contiguous_and_end() {
        let fixture = Fixture::new();
        fill(&fixture, 4);
        let all: Vec<_> =
            log(&fixture, "pagination.limit=200").items.iter().map(|e| e.id).collect();
        let mut paged = Vec::new();
        for offset in [0, 30, 60, 90] {
            let page = log(&fixture, &format!("pagination.limit=30&pagination.offset={offset}"));
            assert_eq!((page.pagination.total, page.pagination.total_exact), (72, true));
            paged.extend(page.items.iter().map(|entry| entry.id));
        }
        assert_eq!(paged, all);
        assert_eq!(log(&fixture, "").items.len(), 50);
        assert!(log(&fixture, "pagination.offset=1000000").items.is_empty());
        let unknown = "channelId=01890a5d-ac96-774b-bcce-b302099a0000";
        assert_eq!(log(&fixture, unknown).pagination.total, 0);
        assert_eq!(log(&fixture, "channelId=nonsense").pagination.total, 0);
    }

    #[test]
    fn the_count_stops_at_ten_thousand() {
        let fixture = Fixture::new();
        let add = |count: usize| {
            let write = move |tx: &mut Tx| (0..count).try_for_each(|_| publish(tx, TYPES[0]));
            fixture.store.write_blocking(fixture.org, write).unwrap();
        };
        (0..4).for_each(|_| add(2_500));
        let counts = |query| {
            let LogPage { items, pagination } = log(&fixture, query);
            (items.len(), pagination.total, pagination.total_exact)
        };
        assert_eq!(counts(""), (50, 10_000, true));
        add(3);
        assert_eq!(counts(""), (50, 10_000, false));
        assert_eq!(counts("pagination.offset=10001"), (2, 10_000, false));
        assert_eq!(counts("pagination.offset=10003"), (0, 10_000, false));
    }

    #[test]
    fn hidden_entries_are_left_out_of_pages_and_counts() {
        let fixture = Fixture::new();
        let (open, shut): (Id<()>, Id<()>) =
            (Id::new(fixture.store.clock().new_id()), Id::new(fixture.store.clock().new_id()));
        // Two of three are hidden, over many chunks of the scan.
        for n in 0..30 {
            let add = move |tx: &mut Tx| {
                (0..100).try_for_each(|m| {
                    let about = About::resource("a", tx.org());
                    let about = match m % 3 {
                        0 => about.guarded_by("registry", open),
                        1 => about.guarded_by("registry", open).guarded_by("environment", shut),
                        _ => about.guarded_by("registry", shut),
                    };
                    outbox::publish(tx, TYPES[n % 3], about, json!({}))
                })
            };
            fixture.store.write_blocking(fixture.org, add).unwrap();
        }
        fill(&fixture, 1);
        tx_hide(&fixture, shut);
        let all = |who: &Principal, query: &str| {
            let page = fixture.read_as(who, list, (), filter(query).unwrap()).unwrap();
            assert!(page.pagination.total_exact);
            (page.items.len(), page.pagination.total)
        };
        let (ada, ben) = (&fixture.owner, &fixture.member);
        let visible = 30 * 34 + 18;
        assert_eq!(all(ada, ""), (50, 3018));
        assert_eq!(all(ben, ""), (50, visible));
        assert_eq!(all(ben, "pagination.limit=200&pagination.offset=1000"), (38, visible));
        assert_eq!(all(ada, "eventType=agent.stale").1, 1000 + 6);
        assert_eq!(all(ben, "eventType=agent.stale").1, 340 + 6);
        let mut pages = Vec::new();
        for offset in (0..visible).step_by(100) {
            let query = format!("pagination.limit=100&pagination.offset={offset}");
            let page = fixture.read_as(ben, list, (), filter(&query).unwrap()).unwrap();
            pages.extend(page.items.into_iter().map(|entry| (entry.created_at, entry.id)));
        }
        assert_eq!(pages.len(), visible);
        assert!(pages.is_sorted_by(|a, b| a > b), "no entry is missing or repeated");
    }

    /// Hides a resource from members: as one that was restricted and is deleted.
    fn tx_hide(fixture: &Fixture, id: Id<()>) {
        let hide = move |tx: &mut Tx| {
            tx.insert(&DeletedRestricted { id: id.cast(), deleted_at: tx.now(), in_log: true })
        };
        fixture.store.write_blocking(fixture.org, hide).unwrap();
    }

    #[test]
    fn a_hidden_delivery_is_left_out_by_every_index() {
        let fixture = Fixture::new();
        fill(&fixture, 2);
        let [open, shut] = [(); 2].map(|()| Id::new(fixture.store.clock().new_id()));
        tx_hide(&fixture, shut);
        let guard = move |tx: &mut Tx| {
            for old in tx.all::<Delivery>(ListSource::TABLE, &())? {
                tx.replace(&old, &Delivery { guarded_by: vec![open, shut], ..old.clone() })?;
            }
            Ok(())
        };
        fixture.store.write_blocking(fixture.org, guard).unwrap();
        let channel = format!("channelId={}", channels(fixture.org)[1]);
        for query in ["status=dead", "status=failed", &channel, "eventType=agent.stale"] {
            let count = |who: &Principal| {
                let page = fixture.read_as(who, list, (), filter(query).unwrap()).unwrap();
                page.items.iter().filter(|e| e.channel_id == channels(fixture.org)[1]).count()
            };
            assert!(count(&fixture.owner) > 0, "{query}");
            assert_eq!(count(&fixture.member), 0, "{query}");
        }
    }

    #[test]
    fn expired_entries_are_deleted_in_steps() {
        let fixture = Fixture::new();
        fill(&fixture, 30);
        fixture.pass_secs(70);
        // The last round is 71 seconds old, the first 100.
        let settings = RetentionSettings { log_retention_secs: 72, ..Default::default() };
        let sweep = || {
            let settings = settings.clone();
            fixture
                .store
                .write_blocking(fixture.org, move |tx| delete_expired(tx, &settings))
                .unwrap()
        };
        assert_eq!(sweep(), SweepProgress::More);
        assert_eq!(log(&fixture, "").pagination.total, 30 * 18 - SWEEP_ROWS);
        assert_eq!(sweep(), SweepProgress::Clean);
        assert_eq!(log(&fixture, "").pagination.total, 18);
        assert_eq!(sweep(), SweepProgress::Clean);
        fixture.assert_sound();
    }

    #[test]
    fn the_log_of_another_organization_is_empty() {
        let fixture = Fixture::new();
        fill(&fixture, 1);
        let (_, eve) = fixture.other_org("other");
        for query in ["", "eventType=agent.stale", "status=dead"] {
            let page = fixture.read_as(&eve, list, (), filter(query).unwrap()).unwrap();
            assert_eq!(page.pagination.total, 0, "{query}");
        }
    }
}
