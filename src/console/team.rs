//! What the pages of a team have in common: which team it is, the ways between them, and the names
//! of its agents.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::api::{Api, segment};
use super::budget::Budget;
use super::choice::{Chooser, Kind};
use super::chooser::between;
use super::field::Field;
use super::frame::Frame;
use super::paused::Pause;
use super::strict::{List, Nullable};
use super::visit::Visit;
use crate::base::{Error, Id, Result, Time};

/// Agents are read in pages of this size, and not more pages than this: beyond, they are not named.
const AGENTS: &str = "100";
const MAX_PAGES: usize = 10;

/// What waits is counted up to this: more is "9+".
const COUNTED: usize = 9;
const ONE_MORE: &str = "10";

/// A team.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Team {
    pub id: String,
    pub slug: String,
    pub name: String,
    pub description: Nullable<String>,
    pub budget: Nullable<Budget>,
    /// In which its days and months begin.
    pub time_zone: String,
    pub paused: Nullable<Pause>,
}

/// A way to one of the team's pages.
pub struct Tab {
    pub label: &'static str,
    pub path: String,
    pub is_current: bool,
    /// How much waits there; empty if nothing does.
    pub count: String,
}

/// The team that a page's path names.
pub struct TeamPlace {
    pub team: Team,
    /// The path of its pages.
    pub path: String,
    pub tabs: Vec<Tab>,
}

impl TeamPlace {
    /// The team of a visit, whose path is `/o/{org}/teams/{slug}…`.
    ///
    /// # Errors
    /// 404 if there is none, and those of the routes.
    pub async fn of(visit: &Visit) -> Result<Self> {
        let slug = visit.param(1);
        let found: List<Team> = visit.api.get("/teams", &[("slug", slug)]).await?;
        let team = found.items.into_iter().next().ok_or_else(|| Error::no_such("team"))?;
        let path = visit.in_org(&format!("/teams/{}", segment(slug)));
        let mut place = TeamPlace { team, path, tabs: Vec::new() };
        place.tabs = place.read_tabs(visit).await?;
        Ok(place)
    }

    async fn read_tabs(&self, visit: &Visit) -> Result<Vec<Tab>> {
        let unread = [("audience", "human"), ("unread", "true")];
        let mut tabs = Vec::new();
        for (label, name, counted) in [
            ("Board", "board", None),
            ("Activity", "activity", None),
            ("Inbox", "inbox", Some(("/messages", &unread[..]))),
            ("Approvals", "approvals", Some(("/approvals", &[("decision", "pending")][..]))),
            ("Agents", "agents", None),
            ("Schedules", "schedules", None),
            ("Timeline", "timeline", None),
            ("Usage", "usage", None),
            ("Peers", "peers", Some(("/exchange/peers", &[("state", "pending")][..]))),
            ("Settings", "settings", None),
        ] {
            let count = match counted {
                Some((below, query)) => self.count(&visit.api, below, query).await?,
                None => String::new(),
            };
            let path = format!("{}/{name}", self.path);
            let is_task =
                name == "board" && visit.path.starts_with(&format!("{}/tasks", self.path));
            let is_current = is_task || visit.path.starts_with(&path);
            tabs.push(Tab { label, path, is_current, count });
        }
        Ok(tabs)
    }

    /// How many there are, in words.
    async fn count(&self, api: &Api, below: &str, query: &[(&str, &str)]) -> Result<String> {
        let query: Vec<_> = query.iter().copied().chain([("limit", ONE_MORE)]).collect();
        let found: List<Value> = api.get(&self.api(below), &query).await?;
        Ok(match found.items.len() {
            0 => String::new(),
            count if count > COUNTED => format!("{COUNTED}+"),
            count => count.to_string(),
        })
    }

    /// A path of the API below the team's.
    pub fn api(&self, below: &str) -> String {
        format!("/teams/{}{below}", segment(&self.team.id))
    }

    /// A path of one of its pages.
    pub fn at(&self, below: &str) -> String {
        format!("{}{below}", self.path)
    }

    /// The path of a task's page.
    pub fn task(&self, number: &u32) -> String {
        format!("{}/tasks/{number}", self.path)
    }

