//! Points in time: milliseconds, UTC (reference: conventions, "Times").

use std::borrow::Cow;
use std::fmt;

use super::validated::checked;
use bincode::{Decode, Encode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// A point in time: milliseconds since 1970, UTC. Formatted as `2026-11-21T18:23:03.120Z`; parsed
/// from any RFC 3339 date-time, truncated to milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Time(i64);

impl Time {
    /// Returns the time of so many milliseconds since 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Time(millis)
    }

    /// Returns the milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since 1970.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Returns the time so many seconds later.
    pub const fn plus_secs(self, secs: i64) -> Self {
        Time(self.0 + secs * 1000)
    }

    /// Returns the time so many seconds earlier.
    pub const fn minus_secs(self, secs: i64) -> Self {
        Time(self.0 - secs * 1000)
    }

    /// Returns the time so many milliseconds later.
    pub const fn plus_millis(self, millis: i64) -> Self {
        Time(self.0 + millis)
    }

    /// So much the clocks of servers that share a store may differ.
    pub const CLOCK_DIFFERENCE_SECS: i64 = 60;

    /// Returns whether it is later than what was put off by at most so many seconds can be: the clock
    /// was ahead when that was written, or is behind now.
    pub const fn is_beyond(self, now: Time, most_secs: i64) -> bool {
        self.0 > now.plus_secs(most_secs + Self::CLOCK_DIFFERENCE_SECS).0
    }

    /// Returns the start of this time's calendar month, UTC, from which a monthly budget counts.
    pub fn month_start(self) -> Self {
        let date = self.as_datetime().date().replace_day(1).expect("every month has a first day");
        Time(date.midnight().assume_utc().unix_timestamp() * 1000)
    }

    /// Parses an RFC 3339 date-time. Its year in UTC must have four digits, so that it can be
    /// formatted.
    pub fn parse(text: &str) -> Option<Self> {
        let utc = OffsetDateTime::parse(text, &Rfc3339).ok()?.checked_to_offset(UtcOffset::UTC)?;
        let nanos = utc.unix_timestamp_nanos();
        (utc.year() >= 0).then(|| Time(nanos.div_euclid(1_000_000) as i64))
    }

    fn as_datetime(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.secs()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// Passes its text to `use_text`. Nearly every response contains times, and the general formatter
    /// takes several times as long.
    fn with_text<T>(self, use_text: impl FnOnce(&str) -> T) -> T {
        let t = self.as_datetime();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |from: usize, to: usize, mut number: u32| {
            for digit in text[from..to].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        put(0, 4, t.year().unsigned_abs());
        put(5, 7, u8::from(t.month()).into());
        put(8, 10, t.day().into());
        put(11, 13, t.hour().into());
        put(14, 16, t.minute().into());
        put(17, 19, t.second().into());
        put(20, 23, self.0.rem_euclid(1000) as u32);
        use_text(std::str::from_utf8(&text).expect("digits are ASCII"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}
impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn check(text: String) -> Result<Time, String> {
            Time::parse(&text)
                .ok_or_else(|| "must be an RFC 3339 date-time, such as 2026-01-31T12:00:00Z".into())
        }
        checked(deserializer, check, || Time(0))
    }
}
impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_milliseconds_in_any_input_form() {
        for (text, written) in [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z"),
            ("2026-01-31T12:00:00.1239+02:00", "2026-01-31T10:00:00.123Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Time::parse(text).unwrap().to_string(), written);
        }
        assert!(Time::parse("2026-01-31").is_none());
        assert!(Time::parse("2026-02-30T00:00:00Z").is_none());
        for (inside, outside) in [
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00+00:01"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-00:01"),
        ] {
            assert_eq!(Time::parse(inside).unwrap().to_string()[..19], inside[..19]);
            assert!(Time::parse(outside).is_none(), "{outside}");
        }
    }

    #[test]
    fn a_month_starts_on_its_first_at_midnight() {
        let time = Time::parse("2026-11-21T18:23:03Z").unwrap();
        assert_eq!(time.month_start().to_string(), "2026-11-01T00:00:00.000Z");
    }
}
