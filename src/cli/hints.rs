//! Hints for mistakes on the command line that clap's own suggestions do not cover.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::variables;
use crate::base::visible;

/// Flags that other servers have, and what they are here.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["--port", "--host", "--bind", "--addr", "--address", "-p"], "--listen 127.0.0.1:7420"),
    (&["--data-dir", "--datadir", "--dir", "--db", "--database", "-d"], "--data DIR"),
    (&["--base-url", "--url", "--domain", "--external-url"], "--public-url URL"),
    (&["--password"], "--password-stdin, which keeps it out of the list of processes"),
    (&["--api-key", "--token", "--key-file"], "--key FILE, or the variable ROADSTEAD_API_KEY"),
    (&["--server", "--endpoint", "--remote"], "--url URL"),
    (&["--log", "--verbose", "--debug", "-v"], "--log-level debug"),
];

/// Adds a hint to an error, where there is one, and keeps each argument that it repeats on one line.
pub fn with_hint(mut error: clap::Error) -> clap::Error {
    let shown: Vec<_> =
        error.context().filter(|(kind, _)| *kind != ContextKind::Usage).map(on_one_line).collect();
    for (kind, value) in shown {
        error.insert(kind, value);
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let hint = match error.kind() {
        ErrorKind::UnknownArgument => {
            let argument = text(ContextKind::InvalidArg);
            let known = ELSEWHERE.iter().find(|(names, _)| names.contains(&argument.as_str()));
            known.map(|(_, ours)| format!("here it is {ours}"))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let value = text(ContextKind::InvalidValue);
            let quoted = value.starts_with(['"', '\'', '“']);
            let quoted = quoted.then(|| "the value is in quotation marks; remove them".to_string());
            let given = &variables::given();
            let origin = variables::origin(&text(ContextKind::InvalidArg), &value, given);
            let hints: Vec<String> = quoted.into_iter().chain(origin).collect();
            (!hints.is_empty()).then(|| hints.join("; "))
        }
        _ => None,
    };
    if let Some(hint) = hint {
        error.remove(ContextKind::SuggestedArg);
        let hint = ContextValue::StyledStrs(vec![StyledStr::from(hint)]);
        error.insert(ContextKind::Suggested, hint);
    }
    error
}

/// Returns what an error says, arguments that it repeats among it, on a line each.
fn on_one_line((kind, value): (ContextKind, &ContextValue)) -> (ContextKind, ContextValue) {
    let line = |text: &str| visible::line(text).into_owned();
    let styled = |text: &StyledStr| StyledStr::from(line(&text.to_string()));
    let value = match value {
        ContextValue::String(text) => ContextValue::String(line(text)),
        ContextValue::Strings(texts) => {
            ContextValue::Strings(texts.iter().map(|text| line(text)).collect())
        }
        ContextValue::StyledStr(text) => ContextValue::StyledStr(styled(text)),
        ContextValue::StyledStrs(texts) => {
            ContextValue::StyledStrs(texts.iter().map(styled).collect())
        }
        other => other.clone(),
    };
    (kind, value)
}
