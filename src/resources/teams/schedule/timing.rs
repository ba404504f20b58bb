//! When a schedule is due: five fields of cron in a time zone, or every so many seconds.
//!
//! A cron expression is matched on the clock on the wall. What falls into an hour that is left out is due
//! at the first moment after it; what falls into one that comes twice is due in the first; and moments
//! that coincide are one. The zones are those of the program, not of the machine: each server of a store has the
//! same, and so has a machine without any.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::cron::Cron;
use crate::base::Time;

/// The last year in which anything is due.
const LAST_YEAR: i16 = 9990;

/// The longest way between two days that are due: from a 29 February of one day of the week to the next,
/// over a year such as 2100.
const YEARS: i16 = 41;

/// An hour that comes twice has at most this many minutes, also where a day does.
const MAX_REPEATED: usize = 2 * 24 * 60;

/// When something is due.
#[derive(Clone, Debug)]
pub enum Timing {
    Cron(Cron, TimeZone),
    /// So many milliseconds after the first time, and after each.
    Every(Time, i64),
}

impl Timing {
    /// Returns the first time after `after` at which it is due; `None` if that is thousands of years
    /// later.
    pub fn next(&self, after: Time) -> Option<Time> {
        match self {
            Timing::Cron(cron, zone) => next_in(cron, zone, after),
            Timing::Every(first, millis) => {
                let since = after.millis() - first.millis();
                let passed = if since < 0 { 0 } else { since / millis + 1 };
                Some(first.plus_millis(passed * millis))
            }
        }
    }

    /// Returns the last time up to `now` at which it was due; at least `first`, which is one and is not
    /// later.
    pub fn last(&self, first: Time, now: Time) -> Time {
        let (mut last, mut end) = (first, now.millis());
        // The answer is at or after `last`, and nothing is due between `end` and now.
        while last.millis() < end {
            let middle = last.millis() + (end - last.millis()) / 2;
            match self.next(Time::from_millis(middle)).filter(|next| *next <= now) {
                Some(next) => last = next,
                None => end = middle,
            }
        }
        last
    }
}

fn next_in(cron: &Cron, zone: &TimeZone, after: Time) -> Option<Time> {
    let at = Timestamp::from_millisecond(after.millis()).ok()?;
    let mut wall = zone.to_datetime(at);
    for _ in 0..MAX_REPEATED {
        wall = next_on_wall(cron, wall)?;
        let due = moment(zone, wall)?;
        if due > after {
            return Some(due);
        }
    }
    None
}

/// Returns the moment at which the clock on the wall shows a time first, or would.
fn moment(zone: &TimeZone, wall: DateTime) -> Option<Time> {
    let ambiguous = zone.to_ambiguous_timestamp(wall);
    let at = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok()?,
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok()?,
        AmbiguousOffset::Gap { after, .. } => {
            // By the clock that is ahead it is before the change.
            let before = after.to_timestamp(wall).ok()?;
            zone.following(before).next()?.timestamp()
        }
    };
    Some(Time::from_millis(at.as_millisecond()))
}

/// Returns the first minute after a time on the wall that an expression matches.
fn next_on_wall(cron: &Cron, after: DateTime) -> Option<DateTime> {
    let (mut date, mut hour, mut minute) = (after.date(), after.hour(), after.minute() + 1);
    let last_year = (date.year() + YEARS).min(LAST_YEAR);
    while date.year() <= last_year {
        if !cron.has_month(date.month()) {
            date = next_month(date)?;
            (hour, minute) = (0, 0);
            continue;
        }
        if cron.has_day(date.day(), date.weekday().to_sunday_zero_offset())
            && let Some((hour, minute)) = cron.next_in_day(hour, minute)
        {
            return Some(date.at(hour, minute, 0, 0));
        }
        date = date.tomorrow().ok()?;
        (hour, minute) = (0, 0);
    }
    None
}

fn next_month(date: Date) -> Option<Date> {
    date.last_of_month().tomorrow().ok()
}

#[cfg(test)]
mod tests;
