//! Comparing in rounds. The machine is never quiet: what is compared runs in turn, within a second
//! or two of each other, and the median of the rounds counts.

use std::time::Duration;

use crate::client::Outcome;

/// How often each side runs.
pub const ROUNDS: usize = 7;

/// How long.
pub const TIME: Duration = Duration::from_secs(1);

/// How long a profiler gets.
pub const PROFILE: Duration = Duration::from_secs(10);

/// One side.
pub type Side<'a> = &'a mut dyn FnMut() -> Outcome;

/// Runs all sides in turn, after a short run of each that does not count; the outcomes of each
/// side, by round.
pub fn run(sides: &mut [Side]) -> Vec<Vec<Outcome>> {
    for side in sides.iter_mut() {
        side();
    }
    let mut outcomes = vec![Vec::new(); sides.len()];
    for round in 0..ROUNDS {
        // There and back, so that what changes slowly touches all alike.
        for nth in 0..sides.len() {
            let nth = if round % 2 == 0 { nth } else { sides.len() - 1 - nth };
            outcomes[nth].push(sides[nth]());
        }
    }
    outcomes
}

/// The middle one.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of the rates.
pub fn rate(outcomes: &[Outcome]) -> f64 {
    median(outcomes.iter().map(|outcome| outcome.rate))
}

/// The median of one side's rate by the other's in the same round.
pub fn ratio(ours: &[Outcome], theirs: &[Outcome]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours.rate / theirs.rate))
}

/// What a side did, for a person: its rate, and the processor time of each answer.
pub fn figure(outcomes: &[Outcome]) -> String {
    let processor = median(outcomes.iter().map(|outcome| outcome.processor.as_secs_f64()));
    format!("{:.0}/s, {:.1} µs each", rate(outcomes), processor * 1e6)
}
