//! Memories of a team's agents (reference: teams-and-wakes, "Memories").
//!
//! A memory is live until it is deleted or a newer one supersedes it. It is then out of
//! recall at once, and permanently deleted after the retention period. A memory's content never
//! changes.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes;
use super::member::Member;
use super::team::{TEAM_IN_PATH, Team, require_team};
use super::usable::UsableMember;
use super::words::Words;
use crate::api::{Deleted, Input, OldestRow, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Body, BoundedList, Id, Issue, Result, Skill, Time};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress, due};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Page, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Memory>()],
    sweeps: &[DELETE_RETIRED],
    oldest: &[OLDEST],
    ..Resource::EMPTY
};

/// At most 50 tags (reference: conventions, "Texts and names").
const MAX_TAGS: usize = 50;

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A text that an agent stored to recall later.
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentMemory")]
pub struct Memory {
    pub id: Id<Memory>,
    /// The agent's team.
    pub team_id: Id<Team>,
    /// The agent it belongs to.
    pub agent_id: Id<Member>,
    /// The text.
    pub content: Body,
    /// Tags to find it by.
    pub tags: Vec<Skill>,
    /// The memory it replaced.
    pub supersedes: Option<Id<Memory>>,
    pub created_at: Time,
    /// When it was deleted or superseded; it is hidden from then on.
    #[serde(skip)]
    pub retired_at: Option<Time>,
}
}

impl Output for Memory {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Live memories, in the order of their keys, so that recall reads no others.
static LIVE: Index<Memory, ()> =
    Index::non_unique("memories.live", |memory| match memory.retired_at {
        None => Some(()),
        Some(_) => None,
    });

/// Deleted and superseded memories, by time.
static RETIRED: Index<Memory, Time> =
    Index::non_unique("memories.retired", |memory| memory.retired_at);

/// Memories by team, in the order in which they were stored.
pub static BY_TEAM: Index<Memory, (Id<Team>, Id<Memory>)> =
    Index::non_unique("memories.by_team", |memory| Some((memory.team_id, memory.id)));

/// Deleted with the agent, and so with the team.
static AGENT: Reference<Memory, Member> = Reference::cascade(
    &["team_id", "agent_id"],
    |member: &Member| member.key().to_bytes(),
    |memory: &Memory, _| vec![(memory.team_id, memory.agent_id).to_bytes()],
)
.deferred();

impl Record for Memory {
    const TABLE: &'static str = "memories";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&LIVE, &RETIRED, &BY_TEAM];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("supersedes", "history: the superseded memory is deleted after the retention period")];
    type Key = (Id<Team>, Id<Member>, Id<Memory>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.agent_id, self.id)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// A new memory.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"content": "Ada wants release notes in British English.", "tags": ["style"]}],
))]
#[schemars(rename = "NewAgentMemory")]
pub struct NewMemory {
    /// The text.
    content: Body,
    /// Tags to find it by; at most 50.
    tags: Option<BoundedList<Skill, 0, MAX_TAGS>>,
    /// A live memory of the same agent that this one replaces.
    supersedes: Option<Id<Memory>>,
}

impl Input for NewMemory {}

/// The filter of a recall.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Recall {
    /// Up to 32 words or parts of words that all occur; "in quotes" in a row; `begin*` where a word
    /// begins. No other forms of a word; accents only where given.
    q: Option<String>,
    /// A tag that must match exactly.
    tag: Option<String>,
}

