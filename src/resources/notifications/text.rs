//! Notices as texts for people: mails, messages in Slack, tasks.

use serde_json::Value;

use crate::outbox::{Channel, Notice};

/// A value is cut at 300 characters: the whole is in the log.
const MAX_VALUE_CHARS: usize = 300;

/// A title fits into the subject of a mail and the title of a task.
const MAX_TITLE_CHARS: usize = 200;

/// At most this many values are listed; no event has more.
const MAX_VALUES: usize = 40;

/// The fields that name what a notice is about, the most telling first.
const NAMES: [&str; 8] = [
    "title",
    "name",
    "agentName",
    "subject",
    "promptName",
    "providerName",
    "teamName",
    "environmentName",
];

/// Returns a line that says what happened, and to what.
pub fn title(notice: &Notice) -> String {
    let what = notice.event_type.map_or("This is a test of a channel", |of| of.headline());
    let named = NAMES.iter().find_map(|name| notice.payload.0[*name].as_str());
    let line = match named {
        Some(name) => format!("{what}: {name}"),
        None => what.into(),
    };
    cut(&line, MAX_TITLE_CHARS)
}

/// Returns a plain text.
pub fn plain(channel: &Channel, notice: &Notice) -> String {
    let mut text = format!("{}\n\n", title(notice));
    for (label, value) in values(notice) {
        text.push_str(&format!("{label}: {value}\n"));
    }
    let (kind, at) = (notice.kind(), notice.at);
    text.push_str(&format!("\n{kind} at {at}, through the channel \"{}\"\n", channel.name));
    text
}

/// Returns an HTML document.
pub fn html(channel: &Channel, notice: &Notice) -> String {
    let rows: String = values(notice)
        .iter()
        .map(|(label, value)| {
            let (label, value) = (escaped(label), escaped(value));
            format!(
                "<tr><td style=\"padding-right:1em;vertical-align:top\">{label}</td><td>{value}\
                 </td></tr>\n"
            )
        })
        .collect();
    let (title, kind, name) =
        (escaped(&title(notice)), escaped(&notice.kind()), escaped(&channel.name));
    format!(
        "<!DOCTYPE html>\n<html><body style=\"font-family:sans-serif\">\n<p><b>{title}</b></p>\n\
         <table>\n{rows}</table>\n<p style=\"color:#666\">{kind} at {}, through the channel \
         &quot;{name}&quot;</p>\n</body></html>\n",
        notice.at
    )
}

/// Returns a message in the markup of Slack.
pub fn slack(notice: &Notice) -> String {
    // Stars in a title would end its emphasis.
    let mut text = format!("*{}*", escaped(&title(notice).replace('*', "\u{2217}")));
    for (label, value) in values(notice) {
        text.push_str(&format!("\n• {}: {}", escaped(&label), escaped(&value)));
    }
    text
}

/// Returns the fields of a notice that have a value, with labels for people.
fn values(notice: &Notice) -> Vec<(String, String)> {
    let Value::Object(fields) = &notice.payload.0 else { return Vec::new() };
    let given = fields.iter().filter(|(_, value)| !value.is_null());
    given
        .take(MAX_VALUES)
        .map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            (label(name), cut(&text, MAX_VALUE_CHARS))
        })
        .collect()
}

/// Returns the name of a field as words: `agentName` as `Agent name`.
fn label(name: &str) -> String {
    let mut label = String::new();
    for letter in name.chars() {
        match letter {
            letter if label.is_empty() => label.extend(letter.to_uppercase()),
            letter if letter.is_ascii_uppercase() => {
                label.push(' ');
                label.push(letter.to_ascii_lowercase());
            }
            letter => label.push(letter),
        }
    }
    label
}

/// Returns one line of at most `max` characters.
fn cut(text: &str, max: usize) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect();
    if text.chars().nth(max).is_some() { format!("{line}…") } else { line }
}

/// Returns a text for HTML and for Slack, which has the same three special characters.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::{Id, Json, Time};
    use crate::outbox::EventType;

    fn notice(event_type: Option<EventType>, payload: Value) -> Notice {
        let at = Time::from_millis(1_800_000_000_000);
        Notice { id: Id::NIL, event_type, at, payload: Json(payload), guarded_by: vec![] }
    }

    fn channel() -> Channel {
        let at = Time::from_millis(0);
        Channel {
            id: Id::NIL,
            name: "Ops <all>".into(),
            workflow: "email".into(),
            config: Json(json!({})),
            secret: None,
            previous_secret: None,
            previous_until: None,
            enabled: true,
            created_at: at,
            updated_at: at,
            updated_by: None,
        }
    }

    #[test]
    fn a_title_says_what_happened_to_what_in_one_line() {
        let error = Some(EventType::AgentError);
        let named = notice(error, json!({"agentId": "x", "name": "Ann\nBcc: eve"}));
        assert_eq!(title(&named), "An agent has an error: Ann Bcc: eve");
        assert_eq!(title(&notice(error, json!({}))), "An agent has an error");
        assert_eq!(
            title(&notice(None, json!({"name": "Ops"}))),
            "This is a test of a channel: Ops"
        );
        let long = notice(error, json!({"name": "x".repeat(900)}));
        assert_eq!(title(&long).chars().count(), MAX_TITLE_CHARS + 1);
    }

    #[test]
    fn values_are_listed_for_people_and_escaped() {
        let payload = json!({
            "agentName": "<b>Ann & *co*", "taskId": null, "failed": ["a", 1], "total": 3,
            "error": "x".repeat(900),
        });
        let notice = notice(Some(EventType::TeamRunFailed), payload);
        let text = plain(&channel(), &notice);
        assert!(text.starts_with("A run failed: <b>Ann & *co*\n\nAgent name: <b>Ann & *co*\n"));
        assert!(
            text.contains("\nFailed: [\"a\",1]\nTotal: 3\nError: xxx") && !text.contains("Task")
        );
        assert!(text.contains("team.run_failed at 2027-01-15T08:00:00.000Z"), "{text}");
        let html = html(&channel(), &notice);
        assert!(html.contains("&lt;b&gt;Ann &amp; *co*") && html.contains("Ops &lt;all&gt;"));
        assert!(!html.contains("<b>Ann") && !html.contains("<all>"));
        let slack = slack(&notice);
        assert!(
            slack.starts_with(
                "*A run failed: &lt;b&gt;Ann &amp; \u{2217}co\u{2217}*\n• Agent name: "
            )
        );
        assert!(text.len() < 2_000 && slack.len() < 2_000, "a long value is cut");
    }
}
