//! The log: every event with its result in each channel, newest first.
//!
//! It is read from two tables: events, each of which is also its delivery through the built-in
//! channel, and deliveries through other channels. Both are scanned by key only and merged. Entries
//! about resources that are hidden from the reader are left out, also by key.

use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::ops::ControlFlow;

use super::channels::{Channel, in_app};
use super::deliveries::{
    BY_CHANNEL, BY_STATUS, BY_TIME, Delivery, DeliveryStatus, LogEntry, Place,
};
use super::delivering::schedule;
use super::events::{EVENTS_BY_TYPE, Event, EventType, GUARDED_EVENTS, find_event};
use super::guards::HiddenGuards;
use super::sweeps::{SWEEP_ROWS, SweepProgress, due};
use crate::base::{Error, Id, Result, Time};
use crate::store::{Index, Key, ListSource, Order, Org, Tx, View};

// ── Reading ──────────────────────────────────────────────────────────────────

/// A query of the log. An absent filter matches every entry.
#[derive(Debug)]
pub struct LogQuery<'a> {
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
    /// What is hidden from the reader: no entries of events that belong to it.
    pub hidden: HiddenGuards<'a>,
}

impl LogQuery<'_> {
    /// Whether entries of the built-in channel can match: all of them are sent.
    fn has_events(&self, org: Id<Org>) -> bool {
        self.channel.is_none_or(|channel| channel == in_app(org))
            && self.status.is_none_or(|status| status == DeliveryStatus::Sent)
    }

    fn has_deliveries(&self, org: Id<Org>) -> bool {
        self.channel != Some(in_app(org))
    }

    fn shows(&self, view: &View, (_, id, guards): &Place) -> Result<bool> {
        let all = || Ok(view.fetch::<Delivery>(id)?.guarded_by);
        Ok(!guards.are_hidden(&self.hidden, all)?)
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
/// found there even if half of the entries are hidden.
const MAX_SCANNED: usize = 2_000_000;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Whether it did not end early, at the limit of scanned keys.
    pub is_whole: bool,
    /// The number of scanned keys.
    pub scanned: usize,
}

/// Calls `visit` with the position of each matching entry, newest first, until it breaks. No record
/// is read, and no key of an entry that does not match, hidden ones aside: every combination of
/// filters is a merge of ranges of an index.
pub fn walk_log(
    view: &View,
    query: &LogQuery<'_>,
    mut visit: impl FnMut(LogPosition) -> ControlFlow<()>,
) -> Result<Walked> {
    let mut streams = streams(view, query);
    let mut scanned = 0;
    // The newest entry of each stream.
    let mut heads = BinaryHeap::new();
    let mut refill: VecDeque<usize> = (0..streams.len()).collect();
    loop {
        while let Some(index) = refill.pop_front() {
            let stream = &mut streams[index];
            while stream.positions.is_empty() && stream.before.is_some() {
                if scanned >= MAX_SCANNED {
                    return Ok(Walked { is_whole: false, scanned });
                }
                scanned += stream.read()?;
            }
            heads.extend(stream.positions.pop_front().map(|position| (position, index)));
        }
        let Some((newest, index)) = heads.pop() else { break };
        if visit(newest) == ControlFlow::Break(()) {
            break;
        }
        refill.push_back(index);
    }
    Ok(Walked { is_whole: true, scanned })
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
const MAX_CHUNK: usize = 1024;

/// The first chunk of a stream has 32, half a page, and each has twice as many as the one before:
/// of a hundred streams most are short.
const FIRST_CHUNK: usize = 32;

/// The exclusive end of a scan: the time and id of an entry.
type Before = (Time, Id<LogEntry>);

/// A range of an index or table in the order of the log, read in chunks: two scans cannot be open at
/// once.
struct Stream<'a> {
    positions: VecDeque<LogPosition>,
    /// The end of the next chunk; none if there is no more.
    before: Option<Before>,
    /// The size of the next chunk.
    limit: usize,
    scan: Scan<'a>,
}

/// Reads a chunk of up to this many keys.
type Scan<'a> = Box<dyn Fn(Before, usize) -> Result<Chunk> + 'a>;

impl<'a> Stream<'a> {
    fn new(end: Time, scan: Scan<'a>) -> Self {
        Stream {
            positions: VecDeque::new(),
            before: Some((end, Id::NIL)),
            limit: FIRST_CHUNK,
            scan,
        }
    }

