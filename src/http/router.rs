//! Finds the route of a method and path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::api::{Method, Route};
use crate::base::{Error, Result};

/// The routes, by path and method.
pub struct Router {
    all: Vec<Arc<Route>>,
    paths: matchit::Router<BTreeMap<Method, Arc<Route>>>,
}

/// A matching route.
pub struct Match<'a> {
    pub route: &'a Arc<Route>,
    /// The path parameters, decoded, in order.
    pub params: Arc<[String]>,
    /// The GET of the same path, whose tag `If-Match` is compared with.
    pub reading: Option<&'a Arc<Route>>,
}

/// Why no route matches.
pub enum Missing {
    /// There is no such path.
    Path,
    /// The path supports these methods only.
    Method(String),
}

impl Router {
    /// Creates a router of `routes`, whose paths are relative to `/api`.
    ///
    /// # Errors
    /// If two routes have the same method and path, or their paths are ambiguous.
    pub fn new(routes: Vec<Route>) -> Result<Self> {
        let mut by_path: BTreeMap<&'static str, BTreeMap<Method, Arc<Route>>> = BTreeMap::new();
        let all: Vec<_> = routes.into_iter().map(Arc::new).collect();
        for route in &all {
            let (method, path) = (route.method, route.path);
            if by_path.entry(path).or_default().insert(method, route.clone()).is_some() {
                return Err(Error::internal(format!("two routes {} {path}", method.as_str())));
            }
        }
        let mut paths = matchit::Router::new();
        for (path, methods) in by_path {
            paths.insert(path, methods).map_err(|e| Error::internal(format!("{path}: {e}")))?;
        }
        Ok(Router { all, paths })
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.all.iter().map(|route| &**route)
    }

    /// Finds the route of `method` and `path` (relative to `/api`), which is [`normalized`]. HEAD finds
    /// the GET.
    pub fn find(&self, method: &hyper::Method, path: &str) -> Result<Match<'_>, Missing> {
        let matched = self.paths.at(path).map_err(|_| Missing::Path)?;
        let methods = matched.value;
        let route = named(method).and_then(|method| methods.get(&method)).ok_or_else(|| {
            let mut allowed: Vec<_> = methods.keys().map(|method| method.as_str()).collect();
            if methods.contains_key(&Method::Get) {
                allowed.insert(1, "HEAD");
            }
            Missing::Method(allowed.join(", "))
        })?;
        let params = matched.params.iter().map(|(_, value)| decoded(value)).collect();
        Ok(Match { route, params, reading: methods.get(&Method::Get) })
    }

    /// Finds the route of `method` and `path`, with its parameters, for a caller within this process.
    pub fn route(&self, method: Method, path: &str) -> Option<(Arc<Route>, Vec<String>)> {
        let matched = self.paths.at(path).ok()?;
        let route = matched.value.get(&method)?.clone();
        Some((route, matched.params.iter().map(|(_, value)| decoded(value)).collect()))
    }

    /// Finds a route by the pattern of its path, which matches itself.
    ///
    /// # Errors
    /// 500 if there is none.
    pub fn by_pattern(&self, method: Method, pattern: &'static str) -> Result<Arc<Route>> {
        let found = self.route(method, pattern).map(|(route, _)| route);
        let found = found.filter(|route| route.path == pattern);
        found.ok_or_else(|| Error::internal(format!("no route {} {pattern}", method.as_str())))
    }

    /// Whether this path has a route that may be called before the server is set up.
    pub fn is_open_before_setup(&self, path: &str) -> bool {
        let routes = self.paths.at(path).map(|matched| matched.value);
        routes.is_ok_and(|routes| routes.values().any(|route| route.open_before_setup))
    }
}

/// The value of a parameter of a path.
fn decoded(value: &str) -> String {
    if value.contains('%') {
        percent_decode_str(value).decode_utf8_lossy().into_owned()
    } else {
        value.to_string()
    }
}

/// Decodes the percent-encoded unreserved characters of a path (RFC 3986, 6.2.2.2): `%61` is `a`.
/// Everything else stays as it was sent.
pub fn normalized(path: &str) -> Cow<'_, str> {
    let mut rest = path;
    let mut out = String::new();
    while let Some(at) = rest.find('%') {
        let code = rest.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push_str(&rest[..at]);
                out.push(char::from(byte));
                rest = &rest[at + 3..];
            }
            _ => {
                out.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    if out.is_empty() {
        return path.into();
    }
    (out + rest).into()
}

fn named(method: &hyper::Method) -> Option<Method> {
    Some(match *method {
        hyper::Method::GET | hyper::Method::HEAD => Method::Get,
        hyper::Method::POST => Method::Post,
        hyper::Method::PUT => Method::Put,
        hyper::Method::PATCH => Method::Patch,
        hyper::Method::DELETE => Method::Delete,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_unreserved_characters_of_a_path_are_decoded_once() {
        for (sent, expected) in [
            ("/api/agents", "/api/agents"),
            ("/%61pi/%41gents%2D%2e%5F%7e", "/api/Agents-._~"),
            ("/a%2Fb%20c%25", "/a%2Fb%20c%25"),
            ("/%2561", "/%2561"),
            ("/%2e%2e/%", "/../%"),
            ("/%6/%zz/%+1/ä%61", "/%6/%zz/%+1/äa"),
        ] {
            assert_eq!(normalized(sent), expected, "{sent}");
        }
    }
}
