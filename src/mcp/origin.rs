//! The guard against pages of other sites: a browser says with `Origin` whose page sends a request.

use hyper::header::{HeaderMap, ORIGIN};

use crate::base::{Error, Result};

/// Refuses a request of a page that is not this server's own. `link_base` is the address of the
/// server: that of `--public-url`, or one of this machine; empty if it is not known. What `Host` says
/// is not enough: a name of somebody else may lead here.
///
/// # Errors
/// 403.
pub fn require_own_origin(headers: &HeaderMap, link_base: &str) -> Result<()> {
    let mut sent = headers.get_all(ORIGIN).iter();
    let (first, second) = (sent.next(), sent.next());
    let Some(origin) = first else { return Ok(()) };
    let is_own = !link_base.is_empty()
        && origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(origin_of(link_base)));
    if is_own && second.is_none() {
        return Ok(());
    }
    Err(Error::forbidden(
        "foreign_origin",
        "pages of other sites may not call this; call it from a program, without an Origin header",
    ))
}

/// Scheme, host and port of an address.
fn origin_of(base: &str) -> &str {
    let host = base.find("://").map_or(0, |at| at + 3);
    let end = base[host..].find('/').map_or(base.len(), |at| host + at);
    &base[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_of_this_server_if_its_origin_is_the_address_of_the_server() {
        let is_own = |base: &str, origins: &[&str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(ORIGIN, origin.parse().unwrap());
            }
            require_own_origin(&headers, base).is_ok()
        };
        let base = "https://agents.example.com/roadstead";
        assert!(is_own(base, &[]) && is_own("", &[]));
        assert!(is_own(base, &["https://agents.example.com"]));
        assert!(is_own("http://localhost:7420", &["http://LOCALHOST:7420"]));
        for foreign in [
            &["http://agents.example.com"][..],
            &["https://agents.example.com:444"],
            &["https://agents.example.com.evil.example"],
            &["null"],
            &[""],
            &["https://agents.example.com", "https://agents.example.com"],
        ] {
            assert!(!is_own(base, foreign), "{foreign:?}");
        }
        // A server that does not know its own address has no pages.
        assert!(!is_own("", &["http://agents.example.com"]) && !is_own("", &[""]));
    }
}
