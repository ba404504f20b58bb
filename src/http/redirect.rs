//! The answers of an address that only leads browsers to where TLS is spoken (`--redirect-http`).

use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, HOST, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, Response, StatusCode};

use super::problem;
use super::response_body::ResponseBody;
use crate::base::{Error, Result};

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Where TLS is spoken.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// `--public-url`, if that is https. Otherwise the host is that of the request.
    pub public_url: Option<String>,
    /// The port of the first listener with TLS.
    pub port: u16,
}

impl Redirect {
    /// Answers a request whose `Host` is one, or is not there.
    pub(super) fn answer(&self, head: &Parts, request_id: &str) -> Response<ResponseBody> {
        let location = match head.method {
            Method::GET | Method::HEAD => self.location(head),
            // Who sends something would send it in the clear again, if it were answered otherwise.
            _ => Err(Error::forbidden(
                "https_required",
                "this address only leads to https: send the request there; nothing was done",
            )),
        };
        match location.map(HeaderValue::try_from) {
            Ok(Ok(location)) => {
                let mut response = Response::new(ResponseBody::Whole(Full::default()));
                *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
                response.headers_mut().insert(LOCATION, location);
                // Browsers keep one of this status for ever, also after TLS was moved or given up.
                response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
                response
            }
            Ok(Err(error)) => problem::reply(&Error::internal(error), request_id),
            Err(error) => problem::reply(&error, request_id),
        }
    }

    fn location(&self, head: &Parts) -> Result<String> {
        let path = head.uri.path_and_query().map(|path| path.as_str());
        // `*` is a target as well.
        let path = path.filter(|path| path.starts_with('/')).unwrap_or("/");
        if let Some(url) = &self.public_url {
            return Ok(format!("{url}{path}"));
        }
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.and_then(|host| host.parse::<Authority>().ok());
        let Some(host) = host else {
            return Err(Error::invalid_at("Host", "is needed to know where https is spoken"));
        };
        let port = if self.port == 443 { String::new() } else { format!(":{}", self.port) };
        Ok(format!("https://{}{port}{path}", host.host()))
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn location(redirect: &Redirect, host: &str, target: &str) -> Option<String> {
        let request = Request::builder().uri(target).header(HOST, host).body(()).unwrap();
        let response = redirect.answer(&request.into_parts().0, "id");
        let location = response.headers().get(LOCATION)?;
        assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        Some(location.to_str().unwrap().into())
    }

    #[test]
    fn a_redirect_leads_to_the_public_url_or_to_the_same_host() {
        let own = |port| Redirect { public_url: None, port };
        for (port, host, target, to) in [
            (7443, "a.test", "/x?y=z", "https://a.test:7443/x?y=z"),
            (443, "a.test:80", "/", "https://a.test/"),
            (443, "a.test", "*", "https://a.test/"),
            (7443, "[::1]:7080", "//evil.test/", "https://[::1]:7443//evil.test/"),
            (443, "10.0.0.7", "http://evil.test/a", "https://10.0.0.7/a"),
        ] {
            assert_eq!(location(&own(port), host, target).as_deref(), Some(to));
        }
        let public = Redirect { public_url: Some("https://a.test:8443".into()), port: 443 };
        let to = location(&public, "b.test", "/x");
        assert_eq!(to.as_deref(), Some("https://a.test:8443/x"));
    }
}
