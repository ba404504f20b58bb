//! Calls of the API's routes, executed in this process for the key of a request.
//!
//! All calls of a message count as one request for the rate limit, as those of a page of the console
//! do.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::execute::{Arguments, Authenticated, Body, Etag, Executor, ItemStream, Request};
use crate::api::{Method, OrgSlugMode, Route};
use crate::auth::RawCredential;
use crate::base::{Error, Kind, Result};
use crate::http::Router;

/// The route by which a key is authenticated: every key may call it.
const WHO_AM_I: &str = "/whoami";

/// The API, called with an API key.
#[derive(Clone)]
pub struct Api {
    pub executor: Arc<Executor>,
    router: Arc<Router>,
    credential: RawCredential,
    authenticated: Option<Authenticated>,
    /// The organization that the key is for.
    pub org_slug: String,
    /// The `Idempotency-Key` of what is called.
    pub idempotency_key: Option<String>,
    address: IpAddr,
    link_base: String,
    request_id: String,
}

/// Where a request comes from, as the API is told.
pub struct Origin<'a> {
    pub address: IpAddr,
    /// The base of links to this server.
    pub link_base: String,
    pub request_id: &'a str,
}

impl Api {
    /// The API for this credential, verified.
    ///
    /// # Errors
    /// 401 for a credential that is not valid or no API key, 429, 503.
    pub async fn enter(
        executor: Arc<Executor>,
        router: Arc<Router>,
        credential: RawCredential,
        origin: Origin<'_>,
    ) -> Result<Self> {
        let Origin { address, link_base, request_id } = origin;
        let mut api = Api {
            executor,
            router,
            credential,
            authenticated: None,
            org_slug: String::new(),
            idempotency_key: None,
            address,
            link_base,
            request_id: request_id.into(),
        };
        let route = api.route(Method::Get, WHO_AM_I)?;
        let authenticated =
            api.executor.authenticate(&api.request(&route, Vec::new(), json!({}))).await?;
        let identity = authenticated.identity().cloned();
        let identity = identity.ok_or_else(|| Error::internal("a route without a caller"))?;
        let Some(slug) = api.executor.key_organization(&identity).await? else {
            return Err(Error::new(
                Kind::Unauthenticated,
                "api_key_required",
                "this takes an API key, whose organization it is about, as Authorization: Bearer \
                 <key>; sessions are not accepted here",
            ));
        };
        api.org_slug = slug.into_string();
        api.authenticated = Some(authenticated);
        Ok(api)
    }

    /// Who calls.
    pub fn authenticated(&self) -> Option<&Authenticated> {
        self.authenticated.as_ref()
    }

    /// The fingerprint of the credential.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.credential.fingerprint()
    }

    /// The route of a method and a pattern of a path, as the table of routes has it.
    ///
    /// # Errors
    /// 500 if there is none.
    pub fn route(&self, method: Method, pattern: &'static str) -> Result<Arc<Route>> {
        find(&self.router, method, pattern)
    }

    /// Gets a resource by the pattern of its path, the values of its parameters and other arguments.
    ///
    /// # Errors
    /// Those of the route.
    pub async fn get<T: DeserializeOwned>(
        &self,
        pattern: &'static str,
        params: &[&str],
        arguments: Value,
    ) -> Result<T> {
        self.read(Method::Get, pattern, params, arguments).await
    }

    /// Posts JSON, likewise.
    ///
    /// # Errors
    /// Those of the route.
    pub async fn post<T: DeserializeOwned>(
        &self,
        pattern: &'static str,
        params: &[&str],
        arguments: Value,
    ) -> Result<T> {
        self.read(Method::Post, pattern, params, arguments).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        method: Method,
        pattern: &'static str,
        params: &[&str],
        arguments: Value,
    ) -> Result<T> {
        let route = self.route(method, pattern)?;
        let params = params.iter().map(|param| param.to_string()).collect();
        let json = self.call(&route, params, arguments).await?;
        serde_json::from_slice(&json)
            .map_err(|error| Error::internal(format!("{pattern}: more is needed: {error}")))
    }

    /// Calls a route and returns its JSON.
    ///
    /// # Errors
    /// Those of the route.
    pub async fn call(
        &self,
        route: &Arc<Route>,
        params: Vec<String>,
        arguments: Value,
    ) -> Result<Bytes> {
        let mut request = self.request(route, params, arguments);
        request.idempotency_key = self.idempotency_key.as_deref().map(str::as_bytes);
        match self.execute(&request).await? {
            (Body::Json(json), _) => Ok(json),
            _ => Err(Error::internal(format!("{} does not answer with JSON", route.name))),
        }
    }

    /// Waits until the thing has another tag than this one; returns its new tag, or none if it has
    /// not changed in the time of the arguments.
    ///
    /// # Errors
    /// Those of the route.
    pub async fn changed(
        &self,
        route: &Arc<Route>,
        arguments: Value,
        known: Option<&Etag>,
    ) -> Result<Option<Etag>> {
        let mut request = self.request(route, Vec::new(), arguments);
        request.preconditions.if_none_match.extend(known.map(|known| known.as_bytes()));
        let (body, tag) = self.execute(&request).await?;
        Ok(tag.filter(|_| !matches!(body, Body::NotModified)))
    }

    /// The stream of items of a route that waits.
    ///
    /// # Errors
    /// Those of the route.
    pub async fn stream(
        &self,
        route: &Arc<Route>,
        params: Vec<String>,
        arguments: Value,
    ) -> Result<ItemStream> {
        let mut request = self.request(route, params, arguments);
        request.is_stream = true;
        match self.execute(&request).await? {
            (Body::Items(_, items), _) => Ok(items),
            _ => Err(Error::internal(format!("{} has no stream", route.name))),
        }
    }

    async fn execute(&self, request: &Request<'_>) -> Result<(Body, Option<Etag>)> {
        let caller = self.authenticated.clone();
        let caller = caller.ok_or_else(|| Error::internal("a call before authentication"))?;
        let response = self.executor.execute(request, caller).await?;
        Ok((response.body, response.etag))
    }

    /// A request of a route; the organization is added where the route needs one to be named.
    fn request<'a>(
        &'a self,
        route: &'a Arc<Route>,
        params: Vec<String>,
        mut arguments: Value,
    ) -> Request<'a> {
        if route.org_source.org_slug() == OrgSlugMode::Required
            && arguments.get("orgSlug").is_none()
        {
            arguments["orgSlug"] = json!(self.org_slug);
        }
        Request {
            target: route.path,
            address: self.address,
            link_base: &self.link_base,
            request_id: &self.request_id,
            ..Request::new(route, params, Arguments::Json(arguments), self.credential.clone())
        }
    }
}

/// Finds a route by the pattern of its path, which matches itself.
///
/// # Errors
/// 500 if there is none.
pub fn find(router: &Router, method: Method, pattern: &'static str) -> Result<Arc<Route>> {
    let found = router.route(method, pattern).map(|(route, _)| route);
    let found = found.filter(|route| route.path == pattern);
    found.ok_or_else(|| Error::internal(format!("no route {} {pattern}", method.as_str())))
}
