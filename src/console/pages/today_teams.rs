//! What waits in the teams, for the page of today.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::inbox::{Message, beginning};
use super::today_group::{Group, ROWS, Row};
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::strict::List;
use crate::console::visit::Visit;

/// The teams: slugs and names by id.
pub struct Teams(BTreeMap<String, (String, String)>);

#[derive(Deserialize)]
struct Team {
    id: String,
    slug: String,
    name: String,
}

/// What an agent asks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    team_id: String,
    title: String,
    created_at: Time,
}

/// An outside agent that asks to write to a team.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Peer {
    id: String,
    team_id: String,
    handle: String,
    created_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mail {
    team_id: String,
    #[serde(flatten)]
    message: Message,
}

impl Teams {
    /// No team is known yet: those that are met are read.
    pub fn new() -> Self {
        Teams(BTreeMap::new())
    }

    /// The path of a team's page, and its name.
    async fn at(&mut self, visit: &Visit, id: &str, below: &str) -> Result<(String, String)> {
        if !self.0.contains_key(id) {
            let team: Team = visit.api.get(&format!("/teams/{}", segment(id)), &[]).await?;
            self.0.insert(team.id, (team.slug, team.name));
        }
        let (slug, name) = self.0.get(id).cloned().unwrap_or_default();
        Ok((visit.in_org(&format!("/teams/{}{below}", segment(&slug))), name))
    }
}

async fn few<T: DeserializeOwned>(visit: &Visit, path: &str) -> Result<List<T>> {
    visit.api.get(path, &[("limit", ROWS)]).await
}

/// Questions of agents.
///
/// # Errors
/// Those of the routes.
pub async fn questions(visit: &Visit, teams: &mut Teams) -> Result<Group> {
    let found: List<Question> = few(visit, "/teams/approvals").await?;
    let is_cut = found.next_cursor.is_some();
    let mut rows = Vec::new();
    for one in found.items {
        let (path, detail) = teams.at(visit, &one.team_id, "/approvals").await?;
        rows.push(Row { title: one.title, path, detail, at: one.created_at });
    }
    let (title, all) = ("Agents ask for a decision", String::new());
    Ok(Group { title, icon: "clock", kind: "warning", rows, is_cut, all })
}

/// Unread mail of agents.
///
/// # Errors
/// Those of the routes.
pub async fn mail(visit: &Visit, teams: &mut Teams) -> Result<Group> {
    let found: List<Mail> = few(visit, "/teams/inbox").await?;
    let is_cut = found.next_cursor.is_some();
    let mut rows = Vec::new();
    for Mail { team_id, message } in found.items {
        let below = format!("/inbox/{}", segment(&message.id));
        let (path, team) = teams.at(visit, &team_id, &below).await?;
        let detail = format!("{} in {team}", message.from.name);
        rows.push(Row { title: message.title(), path, detail, at: message.created_at });
    }
    let (title, all) = ("Unread mail", String::new());
    Ok(Group { title, icon: "inbox", kind: "unread", rows, is_cut, all })
}

/// Outside agents that wait for a decision.
///
/// # Errors
/// Those of the routes.
pub async fn peers(visit: &Visit, teams: &mut Teams) -> Result<Group> {
    let found: List<Peer> = few(visit, "/teams/exchange/peers").await?;
    let is_cut = found.next_cursor.is_some();
    let mut rows = Vec::new();
    for peer in found.items {
        let below = format!("/peers/{}", segment(&peer.id));
        let (path, detail) = teams.at(visit, &peer.team_id, &below).await?;
        let title = beginning(&peer.handle);
        rows.push(Row { title, path, detail, at: peer.created_at });
    }
    let (title, all) = ("Outside agents ask to write", String::new());
    Ok(Group { title, icon: "clock", kind: "warning", rows, is_cut, all })
}
