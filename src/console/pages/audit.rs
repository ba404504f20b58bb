//! `/o/{org}/operations/audit`: who did what, and the end of the chain.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use super::channels::tabs;
use crate::api::audit::{actions, kinds, noun};
use crate::api::{Method, Route};
use crate::base::{Error, Result, Time};
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::{LISTED, between, looked_for};
use crate::console::field::{Field, in_utc};
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster;
use crate::console::strict::{List, Nullable};
use crate::console::things::{Thing, Things, names_no_more};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/operations/audit").get(|visit| Box::pin(show(visit)))];

/// The filters: parameters of the route, and of the page.
const FILTERS: [&str; 6] = ["actor", "action", "resourceType", "resourceId", "from", "to"];

/// The field for who has acted.
const ACTOR: Chooser = Chooser::one("actor", Kind::Member);

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    frame: Frame,
    entries: Vec<Entry>,
    next: Option<String>,
    actor: Field,
    /// The actions of each kind: what the kind is called, and codes with summaries.
    actions: Vec<(String, Vec<(String, String)>)>,
    kinds: Vec<(String, String)>,
    checkpoint: Checkpoint,
    is_filtered: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    sequence: u64,
    created_at: Time,
    actor: Actor,
    via: Nullable<String>,
    action: String,
    resource: Resource,
    request_id: String,
    outcome: String,
    hash: String,
    /// The summary of the action; empty of one that this version does not know.
    #[serde(skip)]
    about: String,
    /// What it was done to, if that still exists.
    #[serde(skip)]
    thing: Option<Thing>,
    /// What that belongs to, if it has no page of its own.
    #[serde(skip)]
    owner: Option<Thing>,
}

#[derive(Deserialize)]
struct Actor {
    name: String,
    person: Nullable<Person>,
}

#[derive(Deserialize)]
struct Person {
    name: String,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(rename = "type")]
    kind: String,
    id: Nullable<String>,
    detail: Nullable<String>,
}

#[derive(Deserialize)]
struct Checkpoint {
    value: String,
    sequence: u64,
    compared: Nullable<String>,
}

