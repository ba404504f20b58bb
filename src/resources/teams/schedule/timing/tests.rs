//! Next times around changes of the clock on the wall, beside a slow search minute by minute.

use proptest::prelude::*;

use super::*;
use crate::resources::teams::zone::{zone, zone_name};

fn at(text: &str) -> Time {
    Time::parse(text).unwrap()
}

fn cron(text: &str, name: &str) -> Timing {
    Timing::Cron(Cron::parse(text).unwrap(), zone(name).unwrap())
}

/// The next times after one, as texts without their zone.
fn next(timing: &Timing, after: &str, count: usize) -> Vec<String> {
    let mut at = at(after);
    let mut times = Vec::new();
    for _ in 0..count {
        at = timing.next(at).unwrap();
        times.push(at.to_string()[..16].to_string());
    }
    times
}

#[test]
fn zones_are_known_by_their_names_and_no_others() {
    for name in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Asia/Kathmandu"] {
        assert_eq!(zone_name(&zone(name).unwrap()), name);
    }
    assert_eq!(zone_name(&zone("europe/berlin").unwrap()), "Europe/Berlin");
    let paths = ["../etc/passwd", "/usr/share/zoneinfo/UTC"];
    let names = ["", "Europe/Nowhere", "UTC+1", "local", "Etc/Unknown", "etc/unknown"];
    for name in paths.into_iter().chain(names) {
        assert!(zone(name).is_none(), "{name}");
    }
}

#[test]
fn monday_at_nine_is_at_nine_in_winter_and_in_summer() {
    let monday = cron("0 9 * * mon", "Europe/Berlin");
    let times = next(&monday, "2026-03-16T09:00:00Z", 2);
    assert_eq!(times, ["2026-03-23T08:00", "2026-03-30T07:00"]);
}

#[test]
fn what_is_in_an_hour_that_is_left_out_is_due_once_right_after_it() {
    // 2026-03-29, 02:00 to 03:00 in Berlin.
    for text in ["30 2 * * *", "0 2 * * *", "0,15,30,45 2 * * *", "30 2,3 29 3 *"] {
        let times = next(&cron(text, "Europe/Berlin"), "2026-03-28T12:00:00Z", 1);
        assert_eq!(times, ["2026-03-29T01:00"], "{text}");
    }
    let quarters = cron("*/30 * * * *", "Europe/Berlin");
    let times = next(&quarters, "2026-03-29T00:00:00Z", 3);
    assert_eq!(times, ["2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30"]);
    // A day that is left out: 2011-12-30 in Apia.
    let samoa = cron("0 12 30 12 *", "Pacific/Apia");
    assert_eq!(next(&samoa, "2011-12-29T00:00:00Z", 1), ["2011-12-30T10:00"]);
    // Half an hour: Lord Howe, 02:00 to 02:30.
    let half = cron("15 2 * * *", "Australia/Lord_Howe");
    assert_eq!(next(&half, "2026-10-03T00:00:00Z", 1), ["2026-10-03T15:30"]);
}

#[test]
fn what_is_in_an_hour_that_comes_twice_is_due_in_the_first() {
    // 2026-10-25, 02:00 to 03:00 in Berlin, from 00:00 and from 01:00 UTC.
    let half = cron("30 2 * * *", "Europe/Berlin");
    let times = next(&half, "2026-10-24T12:00:00Z", 2);
    assert_eq!(times, ["2026-10-25T00:30", "2026-10-26T01:30"]);
    let halves = cron("*/30 * * * *", "Europe/Berlin");
    let times = next(&halves, "2026-10-25T00:00:00Z", 2);
    assert_eq!(times, ["2026-10-25T00:30", "2026-10-25T02:00"]);
    assert_eq!(next(&halves, "2026-10-25T01:10:00Z", 1), ["2026-10-25T02:00"]);
}

#[test]
fn days_that_few_years_have_come() {
    let leap = cron("0 0 29 2 *", "UTC");
    assert_eq!(next(&leap, "2026-01-01T00:00:00Z", 2), ["2028-02-29T00:00", "2032-02-29T00:00"]);
    assert_eq!(next(&leap, "2096-02-29T00:00:00Z", 1), ["2104-02-29T00:00"]);
    let sunday = cron("0 0 29 2 */7", "UTC");
    assert_eq!(next(&sunday, "2088-03-01T00:00:00Z", 1), ["2128-02-29T00:00"]);
    let last = cron("59 23 31 * *", "UTC");
    assert_eq!(next(&last, "2026-01-31T23:59:00Z", 1), ["2026-03-31T23:59"]);
}

#[test]
fn every_so_often_is_counted_from_the_first_time() {
    let first = at("2026-01-01T00:00:07Z");
    let every = Timing::Every(first, 90_000);
    assert_eq!(every.next(at("2025-06-01T00:00:00Z")), Some(first));
    assert_eq!(every.next(first), Some(first.plus_millis(90_000)));
    assert_eq!(every.next(first.plus_millis(89_999)), Some(first.plus_millis(90_000)));
    assert_eq!(every.last(first, first.plus_millis(900_001)), first.plus_millis(900_000));
}

