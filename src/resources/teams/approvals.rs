//! Approvals: decisions that agents ask of the humans (reference: teams-and-wakes, "Approvals").
//! Each is decided once, by a user with a session.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::changes;
use super::member::{self, Member};
use super::task::{Task, fetch_task};
use super::team::{TEAM_IN_PATH, Team, fetch_team, require_team};
use super::usable::{AgentRef, UsableMembers};
use super::wakes::{self, WakeCause};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, SESSION_MEMBER, ScopeName, User};
use crate::base::{Description, Error, Id, Result, Text, Time, Title};
use crate::outbox::{About, EventType, publish};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<TeamApproval>()],
    events: &[EventType::TeamApprovalRequested, EventType::TeamApprovalDecided],
    ..Resource::EMPTY
};

// ── Record ───────────────────────────────────────────────────────────────────

/// The state of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TeamApprovalState {
    /// Not decided yet.
    Pending,
    /// Decided: yes.
    Approved,
    /// Decided: no.
    Denied,
}
crate::store::stored_enum!(TeamApprovalState { Pending = 0, Approved = 1, Denied = 2 });

crate::base::portable! {
/// A decision that an agent asks of the humans.
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamApproval {
    pub id: Id<TeamApproval>,
    /// The agent's team.
    pub team_id: Id<Team>,
    /// The agent that asks.
    pub agent_id: Id<Member>,
    /// The question in one line.
    pub title: Title,
    /// Details.
    pub body: Option<Text<0, 100_000>>,
    /// The task it refers to.
    pub task_id: Option<Id<Task>>,
    /// The state.
    pub decision: TeamApprovalState,
    /// The comment of the user who decided.
    pub comment: Option<Description>,
    /// The user who decided; null while pending.
    pub decided_by: Option<Id<User>>,
    /// Null while pending.
    pub decided_at: Option<Time>,
    pub created_at: Time,
}
}

impl Output for TeamApproval {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Approvals by state, then by team.
pub static BY_DECISION: Index<TeamApproval, TeamApprovalState> =
    Index::non_unique("team_approvals.by_decision", |approval| Some(approval.decision));

/// Approvals by the task that they refer to.
pub static BY_TASK: Index<TeamApproval, Id<Task>> =
    Index::non_unique("team_approvals.by_task", |approval| approval.task_id);

static TEAM: Reference<TeamApproval, Team> = Reference::cascade(
    &["team_id"],
    |team: &Team| team.id.to_bytes(),
    |approval: &TeamApproval, _| vec![approval.team_id.to_bytes()],
)
.deferred();

impl Record for TeamApproval {
    const TABLE: &'static str = "team_approvals";
    const NOUN: &'static str = "approval";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DECISION, &BY_TASK];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("agent_id", "history: the agent may have left; what it asked stays"),
        ("task_id", "a task is removed with its team alone, and this with it"),
        ("decided_by", "history: who decided may have left"),
    ];
    type Key = (Id<Team>, Id<TeamApproval>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.id)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// A question to the humans.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"agentId": "01890a5d-ac96-774b-bcce-b302099a8057",
        "title": "Publish the release notes?", "body": "They are in the task."}],
))]
pub struct NewTeamApproval {
    /// The agent of the team that asks.
    agent_id: AgentRef,
    /// The question in one line.
    title: Title,
    /// Details.
    body: Option<Text<0, 100_000>>,
    /// The task of the team it refers to.
    task_id: Option<Id<Task>>,
}

impl Input for NewTeamApproval {}

/// The filter of a list of approvals.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct TeamApprovalFilter {
    /// Only approvals in this state.
    decision: Option<TeamApprovalState>,
}

impl Input for TeamApprovalFilter {}

/// A decision on an approval.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"decision": "approved", "comment": "Well written."}],
))]
pub struct TeamDecision {
    /// The decision.
    decision: ApprovalAnswer,
    /// A comment on the decision.
    comment: Option<Description>,
}

impl Input for TeamDecision {}

/// A decision.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalAnswer {
    /// Decided: yes.
    Approved,
    /// Decided: no.
    Denied,
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists a team's approvals, newest first.
fn list(view: &View, req: &Req<Id<Team>, TeamApprovalFilter>) -> Result<Page<TeamApproval>> {
    let team = require_team(view, req.params)?;
    let (order, part) = (Order::Descending, &req.page);
    let usable = UsableMembers::of(view, req.caller());
    let is_listed = |approval: &TeamApproval| usable.has(team, approval.agent_id);
    match req.input.decision {
        None => view.page(ListSource::TABLE, &team, order, part, is_listed),
        Some(state) => view.page(&BY_DECISION, &(state, team), order, part, is_listed),
    }
}

