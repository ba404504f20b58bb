//! Reads in a transaction of the database server.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::{Row, Statement};

use super::super::{KeyRange, Order, Reader, ScanFn};
use super::access;
use super::connection::{Connection, Param};
use super::failure::{Failure, too_long};
use super::shared::Shared;
use super::slot::RECONNECT_PAUSE;
use super::sql::{MAX_PART_BYTES, Statements};
use crate::base::{Error, Result};

/// Rows of the first part of a scan; most lists end within it.
const FIRST_ROWS: usize = 32;

/// Rows of a part at most.
const MAX_ROWS: usize = 1024;

/// What a transaction keeps of the rows that it read by their keys: as much as most requests read. Larger
/// rows than a part of it are read again.
const MAX_KEPT_BYTES: usize = 1024 * 1024;
const MAX_KEPT_ROW_BYTES: usize = 64 * 1024;
const ROW_OVERHEAD_BYTES: usize = 100;

/// A transaction that is read through. It begins with the first read.
pub struct TransactionReader {
    shared: Arc<Shared>,
    kind: Kind,
    /// Until when it looks for a server; until when it reads, if it may write.
    deadline: Instant,
    state: Mutex<State>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// What a transaction is for.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The statement that begins it.
    pub begin: &'static str,
    /// Whether it may write.
    pub writes: bool,
}

#[derive(Default)]
struct State {
    /// In a transaction.
    connection: Option<Connection>,
    failure: Option<Failure>,
    kept: KeptRows,
    /// Until when the attempt may ask the server that runs, and whether it would have later.
    limit: Option<Instant>,
    is_over_limit: bool,
    /// The version of what access depends on, once it was asked for.
    access_version: Option<u64>,
}

/// The rows that a transaction read by their keys, which it would find the same again: by number of table and
/// key, and `None` where there is none.
#[derive(Default)]
struct KeptRows {
    rows: HashMap<i16, HashMap<Vec<u8>, Option<Vec<u8>>>>,
    bytes: usize,
}

impl KeptRows {
    /// Whether any row that may be kept still fits.
    fn has_room(&self) -> bool {
        self.bytes + MAX_KEPT_ROW_BYTES <= MAX_KEPT_BYTES
    }

    fn get(&self, table: i16, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.rows.get(&table)?.get(key).cloned()
    }

    fn keep(&mut self, table: i16, key: &[u8], value: Option<&[u8]>) {
        let bytes = key.len() + value.map_or(0, <[u8]>::len) + ROW_OVERHEAD_BYTES;
        if bytes > MAX_KEPT_ROW_BYTES || self.bytes + bytes > MAX_KEPT_BYTES {
            return;
        }
        let value = value.map(<[u8]>::to_vec);
        if self.rows.entry(table).or_default().insert(key.to_vec(), value).is_none() {
            self.bytes += bytes;
        }
    }
}

impl TransactionReader {
    /// Creates a reader whose transaction has not begun.
    pub fn new(
        shared: Arc<Shared>,
        kind: Kind,
        deadline: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        TransactionReader { shared, kind, deadline, state: Mutex::default(), _permit: permit }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding it")
    }

    /// Says until when the next attempt may ask the server. If it would later, the read fails, and the
    /// transaction does not.
    pub fn limit(&self, until: Option<Instant>) {
        let mut state = self.state();
        (state.limit, state.is_over_limit) = (until, false);
    }

    /// Whether an attempt would have asked the server after its limit.
    pub fn is_over_limit(&self) -> bool {
        self.state().is_over_limit
    }

    /// Whether a read failed, and so the transaction.
    pub fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Ends the reads: returns the connection, in its transaction, if one has begun; or why a read failed.
    pub fn finish(self) -> Result<Option<Connection>, Failure> {
        let mut state = self.state();
        let connection = state.connection.take();
        match state.failure.take() {
            None => Ok(connection),
            Some(failure) => {
                // Unless the connection is of no use.
                if let Some(connection) = connection
                    && !matches!(failure, Failure::Unavailable(_))
                {
                    connection.roll_back();
                    self.shared.pool.put(connection);
                }
                Err(failure)
            }
        }
    }

