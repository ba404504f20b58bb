//! References from one record to another, and what removing the target does to them.
//!
//! A record declares its references as it declares its indexes, and [`Tx::remove`] enforces them: it
//! refuses the removal, removes the referring records too, or clears the field. Referring records
//! are found through an index or a key prefix that the reference names; no table is scanned.

use std::any::Any;
use std::collections::HashMap;
use std::ops::ControlFlow;

use super::engine::{KeyRange, Order, Reader};
use super::key::{Key, after_prefix};
use super::list_source::ListSource;
use super::record::{AnyIndex, AnyRecord, Index, Org, Record, org_prefix};
use super::tx::Tx;
use super::view::View;
use crate::base::{Error, Id, Result};

/// Referring records are read in batches of at most 100 rows, so that few are in memory at a time.
const BATCH_ROWS: usize = 100;

/// The same in bytes as they are stored: 100 of the largest would be 100 MiB.
const BATCH_BYTES: usize = 1024 * 1024;

/// A reference from records of `R` to a record of `T`.
pub struct Reference<R: Record, T: Record> {
    fields: &'static [&'static str],
    on_remove: OnRemove<R, T>,
    deferred: bool,
    index: Option<&'static dyn AnyIndex<R>>,
    label: &'static str,
    referrers: Referring<R, T>,
    applies: Option<fn(&T) -> bool>,
    targets: fn(&R, Id<Org>) -> Vec<Vec<u8>>,
    org: Option<fn(&R) -> Id<Org>>,
}

/// Where the records that refer to a target are.
enum Referring<R: Record, T: Record> {
    /// Under this prefix of the keys in the table or in an index.
    Prefix(fn(&T) -> Vec<u8>),
    /// Under these keys in the table.
    Keys(fn(&T) -> Vec<R::Key>),
}

enum OnRemove<R: 'static, T: Record> {
    Restrict(&'static str, &'static str),
    Cascade,
    Clear(Clear<R, T>),
}

/// Returns the record without its reference to the target with this key.
type Clear<R, T> = fn(&Tx, &R, &<T as Record>::Key) -> Result<R>;

/// What removing the target does to a referring record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The removal is refused while a referring record exists.
    Restrict,
    /// The referring record is removed too.
    Cascade,
    /// The referring record stays, without the reference.
    Clear,
}

