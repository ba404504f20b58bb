//! What `roadstead doctor` finds.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and should be changed.
    Warning,
    /// It does not work, or data may be lost.
    Error,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What was looked at: a name that does not change.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub message: String,
    /// What to do.
    pub to_do: Option<String>,
}

/// Collects findings.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds one that is as it should be.
    pub fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.0.push(Finding { check, level: Level::Ok, message: message.into(), to_do: None });
    }

    /// Adds one that should be changed.
    pub fn warn(&mut self, check: &'static str, message: impl Into<String>, to_do: &str) {
        self.add(check, Level::Warning, message.into(), to_do);
    }

    /// Adds one that does not work.
    pub fn error(&mut self, check: &'static str, message: impl Into<String>, to_do: &str) {
        self.add(check, Level::Error, message.into(), to_do);
    }

    fn add(&mut self, check: &'static str, level: Level, message: String, to_do: &str) {
        self.0.push(Finding { check, level, message, to_do: Some(to_do.into()) });
    }
}
