//! The error type of all layers.
//!
//! Domain code names a [`Kind`]; `http::problem` turns kinds into statuses in one place. `code` is
//! part of the API, `message` is for people, `detail` goes to the log and is never sent.

use std::borrow::Cow;

/// A result whose error is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kinds of failure. Few on purpose: clients decide by these and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 400: the request is wrong; sending it again will not help.
    Invalid,
    /// 401: no valid credential.
    Unauthenticated,
    /// 403: a valid credential without the right to do this.
    Forbidden,
    /// 404: no such resource, or none that the caller may know of.
    NotFound,
    /// 405: the path exists, the method does not.
    Method,
    /// 408: the client was too slow to send its request.
    Timeout,
    /// 409: the current state does not allow it, or it exists already.
    Conflict,
    /// 412: `If-Match` names another state.
    Precondition,
    /// 413: a body over the limit.
    TooLarge,
    /// 414: a request target over the limit.
    TargetTooLong,
    /// 415: a body of another media type.
    Media,
    /// 429: a rate limit was reached.
    Limited,
    /// 431: a request head over the limit.
    HeadTooLarge,
    /// 500: a failure of the server.
    Internal,
    /// 502: an external system failed.
    Upstream,
    /// 503: temporarily unavailable: overloaded, stopping, or the outcome is unknown.
    Busy,
}

/// One problem in a request (reference: conventions, "Errors").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where: dotted, with `[n]` from 0, for example `grants[1].userId`.
    pub path: String,
    /// What is wrong, as a phrase that follows the path ("must be …").
    pub message: String,
}

impl Issue {
    /// Returns a problem at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Issue { path: path.into(), message: message.into() }
    }
}

/// A rate limit, as reported with a 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachedLimit {
    pub name: &'static str,
    /// Requests allowed per window.
    pub quota: u32,
    /// Length of the window, in seconds.
    pub window_secs: u32,
}

/// A failure to report to the client.
#[derive(Clone, Debug)]
pub struct Error(Box<ErrorInner>);

#[derive(Clone, Debug)]
struct ErrorInner {
    kind: Kind,
    code: &'static str,
    message: Cow<'static, str>,
    issues: Vec<Issue>,
    detail: Option<String>,
    retry_after_secs: Option<u32>,
    limit: Option<ReachedLimit>,
    path: Option<Cow<'static, str>>,
    missing: Option<Vec<u8>>,
    challenge: Option<&'static str>,
    continuation: Option<String>,
}

