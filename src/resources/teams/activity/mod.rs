//! The activity of a team: all that happened in it, in one order, page by page and as it happens
//! (reference: teams-and-wakes, "Activity").
//!
//! The order is that of ids. Ids are not in commit order, so who follows gets no entry whose id is not
//! settled: no smaller one can come after it.

mod draft;
mod entry;
mod sources;

use std::cell::RefCell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use self::draft::{Draft, Guard};
use self::entry::{ActivityEntry, ActivityKind, ActivityTask};
use self::sources::{Merge, Selection};
use super::changes;
use super::member::{self, Member};
use super::schedule::Schedule;
use super::task::Task;
use super::team::{TEAM_IN_PATH, Team, require_team, try_reaches};
use super::usable::UsableMembers;
use crate::api::{FollowFrom, FollowPoint, Followed, Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, Membership, ScopeName, User};
use crate::base::{Error, Id, Issue, Result, Time};
use crate::store::{Key as _, Order, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A page ends after 20,000 scanned rows, as those of other lists do, and before they have very many bytes
/// ([`Merge::are_long`]).
const MAX_SCANNED: usize = 20_000;

/// What follows an entry that is not settled is looked for again after a tenth of the time for which the
/// oldest one of them waits, between these: 10 ms and a second.
const AGAIN_MILLIS: (i64, i64) = (10, 1000);

/// What stands for the place before the first entry.
const START: &str = "start";

// ── What callers send ────────────────────────────────────────────────────────

/// The filter of the activity of a team.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ActivityFilter {
    /// Only what came after the entry with this id, oldest first; `start`: everything, oldest first. Without
    /// it the newest come first.
    after: Option<String>,
    /// Only entries of this kind.
    kind: Option<ActivityKind>,
    /// Only entries about this task.
    task_id: Option<Id<Task>>,
    /// Only entries about what this agent did, or what happened to it.
    agent_id: Option<Id<Member>>,
}

impl Input for ActivityFilter {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.after.as_deref().is_some_and(|after| place(after).is_none()) {
            issues.push(Issue::new("after", "must be the id of an entry, or start"));
        }
    }
}

/// Returns the id after which to begin; nil stands for the beginning.
fn place(text: &str) -> Option<Id<ActivityEntry>> {
    let id = Id::parse(text);
    (text == START || !id.is_nil()).then_some(id)
}

// ── Reading ──────────────────────────────────────────────────────────────────

/// Where a page begins.
#[derive(Clone, Copy)]
enum Begin {
    /// Before this entry, newest first.
    Before(Option<Id<ActivityEntry>>),
    /// After this one, oldest first.
    After(Id<ActivityEntry>),
}

impl Begin {
    fn of(req: &Req<Id<Team>, ActivityFilter>, point: &FollowPoint) -> Result<Self> {
        match point.from {
            FollowFrom::Position(position) => return Ok(Begin::After(position_in(position)?)),
            FollowFrom::Event(id) => {
                let after = place(id).filter(|id| !id.is_nil()).ok_or_else(|| {
                    Error::invalid_at("Last-Event-ID", "must be the id of an event of this stream")
                })?;
                return Ok(Begin::After(after));
            }
            FollowFrom::Request => {}
        }
        let position = req.page.after.as_deref().map(position_in).transpose()?;
        Ok(match req.input.after.as_deref().and_then(place) {
            Some(after) => Begin::After(position.unwrap_or(after)),
            // What comes from now on.
            None if point.is_stream => Begin::After(before(point.settled.cast())),
            None => Begin::Before(position),
        })
    }
}

/// Returns the id in a position of the list.
fn position_in(mut bytes: &[u8]) -> Result<Id<ActivityEntry>> {
    let id = Id::read(&mut bytes).filter(|_| bytes.is_empty());
    id.ok_or_else(|| Error::invalid_at("cursor", "is not a cursor of this list"))
}

/// Returns the largest id before this one.
fn before(id: Id<ActivityEntry>) -> Id<ActivityEntry> {
    let number = id.uuid().as_u128().saturating_sub(1);
    Id::read(&mut number.to_be_bytes().as_slice()).unwrap_or(Id::NIL)
}

/// Reads a part of what happened in a team.
fn list(
    view: &View,
    req: &Req<Id<Team>, ActivityFilter>,
    point: &FollowPoint,
) -> Result<Followed<ActivityEntry>> {
    let team = require_team(view, req.params)?;
    let settled: Id<ActivityEntry> = point.settled.cast();
    let (order, after) = match Begin::of(req, point)? {
        Begin::Before(id) => (Order::Descending, id),
        Begin::After(id) => (Order::Ascending, Some(id)),
    };
    let ActivityFilter { kind, task_id, agent_id, .. } = req.input;
    let selection = Selection { team, task: task_id, kind };
    let mut rows = Merge::of(view, &selection, order, after);
    let shown = Shown::to(view, req, settled)?;
    let (mut items, mut last, mut scanned) = (Vec::new(), None, 0);
    let (mut next, mut again_at) = (None, None);
    while let Some(id) = rows.peek()? {
        if order == Order::Ascending && id >= settled {
            again_at = Some(look_again(view.now(), settled));
            break;
        }
        if items.len() == req.page.limit
            || (last.is_some() && (scanned == MAX_SCANNED || rows.are_long()))
        {
            next = last;
            break;
        }
        let Some(draft) = rows.take()? else { break };
        (last, scanned) = (Some(id), scanned + 1);
        let is_selected = kind.is_none_or(|kind| draft.kind == kind)
            && agent_id.is_none_or(|agent| draft.agent == Some(agent));
        if is_selected && shown.may_see(&draft)? {
            items.push(shown.entry(draft)?);
        }
    }
    let bytes = |id: Id<ActivityEntry>| id.to_bytes();
    let end = match order {
        Order::Ascending => last.or(after).map(bytes),
        Order::Descending => None,
    };
    let begin = after.filter(|id| order == Order::Ascending && !id.is_nil());
    Ok(Followed {
        items,
        next: next.map(bytes),
        end,
        begin: begin.map(|id| id.to_string()),
        topic: changes::topic(team),
        again_at,
    })
}