#[test]
fn the_last_time_is_found_among_any_number() {
    let (first, now) = (at("2000-01-01T00:00:00Z"), at("2026-01-01T00:00:30Z"));
    let minutes = cron("* * * * *", "America/New_York");
    assert_eq!(minutes.last(first, now), at("2026-01-01T00:00:00Z"));
    assert_eq!(minutes.last(first, first), first);
    let leap = cron("0 0 29 2 *", "UTC");
    assert_eq!(leap.last(at("2000-02-29T00:00:00Z"), now), at("2024-02-29T00:00:00Z"));
}

#[test]
fn the_end_of_time_ends_it() {
    assert_eq!(cron("* * * * *", "UTC").next(at("9998-01-01T00:00:00Z")), None);
    assert_eq!(cron("0 0 29 2 *", "UTC").next(at("9988-03-01T00:00:00Z")), None);
}

const NAMES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
];

fn field(from: u8, to: u8) -> impl Strategy<Value = String> {
    let one = move || (from..=to).prop_map(|n| n.to_string());
    let range = (from..=to, 0..=to).prop_map(move |(a, n)| format!("{a}-{}", (a + n % 5).min(to)));
    prop_oneof![
        3 => Just("*".to_string()),
        2 => one(),
        1 => range,
        1 => (1..=to).prop_map(|step| format!("*/{step}")),
        1 => (one(), one()).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7))
        .prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}"))
}

/// What the clock on the wall shows, and whether the expression has it, minute by minute: the slow way.
fn slow(timing: &Timing, after: Time, minutes: i64) -> Option<Time> {
    let Timing::Cron(cron, zone) = timing else { return None };
    let has = |wall: DateTime| {
        cron.has_month(wall.month())
            && cron.has_day(wall.day(), wall.weekday().to_sunday_zero_offset())
            && cron.next_in_day(wall.hour(), wall.minute()) == Some((wall.hour(), wall.minute()))
    };
    let wall_at =
        |time: Time| zone.to_datetime(Timestamp::from_millisecond(time.millis()).unwrap());
    let minute = |time: Time| Time::from_millis(time.millis().div_euclid(60_000) * 60_000);
    (1..=minutes).map(|n| minute(after).plus_millis(n * 60_000)).find(|time| {
        let (now, before) = (wall_at(*time), wall_at(time.plus_millis(-60_000)));
        // Those that the clock passed over, or this one; not again those that it showed before.
        let mut passed = before;
        while passed < now {
            passed = passed.checked_add(jiff::ToSpan::minutes(1)).unwrap();
            let is_first = moment(zone, passed) == Some(*time);
            if has(passed) && (is_first || passed < now) {
                return true;
            }
        }
        false
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn next_is_what_the_clock_on_the_wall_shows_next(
        text in expression(), name in 0..NAMES.len(), secs in 1_700_000_000_i64..1_900_000_000,
    ) {
        let Ok(parsed) = Cron::parse(&text) else { return Ok(()) };
        let timing = Timing::Cron(parsed, zone(NAMES[name]).unwrap());
        let after = Time::from_millis(secs * 1000);
        let next = timing.next(after).unwrap();
        prop_assert!(next > after && next.millis() % 60_000 == 0);
        const WEEK: i64 = 7 * 24 * 60;
        match slow(&timing, after, WEEK) {
            Some(expected) => prop_assert_eq!(next, expected, "{}", text),
            None => prop_assert!(next.millis() > after.millis() + (WEEK - 1) * 60_000),
        }
    }

    #[test]
    fn next_around_a_change_is_what_the_clock_on_the_wall_shows(
        text in expression(), name in 1..NAMES.len(), n in 0_usize..12, back in 0_i64..300,
    ) {
        let Ok(parsed) = Cron::parse(&text) else { return Ok(()) };
        let zone = zone(NAMES[name]).unwrap();
        let from = Timestamp::from_second(1_300_000_000).unwrap();
        let Some(change) = zone.following(from).nth(n) else { return Ok(()) };
        let change = change.timestamp().as_millisecond();
        let timing = Timing::Cron(parsed, zone.clone());
        let after = Time::from_millis(change - back * 60_000);
        if let Some(expected) = slow(&timing, after, 2 * 24 * 60) {
            prop_assert_eq!(timing.next(after), Some(expected), "{}", text);
        }
    }

    #[test]
    fn times_are_in_order_and_the_last_is_the_last(
        text in expression(), name in 0..NAMES.len(), secs in 1_700_000_000_i64..1_900_000_000,
        count in 1_usize..40,
    ) {
        let Ok(parsed) = Cron::parse(&text) else { return Ok(()) };
        let timing = Timing::Cron(parsed, zone(NAMES[name]).unwrap());
        let first = timing.next(Time::from_millis(secs * 1000)).unwrap();
        let mut last = first;
        for _ in 0..count {
            let next = timing.next(last).unwrap();
            prop_assert!(next > last);
            prop_assert_eq!(timing.last(first, next.plus_millis(-1)), last);
            last = next;
        }
        prop_assert_eq!(timing.last(first, last), last);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[ -~]{0,40}") {
        if let Ok(cron) = Cron::parse(&text) {
            let timing = Timing::Cron(cron, TimeZone::UTC);
            prop_assert!(timing.next(Time::from_millis(0)).is_some(), "{}", text);
        }
    }
}
