//! Channels and subscriptions: which events are delivered where.
//!
//! The built-in channel has no record: its id follows from the organization's.

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::events::EventType;
use crate::base::{Id, Json, Result, Sealed, Time};
use crate::store::{AnyIndex, AnyReference, Index, Key, Org, Record, Reference, Tx};

/// An organization has at most 100 channels: one event may have a delivery through each, all made
/// in one transaction.
pub const MAX_CHANNELS: usize = 100;

/// A way in which events reach somebody.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Channel {
    /// Its id.
    pub id: Id<Channel>,
    /// What people call it.
    pub name: String,
    /// The key of the [`Workflow`](super::Workflow) that delivers its events.
    pub workflow: String,
    /// What the workflow needs, as its schema has it, without secrets.
    pub config: Json,
    /// The workflow's secret, such as a signing key or a URL that must not be shown.
    pub secret: Option<Sealed>,
    /// Whether it delivers. One that does not goes on collecting deliveries, which wait.
    pub enabled: bool,
    /// When it was created.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

impl Record for Channel {
    const TABLE: &'static str = "channels";
    type Key = Id<Channel>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// That a channel receives the events of a type.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Subscription {
    /// Its id.
    pub id: Id<Subscription>,
    /// The channel.
    pub channel: Id<Channel>,
    /// The type of the events.
    pub event_type: EventType,
    /// Whether it counts.
    pub enabled: bool,
    /// When it was created.
    pub created_at: Time,
}

/// The subscriptions of a channel, one of each type.
pub static SUBSCRIPTIONS: Index<Subscription, (Id<Channel>, EventType)> = Index::unique(
    "subscriptions.by_channel",
    "subscription_exists",
    "this channel is subscribed to this event type already",
    |subscription| Some((subscription.channel, subscription.event_type)),
);

/// The channels subscribed to an event type.
pub static SUBSCRIBED: Index<Subscription, (EventType, Id<Channel>)> =
    Index::many("subscriptions.by_event_type", |subscription| {
        let Subscription { event_type, channel, enabled, .. } = subscription;
        enabled.then_some((*event_type, *channel))
    });

static CHANNEL: Reference<Subscription, Channel> = Reference::cascade(
    &["channel"],
    |channel: &Channel| channel.id.to_bytes(),
    |subscription: &Subscription, _| vec![subscription.channel.to_bytes()],
)
.by(&SUBSCRIPTIONS);

impl Record for Subscription {
    const TABLE: &'static str = "subscriptions";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&CHANNEL];
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&SUBSCRIPTIONS, &SUBSCRIBED];
    type Key = Id<Subscription>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The built-in channel of an organization, which is subscribed to everything and delivers at once.
pub fn in_app(org: Id<Org>) -> Id<Channel> {
    let derived = blake3::derive_key("roadstead 2026 built-in channel", org.bytes());
    let mut bytes = *org.bytes();
    // Time, version and variant stay the organization's, so that it is a UUIDv7 as all ids are.
    bytes[9..].copy_from_slice(&derived[..7]);
    Id::new(Uuid::from_bytes(bytes))
}

/// Writes down whether a channel delivers.
pub(super) fn replace_enabled(tx: &mut Tx, channel: &Channel, enabled: bool) -> Result<()> {
    let updated_at = tx.now();
    tx.replace(channel, &Channel { enabled, updated_at, ..channel.clone() })
}
