//! The API for adapters within this process: a site of pages, another protocol. What they ask the
//! routes for is executed as a request over HTTP is, and counts as the one that they answer.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::router::Router;
use crate::api::execute::{Arguments, Authenticated, Body, Executor, ReadPoint, Request, Response};
use crate::api::{Method, Origin, Route};
use crate::auth::{Identity, RawCredential};
use crate::base::{Error, Result};

/// The target of the events that say which routes are called: by them tests know what pages offer.
const CALLS: &str = "roadstead::calls";

/// The API, called for whoever has sent a request.
#[derive(Clone)]
pub struct InProcess {
    pub executor: Arc<Executor>,
    router: Arc<Router>,
    /// The credential of the request.
    pub credential: RawCredential,
    authenticated: Option<Authenticated>,
    pub origin: Arc<Origin>,
    /// The state that routes read at; without one each call sees the newest.
    at: Option<ReadPoint>,
}

/// A call of a route.
pub struct RouteCall<'a> {
    pub route: &'a Arc<Route>,
    /// The parameters of the path, in its order.
    pub params: Vec<String>,
    /// The path as it was asked for.
    pub target: &'a str,
    /// The query string; it holds the arguments if `arguments` says so.
    pub query: &'a str,
    pub arguments: Arguments,
}

impl InProcess {
    /// The API, called without a credential.
    pub fn new(executor: Arc<Executor>, router: Arc<Router>, origin: Origin) -> Self {
        let (credential, origin) = (RawCredential::Absent, Arc::new(origin));
        InProcess { executor, router, credential, authenticated: None, origin, at: None }
    }

    /// Calls with this credential from now on, if it is valid: all calls count as one request for the
    /// rate limit. `route` is one that every owner of such a credential may call.
    ///
    /// # Errors
    /// 401, 429, 503.
    pub async fn authenticate(
        &mut self,
        credential: RawCredential,
        route: &Arc<Route>,
    ) -> Result<()> {
        self.credential = credential;
        let (target, query, arguments) = (route.path, "", Arguments::Query);
        let call = RouteCall { route, params: Vec::new(), target, query, arguments };
        let authenticated = self.executor.authenticate(&self.request(call)).await;
        if authenticated.is_err() {
            self.credential = RawCredential::Absent;
        }
        self.authenticated = Some(authenticated?);
        Ok(())
    }

    /// Reads at one state from now on, so that what several calls answer fits together.
    ///
    /// # Errors
    /// 503 if no snapshot is available.
    pub async fn read_at_once(&mut self) -> Result<()> {
        self.at = Some(self.executor.store.read_point().await?);
        Ok(())
    }

    /// The same, each call seeing the newest state.
    pub fn reading_newest(&self) -> Self {
        InProcess { at: None, ..self.clone() }
    }

    /// Who calls, if a credential was verified.
    pub fn identity(&self) -> Option<Arc<Identity>> {
        self.authenticated.as_ref()?.identity().cloned()
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.router.routes()
    }

    /// Finds the route of a method and a path, with its parameters.
    ///
    /// # Errors
    /// 500 if there is none.
    pub fn find(&self, method: Method, path: &str) -> Result<(Arc<Route>, Vec<String>)> {
        let found = self.router.route(method, path);
        found.ok_or_else(|| Error::internal(format!("no route {} {path}", method.as_str())))
    }

    /// Finds a route by the pattern of its path.
    ///
    /// # Errors
    /// 500 if there is none.
    pub fn by_pattern(&self, method: Method, pattern: &'static str) -> Result<Arc<Route>> {
        self.router.by_pattern(method, pattern)
    }

    /// A request of the caller, which may be given further headers.
    pub fn request(&self, call: RouteCall<'_>) -> Request {
        let RouteCall { route, params, target, query, arguments } = call;
        let (credential, origin) = (self.credential.clone(), self.origin.clone());
        Request {
            target: target.into(),
            query: query.into(),
            at: self.at.clone(),
            ..Request::new(route.clone(), params.into(), arguments, credential, origin)
        }
    }

    /// Executes a request.
    pub async fn execute(&self, request: Request) -> Result<Response> {
        let Route { method, path, .. } = *request.route;
        tracing::trace!(target: CALLS, method = method.as_str(), path, "an adapter calls a route");
        let caller = match &self.authenticated {
            Some(authenticated) => authenticated.clone(),
            None => self.executor.authenticate(&request).await?,
        };
        self.executor.execute(request, caller).await
    }

    /// Executes a request of a route that answers with JSON.
    ///
    /// # Errors
    /// Those of the route; 500 if it answers with something else.
    pub async fn json(&self, request: Request) -> Result<Bytes> {
        let name = request.route.name;
        json(name, self.execute(request).await?)
    }

    /// The same, with the fields that the adapter needs.
    ///
    /// # Errors
    /// Those of the route; 500 if its answer lacks a field.
    pub async fn parsed<T: DeserializeOwned>(&self, request: Request) -> Result<T> {
        let name = request.route.name;
        Self::parse(name, self.execute(request).await?)
    }

    /// Returns the fields that the adapter needs of the response of a route with this name or path.
    ///
    /// # Errors
    /// 500 if it is not JSON, or lacks a field.
    pub fn parse<T: DeserializeOwned>(route: &str, response: Response) -> Result<T> {
        serde_json::from_slice(&json(route, response)?)
            .map_err(|error| Error::internal(format!("{route}: an adapter needs more: {error}")))
    }
}

fn json(route: &str, response: Response) -> Result<Bytes> {
    match response.body {
        Body::Json(json) => Ok(json),
        _ => Err(Error::internal(format!("{route} does not answer with JSON"))),
    }
}
