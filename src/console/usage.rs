//! What the runs of a team have used: sums, and the days of a month as a drawing. Its geometry is in
//! attributes, since pages have no inline styles.

use serde::Deserialize;

use super::budget::{grouped, percent, unpriced, usd};
use super::strict::Nullable;

/// The distance from a day to the next, and the width of its column.
const STEP: usize = 12;
const COLUMN: usize = 10;
/// The height of the drawing.
pub const HEIGHT: f64 = 80.0;
/// A day on which anything was used is seen.
const LEAST: f64 = 1.0;

/// What was used in a month, on a day of it, or of a part of it.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// Such as 2026-11.
    pub month: String,
    pub day: Nullable<String>,
    pub model: Nullable<String>,
    pub agent_id: Nullable<String>,
    pub agent_name: Nullable<String>,
    pub task_id: Nullable<String>,
    pub task_title: Nullable<String>,
    pub runs: u64,
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub cost_usd: f64,
    /// Those of the tokens that count nothing in the cost: nobody knows what they cost.
    pub unpriced_tokens: u64,
}

impl Sum {
    /// What it cost, as far as that is known.
    pub fn cost(&self) -> String {
        match (self.unpriced_tokens > 0, self.cost_usd > 0.0) {
            (false, _) => usd(self.cost_usd),
            (true, true) => format!("{}+", usd(self.cost_usd)),
            (true, false) => "no price".into(),
        }
    }

    /// That some of it counts nothing, as a sentence; `None` if all of it has a cost.
    pub fn unpriced(&self) -> Option<String> {
        unpriced(self.unpriced_tokens)
    }

    /// How many runs there were.
    pub fn runs(&self) -> String {
        grouped(self.runs)
    }

    /// Input tokens, also those from a cache.
    pub fn input(&self) -> String {
        grouped(self.input)
    }

    /// Those of them that came from a cache.
    pub fn cached(&self) -> String {
        grouped(self.cached)
    }

    /// Output tokens.
    pub fn output(&self) -> String {
        grouped(self.output)
    }

    fn tokens(&self) -> f64 {
        self.input as f64 + self.output as f64
    }

    /// The part of a whole that it is, in percent: of its cost or, where nothing had a cost, of its tokens.
    pub fn part_of(&self, whole: &Sum) -> String {
        match (whole.cost_usd > 0.0, whole.tokens() > 0.0) {
            (true, _) => percent(self.cost_usd, whole.cost_usd),
            (false, true) => percent(self.tokens(), whole.tokens()),
            (false, false) => percent(0.0, 1.0),
        }
    }
}

/// The days of a month.
pub struct Days {
    pub width: usize,
    pub columns: Vec<Column>,
    /// What the highest column stands for.
    pub top: String,
    /// Those on which something was used, in their order.
    pub used: Vec<Sum>,
    is_of_cost: bool,
}

/// The column of a day: where it begins, and its height.
pub struct Column {
    pub x: usize,
    pub y: String,
    pub width: usize,
    pub height: String,
    /// What it stands for.
    pub title: String,
}

impl Days {
    /// Draws a month from its days: by cost or, where nothing had a cost, by tokens.
    pub fn of(month: &str, used: Vec<Sum>) -> Self {
        let is_of_cost = used.iter().any(|sum| sum.cost_usd > 0.0);
        let amount = |sum: &Sum| if is_of_cost { sum.cost_usd } else { sum.tokens() };
        let highest = used.iter().map(amount).fold(0.0, f64::max);
        let words = |amount: f64| {
            if is_of_cost { usd(amount) } else { format!("{} tokens", grouped(amount as u64)) }
        };
        let column = |sum: &Sum| {
            let day = sum.day.as_deref()?;
            let number: usize = day.get(8..)?.parse().ok()?;
            let part = if highest > 0.0 { amount(sum) / highest } else { 0.0 };
            let height = if part > 0.0 { (part * HEIGHT).max(LEAST) } else { 0.0 };
            Some(Column {
                x: number.checked_sub(1)? * STEP,
                y: format!("{:.1}", HEIGHT - height),
                width: COLUMN,
                height: format!("{height:.1}"),
                title: format!("{day}: {}", words(amount(sum))),
            })
        };
        let columns = used.iter().filter_map(column).collect();
        let width = length(month) * STEP - (STEP - COLUMN);
        Days { width, columns, top: words(highest), used, is_of_cost }
    }