impl<R: Record, T: Record> Reference<R, T> {
    /// Refuses the removal of a target that is referred to, with 409, `code` and `message`.
    ///
    /// `fields` are the fields of `R` that hold the reference, dotted where they are nested.
    /// `referrers` returns the prefix of the keys of the records that refer to a target, in the table
    /// of `R` or in the index given to [`by`](Self::by). `targets` is the reverse: it returns the keys
    /// (or key prefixes) in the table of `T` that a record refers to.
    pub const fn restrict(
        fields: &'static [&'static str],
        code: &'static str,
        message: &'static str,
        referrers: fn(&T) -> Vec<u8>,
        targets: fn(&R, Id<Org>) -> Vec<Vec<u8>>,
    ) -> Self {
        Self::new(fields, OnRemove::Restrict(code, message), Referring::Prefix(referrers), targets)
    }

    /// Removes the records that refer to a target with it, in the same transaction.
    ///
    /// For the arguments see [`restrict`](Self::restrict). Restrictions of the referring records are
    /// not checked: what restricts the removal of such a record must be removed with the same target.
    pub const fn cascade(
        fields: &'static [&'static str],
        referrers: fn(&T) -> Vec<u8>,
        targets: fn(&R, Id<Org>) -> Vec<Vec<u8>>,
    ) -> Self {
        Self::new(fields, OnRemove::Cascade, Referring::Prefix(referrers), targets)
    }

    /// Removes the records derived from a target with it, in the same transaction.
    ///
    /// `keys` returns the keys under which they may be; a few hundred at most, since each is looked
    /// up. For the other arguments see [`restrict`](Self::restrict).
    pub const fn derived(
        fields: &'static [&'static str],
        keys: fn(&T) -> Vec<R::Key>,
        targets: fn(&R, Id<Org>) -> Vec<Vec<u8>>,
    ) -> Self {
        Self::new(fields, OnRemove::Cascade, Referring::Keys(keys), targets)
    }

    /// Replaces the records that refer to a target by what `clear` returns for them, in the same
    /// transaction. An error of `clear` refuses the removal.
    ///
    /// For the other arguments see [`restrict`](Self::restrict).
    pub const fn clear(
        fields: &'static [&'static str],
        clear: Clear<R, T>,
        referrers: fn(&T) -> Vec<u8>,
        targets: fn(&R, Id<Org>) -> Vec<Vec<u8>>,
    ) -> Self {
        Self::new(fields, OnRemove::Clear(clear), Referring::Prefix(referrers), targets)
    }

    const fn new(
        fields: &'static [&'static str],
        on_remove: OnRemove<R, T>,
        referrers: Referring<R, T>,
        targets: fn(&R, Id<Org>) -> Vec<Vec<u8>>,
    ) -> Self {
        let (label, deferred, index, applies, org) = ("", false, None, None, None);
        Reference { fields, on_remove, deferred, index, label, referrers, applies, targets, org }
    }

    /// Distinguishes its name from that of another reference in the same fields to the same table.
    pub const fn labelled(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// Finds the referring records through this index instead of the table's keys.
    pub const fn by<K: Key>(mut self, index: &'static Index<R, K>) -> Self {
        self.index = Some(index);
        self
    }

    /// Leaves to a sweep what is too much for one transaction. Until then the records are there, with their
    /// reference to a target that is gone. Those to be removed must be reached through it only: nothing else
    /// may list, count or find them. Those to be cleared may be, by what takes the reference for none.
    pub const fn deferred(mut self) -> Self {
        self.deferred = true;
        self
    }

    /// Restricts the reference to targets for which `applies` returns true.
    pub const fn when(mut self, applies: fn(&T) -> bool) -> Self {
        self.applies = Some(applies);
        self
    }

    /// Sets the organization of the target, where the target is owned and the referring record is not.
    pub const fn target_org(mut self, org: fn(&R) -> Id<Org>) -> Self {
        self.org = Some(org);
        self
    }

    fn source(&self) -> ListSource<R> {
        self.index.map_or(ListSource::TABLE, ListSource::index)
    }

    fn refers(&self, record: &R, org: Id<Org>, target: &[u8]) -> bool {
        (self.targets)(record, org).iter().any(|prefix| target.starts_with(prefix))
    }

    /// Replaces a record by what `clear` returns for it.
    fn clear_in(&self, tx: &mut Tx, record: &R, clear: Clear<R, T>, target: &[u8]) -> Result<()> {
        let key = T::Key::read(&mut &*target)
            .ok_or_else(|| Error::internal(format!("{}: no key", self.name())))?;
        let cleared = clear(tx, record, &key)?;
        tx.replace_referrer(record, &cleared)
    }

    /// Whether there is such a target again, to which what is not cleared yet, or is new, refers rightly. It
    /// is looked for in the organization of the sweep: that of the target. A removal is left to the sweep of
    /// the organization in which the target was removed (see [`super::removal`]), and
    /// [`AnyReference::can_be_deferred`] excludes references to what another one owns.
    fn is_back(&self, view: &View, of: &Referrers) -> Result<bool> {
        let may_be = self.deferred && matches!(self.on_remove, OnRemove::Clear(_));
        match T::Key::read(&mut of.target.as_slice()) {
            Some(key) if may_be => view.has::<T>(&key),
            _ => Ok(false),
        }
    }

    /// Returns the first records that refer to the target, and whether there may be more.
    fn batch(&self, view: &View, of: &Referrers) -> Result<(Vec<R>, bool)> {
        let (mut rows, mut bytes, mut more) = (Vec::new(), 0, false);
        view.for_each_sized(self.source(), &of.prefix, Order::Ascending, |size, record| {
            if !self.refers(&record, view.org(), &of.target) {
                return Ok(ControlFlow::Continue(()));
            }
            more = rows.len() == BATCH_ROWS || bytes >= BATCH_BYTES;
            if more {
                return Ok(ControlFlow::Break(()));
            }
            bytes += size;
            rows.push(record);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((rows, more))
    }
}

/// Where to find the records that refer to one target.
#[derive(Clone, Debug)]
pub struct Referrers {
    /// The prefix of their keys in the reference's table or index, without organization.
    pub(super) prefix: Vec<u8>,
    /// The target's key, without organization.
    pub(super) target: Vec<u8>,
}

/// A [`Reference`] whose types do not matter to the caller. Only [`Reference`] implements it.
pub trait AnyReference: Sync {
    /// Returns its name: the referring table and fields, and the target's table.
    fn name(&self) -> String;
    /// Returns the table of the referring records.
    fn from(&self) -> &'static str;
    /// Returns the target's table.
    fn to(&self) -> &'static str;
    /// Returns the fields that hold it.
    fn fields(&self) -> &'static [&'static str];
    /// Returns what removing the target does.
    fn action(&self) -> Action;
    /// Returns whether a sweep may complete it.
    fn is_deferred(&self) -> bool;
    /// Returns whether the sweep of an organization could complete it: it owns the referring records, and
    /// their targets, unless nobody owns these.
    fn can_be_deferred(&self) -> bool;
    /// Returns where to find the records that refer to `target`, a `T`.
    fn referrers(&self, target: &dyn AnyRecord) -> Vec<Referrers>;
    /// Returns whether there may be a referring record.
    fn any(&self, view: &View, of: &Referrers) -> Result<bool>;
    /// Checks that no record restricts the removal of the target.
    ///
    /// # Errors
    /// The reference's 409 if a record refers to the target, unless that record is itself about to be
    /// removed with another target that no longer exists.
    fn restrict(&self, tx: &Tx, of: &Referrers) -> Result<()>;
    /// Removes or clears one batch of the referring records; returns whether that was the last. A
    /// deferred reference stops where the transaction has removed enough.
    fn step(&self, tx: &mut Tx, of: &Referrers) -> Result<bool>;
    /// Takes the reference to the target with this key from `record`, an `R` that is stored.
    ///
    /// # Errors
    /// If removing the target would not clear the field, or does not succeed in it.
    fn clear_target(&self, tx: &mut Tx, record: &dyn AnyRecord, target: &[u8]) -> Result<()>;
    /// Returns the keys (or key prefixes), as they are stored, that `record`, an `R` of `org`, refers
    /// to.
    fn target_keys(&self, org: Id<Org>, record: &dyn AnyRecord) -> Vec<Vec<u8>>;
    /// Returns whether `record`, an `R` of `org`, refers to anything.
    fn has_targets(&self, org: Id<Org>, record: &dyn AnyRecord) -> bool;
    /// Returns the first key (or key prefix) that `record`, an `R` of `org`, refers to and that does
    /// not exist.
    fn dangling(
        &self,
        reader: &dyn Reader,
        org: Id<Org>,
        record: &dyn AnyRecord,
    ) -> Result<Option<Vec<u8>>>;
}

impl<R: Record, T: Record> AnyReference for Reference<R, T> {
    fn name(&self) -> String {
        let label = if self.label.is_empty() { "" } else { ":" };
        format!("{}.{}{label}{} -> {}", R::TABLE, self.fields.join("+"), self.label, T::TABLE)
    }
    fn from(&self) -> &'static str {
        R::TABLE
    }
    fn to(&self) -> &'static str {
        T::TABLE
    }
    fn fields(&self) -> &'static [&'static str] {
        self.fields
    }
    fn action(&self) -> Action {
        match self.on_remove {
            OnRemove::Restrict(..) => Action::Restrict,
            OnRemove::Cascade => Action::Cascade,
            OnRemove::Clear(_) => Action::Clear,
        }
    }
    fn is_deferred(&self) -> bool {
        self.deferred
    }
    fn can_be_deferred(&self) -> bool {
        R::ORG_SCOPED && self.org.is_none()
    }

    fn referrers(&self, target: &dyn AnyRecord) -> Vec<Referrers> {
        let target: &dyn Any = target;
        let target: &T =
            target.downcast_ref().expect("references are looked up by the target's table");
        if self.applies.is_some_and(|applies| !applies(target)) {
            return Vec::new();
        }
        let prefixes = match self.referrers {
            Referring::Prefix(prefix) => vec![prefix(target)],
            Referring::Keys(keys) => keys(target).iter().map(Key::to_bytes).collect(),
        };
        let target = target.key().to_bytes();
        let of = |prefix| Referrers { prefix, target: target.clone() };
        prefixes.into_iter().map(of).collect()
    }

    fn any(&self, view: &View, of: &Referrers) -> Result<bool> {
        Ok(view.count_raw(self.source(), &of.prefix, 1)? > 0)
    }

    fn restrict(&self, tx: &Tx, of: &Referrers) -> Result<()> {
        let OnRemove::Restrict(code, message) = self.on_remove else { return Ok(()) };
        tx.view().for_each_sized(self.source(), &of.prefix, Order::Ascending, |_, record: R| {
            if self.refers(&record, tx.org(), &of.target) && !tx.is_orphan(&record)? {
                return Err(Error::conflict(code, message));
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn step(&self, tx: &mut Tx, of: &Referrers) -> Result<bool> {
        if self.is_back(&tx.view(), of)? {
            return Ok(true);
        }
        let (rows, more) = self.batch(&tx.view(), of)?;
        for row in &rows {
            if self.deferred && !tx.may_remove_more() {
                return Ok(false);
            }
            match self.on_remove {
                OnRemove::Restrict(..) => return Ok(true),
                OnRemove::Cascade => tx.remove_referrer(row)?,
                OnRemove::Clear(clear) => self.clear_in(tx, row, clear, &of.target)?,
            }
        }
        Ok(!more)
    }

    fn clear_target(&self, tx: &mut Tx, record: &dyn AnyRecord, target: &[u8]) -> Result<()> {
        match self.on_remove {
            OnRemove::Clear(clear) => self.clear_in(tx, referring(record), clear, target),
            _ => Err(Error::internal(format!("{}: is not cleared", self.name()))),
        }
    }

    fn target_keys(&self, org: Id<Org>, record: &dyn AnyRecord) -> Vec<Vec<u8>> {
        let record: &R = referring(record);
        let owner = org_prefix::<T>(self.org.map_or(org, |org| org(record)));
        // An empty prefix means any target, if one exists.
        let targets = (self.targets)(record, org).into_iter().filter(|key| !key.is_empty());
        targets.map(|target| [owner.as_slice(), &target].concat()).collect()
    }

    fn has_targets(&self, org: Id<Org>, record: &dyn AnyRecord) -> bool {
        !(self.targets)(referring(record), org).is_empty()
    }

    fn dangling(
        &self,
        reader: &dyn Reader,
        org: Id<Org>,
        record: &dyn AnyRecord,
    ) -> Result<Option<Vec<u8>>> {
        let record: &R = referring(record);
        let owner = org_prefix::<T>(self.org.map_or(org, |org| org(record)));
        first_missing(reader, T::TABLE, &owner, (self.targets)(record, org))
    }
}

/// Returns the first of these keys (or key prefixes) that a table does not have.
fn first_missing(
    reader: &dyn Reader,
    table: &'static str,
    owner: &[u8],
    targets: Vec<Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    // An empty prefix means any target, if one exists.
    for target in targets.into_iter().filter(|key| !key.is_empty()) {
        let from = [owner, &target].concat();
        let mut found = false;
        let to = after_prefix(&from);
        let range = KeyRange { from: &from, to: to.as_deref() };
        reader.scan(table, range, Order::Ascending, &mut |_, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        if !found {
            return Ok(Some(target));
        }
    }
    Ok(None)
}

fn referring<R: Record>(record: &dyn AnyRecord) -> &R {
    (record as &dyn Any).downcast_ref().expect("references are looked up by the record's table")
}

/// The references between the tables of a catalog, by either end.
#[derive(Default)]
pub struct References {
    to: HashMap<&'static str, Vec<&'static dyn AnyReference>>,
    from: HashMap<&'static str, Vec<&'static dyn AnyReference>>,
    named: HashMap<String, &'static dyn AnyReference>,
}

impl References {
    /// Collects the references that tables declare. `tables` is each table with what it declares;
    /// the references to a table are kept in the order of the tables that refer to it.
    ///
    /// # Panics
    /// If two references have the same name, or a deferred one is none that the sweep of an organization
    /// could complete.
    pub fn new(tables: Vec<(&'static str, Vec<&'static dyn AnyReference>)>) -> Self {
        let names: Vec<_> = tables.iter().map(|(name, _)| *name).collect();
        let mut all: Vec<_> = tables.into_iter().flat_map(|(_, references)| references).collect();
        all.sort_by_key(|reference| names.iter().position(|name| *name == reference.from()));
        let mut references = Self::default();
        for reference in all {
            references.to.entry(reference.to()).or_default().push(reference);
            references.from.entry(reference.from()).or_default().push(reference);
            let name = reference.name();
            let is_possible = reference.can_be_deferred() || !reference.is_deferred();
            assert!(is_possible, "{name} cannot be deferred");
            let other = references.named.insert(name, reference);
            assert!(other.is_none(), "two references are named {}", reference.name());
        }
        references
    }

    /// Returns the references to records of this table.
    pub(super) fn to(&self, table: &str) -> &[&'static dyn AnyReference] {
        self.to.get(table).map_or(&[], Vec::as_slice)
    }

    /// Returns the references that records of this table hold.
    pub(super) fn from(&self, table: &str) -> &[&'static dyn AnyReference] {
        self.from.get(table).map_or(&[], Vec::as_slice)
    }

    /// Returns the deferred reference with this name.
    pub(super) fn deferred(&self, name: &str) -> Option<&'static dyn AnyReference> {
        self.named.get(name).copied().filter(|reference| reference.is_deferred())
    }
}
