//! A proxy that cuts connections at their commits: just before the server hears of it, or just
//! after.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::super::postgres::PostgresUrl;
use crate::base::{Error, Result};

/// A proxy on this machine to each host of a store. Its threads end with the connections, and with
/// the process.
pub struct CuttingProxy {
    ports: Vec<u16>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// One of so many commits is cut; 0 for none.
    one_of: AtomicU64,
    commits: AtomicU64,
    cuts: AtomicU64,
}

impl State {
    /// Whether to cut at this data from a client, and if so, how much of it the server still gets: all, or what
    /// comes before the commit.
    fn cut_at(&self, data: &[u8]) -> Option<usize> {
        // What is encrypted cannot be told apart: most of it is not a commit, and cut all the same.
        const TLS_DATA: u8 = 0x17;
        // The kind of message and its length come before its text.
        const HEADER: usize = 5;
        let commit = data.windows(6).position(|word| word == b"COMMIT");
        let before = commit.map(|at| at.saturating_sub(HEADER));
        let before = before.or((data.first() == Some(&TLS_DATA)).then_some(0))?;
        let one_of = self.one_of.load(Ordering::SeqCst);
        let count = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if one_of == 0 || !count.is_multiple_of(one_of) {
            return None;
        }
        let cuts = self.cuts.fetch_add(1, Ordering::SeqCst);
        Some(if cuts.is_multiple_of(2) { data.len() } else { before })
    }
}

impl CuttingProxy {
    /// Starts a proxy that does not cut anything yet.
    ///
    /// # Errors
    /// If a host is not reached by TCP; if a port cannot be opened.
    pub fn start(url: &PostgresUrl) -> Result<Self> {
        let state = Arc::<State>::default();
        let mut ports = Vec::new();
        for (host, port) in url.places() {
            if host.starts_with('/') {
                let message = "connections are cut by a proxy, so the address must not be a socket's \
                               path";
                return Err(Error::invalid_at("--store", message));
            }
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::internal)?;
            ports.push(listener.local_addr().map_err(Error::internal)?.port());
            let state = state.clone();
            thread::spawn(move || {
                for client in listener.incoming().flatten() {
                    let Ok(server) = TcpStream::connect((host.as_str(), port)) else { continue };
                    let _ = forward(client, server, &state);
                }
            });
        }
        Ok(CuttingProxy { ports, state })
    }

    /// Returns the address of the store through the proxy.
    pub fn url(&self, url: &PostgresUrl) -> PostgresUrl {
        url.via(&self.ports)
    }

    /// Cuts one of so many commits from now on; 0 for none.
    pub fn cut_one_of(&self, commits: u64) {
        self.state.one_of.store(commits, Ordering::SeqCst);
    }

    /// Returns how many connections were cut.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

/// Copies both ways on threads of their own.
fn forward(client: TcpStream, server: TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let is_cut = Arc::<AtomicBool>::default();
    let (mut answers, mut asker) = (server.try_clone()?, client.try_clone()?);
    let silent = is_cut.clone();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(len @ 1..) = answers.read(&mut buffer) {
            // A server that cannot answer what comes before the commit would not go on to it.
            if !silent.load(Ordering::SeqCst) && asker.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        let _ = asker.shutdown(Shutdown::Both);
    });
    let (mut client, mut server, state) = (client, server, state.clone());
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(len @ 1..) = client.read(&mut buffer) {
            let data = &buffer[..len];
            let cut = state.cut_at(data);
            is_cut.store(cut.is_some(), Ordering::SeqCst);
            let passed = &data[..cut.unwrap_or(data.len())];
            if server.write_all(passed).is_err() || cut.is_some() {
                break;
            }
        }
        let _ = (server.shutdown(Shutdown::Write), client.shutdown(Shutdown::Both));
    });
    Ok(())
}
