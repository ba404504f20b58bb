//! Langfuse: `/api/public/v2/prompts`, with Basic authorization (its public API, version 2).
//!
//! Versions are numbers. Who names none gets the one labelled `production`, which is also what
//! Langfuse gives its own clients, and where there is none, the newest: it is labelled `latest`.

use serde::Deserialize;
use serde_json::Value;

use super::external::{Found, Lookup, Template};
use super::server::{MAX_PARTS, Reply, Server, in_path};
use super::template::Syntax;
use crate::base::{Result, Time};

/// It gives at most so many in one answer.
const PART: usize = 100;

const PROMPTS: &str = "/api/public/v2/prompts";

#[derive(Deserialize)]
struct List {
    data: Vec<Listed>,
    /// Absent where everything is in one part.
    meta: Option<Meta>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    last_updated_at: Option<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    total_pages: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    version: u64,
    prompt: Content,
    labels: Option<Vec<String>>,
    updated_at: Option<Time>,
}

/// A text, or the messages of a chat, among them placeholders for messages.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Chat(Vec<Value>),
}

/// At most `limit` prompts.
pub fn list(server: &mut Server, limit: usize) -> Result<Vec<Found>> {
    let part = limit.min(PART).to_string();
    let mut listed = Vec::new();
    for page in 1..=MAX_PARTS {
        let query = [("page", &*page.to_string()), ("limit", &*part)];
        let Some(list) = server.list::<List>(PROMPTS, &query)? else { return Ok(Vec::new()) };
        let pages = list.meta.map_or(0, |meta| meta.total_pages);
        let is_last = list.data.is_empty() || page as u64 >= pages;
        listed.extend(list.data);
        if listed.len() >= limit || is_last {
            break;
        }
    }
    listed.truncate(limit);
    let mut found = Vec::new();
    for Listed { name, last_updated_at } in listed {
        // One that is gone meanwhile is left out. A version need not tell its time.
        if let Lookup::Found(prompt) = find(server, &name, None)? {
            found.push(Found { updated_at: prompt.updated_at.or(last_updated_at), ..prompt });
        }
    }
    Ok(found)
}

/// One prompt.
pub fn find(server: &mut Server, name: &str, version: Option<&str>) -> Result<Lookup> {
    let path = format!("{PROMPTS}/{}", in_path(name));
    let reply = match version {
        Some(version) if version.parse::<u64>().is_err() => return Ok(Lookup::Missing),
        Some(version) => server.one(&path, &[("version", version)])?,
        None => match server.one(&path, &[])? {
            Reply::Missing => server.one(&path, &[("label", "latest")])?,
            reply => reply,
        },
    };
    let prompt: Prompt = match reply {
        Reply::Pending => return Ok(Lookup::Pending),
        Reply::Missing => return Ok(Lookup::Missing),
        Reply::There(prompt) => prompt,
    };
    Ok(Lookup::Found(Found {
        name: name.into(),
        version: prompt.version.to_string(),
        template: match prompt.prompt {
            Content::Text(text) => Template::Text(text, Syntax::Mustache),
            Content::Chat(messages) => Template::Chat(messages, Syntax::Mustache),
        },
        labels: prompt.labels.unwrap_or_default(),
        updated_at: prompt.updated_at,
    }))
}
