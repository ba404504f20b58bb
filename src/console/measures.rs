//! Sizes, durations and figures as people read them.

/// Bytes in the largest unit that leaves a number of at least 1.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be shown as 1024 of a unit is 1 of the next.
    while size >= 1023.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{} {}", figure(size), UNITS[unit])
}

/// Seconds in the largest unit that has a whole number of them.
pub fn duration(secs: i64) -> String {
    const UNITS: [(i64, &str); 4] =
        [(86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")];
    let fits = |unit: &&(i64, &str)| secs % unit.0 == 0 && secs >= unit.0;
    let (unit, name) = UNITS.iter().find(fits).copied().unwrap_or((1, "second"));
    let count = secs / unit;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// A figure: from 10 on a whole number, below with two places at most.
pub fn figure(value: f64) -> String {
    if value >= 9.995 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_as_short_as_they_can_be() {
        for (value, text) in [
            (0.0, "0"),
            (0.004, "0"),
            (0.25, "0.25"),
            (3.10, "3.1"),
            (9.999, "10"),
            (12.4, "12"),
            (100.0, "100"),
            (48_123.0, "48123"),
        ] {
            assert_eq!(figure(value), text);
        }
        for (size, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1_048_000, "1023 KiB"),
            (1_048_575, "1 MiB"),
            (25 << 20, "25 MiB"),
            (1_610_612_736, "1.5 GiB"),
            (3 << 50, "3072 TiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        for (secs, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (90, "90 seconds"),
            (900, "15 minutes"),
            (3600, "1 hour"),
            (129_600, "36 hours"),
            (86_400, "1 day"),
            (31_536_000, "365 days"),
        ] {
            assert_eq!(duration(secs), text);
        }
    }
}
