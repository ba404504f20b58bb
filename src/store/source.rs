//! Where transactions get time, ids and randomness from: the one seam to them, so that tests can
//! say what time it is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use uuid::Uuid;

use crate::base::Time;

/// Time, ids and randomness.
pub struct Moment {
    /// In tests, the milliseconds it is; the system's clock otherwise.
    fixed: Option<AtomicI64>,
    last: Mutex<Last>,
}

/// The last id given out, so that the next is larger even if the clock went back.
#[derive(Clone, Copy, Default)]
struct Last {
    millis: i64,
    counter: u128,
}

/// An id's bits below its time: 12 of `rand_a` and 62 of `rand_b`.
const COUNTER_BITS: u32 = 74;

impl Moment {
    /// The system's clock.
    pub fn system() -> Self {
        Moment { fixed: None, last: Mutex::default() }
    }

    /// A clock that stands still until it is moved, for tests.
    pub fn at(time: Time) -> Self {
        Moment { fixed: Some(AtomicI64::new(time.millis())), last: Mutex::default() }
    }

    /// Moves a clock made by [`Moment::at`].
    pub fn advance_secs(&self, secs: i64) {
        if let Some(fixed) = &self.fixed {
            fixed.fetch_add(secs * 1000, Ordering::SeqCst);
        }
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time::from_millis(match &self.fixed {
            Some(millis) => millis.load(Ordering::SeqCst),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        })
    }

    /// A new UUIDv7, larger than all before it from this process.
    pub fn new_id(&self) -> Uuid {
        let now = self.now().millis();
        let mut last = self.last.lock().expect("nobody panics holding it");
        if now > last.millis {
            // The top bit stays free, so that counting up within the millisecond has room.
            let random = u128::from_be_bytes(self.random()) >> (128 - COUNTER_BITS + 1);
            *last = Last { millis: now, counter: random };
        } else {
            let step = u32::from_be_bytes(self.random());
            last.counter += u128::from(step) + 1;
            if last.counter >> COUNTER_BITS != 0 {
                *last = Last { millis: last.millis + 1, counter: 0 };
            }
        }
        let Last { millis, counter } = *last;
        let time = (u128::from(millis as u64) & 0xFFFF_FFFF_FFFF) << 80;
        let high = (counter >> 62 & 0xFFF) << 64;
        let low = counter & ((1 << 62) - 1);
        Uuid::from_u128(time | 0x7 << 76 | high | 0b10 << 62 | low)
    }

    /// Random bytes that nobody can guess.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        rand::fill(&mut bytes).expect("the system gives random bytes");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuid_v7_and_grow_even_when_the_clock_goes_back() {
        let moment = Moment::at(Time::from_millis(1_700_000_000_000));
        let mut last = moment.new_id();
        assert_eq!(last.get_version_num(), 7);
        assert_eq!(last.get_variant(), uuid::Variant::RFC4122);
        for step in [0, 0, -3600, 0, 7200, 0] {
            moment.advance_secs(step);
            for _ in 0..1000 {
                let next = moment.new_id();
                assert!(next > last);
                last = next;
            }
        }
    }
}
