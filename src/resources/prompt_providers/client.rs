//! The client of a provider: requests JSON, and reports a failure in one sentence.
//!
//! Such a sentence contains neither credentials, nor the URL (its query may be a credential), nor any
//! part of the answer: internals that a provider discloses must not be shown to every member.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::provider::PromptProviderKind;
use crate::api::Calls;
use crate::base::{Error, Kind, Result, word};
use crate::outside::{BodyLimit, Call, CallResult, Limits, Method};

/// The time limit of a whole fetch, in seconds (reference: registries-and-templates, "Prompt providers").
pub const TOTAL_SECS: u64 = 10;

/// The largest answer with a list, in bytes: many times the size of 200 usual prompts.
const LIST_BYTES: usize = 4 * 1024 * 1024;

/// The largest answer with one prompt, in bytes: the size limit of our own requests.
const PROMPT_BYTES: usize = 1024 * 1024;

/// The pages that are fetched one after the other to find one thing in them.
pub const MAX_PAGES: usize = 5;

/// A client of one provider, for one request.
pub struct ProviderClient<'a> {
    pub kind: PromptProviderKind,
    /// The slug of the caller's organization.
    pub org_slug: &'a str,
    /// The URL that paths of the API are appended to.
    base: String,
    /// The query of its `baseUrl`. It is sent with every request, except to another Roadstead, where it
    /// contains options.
    query: Vec<(String, String)>,
    authorization: Option<String>,
    calls: &'a mut Calls,
}

/// The answer to a request for one resource.
pub enum ProviderReply<T> {
    /// The answer is pending.
    Pending,
    /// The resource does not exist.
    Missing,
    /// The resource.
    Found(T),
}

impl<T> ProviderReply<T> {
    /// Converts the resource; `None` means that it does not exist after all.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Option<U>) -> ProviderReply<U> {
        match self {
            ProviderReply::Pending => ProviderReply::Pending,
            ProviderReply::Missing => ProviderReply::Missing,
            ProviderReply::Found(found) => {
                f(found).map_or(ProviderReply::Missing, ProviderReply::Found)
            }
        }
    }
}

impl<'a> ProviderClient<'a> {
    /// Creates a client of the provider at `base_url`.
    pub fn new(
        kind: PromptProviderKind,
        base_url: &str,
        authorization: Option<String>,
        org_slug: &'a str,
        calls: &'a mut Calls,
    ) -> Self {
        let url = base_url.split('#').next().unwrap_or_default();
        let (path, query) = match kind {
            // Its URL is that of the list itself.
            PromptProviderKind::Http => (url, ""),
            _ => url.split_once('?').unwrap_or((url, "")),
        };
        let path = path.trim_end_matches('/');
        let base = match kind {
            PromptProviderKind::Http => url.into(),
            PromptProviderKind::Roadstead if !path.ends_with("/api") => format!("{path}/api"),
            _ => path.into(),
        };
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        ProviderClient { kind, org_slug, base, query, authorization, calls }
    }

    /// Returns the parameter `name` of the query of its `baseUrl`.
    pub fn option(&self, name: &str) -> Option<String> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    /// Requests a list, which is parsed once for all prompts that are looked up in it; `None` while
    /// the answer is pending.
    ///
    /// # Errors
    /// 502 if the request fails or the list does not exist.
    pub fn list<T: DeserializeOwned + Send + Sync + 'static>(
        &mut self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Option<Arc<T>>> {
        let call = self.call(path, query, LIST_BYTES);
        let replies = self.replies();
        let parsed = self.calls.send_parsed(call, |result| {
            replies.parse(result).map(|parsed: Option<T>| parsed.map(Arc::new))
        });
        match parsed.as_deref() {
            None => Ok(None),
            Some(Ok(Some(list))) => Ok(Some(list.clone())),
            Some(Ok(None)) => Err(failed("it has no such path (404); check its baseUrl and kind")),
            Some(Err(error)) => Err(error.clone()),
        }
    }

    /// Requests one resource.
    ///
    /// # Errors
    /// 502 if the request fails.
    pub fn one<T: DeserializeOwned>(
        &mut self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<ProviderReply<T>> {
        let call = self.call(path, query, PROMPT_BYTES);
        let Some(result) = self.calls.send(call) else { return Ok(ProviderReply::Pending) };
        Ok(self.replies().parse(&result)?.map_or(ProviderReply::Missing, ProviderReply::Found))
    }

    fn call(&self, path: &str, query: &[(&str, &str)], bytes: usize) -> Call {
        Call {
            method: Method::GET,
            url: self.url(path, query),
            headers: self.headers(),
            body: Vec::new(),
            limits: Limits {
                total: Duration::from_secs(TOTAL_SECS),
                answer: BodyLimit::UpTo(bytes),
                https_only: false,
            },
        }
    }

    fn replies(&self) -> Replies {
        Replies { kind: self.kind, is_authorized: self.authorization.is_some() }
    }

    fn url(&self, path: &str, query: &[(&str, &str)]) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        if self.kind != PromptProviderKind::Roadstead {
            form.extend_pairs(&self.query);
        }
        let query = form.extend_pairs(query).finish();
        let sign = if query.is_empty() { "" } else { "?" };
        format!("{}{path}{sign}{query}", self.base)
    }

    fn headers(&self) -> Vec<(String, String)> {
        let accept = ("accept".into(), "application/json".into());
        let authorization =
            self.authorization.iter().map(|value| ("authorization".into(), value.clone()));
        [accept].into_iter().chain(authorization).collect()
    }

    /// Returns the 502 for an answer that does not have the form of this kind.
    pub fn malformed(&self) -> Error {
        self.replies().malformed()
    }
}

/// What the answers of a provider mean.
#[derive(Clone, Copy)]
struct Replies {
    kind: PromptProviderKind,
    is_authorized: bool,
}

impl Replies {
    /// Parses an answer; `None` if the resource does not exist.
    fn parse<T: DeserializeOwned>(self, result: &CallResult) -> Result<Option<T>> {
        let answer = result.answer.as_ref().map_err(failed)?;
        match answer.status {
            200..=299 => {}
            404 => return Ok(None),
            status => return Err(self.refusal(status)),
        }
        serde_json::from_slice(&answer.body).map(Some).map_err(|error| match error.classify() {
            // The text of the error may contain parts of the answer.
            serde_json::error::Category::Data => self.malformed(),
            _ => failed("its answer is not JSON, or nested too deeply; check its baseUrl"),
        })
    }

    fn refusal(self, status: u16) -> Error {
        match status {
            300..=399 => failed(format!(
                "it redirects ({status}), which is not followed; set baseUrl to the target of the \
                 redirect"
            )),
            401 | 403 if !self.is_authorized => {
                failed(format!("it requires credentials ({status}); add them with PATCH"))
            }
            401 | 403 => {
                failed(format!("it refuses the credentials ({status}); set valid ones with PATCH"))
            }
            429 => failed("its rate limit is reached (429); try again later"),
            _ => failed(format!(
                "it answers with the error {status}; check its baseUrl, or try again later"
            )),
        }
    }

    fn malformed(self) -> Error {
        let kind = word(self.kind);
        failed(format!("its answer does not have the form of the kind {kind}; check its kind"))
    }
}

/// Returns a 502 with the cause.
fn failed(what: impl std::fmt::Display) -> Error {
    let message = format!("the prompt provider failed: {what}");
    Error::new(Kind::Upstream, "prompt_provider_failed", message)
}
