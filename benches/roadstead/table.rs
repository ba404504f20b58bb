//! The table that is printed in the end.

use std::time::Duration;

/// What a ratio should be.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// So much, or more.
    AtLeast(f64),
    /// So much, or less.
    AtMost(f64),
}

/// One line: something measured beside something else, or beside a limit.
pub struct Row {
    /// What was measured.
    pub what: String,
    /// What Roadstead needed or did.
    pub ours: String,
    /// What the other did, or the limit.
    pub beside: String,
    /// Ours by the other's.
    pub ratio: f64,
    /// What it should be.
    pub wanted: Wanted,
}

/// Prints the lines below each other.
pub fn print(rows: &[Row]) {
    let width = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).chars().count()).max();
    let what = width(|row| &row.what).unwrap_or(0);
    let ours = width(|row| &row.ours).unwrap_or(0).max("Roadstead".len());
    let beside = width(|row| &row.beside).unwrap_or(0);
    println!();
    println!("{:what$}  {:>ours$}  {:beside$}  {:>6}  wanted", "", "Roadstead", "beside", "ratio");
    for row in rows {
        let (wanted, reached) = match row.wanted {
            Wanted::AtLeast(least) => (format!(">= {least:.2}"), row.ratio >= least),
            Wanted::AtMost(most) => (format!("<= {most:.2}"), row.ratio <= most),
        };
        println!(
            "{:what$}  {:>ours$}  {:beside$}  {:>6.2}  {wanted:>7}  {}",
            row.what,
            row.ours,
            row.beside,
            row.ratio,
            if reached { "yes" } else { "NO" }
        );
    }
}

/// A short time, for a person.
pub fn time(time: Duration) -> String {
    match time.as_micros() {
        micros if micros < 10_000 => format!("{micros} µs"),
        micros => format!("{:.1} ms", micros as f64 / 1000.0),
    }
}