/// Returns when to look again for entries that are not settled.
fn look_again(now: Time, settled: Id<ActivityEntry>) -> Time {
    let waits = now.millis() - settled.time().millis();
    let (least, most) = AGAIN_MILLIS;
    now.plus_millis((waits / 10).clamp(least, most))
}

/// Entries as a caller sees them, with what was looked up for those before.
struct Shown<'a> {
    view: &'a View<'a>,
    team: Id<Team>,
    settled: Id<ActivityEntry>,
    usable: UsableMembers<'a>,
    reads_exchange: bool,
    names: RefCell<BTreeMap<Id<Member>, Option<String>>>,
    people: RefCell<BTreeMap<Id<User>, Option<String>>>,
    tasks: RefCell<BTreeMap<Id<Task>, Option<ActivityTask>>>,
    schedules: RefCell<BTreeMap<Id<Schedule>, Option<Schedule>>>,
}

impl<'a> Shown<'a> {
    fn to(
        view: &'a View<'a>,
        req: &Req<'a, Id<Team>, ActivityFilter>,
        settled: Id<ActivityEntry>,
    ) -> Result<Self> {
        let (caller, team) = (req.caller(), req.params);
        Ok(Shown {
            view,
            team,
            settled,
            usable: UsableMembers::of(view, caller),
            reads_exchange: try_reaches(view, caller, ScopeName::ExchangeRead, team)?,
            names: RefCell::default(),
            people: RefCell::default(),
            tasks: RefCell::default(),
            schedules: RefCell::default(),
        })
    }

    fn may_see(&self, draft: &Draft) -> Result<bool> {
        Ok(match draft.guard {
            Guard::Everybody => true,
            Guard::Agent(agent) => self.usable.try_has(self.team, agent)?,
            Guard::Exchange => self.reads_exchange,
            Guard::Schedule(id) => {
                // One that was deleted has no rows much longer.
                match self.schedule(id)?.map(|schedule| schedule.agent()) {
                    Some(Some(agent)) => self.usable.try_has(self.team, agent)?,
                    Some(None) => true,
                    None => false,
                }
            }
        })
    }

    fn entry(&self, draft: Draft) -> Result<ActivityEntry> {
        let name = match (draft.name, draft.agent, draft.user) {
            (Some(name), ..) => Some(name),
            (None, Some(agent), _) => self.name(agent)?,
            (None, None, Some(user)) => self.person(user)?,
            (None, None, None) => None,
        };
        let text = match draft.guard {
            Guard::Schedule(id) => self.schedule(id)?.map(|schedule| schedule.name.to_string()),
            _ => draft.text,
        };
        Ok(ActivityEntry {
            id: draft.id,
            team_id: self.team,
            kind: draft.kind,
            agent_id: draft.agent,
            user_id: draft.user,
            name,
            task: draft.task.map_or(Ok(None), |task| self.task(task))?,
            text,
            status: draft.status,
            old_status: draft.old_status,
            assignee_agent_id: draft.assignee,
            resource_id: draft.resource,
            settled: draft.id < self.settled,
            created_at: draft.created_at,
        })
    }

    fn name(&self, id: Id<Member>) -> Result<Option<String>> {
        known(&self.names, id, || {
            let member: Option<Member> = self.view.get(&(self.team, id))?;
            let name = member.map(|member| member::name(self.view, &member)).transpose()?;
            Ok(name.map(|name| name.to_string()))
        })
    }

    /// The name of a member of the organization.
    fn person(&self, id: Id<User>) -> Result<Option<String>> {
        known(&self.people, id, || {
            if !self.view.has::<Membership>(&(id, self.view.org()))? {
                return Ok(None);
            }
            let user: Option<User> = self.view.get(&id)?;
            Ok(user.map(|user| user.name.to_string()))
        })
    }

    fn task(&self, id: Id<Task>) -> Result<Option<ActivityTask>> {
        known(&self.tasks, id, || {
            let task: Option<Task> = self.view.get(&(self.team, id))?;
            let shown = |task: Task| {
                let Task { id, number, title, .. } = task;
                ActivityTask { id, number, title: title.to_string() }
            };
            Ok(task.map(shown))
        })
    }

    fn schedule(&self, id: Id<Schedule>) -> Result<Option<Schedule>> {
        known(&self.schedules, id, || self.view.get(&(self.team, id)))
    }
}

/// Returns what is known under a key, after looking it up once.
fn known<K: Ord + Copy, T: Clone>(
    all: &RefCell<BTreeMap<K, Option<T>>>,
    key: K,
    look_up: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    if let Some(known) = all.borrow().get(&key) {
        return Ok(known.clone());
    }
    let found = look_up()?;
    all.borrow_mut().insert(key, found.clone());
    Ok(found)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/teams/{teamId}/activity",
            MEMBER,
            "activity_entry.list",
            op::follow("activity", list),
        )
        .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
        .about("List what happened in a team"),
    ]
}

#[cfg(test)]
mod tests;
