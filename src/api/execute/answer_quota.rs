//! The answers stored for requests with an `Idempotency-Key`, by credential (reference: conventions,
//! "Idempotency").
//!
//! They are counted in memory, and the sums are written every few seconds and read again at the
//! first use after a start: a sum in the transaction of each request would make all requests of a
//! credential conflict. A crash forgets what was counted within those seconds.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use crate::api::idempotency::{RETENTION_SECS, StoredAnswers};
use crate::base::{Result, Time};

/// Limit of the stored answers of one credential, in bytes: thousands of usual ones a day, and few
/// enough that many credentials do not fill a disk.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Stored answers are counted by the hour: they are counted until up to an hour after they expire.
const PERIOD_MILLIS: i64 = 3_600_000;

/// At most 1,000 sums are written in one transaction; the others follow in the next.
const MAX_WRITTEN: usize = 1000;

/// The bytes of the stored answers of each credential.
#[derive(Default)]
pub struct AnswerQuota(Mutex<HashMap<[u8; 32], Stored>>);

#[derive(Default)]
struct Stored {
    total: u64,
    /// The bytes of each period, oldest first.
    periods: VecDeque<(Time, u64)>,
    /// The first period whose sum is not written.
    unwritten: Option<Time>,
}

impl Stored {
    fn expire(&mut self, now: Time) {
        let end = period(now.minus_secs(RETENTION_SECS));
        while let Some((_, bytes)) = self.periods.front().filter(|(period, _)| *period < end) {
            self.total -= bytes;
            self.periods.pop_front();
        }
        self.forget_ahead(now);
    }

    /// Forgets what was counted while the clock was ahead: it would count until that time is over.
    fn forget_ahead(&mut self, now: Time) {
        let is_ahead = |period: Time| period.is_beyond(now, PERIOD_MILLIS / 1000);
        while let Some((_, bytes)) = self.periods.back().filter(|(period, _)| is_ahead(*period)) {
            self.total -= bytes;
            self.periods.pop_back();
        }
        self.unwritten = self.unwritten.filter(|period| !is_ahead(*period));
    }
}

/// The beginning of the period of a time.
fn period(time: Time) -> Time {
    Time::from_millis(time.millis() - time.millis().rem_euclid(PERIOD_MILLIS))
}

