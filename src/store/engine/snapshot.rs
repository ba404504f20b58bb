//! A state to read at, as an engine gives it to those who wait for it without holding up a thread.

use std::pin::Pin;
use std::sync::Arc;

use super::Reader;
use crate::base::Result;

/// A state to read at that has to be waited for.
pub type PendingReader = Pin<Box<dyn Future<Output = Result<Arc<dyn Reader>>> + Send>>;

/// A state to read at, perhaps on its way. An engine in this process has one at once, which costs
/// nothing; one over several machines may have to ask the others for theirs.
pub enum Snapshot {
    /// It is here.
    Ready(Arc<dyn Reader>),
    /// It comes.
    Pending(PendingReader),
}

impl Snapshot {
    /// Waits for it, if need be.
    ///
    /// # Errors
    /// 503 if there is none to be had.
    pub async fn wait(self) -> Result<Arc<dyn Reader>> {
        match self {
            Snapshot::Ready(reader) => Ok(reader),
            Snapshot::Pending(reader) => reader.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::store::engine::{LocalStorage, Memory};

    #[tokio::test]
    async fn a_snapshot_that_is_on_its_way_is_waited_for() {
        let reader = Memory::default().snapshot().unwrap();
        let (send, here) = oneshot::channel::<Arc<dyn Reader>>();
        let pending = async move { Ok(here.await.expect("it is sent")) };
        let mut waiting = Box::pin(Snapshot::Pending(Box::pin(pending)).wait());
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("there is none yet"),
            () = std::future::ready(()) => {}
        }
        assert!(send.send(reader).is_ok());
        assert!(waiting.await.is_ok());
    }
}
