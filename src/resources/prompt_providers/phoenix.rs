//! Arize Phoenix: `/v1/prompts` and `/v1/prompt_versions` of its REST API.
//!
//! A version is named by its id, an opaque text; who names none gets the newest. Its API tells
//! neither numbers nor times of versions.

use serde::Deserialize;
use serde_json::Value;

use super::external::{Found, Lookup, Template};
use super::server::{MAX_PARTS, Reply, Server, in_path};
use super::template::Syntax;
use crate::base::Result;

/// So many versions of a prompt are looked through at a time.
const PART: &str = "100";

#[derive(Deserialize)]
struct List<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct One<T> {
    data: T,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    id: String,
    template: Content,
    template_format: Format,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Content {
    Chat { messages: Vec<Value> },
    String { template: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Format {
    Mustache,
    FString,
    None,
    #[serde(other)]
    Unknown,
}

/// At most `limit` prompts.
pub fn list(server: &mut Server, limit: usize) -> Result<Vec<Found>> {
    let part = limit.to_string();
    let mut names = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PARTS {
        let query = part_of_list(&part, cursor.as_deref());
        let Some(list) = server.list::<List<Named>>("/v1/prompts", &query)? else {
            return Ok(Vec::new());
        };
        names.extend(list.data.into_iter().map(|prompt| prompt.name));
        cursor = list.next_cursor;
        if names.len() >= limit || cursor.is_none() {
            break;
        }
    }
    names.truncate(limit);
    let mut found = Vec::new();
    for name in names {
        // One without a version, or gone meanwhile, is left out.
        let Reply::There(version) = newest(server, &name)? else { continue };
        let path = format!("/v1/prompt_versions/{}/tags", in_path(&version.id));
        let labels = match server.one::<List<Named>>(&path, &[])? {
            Reply::There(tags) => tags.data.into_iter().map(|tag| tag.name).collect(),
            Reply::Pending | Reply::Missing => Vec::new(),
        };
        found.push(Found { labels, ..into_found(&name, version) });
    }
    Ok(found)
}

fn part_of_list<'a>(part: &'a str, cursor: Option<&'a str>) -> Vec<(&'static str, &'a str)> {
    [("limit", part)].into_iter().chain(cursor.map(|cursor| ("cursor", cursor))).collect()
}

/// One prompt. Its labels are not asked for.
pub fn find(server: &mut Server, name: &str, version: Option<&str>) -> Result<Lookup> {
    // For any other it answers 422, and takes some for ids.
    let in_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if !name.bytes().all(in_name) {
        return Ok(Lookup::Missing);
    }
    let reply = match version {
        None => newest(server, name)?,
        Some(id) => named(server, name, id)?,
    };
    Ok(match reply {
        Reply::Pending => Lookup::Pending,
        Reply::Missing => Lookup::Missing,
        Reply::There(version) => Lookup::Found(into_found(name, version)),
    })
}

fn newest(server: &mut Server, name: &str) -> Result<Reply<Version>> {
    let path = format!("/v1/prompts/{}/latest", in_path(name));
    Ok(server.one::<One<Version>>(&path, &[])?.and_then(|one| Some(one.data)))
}

/// The version of this id, if it is one of this prompt: a version alone does not tell whose it is.
fn named(server: &mut Server, name: &str, id: &str) -> Result<Reply<Version>> {
    let path = format!("/v1/prompts/{}/versions", in_path(name));
    let mut cursor = None;
    for _ in 0..MAX_PARTS {
        let query = part_of_list(PART, cursor.as_deref());
        let Some(list) = server.list::<List<Version>>(&path, &query)? else {
            return Ok(Reply::Pending);
        };
        if let Some(version) = list.data.into_iter().find(|version| version.id == id) {
            return Ok(Reply::There(version));
        }
        cursor = list.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Reply::Missing)
}

fn into_found(name: &str, version: Version) -> Found {
    let syntax = match version.template_format {
        Format::Mustache => Syntax::Mustache,
        Format::FString => Syntax::FString,
        Format::None => Syntax::Plain,
        Format::Unknown => Syntax::Unknown,
    };
    Found {
        name: name.into(),
        version: version.id,
        template: match version.template {
            Content::Chat { messages } => Template::Chat(messages, syntax),
            Content::String { template } => Template::Text(template, syntax),
        },
        labels: Vec::new(),
        updated_at: None,
    }
}
