//! The audit log: one entry in the transaction of each request that changes something, and one for
//! each refusal (reference: audit-log).
//!
//! An entry is pending until it is appended to the chain of its organization ([`chain`]), within a
//! second: a head of the chain in every request's transaction would make all of them conflict.

mod actions;
mod chain;
mod checkpoint;
mod postings;
mod restart;
mod retention;
mod verify;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

pub use actions::{actions, kinds, noun};
pub use chain::{ChainHead, ChainedEntry, Link, append_pending, find_entry, first_at};
pub use checkpoint::{Checkpoint, Comparison, checkpoint, compare};
pub use postings::{Posting, PostingList, Postings, Term};
pub use restart::Restart;
pub use retention::{ChainStart, DELETE_EXPIRED, OLDEST};
pub use verify::verify;

use super::output::{PeerRef, ResourceRef};
use crate::auth::{Credential, Identity, User};
use crate::base::{Id, PublicKey, Result, Time};
use crate::outbox::Sweep;
use crate::store::{Export, Org, Record, TableInfo, Tx, codec, no_upgrade};

/// The tables of the entries and of their chains.
pub const TABLES: &[TableInfo] = &[
    TableInfo::of::<AuditEntry>(),
    TableInfo::of::<ChainedEntry>(),
    TableInfo::of::<Posting>(),
    TableInfo::of::<ChainHead>(),
    TableInfo::of::<ChainStart>(),
];

/// The retention of the entries.
pub const SWEEPS: &[Sweep] = &[DELETE_EXPIRED];

/// What the detail of an entry ends with where nothing has happened yet.
pub const WAITS_FOR_APPROVAL: &str = "waits for approval";

/// The signal that an entry is pending.
pub const AUDITED: Uuid = Uuid::from_u128(0x0b0a_2026_0000_7000_8000_0000_0000_0002);

/// The kind of the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActorType {
    /// A user with a session.
    User,
    /// An API key.
    Key,
    /// An outside agent.
    Peer,
    /// An anonymous client.
    Anonymous,
    /// The service itself.
    System,
}
crate::store::stored_enum!(ActorType { User = 0, Key = 1, Peer = 2, Anonymous = 3, System = 4 });

/// The outcome of an audited request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditOutcome {
    /// The request succeeded.
    Success,
    /// The caller was not permitted to do it.
    Refused,
}
crate::store::stored_enum!(AuditOutcome { Success = 0, Refused = 1 });

/// A person as an audit entry names them.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
pub struct AuditPerson {
    pub id: Id<User>,
    /// Their name at the time.
    pub name: String,
}

/// An action of a caller, or the refusal of one; in its own table while it is pending.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct AuditEntry {
    /// Its id. Pending entries are appended in the order of their ids, but an entry can be committed
    /// after one with a larger id.
    pub id: Id<AuditEntry>,
    /// The organization whose audit log it belongs to.
    pub org: Id<Org>,
    pub created_at: Time,
    pub actor_type: ActorType,
    /// The id of the user, key or peer.
    pub actor_id: Option<Id<()>>,
    /// The user's name, or the peer's handle.
    pub actor_name: String,
    /// The key's name.
    pub via: Option<String>,
    /// The person who answered for it, if the actor is the key of a service account.
    pub person: Option<AuditPerson>,
    /// The route's name, noun and verb (`task.create`).
    pub action: String,
    /// The kind of the resource: usually the action's noun.
    pub resource_type: String,
    /// The id of the resource, or its name where it has no id.
    pub resource_id: Option<String>,
    /// What else the resource is named by: for example a label and where it was moved.
    pub detail: Option<String>,
    pub request_id: String,
    /// How it ended.
    pub outcome: AuditOutcome,
}

/// Of the installation: all organizations' pending entries are in one queue, so that none is
/// searched for.
impl Record for AuditEntry {
    const TABLE: &'static str = "audit_log.pending";
    const EXPORT: Export<Self> =
        Export::LeftOut("of this installation: `roadstead audit export` prints it");
    const ORG_SCOPED: bool = false;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("org", "organizations are not removed"),
        ("actor_id", "history: the actor may have been deleted"),
        ("person.id", "history: the person may have left"),
    ];
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

/// Version 1 named no person.
#[derive(Encode, Decode)]
struct AuditEntryV1 {
    id: Id<AuditEntry>,
    org: Id<Org>,
    created_at: Time,
    actor_type: ActorType,
    actor_id: Option<Id<()>>,
    actor_name: String,
    via: Option<String>,
    action: String,
    resource_type: String,
    resource_id: Option<String>,
    detail: Option<String>,
    request_id: String,
    outcome: AuditOutcome,
}

