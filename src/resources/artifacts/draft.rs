//! The record of a draft, and how long closed ones are kept.

use bincode::{Decode, Encode};

use super::id::ArtifactId;
use super::version::{Numbers, numbers};
use crate::api::OldestRow;
use crate::auth::{Restricted, User};
use crate::base::{Id, JsonMap, Prompt, Result, Time, Version};
use crate::outbox::{RetentionSettings, Sweep, delete_due};
use crate::resources::registries::Registry;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Record, Reference, Tx, codec, no_upgrade,
};

crate::base::portable! {
/// A version that is being written.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Draft {
    pub id: Id<Draft>,
    /// The artifact, which need not exist yet.
    pub of: ArtifactId,
    /// The version to publish it as.
    pub draft_version: Version,
    /// Its text.
    pub body: Prompt,
    /// The metadata given by its author.
    pub metadata: JsonMap,
    pub created_by: Id<User>,
    pub created_at: Time,
    /// Who last saved it; none if an earlier release wrote it.
    pub updated_by: Option<Id<User>>,
    /// When it was last saved.
    pub updated_at: Time,
    /// How it was closed; none while it is outstanding.
    pub end: Option<DraftEnd>,
}
}

/// A draft as stored in version 1, without who saved it. Its fields never change.
#[derive(Encode, Decode)]
struct DraftV1 {
    id: Id<Draft>,
    of: ArtifactId,
    draft_version: Version,
    body: Prompt,
    metadata: JsonMap,
    created_by: Id<User>,
    created_at: Time,
    updated_at: Time,
    end: Option<DraftEnd>,
}

impl From<DraftV1> for Draft {
    fn from(old: DraftV1) -> Self {
        let DraftV1 { id, of, draft_version, body, metadata, created_by, .. } = old;
        let DraftV1 { created_at, updated_at, end, .. } = old;
        Draft {
            id,
            of,
            draft_version,
            body,
            metadata,
            created_by,
            created_at,
            updated_by: None,
            updated_at,
            end,
        }
    }
}

impl Draft {
    /// Whose text it is: who last saved it.
    pub fn author(&self) -> Id<User> {
        self.updated_by.unwrap_or(self.created_by)
    }
}

/// How a draft was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftEnd {
    Published(Time),
    Deleted(Time),
}
impl DraftEnd {
    fn at(self) -> Time {
        match self {
            DraftEnd::Published(at) | DraftEnd::Deleted(at) => at,
        }
    }
}
crate::store::stored_enum!(DraftEnd { Published(at: Time) = 0, Deleted(at: Time) = 1 });

/// Outstanding drafts by artifact.
pub static OUTSTANDING: Index<Draft, ArtifactId> =
    Index::non_unique("drafts.outstanding", |draft| draft.end.is_none().then(|| draft.of.clone()));

/// Closed drafts, by time.
static CLOSED: Index<Draft, Time> =
    Index::non_unique("drafts.closed", |draft| draft.end.map(DraftEnd::at));

/// Outstanding drafts by version.
pub static BY_VERSION: Index<Draft, (ArtifactId, Numbers)> = Index::unique(
    "drafts.by_version",
    "draft_exists",
    "a draft of this version exists already; choose another draftVersion",
    |draft| draft.end.is_none().then(|| (draft.of.clone(), numbers(&draft.draft_version))),
);

static REGISTRY: Reference<Draft, Restricted<Registry>> = Reference::cascade(
    &["of.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |draft: &Draft, _| vec![draft.of.registry.to_bytes()],
)
.deferred();

impl Record for Draft {
    const TABLE: &'static str = "drafts";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&OUTSTANDING, &CLOSED, &BY_VERSION];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const VERSION: u8 = 2;
    type Key = (Id<Registry>, Id<Draft>);
    fn key(&self) -> Self::Key {
        (self.of.registry, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<DraftV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

// ── Retention ────────────────────────────────────────────────────────────────

/// Deletes drafts that were closed longer ago than the operator's `--log-retention`.
pub const DELETE_CLOSED: Sweep = Sweep {
    name: "delete closed drafts",
    every_secs: 600,
    run: |tx: &mut Tx, settings: &RetentionSettings| {
        let end = tx.now().minus_secs(settings.log_retention_secs);
        delete_due(tx, &CLOSED, |draft: &Draft| draft.end.is_some_and(|closed| closed.at() <= end))
    },
    installation: false,
};

/// The draft that was closed first, for the metrics.
pub const OLDEST: OldestRow = OldestRow {
    table: Draft::TABLE,
    read: |view| {
        let oldest = view.first(&CLOSED, &(), Order::Ascending)?;
        Ok(oldest.and_then(|draft| draft.end).map(DraftEnd::at))
    },
};
