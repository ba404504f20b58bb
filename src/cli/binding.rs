//! Opening the addresses where a server listens.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket};

use super::failure::Failure;

/// How many connections wait to be accepted, as the standard library has it.
const BACKLOG: u32 = 128;

/// An address to listen at, as a flag has it: `HOST:PORT`.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) flag: &'static str,
    pub(super) address: &'a str,
}

impl Wanted<'_> {
    /// The failure to listen there.
    fn failure(self, error: &io::Error) -> Failure {
        let Wanted { flag, address } = self;
        let message = format!("cannot listen on {address}: {error}; choose another {flag}");
        match error.kind() {
            // Another process may end, and an interface appear: a service manager tries again.
            ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable => Failure::Failed(message),
            _ => Failure::Usage(message),
        }
    }
}

/// Listens at all of them, of each name at the first of its addresses where that works. `[::]` takes IPv4,
/// too, as the system has it, unless one of the others is `0.0.0.0` with the same port.
///
/// # Errors
/// If one cannot be listened at. Usage, if that is since another of them has it already.
pub(super) async fn listen(all: &[Wanted<'_>]) -> Result<Vec<TcpListener>, Failure> {
    let mut found = Vec::new();
    for one in all {
        let addresses = one.address.to_socket_addrs().map_err(|error| one.failure(&error))?;
        found.push(addresses.collect::<Vec<_>>());
    }
    let is_all_v4 =
        |one: &&SocketAddr| one.is_ipv4() && one.ip().is_unspecified() && one.port() != 0;
    let v4_ports: Vec<u16> =
        found.iter().flatten().filter(is_all_v4).map(SocketAddr::port).collect();
    let mut open: Vec<(Wanted<'_>, SocketAddr, TcpListener)> = Vec::new();
    for (one, addresses) in all.iter().zip(&found) {
        let mut last: Result<TcpListener, io::Error> = Err(ErrorKind::NotFound.into());
        for address in addresses {
            let is_v6_alone = address.is_ipv6()
                && address.ip().is_unspecified()
                && v4_ports.contains(&address.port());
            last = listen_at(*address, is_v6_alone).await;
            if last.is_ok() {
                break;
            }
        }
        let listener = last.map_err(|error| {
            let is_taken = |taken: &SocketAddr| addresses.iter().any(|one| overlap(*one, *taken));
            let own = open.iter().find(|(_, taken, _)| is_taken(taken));
            match own.filter(|_| error.kind() == ErrorKind::AddrInUse) {
                Some((other, ..)) => Failure::Usage(format!(
                    "cannot listen on {} ({}), which {} {} takes already: leave one of them out",
                    one.address, one.flag, other.flag, other.address
                )),
                None => one.failure(&error),
            }
        })?;
        let address = listener.local_addr().map_err(|error| one.failure(&error))?;
        open.push((*one, address, listener));
    }
    Ok(open.into_iter().map(|(.., listener)| listener).collect())
}

async fn listen_at(address: SocketAddr, is_v6_alone: bool) -> io::Result<TcpListener> {
    if !is_v6_alone {
        return TcpListener::bind(address).await;
    }
    let socket = TcpSocket::new_v6()?;
    // As in the other case: connections that have just ended do not hold the port.
    socket.set_reuseaddr(true)?;
    set_ipv6_v6only(&socket, true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Whether one listener can have connections to the other.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let (one, other) = (a.ip().to_canonical(), b.ip().to_canonical());
    let takes = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    a.port() == b.port() && (one == other || takes(one, other) || takes(other, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listens at these addresses, the last of them for `--redirect-http`.
    async fn at(addresses: &[&str]) -> Result<Vec<TcpListener>, Failure> {
        let all: Vec<_> = addresses
            .iter()
            .enumerate()
            .map(|(number, address)| Wanted {
                flag: if number == 0 { "--listen" } else { "--redirect-http" },
                address,
            })
            .collect();
        listen(&all).await
    }

    /// A port that is free at all addresses.
    async fn free_port() -> u16 {
        at(&["0.0.0.0:0"]).await.ok().unwrap()[0].local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn what_overlaps_is_wrong_usage_and_what_others_have_is_not() {
        for two in [
            ["127.0.0.1:PORT", "127.0.0.1:PORT"],
            ["0.0.0.0:PORT", "127.0.0.1:PORT"],
            ["127.0.0.1:PORT", "0.0.0.0:PORT"],
        ] {
            let port = free_port().await.to_string();
            let two = two.map(|address| address.replace("PORT", &port));
            let Err(Failure::Usage(why)) = at(&two.each_ref().map(String::as_str)).await else {
                panic!("{two:?}")
            };
            let both = two.iter().all(|address| why.contains(address.as_str()));
            assert!(both && why.contains("--redirect-http") && why.contains("--listen"), "{why}");
        }
        let taken = at(&["127.0.0.1:0"]).await.ok().unwrap();
        let address = taken[0].local_addr().unwrap().to_string();
        assert!(matches!(at(&[&address]).await, Err(Failure::Failed(_))));
        assert_eq!(at(&["127.0.0.1:0", "127.0.0.1:0"]).await.ok().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn all_addresses_of_both_kinds_can_be_listened_at_together() {
        if at(&["[::1]:0"]).await.is_err() {
            return; // This machine has no IPv6.
        }
        for first in ["0.0.0.0", "[::]"] {
            let second = if first == "[::]" { "0.0.0.0" } else { "[::]" };
            let port = free_port().await;
            let both = [first, second].map(|host| format!("{host}:{port}"));
            let open = at(&both.each_ref().map(String::as_str)).await.ok().unwrap();
            let addresses = open.iter().map(|one| one.local_addr().unwrap().to_string());
            assert_eq!(addresses.collect::<Vec<_>>(), both);
        }
        // One address of IPv4 is in [::]: beside it all others would be refused without a word.
        for two in [["[::]:PORT", "127.0.0.1:PORT"], ["127.0.0.1:PORT", "[::]:PORT"]] {
            let port = free_port().await.to_string();
            let two = two.map(|address| address.replace("PORT", &port));
            let both = at(&two.each_ref().map(String::as_str)).await;
            assert!(matches!(both, Err(Failure::Usage(_))), "{two:?}");
        }
    }

    #[test]
    fn addresses_overlap_if_a_connection_could_be_to_both() {
        for (a, b, do_overlap) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "[::1]:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
        ] {
            let (one, other) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(overlap(one, other), do_overlap, "{a} {b}");
            assert_eq!(overlap(other, one), do_overlap, "{b} {a}");
        }
    }
}
