//! The request headers that affect how a request is handled.

use std::net::Ipv6Addr;
use std::sync::Arc;

use hyper::Version;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_NONE_MATCH, TRANSFER_ENCODING, USER_AGENT,
};

use crate::api::Method;
use crate::api::execute::Preconditions;
use crate::auth::RawCredential;
use crate::base::{Error, Result};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest name of a host in the DNS, with the dot at its end.
const MAX_HOST_BYTES: usize = 254;

/// The credential of a request.
pub fn raw_credential(headers: &HeaderMap) -> RawCredential {
    RawCredential::from_headers(
        headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes),
        headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes),
    )
}

/// `If-Match` and `If-None-Match`.
pub fn preconditions(headers: &HeaderMap) -> Preconditions {
    let all = |name: HeaderName| {
        headers.get_all(name).iter().map(|tags| tags.as_bytes().to_vec()).collect()
    };
    Preconditions { if_match: all(IF_MATCH), if_none_match: all(IF_NONE_MATCH) }
}

/// Whether the client prefers a stream of server-sent events to JSON. Generated clients accept both,
/// whichever they can read: they get JSON, and would wait for the end of a stream.
pub fn wants_stream(headers: &HeaderMap) -> bool {
    is_preferred(headers, "text/event-stream")
}

/// The id of the last event that the client had of an earlier stream, if it had one with an id. One that is
/// no text is none of this server.
pub fn last_event_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("last-event-id")?;
    Some(id.to_str().unwrap_or("?").to_string()).filter(|id| !id.is_empty())
}

/// The most bytes of what a client calls itself that are kept of a request.
const MAX_USER_AGENT: usize = 512;

/// What the client calls itself; none if it is no text, or longer than that of any program.
pub fn user_agent(headers: &HeaderMap) -> Option<Arc<str>> {
    let agent = headers.get(USER_AGENT)?.to_str().ok()?;
    (agent.len() <= MAX_USER_AGENT).then(|| agent.into())
}

/// Whether the client prefers text to JSON where there are both.
pub fn wants_text(headers: &HeaderMap) -> bool {
    is_preferred(headers, "text/plain")
}

/// Whether the client accepts this media type, and JSON not as much. `*/*` is JSON.
fn is_preferred(headers: &HeaderMap, wanted: &str) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut other = 0.0;
    let mut json = 0.0;
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        if media_type.eq_ignore_ascii_case(wanted) {
            other = weight;
        } else if media_type.eq_ignore_ascii_case("application/json") {
            json = weight;
        }
    }
    other > json
}

/// Whether the client asks to ignore what the server does not know:
/// `Prefer: handling=lenient` (RFC 7240).
pub fn is_lenient(headers: &HeaderMap) -> bool {
    let sent = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut preferences = sent.flat_map(|value| value.split(','));
    // Of several values of one preference the first counts.
    let handling = preferences.find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("handling").then(|| value.trim().trim_matches('"'))
    });
    handling.is_some_and(|handling| handling.eq_ignore_ascii_case("lenient"))
}

/// Whether a request has exactly one `Host`, and that is one: a name or an address, optionally with
/// a port. HTTP/1.0 does not require it.
pub fn has_valid_host(version: Version, headers: &HeaderMap) -> bool {
    let mut sent = headers.get_all(HOST).iter();
    match (sent.next(), sent.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => host.to_str().is_ok_and(is_host),
        (Some(_), Some(_)) => false,
    }
}

/// `uri-host [ ":" [ port ] ]` (RFC 9110, RFC 3986), without the registered names that no resolver
/// knows.
fn is_host(text: &str) -> bool {
    let is_port =
        |port: &str| port.is_empty() || !port.starts_with('+') && port.parse::<u16>().is_ok();
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, rest)) = rest.split_once(']') else { return false };
        let port = if rest.is_empty() { Some("") } else { rest.strip_prefix(':') };
        return address.parse::<Ipv6Addr>().is_ok() && port.is_some_and(is_port);
    }
    let (name, port) = text.split_once(':').unwrap_or((text, ""));
    let labels = name.strip_suffix('.').unwrap_or(name);
    name.len() <= MAX_HOST_BYTES && labels.split('.').all(is_label) && is_port(port)
}

