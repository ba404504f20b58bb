//! Admission to what only a few may do at a time: costly work, slots, calls, checks.
//!
//! Who asks has two keys, a person and an organization, or an address and its network. There are bounds of
//! those that are admitted, of those that wait, in all and with the same key, and of how long one waits. Those
//! that wait take turns by both keys: with turns between organizations alone, a person of many organizations
//! has many turns; with turns between persons alone, an organization of many persons does. Who may be
//! admitted next is searched among all that wait, which is too slow for the writer's thousands a second: its
//! queue is a `FairQueue`.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::engine::Lane;
use crate::base::metrics::Counter;
use crate::base::{Error, Result};

/// Bytes that all hold who wait: requests hold their bodies while they do. Nobody is refused by them while
/// nobody waits.
const MAX_BYTES: usize = 64 << 20;

/// Those of one key: as many large bodies as a team of agents sends at once.
const MAX_BYTES_OF_ONE: usize = 32 << 20;

/// Costly work over a remote engine mostly waits for it, on one of six connections. Two are left to those
/// that cannot wait for a turn.
const REMOTE_HEAVY: usize = 4;

/// Costly work of the process. The number that waits is bounded as the writer's queue is: more would only
/// wait longer, and clients of HTTP rarely do.
pub fn heavy(is_remote: bool) -> Admission<Lane> {
    Admission::new(AdmissionLimits {
        admitted: max_heavy(is_remote),
        admitted_of_one: [usize::MAX; 2],
        waiting: 512,
        waiting_of_one: [128; 2],
        wait: Duration::from_secs(30),
        refusal: || Error::busy("overloaded", "too much large work is waiting", 1),
    })
}

/// How many pieces of costly work run at a time: one on every processor but one, which is left to
/// light requests.
pub fn max_heavy(is_remote: bool) -> usize {
    if is_remote {
        return REMOTE_HEAVY;
    }
    std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1)
}

/// How many are admitted and how many wait. What is `of_one` is of those with the same first key, and of those
/// with the same second key.
#[derive(Clone, Copy)]
pub struct AdmissionLimits {
    /// Those admitted at a time.
    pub admitted: usize,
    pub admitted_of_one: [usize; 2],
    /// Those that wait.
    pub waiting: usize,
    pub waiting_of_one: [usize; 2],
    /// Maximum wait.
    pub wait: Duration,
    /// What is told who was not admitted in time, or could not wait.
    pub refusal: fn() -> Error,
}

/// How many are admitted now and how many wait, and how many were refused so far.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionFigures {
    pub admitted: u64,
    pub waiting: u64,
    pub refused: u64,
}

/// Admits as many as its limits allow.
pub struct Admission<K: Copy + Eq + Hash>(Arc<Inner<K>>);

struct Inner<K: Copy + Eq + Hash> {
    limits: AdmissionLimits,
    refused: Counter,
    state: Mutex<State<K>>,
}

/// What was admitted, until this is dropped.
pub struct Permit<K: Copy + Eq + Hash>(Option<(Arc<Inner<K>>, [K; 2])>);

struct State<K: Copy + Eq + Hash> {
    admitted: usize,
    /// Who waits, the one that has waited longest first.
    waiting: VecDeque<Waiter<K>>,
    /// Those that are admitted or wait, by either key.
    sharers: [HashMap<K, Sharer>; 2],
    /// The turns that were given.
    turns: u64,
    bytes: usize,
    /// The number of the last that began to wait.
    number: u64,
}

struct Waiter<K: Copy + Eq + Hash> {
    keys: [K; 2],
    bytes: usize,
    number: u64,
    sender: oneshot::Sender<Permit<K>>,
}

#[derive(Default)]
struct Sharer {
    admitted: usize,
    waiting: usize,
    bytes: usize,
    /// Its last turn since it began to wait; before that, the last turn that was given to anyone: a
    /// newcomer comes after those that have waited longer.
    last_turn: u64,
}

/// A place among those that wait, which is left when this is dropped.
struct Place<'a, K: Copy + Eq + Hash>(&'a Inner<K>, u64);

impl<K: Copy + Eq + Hash> Admission<K> {
    /// Nobody is admitted yet.
    pub fn new(limits: AdmissionLimits) -> Self {
        let state = State {
            admitted: 0,
            waiting: VecDeque::new(),
            sharers: [HashMap::new(), HashMap::new()],
            turns: 0,
            bytes: 0,
            number: 0,
        };
        Admission(Arc::new(Inner { limits, refused: Counter::new(), state: Mutex::new(state) }))
    }

    /// Waits to be admitted with these keys, holding so many bytes.
    ///
    /// # Errors
    /// The refusal when as many wait, or as many bytes, as may in all or with one of the keys, or after
    /// the maximum wait.
    pub async fn enter(&self, keys: [K; 2], bytes: usize) -> Result<Permit<K>> {
        let Admission(inner) = self;
        let (number, receiver) = {
            let mut state = inner.lock();
            if state.has_room(&inner.limits, &keys) {
                state.admit(&keys);
                return Ok(Permit(Some((inner.clone(), keys))));
            }
            if !state.has_place(&inner.limits, &keys, bytes) {
                return Err(inner.refusal());
            }
            let (sender, receiver) = oneshot::channel();
            (state.push(keys, bytes, sender), receiver)
        };
        let _place = Place(inner, number);
        // A permit that was sent and not received is dropped with the channel, and passed on.
        let admitted = timeout(inner.limits.wait, receiver).await;
        admitted.ok().and_then(|admitted| admitted.ok()).ok_or_else(|| inner.refusal())
    }

