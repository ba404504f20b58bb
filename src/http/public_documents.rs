//! Public documents: JSON outside of `/api`, for clients of any origin and without a credential.

use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

use super::context::ServerContext;
use super::response_body::{ResponseBody, json};
use crate::api::{PublicDocument, PublicRequest};
use crate::base::{Id, Result};
use crate::store::View;

/// Returns the document at this path.
pub fn find(context: &ServerContext, path: &str) -> Option<&'static PublicDocument> {
    context.documents.iter().copied().find(|document| document.path == path)
}

/// Reads a document. Requests count for the rate limit of their address.
///
/// # Errors
/// 429, and those of the document.
pub async fn read(
    context: &ServerContext,
    head: &Parts,
    document: &'static PublicDocument,
    address: IpAddr,
) -> Result<Response<ResponseBody>> {
    context.executor.coordination.take_request(None, address)?;
    let host = host(head);
    let link_base = context.link_base(head);
    let request = PublicRequest {
        host: &host,
        query: head.uri.query().unwrap_or_default(),
        link_base: &link_base,
    };
    let read = |view: &View| (document.read)(view, &request);
    let body = context.executor.store.read(Id::NIL, read).await?;
    let mut response = json(Full::new(Bytes::from(body)));
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    // A verification that ended must not be seen any longer.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// The host name of a request: of its target if that is absolute, as HTTP has it, else of `Host`.
fn host(head: &Parts) -> String {
    let of_header = || head.headers.get(HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let authority = head.uri.authority().cloned().or_else(of_header);
    let host = authority.as_ref().map_or("", |authority| authority.host());
    host.trim_end_matches('.').to_ascii_lowercase()
}