    /// Adds the pages above the team's.
    pub fn crumbs(&self, visit: &Visit, frame: Frame) -> Frame {
        frame
            .crumb("Teams", visit.in_org("/teams"))
            .crumb(self.team.name.clone(), self.at("/board"))
    }

    /// The number of a task, by its id.
    pub async fn number_of(&self, api: &Api, task: &str) -> Result<u32> {
        let task: TaskNumber =
            api.get(&self.api(&format!("/tasks/{}", segment(task))), &[]).await?;
        Ok(task.number)
    }

    /// The numbers of tasks, by their ids.
    pub async fn numbers_of<'a>(
        &self,
        api: &Api,
        tasks: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, u32>> {
        let mut numbers = BTreeMap::new();
        for task in tasks.collect::<BTreeSet<_>>() {
            numbers.insert(task.to_string(), self.number_of(api, task).await?);
        }
        Ok(numbers)
    }
}

#[derive(Deserialize)]
struct TaskNumber {
    number: u32,
}

/// An agent of a team.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamAgent {
    pub id: String,
    pub team_id: Id<()>,
    pub stable_key: String,
    pub name: String,
    pub role: String,
    pub skills: Vec<String>,
    pub wake_url: Nullable<String>,
    pub budget: Nullable<Budget>,
    pub failed_wakes: usize,
    pub paused: Nullable<Pause>,
    pub hired_at: Time,
}

impl TeamAgent {
    /// Says how many of its wakes failed; `None` if none did.
    pub fn failed(&self) -> Option<String> {
        match self.failed_wakes {
            0 => None,
            1 => Some("1 wake failed".into()),
            count => Some(format!("{count} wakes failed")),
        }
    }

    /// What it is good at.
    pub fn skills(&self) -> String {
        self.skills.join(", ")
    }
}

/// The agents of a team.
pub struct Crew(pub Vec<TeamAgent>);

impl Crew {
    /// Reads them.
    pub async fn read(api: &Api, place: &TeamPlace) -> Result<Self> {
        Crew::of_team(api, &place.team.id).await
    }

    /// The same of the team with this id.
    pub async fn of_team(api: &Api, team: &str) -> Result<Self> {
        let path = format!("/teams/{}/agents", segment(team));
        let mut all = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let mut query = vec![("limit", AGENTS)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: List<TeamAgent> = api.get(&path, &query).await?;
            all.extend(page.items);
            cursor = page.next_cursor.0;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Crew(all))
    }

    /// An agent, if it is in the team.
    pub fn find(&self, id: &str) -> Option<&TeamAgent> {
        self.0.iter().find(|agent| agent.id == id)
    }

    /// The name of an agent.
    pub fn name<'a>(&'a self, id: &str) -> &'a str {
        self.find(id).map_or("an agent that has left", |agent| agent.name.as_str())
    }

    /// The field for one of them, in which many are known by their stable keys. `nobody` is what it says of
    /// nobody.
    pub fn field(&self, name: &'static str, nobody: Option<&str>) -> Field {
        let agents = self.0.iter().map(|agent| (agent.id.clone(), agent.name.clone())).collect();
        let team = self.0.first().map_or(Id::NIL, |agent| agent.team_id);
        let chooser = Chooser::one(name, Kind::Agent).of_team(team);
        let field = between("Agent", chooser, nobody, agents);
        if field.chooser().is_none() {
            return field;
        }
        let keys = self.0.iter().map(|agent| (agent.id.clone(), agent.stable_key.clone()));
        field.named(keys.collect())
    }

    /// The id that is meant in such a field of a form by hand. Another word is for the API to refuse.
    pub fn meant<'a>(&'a self, word: &'a str) -> &'a str {
        let known = self.0.iter().find(|agent| agent.stable_key == word);
        known.map_or(word, |agent| agent.id.as_str())
    }
}

/// The field that has this value, or `null` if it is empty: what a PATCH clears.
pub fn or_null(visit: &Visit, name: &str) -> Value {
    visit.form.some(name).map_or(Value::Null, Value::from)
}