impl From<AuditEntryV1> for AuditEntry {
    fn from(old: AuditEntryV1) -> Self {
        AuditEntry {
            id: old.id,
            org: old.org,
            created_at: old.created_at,
            actor_type: old.actor_type,
            actor_id: old.actor_id,
            actor_name: old.actor_name,
            via: old.via,
            person: None,
            action: old.action,
            resource_type: old.resource_type,
            resource_id: old.resource_id,
            detail: old.detail,
            request_id: old.request_id,
            outcome: old.outcome,
        }
    }
}

fn insert(tx: &mut Tx, entry: &AuditEntry) -> Result<()> {
    tx.signal(AUDITED);
    tx.insert(entry)
}

/// Something that the service does by itself, for example in a job.
#[derive(Clone, Copy)]
pub struct SystemAction<'a> {
    /// Noun and verb (`environment_secret.use`).
    pub action: &'static str,
    /// The id or name of the resource.
    pub resource_id: &'a str,
    /// What else the resource is named by.
    pub detail: &'a str,
    /// The id of what caused it, in place of a request's.
    pub cause: &'a str,
}

/// Inserts an audit entry of an action of the service into the transaction's organization.
pub fn audit_system(tx: &mut Tx, done: SystemAction) -> Result<()> {
    let entry = system_entry(tx, done);
    insert(tx, &entry)
}

/// The entry of an action of the service in the transaction's organization.
fn system_entry(tx: &Tx, done: SystemAction) -> AuditEntry {
    debug_assert!(actions::is_by_itself(done.action), "{} is not listed", done.action);
    AuditEntry {
        id: tx.new_id(),
        org: tx.org(),
        created_at: tx.now(),
        actor_type: ActorType::System,
        actor_id: None,
        actor_name: "Roadstead".into(),
        via: None,
        person: None,
        action: done.action.into(),
        resource_type: noun(done.action).into(),
        resource_id: Some(done.resource_id.into()),
        detail: Some(done.detail.into()),
        request_id: done.cause.into(),
        outcome: AuditOutcome::Success,
    }
}

/// What an audit entry records of a request besides its actor.
#[derive(Clone)]
pub struct Audited<'a> {
    /// The route's name, noun and verb (`task.create`).
    pub action: &'static str,
    /// The resource; without a kind of its own it gets the action's noun.
    pub resource: Option<&'a ResourceRef>,
    /// What the resource belongs to, as the path names it.
    pub detail: Option<String>,
    /// The peer that acted, if the caller is an outside agent that the answer names.
    pub peer: Option<&'a PeerRef>,
    pub request_id: &'a str,
    /// How it ended.
    pub outcome: AuditOutcome,
}

/// Inserts an audit entry for `identity` into the transaction's organization.
pub fn audit(tx: &mut Tx, identity: &Identity, audited: Audited) -> Result<()> {
    let (actor_type, actor_id, via) = match &identity.credential {
        Credential::Key { id, name, .. } => (ActorType::Key, Some(id.cast()), Some(name.clone())),
        Credential::Session(_) => (ActorType::User, Some(identity.user.cast()), None),
    };
    let sponsor = identity.sponsor.as_ref();
    let person = sponsor.map(|by| AuditPerson { id: by.user, name: by.name.clone() });
    let name = identity.name.clone();
    record(tx, Actor { kind: actor_type, id: actor_id, name, via, person }, audited)
}

/// Inserts an audit entry for an outside agent into the transaction's organization. Without a peer
/// its name is its key.
pub fn audit_peer(tx: &mut Tx, pubkey: &PublicKey, audited: Audited) -> Result<()> {
    let id = audited.peer.map(|peer| peer.id);
    let name = audited.peer.map_or(pubkey.to_string(), |peer| peer.name.clone());
    record(tx, Actor { kind: ActorType::Peer, id, name, via: None, person: None }, audited)
}

/// The actor of an entry; its fields are those of [`AuditEntry`].
struct Actor {
    kind: ActorType,
    id: Option<Id<()>>,
    name: String,
    via: Option<String>,
    person: Option<AuditPerson>,
}

fn record(tx: &mut Tx, actor: Actor, audited: Audited) -> Result<()> {
    let Audited { action, resource, detail, request_id, outcome, peer: _ } = audited;
    let kind = resource.and_then(|resource| resource.kind).unwrap_or_else(|| noun(action));
    let entry = AuditEntry {
        id: tx.new_id(),
        org: tx.org(),
        created_at: tx.now(),
        actor_type: actor.kind,
        actor_id: actor.id,
        actor_name: actor.name,
        via: actor.via,
        person: actor.person,
        action: action.into(),
        resource_type: kind.into(),
        resource_id: resource.map(|resource| resource.id.clone()),
        detail: resource.and_then(|resource| resource.detail.clone()).or(detail),
        request_id: request_id.into(),
        outcome,
    };
    insert(tx, &entry)
}