impl Checkpoint {
    /// Class, icon and sentence of the comparison.
    fn outcome(&self) -> Option<(&'static str, &'static str, &'static str)> {
        Some(match self.compared.as_deref()? {
            "continues" => ("good", "check", "The log continues that checkpoint."),
            "ends_before" => {
                ("bad", "octagon", "The log ends before that checkpoint: it is an older state.")
            }
            "missing" => ("bad", "octagon", "The entry of that checkpoint is missing in the log."),
            "differs" => ("bad", "octagon", "The log has another entry there: it was replaced."),
            _ => ("off", "off", "Retention has removed that entry, so nothing can be said."),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    user_id: String,
    name: String,
}

async fn show(visit: &Visit) -> Result<Reply> {
    visit.require(Method::Get, "/audit-logs")?;
    let filters: Vec<(&str, String)> = FILTERS
        .iter()
        .filter_map(|name| visit.query.some(name).map(|value| (*name, value.to_string())))
        .map(|(name, value)| match name {
            "from" | "to" => (name, in_utc(&value)),
            _ => (name, value),
        })
        .collect();
    let others = filters.iter().filter(|(name, _)| *name != ACTOR.name);
    let mut query: Vec<_> = others.map(|(name, value)| (*name, value.as_str())).collect();
    query.extend(visit.cursor());
    let found = match roster::asked(visit, ACTOR).await {
        Ok(id) => {
            query.extend(id.as_deref().map(|id| ("actor", id)));
            visit.api.get("/audit-logs", &query).await
        }
        Err(error) => Err(error),
    };
    let (entries, error) = taken(visit, found)?;
    let compared: Vec<_> =
        visit.query.some("against").map(|value| ("against", value)).into_iter().collect();
    let (checkpoint, refusal) =
        taken(visit, visit.api.get("/audit-logs/checkpoint", &compared).await)?;
    let checkpoint = match checkpoint {
        Some(checkpoint) => checkpoint,
        None => visit.api.get("/audit-logs/checkpoint", &[]).await?,
    };
    let (actor, members) = actor(visit).await?;
    let frame = visit.frame("Audit log").tabs(&tabs(visit)).failed(error.or(refusal).as_ref());
    let all = || visit.api.calls.routes().map(|route| (route, (route.name, route.about)));
    // Of reads only refusals are recorded.
    let is_recorded = |route: &Route| route.method != Method::Get && !route.unaudited;
    let known = actions(all().filter(|(route, _)| is_recorded(route)).map(|(_, named)| named));
    let List { items, next_cursor, .. } = entries.unwrap_or_else(List::none);
    let page = Audit {
        frame: frame.picking(visit, &[&actor]).await?,
        entries: named(visit, items, &members, &actions(all().map(|(_, named)| named))).await,
        next: next_cursor.0,
        actor,
        actions: choices(&known, visit.query.get("action")),
        kinds: kind_choices(&known, visit.query.get("resourceType")),
        checkpoint,
        is_filtered: !filters.is_empty(),
    };
    render(page.frame.status, &page)
}

/// The choice between those who act, and the members if it lists them.
async fn actor(visit: &Visit) -> Result<(Field, Vec<(String, String)>)> {
    let few: List<Member> = visit.api.get("/organizations/members", &[("limit", LISTED)]).await?;
    let asked = visit.query.get(ACTOR.name);
    if few.next_cursor.is_some() {
        return Ok((looked_for("Who", ACTOR, Some("")).preset(asked), Vec::new()));
    }
    let all: Vec<_> = few.items.into_iter().map(|one| (one.user_id, one.name)).collect();
    Ok((between("Who", ACTOR, Some("Anyone"), all.clone()).preset(asked), all))
}

/// What was asked for, or the error that the page shows.
fn taken<T>(visit: &Visit, outcome: Result<T>) -> Result<(Option<T>, Option<Error>)> {
    match outcome {
        Ok(found) => Ok((Some(found), None)),
        Err(error) => Ok((None, visit.failed(error)?)),
    }
}

/// The entries with what they are about.
async fn named(
    visit: &Visit,
    mut entries: Vec<Entry>,
    members: &[(String, String)],
    actions: &BTreeMap<&'static str, &'static str>,
) -> Vec<Entry> {
    let mut things = Things::new(visit, members);
    for entry in &mut entries {
        entry.about = actions.get(entry.action.as_str()).copied().unwrap_or_default().into();
        let Resource { kind, id, detail } = &entry.resource;
        let (id, detail) =
            (id.as_deref().unwrap_or_default(), detail.as_deref().unwrap_or_default());
        entry.thing = things.find(kind, id).await;
        if entry.thing.is_none() {
            entry.owner = things.owner(detail).await;
            if entry.owner.is_some() && names_no_more(detail) {
                entry.resource.detail = Nullable(None);
            }
        }
    }
    entries
}

/// What can be selected among actions, by their kinds; what the page was asked for among it.
fn choices(
    known: &BTreeMap<&'static str, &'static str>,
    asked: &str,
) -> Vec<(String, Vec<(String, String)>)> {
    let mut groups: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (action, about) in known {
        groups.entry(words(noun(action))).or_default().push(((*action).into(), (*about).into()));
    }
    if !asked.is_empty() && !known.contains_key(asked) {
        groups.entry(words(noun(asked))).or_default().push((asked.into(), asked.into()));
    }
    groups.into_iter().collect()
}

/// What can be selected among kinds.
fn kind_choices(
    known: &BTreeMap<&'static str, &'static str>,
    asked: &str,
) -> Vec<(String, String)> {
    let mut all = kinds(known.keys().copied());
    if !asked.is_empty() && !all.contains(&asked) {
        all.push(asked);
    }
    let kinds = all.into_iter().map(|kind| (kind.into(), words(kind)));
    [(String::new(), "Any".to_string())].into_iter().chain(kinds).collect()
}

/// A noun of the audit log as people read it: `api_key` is "API key".
fn words(noun: &str) -> String {
    let text = noun.replace('_', " ");
    let (first, rest) = text.split_once(' ').unwrap_or((&text, ""));
    let first = match first {
        "api" | "llm" => first.to_uppercase(),
        _ => {
            let mut letters = first.chars();
            letters
                .next()
                .map_or_else(String::new, |one| one.to_uppercase().chain(letters).collect())
        }
    };
    if rest.is_empty() { first } else { format!("{first} {rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_people_read_them() {
        let all = ["api_key", "tool", "knowledge_base", ""].map(words);
        assert_eq!(all, ["API key", "Tool", "Knowledge base", ""]);
    }

    #[test]
    fn what_the_page_was_asked_for_can_be_selected_whatever_it_is() {
        let known = BTreeMap::from([("tool.create", "Create a tool")]);
        let own = ("tool.create".to_string(), "Create a tool".to_string());
        let group = |name: &str, all: Vec<_>| (name.to_string(), all);
        assert_eq!(choices(&known, "tool.create"), [group("Tool", vec![own.clone()])]);
        let asked = ("tool.list".to_string(), "tool.list".to_string());
        assert_eq!(choices(&known, "tool.list"), [group("Tool", vec![own, asked])]);
        assert_eq!(kind_choices(&known, "ghost").last().unwrap().1, "Ghost");
    }
}
