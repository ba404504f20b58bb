//! Channels and subscriptions: which events are delivered where.
//!
//! The built-in channel has no record: its id follows from the organization's.

use bincode::{Decode, Encode};
use serde_json::Value;
use uuid::Uuid;

use super::events::EventType;
use crate::base::{Id, Json, Result, Sealed, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Org, Record, Reference, SealedField,
    Tx, View, upgrade_shorter,
};

/// An organization has at most 100 channels: one event may have a delivery through each, all made
/// in one transaction.
pub const MAX_CHANNELS: usize = 100;

crate::base::portable! {
/// A destination of events, such as a webhook or a mail address.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Channel {
    pub id: Id<Channel>,
    pub name: String,
    /// The key of the [`Workflow`](super::Workflow) that delivers its events.
    pub workflow: String,
    /// The configuration of the workflow, by its schema, without secrets.
    pub config: Json,
    /// The workflow's secret, such as a signing key or a confidential URL.
    pub secret: Option<Sealed>,
    /// The secret before that, while both are valid.
    pub previous_secret: Option<Sealed>,
    /// When the previous secret ceases to be valid.
    pub previous_until: Option<Time>,
    /// Whether it delivers. Deliveries of a disabled channel are created and wait.
    pub enabled: bool,
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// The user who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<()>>,
}
}

impl Record for Channel {
    const TABLE: &'static str = "channels";
    const EXPORT: Export<Self> = Export::WHOLE.normalized(|channel| Channel {
        // Without its secret it could deliver nothing.
        enabled: channel.enabled && channel.secret.is_none(),
        previous_until: None,
        ..channel
    });
    const SEALED: &'static [&'static SealedField<Self>] = &[&CHANNEL_SECRET, &PREVIOUS_SECRET];
    const VERSION: u8 = 2;
    type Key = Id<Channel>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// The secret of a channel.
pub static CHANNEL_SECRET: SealedField<Channel> =
    SealedField::new("secret", "secrets of notification channels", |channel| {
        channel.secret.as_mut()
    });

/// The secret of a channel that was replaced.
static PREVIOUS_SECRET: SealedField<Channel> =
    SealedField::new("previous_secret", "secrets of notification channels", |channel| {
        channel.previous_secret.as_mut()
    });

/// How long a replaced secret is valid beside the new one: time to change it at the receiver.
pub const OLD_SECRET_SECS: i64 = 24 * 3600;

impl Channel {
    /// Returns a new channel that delivers, to be inserted.
    ///
    /// # Errors
    /// If the secret cannot be sealed.
    pub fn new(
        tx: &Tx,
        name: impl Into<String>,
        workflow: &str,
        config: Value,
        secret: Option<&str>,
    ) -> Result<Self> {
        let id = tx.new_id();
        Ok(Channel {
            id,
            name: name.into(),
            workflow: workflow.into(),
            config: Json(config),
            secret: secret.map(|secret| tx.seal(&CHANNEL_SECRET, &id, secret)).transpose()?,
            previous_secret: None,
            previous_until: None,
            enabled: true,
            created_at: tx.now(),
            updated_at: tx.now(),
            updated_by: None,
        })
    }

    /// Returns the channel with another secret. The old one is valid for another day
    /// ([`OLD_SECRET_SECS`]); one that was old already is dropped.
    ///
    /// # Errors
    /// If a secret cannot be unsealed or sealed.
    pub fn with_secret(&self, tx: &Tx, secret: &str) -> Result<Self> {
        let previous_secret = match &self.secret {
            None => None,
            Some(old) => {
                let old = tx.view().unseal(&CHANNEL_SECRET, &self.id, old)?;
                Some(tx.seal(&PREVIOUS_SECRET, &self.id, &old)?)
            }
        };
        Ok(Channel {
            secret: Some(tx.seal(&CHANNEL_SECRET, &self.id, secret)?),
            previous_until: previous_secret.is_some().then(|| tx.now().plus_secs(OLD_SECRET_SECS)),
            previous_secret,
            ..self.clone()
        })
    }

    /// Returns the secrets that are valid now, the newest first.
    ///
    /// # Errors
    /// If one cannot be unsealed.
    pub fn valid_secrets(&self, view: &View) -> Result<Vec<String>> {
        let mut valid = Vec::new();
        if let Some(secret) = &self.secret {
            valid.push(view.unseal(&CHANNEL_SECRET, &self.id, secret)?.to_string());
        }
        if let Some(secret) = &self.previous_secret
            && self.previous_until.is_some_and(|end| view.now() < end)
        {
            valid.push(view.unseal(&PREVIOUS_SECRET, &self.id, secret)?.to_string());
        }
        Ok(valid)
    }
}

/// Removes replaced secrets that are no longer valid: one step of a sweep. An organization has few
/// channels, so that they are read at once.
pub fn forget_old_secrets(tx: &mut Tx) -> Result<()> {
    let now = tx.now();
    for old in tx.all::<Channel>(ListSource::TABLE, &())? {
        if old.previous_until.is_some_and(|end| end <= now) {
            let (previous_secret, previous_until) = (None, None);
            tx.replace(&old, &Channel { previous_secret, previous_until, ..old.clone() })?;
        }
    }
    Ok(())
}

crate::base::portable! {
/// A subscription of a channel to the events of a type.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Subscription {
    pub id: Id<Subscription>,
    pub channel: Id<Channel>,
    pub event_type: EventType,
    /// Whether it is in effect.
    pub enabled: bool,
    pub created_at: Time,
}
}

/// Subscriptions by channel, at most one of each type.
pub static SUBSCRIPTIONS: Index<Subscription, (Id<Channel>, EventType)> = Index::unique(
    "subscriptions.by_channel",
    "subscription_exists",
    "the channel is already subscribed to this event type",
    |subscription| Some((subscription.channel, subscription.event_type)),
);

/// Enabled subscriptions by event type.
pub static SUBSCRIBED: Index<Subscription, (EventType, Id<Channel>)> =
    Index::non_unique("subscriptions.by_event_type", |subscription| {
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
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&CHANNEL];
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&SUBSCRIPTIONS, &SUBSCRIBED];
    type Key = Id<Subscription>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// Returns the id of an organization's built-in channel, which is subscribed to all events and
/// delivers at once.
pub fn in_app(org: Id<Org>) -> Id<Channel> {
    let derived = blake3::derive_key("roadstead 2026 built-in channel", org.bytes());
    let mut bytes = *org.bytes();
    // Keep the organization's time, version and variant, so that it is a UUIDv7 like all ids.
    bytes[9..].copy_from_slice(&derived[..7]);
    Id::new(Uuid::from_bytes(bytes))
}

/// Returns since when an organization has its built-in channel.
pub fn in_app_since(org: Id<Org>) -> Time {
    org.time()
}

/// Enables or disables a channel, on behalf of this user or of the server itself.
pub(super) fn replace_enabled(
    tx: &mut Tx,
    channel: &Channel,
    enabled: bool,
    updated_by: Option<Id<()>>,
) -> Result<()> {
    let updated_at = tx.now();
    tx.replace(channel, &Channel { enabled, updated_at, updated_by, ..channel.clone() })
}
