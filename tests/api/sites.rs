//! Domains on this machine: HTTPS servers with certificates made for the test, which the server under
//! test resolves and trusts.

// Two test binaries and the benchmarks use this file, each only in part.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use roadstead::app::ServerConfig;
use roadstead::outside::Resolver;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConnection, StreamOwned};

/// An authority and the addresses of its domains.
pub struct Sites {
    authority: CertifiedIssuer<'static, KeyPair>,
    addresses: Arc<Mutex<HashMap<String, SocketAddr>>>,
}

impl Sites {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap());
        Sites { authority: authority.unwrap(), addresses: Arc::default() }
    }

    /// The configuration of a server that also resolves these domains, may call them, and trusts their
    /// authority.
    pub fn configure(&self, config: ServerConfig) -> ServerConfig {
        let addresses = self.addresses.clone();
        let resolver = Resolver(Arc::new(move |host: &str, port| {
            let known = addresses.lock().unwrap().get(host).copied();
            known.map_or_else(|| Ok((host, port).to_socket_addrs()?.collect()), |at| Ok(vec![at]))
        }));
        let allow_private = [config.allow_private, vec!["127.0.0.0/8".parse().unwrap()]].concat();
        let extra_roots_pem = Some(self.authority().into());
        ServerConfig { allow_private, extra_roots_pem, resolver, ..config }
    }

    /// Leads a domain to an address.
    pub fn lead(&self, domain: &str, to: SocketAddr) {
        self.addresses.lock().unwrap().insert(domain.into(), to);
    }

    /// The address that a domain is led to.
    pub fn address(&self, domain: &str) -> SocketAddr {
        self.addresses.lock().unwrap()[domain]
    }

    /// Makes a certificate of a domain.
    pub fn certify(&self, domain: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![domain.to_string()]).unwrap();
        (params.signed_by(&key, &self.authority).unwrap(), key)
    }

    /// Serves a domain: `respond` gets the name of the query, in a thread of its own, and returns the
    /// bytes of the response.
    pub fn serve(&self, domain: &str, respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) {
        self.serve_as(domain, domain, respond);
    }

    /// The same with the certificate of another domain.
    pub fn serve_as(
        &self,
        domain: &str,
        certified: &str,
        respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) {
        self.listen(domain, self.over_tls(certified, name_of, respond));
    }

    /// The same at a listener of its own, for a server that resolves names as the system does.
    pub fn serve_at(
        &self,
        listener: TcpListener,
        domain: &str,
        respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) {
        accept(listener, self.over_tls(domain, name_of, respond));
    }

    /// Answers every message that is posted to a host of this name or address; returns its address.
    pub fn receive(
        &self,
        host: &str,
        respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        accept(listener, self.over_tls(host, message_of, respond));
        address
    }

    /// What serves a connection with TLS: `read` gets what is asked for, and `respond` the bytes of
    /// the response to it.
    fn over_tls(
        &self,
        certified: &str,
        read: fn(&mut dyn Read) -> Option<String>,
        respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> impl Fn(TcpStream) + Send + Sync + 'static {
        let (certificate, key) = self.certify(certified);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key);
        let tls = Arc::new(tls.unwrap());
        move |stream| {
            let connection = ServerConnection::new(tls.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            if let Some(asked) = read(&mut stream) {
                let _ = stream.write_all(&respond(&asked));
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    }

    /// Serves a domain whole: `respond` gets what is asked for, as it was sent, and returns the bytes of the
    /// response.
    pub fn serve_whole(
        &self,
        domain: &str,
        respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) {
        self.listen(domain, self.over_tls(domain, whole, respond));
    }

    /// Serves a domain's connections, each in a thread that ends with the test.
    pub fn listen(&self, domain: &str, serve: impl Fn(TcpStream) + Send + Sync + 'static) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.lead(domain, listener.local_addr().unwrap());
        accept(listener, serve);
    }

    /// The certificate of the authority.
    pub fn authority(&self) -> String {
        self.authority.pem()
    }
}

fn accept(listener: TcpListener, serve: impl Fn(TcpStream) + Send + Sync + 'static) {
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
}

/// Reads a request with its body, which is returned.
fn message_of(stream: &mut dyn Read) -> Option<String> {
    let request = whole(stream)?;
    Some(request.split_once("\r\n\r\n")?.1.into())
}

/// Reads a request with its body.
fn whole(stream: &mut dyn Read) -> Option<String> {
    let mut request = String::new();
    loop {
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.unwrap_or("0").parse().ok()? {
                return Some(request);
            }
        }
        let mut part = [0; 1024];
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        request += std::str::from_utf8(&part[..read]).ok()?;
    }
}

/// Reads a request; returns the name in its query. `None` if it is not one for NIP-05.
fn name_of(stream: &mut dyn Read) -> Option<String> {
    let mut head = String::new();
    while !head.contains("\r\n\r\n") {
        let mut part = [0; 1024];
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        head += std::str::from_utf8(&part[..read]).ok()?;
    }
    let rest = head.strip_prefix("GET /.well-known/nostr.json?name=")?;
    rest.split(' ').next().map(String::from)
}

/// A response with this body.
pub fn response(status: u16, fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{fields}content-length: {length}\r\n\r\n{body}").into()
}

/// The document in which a name has a key.
pub fn names(name: &str, key: &str) -> Vec<u8> {
    response(200, "", &format!("{{\"names\": {{\"{name}\": \"{key}\"}}}}"))
}
