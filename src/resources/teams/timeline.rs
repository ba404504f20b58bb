//! A team's timeline: milestones, progress, goals, blockers and summaries
//! (reference: teams-and-wakes, "Timeline"). Entries never change.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::changes;
use super::member::{self, Member};
use super::team::{TEAM_IN_PATH, Team, fetch_team, require_team};
use super::usable::{AgentRef, open_optional};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{Error, Id, Result, Text, Time, Title};
use crate::outbox::{About, EventType, publish};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<TimelineEntry>()],
    events: &[
        EventType::TeamTimelineMilestone,
        EventType::TeamTimelineProgressUpdate,
        EventType::TeamTimelineGoalUpdate,
        EventType::TeamTimelineBlockerDigest,
        EventType::TeamTimelineSummary,
    ],
    ..Resource::EMPTY
};

// ── Record ───────────────────────────────────────────────────────────────────

/// The kind of a timeline entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimelineKind {
    /// Something was reached.
    Milestone,
    /// The progress of the work.
    ProgressUpdate,
    /// The team's goal has changed.
    GoalUpdate,
    /// What blocks the work.
    BlockerDigest,
    /// What happened, in short.
    Summary,
}
crate::store::stored_enum!(TimelineKind {
    Milestone = 0,
    ProgressUpdate = 1,
    GoalUpdate = 2,
    BlockerDigest = 3,
    Summary = 4,
});

impl TimelineKind {
    fn event_type(self) -> EventType {
        match self {
            TimelineKind::Milestone => EventType::TeamTimelineMilestone,
            TimelineKind::ProgressUpdate => EventType::TeamTimelineProgressUpdate,
            TimelineKind::GoalUpdate => EventType::TeamTimelineGoalUpdate,
            TimelineKind::BlockerDigest => EventType::TeamTimelineBlockerDigest,
            TimelineKind::Summary => EventType::TeamTimelineSummary,
        }
    }
}

crate::base::portable! {
/// An entry of a team's timeline.
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    pub id: Id<TimelineEntry>,
    /// The team of the timeline.
    pub team_id: Id<Team>,
    /// Its kind, which decides the event it publishes.
    pub kind: TimelineKind,
    /// The entry in one line.
    pub title: Title,
    /// Details.
    pub body: Option<Text<0, 100_000>>,
    /// The agent that reports it, or that it refers to.
    pub agent_id: Option<Id<Member>>,
    /// The user who created it, also through a key.
    pub created_by: Id<User>,
    pub created_at: Time,
}
}

impl Output for TimelineEntry {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Entries by kind, then by team.
static BY_KIND: Index<TimelineEntry, TimelineKind> =
    Index::non_unique("timeline.by_kind", |entry| Some(entry.kind));

static TEAM: Reference<TimelineEntry, Team> = Reference::cascade(
    &["team_id"],
    |team: &Team| team.id.to_bytes(),
    |entry: &TimelineEntry, _| vec![entry.team_id.to_bytes()],
)
.deferred();

impl Record for TimelineEntry {
    const TABLE: &'static str = "timeline";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_KIND];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("agent_id", "history: the agent may have left; its entries stay")];
    type Key = (Id<Team>, Id<TimelineEntry>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.id)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// A timeline entry to create.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"kind": "summary", "title": "Version 1.4 is out"}],
))]
pub struct NewTimelineEntry {
    /// Its kind, which decides the event it publishes.
    kind: TimelineKind,
    /// The entry in one line.
    title: Title,
    /// Details.
    body: Option<Text<0, 100_000>>,
    /// The agent of the team that reports it, or that it refers to.
    agent_id: Option<AgentRef>,
}

impl Input for NewTimelineEntry {}

/// The filter of a timeline.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct TimelineFilter {
    /// Only entries of this kind.
    kind: Option<TimelineKind>,
}

impl Input for TimelineFilter {}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists a team's timeline, newest first.
fn list(view: &View, req: &Req<Id<Team>, TimelineFilter>) -> Result<Page<TimelineEntry>> {
    let team = require_team(view, req.params)?;
    let (order, part) = (Order::Descending, &req.page);
    match req.input.kind {
        None => view.page(ListSource::TABLE, &team, order, part, |_| true),
        Some(kind) => view.page(&BY_KIND, &(kind, team), order, part, |_| true),
    }
}

