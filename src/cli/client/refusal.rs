//! Why a request has no result.

use serde_json::Value;

use super::table::{cell, one_line};
use crate::cli::failure::Failure;

/// Why a request has no result.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The server answered with an error.
    Answered(Box<Problem>),
    /// Nothing usable was answered: the server cannot be reached, or something else answers there.
    Unanswered(String),
}

/// An error that the server answered (reference: conventions, "Errors").
#[derive(Clone, Debug)]
pub struct Problem {
    pub status: u16,
    /// The stable word for programs.
    pub code: String,
    pub message: String,
    /// What the request says at the place that it is about, if it names something.
    pub named: Option<String>,
    /// Path and message of each problem of an invalid request.
    pub issues: Vec<(String, String)>,
    /// Flags of the command that stand for fields of the request, which messages may name.
    flags: Vec<(&'static str, &'static str)>,
    /// Seconds after which to try again, if the server says so.
    pub retry_after: Option<u64>,
    /// What the request is continued with, if it is to be.
    pub challenge: Option<String>,
}

impl Refusal {
    /// Reads the body of an error, of a request that sent this body.
    pub fn of_body(
        status: u16,
        body: &[u8],
        retry_after: Option<u64>,
        sent: Option<&Value>,
    ) -> Self {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_string);
        let (Some(message), Some(code)) = (text(&value["message"]), text(&value["code"])) else {
            return Refusal::Unanswered(not_the_server(status));
        };
        let issues = value["issues"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|issue| Some((text(&issue["path"])?, text(&issue["message"])?)));
        let (issues, challenge) = (issues.collect(), text(&value["challenge"]));
        // Of other errors it could be a password.
        let path = value["path"].as_str().filter(|_| status == 404);
        let named = path.zip(sent).and_then(|(path, sent)| at_path(sent, path));
        // A deeper one of the same name has another flag, or none.
        let is_sent = |(field, _): &(&str, &str)| {
            sent.is_some_and(|sent| sent.get(field.trim_end_matches('.')).is_some())
        };
        let flags = FLAGS.into_iter().filter(is_sent).collect();
        let problem =
            Problem { status, code, message, named, issues, flags, retry_after, challenge };
        Refusal::Answered(Box::new(problem))
    }

    /// The error that the server answered, if it is one with this code.
    pub fn with_code(&self, code: &str) -> Option<&Problem> {
        self.problem().filter(|problem| problem.code == code)
    }

    /// The error that the server answered.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Refusal::Answered(problem) => Some(problem),
            Refusal::Unanswered(_) => None,
        }
    }

    /// Whether the same request may succeed later: the server is not there, overloaded or stopping.
    pub fn is_temporary(&self) -> bool {
        match self {
            Refusal::Answered(problem) => matches!(problem.status, 408 | 429 | 500..),
            Refusal::Unanswered(_) => true,
        }
    }
}

/// The text at a path of a body: `agentIds[1]`.
fn at_path(body: &Value, path: &str) -> Option<String> {
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    let value = body.pointer(&pointer).filter(|value| value.is_string() || value.is_number());
    value.map(cell)
}

/// What the commands call fields of the API that messages name.
const FLAGS: [(&str, &str); 2] =
    [("agentVariables.", "--set NAME=VALUE"), ("llmProviderId", "--provider")];

/// Says which of these flags are fields that a message names.
fn flags(flags: &[(&str, &str)], message: &str) -> String {
    let named = flags.iter().filter(|(field, _)| message.contains(field));
    named.map(|(field, flag)| format!("\n{} is {flag} here", field.trim_end_matches('.'))).collect()
}

/// Says what answers where no Roadstead does.
fn not_the_server(status: u16) -> String {
    match status {
        300..400 => format!(
            "status {status}: the URL leads elsewhere, and redirects are not followed; give the \
             URL that it leads to"
        ),
        502..=504 => format!("status {status} of a proxy: the server behind it does not answer"),
        _ => format!("status {status} and no answer of Roadstead; is the URL that of its server?"),
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let problem = match refusal {
            Refusal::Unanswered(why) => return Failure::Failed(why),
            Refusal::Answered(problem) => *problem,
        };
        let hint = match (problem.status, problem.code.as_str()) {
            (401, "session_required") => {
                "\nThis takes a session, not a key: roadstead login --email ADDRESS"
            }
            (401, "insufficient_user_authentication") => {
                "\nDo it in the console, or begin a session with a password: roadstead login --email ADDRESS"
            }
            (401, _) => "\nThe key or session is not valid here (any more): roadstead login",
            _ => "",
        };
        let message = one_line(&problem.message);
        // The message may be that of the only issue.
        let is_said = |line: &String| line.trim_start() == message;
        let lines = problem.issues.iter().map(issue_line);
        let issues: String = lines.filter(|line| !is_said(line)).collect();
        let flags = flags(&problem.flags, &format!("{message}{issues}"));
        let is_named = |named: &&String| !message.contains(named.as_str());
        let named = problem.named.as_ref().filter(is_named);
        let named = named.map_or(String::new(), |named| format!(": {:?}", one_line(named)));
        let code = one_line(&problem.code);
        Failure::Failed(format!("{message}{named} ({code}){issues}{flags}{hint}"))
    }
}

fn issue_line((path, message): &(String, String)) -> String {
    let message = one_line(message);
    if path.is_empty() {
        format!("\n  {message}")
    } else {
        format!("\n  {} {message}", one_line(path))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(status: u16, body: &Value) -> String {
        let sent = json!({"agentIds": ["a", "nobody"], "agentVariables": {"X": ""}});
        let refusal = Refusal::of_body(status, body.to_string().as_bytes(), None, Some(&sent));
        let (Failure::Failed(text) | Failure::Usage(text)) = refusal.into();
        text
    }

    #[test]
    fn each_problem_is_said_once() {
        let issue = |path: &str, message: &str| json!({"path": path, "message": message});
        let one = json!({"message": "status must be open or done", "code": "invalid_request",
            "issues": [issue("status", "must be open or done")]});
        assert_eq!(text(400, &one), "status must be open or done (invalid_request)");
        let two = json!({"message": "the request has 2 problems; see issues",
            "code": "invalid_request", "issues": [issue("a", "is required"), issue("", "is odd")]});
        let expected =
            "the request has 2 problems; see issues (invalid_request)\n  a is required\n  is odd";
        assert_eq!(text(400, &two), expected);
    }

    #[test]
    fn what_there_is_not_is_named_as_it_was_asked_for() {
        let missing = |path: &str| {
            let message = "there is no such agent";
            json!({"message": message, "code": "not_found", "path": path})
        };
        assert_eq!(
            text(404, &missing("agentIds[1]")),
            "there is no such agent: \"nobody\" (not_found)"
        );
        assert_eq!(text(403, &missing("agentIds[1]")), "there is no such agent (not_found)");
        for elsewhere in ["agentIds", "agentIds[2]", "orgSlug"] {
            assert_eq!(text(404, &missing(elsewhere)), "there is no such agent (not_found)");
        }
    }

    #[test]
    fn fields_of_the_api_have_their_flags_beside_them() {
        let said =
            text(400, &json!({"message": "agentVariables.X must have a value", "code": "a"}));
        assert_eq!(
            said,
            "agentVariables.X must have a value (a)\nagentVariables is --set NAME=VALUE here"
        );
        // Of a body that has it deeper, as a policy has.
        let message = "rules[0].llmProviderId is no LLM provider";
        let said = text(400, &json!({"message": message, "code": "a"}));
        assert_eq!(said, format!("{message} (a)"));
    }
}