impl Input for Recall {
    fn check(&self, issues: &mut Vec<Issue>) {
        Words::check(self.q.as_deref(), issues);
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists live memories, newest first.
fn list(view: &View, req: &Req<(Id<Team>, Id<Member>), Recall>) -> Result<Page<Memory>> {
    let (team, agent) = req.params;
    require_team(view, team)?;
    let agent = UsableMember::fetch(view, req.caller(), (team, agent))?;
    let words = Words::of(req.input.q.as_deref());
    view.page(&LIVE, &agent.key(), Order::Descending, &req.page, |memory| {
        let has_tag = |tag: &String| memory.tags.iter().any(|own| own.as_str() == tag);
        req.input.tag.as_ref().is_none_or(has_tag) && words.match_all(&[&memory.content])
    })
}

/// Stores a memory and retires the one it supersedes.
pub(super) fn create(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), NewMemory>) -> Result<Memory> {
    let (team, agent) = req.params;
    require_team(&tx.view(), team)?;
    let agent = UsableMember::fetch(&tx.view(), req.caller(), (team, agent))?;
    if let Some(older) = req.input.supersedes {
        mark_retired(tx, &agent, older)?;
    }
    let memory = Memory {
        id: tx.new_id(),
        team_id: team,
        agent_id: agent.id,
        content: req.input.content.clone(),
        tags: req.input.tags.as_deref().unwrap_or_default().to_vec(),
        supersedes: req.input.supersedes,
        created_at: tx.now(),
        retired_at: None,
    };
    tx.insert(&memory)?;
    changes::tell(tx, team);
    Ok(memory)
}

/// Takes a live memory out of recall. 404 if it does not exist, belongs to another agent or is retired
/// (reference: teams-and-wakes, "Memories").
fn delete(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>, Id<Memory>)>) -> Result<Deleted> {
    let (team, agent, memory) = req.params;
    require_team(&tx.view(), team)?;
    let agent = UsableMember::fetch(&tx.view(), req.caller(), (team, agent))?;
    mark_retired(tx, &agent, memory)?;
    tx.record_erasure(Memory::TABLE, &req.params)?;
    Ok(Deleted::new(memory))
}

fn mark_retired(tx: &mut Tx, agent: &UsableMember, memory: Id<Memory>) -> Result<()> {
    let key = (agent.team, agent.id, memory);
    let live: Memory = tx.fetch(&key)?;
    if live.retired_at.is_some() {
        return Err(Memory::missing(&key));
    }
    tx.replace(&live, &Memory { retired_at: Some(tx.now()), ..live.clone() })
}

// ── Retention ────────────────────────────────────────────────────────────────

/// Deletes memories that were retired longer ago than the retention period (`--memory-retention`).
const DELETE_RETIRED: Sweep = Sweep {
    name: "forget retired memories",
    every_secs: 60,
    run: delete_retired,
    installation: false,
};

fn delete_retired(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let end = tx.now().minus_secs(settings.memory_retention_secs);
    let is_due = |memory: &Memory| memory.retired_at.is_some_and(|at| at <= end);
    let (due, progress) = due(&tx.view(), &RETIRED, is_due)?;
    for memory in &due {
        tx.remove(memory)?;
        tx.record_erasure(Memory::TABLE, &memory.key())?;
    }
    Ok(progress)
}