impl Error {
    /// Returns an error of `kind`. `code` is a stable word in snake case; `message` is a sentence
    /// without a final full stop that a person can act on.
    pub fn new(kind: Kind, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(ErrorInner {
            kind,
            code,
            message: message.into(),
            issues: Vec::new(),
            detail: None,
            retry_after_secs: None,
            limit: None,
            path: None,
            missing: None,
            challenge: None,
            continuation: None,
        }))
    }

    /// Returns a 400 with every problem found.
    pub fn invalid(issues: Vec<Issue>) -> Self {
        let message: Cow<'static, str> = match issues.as_slice() {
            [one] if one.path.is_empty() => one.message.clone().into(),
            [one] => format!("{} {}", one.path, one.message).into(),
            many => format!("the request has {} problems; see issues", many.len()).into(),
        };
        let mut error = Error::new(Kind::Invalid, "invalid_request", message);
        error.0.issues = issues;
        error
    }

    /// Returns a 400 with a single problem.
    pub fn invalid_at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Error::invalid(vec![Issue::new(path, message)])
    }

    /// Returns a 401.
    pub fn unauthenticated(message: &'static str) -> Self {
        Error::new(Kind::Unauthenticated, "unauthenticated", message)
    }

    /// Returns a 403.
    pub fn forbidden(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Forbidden, code, message)
    }

    /// Returns the 404 of a thing of this kind. It never repeats the request, so that a foreign id and
    /// one that never existed look the same (reference: conventions, "Not found").
    pub fn no_such(kind: &str) -> Self {
        Error::new(Kind::NotFound, "not_found", format!("there is no such {kind}"))
    }

    /// Returns the 404 of an organization that does not exist for this caller, named by the parameter
    /// at this path (reference: conventions, "Not found").
    pub fn organization_not_found(path: &'static str) -> Self {
        Error::no_such_organization().at(path)
    }

    /// The same, whatever named it.
    pub fn no_such_organization() -> Self {
        let message = "there is no such organization";
        Error::new(Kind::NotFound, "organization_not_found", message)
    }

    /// Returns a 409.
    pub fn conflict(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Conflict, code, message)
    }

    /// Returns a 503 with the seconds after which a retry makes sense.
    pub fn busy(code: &'static str, message: &'static str, retry_after_secs: u32) -> Self {
        Error::new(Kind::Busy, code, message).retry_after(retry_after_secs)
    }

    /// Returns a 500. `detail` is logged; the client only learns that the server failed.
    pub fn internal(detail: impl std::fmt::Display) -> Self {
        Error::new(Kind::Internal, "internal", "internal error; see the server's log")
            .detail(detail)
    }

    /// Adds the path of the field or parameter that it is about.
    pub fn at(mut self, path: impl Into<Cow<'static, str>>) -> Self {
        self.0.path = Some(path.into());
        self
    }

    /// Puts what it is about below a field of the request.
    pub fn below(mut self, field: &str) -> Self {
        if !self.0.issues.is_empty() {
            let below = |issue: Issue| Issue::new(format!("{field}.{}", issue.path), issue.message);
            return Error::invalid(self.0.issues.into_iter().map(below).collect());
        }
        let path = self.0.path.as_deref();
        self.0.path = Some(path.map_or(field.to_string(), |path| format!("{field}.{path}")).into());
        self
    }

    /// Adds the scheme of the header `Authorization` that a 401 asks for, in place of `Bearer`.
    pub fn with_challenge(mut self, scheme: &'static str) -> Self {
        self.0.challenge = Some(scheme);
        self
    }

    /// Returns the scheme of [`Error::with_challenge`].
    pub fn challenge(&self) -> Option<&'static str> {
        self.0.challenge
    }

    /// Adds the token with which what was refused is continued once more is known. It is sent, and not
    /// logged.
    pub fn continued_with(mut self, token: String) -> Self {
        self.0.continuation = Some(token);
        self
    }

    /// Returns the token of [`Error::continued_with`].
    pub fn continuation(&self) -> Option<&str> {
        self.0.continuation.as_deref()
    }

    /// Adds the key of the record that does not exist, by which
    /// [`api::execute`](crate::api::execute) finds the field or parameter that named it.
    pub fn missing(mut self, key: Vec<u8>) -> Self {
        self.0.missing = Some(key);
        self
    }

    /// Adds a detail that is logged and never sent.
    pub fn detail(mut self, detail: impl std::fmt::Display) -> Self {
        self.0.detail = Some(detail.to_string());
        self
    }

    /// Adds the seconds of a `Retry-After`.
    pub fn retry_after(mut self, secs: u32) -> Self {
        self.0.retry_after_secs = Some(secs);
        self
    }

    /// Adds the limit that was reached.
    pub fn limit(mut self, limit: ReachedLimit) -> Self {
        self.0.limit = Some(limit);
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// Returns the message for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the problems of a 400.
    pub fn issues(&self) -> &[Issue] {
        &self.0.issues
    }

    /// Returns the path of the field or parameter that it is about.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// Returns the key of the record that does not exist.
    pub fn missing_key(&self) -> Option<&[u8]> {
        self.0.missing.as_deref()
    }

    /// Returns the detail that is logged and never sent.
    pub fn log_detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Returns the limit that was reached.
    pub fn reached(&self) -> Option<ReachedLimit> {
        self.0.limit
    }

    /// Returns the seconds of `Retry-After`.
    pub fn retry_after_secs(&self) -> Option<u32> {
        self.0.retry_after_secs
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
