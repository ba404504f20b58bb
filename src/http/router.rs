//! Finds the route of a method and path.

use std::collections::BTreeMap;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::api::{Method, Route};
use crate::base::{Error, Result};

/// The routes, by path and method.
pub struct Router {
    paths: matchit::Router<BTreeMap<Method, Arc<Route>>>,
}

/// A matching route.
pub struct Match<'a> {
    pub route: &'a Arc<Route>,
    /// The path parameters, decoded, in order.
    pub params: Vec<String>,
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
        for route in routes {
            let (method, path) = (route.method, route.path);
            if by_path.entry(path).or_default().insert(method, Arc::new(route)).is_some() {
                return Err(Error::internal(format!("two routes {} {path}", method.as_str())));
            }
        }
        let mut paths = matchit::Router::new();
        for (path, methods) in by_path {
            paths.insert(path, methods).map_err(|e| Error::internal(format!("{path}: {e}")))?;
        }
        Ok(Router { paths })
    }

    /// Finds the route of `method` and `path` (relative to `/api`). Paths are compared as sent,
    /// without normalization.
    pub fn find(&self, method: &hyper::Method, path: &str) -> Result<Match<'_>, Missing> {
        let matched = self.paths.at(path).map_err(|_| Missing::Path)?;
        let methods = matched.value;
        let route = named(method).and_then(|method| methods.get(&method)).ok_or_else(|| {
            let allowed: Vec<_> = methods.keys().map(|method| method.as_str()).collect();
            Missing::Method(allowed.join(", "))
        })?;
        let decoded = |value: &str| {
            if value.contains('%') {
                percent_decode_str(value).decode_utf8_lossy().into_owned()
            } else {
                value.to_string()
            }
        };
        let params = matched.params.iter().map(|(_, value)| decoded(value)).collect();
        Ok(Match { route, params, reading: methods.get(&Method::Get) })
    }

    /// Whether this path has a route that may be called before the server is set up.
    pub fn is_open_before_setup(&self, path: &str) -> bool {
        let routes = self.paths.at(path).map(|matched| matched.value);
        routes.is_ok_and(|routes| routes.values().any(|route| route.open_before_setup))
    }
}

fn named(method: &hyper::Method) -> Option<Method> {
    Some(match *method {
        hyper::Method::GET => Method::Get,
        hyper::Method::POST => Method::Post,
        hyper::Method::PUT => Method::Put,
        hyper::Method::PATCH => Method::Patch,
        hyper::Method::DELETE => Method::Delete,
        _ => return None,
    })
}
