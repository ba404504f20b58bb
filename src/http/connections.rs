//! The limit of connections, and who may hold how many of them.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use tokio::net::TcpStream;

use super::context::ServerContext;
use super::fair_budget::{FairBudget, Share};
use super::wire;
use crate::base::{Error, LogLimit, address_block};

/// Limit of connections: idle ones take some 30 MB together, with TLS, which keeps some 13 KB of each, some
/// 240 MB, twice that if each has sent a part of a record, and those in use what their requests may take.
const MAX_CONNECTIONS: usize = 16_384;

/// Returns the limit of connections of a process that may open `files`: a quarter of them is left
/// for the database and for outgoing calls.
pub fn max_connections(files: u64) -> usize {
    usize::try_from(files - files / 4).unwrap_or(usize::MAX).min(MAX_CONNECTIONS)
}

/// The place of a connection.
pub type Place = Share<IpAddr>;

/// The places for connections, of which each client address gets a share ([`FairBudget`]): one
/// address alone three quarters. That is enough for a proxy that `--trusted-proxy` does not name;
/// for one that it does name only the number of all connections counts.
pub struct Places {
    places: FairBudget<IpAddr>,
    proxies: Vec<IpNet>,
}

impl Places {
    /// The places for all connections of a server.
    pub fn new(context: &ServerContext) -> Self {
        Places {
            places: FairBudget::new(context.max_connections),
            proxies: context.trusted_proxies.clone(),
        }
    }

    /// Takes a place for a connection, or closes it: one that is not encrypted with a 503.
    pub fn admit(
        &self,
        stream: TcpStream,
        peer: IpAddr,
        is_plain: bool,
    ) -> Option<(TcpStream, Place)> {
        static LIMIT: LogLimit = LogLimit::new();
        let address = peer.to_canonical();
        let is_proxy = self.proxies.iter().any(|network| network.contains(&address));
        let key = (!is_proxy).then(|| address_block(address));
        if let Some(place) = self.places.try_take(key, 1) {
            return Some((stream, place));
        }
        // Written at once, without waiting: the socket's buffer is empty, so the answer fits.
        if is_plain && let Ok(mut stream) = stream.into_std() {
            let _ = stream.write_all(&wire::raw_answer(&too_many()));
        }
        if let Some(suppressed) = LIMIT.admit(Instant::now()) {
            tracing::warn!(%peer, suppressed, "a connection was refused: there are too many");
        }
        None
    }
}

fn too_many() -> Error {
    Error::busy(
        "too_many_connections",
        "too many connections are open; close some, or use one for several requests",
        5,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_files_is_left_for_others() {
        let table = [(128, 96), (1024, 768), (20_000, 15_000), (1 << 20, 16_384)];
        for (files, connections) in table {
            assert_eq!(max_connections(files), connections);
        }
        assert_eq!(max_connections(u64::MAX), 16_384);
    }
}
