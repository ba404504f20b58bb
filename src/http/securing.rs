//! The beginning of a connection where TLS is spoken: the handshake, in the time it has, or the answer to
//! who speaks plain HTTP there.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection_state::ConnectionState;
use super::listener::Accepted;
use super::tls::{HANDSHAKE, OverTls, ServerTls};
use super::transport::{Socket, Transport};
use super::wire::{https_expected, raw_answer};

/// Time for the answer to plain HTTP, and for the client to read it.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// How much is read of a request in plain HTTP: closed before it is read, a socket discards its answer.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

/// A connection after its handshake.
pub struct Secured {
    pub transport: Transport,
    /// What its requests say of it.
    pub arrived: OverTls,
}

/// Does the handshake of a connection; `None` if there is none. While the client sends nothing, only its
/// socket is kept, as of an idle connection. What strangers send is no event of the server: it is
/// logged at debug.
pub async fn secured(
    stream: TcpStream,
    tls: &ServerTls,
    accepted: &Accepted,
    progress: &ConnectionState,
    ending: &mut watch::Receiver<bool>,
) -> Option<Secured> {
    let peer = accepted.peer;
    let done = tokio::select! {
        biased;
        done = Box::pin(handshake(stream, tls, accepted.port, progress)) => done,
        () = sleep(tls.handshake_time) => Err(io::ErrorKind::TimedOut.into()),
        _ = ending.wait_for(|ending| *ending) => return None,
    };
    match done {
        Ok(secured) => secured,
        Err(error) => {
            tracing::debug!(%error, %peer, "a TLS handshake failed");
            None
        }
    }
}

async fn handshake(
    stream: TcpStream,
    tls: &ServerTls,
    port: u16,
    progress: &ConnectionState,
) -> io::Result<Option<Secured>> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => return Ok(None),
        _ if first[0] != HANDSHAKE => {
            refuse_plain(stream).await;
            return Err(io::Error::other("it begins with something else than a handshake"));
        }
        _ => {}
    }
    let socket = Socket::before_handshake(stream, progress.clone());
    let Some((mut stream, arrived)) = tls.accept(socket, port).await? else { return Ok(None) };
    stream.get_mut().0.secured();
    Ok(Some(Secured { transport: Transport::Tls(Box::new(stream)), arrived }))
}

/// Tells a client that TLS is spoken here.
async fn refuse_plain(mut stream: TcpStream) {
    let answer = async {
        stream.write_all(&raw_answer(&https_expected())).await?;
        stream.shutdown().await?;
        let (mut unread, mut bytes) = (0, [0; 1024]);
        while unread < MAX_UNREAD_BYTES {
            match stream.read(&mut bytes).await? {
                0 => break,
                count => unread += count,
            }
        }
        io::Result::Ok(())
    };
    let _ = timeout(ANSWER_TIME, answer).await;
}
