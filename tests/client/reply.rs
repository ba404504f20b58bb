//! A response.

use serde_json::{Value, json};

use super::server_log;

/// A response of any status.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {} {}", self.status, self.text()))
    }

    /// The body of a success; fails for any other status.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// The items of a list.
    #[track_caller]
    pub fn items(&self) -> Vec<Value> {
        self.ok()["items"].as_array().unwrap_or_else(|| panic!("no list: {}", self.text())).clone()
    }

    /// The `id` in the body of a success.
    #[track_caller]
    pub fn id(&self) -> String {
        self.ok()["id"].as_str().unwrap_or_else(|| panic!("no id: {}", self.text())).into()
    }

    /// Fails unless it is an error with this status and code. The line in the log of one of 500 or
    /// more is asked for.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let problem = self.problem();
        assert_eq!((self.status, &problem["code"]), (status, &json!(code)), "{}", self.text());
        if let Some(id) = self.header("x-request-id").filter(|_| status >= 500) {
            server_log::asked_for(id);
        }
        problem
    }

    /// Fails unless it is a 400 with issues at exactly these paths.
    #[track_caller]
    pub fn invalid(&self, paths: &[&str]) -> Value {
        let problem = self.refused(400, "invalid_request");
        let issues = problem["issues"].as_array().cloned().unwrap_or_default();
        let found: Vec<_> = issues.iter().map(|i| i["path"].as_str().unwrap_or("?")).collect();
        assert_eq!(found, paths, "{}", self.text());
        problem
    }

    /// Fails unless it is a well-formed error (reference: conventions, "Errors").
    #[track_caller]
    pub fn problem(&self) -> Value {
        assert!(self.status >= 400, "no error: {} {}", self.status, self.text());
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        let problem = self.json();
        assert!(problem["message"].as_str().is_some_and(|m| !m.is_empty()), "{problem}");
        assert!(problem["code"].as_str().is_some_and(is_snake_case), "{problem}");
        assert_eq!(problem["requestId"].as_str(), self.header("x-request-id"), "{problem}");
        assert!(problem.get("issues").is_none() || self.status == 400, "{problem}");
        problem
    }

    /// Status and body without the request id, to compare refusals that must be indistinguishable.
    #[track_caller]
    pub fn likeness(&self) -> String {
        let id = self.header("x-request-id").expect("every answer has one");
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| name != "x-request-id" && name != "date")
            .collect();
        headers.sort();
        format!("{} {headers:?} {}", self.status, self.text().replace(id, "ID"))
    }
}

fn is_snake_case(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
