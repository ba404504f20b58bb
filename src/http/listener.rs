//! What listens, and what is spoken there.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::redirect::Redirect;
use super::tls::ServerTls;

/// A listener of a server.
pub struct Listener {
    pub socket: TcpListener,
    pub speaks: Speaks,
}

/// What is spoken on the connections of a listener.
#[derive(Clone)]
pub enum Speaks {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https(Arc<ServerTls>),
    /// HTTP without TLS, to lead browsers to where TLS is spoken.
    Redirect(Redirect),
}

/// A connection that was accepted.
pub struct Accepted {
    /// The address of the client.
    pub peer: SocketAddr,
    /// The port of the listener.
    pub port: u16,
    pub speaks: Speaks,
}
