//! The domains that servers with the usual configuration resolve and trust, for all tests together.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::{Value, json};

use crate::sites::{Sites, response};

/// All of them. A test uses names that no other one has.
pub static SITES: LazyLock<Sites> = LazyLock::new(Sites::new);

/// Leads look-ups at a domain to a server without TLS, as a proxy does.
pub fn proxy(domain: &str, to: SocketAddr) {
    let host = domain.to_string();
    SITES.serve(domain, move |name| {
        let mut stream = TcpStream::connect(to).unwrap();
        let target = format!("/.well-known/nostr.json?name={name}");
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    });
}

/// Writes the certificate of a domain and its key, for a server in another process; returns the
/// paths.
pub fn certificate_files(domain: &str, folder: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = SITES.certify(domain);
    let files = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&files.0, certificate.pem()).unwrap();
    std::fs::write(&files.1, key.serialize_pem()).unwrap();
    files
}

/// A domain that confirms handles (NIP-05).
pub struct Site {
    pub domain: String,
    names: Arc<Mutex<Value>>,
    lookups: Arc<AtomicUsize>,
}

impl Site {
    /// A new domain without any handle.
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Site::on(&format!("site-{}.test", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The same on this domain.
    pub fn on(domain: &str) -> Self {
        let (names, lookups) = (Arc::new(Mutex::new(json!({}))), Arc::new(AtomicUsize::new(0)));
        let site = Site { domain: domain.into(), names, lookups };
        let (names, lookups) = (site.names.clone(), site.lookups.clone());
        SITES.serve(domain, move |_| {
            lookups.fetch_add(1, Ordering::Relaxed);
            response(200, "", &json!({"names": *names.lock().unwrap()}).to_string())
        });
        site
    }

    /// Names a key; returns the handle.
    pub fn name(&self, name: &str, pubkey: &str) -> String {
        self.names.lock().unwrap()[name] = pubkey.into();
        format!("{name}@{}", self.domain)
    }

    /// How often it was asked.
    pub fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}