/// Creates an approval and publishes the event that it was requested.
pub(super) fn create(tx: &mut Tx, req: &Req<Id<Team>, NewTeamApproval>) -> Result<TeamApproval> {
    let team = fetch_team(&tx.view(), req.params)?;
    let member = req.input.agent_id.open(&tx.view(), req.caller(), team.id)?;
    if let Some(task) = req.input.task_id {
        fetch_task(&tx.view(), team.id, task)?;
    }
    let approval = TeamApproval {
        id: tx.new_id(),
        team_id: team.id,
        agent_id: member.id,
        title: req.input.title.clone(),
        body: req.input.body.clone(),
        task_id: req.input.task_id,
        decision: TeamApprovalState::Pending,
        comment: None,
        decided_by: None,
        decided_at: None,
        created_at: tx.now(),
    };
    tx.insert(&approval)?;
    publish_event(tx, EventType::TeamApprovalRequested, &team, &approval)?;
    Ok(approval)
}

/// Decides a pending approval, and wakes the agent that asked for it.
///
/// # Errors
/// 403 if the caller may not use the agent that asks; 409 if it was decided before.
pub(super) fn decide(
    tx: &mut Tx,
    req: &Req<(Id<Team>, Id<TeamApproval>), TeamDecision>,
) -> Result<TeamApproval> {
    let team = fetch_team(&tx.view(), req.params.0)?;
    let pending: TeamApproval = tx.fetch(&req.params)?;
    UsableMembers::of(&tx.view(), req.caller()).require(team.id, pending.agent_id)?;
    if pending.decision != TeamApprovalState::Pending {
        return Err(Error::conflict("approval_decided", "the approval was already decided"));
    }
    let decided = TeamApproval {
        decision: match req.input.decision {
            ApprovalAnswer::Approved => TeamApprovalState::Approved,
            ApprovalAnswer::Denied => TeamApprovalState::Denied,
        },
        comment: req.input.comment.clone(),
        decided_by: Some(req.caller().user()),
        decided_at: Some(tx.now()),
        ..pending.clone()
    };
    tx.replace(&pending, &decided)?;
    // It may have left.
    let asked_by: Option<Member> = tx.get(&(team.id, decided.agent_id))?;
    if let Some(agent) = asked_by {
        wakes::wake(tx, &agent, &WakeCause::ApprovalDecided(decided.task_id))?;
    }
    publish_event(tx, EventType::TeamApprovalDecided, &team, &decided)?;
    Ok(decided)
}