impl AnswerQuota {
    /// Returns how many more bytes may be stored for this credential; `read` returns its written
    /// sums, oldest first.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn room(
        &self,
        credential: &[u8; 32],
        now: Time,
        read: impl FnOnce() -> Result<Vec<StoredAnswers>>,
    ) -> Result<u64> {
        let known = self.all().contains_key(credential);
        let written = if known { Vec::new() } else { read()? };
        let mut all = self.all();
        let stored = all.entry(*credential).or_insert_with(|| {
            let periods: VecDeque<_> = written.iter().map(|sum| (sum.hour, sum.bytes)).collect();
            let total = periods.iter().map(|(_, bytes)| bytes).sum();
            Stored { total, periods, unwritten: None }
        });
        stored.expire(now);
        Ok(MAX_BYTES.saturating_sub(stored.total))
    }

    /// Counts a stored answer of a credential whose [`room`](Self::room) was asked for.
    pub fn add(&self, credential: [u8; 32], bytes: u64, now: Time) {
        let mut all = self.all();
        let stored = all.entry(credential).or_default();
        stored.forget_ahead(now);
        stored.total += bytes;
        // Requests may end in another order than they began.
        let hour = period(now).max(stored.periods.back().map_or(period(now), |(last, _)| *last));
        match stored.periods.back_mut() {
            Some((last, sum)) if *last == hour => *sum += bytes,
            _ => stored.periods.push_back((hour, bytes)),
        }
        stored.unwritten.get_or_insert(hour);
    }

    /// Returns the sums to write now and marks them as written.
    pub fn due(&self) -> Vec<StoredAnswers> {
        let mut due = Vec::new();
        for (credential, stored) in self.all().iter_mut() {
            if due.len() >= MAX_WRITTEN {
                break;
            }
            let Some(first) = stored.unwritten.take() else { continue };
            let changed = stored.periods.iter().filter(|(hour, _)| *hour >= first);
            due.extend(changed.map(|&(hour, bytes)| StoredAnswers {
                credential: *credential,
                hour,
                bytes,
            }));
        }
        due
    }

    /// Marks these sums as not written, after a failed write.
    pub fn restore(&self, due: &[StoredAnswers]) {
        let mut all = self.all();
        for sum in due {
            if let Some(stored) = all.get_mut(&sum.credential) {
                let first = stored.unwritten.map_or(sum.hour, |first| first.min(sum.hour));
                stored.unwritten = Some(first);
            }
        }
    }

    /// Forgets credentials whose stored answers have expired.
    pub fn evict_expired(&self, now: Time) {
        self.all().retain(|_, stored| {
            stored.expire(now);
            stored.total > 0 || stored.unwritten.is_some()
        });
    }

    fn all(&self) -> MutexGuard<'_, HashMap<[u8; 32], Stored>> {
        self.0.lock().expect("no code panics while holding the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: [u8; 32] = [1; 32];
    const PERIOD_SECS: i64 = PERIOD_MILLIS / 1000;

    fn room(quota: &AnswerQuota, credential: &[u8; 32], now: Time) -> u64 {
        quota.room(credential, now, || Ok(Vec::new())).unwrap()
    }

    #[test]
    fn a_credential_may_have_64_mib_of_answers_within_a_day() {
        let quota = AnswerQuota::default();
        let start = Time::from_millis(1_800_000_000_000);
        let after = |secs| start.plus_secs(secs);
        assert_eq!(room(&quota, &ADA, start), MAX_BYTES);
        quota.add(ADA, MAX_BYTES - 10, start);
        quota.add(ADA, 4, after(2 * PERIOD_SECS));
        quota.add(ADA, 5, after(2 * PERIOD_SECS));
        assert_eq!(room(&quota, &ADA, after(3 * PERIOD_SECS)), 1);
        quota.add(ADA, 5, after(3 * PERIOD_SECS));
        assert_eq!(room(&quota, &ADA, after(RETENTION_SECS)), 0);
        assert_eq!(room(&quota, &[2; 32], after(RETENTION_SECS)), MAX_BYTES);
        assert_eq!(room(&quota, &ADA, after(RETENTION_SECS + PERIOD_SECS)), MAX_BYTES - 14);
        quota.due();
        quota.evict_expired(after(RETENTION_SECS + 3 * PERIOD_SECS));
        assert_eq!(quota.all()[&ADA].total, 5);
        quota.evict_expired(after(RETENTION_SECS + 4 * PERIOD_SECS));
        assert!(quota.all().is_empty());
    }

    #[test]
    fn sums_are_due_once_and_read_at_the_first_use() {
        let quota = AnswerQuota::default();
        let start = Time::from_millis(1_800_000_000_000);
        room(&quota, &ADA, start);
        quota.add(ADA, 7, start);
        quota.add(ADA, 1, start.plus_secs(PERIOD_SECS));
        let due = quota.due();
        let sums = |due: &[StoredAnswers]| due.iter().map(|sum| sum.bytes).collect::<Vec<_>>();
        assert_eq!(sums(&due), [7, 1]);
        assert!(quota.due().is_empty());
        quota.restore(&due[1..]);
        quota.add(ADA, 2, start.plus_secs(PERIOD_SECS));
        assert_eq!(sums(&quota.due()), [3]);

        let next = AnswerQuota::default();
        let read = || Ok(due.clone());
        assert_eq!(next.room(&ADA, start.plus_secs(PERIOD_SECS), read).unwrap(), MAX_BYTES - 8);
        let again = next.room(&ADA, start.plus_secs(PERIOD_SECS), || panic!("it is known"));
        assert_eq!(again.unwrap(), MAX_BYTES - 8);
        assert!(next.due().is_empty());
    }

    #[test]
    fn what_was_counted_while_the_clock_was_ahead_does_not_count_once_it_is_right() {
        let (quota, start) = (AnswerQuota::default(), Time::from_millis(0));
        let ahead = start.plus_secs(30 * RETENTION_SECS);
        assert_eq!(room(&quota, &ADA, ahead), MAX_BYTES);
        quota.add(ADA, MAX_BYTES, ahead);
        assert_eq!(room(&quota, &ADA, ahead), 0);
        assert_eq!(room(&quota, &ADA, start), MAX_BYTES);
        quota.add(ADA, 10, start);
        assert_eq!(quota.due().iter().map(|sum| sum.bytes).collect::<Vec<_>>(), [10]);
        // The same after a restart, with the sums that were written.
        let written = StoredAnswers { credential: ADA, hour: period(ahead), bytes: MAX_BYTES };
        let next = AnswerQuota::default();
        assert_eq!(next.room(&ADA, start, || Ok(vec![written])).unwrap(), MAX_BYTES);
    }
}
