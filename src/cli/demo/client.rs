//! An HTTP client of the demo's own server; it uses the public API only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;

use crate::base::Error;
use crate::cli::failure::Failure;
use crate::outside::{BodyLimit, Call, ClientConfig, Limits, Method, Outside};

/// Longer than the longest long poll.
const TIMEOUT: Duration = Duration::from_secs(70);
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// A client of one server with one credential.
#[derive(Clone)]
pub struct Client {
    outside: Outside,
    base: String,
    credential: String,
}

impl Client {
    /// Creates a client of the server at `address`, with an API key or a session token.
    pub fn new(address: SocketAddr, credential: String) -> Result<Self, Failure> {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let config = ClientConfig { allow_private: vec![IpNet::from(ip)], extra_roots_pem: None };
        let base = format!("http://{}", SocketAddr::new(ip, address.port()));
        Ok(Client { outside: Outside::new(config)?, base, credential })
    }

    /// Returns a client of the same server with another credential.
    pub fn with_credential(&self, credential: String) -> Self {
        Client { credential, ..self.clone() }
    }

    /// The base URL of the server.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a GET request; `path` is relative to `/api` and includes the query.
    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        self.call(Method::GET, path, Vec::new()).await
    }

    /// Sends a POST request for the organization `acme`.
    pub async fn post(&self, path: &str, mut body: Value) -> Result<Value, Error> {
        body["orgSlug"] = "acme".into();
        self.call(Method::POST, path, body.to_string().into_bytes()).await
    }

    /// Sends a PATCH request for the organization `acme`.
    pub async fn patch(&self, path: &str, mut body: Value) -> Result<Value, Error> {
        body["orgSlug"] = "acme".into();
        self.call(Method::PATCH, path, body.to_string().into_bytes()).await
    }

    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, Error> {
        let call = Call {
            method,
            url: format!("{}/api{path}", self.base),
            headers: vec![
                ("authorization".into(), format!("Bearer {}", self.credential)),
                ("content-type".into(), "application/json".into()),
            ],
            body,
            limits: Limits {
                total: TIMEOUT,
                answer: BodyLimit::UpTo(MAX_ANSWER_BYTES),
                https_only: false,
            },
        };
        let answer = self.outside.send(call).await.map_err(Error::internal)?;
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        if !answer.is_success() {
            return Err(Error::internal(format!("{path} answered {}: {body}", answer.status)));
        }
        serde_json::from_str(&body).map_err(Error::internal)
    }
}
