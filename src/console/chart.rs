//! Figures of the last hour as a drawing: a line for each kind, the newest figure at the right edge.
//! Its geometry is in attributes, since pages have no inline styles.

use super::measures::figure;

/// The width of a drawing: one figure is one unit, so that the figures of an hour fit, one each 10 s.
pub const WIDTH: usize = 360;
/// Its height.
pub const HEIGHT: i64 = 80;

/// A kind of figures: its name, and one figure for each interval, the oldest first. `None` where there
/// is none: the line has a gap.
pub type Series<'a> = (&'static str, &'a [Option<f64>]);

/// A drawing.
pub struct Chart {
    /// Names it in the page.
    pub id: &'static str,
    pub title: &'static str,
    /// Follows each of its figures.
    pub unit: &'static str,
    /// The figure at its upper edge.
    pub top: String,
    pub lines: Vec<Line>,
}

/// A line of a drawing.
pub struct Line {
    pub name: &'static str,
    /// Its outline, as the attribute `d` of a path.
    pub path: String,
    /// The newest figure; none if the last interval has none.
    pub latest: Option<String>,
    /// The highest one; none if there are no figures.
    pub highest: Option<String>,
}

impl Chart {
    /// Draws some kinds of figures on one scale.
    pub fn of(
        id: &'static str,
        title: &'static str,
        unit: &'static str,
        series: &[Series],
    ) -> Chart {
        let series = series.iter().map(|(name, values)| (*name, newest(values)));
        let series: Vec<_> = series.collect();
        let top =
            ceiling(series.iter().filter_map(|(_, values)| highest(values)).fold(0.0, f64::max));
        let line = |(name, values): (&'static str, &[Option<f64>])| Line {
            name,
            path: path(values, top),
            latest: values.last().copied().flatten().map(figure),
            highest: highest(values).map(figure),
        };
        let lines = series.into_iter().map(line).collect();
        Chart { id, title, unit, top: figure(top), lines }
    }

    /// What it shows, in a sentence.
    pub fn sentence(&self) -> String {
        let unit = self.unit;
        let of = |line: &Line| {
            let Some(highest) = &line.highest else { return format!("{}: no figures", line.name) };
            let now =
                line.latest.as_ref().map_or("none".into(), |latest| format!("{latest}{unit}"));
            format!("{}: now {now}, at most {highest}{unit}", line.name)
        };
        let lines: Vec<_> = self.lines.iter().map(of).collect();
        format!("{}.", lines.join("; "))
    }
}

/// The figures that fit.
fn newest(values: &[Option<f64>]) -> &[Option<f64>] {
    &values[values.len().saturating_sub(WIDTH)..]
}

fn highest(values: &[Option<f64>]) -> Option<f64> {
    values.iter().flatten().copied().reduce(f64::max)
}

/// The least of 1, 2, 5, 10, 20, 50 … that is not below a figure, and their tenths and hundredths; 1 for
/// 0, so that a line of zeros is at the bottom.
fn ceiling(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(highest.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= highest).unwrap_or(10.0 * power)
}

/// The outline of figures, ending at the right edge: relative steps, of which equal ones are one, since
/// pages are small.
fn path(values: &[Option<f64>], top: f64) -> String {
    let mut path = String::new();
    let mut before: Option<i64> = None;
    let mut flat = 0;
    for (at, value) in values.iter().enumerate() {
        let y = value.map(|value| HEIGHT - (value / top * HEIGHT as f64).round() as i64);
        match (before, y) {
            (Some(before), Some(y)) if before == y => flat += 1,
            (Some(before), Some(y)) => {
                run(&mut path, &mut flat);
                path.push_str(&format!("l1 {}", y - before));
            }
            // With round ends a figure between two gaps is a dot.
            (None, Some(y)) => {
                let x = WIDTH - values.len() + at;
                path.push_str(&format!("M{x} {y}h0"));
            }
            (_, None) => run(&mut path, &mut flat),
        }
        before = y;
    }
    run(&mut path, &mut flat);
    path
}

fn run(path: &mut String, flat: &mut u32) {
    if *flat > 0 {
        path.push_str(&format!("h{flat}"));
        *flat = 0;
    }
}

