//! The address of this machine.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// Reserved for documents, so that it is nobody's.
const SOMEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// Returns the address from which this machine reaches others; `None` if it reaches none. Nothing is sent:
/// the system says which interface it would take.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SOMEWHERE).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_that_can_be_bound() {
        let Some(address) = own_address() else { return };
        UdpSocket::bind((address, 0)).unwrap();
    }
}