    /// What the metrics show of it.
    pub fn figures(&self) -> AdmissionFigures {
        let state = self.0.lock();
        let (admitted, waiting) = (state.admitted as u64, state.waiting.len() as u64);
        AdmissionFigures { admitted, waiting, refused: self.0.refused.value() }
    }
}

impl<K: Copy + Eq + Hash> Inner<K> {
    fn refusal(&self) -> Error {
        self.refused.add_one();
        (self.limits.refusal)()
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().expect("no thread panics while holding it")
    }
}

impl<K: Copy + Eq + Hash> State<K> {
    /// Whether one with these keys may be admitted.
    fn has_room(&self, limits: &AdmissionLimits, keys: &[K; 2]) -> bool {
        let has_room = |(sharer, most): (Option<&Sharer>, usize)| {
            sharer.is_none_or(|sharer| sharer.admitted < most)
        };
        self.admitted < limits.admitted
            && self.sharers_of(keys).zip(limits.admitted_of_one).all(has_room)
    }

    /// Whether one with these keys and so many bytes may wait.
    fn has_place(&self, limits: &AdmissionLimits, keys: &[K; 2], bytes: usize) -> bool {
        let has_place = |(sharer, most): (Option<&Sharer>, usize)| {
            sharer.filter(|sharer| sharer.waiting > 0).is_none_or(|sharer| {
                sharer.waiting < most && sharer.bytes + bytes <= MAX_BYTES_OF_ONE
            })
        };
        self.waiting.len() < limits.waiting
            && (self.waiting.is_empty() || self.bytes + bytes <= MAX_BYTES)
            && self.sharers_of(keys).zip(limits.waiting_of_one).all(has_place)
    }

    fn sharers_of(&self, keys: &[K; 2]) -> impl Iterator<Item = Option<&Sharer>> {
        self.sharers.iter().zip(keys).map(|(sharers, key)| sharers.get(key))
    }

    /// Changes the sharers with these keys, and forgets those that have nothing any more.
    fn change(&mut self, keys: &[K; 2], change: impl Fn(&mut Sharer)) {
        for (sharers, key) in self.sharers.iter_mut().zip(keys) {
            let sharer = sharers.entry(*key).or_default();
            change(sharer);
            if sharer.admitted == 0 && sharer.waiting == 0 {
                sharers.remove(key);
            }
        }
    }

    fn admit(&mut self, keys: &[K; 2]) {
        self.admitted += 1;
        self.change(keys, |sharer| sharer.admitted += 1);
    }

    fn free(&mut self, keys: &[K; 2]) {
        self.admitted -= 1;
        self.change(keys, |sharer| sharer.admitted -= 1);
    }

    /// Appends one that waits; returns its number.
    fn push(&mut self, keys: [K; 2], bytes: usize, sender: oneshot::Sender<Permit<K>>) -> u64 {
        let turns = self.turns;
        self.change(&keys, |sharer| {
            if sharer.waiting == 0 {
                sharer.last_turn = turns;
            }
            sharer.waiting += 1;
            sharer.bytes += bytes;
        });
        self.bytes += bytes;
        self.number += 1;
        self.waiting.push_back(Waiter { keys, bytes, number: self.number, sender });
        self.number
    }

    /// Removes one of those that wait, if it is there still.
    fn remove(&mut self, at: usize) -> Option<Waiter<K>> {
        let waiter = self.waiting.remove(at)?;
        self.bytes -= waiter.bytes;
        self.change(&waiter.keys, |sharer| {
            sharer.waiting -= 1;
            sharer.bytes -= waiter.bytes;
        });
        Some(waiter)
    }

    /// Admits the next of those that may be: the one for which the later of its two sharers' last turns is
    /// the earliest; then the one that has waited longest.
    fn next(&mut self, limits: &AdmissionLimits) -> Option<Waiter<K>> {
        let last_turns = |at: &usize| {
            let of = |sharer: Option<&Sharer>| sharer.map_or(0, |sharer| sharer.last_turn);
            let mut turns = self.sharers_of(&self.waiting[*at].keys).map(of);
            let (first, second) = (turns.next(), turns.next());
            (first.max(second), first.min(second))
        };
        // No more wait than the limits allow, and what they wait for takes much longer than this.
        let may =
            (0..self.waiting.len()).filter(|at| self.has_room(limits, &self.waiting[*at].keys));
        let next = may.min_by_key(last_turns)?;
        let waiter = self.remove(next)?;
        self.turns += 1;
        let turn = self.turns;
        self.change(&waiter.keys, |sharer| {
            sharer.admitted += 1;
            sharer.last_turn = turn;
        });
        self.admitted += 1;
        Some(waiter)
    }
}

impl<K: Copy + Eq + Hash> Drop for Permit<K> {
    /// Frees what it held, and admits those that may be then: several, if they waited for different keys.
    fn drop(&mut self) {
        let Some((inner, keys)) = self.0.take() else { return };
        let mut freed = Some(keys);
        loop {
            let next = {
                let mut state = inner.lock();
                if let Some(keys) = freed.take() {
                    state.free(&keys);
                }
                state.next(&inner.limits)
            };
            let Some(Waiter { keys, sender, .. }) = next else { return };
            if let Err(mut permit) = sender.send(Permit(Some((inner.clone(), keys)))) {
                // The waiter is gone. What it would have got is freed here, not by its own drop.
                freed = permit.0.take().map(|(_, keys)| keys);
            }
        }
    }
}

impl<K: Copy + Eq + Hash> Drop for Place<'_, K> {
    fn drop(&mut self) {
        let Place(inner, number) = self;
        // Its channel is dropped outside of the lock.
        let _left = {
            let mut state = inner.lock();
            let at = state.waiting.binary_search_by_key(number, |waiter| waiter.number);
            at.ok().and_then(|at| state.remove(at))
        };
    }
}

#[cfg(test)]
mod tests;
