//! References whose target is gone: what removing the target would have done is done to the records
//! that refer to it, by the declaration of each reference.
//!
//! A record whose reference restricts is removed too: it could not have outlived its target, and cannot
//! do without.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::catalog::{TableInfo, references};
use super::super::clock::Clock;
use super::super::codec;
use super::super::damage::Damage;
use super::super::engine::{KeyRange, LocalStorage, Order, Overlay, Reader, WriteBatch, WriteOp};
use super::super::id_watermark::IdWatermark;
use super::super::key::Key as _;
use super::super::record::{Org, Record as _, decode};
use super::super::reference::References;
use super::super::removal::PendingRemoval;
use super::super::rows::record_tables;
use super::super::tx::Tx;
use super::super::view::View;
use super::super::walk::Walk;
use super::{Loss, LossFn, LossKind};
use crate::base::{Error, Id, Keys, Result};

/// A commit has at most some 5,000 changes, or 4 MiB.
const MAX_STEP_CHANGES: usize = 5_000;
const MAX_STEP_BYTES: usize = 4 * 1024 * 1024;

/// Each round removes what the one before it has orphaned. Chains of references are a few long.
const MAX_ROUNDS: usize = 100;

const ALL: KeyRange<'static> = KeyRange { from: &[], to: None };

/// What a repair mends besides references.
pub struct Mending<'a> {
    /// Makes some records again without which nobody reaches what belongs to them; returns why, or `None`
    /// if none is gone.
    pub recreate: &'a dyn Fn(&mut Tx) -> Result<Option<String>>,
    /// Returns the organizations.
    pub organizations: fn(&View) -> Result<Vec<Id<Org>>>,
    /// Mends something in the transaction's organization that records of several tables must agree in;
    /// returns what was wrong, or `None`.
    pub mend: fn(&mut Tx) -> Result<Option<String>>,
}