/// Publishes an event of an approval, for those who may use the agent that asks.
fn publish_event(
    tx: &mut Tx,
    event: EventType,
    team: &Team,
    approval: &TeamApproval,
) -> Result<()> {
    changes::tell(tx, team.id);
    let member: Option<Member> = tx.get(&(team.id, approval.agent_id))?;
    let name = |member: &Member| member::name(&tx.view(), member);
    let payload = json!({
        "teamId": team.id, "teamName": team.name,
        "approvalId": approval.id, "title": approval.title,
        "agentId": approval.agent_id,
        "agentName": member.as_ref().map(name).transpose()?,
        "taskId": approval.task_id,
        "decision": approval.decision, "decidedBy": approval.decided_by,
    });
    let about = About::resource("team_approval", approval.id);
    let about = match member {
        Some(member) => about.guarded_by("agent", member.agent),
        // Hidden if the agent was restricted when it left.
        None => about.guarded_by("team_agent", approval.agent_id),
    };
    publish(tx, event, about, payload)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/approvals";
    const DECIDE: &str = "/teams/{teamId}/approvals/{approvalId}/decide";
    vec![
        Route::get(ALL, MEMBER, "team_approval.list", op::walk(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("List a team's approvals, newest first"),
        Route::post(ALL, MEMBER, "team_approval.create", op::write(create))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Request an approval"),
        Route::post(DECIDE, SESSION_MEMBER, "team_approval.decide", op::write(decide))
            .about("Approve or deny a request"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::Kind;
    use crate::resources::teams::testing::{add_agent, published, take, task, team};
    use crate::resources::testing::Fixture;

    fn ask(fixture: &Fixture, team: Id<Team>, input: Value) -> Result<TeamApproval> {
        fixture.write(create, team, Fixture::input(input)?)
    }

    fn answer(
        fixture: &Fixture,
        at: (Id<Team>, Id<TeamApproval>),
        answer: &str,
    ) -> Result<TeamApproval> {
        let decision = json!({"decision": answer, "comment": "as agreed"});
        fixture.write(decide, at, Fixture::input(decision)?)
    }

    #[test]
    fn only_the_first_decision_counts() {
        let fixture = Fixture::new();
        let team = team(&fixture, "crew", None);
        let ann = add_agent(&fixture, team, "ann");
        let task = task(&fixture, team, json!({"title": "Buy"})).id;
        let input = json!({"agentId": ann, "title": "Buy it?", "taskId": task});
        let asked = ask(&fixture, team, input).unwrap();
        let at = (team, asked.id);
        let decided = answer(&fixture, at, "approved").unwrap();
        assert_eq!(decided.decision, TeamApprovalState::Approved);
        for again in ["approved", "denied"] {
            assert_eq!(answer(&fixture, at, again).unwrap_err().kind(), Kind::Conflict);
        }
        let expected = json!({
            "id": asked.id, "teamId": team, "agentId": ann, "title": "Buy it?", "body": null,
            "taskId": task, "decision": "approved", "comment": "as agreed",
            "decidedBy": decided.decided_by.unwrap(), "decidedAt": fixture.store.clock().now(),
            "createdAt": asked.created_at,
        });
        let page = fixture.read(list, team, TeamApprovalFilter::default()).unwrap();
        assert_eq!(serde_json::to_value(&page.items).unwrap(), json!([expected]));
        let asked_and_decided = [EventType::TeamApprovalRequested, EventType::TeamApprovalDecided];
        assert_eq!(published(&fixture)[1..], asked_and_decided);
        fixture.assert_sound();
    }

    #[test]
    fn a_decision_wakes_the_agent_that_asked() {
        let fixture = Fixture::new();
        let team = team(&fixture, "crew", None);
        let (ann, bob) = (add_agent(&fixture, team, "ann"), add_agent(&fixture, team, "bob"));
        let about = task(&fixture, team, json!({"title": "Buy"})).id;
        for question in [
            json!({"agentId": ann, "title": "Buy it?", "taskId": about}),
            json!({"agentId": ann, "title": "And sell it?", "taskId": about}),
            json!({"agentId": ann, "title": "Rest?"}),
        ] {
            let asked = ask(&fixture, team, question).unwrap();
            answer(&fixture, (team, asked.id), "approved").unwrap();
        }
        let woken: Vec<_> = take(&fixture, team, ann)
            .into_iter()
            .map(|wake| (serde_json::to_value(wake.reason).unwrap(), wake.task_id))
            .collect();
        let decided = json!("approval_decided");
        assert_eq!(woken, [(decided.clone(), Some(about)), (decided, None)]);
        assert!(take(&fixture, team, bob).is_empty());
        fixture.assert_sound();
    }

    #[test]
    fn a_list_by_decision_has_the_teams_own_approvals_only() {
        let fixture = Fixture::new();
        let crew = team(&fixture, "crew", None);
        let other = team(&fixture, "other", None);
        let mut ids = Vec::new();
        for (team, agent) in [(crew, "ann"), (other, "bob")] {
            let agent = add_agent(&fixture, team, agent);
            for decision in ["pending", "approved", "denied"] {
                let asked = ask(&fixture, team, json!({"agentId": agent, "title": "?"})).unwrap();
                if decision != "pending" {
                    answer(&fixture, (team, asked.id), decision).unwrap();
                }
                ids.push(asked.id);
            }
        }
        let listed = |team, decision: Value| {
            let filter = Fixture::input(json!({"decision": decision})).unwrap();
            let items = fixture.read(list, team, filter).unwrap().items;
            items.into_iter().map(|approval| approval.id).collect::<Vec<_>>()
        };
        assert_eq!(listed(crew, json!("pending")), [ids[0]]);
        assert_eq!(listed(crew, json!("approved")), [ids[1]]);
        assert_eq!(listed(other, json!("denied")), [ids[5]]);
        assert_eq!(listed(other, Value::Null), [ids[5], ids[4], ids[3]]);
    }

    #[test]
    fn agents_tasks_and_approvals_of_other_teams_are_not_found() {
        let fixture = Fixture::new();
        let crew = team(&fixture, "crew", None);
        let other = team(&fixture, "other", None);
        let ann = add_agent(&fixture, crew, "ann");
        let nothing = "01890a5d-ac96-774b-bcce-b302099a8057";
        let theirs = task(&fixture, other, json!({"title": "Not ours"})).id;
        for (team, input) in [
            (other, json!({"agentId": ann, "title": "?"})),
            (crew, json!({"agentId": nothing, "title": "?"})),
            (crew, json!({"agentId": ann, "title": "?", "taskId": theirs})),
            (Id::NIL, json!({"agentId": ann, "title": "?"})),
        ] {
            assert_eq!(ask(&fixture, team, input).unwrap_err().kind(), Kind::NotFound);
        }
        assert_eq!(published(&fixture), [EventType::TeamAgentHired]);
        let asked = ask(&fixture, crew, json!({"agentId": ann, "title": "?"})).unwrap();
        let refused = answer(&fixture, (other, asked.id), "denied").unwrap_err();
        assert_eq!(refused.kind(), Kind::NotFound);
        assert_eq!(
            answer(&fixture, (crew, asked.id), "pending").unwrap_err().kind(),
            Kind::Invalid
        );
    }
}
