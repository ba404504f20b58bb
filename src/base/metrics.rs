//! Counters, gauges and histograms, and the families of samples that `/metrics` shows.
//!
//! Each layer keeps its own, updates them without a lock (relaxed atomics: a few nanoseconds), and
//! returns them as [`Family`] values; only the HTTP layer knows how they are written.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows while the process runs.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter at zero.
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds one.
    pub fn add_one(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Returns the value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Counts one more until the guard is dropped.
    pub fn hold(&self) -> GaugeGuard<'_> {
        self.0.fetch_add(1, Relaxed);
        GaugeGuard(self)
    }

    /// Returns the value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One thing that a [`Gauge`] counts as long as this exists.
#[derive(Debug)]
pub struct GaugeGuard<'a>(&'a Gauge);

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// The bounds of a histogram's buckets: ascending, in the unit in which values are observed, and
/// how many of that unit are one unit of the samples (1,000,000 for microseconds shown as seconds).
#[derive(Debug)]
pub struct Buckets {
    /// The upper bound of each bucket but the last, which has none.
    pub bounds: &'static [u64],
    /// The observed units of one unit in the samples.
    pub scale: u64,
}

impl Buckets {
    /// Estimates the value that the share `share` (0 to 1) of observations does not exceed, in the
    /// unit of the samples, from how many observations each bucket alone has: as if those of a
    /// bucket were spread evenly in it. Of those above all bounds the highest bound is known, and no
    /// more. `None` without observations.
    pub fn quantile(&self, counts: &[u64], share: f64) -> Option<f64> {
        let rank = share * counts.iter().sum::<u64>() as f64;
        let mut before = 0;
        for (at, count) in counts.iter().copied().enumerate().filter(|(_, count)| *count > 0) {
            if (before + count) as f64 >= rank {
                let low = at.checked_sub(1).map_or(0, |at| self.bounds[at]);
                let high = self.bounds.get(at).copied().unwrap_or(low);
                let part = (rank - before as f64) / count as f64;
                return Some((low as f64 + (high - low) as f64 * part) / self.scale as f64);
            }
            before += count;
        }
        None
    }
}

/// The distribution of observed values.
#[derive(Debug)]
pub struct Histogram {
    buckets: &'static Buckets,
    /// The observations of each bucket alone, not of those below it.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new(buckets: &'static Buckets) -> Self {
        let counts = (0..=buckets.bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { buckets, counts, sum: AtomicU64::new(0) }
    }

    /// Adds a value.
    pub fn observe(&self, value: u64) {
        let at = self.buckets.bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Adds to `counts`, one for each bucket, how many observations that bucket alone has so far.
    pub fn add_counts(&self, counts: &mut [u64]) {
        for (sum, count) in counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Relaxed);
        }
    }

    /// Returns the sum of all values observed so far.
    pub fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    /// Returns the distribution so far.
    pub fn value(&self) -> SampleValue {
        let scale = self.buckets.scale as f64;
        let mut total = 0;
        let counts = self.counts.iter().map(|count| {
            total += count.load(Relaxed);
            total
        });
        SampleValue::Distribution {
            bounds: self.buckets.bounds.iter().map(|bound| *bound as f64 / scale).collect(),
            counts: counts.collect(),
            sum: self.sum.load(Relaxed) as f64 / scale,
        }
    }
}

/// All samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name with its unit, without the suffixes `_total` and `_info`.
    pub name: &'static str,
    /// A sentence without a full stop.
    pub help: &'static str,
    /// What the samples are.
    pub kind: FamilyKind,
    /// The samples; no two have the same labels.
    pub samples: Vec<Sample>,
}

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// Numbers that only grow.
    Counter,
    /// Numbers that go up and down.
    Gauge,
    /// Distributions.
    Histogram,
    /// Constant labels; the value is 1.
    Info,
}