/// Whether a text is a part of a name between dots. Underscores are common in private networks.
fn is_label(text: &str) -> bool {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
    !text.is_empty()
        && text.bytes().all(is_character)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether the body of a request is sent as it is or chunked. Other transfer codings are not decoded:
/// their bytes would be taken for the body.
pub fn has_known_coding(headers: &HeaderMap) -> bool {
    let mut sent = headers.get_all(TRANSFER_ENCODING).iter();
    match (sent.next(), sent.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// The `Idempotency-Key` of a POST.
///
/// # Errors
/// 400 if it is malformed or sent twice.
pub fn idempotency_key(headers: &HeaderMap, method: Method) -> Result<Option<Vec<u8>>> {
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes);
    let (Some(key), true) = (sent.next(), method == Method::Post) else { return Ok(None) };
    let good = (1..=255).contains(&key.len()) && key.iter().all(|byte| (0x20..0x7F).contains(byte));
    if good && sent.next().is_none() {
        return Ok(Some(key.to_vec()));
    }
    Err(Error::invalid_at(
        "Idempotency-Key",
        "must be 1 to 255 printable ASCII characters, given once",
    ))
}

/// The media type of a body, if it has one, in lower case and without parameters.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// The character encoding that the media type of a body names.
pub fn charset(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    // A semicolon in quotes separates nothing.
    let mut is_quoted = false;
    let parameters = sent.split(|c: char| {
        is_quoted ^= c == '"';
        c == ';' && !is_quoted
    });
    let mut named = parameters.skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = named.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    let value = value.trim().trim_matches('"');
    (!value.is_empty()).then(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_charset_is_a_parameter_of_the_media_type_quoted_or_not() {
        let of = |value: &str| charset(&with(&CONTENT_TYPE, &[value]));
        for (sent, charset) in [
            ("text/csv; charset=koi8-r", Some("koi8-r")),
            ("text/csv;Charset = \"utf-8\"; x=y", Some("utf-8")),
            ("text/csv; x=\"a; charset=b\"; charset=utf-8", Some("utf-8")),
            ("text/csv; charset=", None),
            ("text/csv; x=charset", None),
            ("text/csv", None),
        ] {
            assert_eq!(of(sent).as_deref(), charset, "{sent}");
        }
    }

    #[test]
    fn a_host_is_one_name_or_address() {
        for host in [
            "a",
            "roadstead.test:7420",
            "127.0.0.1",
            "[::1]",
            "[::1]:80",
            "my_host",
            "a:",
            "a.:0",
            "a--b.c:65535",
            &"a.".repeat(127),
        ] {
            assert!(has_valid_host(Version::HTTP_11, &with(&HOST, &[host])), "{host}");
        }
        for hosts in [
            &[""][..],
            &["a b"],
            &["a/b"],
            &["http://a"],
            &["u@a"],
            &["a:b"],
            &["a:1:2"],
            &["[::1"],
            &["[a]"],
            &["[::1]80"],
            &["a,b"],
            &["a:65536"],
            &["a:99999"],
            &["a:+1"],
            &["[::1]:65536"],
            &["-"],
            &["."],
            &["a..b"],
            &[".a"],
            &["-a.b"],
            &["a-.b"],
            &[":80"],
            &[&"a".repeat(255)],
            &["a", "a"],
            &["a", "b"],
        ] {
            assert!(!has_valid_host(Version::HTTP_11, &with(&HOST, hosts)), "{hosts:?}");
            assert!(!has_valid_host(Version::HTTP_10, &with(&HOST, hosts)), "{hosts:?}");
        }
        assert!(!has_valid_host(Version::HTTP_11, &HeaderMap::new()));
        assert!(has_valid_host(Version::HTTP_10, &HeaderMap::new()));
    }

    #[test]
    fn lenient_handling_is_a_preference() {
        for lenient in [
            &["handling=lenient"][..],
            &["respond-async, handling=lenient"],
            &["wait=5", "Handling = \"lenient\"; x=y"],
        ] {
            assert!(is_lenient(&with(&PREFER, lenient)), "{lenient:?}");
        }
        for strict in [
            &[][..],
            &["handling=strict"],
            &["lenient"],
            &["handling"],
            &["x=handling=lenient"],
            &["handling=strict, handling=lenient"],
        ] {
            assert!(!is_lenient(&with(&PREFER, strict)), "{strict:?}");
        }
    }

    #[test]
    fn text_is_sent_to_clients_that_prefer_it_to_json() {
        for text in [
            "text/plain",
            "Text/Plain; charset=utf-8",
            "text/plain, */*",
            "application/json;q=0.5, text/plain;q=0.9",
        ] {
            assert!(wants_text(&with(&ACCEPT, &[text])), "{text}");
        }
        for json in [
            "*/*",
            "application/json, text/plain, */*",
            "text/*",
            "text/plain;q=0",
            "application/json",
            "text/html",
        ] {
            assert!(!wants_text(&with(&ACCEPT, &[json])), "{json}");
        }
        assert!(!wants_text(&HeaderMap::new()));
    }

    #[test]
    fn a_stream_is_for_clients_that_prefer_it_to_json() {
        for stream in [
            "text/event-stream",
            "text/event-stream, */*",
            "application/json;q=0.5, text/event-stream",
        ] {
            assert!(wants_stream(&with(&ACCEPT, &[stream])), "{stream}");
        }
        // What generated clients send.
        for both in
            ["application/json, text/event-stream", "text/event-stream,application/json", "*/*"]
        {
            assert!(!wants_stream(&with(&ACCEPT, &[both])), "{both}");
        }
        assert!(!wants_stream(&with(&ACCEPT, &["text/event-stream", "application/json"])));
    }
}
