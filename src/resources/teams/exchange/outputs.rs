//! What outside agents see: their request, and the messages of their thread.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Output, PeerRef, ResourceRef};
use crate::base::{Body, Handle, Id, Time, Title};
use crate::resources::teams::message::{Message, SenderType};
use crate::resources::teams::peer::{Peer, PeerState, RefusalReason};

/// A request as its sender sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutsideRequestState {
    pub id: Id<Peer>,
    /// Whether the sender may write to the team.
    pub state: PeerState,
    /// Why it was refused.
    pub reason: Option<RefusalReason>,
    pub created_at: Time,
    /// When it was decided.
    pub decided_at: Option<Time>,
    #[serde(skip)]
    handle: Handle,
}

impl Output for OutsideRequestState {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::of("peer", self.id)
    }
    fn peer(&self) -> Option<PeerRef> {
        Some(PeerRef { id: self.id.cast(), name: self.handle.to_string() })
    }
}

impl From<Peer> for OutsideRequestState {
    fn from(peer: Peer) -> Self {
        let Peer { id, state, reason, created_at, decided_at, handle, .. } = peer;
        OutsideRequestState { id, state, reason, created_at, decided_at, handle }
    }
}

/// Whose message it is, as the peer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "OutsideThreadSide")]
pub enum Side {
    /// The team's.
    Us,
    /// The peer's own.
    You,
}

/// A message as the peer sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutsideThreadMessage {
    id: Id<Message>,
    /// Whose it is: `us` the team's, `you` the peer's own.
    from: Side,
    subject: Option<Title>,
    body: Body,
    created_at: Time,
    /// The peer, of a message that it has just sent.
    #[serde(skip)]
    sender: Option<PeerRef>,
}

impl Output for OutsideThreadMessage {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::of("message", self.id)
    }
    fn peer(&self) -> Option<PeerRef> {
        self.sender.clone()
    }
}

impl From<Message> for OutsideThreadMessage {
    fn from(message: Message) -> Self {
        let Message { id, from, subject, body, created_at, .. } = message;
        let (from, sender) = match from.kind {
            SenderType::Peer => (Side::You, Some(PeerRef { id: from.id.cast(), name: from.name })),
            SenderType::User | SenderType::Agent => (Side::Us, None),
        };
        OutsideThreadMessage { id, from, subject, body, created_at, sender }
    }
}
