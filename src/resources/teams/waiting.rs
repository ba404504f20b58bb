//! What waits for people in all teams of the organization
//! (reference: teams-and-wakes, "What waits for people").

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;

use super::approvals::{BY_DECISION, TeamApproval, TeamApprovalState};
use super::member::Member;
use super::message::{BY_INBOX, Message};
use super::peer::{PENDING_BY_PUBKEY, Peer};
use super::team::{Team, reaches};
use super::usable::UsableMembers;
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName};
use crate::base::{Body, Handle, Id, Result, Time};
use crate::store::{Index, Key, Order, Page, Record, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers see ─────────────────────────────────────────────────────────

/// An outside agent whose request waits for a decision.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPeer {
    id: Id<Peer>,
    /// The team that it wrote to.
    team_id: Id<Team>,
    /// Its handle, whose domain confirmed the key when it asked.
    handle: Handle,
    /// What it wrote.
    first_message: Body,
    created_at: Time,
}

impl Output for WaitingPeer {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl From<Peer> for WaitingPeer {
    fn from(peer: Peer) -> Self {
        let Peer { id, team, handle, first_message, created_at, .. } = peer;
        WaitingPeer { id, team_id: team, handle, first_message, created_at }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn mail(view: &View, req: &Req) -> Result<Page<Message>> {
    let is_listed =
        |message: &Message| reaches(view, req.caller(), ScopeName::TeamRead, message.team_id);
    let unread = (None::<Id<Member>>, false);
    view.page(&BY_INBOX, &unread, Order::Descending, &req.page, is_listed)
}

fn approvals(view: &View, req: &Req) -> Result<Page<TeamApproval>> {
    let usable = UsableMembers::of(view, req.caller());
    let is_listed = |approval: &TeamApproval| {
        reaches(view, req.caller(), ScopeName::TeamRead, approval.team_id)
            && usable.has(approval.team_id, approval.agent_id)
    };
    let pending = TeamApprovalState::Pending;
    view.page(&BY_DECISION, &pending, Order::Descending, &req.page, is_listed)
}

fn peers(view: &View, req: &Req) -> Result<Page<WaitingPeer>> {
    let is_listed = |peer: &Peer| reaches(view, req.caller(), ScopeName::ExchangeRead, peer.team);
    let found = view.page(&PENDING_BY_PUBKEY, &(), Order::Ascending, &req.page, is_listed)?;
    Ok(found.map(WaitingPeer::from))
}

// ── Counting ─────────────────────────────────────────────────────────────────

/// Counts what the lists of mail, approvals and outside agents have for a caller, to `at_most` each.
pub fn count_waiting(view: &View, caller: &Caller, at_most: usize) -> Result<[usize; 3]> {
    let reaches = |scope, team| reaches(view, caller, scope, team);
    let unread = (None::<Id<Member>>, false);
    Ok([
        count_in(view, &BY_INBOX, &unread, at_most, |team| reaches(ScopeName::TeamRead, team))?,
        count_approvals(view, caller, at_most)?,
        count_in(view, &PENDING_BY_PUBKEY, &(), at_most, |team| {
            reaches(ScopeName::ExchangeRead, team)
        })?,
    ])
}

/// Counts the records below a prefix of an index whose team is listed. They are long, and not read.
pub(super) fn count_in<R: Record<Key = (Id<Team>, Id<R>)>, K: Key>(
    view: &View,
    index: &'static Index<R, K>,
    prefix: &impl Key,
    at_most: usize,
    is_listed: impl Fn(Id<Team>) -> bool,
) -> Result<usize> {
    let mut count = 0;
    // Many are of one team.
    let mut known = BTreeMap::new();
    view.entries_below(index, prefix, Order::Descending, |_, (team, _)| {
        count += usize::from(*known.entry(team).or_insert_with(|| is_listed(team)));
        Ok(if count < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(count)
}

fn count_approvals(view: &View, caller: &Caller, at_most: usize) -> Result<usize> {
    let usable = UsableMembers::of(view, caller);
    let pending = TeamApprovalState::Pending;
    let mut count = 0;
    view.for_each(&BY_DECISION, &pending, Order::Descending, |approval: TeamApproval| {
        let TeamApproval { team_id, agent_id, .. } = approval;
        let is_listed = reaches(view, caller, ScopeName::TeamRead, team_id);
        count += usize::from(is_listed && usable.has(team_id, agent_id));
        Ok(if count < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(count)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/teams/inbox", MEMBER, "waiting_message.list", op::list(mail))
            .needs_listed(ScopeName::TeamRead)
            .about("List unread mail to the people of all teams"),
        Route::get("/teams/approvals", MEMBER, "waiting_approval.list", op::list(approvals))
            .needs_listed(ScopeName::TeamRead)
            .about("List the pending approvals of all teams"),
        Route::get("/teams/exchange/peers", MEMBER, "waiting_peer.list", op::list(peers))
            .needs_listed(ScopeName::ExchangeRead)
            .about("List the pending outside agents of all teams"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Principal;
    use crate::resources::teams::testing::{add_agent, team};
    use crate::resources::teams::{approvals, manage, messages};
    use crate::resources::testing::Fixture;

    #[test]
    fn unread_mail_and_outside_agents_are_counted_without_reading_what_they_wrote() {
        let fixture = Fixture::new();
        let team = team(&fixture, "one", None);
        let agent = add_agent(&fixture, team, "ann");
        for _ in 0..10 {
            let mail = json!({"fromAgentId": agent, "body": "b".repeat(100_000)});
            fixture.write(messages::send_to_humans, team, Fixture::input(mail).unwrap()).unwrap();
        }
        let Principal::Caller(owner) = &fixture.owner else { panic!("no caller") };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let count = |view: &View| count_waiting(view, owner, 10);
        let light = runtime.block_on(fixture.store.read_light(fixture.org, None, count));
        assert_eq!(light.expect("it costs little").unwrap(), [10, 0, 0]);
    }

    #[test]
    fn unread_mail_and_pending_approvals_of_all_teams_are_listed_until_they_are_dealt_with() {
        let fixture = Fixture::new();
        let teams = [team(&fixture, "one", None), team(&fixture, "two", None)];
        for (at, key) in teams.iter().zip(["ann", "bob"]) {
            let agent = add_agent(&fixture, *at, key);
            let mail = json!({"fromAgentId": agent, "body": "b"});
            fixture.write(messages::send_to_humans, *at, Fixture::input(mail).unwrap()).unwrap();
            let question = json!({"agentId": agent, "title": "t"});
            fixture.write(approvals::create, *at, Fixture::input(question).unwrap()).unwrap();
        }
        let mails = || fixture.read(super::mail, (), ()).unwrap().items;
        let questions = || fixture.read(super::approvals, (), ()).unwrap().items;
        let of = |ids: Vec<Id<Team>>| ids == [teams[1], teams[0]];
        assert!(of(mails().iter().map(|one| one.team_id).collect()));
        assert!(of(questions().iter().map(|one| one.team_id).collect()));
        let Principal::Caller(owner) = &fixture.owner else { panic!("no caller") };
        let counted = |at_most| {
            let count = |view: &View| count_waiting(view, owner, at_most);
            fixture.store.read_now(fixture.org, count).unwrap()
        };
        assert_eq!((counted(10), counted(1)), ([2, 2, 0], [1, 1, 0]));
        let (_, eve) = fixture.other_org("other");
        assert!(fixture.read_as(&eve, super::mail, (), ()).unwrap().items.is_empty());

        let first = mails().remove(0);
        fixture.write(messages::open, (first.team_id, first.id), ()).unwrap();
        assert_eq!(mails().len(), 1);
        // Its rows are removed a little later than the team.
        fixture.write(manage::delete, teams[0], ()).unwrap();
        assert!(mails().is_empty());
        assert_eq!(questions().len(), 1);
    }
}
