//! Heads of HTTP/2 in the form of those of HTTP/1.1, for all that reads them.

use hyper::Method;
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::response;

use crate::http::framing::Head;

/// Limit of the fields of a head, as of one of HTTP/1.1.
const MAX_FIELDS: usize = 100;

/// Gives a head its `Host`, which is the authority of its target, and one `Cookie`, which clients may
/// split (RFC 9113, 8.2.3 and 8.3.1).
pub fn translate(head: &mut Parts) -> Head {
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        let is_it = |sent: &HeaderValue| sent.as_bytes().eq_ignore_ascii_case(host.as_bytes());
        let mut sent = head.headers.get_all(HOST).iter();
        // One that differs is a second one, which is refused.
        if !(sent.next().is_some_and(is_it) && sent.next().is_none()) {
            head.headers.append(HOST, host);
        }
    }
    let crumbs: Vec<_> = head.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        head.headers.insert(COOKIE, cookie);
    }
    if head.headers.len() > MAX_FIELDS { Head::TooLarge } else { Head::Good }
}

/// Whether the response to this has no body, whatever it would have been. `length` is that of it.
pub fn cut_body(asked: &Method, head: &mut response::Parts, length: Option<u64>) -> bool {
    if *asked == Method::HEAD {
        if let Some(length) = length
            && !head.headers.contains_key(CONTENT_LENGTH)
        {
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        return true;
    }
    head.status.is_informational()
        || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use hyper::header::{ACCEPT, HeaderName};

    use super::*;

    fn translated(uri: &str, fields: &[(HeaderName, &str)]) -> (Parts, Head) {
        let mut request = Request::get(uri);
        for (name, value) in fields {
            request = request.header(name, *value);
        }
        let mut head = request.body(()).unwrap().into_parts().0;
        let known = translate(&mut head);
        (head, known)
    }

    fn all(head: &Parts, name: HeaderName) -> Vec<&str> {
        head.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }

    #[test]
    fn the_authority_is_the_host_and_another_host_a_second_one() {
        let hosts = |fields: &[(HeaderName, &str)]| {
            let (head, _) = translated("https://agents.test:7420/x", fields);
            all(&head, HOST).join(" ")
        };
        assert_eq!(hosts(&[]), "agents.test:7420");
        assert_eq!(hosts(&[(HOST, "AGENTS.test:7420")]), "AGENTS.test:7420");
        assert_eq!(hosts(&[(HOST, "agents.test")]), "agents.test agents.test:7420");
        let twice = [(HOST, "agents.test:7420"), (HOST, "agents.test:7420")];
        assert_eq!(hosts(&twice).matches("7420").count(), 3);
        let (head, _) = translated("/x", &[(HOST, "a")]);
        assert_eq!(all(&head, HOST), ["a"]);
        let (head, _) = translated("/x", &[]);
        assert!(all(&head, HOST).is_empty());
    }

    #[test]
    fn cookies_are_joined_and_do_not_count_as_fields() {
        let crumbs: Vec<_> = (0..200).map(|n| format!("c{n}={n}")).collect();
        let fields: Vec<_> = crumbs.iter().map(|crumb| (COOKIE, &**crumb)).collect();
        let (head, known) = translated("https://a/", &fields);
        assert_eq!(all(&head, COOKIE), [crumbs.join("; ")]);
        assert_eq!(known, Head::Good);
        let many = |count| translated("https://a/", &vec![(ACCEPT, "*/*"); count]).1;
        assert_eq!((many(99), many(100)), (Head::Good, Head::TooLarge));
    }
}