/// A value with its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Names and values of the labels. Values come from the code, never from requests, so that
    /// their number is bounded.
    pub labels: Vec<Label>,
    pub value: SampleValue,
}

/// The name and the value of a label.
pub type Label = (&'static str, Cow<'static, str>);

/// The value of a sample.
#[derive(Clone, Debug)]
pub enum SampleValue {
    Number(f64),
    Distribution {
        /// The upper bounds of the buckets but the last.
        bounds: Vec<f64>,
        /// For each bucket, the last included, the observations in it and in those below.
        counts: Vec<u64>,
        /// The sum of all observations.
        sum: f64,
    },
}

impl Family {
    /// Returns a family with one sample without labels.
    pub fn single(
        name: &'static str,
        help: &'static str,
        kind: FamilyKind,
        value: SampleValue,
    ) -> Self {
        Family { name, help, kind, samples: vec![Sample { labels: Vec::new(), value }] }
    }

    /// Returns a counter without labels.
    pub fn counter(name: &'static str, help: &'static str, counter: &Counter) -> Self {
        let value = SampleValue::Number(counter.value() as f64);
        Self::single(name, help, FamilyKind::Counter, value)
    }

    /// Returns a gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self::single(name, help, FamilyKind::Gauge, SampleValue::Number(value))
    }

    /// Returns a histogram without labels.
    pub fn histogram(name: &'static str, help: &'static str, histogram: &Histogram) -> Self {
        Self::single(name, help, FamilyKind::Histogram, histogram.value())
    }

    /// Returns a family with a sample for each value of one label.
    pub fn by_label(
        name: &'static str,
        help: &'static str,
        kind: FamilyKind,
        label: &'static str,
        values: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> Self {
        let samples = values.into_iter().map(|(labelled, value)| Sample {
            labels: vec![(label, labelled.into())],
            value: SampleValue::Number(value as f64),
        });
        Family { name, help, kind, samples: samples.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_a_value_in_its_bucket_and_all_above() {
        static MILLIS: Buckets = Buckets { bounds: &[1, 5, 10], scale: 1000 };
        let histogram = Histogram::new(&MILLIS);
        for value in [0, 1, 2, 5, 11] {
            histogram.observe(value);
        }
        let SampleValue::Distribution { bounds, counts, sum } = histogram.value() else { panic!() };
        assert_eq!(bounds, [0.001, 0.005, 0.01]);
        assert_eq!(counts, [2, 4, 4, 5]);
        assert_eq!(sum, 0.019);
    }

    #[test]
    fn a_quantile_is_estimated_within_its_bucket() {
        static MILLIS: Buckets = Buckets { bounds: &[10, 20, 50], scale: 1000 };
        let of = |counts: [u64; 4], share| MILLIS.quantile(&counts, share);
        assert_eq!(of([0, 0, 0, 0], 0.5), None);
        assert_eq!(of([4, 0, 0, 0], 0.5), Some(0.005));
        assert_eq!(of([1, 0, 1, 0], 0.5), Some(0.01));
        assert_eq!(of([1, 0, 1, 0], 0.75), Some(0.035));
        assert_eq!(of([98, 1, 1, 0], 0.99), Some(0.02));
        assert_eq!(of([0, 0, 0, 3], 0.5), Some(0.05), "nothing is known above the bounds");
        let histogram = Histogram::new(&MILLIS);
        for value in [5, 15, 15, 99] {
            histogram.observe(value);
        }
        let mut counts = [1, 0, 0, 0];
        histogram.add_counts(&mut counts);
        assert_eq!((counts, histogram.sum()), ([2, 2, 0, 1], 134));
    }

    #[test]
    fn a_gauge_counts_its_guards() {
        let gauge = Gauge::default();
        let (one, two) = (gauge.hold(), gauge.hold());
        assert_eq!(gauge.value(), 2);
        drop(one);
        assert_eq!(gauge.value(), 1);
        drop(two);
        assert_eq!(gauge.value(), 0);
    }
}