    /// What it shows, in a sentence.
    pub fn sentence(&self) -> String {
        let what = if self.is_of_cost { "Cost" } else { "Tokens" };
        let days = self.columns.len();
        let word = if days == 1 { "day" } else { "days" };
        format!("{what} of each day: {days} {word} with runs, at most {} on one.", self.top)
    }
}

/// How many days a month has, such as 2026-11.
fn length(month: &str) -> usize {
    let mut parts = month.split('-').map(|part| part.parse::<u32>().unwrap_or_default());
    let (year, month) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: &str, cost_usd: f64, input: u64) -> Sum {
        Sum {
            month: day[..7].into(),
            day: Nullable(Some(day.into())),
            model: Nullable(None),
            agent_id: Nullable(None),
            agent_name: Nullable(None),
            task_id: Nullable(None),
            task_title: Nullable(None),
            runs: 1,
            input,
            output: 0,
            cached: 0,
            cost_usd,
            unpriced_tokens: 0,
        }
    }

    #[test]
    fn a_month_is_drawn_by_cost_and_without_any_by_tokens() {
        let days =
            Days::of("2026-11", vec![day("2026-11-01", 0.001, 9), day("2026-11-30", 4.0, 0)]);
        let drawn: Vec<_> =
            days.columns.iter().map(|one| (one.x, one.y.as_str(), one.height.as_str())).collect();
        assert_eq!(drawn, [(0, "79.0", "1.0"), (348, "0.0", "80.0")]);
        assert_eq!(days.width, 358);
        assert_eq!(days.sentence(), "Cost of each day: 2 days with runs, at most $4.00 on one.");
        let days = Days::of("2026-02", vec![day("2026-02-02", 0.0, 1_234_567)]);
        assert_eq!(days.columns[0].title, "2026-02-02: 1,234,567 tokens");
        assert_eq!(
            days.sentence(),
            "Tokens of each day: 1 day with runs, at most 1,234,567 tokens on one."
        );
        let none = Days::of("2026-02", vec![day("2026-02-02", 0.0, 0)]);
        assert_eq!(none.columns[0].height, "0.0");
    }

    #[test]
    fn months_have_their_days() {
        let lengths =
            ["2026-11", "2026-12", "2026-02", "2028-02", "2100-02", "2000-02"].map(length);
        assert_eq!(lengths, [30, 31, 28, 29, 28, 29]);
    }

    #[test]
    fn a_part_is_of_the_cost_or_else_of_the_tokens() {
        let part = |part: (f64, u64), whole: (f64, u64)| {
            let of = |(cost, input)| day("2026-11-01", cost, input);
            of(part).part_of(&of(whole))
        };
        assert_eq!(part((1.0, 0), (4.0, 100)), "25.0");
        assert_eq!(part((0.0, 50), (0.0, 100)), "50.0");
        assert_eq!(part((0.0, 0), (0.0, 0)), "0.0");
    }

    #[test]
    fn what_has_no_price_is_not_shown_as_nothing() {
        let cost =
            |usd, unpriced_tokens| Sum { unpriced_tokens, ..day("2026-11-01", usd, 9) }.cost();
        let shown = [cost(1.0, 0), cost(0.0, 0), cost(0.0, 9), cost(1.0, 3)];
        assert_eq!(shown, ["$1.00", "$0.00", "no price", "$1.00+"]);
    }
}
