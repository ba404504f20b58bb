//! A semaphore whose waiters take turns by user and organization.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::WorkHints;
use super::engine::Bounds;
use super::turn_queue::TurnQueue;
use crate::base::{Error, Result};

/// The number of waiters is bounded as the writer's queue is: more would only wait longer. Their
/// bytes are bounded because requests hold their bodies while they wait; one user or organization may
/// have as many large bodies waiting as a team of agents sends at once.
const WAITING: Bounds =
    Bounds { items: 512, lane_items: 128, bytes: 64 << 20, lane_bytes: 32 << 20 };

/// How long a permit is waited for: clients of HTTP rarely wait longer.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A fixed number of permits. While none is free, callers wait; their users and organizations take
/// turns (see [`TurnQueue`]).
pub struct FairSemaphore(Mutex<State>);

/// Costly work over a remote engine mostly waits for it, on one of six connections. Two are left to those
/// that cannot wait for a turn.
const REMOTE_HEAVY: usize = 4;

/// How many pieces of costly work run at a time: one on every processor but one, which is left to
/// light requests.
pub fn max_heavy(is_remote: bool) -> usize {
    if is_remote {
        return REMOTE_HEAVY;
    }
    std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1)
}

struct State {
    free: usize,
    waiting: TurnQueue<oneshot::Sender<Permit>>,
}

/// A permit, held until it is dropped.
pub struct Permit(Option<Arc<FairSemaphore>>);

impl FairSemaphore {
    /// Creates a semaphore with so many permits.
    pub fn new(permits: usize) -> Self {
        FairSemaphore::with_waiting(permits, WAITING)
    }

    /// Creates a semaphore with so many permits, for which no more than this may wait.
    pub fn with_waiting(permits: usize, waiting: Bounds) -> Self {
        FairSemaphore(Mutex::new(State { free: permits, waiting: TurnQueue::new(waiting) }))
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// 503 when as many callers or bytes wait as may, in all, of this user or in this lane, or after
    /// [`MAX_WAIT`].
    pub async fn acquire(self: &Arc<Self>, hints: WorkHints) -> Result<Permit> {
        let full = || Error::busy("overloaded", "too much large work is waiting", 1);
        let receiver = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Permit(Some(self.clone())));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push(hints, sender).map_err(|_| full())?;
            receiver
        };
        let Ok(permit) = timeout(MAX_WAIT, receiver).await else { return Err(full()) };
        permit.map_err(|_| Error::internal("a waiter was dropped without a permit"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while holding it")
    }
}

impl Drop for Permit {
    /// Passes the permit to the next waiter, or frees it.
    fn drop(&mut self) {
        let Some(semaphore) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = semaphore.lock();
                let next = state.waiting.pop();
                state.free += usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            match next.send(Permit(Some(semaphore.clone()))) {
                Ok(()) => return,
                // The waiter is gone. The returned permit is disarmed, so that dropping it does
                // not pass it on a second time.
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::ZERO, future).await.ok()
    }

    fn one_of(lane: u8) -> WorkHints {
        WorkHints::of_lane([lane; 16])
    }

    #[tokio::test]
    async fn permits_alternate_between_lanes_and_skip_dropped_waiters() {
        let semaphore = Arc::new(FairSemaphore::new(1));
        let first = semaphore.acquire(one_of(1)).await.unwrap();
        let mut waiting = Vec::new();
        for lane in [1, 1, 2] {
            let mut permit = Box::pin(semaphore.acquire(one_of(lane)));
            assert!(soon(&mut permit).await.is_none());
            waiting.push(permit);
        }
        drop(waiting.remove(0));
        drop(first);
        assert!(soon(&mut waiting[0]).await.is_none(), "it is the other lane's turn");
        let other = soon(&mut waiting[1]).await;
        assert!(other.is_some());
        drop(other);
        let last = soon(&mut waiting[0]).await;
        assert!(last.is_some());
        assert_eq!(semaphore.lock().free, 0);
        drop(last);
        assert_eq!(semaphore.lock().free, 1);
    }

    #[tokio::test]
    async fn all_permits_are_free_again_once_every_waiter_has_left() {
        let semaphore = Arc::new(FairSemaphore::new(2));
        let (one, two) = (
            semaphore.acquire(one_of(1)).await.unwrap(),
            semaphore.acquire(one_of(1)).await.unwrap(),
        );
        let mut late = Box::pin(semaphore.acquire(one_of(1)));
        assert!(soon(&mut late).await.is_none());
        drop(late);
        drop((one, two));
        assert_eq!(semaphore.lock().free, 2);
    }
}
