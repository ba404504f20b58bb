//! Domains of the tests: HTTPS servers on this machine, whose names the servers under test resolve
//! and whose certificate they trust.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use roadstead::outside::Resolver;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// All domains of the tests are directly below `sites.test`.
struct Web {
    runtime: Runtime,
    tls: TlsAcceptor,
    root_pem: String,
    key_pem: String,
    addresses: Mutex<HashMap<String, SocketAddr>>,
}

static WEB: LazyLock<Web> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(vec!["*.sites.test".to_string()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    Web {
        runtime: Runtime::new().unwrap(),
        tls: TlsAcceptor::from(Arc::new(config)),
        root_pem: made.cert.pem(),
        key_pem: made.signing_key.serialize_pem(),
        addresses: Mutex::default(),
    }
});

/// The certificate that servers under test trust.
pub fn roots() -> Vec<u8> {
    WEB.root_pem.clone().into()
}

/// Resolves the domains of the tests, and other names as the system does.
pub fn resolver() -> Resolver {
    Resolver(Arc::new(|host: &str, port| {
        let found = WEB.addresses.lock().unwrap().get(host).copied();
        match found {
            Some(address) => Ok(vec![address]),
            None => Ok((host, port).to_socket_addrs()?.collect()),
        }
    }))
}

/// Leads a domain to a server of its own.
pub fn lead(domain: &str, to: SocketAddr) {
    WEB.addresses.lock().unwrap().insert(domain.into(), to);
}

/// Writes the certificate of all domains and its key, for such a server; returns the paths.
pub fn certificate_files(folder: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, &WEB.root_pem).unwrap();
    std::fs::write(&key, &WEB.key_pem).unwrap();
    (certificate, key)
}

/// Serves a domain, each connection as `serve` does.
fn listen<F>(domain: &str, serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = WEB.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    lead(domain, listener.local_addr().unwrap());
    let serve = Arc::new(serve);
    WEB.runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serve = serve.clone();
            tokio::spawn(async move {
                if let Ok(stream) = WEB.tls.accept(stream).await {
                    serve(stream).await;
                }
            });
        }
    });
}

/// Leads a domain to a server without TLS, as a proxy does.
pub fn proxy(domain: &str, to: SocketAddr) {
    listen(domain, move |mut stream| async move {
        if let Ok(mut behind) = TcpStream::connect(to).await {
            let _ = copy_bidirectional(&mut stream, &mut behind).await;
        }
    });
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
        Site::on(&format!("site-{}.sites.test", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The same on this domain.
    pub fn on(domain: &str) -> Self {
        let (names, lookups) = (Arc::new(Mutex::new(json!({}))), Arc::new(AtomicUsize::new(0)));
        let site = Site { domain: domain.into(), names, lookups };
        let (names, lookups) = (site.names.clone(), site.lookups.clone());
        listen(&site.domain, move |mut stream| {
            lookups.fetch_add(1, Ordering::Relaxed);
            let body = json!({"names": *names.lock().unwrap()}).to_string();
            async move {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
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
