//! Compressing responses for clients that accept it.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// Compresses bytes.
pub fn gzip(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    // Writing into memory cannot fail.
    encoder.write_all(plain).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Whether the client accepts gzip; it says so by name.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_gzip && weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_clients_that_name_it() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            accepts_gzip(&headers)
        };
        for good in ["gzip", "deflate, GZIP;q=0.5", "br, gzip"] {
            assert!(accepts(good), "{good}");
        }
        for bad in ["", "br", "gzip;q=0", "identity", "*"] {
            assert!(!accepts(bad), "{bad}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
