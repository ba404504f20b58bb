//! Which addresses the process may connect to (reference: events, "Addresses refused").
//!
//! Public ones, and those that the operator allowed with `--allow-private-network`. Everything else
//! is refused, so that a stored URL cannot be used to probe the operator's network (SSRF).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(first: u16, second: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0), prefix)
}

/// The networks of IANA's registry of special-purpose IPv4 addresses that are not public.
const V4_NOT_PUBLIC: [Ipv4Net; 15] = [
    v4(0, 0, 0, 0, 8),       // "this network"; 0.0.0.0 reaches the machine itself
    v4(10, 0, 0, 0, 8),      // private
    v4(100, 64, 0, 0, 10),   // between a provider and its customers (CGNAT)
    v4(127, 0, 0, 0, 8),     // loopback
    v4(169, 254, 0, 0, 16),  // link-local, and the clouds' metadata
    v4(172, 16, 0, 0, 12),   // private
    v4(192, 0, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 0, 24),    // documentation
    v4(192, 88, 99, 0, 24),  // relays to 6to4, retired
    v4(192, 168, 0, 0, 16),  // private
    v4(198, 18, 0, 0, 15),   // benchmarks
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24),  // documentation
    v4(224, 0, 0, 0, 4),     // multicast
    v4(240, 0, 0, 0, 4),     // reserved (class E), and the broadcast address
];

/// The only part of IPv6 that is allocated as global unicast. Loopback, unspecified,
/// IPv4-compatible, NAT64, discard-only, SRv6, unique-local, link-local and multicast addresses are
/// outside of it.
const V6_PUBLIC: Ipv6Net = v6(0x2000, 0, 3);

/// The networks in [`V6_PUBLIC`] that are not public.
const V6_NOT_PUBLIC: [Ipv6Net; 4] = [
    v6(0x2001, 0, 23), // protocol assignments: Teredo (which embeds IPv4), ORCHID, anycast
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x2002, 0, 16), // 6to4, which embeds any IPv4 address
    v6(0x3fff, 0, 20), // documentation
];

const fn at4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn at6(first: [u16; 3], last: [u16; 2]) -> IpAddr {
    let [a, b, c] = first;
    IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, last[0], last[1]))
}

/// Metadata services of cloud providers, which give out a machine's credentials. Allowing a network
/// around one does not allow it: an operator who allows 169.254.0.0/16 for a printer does not mean
/// this. One of them even has a public address.
const METADATA: [IpAddr; 17] = [
    at4(169, 254, 169, 254),                  // nearly all of them
    at4(169, 254, 170, 2),                    // AWS, containers
    at4(169, 254, 170, 23),                   // AWS, pods
    at4(169, 254, 0, 23),                     // Tencent
    at4(169, 254, 10, 10),                    // Tencent
    at4(169, 254, 42, 42),                    // Scaleway
    at4(168, 63, 129, 16),                    // Azure's host, at a public address
    at4(100, 100, 100, 200),                  // Alibaba
    at4(192, 0, 0, 192),                      // Oracle, Classic
    at6([0xfd00, 0xec2, 0], [0, 0x254]),      // AWS
    at6([0xfd00, 0xec2, 0], [0, 0x23]),       // AWS, pods
    at6([0xfd20, 0xce, 0], [0, 0x254]),       // Google
    at6([0xfd00, 0xc1, 0], [0xa9fe, 0xa9fe]), // Oracle
    at6([0xfd00, 0x42, 0], [0, 0x42]),        // Scaleway
    at6([0xfd00, 0x100, 0], [0x100, 0x200]),  // Alibaba
    at6([0xfd00, 0xa9fe, 0xa9fe], [0, 1]),    // Akamai
    at6([0xfe80, 0, 0], [0xa9fe, 0xa9fe]),    // OpenStack
];

