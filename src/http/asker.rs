//! Who awaits the answer to a request.

use std::sync::Arc;

use hyper::http::request::Parts;
use tokio::sync::Notify;

use super::connection_state::ConnectionState;

/// Who awaits the answer to a request: among the extensions of its head.
#[derive(Clone)]
pub enum Asker {
    /// A connection of HTTP/1.1.
    Connection(ConnectionState),
    /// A stream of HTTP/2, which is told if the request waits.
    Stream(Arc<Notify>),
}

impl Asker {
    /// Returns who awaits the answer to the request with this head.
    pub fn of(head: &Parts) -> Option<&Self> {
        head.extensions.get()
    }

    /// The request begins to wait, which is pointless once nobody awaits its answer.
    pub fn wait(&self) {
        match self {
            Asker::Connection(progress) => progress.wait(),
            Asker::Stream(waits) => waits.notify_one(),
        }
    }
}
