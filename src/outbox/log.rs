//! The log: every event with its result in each channel, newest first.
//!
//! It is read from two tables: events, each of which is also its delivery through the built-in
//! channel, and deliveries through other channels. Both are scanned by key only and merged. Entries
//! about resources that are hidden from the reader are left out, also by key.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ops::ControlFlow;

use super::channels::{Channel, in_app};
use super::deliveries::{
    BY_CHANNEL, BY_TIME, BY_TYPE, Delivery, DeliveryStatus, EntryFacts, LogEntry, UNDELIVERED,
};
use super::delivering::schedule;
use super::events::{EVENTS_BY_TYPE, Event, EventType, GUARDED_EVENTS, find_event};
use super::sweeps::{SWEEP_ROWS, SweepProgress, due};
use crate::base::{Error, Id, Result, Time};
use crate::store::{Index, Key, ListSource, Order, Org, Tx, View};

// ── Reading ──────────────────────────────────────────────────────────────────

/// A query of the log. An absent filter matches every entry.
#[derive(Clone, Debug)]
pub struct LogQuery {
    /// Only entries of this type.
    pub event_type: Option<EventType>,
    /// Only entries of this channel.
    pub channel: Option<Id<Channel>>,
    /// Only entries with this status.
    pub status: Option<DeliveryStatus>,
    /// Only entries at or after this time.
    pub start: Time,
    /// Only entries before this time.
    pub end: Time,
    /// The resources that are hidden from the reader: no entries of events that belong to them.
    pub hidden: BTreeSet<Id<()>>,
}

impl LogQuery {
    /// Whether entries of the built-in channel can match: all of them are sent.
    fn has_events(&self, org: Id<Org>) -> bool {
        self.channel.is_none_or(|channel| channel == in_app(org))
            && self.status.is_none_or(|status| status == DeliveryStatus::Sent)
    }

    fn has_deliveries(&self, org: Id<Org>) -> bool {
        self.channel != Some(in_app(org))
    }

    fn matches(&self, view: &View, (_, id, filtered): &EntryFacts) -> Result<bool> {
        let (event_type, channel, status, guards) = filtered;
        let is_wanted = self.event_type.is_none_or(|wanted| wanted == *event_type)
            && self.channel.is_none_or(|wanted| wanted == *channel)
            && self.status.is_none_or(|wanted| wanted == *status);
        let all = || Ok(view.fetch::<Delivery>(id)?.guarded_by);
        Ok(is_wanted && !guards.are_hidden(&self.hidden, all)?)
    }
}

/// The position of an entry in the log. Later entries are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    at: Time,
    id: Id<LogEntry>,
    is_event: bool,
}

/// A walk scans at most 2,000,000 keys, about a second: twice the largest offset, so that a page is
/// found there even if half of the entries are left out.
const MAX_SCANNED: usize = 2_000_000;