/// Returns the IPv4 address that a translator or tunnel would reach through this one. Not for
/// `::ffff:a.b.c.d`, which the system itself treats as IPv4, nor for a network's own translation
/// prefix (RFC 6052), which no address reveals.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = ip.segments();
    let from = |at: usize| {
        let [a, b] = segments[at].to_be_bytes();
        let [c, d] = segments[at + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None, // unspecified and loopback, which are IPv6
        [0, 0, 0, 0, 0, 0, ..] => Some(from(6)), // IPv4-compatible
        [0, 0, 0, 0, 0xffff, 0, ..] => Some(from(6)), // IPv4-translated (SIIT)
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(from(6)), // NAT64
        [0x2002, ..] => Some(from(1)),        // 6to4
        // Teredo has the server at 2 and 3, and the client inverted.
        [0x2001, 0, ..] => Some(Ipv4Addr::from(!u32::from(from(6)))),
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(from(6)), // ISATAP, in anybody's network
        _ => None,
    }
}

/// Whether this is a global unicast address.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !V4_NOT_PUBLIC.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => {
            V6_PUBLIC.contains(&ip) && !V6_NOT_PUBLIC.iter().any(|net| net.contains(&ip))
        }
    }
}

/// Whether the process may connect to this address. `::ffff:a.b.c.d` counts as IPv4, also for
/// `allow`. Another address that embeds an IPv4 address needs both to be permitted, and itself to
/// be in `allow`, since translators are part of the operator's network.
pub fn permitted(ip: IpAddr, allow: &[IpNet]) -> bool {
    let ip = ip.to_canonical();
    if METADATA.contains(&ip) {
        return allow.contains(&IpNet::from(ip));
    }
    let is_allowed = allow.iter().any(|net| net.contains(&ip));
    let embedded = match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => embedded_v4(ip),
    };
    match embedded {
        Some(inner) => is_allowed && permitted(inner.into(), allow),
        None => is_allowed || is_public(ip),
    }
}

