//! The log: every event with its result in each channel, newest first.
//!
//! It is read from two tables: events, each of which is also its delivery through the built-in
//! channel, and deliveries through other channels. Both are scanned by key only and merged.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::channels::{Channel, in_app};
use super::deliveries::{
    BY_CHANNEL, BY_TIME, BY_TYPE, Delivery, DeliveryStatus, EntryFacts, LogEntry, UNDELIVERED,
};
use super::delivering::schedule;
use super::events::{EVENTS_BY_TYPE, Event, EventType, find_event};
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

    fn matches(&self, (_, _, (event_type, channel, status)): &EntryFacts) -> bool {
        self.event_type.is_none_or(|wanted| wanted == *event_type)
            && self.channel.is_none_or(|wanted| wanted == *channel)
            && self.status.is_none_or(|wanted| wanted == *status)
    }
}

/// The position of an entry in the log. Later entries are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    at: Time,
    id: Id<LogEntry>,
    is_event: bool,
}

/// Calls `visit` with the position of each matching entry, newest first, until it breaks. No record
/// is read.
///
/// # Errors
/// If the store fails.
pub fn walk_log(
    view: &View,
    query: &LogQuery,
    mut visit: impl FnMut(LogPosition) -> ControlFlow<()>,
) -> Result<()> {
    let org = view.org();
    let events = |end| events_before(view, query, end);
    let deliveries = |end| deliveries_before(view, query, end);
    let mut events = Chunks::new(query.has_events(org), query.end, &events);
    let mut deliveries = Chunks::new(query.has_deliveries(org), query.end, &deliveries);
    loop {
        let newer = match (events.peek()?, deliveries.peek()?) {
            (None, None) => return Ok(()),
            (Some(event), delivery) if delivery.is_none_or(|delivery| delivery < event) => {
                events.take()
            }
            _ => deliveries.take(),
        };
        if newer.is_some_and(|newer| visit(newer) == ControlFlow::Break(())) {
            return Ok(());
        }
    }
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

/// One of the merged scans, read in chunks: two scans cannot be open at once.
struct Chunks<'a> {
    chunk: VecDeque<LogPosition>,
    /// The end of the next chunk; none if there is no more.
    before: Option<Before>,
    read: &'a dyn Fn(Before) -> Result<VecDeque<LogPosition>>,
}

impl<'a> Chunks<'a> {
    fn new(
        wanted: bool,
        end: Time,
        read: &'a dyn Fn(Before) -> Result<VecDeque<LogPosition>>,
    ) -> Self {
        Chunks { chunk: VecDeque::new(), before: wanted.then_some((end, Id::NIL)), read }
    }

    fn peek(&mut self) -> Result<Option<LogPosition>> {
        if let (true, Some(before)) = (self.chunk.is_empty(), self.before) {
            self.chunk = (self.read)(before)?;
            let last = self.chunk.back().filter(|_| self.chunk.len() == CHUNK);
            self.before = last.map(|last| (last.at, last.id));
        }
        Ok(self.chunk.front().copied())
    }

    fn take(&mut self) -> Option<LogPosition> {
        self.chunk.pop_front()
    }
}

/// Appends a position; breaks when the chunk is full.
fn push(
    chunk: &mut VecDeque<LogPosition>,
    at: Time,
    id: Id<LogEntry>,
    is_event: bool,
) -> ControlFlow<()> {
    chunk.push_back(LogPosition { at, id, is_event });
    if chunk.len() == CHUNK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn events_before(view: &View, query: &LogQuery, before: Before) -> Result<VecDeque<LogPosition>> {
    let mut chunk = VecDeque::new();
    let mut keep = |(at, id): (Time, Id<Event>)| Ok(push(&mut chunk, at, id.cast(), true));
    match query.event_type {
        None => view.record_keys::<Event>(&query.start, &before, Order::Descending, keep)?,
        Some(of) => {
            let (from, to) = ((of, query.start), (of, before));
            view.entries(&EVENTS_BY_TYPE, &from, &to, Order::Descending, |_, key| keep(key))?;
        }
    }
    Ok(chunk)
}

/// Scans the most selective index. Most deliveries are sent, so that status is not selective.
fn deliveries_before(
    view: &View,
    query: &LogQuery,
    before: Before,
) -> Result<VecDeque<LogPosition>> {
    match (query.status, query.channel, query.event_type) {
        (Some(status @ (DeliveryStatus::Failed | DeliveryStatus::Dead)), _, _) => {
            indexed_before(view, query, &UNDELIVERED, status, before)
        }
        (_, Some(channel), _) => indexed_before(view, query, &BY_CHANNEL, channel, before),
        (_, _, Some(of)) => indexed_before(view, query, &BY_TYPE, of, before),
        _ => indexed_before(view, query, &BY_TIME, (), before),
    }
}

/// Returns the positions of the matching deliveries under `of` in `index`.
fn indexed_before<K: Key + Copy>(
    view: &View,
    query: &LogQuery,
    index: &'static Index<Delivery, (K, EntryFacts)>,
    of: K,
    before: Before,
) -> Result<VecDeque<LogPosition>> {
    let mut chunk = VecDeque::new();
    let (from, to) = ((of, query.start), (of, before));
    view.entries(index, &from, &to, Order::Descending, |(_, facts), id| {
        let matches = query.matches(&facts);
        Ok(if matches { push(&mut chunk, facts.0, id, false) } else { ControlFlow::Continue(()) })
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
    if let Some(delivery) = tx.get::<Delivery>(&id)? {
        let scheduled = schedule(tx, &delivery)?;
        let event = find_event(&tx.view(), delivery.event)?.ok_or_else(Error::not_found)?;
        return Ok(LogEntry::of_delivery(scheduled, event));
    }
    let event = find_event(&tx.view(), id.cast())?.ok_or_else(Error::not_found)?;
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
    let deliveries = due(&tx.view(), &BY_TIME, |delivery| delivery.created_at <= end)?;
    deliveries.iter().try_for_each(|delivery| tx.remove(delivery))?;
    let left = SWEEP_ROWS - deliveries.len();
    if left == 0 {
        return Ok(SweepProgress::More);
    }
    let events = due(&tx.view(), ListSource::TABLE, |event: &Event| event.created_at <= end)?;
    let events = &events[..events.len().min(left)];
    events.iter().try_for_each(|event| tx.remove(event))?;
    Ok(SweepProgress::after(deliveries.len() + events.len()))
}
