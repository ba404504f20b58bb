//! Calls of the API's routes, executed in this process for the visitor's session.
//!
//! A page names a route as a client does, by method and path, and gets JSON. All calls of a page
//! count as one request for the rate limit.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::multipart::SentFile;
use super::strict::List;
use crate::api::execute::{
    Arguments, Body, Executor, Preconditions, Request, Response, TextStream,
};
use crate::api::{Method, Origin, Uploaded};
use crate::auth::{RawCredential, Role};
pub use crate::base::segment;
use crate::base::{Error, Result};
use crate::http::{InProcess, RouteCall, Router};

/// The route of the session, by which a visitor is authenticated.
pub const SESSION: &str = "/auth/session";

/// Lists are read whole in pages of this size, and not more of them than this.
const PAGE: &str = "100";
const PAGE_ITEMS: usize = 100;
const MAX_PAGES: usize = 10;

/// The API, called for a visitor.
pub struct Api {
    /// With the visitor's session, if they have one.
    pub calls: InProcess,
    /// The organization that calls are about.
    pub(super) org_slug: Option<String>,
    /// The `Idempotency-Key` of what a form does.
    pub(super) idempotency_key: Option<String>,
}

impl Api {
    /// The items of a list that [`Api::items`] reads.
    pub const MAX_ITEMS: usize = PAGE_ITEMS * MAX_PAGES;

    /// The API, called without a credential.
    pub(super) fn new(executor: Arc<Executor>, router: Arc<Router>, origin: Origin) -> Self {
        let calls = InProcess::new(executor, router, origin);
        Api { calls, org_slug: None, idempotency_key: None }
    }

    /// The API for what goes on after a page was answered: each call sees the newest state.
    pub fn reading_newest(&self) -> Api {
        let calls = self.calls.reading_newest();
        Api { calls, org_slug: self.org_slug.clone(), idempotency_key: None }
    }

    /// Calls with this session's token from now on.
    ///
    /// # Errors
    /// 401 if the session has ended, 429.
    pub(super) async fn authenticate(&mut self, token: &str) -> Result<()> {
        let route = self.calls.by_pattern(Method::Get, SESSION)?;
        self.calls.authenticate(RawCredential::Token(token.into()), &route).await
    }

