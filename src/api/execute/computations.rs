//! Computations of operations, such as finding the stems of a long text: a second at most, which is too
//! long for a transaction and for a thread that serves requests.

use std::time::Duration;

use super::slots::{SlotLimits, Slots};
use crate::api::calls::{Computation, WorkResult};
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
    /// Returns the results of these computations of this user in this lane, in their order.
    ///
    /// # Errors
    /// 503 if no slot became free in time; 500 if one panics.
    pub async fn make(
        &self,
        computations: Vec<Computation>,
        (user, lane): (Lane, Lane),
    ) -> Result<Vec<WorkResult>> {
        let slot = self.0.take(user, lane).await?;
        let made = tokio::task::spawn_blocking(move || {
            // A dropped request holds its slot until its computation ends.
            let _slot = slot;
            computations.into_iter().map(|compute| compute()).collect()
        });
        made.await.map_err(|e| Error::internal(format!("a computation failed: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn an_organization_computes_one_at_a_time_and_others_beside_it() {
        let computations = Computations::default();
        let from = ([1; 16], [9; 16]);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waits: Computation = Box::new(move || Arc::new(ended.recv().is_err()));
        let made = Box::pin(computations.make(vec![waits], from));
        assert!(timeout(Duration::ZERO, made).await.is_err());
        let next = || Box::new(|| Arc::new(7_u8) as WorkResult) as Computation;
        let again = computations.make(vec![next()], from);
        assert!(timeout(Duration::ZERO, again).await.is_err(), "the first one goes on");
        let others = computations.make(vec![next()], ([2; 16], [8; 16])).await.unwrap();
        assert_eq!(others[0].downcast_ref::<u8>(), Some(&7));
        drop(end);
        assert_eq!(computations.make(vec![next()], from).await.unwrap().len(), 1);
    }
}