/// Resolves the references in `storage`, whose indexes are built, whose targets are gone, completes the
/// removals that were left to a sweep, and mends what does not agree.
///
/// # Errors
/// If the storage fails; what `lost` returns.
pub fn resolve_references<S: LocalStorage>(
    storage: &mut S,
    tables: &[TableInfo],
    (keys, mending): (&Keys, &Mending<'_>),
    progress: &dyn Fn(&str),
    lost: &mut LossFn<'_>,
) -> Result<()> {
    let reader = storage.snapshot()?;
    let clock = Clock::system();
    let key = ().to_bytes();
    reader.get(IdWatermark::TABLE, &key, &mut |value| {
        clock.resume_after(decode::<IdWatermark>(&key, value)?.newest_millis);
        Ok(())
    })?;
    let (references, tables) = (references(tables), record_tables(tables));
    let batch = WriteBatch::default();
    let mut resolver = Resolver {
        storage,
        reader,
        references,
        tables,
        keys,
        clock,
        damage: Damage::default(),
        batch,
        bytes: 0,
        lost,
    };
    while resolver.recreate(mending)? {}
    for _ in 0..MAX_ROUNDS {
        let mut is_changed = resolver.complete_removals()?;
        for table in resolver.tables.clone() {
            progress(&format!("references of {}", table.name));
            is_changed |= resolver.resolve_table(&table)?;
        }
        if !is_changed {
            progress("what records must agree in");
            is_changed = resolver.mend(mending)?;
        }
        if !is_changed {
            return resolver.commit();
        }
    }
    Err(Error::internal("references lead to ever more records"))
}

struct Resolver<'a, 'f, S> {
    storage: &'a mut S,
    reader: Arc<dyn Reader>,
    references: References,
    tables: Vec<TableInfo>,
    keys: &'a Keys,
    clock: Clock,
    /// What its own reads find: nothing asks for it.
    damage: Damage,
    /// The changes that are not committed yet.
    batch: WriteBatch,
    bytes: usize,
    lost: &'a mut LossFn<'f>,
}

impl<S: LocalStorage> Resolver<'_, '_, S> {
    /// Resolves the references of one table; returns whether there was one to resolve.
    fn resolve_table(&mut self, table: &TableInfo) -> Result<bool> {
        if self.references.from(table.name).is_empty() {
            return Ok(false);
        }
        let mut orphans = Vec::new();
        let overlay = Overlay { base: &*self.reader, writes: &self.batch };
        overlay.scan(table.name, ALL, Order::Ascending, &mut |key, value| {
            if table.is_orphan(&overlay, &self.references, key, value)? {
                orphans.push(key.to_vec());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for key in &orphans {
            let root = (table.name, key.as_slice());
            let resolved = self.run(root, |tx| table.resolve(tx, key));
            // What it does besides is of no use where what that needs is gone, too, or is too much for
            // one transaction: the next round finds what the record leaves behind.
            resolved.or_else(|_| self.run(root, |tx| table.delete(tx, key)))?;
        }
        Ok(!orphans.is_empty())
    }

    /// Completes the removals that were deferred; returns whether there were any.
    fn complete_removals(&mut self) -> Result<bool> {
        let mut orgs: BTreeSet<Id<Org>> = BTreeSet::new();
        let overlay = Overlay { base: &*self.reader, writes: &self.batch };
        overlay.scan(PendingRemoval::TABLE, ALL, Order::Ascending, &mut |mut key, _| {
            orgs.extend(Id::read(&mut key));
            Ok(ControlFlow::Continue(()))
        })?;
        let mut is_any = false;
        for org in orgs {
            loop {
                let root = (PendingRemoval::TABLE, org.bytes().as_slice());
                let mut is_over = true;
                let step = self.run(root, |tx| {
                    tx.set_org(org);
                    is_over = !tx.continue_removals()?;
                    Ok(Some("what it belonged to was removed".to_string()))
                });
                // The sweep of the server tries again what cannot be done.
                if step.is_err() || is_over {
                    break;
                }
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// Makes some records again; returns whether there were any.
    fn recreate(&mut self, mending: &Mending<'_>) -> Result<bool> {
        let overlay = Overlay { base: &*self.reader, writes: &self.batch };
        let mut tx = Tx::new(&overlay, &self.clock, self.keys, &self.references, &self.damage);
        let Some(why) = (mending.recreate)(&mut tx)? else { return Ok(false) };
        let writes = tx.into_writes();
        for (table, changes) in &writes.tables {
            if self.tables.iter().any(|known| known.name == *table) {
                for key in changes.keys() {
                    let kind = LossKind::Recreated;
                    (self.lost)(&Loss { kind, table, key, value: &[], why: &why })?;
                }
            }
        }
        self.batch.append(writes);
        self.commit()?;
        Ok(true)
    }

    /// Mends what does not agree; returns whether there was anything.
    fn mend(&mut self, mending: &Mending<'_>) -> Result<bool> {
        let (keys, references, damage) = (self.keys, &self.references, &self.damage);
        let overlay = Overlay { base: &*self.reader, writes: &self.batch };
        let now = self.clock.now();
        let org = Id::NIL;
        let walk = Walk::default();
        let view =
            View { reader: &overlay, writes: None, org, now, keys, references, damage, walk };
        let mut is_any = false;
        for org in (mending.organizations)(&view)? {
            let root = (PendingRemoval::TABLE, org.bytes().as_slice());
            while self.run(root, |tx| {
                tx.set_org(org);
                (mending.mend)(tx)
            })? {
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// Runs a transaction about the record `root`, and adds its changes. They are reported with what it
    /// returns; `None` is that nothing was to be done.
    fn run(
        &mut self,
        root: (&'static str, &[u8]),
        mut write: impl FnMut(&mut Tx) -> Result<Option<String>>,
    ) -> Result<bool> {
        let overlay = Overlay { base: &*self.reader, writes: &self.batch };
        let mut tx = Tx::new(&overlay, &self.clock, self.keys, &self.references, &self.damage);
        let Some(why) = write(&mut tx)? else { return Ok(false) };
        let writes = tx.into_writes();
        for (table, changes) in &writes.tables {
            let is_record = self.tables.iter().any(|known| known.name == *table);
            if !is_record || *table == PendingRemoval::TABLE {
                continue;
            }
            for (key, op) in changes {
                report(&overlay, (*table, key, op), root, &why, self.lost)?;
            }
        }
        self.bytes += writes.bytes();
        self.batch.append(writes);
        if self.bytes >= MAX_STEP_BYTES || self.batch.len() >= MAX_STEP_CHANGES {
            self.commit()?;
        }
        Ok(true)
    }

    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if !batch.is_empty() {
            self.reader = self.storage.commit(&batch).alone()?;
        }
        Ok(())
    }
}

/// Reports the change of a record that was there before.
fn report(
    before: &dyn Reader,
    (table, key, op): (&'static str, &[u8], &WriteOp),
    root: (&'static str, &[u8]),
    why: &str,
    lost: &mut LossFn<'_>,
) -> Result<()> {
    let kind = match op {
        WriteOp::Delete => LossKind::Removed,
        WriteOp::Put(_) | WriteOp::Insert(_) => LossKind::Changed,
    };
    let with = match root {
        (of, _) if of == PendingRemoval::TABLE => why.to_string(),
        root if root == (table, key) => why.to_string(),
        (of, root) => format!("with {of} {}: {why}", codec::hex(root)),
    };
    let see = &mut |value: &[u8]| lost(&Loss { kind, table, key, value, why: &with });
    before.get(table, key, see).map(drop)
}
