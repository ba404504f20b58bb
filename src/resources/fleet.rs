//! The record of a fleet, which restricts the agents in it. Agents refer to it, grants are for it, and
//! [`fleets`](super::fleets) has its routes.

use bincode::{Decode, Encode};

use crate::api::Resource;
use crate::auth::{Access, Grant, ResourceType, Restrictable, Restricted, User, grants_for};
use crate::base::{Description, Id, Name, Result, Time};
use crate::store::{AnyReference, Export, Record, Reference, TableInfo, Tx, View, upgrade_shorter};

/// The record of fleets.
pub const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<Restricted<Fleet>>()], ..Resource::EMPTY };

crate::base::portable! {
/// A group of agents.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Fleet {
    pub id: Id<Fleet>,
    pub name: Name,
    /// Its purpose.
    pub description: Option<Description>,
    /// Whether every member may use its agents or only those with a grant.
    pub access: Access,
    pub created_at: Time,
    pub updated_at: Time,
    /// Who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
}

static GRANTS: Reference<Grant, Restricted<Fleet>> = grants_for();

impl Record for Restricted<Fleet> {
    const TABLE: &'static str = "fleets";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[&GRANTS];
    const VERSION: u8 = 2;
    type Key = Id<Fleet>;
    fn key(&self) -> Self::Key {
        self.id()
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        self.remember_deleted(tx)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

impl Restrictable for Fleet {
    const KIND: ResourceType = ResourceType::Fleet;
    fn id(&self) -> Id<Self> {
        self.id
    }
    fn access(&self, _: &View) -> Result<Access> {
        Ok(self.access)
    }
}
