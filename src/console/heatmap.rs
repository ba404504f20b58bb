//! Deployments of the last year, day by day, as a drawing: a column is a week, a row a day of the week.
//! Its geometry is in attributes, since pages have no inline styles.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::base::{Result, Time};
use crate::console::strict::List;
use crate::console::visit::Visit;

const DAY_MILLIS: i64 = 86_400_000;
/// The days that are drawn.
const DAYS: i64 = 365;
/// The distance from a day to the next, and its width.
const STEP: i64 = 12;
const CELL: i64 = 10;
/// The first day of the epoch was a Thursday; weeks begin on Monday.
const FIRST_WEEKDAY: i64 = 3;
/// So many deployments make a day of the next darker level.
const LEVELS: [u64; 4] = [1, 2, 4, 8];

/// The states in which a deployment failed.
const FAILED: [&str; 3] = ["error", "partial", "timeout"];

/// The drawing.
pub struct Heatmap {
    pub width: i64,
    pub height: i64,
    /// The outlines of the days of each level, from none on.
    pub levels: Vec<String>,
    /// The dots of days on which a deployment failed: their centres.
    pub failed: Vec<(i64, i64)>,
    /// The numbers of each month, newest first.
    pub months: Vec<Month>,
    /// All of them.
    pub total: u64,
    /// Those that failed.
    pub failures: u64,
}

/// The deployments of a month.
pub struct Month {
    pub name: String,
    pub total: u64,
    pub failures: u64,
}

#[derive(Deserialize)]
struct Day {
    date: String,
    counts: BTreeMap<String, u64>,
}

impl Day {
    fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    fn failures(&self) -> u64 {
        let failed = self.counts.iter().filter(|(state, _)| FAILED.contains(&state.as_str()));
        failed.map(|(_, count)| count).sum()
    }

    /// Days since the epoch.
    fn number(&self) -> Option<i64> {
        let at = Time::parse(&format!("{}T00:00:00Z", self.date))?;
        Some(at.millis().div_euclid(DAY_MILLIS))
    }
}

impl Heatmap {
    /// Reads the days.
    pub async fn read(visit: &Visit) -> Result<Self> {
        let days: List<Day> = visit.api.get("/deployments/heatmap", &[]).await?;
        let now = visit.api.calls.executor.store.clock().now();
        Ok(Heatmap::of(&days.items, now.millis().div_euclid(DAY_MILLIS)))
    }

    fn of(days: &[Day], today: i64) -> Self {
        let first = today - DAYS + 1;
        let monday = first - weekday(first);
        let place = |day: i64| ((day - monday) / 7 * STEP, weekday(day) * STEP);
        let known: BTreeMap<i64, &Day> =
            days.iter().filter_map(|day| Some((day.number()?, day))).collect();
        let mut levels = vec![String::new(); LEVELS.len() + 1];
        let mut failed = Vec::new();
        for day in first..=today {
            let counts = known.get(&day);
            let total = counts.map_or(0, |day| day.total());
            let level = LEVELS.iter().filter(|least| total >= **least).count();
            let (x, y) = place(day);
            levels[level].push_str(&format!("M{x} {y}h{CELL}v{CELL}h-{CELL}z"));
            if counts.is_some_and(|day| day.failures() > 0) {
                failed.push((x + CELL / 2, y + CELL / 2));
            }
        }
        let months = months(days);
        Heatmap {
            width: place(today).0 + CELL,
            height: STEP * 7,
            levels,
            failed,
            total: months.iter().map(|month| month.total).sum(),
            failures: months.iter().map(|month| month.failures).sum(),
            months,
        }
    }

    /// What it shows, in a sentence.
    pub fn sentence(&self) -> String {
        let deployments = if self.total == 1 { "deployment" } else { "deployments" };
        let failures = match self.failures {
            0 => "none of them failed".to_string(),
            count => format!("{count} of them failed"),
        };
        format!("{} {deployments} in the last 365 days, {failures}.", self.total)
    }
}

fn weekday(day: i64) -> i64 {
    (day + FIRST_WEEKDAY).rem_euclid(7)
}

fn months(days: &[Day]) -> Vec<Month> {
    let mut months: Vec<Month> = Vec::new();
    for day in days {
        let name = day.date.get(..7).unwrap_or_default();
        if months.last().is_none_or(|month| month.name != name) {
            months.push(Month { name: name.into(), total: 0, failures: 0 });
        }
        if let Some(month) = months.last_mut() {
            month.total += day.total();
            month.failures += day.failures();
        }
    }
    months
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(date: &str, counts: &[(&str, u64)]) -> Day {
        let counts = counts.iter().map(|(state, count)| (state.to_string(), *count)).collect();
        Day { date: date.into(), counts }
    }

    #[test]
    fn a_year_is_drawn_in_weeks_with_dots_where_something_failed() {
        // 2026-01-15 was a Thursday.
        let days = [
            day("2026-01-15", &[("complete", 8), ("error", 1)]),
            day("2026-01-12", &[("complete", 2)]),
            day("2025-12-31", &[("cancelled", 1)]),
        ];
        let drawn = Heatmap::of(&days, days[0].number().unwrap());
        assert_eq!(drawn.levels.iter().map(|path| path.matches('M').count()).sum::<usize>(), 365);
        let one = |level: usize| drawn.levels[level].clone();
        assert_eq!(one(4), format!("M{} 36h10v10h-10z", drawn.width - CELL));
        assert_eq!(one(2), format!("M{} 0h10v10h-10z", drawn.width - CELL));
        assert_eq!(one(1).matches('M').count(), 1);
        assert_eq!(drawn.failed, [(drawn.width - CELL / 2, 41)]);
        assert_eq!(drawn.sentence(), "12 deployments in the last 365 days, 1 of them failed.");
        let months: Vec<_> =
            drawn.months.iter().map(|one| (one.name.as_str(), one.total)).collect();
        assert_eq!(months, [("2026-01", 11), ("2025-12", 1)]);
        let none = Heatmap::of(&[], 0);
        assert_eq!(none.sentence(), "0 deployments in the last 365 days, none of them failed.");
    }
}
