//! The other side: asks it for JSON, and says in one sentence what is wrong with what it answers.
//!
//! Such a sentence holds neither credentials, nor the URL (its query may be one), nor anything of
//! the answer: a provider that answers with its inner life must not show it to every member.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;

use super::ProviderKind;
use crate::api::Calls;
use crate::base::{Error, Kind, Result};
use crate::outside::{AnswerBody, Call, Limits, Method};

/// A whole fetch takes at most so long (reference: registries-and-templates, "Prompt providers").
pub const TOTAL_SECS: u64 = 10;

/// A list in one answer: 200 prompts of usual size many times over.
const LIST_BYTES: usize = 4 * 1024 * 1024;

/// One prompt in one answer: as much as a request of ours may have.
const PROMPT_BYTES: usize = 1024 * 1024;

/// Parts of a list that are fetched one after the other. A provider whose list never ends must not
/// keep us for long; 5 parts of 100 are more than anybody may ask for.
pub const MAX_PARTS: usize = 5;

/// What stays as it is in a path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One provider, as one request asks it.
pub struct Server<'a> {
    /// What it is.
    pub kind: ProviderKind,
    /// The slug of the organization that asks.
    pub org_slug: &'a str,
    /// What the paths of its API are appended to.
    base: String,
    /// The query of its `baseUrl`, which is sent with every request; of another Roadstead, what it
    /// says of where to look.
    query: Vec<(String, String)>,
    authorization: Option<String>,
    calls: &'a mut Calls,
}

/// What came of asking for one thing.
pub enum Reply<T> {
    /// The answer is awaited.
    Pending,
    /// It has no such thing.
    Missing,
    /// Here it is.
    There(T),
}

impl<T> Reply<T> {
    /// The same with what is there turned into something else, or found to be nothing.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Option<U>) -> Reply<U> {
        match self {
            Reply::Pending => Reply::Pending,
            Reply::Missing => Reply::Missing,
            Reply::There(there) => f(there).map_or(Reply::Missing, Reply::There),
        }
    }
}

impl<'a> Server<'a> {
    /// The provider at `base_url`.
    pub fn new(
        kind: ProviderKind,
        base_url: &str,
        authorization: Option<String>,
        org_slug: &'a str,
        calls: &'a mut Calls,
    ) -> Self {
        let url = base_url.split('#').next().unwrap_or_default();
        let (path, query) = match kind {
            // Its address is the list's own, as it stands.
            ProviderKind::Http => (url, ""),
            _ => url.split_once('?').unwrap_or((url, "")),
        };
        let path = path.trim_end_matches('/');
        let base = match kind {
            ProviderKind::Http => url.into(),
            ProviderKind::Roadstead if !path.ends_with("/api") => format!("{path}/api"),
            _ => path.into(),
        };
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Server { kind, org_slug, base, query, authorization, calls }
    }

    /// What the query of its `baseUrl` says of `name`.
    pub fn option(&self, name: &str) -> Option<String> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    /// Asks for a list; nothing while the answer is awaited.
    ///
    /// # Errors
    /// 502, also when there is no such list.
    pub fn list<T: DeserializeOwned>(
        &mut self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Option<T>> {
        match self.get(path, query, LIST_BYTES)? {
            Reply::Pending => Ok(None),
            Reply::There(list) => Ok(Some(list)),
            Reply::Missing => Err(failed(
                "it has no such path (404); see whether its baseUrl and its kind are right",
            )),
        }
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// 502.
    pub fn one<T: DeserializeOwned>(
        &mut self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Reply<T>> {
        self.get(path, query, PROMPT_BYTES)
    }

    fn get<T: DeserializeOwned>(
        &mut self,
        path: &str,
        query: &[(&str, &str)],
        bytes: usize,
    ) -> Result<Reply<T>> {
        let call = Call {
            method: Method::Get,
            url: self.url(path, query),
            headers: self.headers(),
            body: Vec::new(),
            limits: Limits {
                total: Duration::from_secs(TOTAL_SECS),
                answer: AnswerBody::UpTo(bytes),
                https_only: false,
            },
        };
        let Some(heard) = self.calls.send(call) else { return Ok(Reply::Pending) };
        let answer = heard.answer.map_err(failed)?;
        match answer.status {
            200..=299 => {}
            404 => return Ok(Reply::Missing),
            status => return Err(self.refusal(status)),
        }
        serde_json::from_slice(&answer.body).map(Reply::There).map_err(|error| {
            match error.classify() {
                // Its text may repeat the answer.
                serde_json::error::Category::Data => self.malformed(),
                _ => failed(
                    "its answer is not JSON, or nested too deeply; see whether its baseUrl is right",
                ),
            }
        })
    }

    fn url(&self, path: &str, query: &[(&str, &str)]) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        if self.kind != ProviderKind::Roadstead {
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

    fn refusal(&self, status: u16) -> Error {
        match status {
            300..=399 => failed(format!(
                "it redirects ({status}), which is not followed; give the address that it leads to \
                 as baseUrl"
            )),
            401 | 403 if self.authorization.is_none() => {
                failed(format!("it asks for credentials ({status}); add them with PATCH"))
            }
            401 | 403 => failed(format!(
                "it refuses the credentials ({status}); give it valid ones with PATCH"
            )),
            429 => failed("it has been asked too often (429); try again later"),
            _ => failed(format!(
                "it answers with the error {status}; see whether its baseUrl is right, or try again \
                 later"
            )),
        }
    }

    /// 502 for an answer that is not what this kind of provider gives.
    pub fn malformed(&self) -> Error {
        let kind = self.kind.as_str();
        failed(format!(
            "its answer does not have the form that the kind {kind} has; see whether its kind is \
             right"
        ))
    }
}

/// 502 that says what was wrong.
fn failed(what: impl std::fmt::Display) -> Error {
    let message = format!("the prompt provider cannot be used now: {what}");
    Error::new(Kind::Upstream, "prompt_provider_failed", message)
}

/// A name as one part of a path.
pub fn in_path(name: &str) -> String {
    utf8_percent_encode(name, UNRESERVED).to_string()
}