/// The memory that was retired first, for the metrics.
const OLDEST: OldestRow = OldestRow {
    table: Memory::TABLE,
    read: |view| {
        let oldest = view.first(&RETIRED, &(), Order::Ascending)?;
        Ok(oldest.and_then(|memory| memory.retired_at))
    },
};

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/agents/{agentId}/memories";
    const ONE: &str = "/teams/{teamId}/agents/{agentId}/memories/{memoryId}";
    vec![
        Route::get(ALL, MEMBER, "memory.list", op::list(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .costly_with("q")
            .about("Recall an agent's memories, newest first"),
        Route::post(ALL, MEMBER, "memory.create", op::write(create))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Store a memory"),
        Route::delete(ONE, MEMBER, "memory.delete", op::write(delete))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Delete a memory"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::Kind;
    use crate::resources::teams::testing::{add_agent, team};
    use crate::resources::testing::Fixture;
    use crate::store::ListSource;

    type Agent = (Id<Team>, Id<Member>);

    fn agent(fixture: &Fixture) -> Agent {
        let team = team(fixture, "crew", None);
        (team, add_agent(fixture, team, "ann"))
    }

    fn remember(fixture: &Fixture, agent: Agent, input: Value) -> Result<Memory> {
        fixture.write(create, agent, Fixture::input(input)?)
    }

    fn recall(fixture: &Fixture, agent: Agent, query: Value) -> Vec<String> {
        let page = fixture.read(list, agent, Fixture::input(query).unwrap()).unwrap();
        page.items.iter().map(|memory| memory.content.to_string()).collect()
    }

    fn is_404<T>(result: Result<T>) -> bool {
        result.is_err_and(|error| error.kind() == Kind::NotFound)
    }

    #[test]
    fn deleted_and_superseded_memories_are_never_recalled() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        let one = remember(&fixture, ann, json!({"content": "one"})).unwrap();
        let two = remember(&fixture, ann, json!({"content": "two"})).unwrap();
        let three =
            remember(&fixture, ann, json!({"content": "three", "supersedes": one.id})).unwrap();
        assert_eq!(three.supersedes, Some(one.id));
        assert_eq!(recall(&fixture, ann, json!({})), ["three", "two"]);

        let gone = fixture.write(delete, (ann.0, ann.1, two.id), ()).unwrap();
        assert_eq!(gone.id, two.id.to_string());
        assert_eq!(recall(&fixture, ann, json!({})), ["three"]);
        for retired in [one.id, two.id] {
            assert!(is_404(fixture.write(delete, (ann.0, ann.1, retired), ())));
            let again = json!({"content": "again", "supersedes": retired});
            assert!(is_404(remember(&fixture, ann, again)));
        }
        assert_eq!(recall(&fixture, ann, json!({})), ["three"]);
        fixture.assert_sound();
    }

    #[test]
    fn a_memory_is_found_in_its_own_organization_team_and_agent_only() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        let bob = (ann.0, add_agent(&fixture, ann.0, "bob"));
        let other_team = team(&fixture, "other", None);
        let id = remember(&fixture, ann, json!({"content": "mine"})).unwrap().id;
        let anonymous = (ann.0, Id::NIL);
        for wrong in [anonymous, (other_team, ann.1), (Id::NIL, ann.1)] {
            assert!(is_404(remember(&fixture, wrong, json!({"content": "nobody's"}))));
        }
        for wrong in [bob, (other_team, ann.1), anonymous] {
            assert!(is_404(fixture.write(delete, (wrong.0, wrong.1, id), ())));
            let theft = json!({"content": "yours", "supersedes": id});
            assert!(is_404(remember(&fixture, wrong, theft)));
        }
        let (_, eve) = fixture.other_org("other");
        assert!(is_404(fixture.write_as(&eve, delete, (ann.0, ann.1, id), ())));
        assert!(is_404(fixture.read_as(&eve, list, ann, Recall::default())));
        assert!(is_404(fixture.read(list, anonymous, Recall::default())));
        assert!(recall(&fixture, bob, json!({})).is_empty());
        assert_eq!(recall(&fixture, ann, json!({})), ["mine"]);
    }

    #[test]
    fn recall_matches_all_words_in_any_case_and_the_tag_exactly() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        for (content, tags) in [
            ("The Staging database is in Zürich", json!(["ops", "db"])),
            ("Staging is down on Sundays", json!(["ops"])),
            ("Ada likes short reports", Value::Null),
        ] {
            remember(&fixture, ann, json!({"content": content, "tags": tags})).unwrap();
        }
        for (query, found) in [
            (json!({}), 3),
            (json!({"q": "  "}), 3),
            (json!({"q": "staging"}), 2),
            (json!({"q": "DATA\tzÜRICH"}), 1),
            (json!({"q": "staging reports"}), 0),
            (json!({"tag": "ops"}), 2),
            (json!({"tag": "op"}), 0),
            (json!({"tag": "Ops"}), 0),
            (json!({"tag": "ops", "q": "sundays"}), 1),
        ] {
            assert_eq!(recall(&fixture, ann, query.clone()).len(), found, "{query}");
        }
    }

    #[test]
    fn recall_matches_in_any_form_and_phrases_in_quotes() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        let content = "Cafe\u{301} ΟΔΥΣΣΕΥΣ, Größe: depart\u{ad}ment is on\n call \"now\"";
        remember(&fixture, ann, json!({"content": content})).unwrap();
        for (q, found) in [
            ("caf\u{e9}", 1),
            ("CAFE", 1),
            ("cäfe", 0),
            ("οδυσσευς GRÖSSE grosse department", 1),
            ("\"on call\"", 1),
            ("is \"ON  Call\" cafe", 1),
            ("\"call on\"", 0),
            ("\"on call", 0),
            ("call \"now\"", 1),
            ("\"", 1),
            ("\"\"", 0),
            ("\" \"", 1),
            ("\u{ad}", 0),
            (",:", 0),
        ] {
            assert_eq!(recall(&fixture, ann, json!({"q": q})).len(), found, "{q}");
        }
        let many = |n: usize| (0..n).map(|n| format!("w{n} ")).collect::<String>();
        assert!(Fixture::input::<Recall>(json!({"q": many(32)})).is_ok());
        assert_eq!(
            Fixture::input::<Recall>(json!({"q": many(33)})).unwrap_err().issues()[0].path,
            "q"
        );
    }

    #[test]
    fn retired_memories_are_deleted_after_the_retention_and_live_ones_never() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        let make = |content: &str, older: Option<Id<Memory>>| {
            remember(&fixture, ann, json!({"content": content, "supersedes": older})).unwrap().id
        };
        let old = make("old", None);
        let new = make("new", Some(old));
        fixture.pass_secs(50);
        let newest = make("newest", Some(new));
        fixture.pass_secs(50);
        let settings = RetentionSettings { memory_retention_secs: 100, ..Default::default() };
        fixture.store.write_blocking(fixture.org, move |tx| delete_retired(tx, &settings)).unwrap();
        let there = |id| {
            let get = |view: &View| view.get::<Memory>(&(ann.0, ann.1, id));
            fixture.store.read_now(fixture.org, get).unwrap().is_some()
        };
        assert_eq!([old, new, newest].map(there), [false, true, true]);
        fixture.assert_sound();
    }

    #[test]
    fn large_retired_memories_are_deleted_in_several_steps() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        let content = "\u{1F600}".repeat(100_000); // 400 KB
        let mut older = None;
        for _ in 0..21 {
            let new = json!({"content": content, "supersedes": older});
            older = Some(remember(&fixture, ann, new).unwrap().id);
        }
        fixture.pass_secs(200);
        let settings = RetentionSettings { memory_retention_secs: 100, ..Default::default() };
        let left = || {
            let count = |view: &View| view.count::<Memory>(ListSource::TABLE, &(), 99);
            fixture.store.read_now(fixture.org, count).unwrap()
        };
        let mut lefts = Vec::new();
        loop {
            let settings = settings.clone();
            let step = move |tx: &mut Tx| delete_retired(tx, &settings);
            let progress = fixture.store.write_blocking(fixture.org, step).unwrap();
            lefts.push(left());
            if progress == SweepProgress::Clean {
                break;
            }
        }
        assert_eq!(lefts, [10, 1]);
        fixture.assert_sound();
    }

    #[test]
    fn deleting_a_member_deletes_its_memories_and_deleting_a_team_all() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        let bob = (ann.0, add_agent(&fixture, ann.0, "bob"));
        for _ in 0..3 {
            remember(&fixture, ann, json!({"content": "a"})).unwrap();
            remember(&fixture, bob, json!({"content": "b"})).unwrap();
        }
        let all = || {
            let all = |view: &View| view.all(ListSource::<Memory>::TABLE, &());
            fixture.store.read_now(fixture.org, all).unwrap().len()
        };
        fixture.write(super::super::members::delete, ann, ()).unwrap();
        assert_eq!((all(), recall(&fixture, bob, json!({})).len()), (3, 3));
        fixture.write(super::super::manage::delete, ann.0, ()).unwrap();
        assert_eq!(all(), 0);
        fixture.assert_sound();
    }

    #[test]
    fn a_memory_has_exactly_these_fields() {
        let fixture = Fixture::new();
        let ann = agent(&fixture);
        let memory = remember(&fixture, ann, json!({"content": "x", "tags": ["t"]})).unwrap();
        let body = serde_json::to_value(&memory).unwrap();
        let expected = json!({
            "id": memory.id, "teamId": ann.0, "agentId": ann.1, "content": "x", "tags": ["t"],
            "supersedes": null, "createdAt": memory.created_at,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn a_memory_has_content_and_no_more_than_fifty_tags() {
        let path = |content: &str, tag: &str, tags: usize| {
            let input = json!({"content": content, "tags": vec![tag; tags]});
            Fixture::input::<NewMemory>(input).map_err(|error| error.issues()[0].path.clone())
        };
        assert_eq!(path("", "t", 50).unwrap_err(), "content");
        assert_eq!(path("x", "t", 51).unwrap_err(), "tags");
        assert_eq!(path("x", "", 2).unwrap_err(), "tags[0]");
        assert!(path("x", "t", 50).is_ok());
    }
}