    /// Reads one chunk; returns the number of scanned keys.
    fn read(&mut self) -> Result<usize> {
        let Some(before) = self.before else { return Ok(0) };
        let limit = self.limit;
        self.limit = (2 * limit).min(MAX_CHUNK);
        let Chunk { positions, scanned, last } = (self.scan)(before, limit)?;
        self.positions = positions;
        self.before = last.filter(|_| scanned == limit);
        Ok(scanned)
    }
}

/// The result of one scan.
struct Chunk {
    /// The positions of visible entries.
    positions: VecDeque<LogPosition>,
    /// The number of scanned keys.
    scanned: usize,
    /// The last of them.
    last: Option<Before>,
}

impl Chunk {
    fn new() -> Self {
        Chunk { positions: VecDeque::new(), scanned: 0, last: None }
    }

    /// Counts a scanned key and keeps its position if it is visible; breaks when the chunk is full.
    fn push(&mut self, position: LogPosition, visible: bool, limit: usize) -> ControlFlow<()> {
        self.scanned += 1;
        self.last = Some((position.at, position.id));
        if visible {
            self.positions.push_back(position);
        }
        if self.scanned == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Returns the ranges whose entries match a query.
fn streams<'a>(view: &'a View, query: &'a LogQuery<'a>) -> Vec<Stream<'a>> {
    let mut streams = Vec::new();
    if query.has_events(view.org()) {
        let scan: Scan = Box::new(move |before, limit| events_before(view, query, before, limit));
        streams.push(Stream::new(query.end, scan));
    }
    if !query.has_deliveries(view.org()) {
        return streams;
    }
    if let LogQuery { event_type: None, channel: None, status: None, .. } = query {
        streams.push(of_index(view, query, &BY_TIME, ()));
        return streams;
    }
    for (status, event_type) in combinations(query.status, query.event_type) {
        streams.push(match query.channel {
            Some(channel) => of_index(view, query, &BY_CHANNEL, (channel, status, event_type)),
            None => of_index(view, query, &BY_STATUS, (status, event_type)),
        });
    }
    streams
}

/// Returns the combinations of status and type that match these filters.
pub(super) fn combinations(
    status: Option<DeliveryStatus>,
    event_type: Option<EventType>,
) -> impl Iterator<Item = (DeliveryStatus, EventType)> {
    let statuses =
        DeliveryStatus::ALL.into_iter().filter(move |one| status.is_none_or(|s| s == *one));
    statuses.flat_map(move |status| {
        let types = EventType::ALL.into_iter();
        let types = types.filter(move |one| event_type.is_none_or(|wanted| wanted == *one));
        types.map(move |event_type| (status, event_type))
    })
}

/// Returns the deliveries under `of` in `index`.
fn of_index<'a, K: Key + Copy>(
    view: &'a View,
    query: &'a LogQuery<'a>,
    index: &'static Index<Delivery, (K, Place)>,
    of: K,
) -> Stream<'a> {
    let scan = move |before: Before, limit| {
        let mut chunk = Chunk::new();
        let (from, to) = ((of, query.start), (of, before));
        view.entries(index, &from, &to, Order::Descending, |(_, place), id| {
            let position = LogPosition { at: place.0, id, is_event: false };
            Ok(chunk.push(position, query.shows(view, &place)?, limit))
        })?;
        Ok(chunk)
    };
    Stream::new(query.end, Box::new(scan))
}

fn events_before(view: &View, query: &LogQuery<'_>, before: Before, limit: usize) -> Result<Chunk> {
    let mut chunk = Chunk::new();
    let mut keep = |(at, id): (Time, Id<Event>)| {
        Ok(chunk.push(LogPosition { at, id: id.cast(), is_event: true }, true, limit))
    };
    match query.event_type {
        None => view.record_keys::<Event>(&query.start, &before, Order::Descending, keep)?,
        Some(of) => {
            let (from, to) = ((of, query.start), (of, before));
            view.entries(&EVENTS_BY_TYPE, &from, &to, Order::Descending, |_, key| keep(key))?;
        }
    }
    if let (false, Some(last)) = (query.hidden.is_none(), chunk.last) {
        let hidden = hidden_events(view, query, last, before)?;
        chunk.positions.retain(|position| !hidden.contains(&position.id));
    }
    Ok(chunk)
}

/// Returns the events from `first` until `before` that are hidden from the reader. There are at most
/// as many guarded ones as there are events in the range.
fn hidden_events(
    view: &View,
    query: &LogQuery<'_>,
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
            let all = || Ok(view.fetch::<Event>(&key)?.guards());
            if guards.are_hidden(&query.hidden, all)? {
                hidden.insert(id.cast());
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(hidden)
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
