//! Connections that are kept for further calls to the same server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connect::{Connection, Target};

/// How long a connection may be idle and still be used again. Shorter than servers and proxies keep
/// one, so that none is closed while a request is on its way.
const MAX_IDLE: Duration = Duration::from_secs(4);

/// The connections that are kept: more calls at once would only queue at most servers.
const MAX_KEPT: usize = 8;

/// Connections without a request in flight.
#[derive(Default)]
pub struct IdleConnections(Mutex<Vec<IdleConnection>>);

struct IdleConnection {
    /// Host, port and whether it is encrypted.
    server: (String, u16, bool),
    since: Instant,
    connection: Connection,
}

impl IdleConnections {
    /// The connection to a server that was used last, if it was used a moment ago.
    pub fn take(&self, target: &Target) -> Option<Connection> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| kept.since.elapsed() < MAX_IDLE);
        let at = idle.iter().rposition(|kept| kept.server == target.server())?;
        Some(idle.remove(at).connection)
    }

    /// Keeps a connection whose last answer was read to its end.
    pub fn keep(&self, target: &Target, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_KEPT {
            let (server, since) = (target.server(), Instant::now());
            idle.push(IdleConnection { server, since, connection });
        }
    }
}