/// What a row of a table says of the figures of several intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    Mean,
    Highest,
    Sum,
}

impl Summary {
    fn of(self, values: &[Option<f64>]) -> Option<f64> {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let sum: f64 = known.iter().sum();
        match self {
            Summary::Highest => highest(values),
            Summary::Mean => (!known.is_empty()).then(|| sum / known.len() as f64),
            Summary::Sum => (!known.is_empty()).then_some(sum),
        }
    }

    /// Sums up `size` figures after another, the newest first; the last are fewer if there are no more.
    pub fn rows(self, values: &[Option<f64>], size: usize) -> Vec<String> {
        let rows = newest(values).rchunks(size).map(|part| self.of(part));
        rows.map(|summed| summed.map_or("–".into(), figure)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn the_scale_ends_at_a_round_figure_that_is_not_exceeded() {
        for (highest, top) in [
            (0.0, 1.0),
            (0.03, 0.05),
            (1.0, 1.0),
            (1.01, 2.0),
            (4.9, 5.0),
            (5.1, 10.0),
            (10.0, 10.0),
            (120.0, 200.0),
            (99_999.0, 100_000.0),
        ] {
            let found = ceiling(highest);
            assert!((found - top).abs() < top * 1e-9, "{highest}: {found}");
        }
    }

    #[test]
    fn a_line_ends_at_the_right_edge_and_joins_what_is_equal() {
        assert_eq!(
            path(&known(&[0.0, 0.0, 0.0, 5.0, 10.0, 10.0]), 10.0),
            "M354 80h0h2l1 -40l1 -40h1"
        );
        assert_eq!(path(&known(&[10.0]), 10.0), "M359 0h0");
        assert_eq!(path(&[], 1.0), "");
        let full = path(&vec![Some(1.0); WIDTH], 2.0);
        assert_eq!(full, "M0 40h0h359");
    }

    #[test]
    fn a_line_has_gaps_where_there_are_no_figures() {
        let values = [None, Some(1.0), Some(1.0), None, None, Some(0.0), None];
        assert_eq!(path(&values, 1.0), "M354 0h0h1M358 80h0");
    }

    #[test]
    fn a_chart_has_one_scale_and_says_what_it_shows() {
        let (all, failed) = (known(&[12.0, 48.0, 30.5]), known(&[0.0, 3.0, 0.0]));
        let chart =
            Chart::of("requests", "Requests", "/s", &[("answered", &all), ("failed", &failed)]);
        assert_eq!(chart.top, "50");
        assert_eq!(chart.lines[0].path, "M357 61h0l1 -58l1 28");
        assert_eq!(chart.lines[1].path, "M357 80h0l1 -5l1 5");
        let sentence = "answered: now 30/s, at most 48/s; failed: now 0/s, at most 3/s.";
        assert_eq!(chart.sentence(), sentence);
        let chart =
            Chart::of("p", "P", " ms", &[("half", &[None, Some(2.0), None]), ("rest", &[])]);
        assert_eq!(chart.sentence(), "half: now none, at most 2 ms; rest: no figures.");
        assert_eq!((chart.lines[1].path.as_str(), chart.lines[1].latest.as_ref()), ("", None));
    }

    #[test]
    fn more_figures_than_fit_are_left_out_from_the_oldest_on() {
        let mut values = vec![Some(1000.0); 5];
        values.extend(vec![Some(1.0); WIDTH]);
        let chart = Chart::of("a", "A", "", &[("all", &values)]);
        assert_eq!((chart.top.as_str(), chart.lines[0].path.as_str()), ("1", "M0 0h0h359"));
    }

    #[test]
    fn rows_sum_up_from_the_newest_on() {
        let values = [Some(9.0), Some(1.0), Some(2.0), None, None];
        assert_eq!(Summary::Mean.rows(&values, 2), ["–", "1.5", "9"]);
        assert_eq!(Summary::Highest.rows(&values, 3), ["2", "9"]);
        assert_eq!(Summary::Sum.rows(&values, 5), ["12"]);
        assert!(Summary::Sum.rows(&[], 5).is_empty());
    }
}
