//! Deleting a registry, with everything that lies in it.
//!
//! The registry itself goes at once, and with it the way to all the rest: keys begin with its id.
//! The rest goes in the same transaction where it is little, else in steps behind it.

use bincode::{Decode, Encode};
use serde_json::json;

use super::artifact::Artifact;
use super::dependents::ImportEdge;
use super::drafts::Draft;
use super::{Published, VersionText, variables};
use crate::api::{Removed, Req, Route};
use crate::auth::{GRANTS_BY_RESOURCE, Granted, ResourceType, Rule};
use crate::base::{Id, Result};
use crate::outbox::{
    self, EventType, SWEEP_ROWS, Settings, Sweep, Swept, first_rows, remove_first, rows_of,
};
use crate::resources::governance;
use crate::resources::registries::{self, Registry};
use crate::store::{Order, Record, Source, Tx};

type Clear = fn(&mut Tx, Id<Registry>, usize) -> Result<usize>;

/// What a registry has, each removed by a function that clears about so many rows, of which long
/// texts count for several, and says how many. Where it is less than allowed, nothing is left.
const CLEARS: &[Clear] = &[
    |tx, registry, at_most| remove_first::<Artifact>(tx, &registry, at_most),
    clear_versions,
    |tx, registry, at_most| remove_first::<VersionText>(tx, &registry, at_most),
    |tx, registry, at_most| remove_first::<ImportEdge>(tx, &registry, at_most),
    |tx, registry, at_most| remove_first::<Draft>(tx, &registry, at_most),
    governance::forget_registry,
    clear_grants,
];

/// A deletion clears so many rows itself: most registries have fewer, and with their index entries
/// they are well within what one transaction may change.
const AT_ONCE: usize = 1000;

// ── Record ───────────────────────────────────────────────────────────────────

/// That a registry was deleted of which rows may be left.
#[derive(Clone, Debug, Encode, Decode)]
pub struct DeletedRegistry {
    registry: Id<Registry>,
}

impl Record for DeletedRegistry {
    const TABLE: &'static str = "registries.deleted";
    type Key = Id<Registry>;
    fn key(&self) -> Self::Key {
        self.registry
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn remove(tx: &mut Tx, req: &Req<String>) -> Result<Removed> {
    let registry = registries::named(&tx.view(), req.caller(), &req.at)?;
    let payload = json!({
        "registryId": registry.id, "registryRef": registry.reference,
        "name": registry.name,
    });
    registries::forget(tx, &registry)?;
    if clear(tx, registry.id, AT_ONCE)? == AT_ONCE {
        tx.insert(&DeletedRegistry { registry: registry.id })?;
    }
    outbox::publish(tx, EventType::RegistryDeleted, payload)?;
    Ok(Removed::new(registry.id))
}

fn clear(tx: &mut Tx, registry: Id<Registry>, at_most: usize) -> Result<usize> {
    let mut cleared = 0;
    for clear in CLEARS {
        cleared += clear(tx, registry, at_most - cleared)?;
    }
    Ok(cleared)
}

fn clear_versions(tx: &mut Tx, registry: Id<Registry>, at_most: usize) -> Result<usize> {
    // What a version mentions goes with it, and may be many rows.
    let rows_of = |row: &Published| Ok(rows_of(row)? + row.variables.len());
    let (first, rows) = first_rows(&tx.view(), &registry, at_most, rows_of)?;
    for row in &first {
        variables::forget(tx, row)?;
        tx.remove(row)?;
    }
    Ok(rows)
}

fn clear_grants(tx: &mut Tx, registry: Id<Registry>, at_most: usize) -> Result<usize> {
    let resource = (ResourceType::Registry, registry.cast::<Granted>());
    let grants = tx.all(&GRANTS_BY_RESOURCE, &resource)?;
    let grants = &grants[..grants.len().min(at_most)];
    grants.iter().try_for_each(|grant| tx.remove(grant))?;
    Ok(grants.len())
}

/// Goes on with what was begun.
pub const CLEAR: Sweep = Sweep {
    name: "clear deleted registries",
    every_secs: 60,
    run: |tx: &mut Tx, _: &Settings| {
        let deleted = tx.view().first(Source::<DeletedRegistry>::TABLE, &(), Order::Ascending)?;
        let Some(deleted) = deleted else { return Ok(Swept::Clean) };
        if clear(tx, deleted.registry, SWEEP_ROWS)? < SWEEP_ROWS {
            tx.remove(&deleted)?;
        }
        Ok(Swept::More)
    },
    installation: false,
};

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::delete("/registries/{registrySlug}", Rule::SessionAdmin, "registry.delete", remove)
            .about("Delete a registry with everything in it"),
    ]
}
