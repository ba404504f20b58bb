//! Work that blocks its thread, on a task.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs work that may take long, while the other tasks of this thread move to another one.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        // A runtime of a single thread has nowhere to move them; the server never has one.
        _ => work(),
    }
}
