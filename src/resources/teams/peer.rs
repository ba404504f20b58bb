//! The record of a peer: an outside agent that wrote to a team.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::team::Team;
use crate::auth::User;
use crate::base::{Body, Domain, Handle, HttpUrl, Id, PublicKey, Result, Text, Time};
use crate::store::{AnyIndex, AnyReference, Export, Index, Key, Record, Reference, View};

/// Why a peer was refused.
pub type RefusalReason = Text<1, 2000>;

/// The state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PeerState {
    /// Its request waits for a decision.
    Pending,
    /// It and the team write to each other.
    Accepted,
    /// Its request was refused; it may ask again after a day.
    Refused,
    /// It may not ask again.
    Blocked,
}
crate::store::stored_enum!(PeerState { Pending = 0, Accepted = 1, Refused = 2, Blocked = 3 });

crate::base::portable! {
/// An outside agent that wrote to a team. A key is one peer of a team.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Peer {
    /// Also the id of its request.
    pub id: Id<Peer>,
    pub team: Id<Team>,
    /// The key with which it signs.
    pub pubkey: PublicKey,
    /// Its handle, whose domain confirmed the key when it asked.
    pub handle: Handle,
    pub state: PeerState,
    /// What it wrote when it last asked.
    pub first_message: Body,
    /// The URL that decisions and messages are posted to.
    pub reply_url: Option<HttpUrl>,
    /// Why it was refused.
    pub reason: Option<RefusalReason>,
    /// The user who decided; none for a domain rule.
    pub decided_by: Option<Id<User>>,
    pub decided_at: Option<Time>,
    pub created_at: Time,
}
}

static BY_PUBKEY: Index<Peer, (Id<Team>, PublicKey)> = Index::unique(
    "peers.by_pubkey",
    "peer_exists",
    "this key is a peer of the team already",
    |peer| Some((peer.team, peer.pubkey.clone())),
);

/// Peers by state.
pub static BY_STATE: Index<Peer, (Id<Team>, PeerState)> =
    Index::non_unique("peers.by_state", |peer| Some((peer.team, peer.state)));

/// Refused peers by the time of the refusal.
pub static REFUSED_BY_TIME: Index<Peer, (Id<Team>, Time)> =
    Index::non_unique("peers.refused_by_time", |peer| {
        let is_refused = peer.state == PeerState::Refused;
        peer.decided_at.filter(|_| is_refused).map(|at| (peer.team, at))
    });

/// Peers by domain and state, for the limits of a domain.
pub static BY_DOMAIN: Index<Peer, (Id<Team>, PeerState, Domain)> =
    Index::non_unique("peers.by_domain", |peer| {
        Some((peer.team, peer.state, peer.handle.domain()))
    });

/// Pending requests of a key to all teams of the organization.
pub static PENDING_BY_PUBKEY: Index<Peer, PublicKey> =
    Index::non_unique("peers.pending_by_pubkey", |peer| {
        (peer.state == PeerState::Pending).then(|| peer.pubkey.clone())
    });

static TEAM: Reference<Peer, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |peer: &Peer, _| vec![peer.team.to_bytes()],
)
.deferred();

impl Record for Peer {
    const TABLE: &'static str = "peers";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_PUBKEY, &BY_STATE, &REFUSED_BY_TIME, &BY_DOMAIN, &PENDING_BY_PUBKEY];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("decided_by", "history: who decided may have left")];
    type Key = (Id<Team>, Id<Peer>);
    fn key(&self) -> Self::Key {
        (self.team, self.id)
    }
}

/// Returns the peer of a team with this key, if there is one.
pub fn by_pubkey(view: &View, team: Id<Team>, pubkey: &PublicKey) -> Result<Option<Peer>> {
    view.find(&BY_PUBKEY, &(team, pubkey.clone()))
}

/// Whether a peer is accepted. False for one that does not exist.
pub fn is_accepted(view: &View, team: Id<Team>, id: Id<Peer>) -> Result<bool> {
    Ok(view.get::<Peer>(&(team, id))?.is_some_and(|peer| peer.state == PeerState::Accepted))
}
