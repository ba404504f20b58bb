//! Where a server listens.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::ServerConfig;
use crate::base::{Error, Result};
use crate::http::{self, Redirect, Speaks};

/// Where a server listens.
pub struct Listeners {
    /// Where it serves; at least one.
    pub main: Vec<TcpListener>,
    /// Where it only leads browsers to the first of those (`--redirect-http`).
    pub redirect: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(listener: TcpListener) -> Self {
        Listeners { main: vec![listener], redirect: None }
    }
}

impl Listeners {
    /// The addresses where it serves.
    ///
    /// # Errors
    /// If a listener has none.
    pub fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        self.main.iter().map(TcpListener::local_addr).collect()
    }

    /// The address where it only leads browsers elsewhere, if there is one.
    pub fn redirect_address(&self) -> Option<SocketAddr> {
        self.redirect.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The addresses where it serves, and all listeners with what is spoken at each.
    pub(super) fn speaking(
        self,
        config: &ServerConfig,
    ) -> Result<(Vec<SocketAddr>, Vec<http::Listener>)> {
        let addresses = self.addresses();
        let addresses =
            addresses.map_err(|e| Error::internal(format!("a listener has no address: {e}")))?;
        let first = addresses.first().ok_or_else(|| Error::internal("there is no listener"))?;
        let speaks =
            config.tls.as_ref().map_or(Speaks::Http, |own| Speaks::Https(own.tls().clone()));
        let main = self.main.into_iter();
        let main = main.map(|socket| http::Listener { socket, speaks: speaks.clone() });
        let public_url = config.public_url.as_deref().filter(|url| url.starts_with("https:"));
        let public_url = public_url.map(|url| url.trim_end_matches('/').to_string());
        let speaks = Speaks::Redirect(Redirect { public_url, port: first.port() });
        let redirect = self.redirect.map(|socket| http::Listener { socket, speaks });
        let listeners = main.chain(redirect).collect();
        Ok((addresses, listeners))
    }
}
