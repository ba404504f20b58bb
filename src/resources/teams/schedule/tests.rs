//! Next times when clocks and zones change.

use super::*;

fn at(text: &str) -> Time {
    Time::parse(text).unwrap()
}

fn daily(next: &str, last: Option<&str>) -> Schedule {
    let id = uuid::Uuid::from_u128(1);
    Schedule {
        id: Id::new(id),
        team: Id::new(id),
        name: Title::parse("Daily").unwrap(),
        cron: Some(CronText::parse("0 9 * * *").unwrap()),
        every_secs: None,
        time_zone: ZoneName::parse("utc").unwrap(),
        task: None,
        wake: None,
        on_missed: OnMissed::Skip,
        overlap: Overlap::Skip,
        first_at: at(next),
        next_at: Some(at(next)),
        last_due_at: last.map(at),
        last_task: None,
        job: None,
        held: false,
        paused: None,
        set_by: Id::new(id),
        set_by_sponsor: None,
        set_at: at(next),
        created_at: at(next),
        updated_at: at(next),
    }
}

fn corrected(schedule: &Schedule, now: &str) -> String {
    let mut schedule = schedule.clone();
    schedule.correct(at(now)).unwrap();
    schedule.next_at.unwrap().to_string()[..10].to_string()
}

#[test]
fn what_is_done_is_not_due_again_when_the_clock_is_set_back_a_little() {
    let done = daily("2026-03-02T09:00:00Z", Some("2026-03-01T09:00:00Z"));
    assert_eq!(corrected(&done, "2026-03-01T08:30:00Z"), "2026-03-02");
    assert_eq!(corrected(&done, "2026-03-01T12:00:00Z"), "2026-03-02");
    // It was a clock that was ahead by a year.
    assert_eq!(corrected(&done, "2025-03-01T08:30:00Z"), "2025-03-01");
}

#[test]
fn a_next_time_that_has_come_stays_and_one_that_is_none_any_more_goes() {
    let due = daily("2026-03-02T09:00:00Z", None);
    assert_eq!(corrected(&due, "2026-03-05T00:00:00Z"), "2026-03-02");
    // The rules of its zone have changed: it is not due at half past nine.
    let moved = daily("2026-03-02T09:30:00Z", None);
    assert_eq!(corrected(&moved, "2026-03-01T09:10:00Z"), "2026-03-02");
    let mut moved = moved;
    moved.correct(at("2026-03-01T09:10:00Z")).unwrap();
    assert_eq!(moved.next_at, Some(at("2026-03-02T09:00:00Z")));
}

#[test]
fn what_is_due_every_so_often_is_due_again_soon_after_a_clock_that_was_ahead_is_right() {
    let every = |first: &str, next: &str, last: Option<&str>| Schedule {
        cron: None,
        every_secs: Some(600),
        first_at: at(first),
        ..daily(next, last)
    };
    let next = |schedule: &Schedule, now: &str| {
        let mut schedule = schedule.clone();
        let timing = schedule.correct(at(now)).unwrap();
        let first = schedule.next_at.unwrap();
        let second = timing.next(first).unwrap();
        [first, second].map(|at| at.to_string()[..16].to_string())
    };
    // It was begun while the clock was ahead by a year, and was due once.
    let ahead = every("2027-03-01T09:00:00Z", "2027-03-01T09:10:00Z", Some("2027-03-01T09:00:00Z"));
    assert_eq!(next(&ahead, "2026-03-01T09:03:00Z"), ["2026-03-01T09:10", "2026-03-01T09:20"]);
    let shown = ahead.next_times(at("2026-03-01T09:03:00Z"));
    assert_eq!(shown[0], at("2026-03-01T09:10:00Z"));
    // By half an hour, which is more than what lies between two times.
    let ahead = every("2026-03-01T09:00:00Z", "2026-03-01T09:50:00Z", Some("2026-03-01T09:40:00Z"));
    assert_eq!(next(&ahead, "2026-03-01T09:12:00Z"), ["2026-03-01T09:20", "2026-03-01T09:30"]);
    // By a little: what was done is not due again.
    assert_eq!(next(&ahead, "2026-03-01T09:38:00Z"), ["2026-03-01T09:50", "2026-03-01T10:00"]);
    // A clock that is behind for a while: its times are the same ones before and afterwards.
    let mut behind = every("2026-03-01T09:00:00Z", "2026-03-01T10:00:00Z", None);
    behind.correct(at("2025-12-31T23:57:00Z")).unwrap();
    assert_eq!(behind.next_at, Some(at("2026-01-01T00:00:00Z")));
    let right = at("2026-03-01T09:55:00Z");
    let timing = behind.correct(right).unwrap();
    assert_eq!(timing.next(right), Some(at("2026-03-01T10:00:00Z")));
}

#[test]
fn the_next_five_times_begin_with_one_that_waits() {
    let due = daily("2026-03-02T09:00:00Z", None);
    let times = due.next_times(at("2026-03-05T00:00:00Z"));
    let days: Vec<_> = times.iter().map(|time| time.to_string()[..10].to_string()).collect();
    assert_eq!(days, ["2026-03-02", "2026-03-05", "2026-03-06", "2026-03-07", "2026-03-08"]);
}

#[test]
fn a_zone_has_one_name() {
    assert_eq!(ZoneName::parse("europe/berlin").unwrap().as_str(), "Europe/Berlin");
    assert!(ZoneName::parse("Berlin").is_err() && ZoneName::parse("x".repeat(1000)).is_err());
}
