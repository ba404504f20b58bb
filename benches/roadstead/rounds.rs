//! Comparison in rounds. Machines are noisy: the sides run in turn, within a second or two of each
//! other, and the result is the median of the rounds.

use std::time::Duration;

use crate::client::Outcome;

/// Rounds of each side.
pub const ROUNDS: usize = 7;

/// Time of one run.
pub const TIME: Duration = Duration::from_secs(1);

/// Time of a run for a profiler.
pub const PROFILE: Duration = Duration::from_secs(10);

/// One side of a comparison.
pub type Side<'a> = &'a mut dyn FnMut() -> Outcome;

/// Runs all sides in turn, after a short warm-up of each; returns the outcomes of each side, by
/// round.
pub fn run(sides: &mut [Side]) -> Vec<Vec<Outcome>> {
    run_each(sides)
}

/// Like [`run`], with other outcomes.
pub fn run_each<T>(sides: &mut [&mut dyn FnMut() -> T]) -> Vec<Vec<T>> {
    for side in sides.iter_mut() {
        side();
    }
    let mut outcomes: Vec<_> = sides.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        // In alternating order, so that slow drift affects all sides alike.
        for nth in 0..sides.len() {
            let nth = if round % 2 == 0 { nth } else { sides.len() - 1 - nth };
            outcomes[nth].push(sides[nth]());
        }
    }
    outcomes
}

/// The median.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of the rates.
pub fn rate(outcomes: &[Outcome]) -> f64 {
    median(outcomes.iter().map(|outcome| outcome.rate))
}

/// The median of the ratio of rates in the same round.
pub fn ratio(ours: &[Outcome], theirs: &[Outcome]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours.rate / theirs.rate))
}

/// Formats an outcome: the rate, and the CPU time per response.
pub fn figure(outcomes: &[Outcome]) -> String {
    let processor = median(outcomes.iter().map(|outcome| outcome.processor.as_secs_f64()));
    format!("{:.0}/s, {:.1} µs each", rate(outcomes), processor * 1e6)
}