/// Returns the addresses of one host if all may be connected to, in their order, else the first
/// forbidden one: a host with both public and private addresses is refused as a whole.
pub fn vet(found: Vec<SocketAddr>, allow: &[IpNet]) -> Result<Vec<SocketAddr>, IpAddr> {
    // `localhost` is 127.0.0.1 and ::1 on most systems; where only one of them is allowed, it is
    // used and the other left out.
    let only_loopback = found.iter().all(|at| at.ip().to_canonical().is_loopback());
    let (good, bad): (Vec<_>, Vec<_>) = found.into_iter().partition(|at| permitted(at.ip(), allow));
    match bad.first() {
        Some(at) if good.is_empty() || !only_loopback => Err(at.ip()),
        _ => Ok(good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn every_network_that_is_not_public_is_refused_from_its_first_to_its_last_address() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "239.255.255.255"),
            ("240.0.0.0", "255.255.255.255"),
            ("::", "::1"),
            ("::7f00:1", "::ffff:ffff"),            // IPv4-compatible
            ("::ffff:0:0:0", "::ffff:0:ffff:ffff"), // IPv4-translated
            ("2a00:1450:4001:0:0:5efe::", "2a00:1450:4001::5efe:ffff:ffff"), // ISATAP
            ("2a00:1450:4001:0:200:5efe::", "2a00:1450:4001::200:5efe:ffff:ffff"),
            ("::ffff:10.0.0.0", "::ffff:10.255.255.255"),
            ("::ffff:127.0.0.1", "::ffff:169.254.169.254"),
            ("64:ff9b::", "64:ff9b::ffff:ffff"), // NAT64
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
            ("100::", "100::ffff:ffff:ffff:ffff"), // discard-only
            ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"), // Teredo
            ("2001:10::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"), // ORCHID
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), // 6to4
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), // SRv6
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), // unique-local
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), // link-local
            ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), // site-local
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), // multicast
        ] {
            assert!(!permitted(ip(first), &[]), "{first}");
            assert!(!permitted(ip(last), &[]), "{last}");
        }
    }

    #[test]
    fn public_addresses_pass_up_to_the_edges_of_what_is_refused() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.88.98.255",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "2001:200::",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "2a00::5efd:808:808",
            "2a00::100:5efe:808:808",
            "2003::1",
        ] {
            assert!(permitted(ip(text), &[]), "{text}");
        }
    }

    #[test]
    fn the_allow_list_permits_exactly_its_networks() {
        let allow = nets(&["10.2.0.0/16", "192.168.7.7/32", "fd12::/16"]);
        for text in ["10.2.0.0", "10.2.255.255", "::ffff:10.2.3.4", "192.168.7.7", "fd12::1"] {
            assert!(permitted(ip(text), &allow), "{text}");
        }
        for text in ["10.1.255.255", "10.3.0.0", "192.168.7.8", "127.0.0.1", "fd13::1", "::1"] {
            assert!(!permitted(ip(text), &allow), "{text}");
        }
    }

    #[test]
    fn a_metadata_address_is_allowed_only_by_itself() {
        let wide = nets(&["0.0.0.0/0", "::/0", "169.254.169.254/31", "fd00:ec2::254/127"]);
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.0.23",
            "169.254.10.10",
            "169.254.42.42",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "fd00:100::100:200",
            "fd00:a9fe:a9fe::1",
            "fe80::a9fe:a9fe",
        ] {
            assert!(!permitted(ip(text), &[]), "{text}");
            assert!(!permitted(ip(text), &wide), "{text}");
            assert!(permitted(ip(text), &[IpNet::from(ip(text))]), "{text}");
        }
        let mapped = ip("::ffff:169.254.169.254");
        assert!(!permitted(mapped, &wide));
        assert!(permitted(mapped, &nets(&["169.254.169.254/32"])));
        for text in ["169.254.169.253", "fd00:ec2::253", "168.63.129.15", "168.63.129.17"] {
            assert!(permitted(ip(text), &wide), "{text}");
        }
    }

    #[test]
    fn an_address_that_embeds_a_forbidden_one_is_refused_even_when_allowed() {
        for (public, private, metadata) in [
            ("64:ff9b::8.8.8.8", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254"),
            ("::8.8.8.8", "::10.0.0.1", "::169.254.169.254"),
            ("::ffff:0:8.8.8.8", "::ffff:0:10.0.0.1", "::ffff:0:169.254.169.254"),
            ("2002:808:808::1", "2002:a00:1::1", "2002:a9fe:a9fe::1"),
            ("2001:0:1:2::f7f7:f7f7", "2001:0:1:2::f5ff:fffe", "2001:0:1:2::5601:5601"),
            ("2a00::5efe:8.8.8.8", "2a00::5efe:10.0.0.1", "2a00::5efe:169.254.169.254"),
            ("2a00::200:5efe:8.8.8.8", "2a00::200:5efe:10.0.0.1", "2a00::200:5efe:169.254.169.254"),
        ] {
            let all = nets(&["::/0"]);
            let all_and_private = nets(&["::/0", "10.0.0.0/8"]);
            for text in [public, private, metadata] {
                assert!(!permitted(ip(text), &[]), "{text}");
            }
            assert!(permitted(ip(public), &all), "{public}");
            assert!(!permitted(ip(private), &all), "{private}");
            assert!(permitted(ip(private), &all_and_private), "{private}");
            assert!(!permitted(ip(metadata), &all_and_private), "{metadata}");
        }
        // They embed nothing.
        for text in ["::", "::1"] {
            assert!(permitted(ip(text), &nets(&["::/127"])), "{text}");
        }
    }

    #[test]
    fn one_forbidden_address_refuses_the_host() {
        let at = |texts: &[&str]| texts.iter().map(|t| SocketAddr::new(ip(t), 80)).collect();
        let good: Vec<_> = at(&["8.8.8.8", "2606:4700::1111"]);
        assert_eq!(vet(good.clone(), &[]), Ok(good));
        assert_eq!(vet(at(&["8.8.8.8", "10.0.0.1"]), &[]), Err(ip("10.0.0.1")));
        assert_eq!(vet(at(&["10.0.0.1", "8.8.8.8"]), &[]), Err(ip("10.0.0.1")));
        assert_eq!(vet(at(&["8.8.8.8", "::1"]), &nets(&["127.0.0.0/8"])), Err(ip("::1")));
    }

    #[test]
    fn localhost_works_when_one_of_its_two_addresses_is_allowed() {
        let both = || vec!["[::1]:80".parse().unwrap(), "127.0.0.1:80".parse().unwrap()];
        assert_eq!(vet(both(), &nets(&["127.0.0.0/8"])), Ok(both()[1..].to_vec()));
        assert_eq!(vet(both(), &nets(&["::1/128"])), Ok(both()[..1].to_vec()));
        assert_eq!(vet(both(), &[]), Err(ip("::1")));
    }
}
