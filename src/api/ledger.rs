//! The rows that the pipeline writes beside an operation's own, in its transaction: who did what
//! (reference: identity-and-rights, "Audit entries"), and what was answered to an `Idempotency-Key`
//! (reference: conventions, "Idempotency").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::output::ResourceRef;
use crate::auth::{Credential, Identity};
use crate::base::{Id, Result, Time};
use crate::outbox::{Settings, Sweep, delete_due};
use crate::store::{AnyIndex, Index, Record, TableInfo, Tx, codec, no_upgrade};

/// The tables of this room.
pub const TABLES: &[TableInfo] =
    &[TableInfo::of::<AuditEntry>(), TableInfo::of::<IdempotencyRecord>()];

/// The sweeps of this room.
pub const SWEEPS: &[Sweep] = &[FORGET_KEPT];

// ── Audit ────────────────────────────────────────────────────────────────────

/// What kind of caller acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActorType {
    /// A person in a session.
    User,
    /// An API key.
    Key,
    /// An outside agent.
    Peer,
    /// Nobody known.
    Anonymous,
    /// The service itself.
    System,
}
crate::store::stored_enum!(ActorType { User = 0, Key = 1, Peer = 2, Anonymous = 3, System = 4 });

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Success,
    /// It was not allowed.
    Refused,
}
crate::store::stored_enum!(Outcome { Success = 0, Refused = 1 });

/// That somebody did something, or was not allowed to. Chaining the entries, and reading them,
/// comes with the audit log; the fields for it stand.
#[derive(Clone, Debug, Encode, Decode)]
pub struct AuditEntry {
    /// Its id; entries stand in the order of their ids.
    pub id: Id<AuditEntry>,
    /// When.
    pub created_at: Time,
    /// What kind of caller.
    pub actor_type: ActorType,
    /// The id of the user or key.
    pub actor_id: Option<Id<()>>,
    /// The user's name.
    pub actor_name: String,
    /// The key's name.
    pub via: Option<String>,
    /// Noun and verb of the route.
    pub action: String,
    /// The noun.
    pub resource_type: String,
    /// The id, or name, of what it was done to.
    pub resource_id: Option<String>,
    /// What part of it, where its id does not say: the label that was moved, say. Since version 2.
    pub detail: Option<String>,
    /// The request.
    pub request_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Its hash and the one before it, once it is chained.
    pub chained: Option<([u8; 32], [u8; 32])>,
}

impl Record for AuditEntry {
    const TABLE: &'static str = "audit";
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("actor_id", "history: who did it may be gone")];
    const VERSION: u8 = 2;
    type Key = Id<AuditEntry>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<AuditEntryV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// An entry as it was stored in version 1. Its fields never change again.
#[derive(Encode, Decode)]
struct AuditEntryV1 {
    id: Id<AuditEntry>,
    created_at: Time,
    actor_type: ActorType,
    actor_id: Option<Id<()>>,
    actor_name: String,
    via: Option<String>,
    action: String,
    resource_type: String,
    resource_id: Option<String>,
    request_id: String,
    outcome: Outcome,
    chained: Option<([u8; 32], [u8; 32])>,
}

impl From<AuditEntryV1> for AuditEntry {
    fn from(old: AuditEntryV1) -> Self {
        AuditEntry {
            id: old.id,
            created_at: old.created_at,
            actor_type: old.actor_type,
            actor_id: old.actor_id,
            actor_name: old.actor_name,
            via: old.via,
            action: old.action,
            resource_type: old.resource_type,
            resource_id: old.resource_id,
            detail: None,
            request_id: old.request_id,
            outcome: old.outcome,
            chained: old.chained,
        }
    }
}

/// What an audit entry says of a request, beside who made it.
#[derive(Clone, Copy)]
pub struct Audited<'a> {
    /// Noun and verb of the route.
    pub action: &'static str,
    /// The resource that it was done to; its kind is the action's noun where it tells none.
    pub resource: Option<&'a ResourceRef>,
    /// The request's id.
    pub request_id: &'a str,
    /// How it ended.
    pub outcome: Outcome,
}

/// Writes down what `identity` did in the transaction's organization.
pub fn audit(tx: &mut Tx, identity: &Identity, audited: Audited) -> Result<()> {
    let (actor_type, actor_id, via) = match &identity.credential {
        Credential::Key { id, name, .. } => (ActorType::Key, Some(id.cast()), Some(name.clone())),
        Credential::Session(_) => (ActorType::User, Some(identity.user.cast()), None),
    };
    let Audited { action, resource, request_id, outcome } = audited;
    let noun = || action.split('.').next().unwrap_or_default();
    let entry = AuditEntry {
        id: tx.new_id(),
        created_at: tx.now(),
        actor_type,
        actor_id,
        actor_name: identity.name.clone(),
        via,
        action: action.into(),
        resource_type: resource.and_then(|resource| resource.kind).unwrap_or_else(noun).into(),
        resource_id: resource.map(|resource| resource.id.clone()),
        detail: None,
        request_id: request_id.into(),
        outcome,
        chained: None,
    };
    tx.insert(&entry)
}

// ── Idempotency ──────────────────────────────────────────────────────────────

/// Answers are kept for a day.
pub const KEPT_SECS: i64 = 24 * 3600;

/// What was answered to a request with an `Idempotency-Key`.
#[derive(Clone, Debug, Encode, Decode)]
pub struct IdempotencyRecord {
    /// A keyed hash of credential, path and key.
    pub request: [u8; 32],
    /// A keyed hash of the body.
    pub body: [u8; 32],
    /// The answer; none where it showed a secret or was too large.
    pub answer: Option<Vec<u8>>,
    /// When.
    pub at: Time,
}

static KEPT_BY_TIME: Index<IdempotencyRecord, Time> =
    Index::many("idempotency.by_time", |kept| Some(kept.at));

impl Record for IdempotencyRecord {
    const TABLE: &'static str = "idempotency";
    const OWNED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&KEPT_BY_TIME];
    type Key = [u8; 32];
    fn key(&self) -> Self::Key {
        self.request
    }
}

const FORGET_KEPT: Sweep = Sweep {
    name: "forget kept answers",
    every_secs: 600,
    run: |tx: &mut Tx, _: &Settings| {
        let end = tx.now().minus_secs(KEPT_SECS);
        delete_due(tx, &KEPT_BY_TIME, |kept: &IdempotencyRecord| kept.at < end)
    },
    installation: true,
};
