//! A server in the process of a test, on a runtime of its own.

use std::net::SocketAddr;
use std::thread;

use roadstead::app::{Server, ServerConfig};
use roadstead::store::Store;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::server_log::Watch;

/// A running server. Dropping it stops it as SIGTERM does: with its runtime gone, tasks that wait for
/// the store could not go on.
pub struct InProcess {
    pub address: SocketAddr,
    server: Option<Server>,
    runtime: Runtime,
    // Dropped last.
    _watch: Watch,
}

impl InProcess {
    /// Serves a store at this address.
    pub fn serve(store: Store, at: &str, config: ServerConfig) -> Self {
        let _watch = Watch::new();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(at)).unwrap();
        let server = {
            let _within = runtime.enter();
            Server::start(store, listener, config).unwrap()
        };
        InProcess { address: server.address, server: Some(server), runtime, _watch }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        if let Some(server) = self.server.take().filter(|_| !thread::panicking()) {
            self.runtime.block_on(server.stop());
        }
    }
}