    /// Gets a resource, with these parameters beside the organization's.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T> {
        self.with_query(Method::Get, path, query).await
    }

    /// Gets what is beside every page, if that costs little: nothing waits for it.
    ///
    /// # Errors
    /// 503 if it costs much; those of the route.
    pub(super) async fn get_light<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let (route, params) = self.calls.find(Method::Get, path)?;
        let (query, arguments) = (self.query(&[]), Arguments::Query);
        let call = RouteCall { route: &route, params, target: path, query: &query, arguments };
        self.calls.parsed(Request { is_light: true, ..self.calls.request(call) }).await
    }

    /// Gets the items of a list: the first 1,000, for choices and for names of what other lists refer
    /// to.
    pub async fn items<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut query = [query, &[("limit", PAGE)]].concat();
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: List<T> = self.get(path, &query).await?;
            items.extend(page.items);
            cursor = page.next_cursor.0;
            if cursor.is_none() {
                break;
            }
        }
        Ok(items)
    }

    /// Deletes a resource.
    pub async fn delete(&self, path: &str, query: &[(&str, &str)]) -> Result<()> {
        self.with_query::<Value>(Method::Delete, path, query).await.map(drop)
    }

    /// Posts JSON, to which the organization is added.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: Value) -> Result<T> {
        self.with_body(Method::Post, path, body).await
    }

    /// Posts JSON to a route that passes on what another server says, for a stream of it.
    pub async fn post_for_text(&self, path: &str, body: Value) -> Result<TextStream> {
        let (route, params) = self.calls.find(Method::Post, path)?;
        let arguments = Arguments::Json(self.in_org(body));
        let call = RouteCall { route: &route, params, target: path, query: "", arguments };
        let request = Request { is_stream: true, ..self.calls.request(call) };
        match self.calls.execute(request).await?.body {
            Body::TextStream(text) => Ok(*text),
            _ => Err(Error::internal(path)),
        }
    }

    /// The API for one of several calls of a route that a form makes.
    pub fn part(&self, name: &str) -> Api {
        let key = self.idempotency_key.as_ref().map(|key| format!("{key}/{name}"));
        Api { calls: self.calls.clone(), org_slug: self.org_slug.clone(), idempotency_key: key }
    }

    /// Sends a file, with these parameters beside the organization's; with a tag, only if the resource
    /// still has it.
    ///
    /// # Errors
    /// 400 if the route takes no files of its type; 412; those of the route.
    pub async fn upload<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        file: &SentFile,
        if_match: Option<&[u8]>,
    ) -> Result<T> {
        let (route, _) = self.calls.find(method, path)?;
        let accepted = route.operation.upload.as_ref().map_or(&[][..], |upload| upload.media_types);
        let media_type = file.media_type(accepted).ok_or_else(|| {
            Error::invalid_at(
                "file",
                "must be a text, Markdown, CSV, HTML, PDF, RTF, EPUB, Word, Excel, PowerPoint or \
                 OpenDocument file",
            )
        })?;
        let upload = Uploaded { bytes: file.bytes.clone(), media_type, charset: None };
        let (query, arguments) = (self.query(query), Arguments::Upload(upload));
        let response = self.respond(method, path, &query, arguments, if_match).await?;
        InProcess::parse(path, response)
    }

    /// The bytes that the file of an upload may have.
    ///
    /// # Errors
    /// If no route at this path takes one, which is a mistake of the page.
    pub fn max_upload_bytes(&self, path: &str) -> Result<usize> {
        let (route, _) = self.calls.find(Method::Post, path)?;
        let upload = route.operation.upload.as_ref();
        upload.map(|upload| upload.max_bytes).ok_or_else(|| Error::internal(path))
    }

    /// Sets a resource.
    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: Value) -> Result<T> {
        self.with_body(Method::Put, path, body).await
    }

    /// Sets a resource that does not exist yet.
    ///
    /// # Errors
    /// 412 if it exists; those of the route.
    pub async fn put_new(&self, path: &str, body: Value) -> Result<()> {
        let (route, params) = self.calls.find(Method::Put, path)?;
        let (reading, _) = self.calls.find(Method::Get, path)?;
        let arguments = Arguments::Json(self.in_org(body));
        let call = RouteCall { route: &route, params, target: path, query: "", arguments };
        let mut request = self.calls.request(call);
        request.reading = Some(reading);
        request.preconditions =
            Preconditions { if_none_match: vec![b"*".to_vec()], ..Preconditions::default() };
        self.calls.execute(request).await.map(drop)
    }

    /// Updates a resource.
    pub async fn patch<T: DeserializeOwned>(&self, path: &str, body: Value) -> Result<T> {
        self.with_body(Method::Patch, path, body).await
    }

    /// Gets a resource with its entity tag.
    pub async fn get_tagged<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<(T, Vec<u8>)> {
        let response =
            self.respond(Method::Get, path, &self.query(query), Arguments::Query, None).await?;
        let tag = response.etag.map(|tag| tag.as_bytes().to_vec()).unwrap_or_default();
        Ok((InProcess::parse(path, response)?, tag))
    }

    /// Updates or replaces a resource that still has this entity tag.
    ///
    /// # Errors
    /// 412 if it has another one; those of the route.
    pub async fn change_if<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Value,
        tag: &[u8],
    ) -> Result<T> {
        let arguments = Arguments::Json(self.in_org(body));
        let response = self.respond(method, path, "", arguments, Some(tag)).await?;
        InProcess::parse(path, response)
    }

    /// Whether a role lets the visitor call a route, and whether they administer the installation; what
    /// depends on the resource, its grants
    /// and its state, only the call itself tells.
    pub fn may(&self, method: Method, path: &str, role: Role, of_installation: bool) -> bool {
        self.calls.find(method, path).is_ok_and(|(route, _)| {
            route.require_role(role).is_ok() && (of_installation || !route.policy.installation)
        })
    }

    /// Requires what a route asks of the role of its callers.
    ///
    /// # Errors
    /// 403 as that of the route; 500 if there is none.
    pub fn require_role(&self, method: Method, path: &str, role: Role) -> Result<()> {
        self.calls.find(method, path)?.0.require_role(role)
    }

    async fn with_query<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T> {
        self.call(method, path, &self.query(query), Arguments::Query).await
    }

    /// These parameters beside the organization's, encoded.
    fn query(&self, query: &[(&str, &str)]) -> String {
        let org = self.org_slug.iter().map(|slug| ("orgSlug", slug.as_str()));
        form_urlencoded::Serializer::new(String::new())
            .extend_pairs(org.chain(query.iter().copied()))
            .finish()
    }

    async fn with_body<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<T> {
        self.call(method, path, "", Arguments::Json(self.in_org(body))).await
    }

    /// A body with the organization.
    fn in_org(&self, mut body: Value) -> Value {
        if let Some(slug) = &self.org_slug
            && body.get("orgSlug").is_none()
        {
            body["orgSlug"] = json!(slug);
        }
        body
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &str,
        arguments: Arguments,
    ) -> Result<T> {
        let response = self.respond(method, path, query, arguments, None).await?;
        InProcess::parse(path, response)
    }

    async fn respond(
        &self,
        method: Method,
        path: &str,
        query: &str,
        arguments: Arguments,
        if_match: Option<&[u8]>,
    ) -> Result<Response> {
        let (route, params) = self.calls.find(method, path)?;
        // What a condition is compared with.
        let reading = if_match.and_then(|_| self.calls.find(Method::Get, path).ok());
        let key = self.idempotency_key.as_ref().filter(|_| route.is_idempotent());
        // One form may call several routes.
        let key = key.map(|key| format!("{key}/{}", route.name));
        let call = RouteCall { route: &route, params, target: path, query, arguments };
        let mut request = self.calls.request(call);
        request.idempotency_key = key.map(String::into_bytes);
        request.reading = reading.map(|(reading, _)| reading);
        request.preconditions.if_match = if_match.into_iter().map(<[u8]>::to_vec).collect();
        self.calls.execute(request).await
    }
}
