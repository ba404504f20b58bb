//! A semaphore whose waiters are served in turns between organizations.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use super::engine::{Bounds, FairQueue, Lane};
use crate::base::{Error, Result};

/// Who waits is bounded as the writer's queue is: more would only wait longer.
const WAITING: Bounds =
    Bounds { items: 512, lane_items: 128, bytes: usize::MAX, lane_bytes: usize::MAX };

/// A number of places. Whoever finds none free waits; a lane's next place comes after one for each
/// other lane that waits.
pub struct Turns(Mutex<Places>);

struct Places {
    free: usize,
    waiting: FairQueue<oneshot::Sender<Turn>>,
}

/// A place, taken until this is dropped.
pub struct Turn(Option<Arc<Turns>>);

impl Turns {
    /// So many places.
    pub fn new(places: usize) -> Self {
        Turns(Mutex::new(Places { free: places, waiting: FairQueue::new(WAITING) }))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// 503 when too many wait.
    pub async fn turn(self: &Arc<Self>, lane: Lane) -> Result<Turn> {
        let coming = {
            let mut places = self.lock();
            if places.free > 0 {
                places.free -= 1;
                return Ok(Turn(Some(self.clone())));
            }
            let (sender, coming) = oneshot::channel();
            let full = || Error::busy("overloaded", "too much large work is waiting", 1);
            places.waiting.push(lane, 0, sender).map_err(|_| full())?;
            coming
        };
        coming.await.map_err(|_| Error::internal("a place was given to nobody"))
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().expect("nobody panics holding it")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut places = turns.lock();
                let next = places.waiting.pop();
                places.free += usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            match next.send(Turn(Some(turns.clone()))) {
                Ok(()) => return,
                // Who waited has left. What comes back is not dropped as a place would be.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn places_go_round_between_lanes_and_not_to_those_who_left() {
        let turns = Arc::new(Turns::new(1));
        let first = turns.turn([1; 16]).await.unwrap();
        let mut waiting = Vec::new();
        for lane in [1, 1, 2] {
            let mut turn = Box::pin(turns.turn([lane; 16]));
            assert!(soon(&mut turn).await.is_none());
            waiting.push(turn);
        }
        drop(waiting.remove(0));
        drop(first);
        assert!(soon(&mut waiting[0]).await.is_none(), "it is the other lane's turn");
        let other = soon(&mut waiting[1]).await;
        assert!(other.is_some());
        drop(other);
        let last = soon(&mut waiting[0]).await;
        assert!(last.is_some());
        assert_eq!(turns.lock().free, 0);
        drop(last);
        assert_eq!(turns.lock().free, 1);
    }

    #[tokio::test]
    async fn all_places_are_free_again_once_everybody_has_left() {
        let turns = Arc::new(Turns::new(2));
        let (one, two) = (turns.turn([1; 16]).await.unwrap(), turns.turn([1; 16]).await.unwrap());
        let mut late = Box::pin(turns.turn([1; 16]));
        assert!(soon(&mut late).await.is_none());
        drop(late);
        drop((one, two));
        assert_eq!(turns.lock().free, 2);
    }
}
