//! The table of results.

use std::time::Duration;

/// The target of a ratio.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// None: the ratio is for those who choose.
    #[cfg(feature = "postgres")]
    None,
}

/// One row: a measurement of Roadstead against a baseline or a limit.
pub struct Row {
    /// The name of the measurement.
    pub name: String,
    /// Roadstead's result.
    pub ours: String,
    /// The baseline's result, or the limit.
    pub baseline: String,
    /// Ours divided by the baseline's.
    pub ratio: f64,
    /// The target of the ratio.
    pub target: Target,
}

/// Prints the rows.
pub fn print(rows: &[Row]) {
    let width = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).chars().count()).max();
    let name = width(|row| &row.name).unwrap_or(0);
    let ours = width(|row| &row.ours).unwrap_or(0).max("Roadstead".len());
    let baseline = width(|row| &row.baseline).unwrap_or(0);
    println!();
    println!(
        "{:name$}  {:>ours$}  {:baseline$}  {:>6}  target",
        "", "Roadstead", "baseline", "ratio"
    );
    for row in rows {
        let (target, reached) = match row.target {
            Target::AtLeast(least) => (format!(">= {least:.2}"), row.ratio >= least),
            Target::AtMost(most) => (format!("<= {most:.2}"), row.ratio <= most),
            #[cfg(feature = "postgres")]
            Target::None => (String::new(), true),
        };
        println!(
            "{:name$}  {:>ours$}  {:baseline$}  {:>6.2}  {target:>7}  {}",
            row.name,
            row.ours,
            row.baseline,
            row.ratio,
            match (reached, target.is_empty()) {
                (_, true) => "",
                (true, false) => "yes",
                (false, false) => "NO",
            }
        );
    }
}

/// Formats a short time.
pub fn time(time: Duration) -> String {
    match time.as_micros() {
        micros if micros < 10_000 => format!("{micros} µs"),
        micros => format!("{:.1} ms", micros as f64 / 1000.0),
    }
}