    fn rows(
        &self,
        statement: impl Fn(&Statements) -> &Statement,
        params: &[Param],
    ) -> Result<Vec<Row>> {
        let mut state = self.state();
        if let Some(failure) = &state.failure {
            return Err(failure.error());
        }
        if state.limit.is_some_and(|limit| Instant::now() > limit) {
            state.is_over_limit = true;
            return Err(too_long());
        }
        let rows = match &state.connection {
            // It holds its turn meanwhile, and could not be committed in time.
            Some(_) if self.kind.writes && Instant::now() > self.deadline => Err(Failure::TooLong),
            Some(connection) => {
                self.shared.meters.round_trips.add_one();
                connection.query(statement(&connection.statements), params)
            }
            None => self.first_rows(statement, params).map(|(connection, rows)| {
                state.connection = Some(connection);
                rows
            }),
        };
        rows.map_err(|failure| {
            let error = failure.error();
            state.failure = Some(failure);
            error
        })
    }

    /// Returns the row under a key as far as it was read, and what was found.
    fn kept(&self, table: i16, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        let state = self.state();
        match &state.failure {
            Some(failure) => Err(failure.error()),
            None => Ok(state.kept.get(table, key)),
        }
    }

    /// Begins the transaction with its first statement. Nothing has been read before, so another
    /// connection may be used when one turns out to be broken.
    fn first_rows(
        &self,
        statement: impl Fn(&Statements) -> &Statement,
        params: &[Param],
    ) -> Result<(Connection, Vec<Row>), Failure> {
        let pool = &self.shared.pool;
        self.shared.meters.round_trips.add_one();
        loop {
            let tried = pool.take(self.kind.writes, self.deadline).and_then(|mut connection| {
                if self.kind.writes {
                    self.shared.require_slot(&mut connection)?;
                }
                let statement = statement(&connection.statements).clone();
                let rows = connection.begin_and_query(self.kind.begin, &statement, params);
                rows.map(|rows| (connection, rows))
            });
            match tried {
                Err(Failure::Unavailable(_)) if Instant::now() < self.deadline => pool.clear(),
                Err(Failure::Replaced | Failure::Crowded(_)) if Instant::now() < self.deadline => {}
                ended => return ended,
            }
            thread::sleep(RECONNECT_PAUSE);
        }
    }

    fn part(
        &self,
        table: i16,
        (from, to): (&[u8], Option<&[u8]>),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Row>> {
        let limit = i64::try_from(limit).map_err(Error::internal)?;
        match (order, to) {
            (Order::Ascending, Some(to)) => {
                self.rows(|one| &one.ascending, &[&table, &from, &to, &limit])
            }
            (Order::Ascending, None) => {
                self.rows(|one| &one.ascending_to_end, &[&table, &from, &limit])
            }
            (Order::Descending, Some(to)) => {
                self.rows(|one| &one.descending, &[&table, &from, &to, &limit])
            }
            (Order::Descending, None) => {
                self.rows(|one| &one.descending_to_end, &[&table, &from, &limit])
            }
        }
    }
}

impl Drop for TransactionReader {
    /// Ends the transaction; its connection can be used again.
    fn drop(&mut self) {
        let mut state = self.state();
        let is_broken = matches!(state.failure, Some(Failure::Unavailable(_)));
        if let Some(connection) = state.connection.take()
            && !is_broken
        {
            connection.roll_back();
            self.shared.pool.put(connection);
        }
    }
}

fn column(row: &Row, at: usize) -> Result<&[u8]> {
    row.try_get(at).map_err(Error::internal)
}

impl Reader for TransactionReader {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let table = self.shared.tables.number(table)?;
        if let Some(kept) = self.kept(table, key)? {
            return kept.map_or(Ok(false), |value| see(&value).map(|()| true));
        }
        let rows = self.rows(|one| &one.get, &[&table, &key])?;
        let value = rows.first().map(|row| column(row, 0)).transpose()?;
        self.state().kept.keep(table, key, value);
        value.map_or(Ok(false), |value| see(value).map(|()| true))
    }

