//! A snapshot that an async caller can await without blocking a thread.

use std::pin::Pin;
use std::sync::Arc;

use super::Reader;
use crate::base::Result;

/// A future of a snapshot.
pub type PendingReader = Pin<Box<dyn Future<Output = Result<Arc<dyn Reader>>> + Send>>;

/// A future of another snapshot, if there is one soon.
pub type NextReader = Pin<Box<dyn Future<Output = Option<Arc<dyn Reader>>> + Send>>;

/// A snapshot to read at, or a future of one. An engine in this process has one at once, at no cost;
/// one over several machines may have to ask the others for theirs.
pub enum Snapshot {
    /// The snapshot is available.
    Ready(Arc<dyn Reader>),
    /// The snapshot must be awaited.
    Pending(PendingReader),
}

impl Snapshot {
    /// Waits for the snapshot, if it is not available yet.
    ///
    /// # Errors
    /// 503 if none is available.
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
    async fn a_pending_snapshot_is_awaited() {
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
