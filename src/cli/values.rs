//! Parsers of flag values.

use ipnet::IpNet;

use crate::api::OrganizationCreators;
use crate::base::{Domain, Email, HttpUrl};

/// Parses a duration such as `30d`, `12h`, `15m` or `10s` into seconds; at most 100 years.
pub fn duration_secs(text: &str) -> Result<i64, String> {
    const MAX_SECS: i64 = 100 * 365 * 24 * 3600;
    let wrong = || "give a number and a unit: 30d, 12h, 15m or 10s".to_string();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit_secs = match unit {
        "d" => 24 * 3600,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    match number.checked_mul(unit_secs) {
        Some(secs @ 0..=MAX_SECS) => Ok(secs),
        _ => Err("must be from 0s to 36500d".into()),
    }
}

/// Parses an e-mail address.
pub fn email(text: &str) -> Result<Email, String> {
    Email::parse(text)
}

/// Parses the name of a domain.
pub fn domain(text: &str) -> Result<Domain, String> {
    Domain::parse(text)
}

/// Parses a URL that begins with https.
pub fn https_url(text: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::parse(text)?;
    match url.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => Ok(url),
        _ => Err("must begin with https://".into()),
    }
}

/// Parses the URL under which clients reach a server, in lower case. The console has paths of its own, from
/// the root on, so it does not work below one.
pub fn public_url(text: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::parse(text.to_ascii_lowercase())?;
    if url.is_origin() {
        return Ok(url);
    }
    Err("must be without a path: the web console works at the root of a host only; give the \
         server a host of its own, such as https://agents.example.com"
        .into())
}

/// Parses the URL of a server that a client uses: its own, or that of its API, which ends in `/api`.
/// Returns its own.
pub fn server_url(text: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::parse(text)?;
    if url.contains(['?', '#']) {
        return Err("must be without a query and a fragment".into());
    }
    let base = url.trim_end_matches('/');
    // Not the host `api`.
    let (scheme, place) = base.split_once("://").unwrap_or_default();
    let place = place.strip_suffix("/api").unwrap_or(place).trim_end_matches('/');
    HttpUrl::parse(format!("{scheme}://{place}"))
}

/// Parses who may create organizations.
pub fn creators(text: &str) -> Result<OrganizationCreators, String> {
    match text {
        "everyone" => Ok(OrganizationCreators::Everyone),
        "installation-admins" => Ok(OrganizationCreators::InstallationAdmins),
        _ => Err("give everyone or installation-admins".into()),
    }
}

/// Parses a whole number.
pub fn whole_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("give a whole number from 0 to {}", u32::MAX))
}

/// Parses how many items of a list are shown at most: none would look as if there were none.
pub fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit @ 1..) => Ok(limit),
        _ => Err("give a whole number from 1 on".into()),
    }
}

/// Parses a network such as `10.0.0.0/8`, or a single address.
pub fn network(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse().map(|address: std::net::IpAddr| IpNet::from(address)))
        .map_err(|_| "give a network (10.0.0.0/8) or an address".into())
}

/// Parses an address to listen on: a host name or an IP address (IPv6 in brackets), and a port.
pub fn host_and_port(text: &str) -> Result<String, String> {
    let is_host = |host: &str| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (bracketed || !host.contains(':'))
    };
    match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => Ok(text.into()),
        _ => Err("give host and port: 127.0.0.1:7420, localhost:7420 or [::1]:7420".into()),
    }
}

/// Parses a token: printable ASCII characters without spaces, as a header can carry.
pub fn token(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.into());
    }
    Err("give printable ASCII characters without spaces".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_into_a_header() {
        assert_eq!(token("s3cret-token").as_deref(), Ok("s3cret-token"));
        for wrong in ["", "two words", "ä", "line\n"] {
            assert!(token(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_public_url_has_no_path() {
        for good in ["https://agents.example.com", "http://127.0.0.1:7420/"] {
            assert_eq!(public_url(good).unwrap().as_str(), good);
        }
        for wrong in ["https://example.com/roadstead", "https://example.com/?a", "example.com"] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_url_of_a_server_is_its_own_or_that_of_its_api() {
        for (given, base) in [
            ("http://a.test", "http://a.test"),
            ("http://a.test/", "http://a.test"),
            ("http://a.test/api", "http://a.test"),
            ("http://a.test/api/", "http://a.test"),
            ("https://a.test/below/api", "https://a.test/below"),
            ("https://api", "https://api"),
        ] {
            assert_eq!(server_url(given).unwrap().as_str(), base);
        }
        assert!(server_url("http://a.test/api?x=1").is_err());
    }

    #[test]
    fn an_address_to_listen_on_is_a_host_and_a_port() {
        for good in ["127.0.0.1:7420", "localhost:0", "[::1]:7420", "0.0.0.0:65535"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for wrong in
            ["", "7420", ":7420", "localhost", "localhost:", "::1:7420", "[::1]", "x:65536"]
        {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration_secs("30d"), Ok(30 * 24 * 3600));
        assert_eq!(duration_secs("0s"), Ok(0));
        for wrong in ["", "30", "d", "-1d", "1w", "1.5h", "99999999d", "9223372036854775807d", "ä"]
        {
            assert!(duration_secs(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_may_be_single_addresses() {
        assert_eq!(network("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        assert_eq!(network("fd00::/8").unwrap().to_string(), "fd00::/8");
        assert!(network("example.com").is_err());
    }
}
