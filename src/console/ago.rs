//! Times as a reader counts them: "3 min ago". The script `time.js` keeps to the same rules, and counts on.

use crate::base::Time;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// What is further away is a date.
const FURTHEST: i64 = 14 * DAY;

/// Returns how long ago a time was, or how far ahead it is; the time itself if that is long.
pub fn ago(at: Time, now: Time) -> String {
    let secs = now.secs().saturating_sub(at.secs());
    let away = secs.saturating_abs();
    // Clocks differ, and what has just happened is nothing to come.
    if away < MINUTE {
        return "just now".into();
    }
    let (unit, word) = match away {
        0..HOUR => (MINUTE, "min"),
        HOUR..DAY => (HOUR, "h"),
        DAY..FURTHEST => (DAY, if away < 2 * DAY { "day" } else { "days" }),
        _ => return minute(at),
    };
    let count = away / unit;
    if secs < 0 { format!("in {count} {word}") } else { format!("{count} {word} ago") }
}

/// Returns a time in UTC, to the minute.
pub fn minute(at: Time) -> String {
    // `2026-11-21T18:23:03.120Z`
    let text = at.to_string();
    format!("{} {} UTC", &text[..10], &text[11..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_counted_and_what_is_far_is_a_date() {
        let now = Time::parse("2026-11-21T18:23:03Z").unwrap();
        for (secs, text) in [
            (0, "just now"),
            (59, "just now"),
            (-30, "just now"),
            (60, "1 min ago"),
            (179, "2 min ago"),
            (HOUR - 1, "59 min ago"),
            (HOUR, "1 h ago"),
            (DAY - 1, "23 h ago"),
            (DAY, "1 day ago"),
            (2 * DAY, "2 days ago"),
            (FURTHEST, "2026-11-07 18:23 UTC"),
            (-61, "in 1 min"),
            (-2 * HOUR, "in 2 h"),
            (-13 * DAY, "in 13 days"),
            (-15 * DAY, "2026-12-06 18:23 UTC"),
        ] {
            assert_eq!(ago(now.minus_secs(secs), now), text, "{secs}");
        }
    }
}
