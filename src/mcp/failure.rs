//! Why a message has no result: JSON-RPC errors, and which status they have over HTTP.

use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::era::Era;
use crate::base::{Error, Kind};
use crate::http::{ResponseBody, json_response, status};

/// The body is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// It is no message, or one that may not be in a batch.
pub const INVALID_REQUEST: i32 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// Its arguments are wrong, or name nothing.
pub const INVALID_PARAMS: i32 = -32602;
/// The server failed.
pub const INTERNAL: i32 = -32603;
/// Headers and body differ.
pub const HEADER_MISMATCH: i32 = -32020;
/// The revision is not known.
pub const UNSUPPORTED_VERSION: i32 = -32022;
/// There is no such resource, in revisions with a handshake.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// Why a message has no result.
#[derive(Debug)]
pub struct Failure(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: i32,
    message: String,
    data: Option<Value>,
    /// The id of the message, if it could be read.
    id: Option<Value>,
    /// What the API refused, which has a status and headers of its own.
    error: Option<Error>,
    is_resource: bool,
}

impl Failure {
    /// A failure of the protocol.
    pub fn new(code: i32, message: String) -> Self {
        let (data, id, error) = (None, None, None);
        Failure(Box::new(Inner { code, message, data, id, error, is_resource: false }))
    }

    /// Adds data for programs.
    pub fn with_data(mut self, data: Value) -> Self {
        self.0.data = Some(data);
        self
    }

    /// Adds the id of the message.
    pub fn of(mut self, id: Option<Value>) -> Self {
        self.0.id = id;
        self
    }

    /// Says that it is about a resource.
    pub fn of_resource(mut self, uri: &str) -> Self {
        self.0.is_resource = true;
        if self.0.error.as_ref().is_some_and(|error| error.kind() == Kind::NotFound) {
            self.0.data = Some(json!({"uri": uri}));
        }
        self
    }

    /// What the API refused, if it did.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.as_ref()
    }

    /// The message of an error response.
    pub fn body(&self, era: Era) -> Value {
        let is_missing = self.0.error.as_ref().is_some_and(|error| error.kind() == Kind::NotFound);
        let is_old = era.has_handshake() && self.0.is_resource && is_missing;
        let code = if is_old { RESOURCE_NOT_FOUND } else { self.0.code };
        let mut error = json!({"code": code, "message": self.0.message});
        if let Some(data) = &self.0.data {
            error["data"] = data.clone();
        }
        match &self.0.id {
            Some(id) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            // In an array each answer has one.
            None if era == Era::Oldest => json!({"jsonrpc": "2.0", "id": null, "error": error}),
            None => json!({"jsonrpc": "2.0", "error": error}),
        }
    }

    /// The response. What is wrong with the connection, the credential or the whole request has its
    /// status of HTTP; of a request that could be read, the older revisions expect every other error
    /// in an ordinary response.
    pub fn response(&self, era: Era) -> Response<ResponseBody> {
        let is_in_band = |error: &&Error| self.0.id.is_some() && !is_about_connection(error.kind());
        let outer = self.0.error.as_ref().filter(|error| !is_in_band(error));
        let mut response = json_response(self.body(era).to_string().into_bytes(), outer);
        if outer.is_none() {
            *response.status_mut() = match era {
                Era::Legacy | Era::Oldest
                    if self.0.id.is_some() && !is_about_headers(self.0.code) =>
                {
                    StatusCode::OK
                }
                _ => status_of(self.0.code),
            };
        }
        response
    }
}

/// Whether an error is about the connection and the credential rather than what was asked for: HTTP
/// has words for it, which clients and proxies know.
fn is_about_connection(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Unauthenticated
            | Kind::Limited
            | Kind::TooLarge
            | Kind::Media
            | Kind::Timeout
            | Kind::Busy
            | Kind::Internal
    )
}

/// Whether an error is about headers: it has the same status in every revision.
fn is_about_headers(code: i32) -> bool {
    matches!(code, HEADER_MISMATCH | UNSUPPORTED_VERSION)
}

/// The status of a code (streamable-http, "Protocol Version Header" and "Server Validation").
fn status_of(code: i32) -> StatusCode {
    match code {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS | HEADER_MISMATCH | UNSUPPORTED_VERSION => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

/// What the API refuses. Arguments and names are the protocol's invalid params; for what it has no
/// code of its own the code is the status of the API.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::Invalid | Kind::NotFound => INVALID_PARAMS,
            Kind::Internal => INTERNAL,
            kind => i32::from(status(kind).as_u16()),
        };
        let data = json!({
            "code": error.code(),
            "issues": error.issues().iter()
                .map(|issue| json!({"path": issue.path, "message": issue.message}))
                .collect::<Vec<_>>(),
        });
        let mut failure = Failure::new(code, in_words(&error)).with_data(data);
        failure.0.error = Some(error);
        failure
    }
}

/// An error in words that a model can act on: what is wrong, each problem with its place, and when to
/// try again.
pub fn in_words(error: &Error) -> String {
    let mut text = format!("{} ({})", error.message(), error.code());
    if let (Some(path), true) = (error.path(), error.issues().is_empty()) {
        text += &format!(" at {path}");
    }
    if error.issues().len() > 1 {
        for issue in error.issues() {
            text += &format!("\n- {} {}", issue.path, issue.message);
        }
    }
    if let Some(secs) = error.retry_after_secs() {
        text += &format!("\nTry again in {secs} seconds.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Issue;

    #[test]
    fn a_refusal_is_told_with_every_problem_and_its_place() {
        let issues = vec![Issue::new("title", "is required"), Issue::new("priority", "must be …")];
        let said = in_words(&Error::invalid(issues));
        assert!(said.contains("(invalid_request)"), "{said}");
        assert!(said.ends_with("\n- title is required\n- priority must be …"), "{said}");
        let one = in_words(&Error::invalid_at("title", "is required"));
        assert_eq!(one, "title is required (invalid_request)");
        let missing = in_words(&Error::no_such("task").at("taskId"));
        assert_eq!(missing, "there is no such task (not_found) at taskId");
        let busy = in_words(&Error::busy("stopping", "the server is stopping", 5));
        assert!(busy.ends_with("\nTry again in 5 seconds."), "{busy}");
    }

    #[test]
    fn errors_have_statuses_of_http_where_the_revision_wants_them() {
        let status = |failure: Failure, era| failure.response(era).status().as_u16();
        let id = || Some(json!(1));
        let code = |code| Failure::new(code, String::new());
        for (code_of, modern, legacy) in
            [(INVALID_PARAMS, 400, 200), (METHOD_NOT_FOUND, 404, 200), (HEADER_MISMATCH, 400, 400)]
        {
            assert_eq!(status(code(code_of).of(id()), Era::Modern), modern);
            assert_eq!(status(code(code_of).of(id()), Era::Legacy), legacy);
        }
        assert_eq!(status(code(PARSE_ERROR), Era::Legacy), 400);
        let forbidden = || Failure::from(Error::forbidden("scope_missing", "no"));
        assert_eq!(status(forbidden(), Era::Modern), 403);
        assert_eq!(status(forbidden().of(id()), Era::Modern), 200);
        let busy = Failure::from(Error::busy("stopping", "no", 5)).of(id());
        assert_eq!(busy.response(Era::Legacy).headers()["retry-after"], "5");
        let missing = || Failure::from(Error::no_such("prompt")).of_resource("x:").of(id());
        assert_eq!(missing().body(Era::Legacy)["error"]["code"], RESOURCE_NOT_FOUND);
        assert_eq!(missing().body(Era::Modern)["error"]["code"], INVALID_PARAMS);
    }
}
