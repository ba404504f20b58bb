//! Clients by their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the part of an address that identifies a client where clients are counted: an IPv4
/// address, or the /64 of an IPv6 address, since a client with one of its addresses has all of them.
pub fn address_block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

/// Returns the network of an address, where many addresses of one provider should count as one
/// client: the /16 of an IPv4 address, or the /32 of an IPv6 address, which is what a provider gets.
pub fn address_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & !u32::from(u16::MAX)))
        }
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) & !(u128::MAX >> 32))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_client_and_an_ipv4_address_is_one() {
        let table = [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ];
        for (address, block) in table {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(address_block(address).to_string(), block);
        }
    }

    #[test]
    fn the_addresses_of_a_provider_are_of_one_network() {
        let table = [
            ("192.0.2.1", "192.0.0.0"),
            ("192.0.255.255", "192.0.0.0"),
            ("192.1.0.0", "192.1.0.0"),
            ("::ffff:192.0.2.1", "192.0.0.0"),
            ("2001:db8:1:2::1", "2001:db8::"),
            ("2001:db8:ffff::", "2001:db8::"),
            ("2001:db9::1", "2001:db9::"),
        ];
        for (address, network) in table {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(address_network(address).to_string(), network);
        }
    }
}