/// Calls `visit` with the position of each matching entry, newest first, until it breaks. No record
/// is read. Returns whether it did not end early, at the limit of scanned keys.
///
/// # Errors
/// If the store fails.
pub fn walk_log(
    view: &View,
    query: &LogQuery,
    mut visit: impl FnMut(LogPosition) -> ControlFlow<()>,
) -> Result<bool> {
    let org = view.org();
    let events = |end| events_before(view, query, end);
    let deliveries = |end| deliveries_before(view, query, end);
    let mut events = Chunks::new(query.has_events(org), query.end, &events);
    let mut deliveries = Chunks::new(query.has_deliveries(org), query.end, &deliveries);
    while events.scanned + deliveries.scanned < MAX_SCANNED {
        let newer = match (events.peek()?, deliveries.peek()?) {
            (Peeked::End, Peeked::End) => return Ok(true),
            // Which of them is newer is known once both have read on.
            (Peeked::Unknown, _) | (_, Peeked::Unknown) => continue,
            (Peeked::Entry(event), Peeked::Entry(delivery)) if delivery < event => events.take(),
            (Peeked::Entry(_), Peeked::End) => events.take(),
            _ => deliveries.take(),
        };
        if newer.is_some_and(|newer| visit(newer) == ControlFlow::Break(())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the entry at a position that [`walk_log`] reported.
///
/// # Errors
/// 500 if there is none; if the store fails.
pub fn read_log(view: &View, position: LogPosition) -> Result<LogEntry> {
    let LogPosition { at, id, is_event } = position;
    let missing = || Error::internal(format!("the log entry {id} is incomplete"));
    if is_event {
        let event = view.get::<Event>(&(at, id.cast()))?.ok_or_else(missing)?;
        return Ok(LogEntry::of_event(view.org(), event));
    }
    let delivery = view.get::<Delivery>(&id)?.ok_or_else(missing)?;
    let event = find_event(view, delivery.event)?.ok_or_else(missing)?;
    Ok(LogEntry::of_delivery(delivery, event))
}

/// A chunk, read with one scan, has at most 1,024 positions: 32 KiB.
const CHUNK: usize = 1024;

/// The exclusive end of a scan: the time and id of an entry.
type Before = (Time, Id<LogEntry>);

/// The result of one scan.
#[derive(Default)]
struct Chunk {
    /// The positions of matching entries.
    positions: VecDeque<LogPosition>,
    /// The number of scanned keys.
    scanned: usize,
    /// The last of them.
    last: Option<Before>,
}

impl Chunk {
    /// Counts a scanned key and keeps its position if it matches; breaks when the chunk is full.
    fn push(&mut self, position: LogPosition, matches: bool) -> ControlFlow<()> {
        self.scanned += 1;
        self.last = Some((position.at, position.id));
        if matches {
            self.positions.push_back(position);
        }
        if self.scanned == CHUNK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// One of the merged scans, read in chunks: two scans cannot be open at once.
struct Chunks<'a> {
    positions: VecDeque<LogPosition>,
    /// The end of the next chunk; none if there is no more.
    before: Option<Before>,
    scanned: usize,
    read: &'a dyn Fn(Before) -> Result<Chunk>,
}

/// The next entry of a scan.
enum Peeked {
    Entry(LogPosition),
    /// None in the keys scanned so far.
    Unknown,
    /// There is no more.
    End,
}

impl<'a> Chunks<'a> {
    fn new(wanted: bool, end: Time, read: &'a dyn Fn(Before) -> Result<Chunk>) -> Self {
        let before = wanted.then_some((end, Id::NIL));
        Chunks { positions: VecDeque::new(), before, scanned: 0, read }
    }

    /// Reads at most one chunk.
    fn peek(&mut self) -> Result<Peeked> {
        if let (true, Some(before)) = (self.positions.is_empty(), self.before) {
            let Chunk { positions, scanned, last } = (self.read)(before)?;
            self.positions = positions;
            self.scanned += scanned;
            self.before = last.filter(|_| scanned == CHUNK);
        }
        Ok(match (self.positions.front(), self.before) {
            (Some(position), _) => Peeked::Entry(*position),
            (None, Some(_)) => Peeked::Unknown,
            (None, None) => Peeked::End,
        })
    }

    fn take(&mut self) -> Option<LogPosition> {
        self.positions.pop_front()
    }
}

fn events_before(view: &View, query: &LogQuery, before: Before) -> Result<Chunk> {
    let mut chunk = Chunk::default();
    let mut keep = |(at, id): (Time, Id<Event>)| {
        Ok(chunk.push(LogPosition { at, id: id.cast(), is_event: true }, true))
    };
    match query.event_type {
        None => view.record_keys::<Event>(&query.start, &before, Order::Descending, keep)?,
        Some(of) => {
            let (from, to) = ((of, query.start), (of, before));
            view.entries(&EVENTS_BY_TYPE, &from, &to, Order::Descending, |_, key| keep(key))?;
        }
    }
    if let (false, Some(last)) = (query.hidden.is_empty(), chunk.last) {
        let hidden = hidden_events(view, query, last, before)?;
        chunk.positions.retain(|position| !hidden.contains(&position.id));
    }
    Ok(chunk)
}

/// Returns the events from `first` until `before` that are hidden from the reader. There are at most
/// as many guarded ones as there are events in the range.
fn hidden_events(
    view: &View,
    query: &LogQuery,
    first: Before,
    before: Before,
) -> Result<HashSet<Id<LogEntry>>> {
    let mut hidden = HashSet::new();
    for of in EventType::ALL {
        if query.event_type.is_some_and(|wanted| wanted != of) {
            continue;
        }
        let (from, to) = ((of, first), (of, before));
        view.entries(&GUARDED_EVENTS, &from, &to, Order::Ascending, |(_, _, id, guards), key| {
            let all = || Ok(view.fetch::<Event>(&key)?.about.guards());
            if guards.are_hidden(&query.hidden, all)? {
                hidden.insert(id.cast());
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(hidden)
}

/// Scans the most selective index. Most deliveries are sent, so that status is not selective.
fn deliveries_before(view: &View, query: &LogQuery, before: Before) -> Result<Chunk> {
    match (query.status, query.channel, query.event_type) {
        (Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Dead)), _, _) => {
            indexed_before(view, query, &UNDELIVERED, status, before)
        }
        (_, Some(channel), _) => indexed_before(view, query, &BY_CHANNEL, channel, before),
        (_, _, Some(of)) => indexed_before(view, query, &BY_TYPE, of, before),
        _ => indexed_before(view, query, &BY_TIME, (), before),
    }
}

/// Scans the deliveries under `of` in `index`.
fn indexed_before<K: Key + Copy>(
    view: &View,
    query: &LogQuery,
    index: &'static Index<Delivery, (K, EntryFacts)>,
    of: K,
    before: Before,
) -> Result<Chunk> {
    let mut chunk = Chunk::default();
    let (from, to) = ((of, query.start), (of, before));
    view.entries(index, &from, &to, Order::Descending, |(_, facts), id| {
        let position = LogPosition { at: facts.0, id, is_event: false };
        Ok(chunk.push(position, query.matches(view, &facts)?))
    })?;
    Ok(chunk)
}

// ── Writing ──────────────────────────────────────────────────────────────────

/// Delivers an entry again, whatever its status; returns the updated entry. The built-in channel
/// delivers at once, other channels through the runner.
///
/// # Errors
/// 404 if there is no such entry.
pub fn redeliver(tx: &mut Tx, id: Id<LogEntry>) -> Result<LogEntry> {
    let no_such = || Error::no_such("log entry").missing(id.to_bytes());
    if let Some(delivery) = tx.get::<Delivery>(&id)? {
        let scheduled = schedule(tx, &delivery)?;
        let event = find_event(&tx.view(), delivery.event)?.ok_or_else(no_such)?;
        return Ok(LogEntry::of_delivery(scheduled, event));
    }
    let event = find_event(&tx.view(), id.cast())?.ok_or_else(no_such)?;
    let again = Event { attempts: event.attempts + 1, sent_at: tx.now(), ..event.clone() };
    tx.replace(&event, &again)?;
    Ok(LogEntry::of_event(tx.org(), again))
}

/// Removes entries of events that happened at or before `end`: one step of a sweep.
///
/// # Errors
/// If the store fails.
pub fn remove_old_entries(tx: &mut Tx, end: Time) -> Result<SweepProgress> {
    // Deliveries first, so that each counts: removing an event takes all of its own along.
    let (deliveries, progress) = due(&tx.view(), &BY_TIME, |delivery| delivery.created_at <= end)?;
    deliveries.iter().try_for_each(|delivery| tx.remove(delivery))?;
    if progress == SweepProgress::More {
        return Ok(progress);
    }
    let (events, progress) =
        due(&tx.view(), ListSource::TABLE, |event: &Event| event.created_at <= end)?;
    let room = SWEEP_ROWS - deliveries.len();
    events.iter().take(room).try_for_each(|event| tx.remove(event))?;
    Ok(if events.len() < room { progress } else { SweepProgress::More })
}
