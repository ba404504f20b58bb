//! Computations of operations, such as finding the stems of a long text: a second at most, which is too
//! long for a transaction and for a thread that serves requests.

use std::sync::Arc;
use std::time::Duration;

use super::slots::{Slot, SlotLimits, Slots};
use crate::api::calls::{Computation, Computed};
use crate::base::{Error, Result};
use crate::store::Lane;

/// Two requests with computations at a time, and one of a user and of an organization. They have slots
/// of their own, since a file that is read, or a pattern that is looked for, takes ten times as long.
const LIMITS: SlotLimits = SlotLimits {
    all: 2,
    of_user: 1,
    of_lane: 1,
    wait: Duration::from_secs(20),
    refusal: || Error::busy("overloaded", "too many documents are being indexed; try again", 5),
};

/// Makes computations.
pub struct Computations(Slots);

impl Default for Computations {
    fn default() -> Self {
        Computations(Slots::new(LIMITS))
    }
}

impl Computations {
    /// Waits for a slot, to be held until the request is answered: the results are in memory until
    /// then.
    ///
    /// # Errors
    /// 503 if none became free in time.
    pub async fn slot(&self, user: Lane, lane: Lane) -> Result<Slot> {
        self.0.take(user, lane).await
    }

    /// Returns the results of these computations, in their order. A dropped request holds its slot until
    /// they end.
    ///
    /// # Errors
    /// 500 if one panics.
    pub async fn make(
        &self,
        slot: Arc<Slot>,
        computations: Vec<Computation>,
    ) -> Result<Vec<Computed>> {
        let made = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            computations.into_iter().map(|compute| compute()).collect()
        });
        made.await.map_err(|e| Error::internal(format!("a computation failed: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn an_organization_computes_one_at_a_time_and_others_beside_it() {
        let computations = Computations::default();
        let slot = Arc::new(computations.slot([1; 16], [9; 16]).await.unwrap());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waits: Computation =
            Box::new(move || Computed { result: Arc::new(ended.recv().is_err()), bytes: 1 });
        let made = Box::pin(computations.make(slot, vec![waits]));
        assert!(soon(made).await.is_none());
        assert!(soon(computations.slot([1; 16], [9; 16])).await.is_none(), "the first one goes on");
        let slot = Arc::new(computations.slot([2; 16], [8; 16]).await.unwrap());
        let next: Computation = Box::new(|| Computed { result: Arc::new(7_u8), bytes: 1 });
        let made = computations.make(slot.clone(), vec![next]).await.unwrap();
        assert_eq!(made[0].result.downcast_ref::<u8>(), Some(&7));
        assert!(soon(computations.slot([2; 16], [8; 16])).await.is_none(), "its result is held");
        drop((slot, end));
        assert!(computations.slot([1; 16], [9; 16]).await.is_ok());
        assert!(computations.slot([2; 16], [8; 16]).await.is_ok());
    }
}