    /// Reads both in one round trip, and keeps them.
    fn will_find(
        &self,
        (index, entry): (&'static str, &[u8]),
        (table, owner): (&'static str, &[u8]),
    ) -> Result<()> {
        let numbers = &self.shared.tables;
        let (index, table) = (numbers.number(index)?, numbers.number(table)?);
        // What cannot be kept would be read twice.
        if self.kept(index, entry)?.is_some() || !self.state().kept.has_room() {
            return Ok(());
        }
        let most = i32::try_from(MAX_KEPT_ROW_BYTES / 2).map_err(Error::internal)?;
        let rows = self.rows(|one| &one.find, &[&index, &entry, &table, &owner, &most])?;
        let kept = &mut self.state().kept;
        let Some(row) = rows.first() else {
            kept.keep(index, entry, None);
            return Ok(());
        };
        let found = column(row, 0)?;
        kept.keep(index, entry, Some(found));
        let record: Option<&[u8]> = row.try_get(1).map_err(Error::internal)?;
        let is_absent: bool = row.try_get(2).map_err(Error::internal)?;
        if is_absent || record.is_some() {
            kept.keep(table, &[owner, found].concat(), record);
        }
        Ok(())
    }

    /// Reads those that are not kept in one round trip, and keeps them.
    fn will_get(&self, table: &'static str, keys: &[Vec<u8>]) -> Result<()> {
        let table = self.shared.tables.number(table)?;
        let mut unknown: Vec<&[u8]> = Vec::new();
        for key in keys {
            if self.kept(table, key)?.is_none() {
                unknown.push(key);
            }
        }
        for part in unknown.chunks(MAX_ROWS) {
            // All that comes at once can be kept: what cannot be would be read twice.
            let longest = part.iter().map(|key| key.len()).max().unwrap_or(0);
            let room = (MAX_KEPT_BYTES - self.state().kept.bytes) / part.len();
            let Some(most) = room.checked_sub(longest + ROW_OVERHEAD_BYTES) else { break };
            let most = i32::try_from(most.min(MAX_KEPT_ROW_BYTES / 2)).map_err(Error::internal)?;
            let rows = self.rows(|one| &one.get_all, &[&table, &part, &most])?;
            let kept = &mut self.state().kept;
            for row in &rows {
                let value: Option<&[u8]> = row.try_get(1).map_err(Error::internal)?;
                let is_absent: bool = row.try_get(2).map_err(Error::internal)?;
                if is_absent || value.is_some() {
                    kept.keep(table, column(row, 0)?, value);
                }
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        let table = self.shared.tables.number(table)?;
        let (mut from, mut to) = (range.from.to_vec(), range.to.map(<[u8]>::to_vec));
        let mut limit = FIRST_ROWS;
        while to.as_ref().is_none_or(|to| from < *to) {
            let rows = self.part(table, (&from, to.as_deref()), order, limit)?;
            let mut bytes = 0;
            for row in &rows {
                let (key, value) = (column(row, 0)?, column(row, 1)?);
                bytes += value.len();
                if each(key, value)? == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            let is_cut = rows.len() == limit || bytes >= MAX_PART_BYTES;
            let Some(last) = rows.last().filter(|_| is_cut) else { return Ok(()) };
            let last = column(last, 0)?;
            match order {
                Order::Ascending => from = [last, &[0]].concat(),
                Order::Descending => to = Some(last.to_vec()),
            }
            // Nor should the server count what it does not send.
            let each_bytes = bytes / rows.len() + 1;
            limit = (limit * 8).min(MAX_PART_BYTES / each_bytes).clamp(1, MAX_ROWS);
        }
        Ok(())
    }

    /// See [`access`]. None if it cannot be read: what is read next fails as well.
    fn access_version(&self) -> Option<u64> {
        if let Some(known) = self.state().access_version {
            return Some(known);
        }
        let rows = self.rows(|one| &one.get, &[&access::TABLE, &access::KEY]).ok()?;
        let value = rows.first().map(|row| column(row, 0)).transpose().ok()?;
        let number = self.shared.access_versions.number(value.map(<[u8]>::to_vec));
        self.state().access_version = Some(number);
        Some(number)
    }
}

/// A snapshot that could not be had.
pub struct Unavailable(pub Error);

impl Reader for Unavailable {
    fn get(
        &self,
        _: &'static str,
        _: &[u8],
        _: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        Err(self.0.clone())
    }

    fn scan(&self, _: &'static str, _: KeyRange<'_>, _: Order, _: &mut ScanFn<'_>) -> Result<()> {
        Err(self.0.clone())
    }

    fn access_version(&self) -> Option<u64> {
        None
    }
}
