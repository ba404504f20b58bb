//! The messages between a team and an accepted peer (reference: exchange, "Threads").

use schemars::JsonSchema;
use serde::Deserialize;

use super::members::fetch_peer;
use super::outputs::OutsideThreadMessage;
use super::posts;
use super::requests::{ORG_SOURCE, TeamPath, team_at};
use super::rules::{RuleKind, rule_for};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, OUTSIDE_AGENT, ScopeName};
use crate::base::{Body, Error, Id, Kind, Result, Title};
use crate::resources::teams::changes;
use crate::resources::teams::lists::merged;
use crate::resources::teams::message::{BY_PEER, Message, Sender, SenderType};
use crate::resources::teams::messages;
use crate::resources::teams::peer::{Peer, PeerState, by_pubkey};
use crate::resources::teams::team::{TEAM_IN_PATH, Team};
use crate::resources::teams::usable::{AgentRef, open_optional};
use crate::resources::teams::wakes::{self, WakeCause};
use crate::resources::teams::{holds, member};
use crate::store::{Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Unread messages of one peer: an agent that reads its mail never has as many, and a peer cannot
/// fill the store of one that does not.
const MAX_UNREAD: usize = 200;

/// When to retry then: the team has to read first.
const UNREAD_RETRY_SECS: u32 = 60;

// ── What callers send and see ────────────────────────────────────────────────

/// A message of an accepted peer.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"subject": "Release notes", "body": "Version 1.4 is out."}]))]
pub struct OutsideMessage {
    body: Body,
    subject: Option<Title>,
}
impl Input for OutsideMessage {}

/// A message to an accepted peer.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"body": "Thank you. Please send the next ones too."}]))]
pub struct AnswerToPeer {
    body: Body,
    subject: Option<Title>,
    /// The agent of the team that sends it; absent, the user does.
    from_agent_id: Option<AgentRef>,
}
impl Input for AnswerToPeer {}

// ── Operations ───────────────────────────────────────────────────────────────

/// Returns the team and the accepted peer of a request.
fn fetch_accepted<I>(view: &View, req: &Req<TeamPath, I>) -> Result<(Team, Peer)> {
    let team = team_at(view, &req.params)?;
    let peer = by_pubkey(view, team.id, &req.signer().pubkey)?;
    let accepted = peer.filter(|peer| peer.state == PeerState::Accepted).ok_or_else(|| {
        Error::forbidden("key_not_accepted", "the team has not accepted this key; ask it first")
    })?;
    if rule_for(view, team.id, &accepted.handle.domain())? == Some(RuleKind::Block) {
        return Err(Error::forbidden("domain_blocked", "agents of this domain are turned away"));
    }
    Ok((team, accepted))
}

/// Sends a message of a peer: mail to the Scrum Master. Without one it is kept and wakes nobody.
pub fn send(tx: &mut Tx, req: &Req<TeamPath, OutsideMessage>) -> Result<OutsideThreadMessage> {
    let view = tx.view();
    let (team, peer) = fetch_accepted(&view, req)?;
    if view.count(&BY_PEER, &(peer.id, true), MAX_UNREAD)? == MAX_UNREAD {
        return Err(Error::new(
            Kind::Limited,
            "messages_unread",
            "200 of your messages are unread; wait until the team has read some",
        )
        .retry_after(UNREAD_RETRY_SECS));
    }
    let to = member::scrum_master(&view, team.id)?;
    let name = peer.handle.to_string();
    let from = Sender { kind: SenderType::Peer, id: peer.id.cast(), name };
    let message = Message {
        to_agent_id: to.as_ref().map(|agent| agent.id),
        ..Message::new(tx, team.id, from, (&req.input.subject, &req.input.body))
    };
    tx.insert(&message)?;
    changes::tell(tx, message.team_id);
    if let Some(agent) = to {
        wakes::wake(tx, &agent, &WakeCause::DirectMessage(&message))?;
    }
    Ok(message.into())
}

/// Lists the thread of a peer, newest first.
pub fn list(view: &View, req: &Req<TeamPath>) -> Result<Page<OutsideThreadMessage>> {
    let (team, peer) = fetch_accepted(view, req)?;
    let keys = [(peer.id, false), (peer.id, true)];
    let messages = merged(view, &BY_PEER, &keys, team.id, &req.page, |_| true)?;
    Ok(messages.map(OutsideThreadMessage::from))
}

/// Sends a message to an accepted peer.
pub fn answer(tx: &mut Tx, req: &Req<(Id<Team>, Id<Peer>), AnswerToPeer>) -> Result<Message> {
    let view = tx.view();
    let peer = fetch_peer(&view, req.params)?;
    let named = req.input.from_agent_id.as_ref();
    let from = messages::sender(&view, peer.team, req.caller(), named)?;
    if let Some(acting) = open_optional(&view, req.caller(), peer.team, named)? {
        holds::require_active(&view, &acting)?;
    }
    if peer.state != PeerState::Accepted {
        return Err(Error::conflict(
            "peer_not_accepted",
            "only accepted outside agents are written to; accept its request first",
        ));
    }
    let message = Message {
        to_peer_id: Some(peer.id),
        ..Message::new(tx, peer.team, from, (&req.input.subject, &req.input.body))
    };
    tx.insert(&message)?;
    changes::tell(tx, message.team_id);
    posts::enqueue_message(tx, &peer, message.id)?;
    Ok(message)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const THREAD: &str = "/exchange/{orgSlug}/{teamSlug}/messages";
    vec![
        Route::get(THREAD, OUTSIDE_AGENT, "exchange_message.list", op::list(list))
            .org_source(ORG_SOURCE)
            .about("List your messages with a team"),
        Route::post(THREAD, OUTSIDE_AGENT, "exchange_message.create", op::write(send))
            .org_source(ORG_SOURCE)
            .about("Send a message to a team"),
        Route::post(
            "/teams/{teamId}/exchange/peers/{peerId}/messages",
            MEMBER,
            "peer_message.create",
            op::write(answer),
        )
        .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
        .about("Send a message to an outside agent"),
    ]
}
