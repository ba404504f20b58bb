//! The answers stored for requests with an `Idempotency-Key`, by credential (reference: conventions,
//! "Idempotency").
//!
//! They are counted in memory, from the start of the process on: a row with the count would be read
//! and written by every such request of a credential, and make all of them conflict.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use crate::api::idempotency::RETENTION_SECS;
use crate::base::Time;

/// Limit of the stored answers of one credential, in bytes: thousands of usual ones a day, and few
/// enough that many credentials do not fill a disk.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Stored answers are counted by the hour: they are counted until up to an hour after they expire.
const PERIOD_SECS: i64 = 3600;

/// The bytes of the stored answers of each credential.
#[derive(Default)]
pub struct AnswerQuota(Mutex<HashMap<[u8; 32], Stored>>);

#[derive(Default)]
struct Stored {
    total: usize,
    /// The bytes of each period, oldest first.
    periods: VecDeque<(i64, usize)>,
}

impl Stored {
    fn expire(&mut self, now: Time) {
        let end = period(now.minus_secs(RETENTION_SECS));
        while let Some((_, bytes)) = self.periods.front().filter(|(period, _)| *period < end) {
            self.total -= bytes;
            self.periods.pop_front();
        }
    }
}

fn period(time: Time) -> i64 {
    time.millis() / 1000 / PERIOD_SECS
}

impl AnswerQuota {
    /// Returns how many more bytes may be stored for this credential.
    pub fn room(&self, credential: &[u8; 32], now: Time) -> usize {
        let mut all = self.0.lock().expect("no code panics while holding the lock");
        let Some(stored) = all.get_mut(credential) else { return MAX_BYTES };
        stored.expire(now);
        MAX_BYTES.saturating_sub(stored.total)
    }

    /// Counts a stored answer.
    pub fn add(&self, credential: [u8; 32], bytes: usize, now: Time) {
        let mut all = self.0.lock().expect("no code panics while holding the lock");
        let stored = all.entry(credential).or_default();
        stored.total += bytes;
        match stored.periods.back_mut() {
            Some((last, sum)) if *last == period(now) => *sum += bytes,
            _ => stored.periods.push_back((period(now), bytes)),
        }
    }

    /// Forgets credentials whose stored answers have expired.
    pub fn evict_expired(&self, now: Time) {
        let mut all = self.0.lock().expect("no code panics while holding the lock");
        all.retain(|_, stored| {
            stored.expire(now);
            stored.total > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: [u8; 32] = [1; 32];

    #[test]
    fn a_credential_may_have_64_mib_of_answers_within_a_day() {
        let quota = AnswerQuota::default();
        let start = Time::from_millis(1_800_000_000_000);
        let after = |secs| start.plus_secs(secs);
        assert_eq!(quota.room(&ADA, start), MAX_BYTES);
        quota.add(ADA, MAX_BYTES - 10, start);
        quota.add(ADA, 4, after(2 * PERIOD_SECS));
        quota.add(ADA, 5, after(2 * PERIOD_SECS));
        assert_eq!(quota.room(&ADA, after(3 * PERIOD_SECS)), 1);
        quota.add(ADA, 5, after(3 * PERIOD_SECS));
        assert_eq!(quota.room(&ADA, after(RETENTION_SECS)), 0);
        assert_eq!(quota.room(&[2; 32], after(RETENTION_SECS)), MAX_BYTES);
        assert_eq!(quota.room(&ADA, after(RETENTION_SECS + PERIOD_SECS)), MAX_BYTES - 14);
        quota.evict_expired(after(RETENTION_SECS + 3 * PERIOD_SECS));
        assert_eq!(quota.0.lock().unwrap()[&ADA].total, 5);
        quota.evict_expired(after(RETENTION_SECS + 4 * PERIOD_SECS));
        assert!(quota.0.lock().unwrap().is_empty());
    }
}