/// Creates an entry and publishes the event of its kind.
pub(super) fn create(tx: &mut Tx, req: &Req<Id<Team>, NewTimelineEntry>) -> Result<TimelineEntry> {
    let team = fetch_team(&tx.view(), req.params)?;
    let named = req.input.agent_id.as_ref();
    let agent = open_optional(&tx.view(), req.caller(), team.id, named)?;
    let entry = TimelineEntry {
        id: tx.new_id(),
        team_id: team.id,
        kind: req.input.kind,
        title: req.input.title.clone(),
        body: req.input.body.clone(),
        agent_id: agent.as_ref().map(|agent| agent.id),
        created_by: req.caller().user(),
        created_at: tx.now(),
    };
    add(tx, &team, &entry, agent.as_deref())?;
    Ok(entry)
}

/// Adds an entry and publishes the event of its kind.
fn add(tx: &mut Tx, team: &Team, entry: &TimelineEntry, agent: Option<&Member>) -> Result<()> {
    let name = |agent| member::name(&tx.view(), agent);
    let agent_name = agent.map(name).transpose()?;
    tx.insert(entry)?;
    changes::tell(tx, team.id);
    let payload = json!({
        "teamId": team.id, "teamName": team.name,
        "entryId": entry.id, "title": entry.title,
        "agentId": entry.agent_id, "agentName": agent_name,
    });
    let about = About::resource("timeline_entry", entry.id);
    publish(tx, entry.kind.event_type(), about, payload)
}

/// Notes what the service has done by itself about the work of an agent, on the account of `by`.
pub fn note_progress(
    tx: &mut Tx,
    team: &Team,
    agent: Option<&Member>,
    by: Id<User>,
    title: &str,
    body: &str,
) -> Result<()> {
    let invalid = |why| Error::internal(format!("a note cannot be an entry: {why}"));
    let entry = TimelineEntry {
        id: tx.new_id(),
        team_id: team.id,
        kind: TimelineKind::ProgressUpdate,
        title: Title::parse(title).map_err(invalid)?,
        body: Some(Text::parse(body).map_err(invalid)?),
        agent_id: agent.map(|agent| agent.id),
        created_by: by,
        created_at: tx.now(),
    };
    add(tx, team, &entry, agent)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/timeline";
    vec![
        Route::get(ALL, MEMBER, "timeline_entry.list", op::walk(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("List a team's timeline, newest first"),
        Route::post(ALL, MEMBER, "timeline_entry.create", op::write(create))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Create a timeline entry"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::Kind;
    use crate::resources::teams::testing::{add_agent, published, team};
    use crate::resources::testing::Fixture;

    const KINDS: [&str; 5] =
        ["milestone", "progress_update", "goal_update", "blocker_digest", "summary"];

    fn tell(fixture: &Fixture, team: Id<Team>, input: Value) -> Result<TimelineEntry> {
        fixture.write(create, team, Fixture::input(input)?)
    }

    #[test]
    fn each_kind_publishes_its_own_event() {
        let fixture = Fixture::new();
        let crew = team(&fixture, "crew", None);
        let other = team(&fixture, "other", None);
        for team in [crew, other] {
            for kind in KINDS {
                tell(&fixture, team, json!({"kind": kind, "title": kind})).unwrap();
            }
        }
        let events: Vec<_> =
            published(&fixture).into_iter().map(|event_type| json!(event_type)).collect();
        let expected: Vec<_> =
            KINDS.iter().map(|kind| json!(format!("team.timeline_{kind}"))).collect();
        assert_eq!(events, [expected.clone(), expected].concat());
        for kind in KINDS {
            let filter = Fixture::input(json!({"kind": kind})).unwrap();
            let items = fixture.read(list, crew, filter).unwrap().items;
            let found: Vec<_> = items.iter().map(|entry| (entry.team_id, &*entry.title)).collect();
            assert_eq!(found, [(crew, kind)]);
        }
        let all = fixture.read(list, other, TimelineFilter::default()).unwrap().items;
        assert!(all.iter().map(|entry| &*entry.title).eq(KINDS.into_iter().rev()));
        fixture.assert_sound();
    }

    #[test]
    fn an_agent_of_another_team_is_refused() {
        let fixture = Fixture::new();
        let crew = team(&fixture, "crew", None);
        let other = team(&fixture, "other", None);
        let ann = add_agent(&fixture, crew, "ann");
        let input = json!({"kind": "summary", "title": "Done", "agentId": ann});
        for wrong in [other, Id::NIL] {
            let refused = tell(&fixture, wrong, input.clone()).unwrap_err();
            assert_eq!(refused.kind(), Kind::NotFound);
        }
        assert_eq!(published(&fixture), [EventType::TeamAgentHired]);
        let entry = tell(&fixture, crew, input).unwrap();
        let expected = json!({
            "id": entry.id, "teamId": crew, "kind": "summary", "title": "Done", "body": null,
            "agentId": ann, "createdBy": entry.created_by, "createdAt": entry.created_at,
        });
        assert_eq!(serde_json::to_value(&entry).unwrap(), expected);
    }
}
