//! Time zones, and the days and months of a team in its own (reference: teams-and-wakes, "Budgets").
//!
//! The zones are those of the program, not of the machine: each server of a store has the same, and so has a
//! machine without any.

use std::sync::LazyLock;

use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};
use serde_json::json;

use crate::base::{TextRule, Time, Validated};

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Returns the time zone with this name of the IANA database, in any case of letters. `Etc/Unknown` is
/// the name of none.
pub fn zone(name: &str) -> Option<TimeZone> {
    ZONES.get(name).ok().filter(|zone| !zone.is_unknown())
}

/// Returns the name of a zone as the database has it.
pub fn zone_name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// The rule of [`ZoneName`].
pub struct ZoneRule;
impl TextRule for ZoneRule {
    fn check(text: String) -> Result<String, String> {
        match zone(&text) {
            Some(zone) => Ok(zone_name(&zone).into()),
            None => Err("must be the name of a time zone, such as Europe/Berlin".into()),
        }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 1, "maxLength": 64})
    }
}

/// The name of a time zone of the IANA database, as the database has it.
pub type ZoneName = Validated<ZoneRule>;

/// Returns the name of the zone of whoever names none.
pub fn utc() -> ZoneName {
    ZoneName::from_trusted("UTC".into())
}

/// The days and months that clocks on the wall of a zone show.
///
/// Each is named by its midnight in UTC, whatever the zone: a team that moves to another zone stays in
/// the same month.
pub struct Calendar(TimeZone);

impl Calendar {
    /// Of this zone; of UTC without one, and of one that this program does not know, as another version did.
    pub fn of(name: Option<&ZoneName>) -> Self {
        Calendar(name.and_then(|name| zone(name)).unwrap_or(TimeZone::UTC))
    }

    /// Returns the day of a moment.
    pub fn day(&self, at: Time) -> Time {
        named(self.date(at))
    }

    /// Returns the month of a moment, named by its first day.
    pub fn month(&self, at: Time) -> Time {
        named(self.date(at).first_of_month())
    }

    /// Returns the moment at which the month of `at` begins.
    pub fn month_begin(&self, at: Time) -> Time {
        let begin = self.0.to_timestamp(midnight(self.date(at).first_of_month()));
        begin.map_or(at, |begin| Time::from_millis(begin.as_millisecond()))
    }

    /// Returns the moment at which the month after that of `at` begins.
    pub fn next_month(&self, at: Time) -> Time {
        let next = self.date(at).first_of_month().checked_add(1.month());
        let begin = next.and_then(|date| self.0.to_timestamp(midnight(date)));
        begin
            .map_or(at.plus_secs(31 * 24 * 3600), |begin| Time::from_millis(begin.as_millisecond()))
    }

    fn date(&self, at: Time) -> Date {
        let moment = Timestamp::from_millisecond(at.millis()).unwrap_or(Timestamp::UNIX_EPOCH);
        self.0.to_datetime(moment).date()
    }
}

fn named(date: Date) -> Time {
    let begin = TimeZone::UTC.to_timestamp(midnight(date)).unwrap_or(Timestamp::UNIX_EPOCH);
    Time::from_millis(begin.as_millisecond())
}

fn midnight(date: Date) -> DateTime {
    date.at(0, 0, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        Time::parse(text).unwrap()
    }

    fn calendar(zone: &str) -> Calendar {
        Calendar::of(Some(&ZoneName::from_trusted(zone.into())))
    }

    #[test]
    fn a_month_begins_when_the_clock_of_the_zone_shows_it() {
        let last = at("2026-10-31T23:30:00Z");
        for (zone, month, next) in [
            ("UTC", 10, "2026-11-01T00:00:00Z"),
            ("Europe/Berlin", 11, "2026-11-30T23:00:00Z"),
            ("America/New_York", 10, "2026-11-01T04:00:00Z"),
            ("Not/Known", 10, "2026-11-01T00:00:00Z"),
        ] {
            let (calendar, next) = (calendar(zone), at(next));
            let first = |month: u32| at(&format!("2026-{month}-01T00:00:00Z"));
            assert_eq!(
                (calendar.month(last), calendar.next_month(last)),
                (first(month), next),
                "{zone}"
            );
            assert_eq!(calendar.month(next), first(month + 1), "{zone}");
        }
        assert_eq!(calendar("Asia/Kathmandu").day(last), at("2026-11-01T00:00:00Z"));
    }

    #[test]
    fn without_a_zone_months_are_those_of_utc() {
        for text in ["2026-11-07T15:30:02.5Z", "1970-01-01T00:00:00Z", "9999-12-30T21:59:59Z"] {
            assert_eq!(Calendar::of(None).month(at(text)), at(text).month_start(), "{text}");
        }
        assert!(
            Calendar::of(None).next_month(at("9999-12-30T21:59:59Z")) > at("9999-12-30T21:59:59Z")
        );
    }
}
