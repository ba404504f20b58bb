//! A server in the process of a test, on a runtime of its own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use roadstead::app::{Server, ServerConfig};
use roadstead::store::Store;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::calls;
use super::server_log::Watch;

/// A running server. Dropping it stops it as SIGTERM does: with its runtime gone, tasks that wait for
/// the store could not go on.
pub struct InProcess {
    pub address: SocketAddr,
    /// The name of its threads.
    threads: String,
    server: Option<Server>,
    runtime: Runtime,
    // Dropped last.
    _watch: Watch,
}

impl InProcess {
    /// Serves a store at this address.
    pub fn serve(store: Store, at: &str, config: ServerConfig) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let _watch = Watch::new();
        let threads = format!("server-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name(&threads).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(at)).unwrap();
        let server = {
            let _within = runtime.enter();
            Server::start(store, listener, config).unwrap()
        };
        InProcess { address: server.address, threads, server: Some(server), runtime, _watch }
    }

    /// The routes that its pages have called.
    pub fn calls(&self) -> BTreeSet<String> {
        calls::of(&self.threads)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        if let Some(server) = self.server.take().filter(|_| !thread::panicking()) {
            self.runtime.block_on(server.stop());
        }
    }
}
