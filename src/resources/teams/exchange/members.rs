//! What members decide about peers (reference: exchange, "Deciding").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::posts;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{Body, Domain, Error, Handle, Id, PublicKey, Result, Time};
use crate::resources::teams::member;
use crate::resources::teams::peer::{BY_STATE, Peer, PeerState, RefusalReason};
use crate::resources::teams::team::{TEAM_IN_PATH, Team, require_team};
use crate::resources::teams::wakes::{self, WakeCause};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Peer>()], ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// The filter of a list of peers.
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub struct PeerFilter {
    /// Only peers in this state.
    state: Option<PeerState>,
}
impl Input for PeerFilter {}

/// The refusal of a request.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"reason": "We do not take part in surveys."}]))]
pub struct PeerRefusal {
    /// Why; the sender can read it.
    reason: RefusalReason,
}
impl Input for PeerRefusal {}

/// An outside agent that wrote to a team.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Peer")]
pub struct PeerInfo {
    /// Also the id of its request.
    id: Id<Peer>,
    /// Its handle, whose domain confirmed the key when it asked.
    handle: Handle,
    /// The Nostr key with which it signs, in hexadecimal.
    pubkey: PublicKey,
    /// The domain of the handle.
    domain: Domain,
    /// Whether it may write to the team.
    state: PeerState,
    /// What it wrote when it last asked.
    first_message: Body,
    /// Why it was refused; the peer can read it.
    reason: Option<RefusalReason>,
    /// The user who decided; null for a domain rule.
    decided_by: Option<Id<User>>,
    /// When it was decided, by a user or a rule.
    decided_at: Option<Time>,
    created_at: Time,
}

impl Output for PeerInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl From<Peer> for PeerInfo {
    fn from(peer: Peer) -> Self {
        let domain = peer.handle.domain();
        let Peer { id, handle, pubkey, state, first_message, reason, .. } = peer;
        let Peer { decided_by, decided_at, created_at, .. } = peer;
        PeerInfo {
            id,
            handle,
            pubkey,
            domain,
            state,
            first_message,
            reason,
            decided_by,
            decided_at,
            created_at,
        }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists a team's peers, newest first.
pub fn list(view: &View, req: &Req<Id<Team>, PeerFilter>) -> Result<Page<PeerInfo>> {
    let team = require_team(view, req.params)?;
    let (order, page) = (Order::Descending, &req.page);
    let peers = match req.input.state {
        None => view.page(ListSource::TABLE, &team, order, page, |_| true),
        Some(state) => view.page(&BY_STATE, &(team, state), order, page, |_| true),
    };
    Ok(peers?.map(PeerInfo::from))
}

/// Returns the peer of a team with this id, or 404.
pub fn fetch_peer(view: &View, (team, id): (Id<Team>, Id<Peer>)) -> Result<Peer> {
    require_team(view, team)?;
    view.fetch(&(team, id))
}

fn get(view: &View, req: &Req<(Id<Team>, Id<Peer>)>) -> Result<PeerInfo> {
    fetch_peer(view, req.params).map(PeerInfo::from)
}

/// Accepts a pending request and wakes the Scrum Master.
pub fn accept(tx: &mut Tx, req: &Req<(Id<Team>, Id<Peer>)>) -> Result<PeerInfo> {
    let peer = fetch_pending(&tx.view(), req.params)?;
    let accepted = decide(tx, req.caller().user(), &peer, PeerState::Accepted, None)?;
    wake_for(tx, &accepted)?;
    Ok(accepted.into())
}

/// Refuses a pending request.
pub fn refuse(tx: &mut Tx, req: &Req<(Id<Team>, Id<Peer>), PeerRefusal>) -> Result<PeerInfo> {
    let peer = fetch_pending(&tx.view(), req.params)?;
    let reason = Some(req.input.reason.clone());
    decide(tx, req.caller().user(), &peer, PeerState::Refused, reason).map(PeerInfo::from)
}

/// Blocks a peer, whatever its state.
pub fn block(tx: &mut Tx, req: &Req<(Id<Team>, Id<Peer>)>) -> Result<PeerInfo> {
    let peer = fetch_peer(&tx.view(), req.params)?;
    if peer.state == PeerState::Blocked {
        return Ok(peer.into());
    }
    decide(tx, req.caller().user(), &peer, PeerState::Blocked, None).map(PeerInfo::from)
}

/// Forgets a peer. Its messages stay; it may ask again.
pub fn forget(tx: &mut Tx, req: &Req<(Id<Team>, Id<Peer>)>) -> Result<Deleted> {
    let peer = fetch_peer(&tx.view(), req.params)?;
    tx.remove(&peer)?;
    Ok(Deleted::new(peer.id))
}

/// Wakes the Scrum Master of the team, if it has one, for a peer that was accepted.
pub fn wake_for(tx: &mut Tx, peer: &Peer) -> Result<()> {
    match member::scrum_master(&tx.view(), peer.team)? {
        Some(agent) => wakes::wake(tx, &agent, &WakeCause::ExternalRequest(peer.id)),
        None => Ok(()),
    }
}

fn fetch_pending(view: &View, params: (Id<Team>, Id<Peer>)) -> Result<Peer> {
    let peer = fetch_peer(view, params)?;
    if peer.state == PeerState::Pending {
        return Ok(peer);
    }
    Err(Error::conflict("peer_not_pending", "the request was decided already"))
}

/// Stores a decision, and tells the sender of a pending request.
fn decide(
    tx: &mut Tx,
    by: Id<User>,
    old: &Peer,
    state: PeerState,
    reason: Option<RefusalReason>,
) -> Result<Peer> {
    let (decided_by, decided_at) = (Some(by), Some(tx.now()));
    let peer = Peer { state, reason, decided_by, decided_at, ..old.clone() };
    tx.replace(old, &peer)?;
    if old.state == PeerState::Pending {
        posts::enqueue_decision(tx, &peer)?;
    }
    Ok(peer)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ONE: &str = "/teams/{teamId}/exchange/peers/{peerId}";
    let post = |path, name, operation| Route::post(path, MEMBER, name, operation);
    vec![
        Route::get("/teams/{teamId}/exchange/peers", MEMBER, "peer.list", op::walk(list))
            .needs_for(ScopeName::ExchangeRead, &TEAM_IN_PATH)
            .about("List outside agents, newest first"),
        Route::get(ONE, MEMBER, "peer.get", op::read(get))
            .needs_for(ScopeName::ExchangeRead, &TEAM_IN_PATH)
            .about("Get an outside agent"),
        post("/teams/{teamId}/exchange/peers/{peerId}/accept", "peer.accept", op::write(accept))
            .needs_for(ScopeName::ExchangeWrite, &TEAM_IN_PATH)
            .about("Accept a pending outside agent"),
        post("/teams/{teamId}/exchange/peers/{peerId}/refuse", "peer.refuse", op::write(refuse))
            .needs_for(ScopeName::ExchangeWrite, &TEAM_IN_PATH)
            .about("Refuse a pending outside agent"),
        post("/teams/{teamId}/exchange/peers/{peerId}/block", "peer.block", op::write(block))
            .needs_for(ScopeName::ExchangeWrite, &TEAM_IN_PATH)
            .about("Block an outside agent"),
        Route::delete(ONE, MEMBER, "peer.delete", op::write(forget))
            .needs_for(ScopeName::ExchangeWrite, &TEAM_IN_PATH)
            .about("Forget an outside agent"),
    ]
}
