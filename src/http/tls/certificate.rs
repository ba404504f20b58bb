//! What a certificate says of itself: how long it is valid, and for which hosts. rustls shows neither of
//! its own certificate, so it is read here: the few fields on the way to these two (RFC 5280).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aws_lc_rs::digest::{SHA256, digest};

use crate::base::Time;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]` of the version, `[3]` of the extensions.
const VERSION: u8 = 0xA0;
const EXTENSIONS: u8 = 0xA3;
/// `[2]` and `[7]` of a name.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// The object identifier of the names of a certificate, 2.5.29.17.
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1D, 0x11];

/// What a certificate says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct CertificateFacts {
    /// Since when it is valid.
    pub not_before: Time,
    /// Until when.
    pub not_after: Time,
    /// The hosts that it is for: names of the DNS in lower case, of which one may begin with `*.`, and
    /// IP addresses without brackets.
    pub names: Vec<String>,
    /// The SHA-256 of all of it, as other programs show it: hexadecimal, with colons.
    pub fingerprint: String,
}

impl CertificateFacts {
    /// Reads a certificate in DER; `None` if it is none.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).take(SEQUENCE)?);
        let mut body = Der(certificate.take(SEQUENCE)?);
        // A certificate of version 1 does not say so.
        if body.peek() == Some(VERSION) {
            body.take(VERSION)?;
        }
        body.take(INTEGER)?;
        // The algorithm and the issuer.
        body.take(SEQUENCE)?;
        body.take(SEQUENCE)?;
        let mut validity = Der(body.take(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        // The subject and its key.
        body.take(SEQUENCE)?;
        body.take(SEQUENCE)?;
        let mut names = Vec::new();
        while let Some((tag, content)) = body.next() {
            if tag == EXTENSIONS {
                names = names_of(content)?;
            }
        }
        let hash = digest(&SHA256, der);
        let bytes: Vec<_> = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        Some(CertificateFacts { not_before, not_after, names, fingerprint: bytes.join(":") })
    }

    /// Whether it is valid at this time.
    pub fn is_valid_at(&self, now: Time) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Whether it is for exactly this host, an IPv6 address with its brackets. One that a `*` covers may
    /// be somebody else's.
    pub fn names_exactly(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let bare = bare.unwrap_or(host).trim_end_matches('.');
        match bare.parse::<IpAddr>() {
            Ok(address) => self.names.iter().any(|name| name.parse() == Ok(address)),
            Err(_) => self.names.iter().any(|name| name.eq_ignore_ascii_case(bare)),
        }
    }
}

/// The names among the extensions of a certificate.
fn names_of(extensions: &[u8]) -> Option<Vec<String>> {
    let mut extensions = Der(Der(extensions).take(SEQUENCE)?);
    while let Some((SEQUENCE, extension)) = extensions.next() {
        let mut extension = Der(extension);
        if extension.take(OBJECT_IDENTIFIER)? != SUBJECT_ALT_NAME {
            continue;
        }
        // Between the two it may say that it is critical.
        let value = loop {
            match extension.next()? {
                (OCTET_STRING, value) => break value,
                _ => continue,
            }
        };
        let mut names = Der(Der(value).take(SEQUENCE)?);
        let all = std::iter::from_fn(|| names.next()).filter_map(|(tag, name)| match tag {
            DNS_NAME => Some(std::str::from_utf8(name).ok()?.to_ascii_lowercase()),
            IP_ADDRESS => address(name).map(|address| address.to_string()),
            _ => None,
        });
        return Some(all.collect());
    }
    Some(Vec::new())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// A time: `YYMMDDHHMMSSZ`, of the years 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn time((tag, text): (u8, &[u8])) -> Option<Time> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let century = if year < "50" { "20" } else { "19" };
            (format!("{century}{year}"), rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.to_string(), rest)
        }
        _ => return None,
    };
    let part = |from: usize| rest.get(from..from + 2);
    let (month, day, hour) = (part(0)?, part(2)?, part(4)?);
    let (minute, second) = (part(6)?, part(8)?);
    let shown = format!("{year}-{month}-{day}T{hour}:{minute}:{second}{}", rest.get(10..)?);
    Time::parse(&shown)
}

/// The values of DER that follow each other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The tag of the next value.
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The tag and the content of the next value; `None` at the end, or if there is no whole one.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match usize::from(*first) {
            short @ 0..0x80 => (short, rest),
            // The number of bytes that the length has.
            long => {
                let (bytes, rest) = rest.split_at_checked(long & 0x7F)?;
                let is_sane = (1..=4).contains(&bytes.len());
                let length = bytes.iter().fold(0, |all, byte| all << 8 | usize::from(*byte));
                (is_sane.then_some(length)?, rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next value, if it has this tag.
    fn take(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next().and_then(|(tag, content)| (tag == wanted).then_some(content))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let names = ["Agents.Example.com", "*.example.net", "10.0.0.7", "2001:db8::7"];
        let mut params = CertificateParams::new(names.map(String::from).to_vec()).unwrap();
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_says_how_long_it_is_valid_and_for_whom() {
        let der = made(|params| {
            params.not_before = date_time_ymd(1999, 12, 31);
            params.not_after = date_time_ymd(2051, 1, 2);
        });
        let facts = CertificateFacts::read(&der).unwrap();
        assert_eq!(facts.not_before.to_string(), "1999-12-31T00:00:00.000Z");
        assert_eq!(facts.not_after.to_string(), "2051-01-02T00:00:00.000Z");
        let names = ["agents.example.com", "*.example.net", "10.0.0.7", "2001:db8::7"];
        assert_eq!(facts.names, names);
        assert_eq!(facts.fingerprint.len(), 32 * 3 - 1);
        let none = made(|params| params.subject_alt_names.clear());
        assert_eq!(CertificateFacts::read(&none).unwrap().names, Vec::<String>::new());
    }

    #[test]
    fn a_host_is_named_exactly_or_not_at_all() {
        let facts = CertificateFacts::read(&made(|_| {})).unwrap();
        for host in [
            "agents.example.com",
            "AGENTS.example.com.",
            "10.0.0.7",
            "[2001:db8::7]",
            "2001:DB8::7",
        ] {
            assert!(facts.names_exactly(host), "{host}");
        }
        for host in ["example.com", "a.example.net", "*.example.org", "10.0.0.8", "[::1]", ""] {
            assert!(!facts.names_exactly(host), "{host}");
        }
    }

    #[test]
    fn what_is_cut_off_or_changed_anywhere_is_read_without_a_panic() {
        let der = made(|_| {});
        for end in 0..der.len() {
            assert_eq!(CertificateFacts::read(&der[..end]), None, "{end}");
        }
        for at in 0..der.len() {
            for byte in [0, 0x80, 0x84, 0xFF] {
                let mut changed = der.clone();
                changed[at] = byte;
                let _ = CertificateFacts::read(&changed);
            }
        }
    }
}
