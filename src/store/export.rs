//! The export of an organization's records, and their import into another installation.
//!
//! A record declares whether it is exported ([`Record::EXPORT`]), and its form with
//! [`portable!`](crate::base::portable). The rest is the same for all: rows are read in the order of
//! their keys, and inserted as operations insert them, so that indexes are made anew.

use std::ops::ControlFlow;

use serde_json::Value;

use super::engine::Order;
use super::record::{Org, Record};
use super::reference::AnyReference as _;
use super::tx::Tx;
use super::view::{ListSource, View};
use super::TableInfo;
use crate::base::{Error, Exporting, Id, Importing, Portable, Result};

/// Rows that one transaction of [`TableRows::erase`] deletes.
const ERASED_ROWS: usize = 500;

/// Whether a record is exported with its organization.
pub struct Export<R: 'static>(Rule<R>);

enum Rule<R: 'static> {
    Undeclared,
    LeftOut(&'static str),
    Exported(Form<R>),
}

/// How a record is exported and imported.
struct Form<R: 'static> {
    to_json: fn(&R, &mut Exporting) -> Value,
    from_json: fn(Value, &Importing) -> std::result::Result<R, String>,
    /// The organization of a record that none owns.
    org: Option<fn(&R) -> Id<Org>>,
    normalize: fn(R) -> R,
    insert: fn(&mut Tx, &R) -> Result<()>,
}

impl<R> Clone for Form<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Form<R> {}

impl<R: Record> Export<R> {
    /// Nothing is declared: a test refuses such a record among those of the product.
    pub const UNDECLARED: Self = Export(Rule::Undeclared);

    /// The record is not exported, for this reason.
    pub const fn left_out(reason: &'static str) -> Self {
        Export(Rule::LeftOut(reason))
    }
}

impl<R: Record + Portable> Export<R> {
    /// Every record that the organization owns.
    pub const WHOLE: Self = Self::form(None);

    /// The records of the installation that belong to the organization. They are imported last: they
    /// show it to others, or make the server work for it.
    pub const fn of(org: fn(&R) -> Id<Org>) -> Self {
        Self::form(Some(org))
    }

    const fn form(org: Option<fn(&R) -> Id<Org>>) -> Self {
        Export(Rule::Exported(Form {
            to_json: R::to_json,
            from_json: R::from_json,
            org,
            normalize: |record| record,
            insert: |tx, record| tx.insert(record),
        }))
    }

    /// Replaces each record by what `normalize` returns for it, when it leaves and when it arrives.
    pub const fn normalized(self, normalize: fn(R) -> R) -> Self {
        match self.0 {
            Rule::Exported(form) => Export(Rule::Exported(Form { normalize, ..form })),
            _ => panic!("a record that is not exported has no form"),
        }
    }

    /// Inserts each record that arrives with this function.
    pub const fn inserted_by(self, insert: fn(&mut Tx, &R) -> Result<()>) -> Self {
        match self.0 {
            Rule::Exported(form) => Export(Rule::Exported(Form { insert, ..form })),
            _ => panic!("a record that is not exported has no form"),
        }
    }
}

/// The [`Record::EXPORT`] of a table.
#[derive(Clone, Copy)]
pub enum TableExport {
    /// Its record declares nothing.
    Undeclared,
    /// It is left out, for this reason.
    LeftOut(&'static str),
    Exported(TableRows),
}

/// The rows of a table that are exported.
#[derive(Clone, Copy)]
pub struct TableRows {
    /// Whether they are the installation's: see [`Export::of`].
    pub of_installation: bool,
    /// Passes those of the view's organization, in the order of their keys.
    pub read: fn(&View, &mut Exporting, &mut EachRow<'_>) -> Result<()>,
    /// Inserts one into the transaction's organization.
    ///
    /// # Errors
    /// 400 if it is no such record, or of another organization; 409 if it is there already.
    pub insert: fn(&mut Tx, Value, &Importing) -> Result<()>,
    /// Deletes some of those that the transaction's organization owns; returns whether more may be
    /// left.
    pub erase: fn(&mut Tx) -> Result<bool>,
}

/// What takes each row that is read.
pub type EachRow<'a> = dyn FnMut(Value) -> Result<()> + 'a;

/// Returns the declaration of a record for the catalog.
pub(super) fn of_table<R: Record>() -> TableExport {
    match R::EXPORT.0 {
        Rule::Undeclared => TableExport::Undeclared,
        Rule::LeftOut(reason) => TableExport::LeftOut(reason),
        Rule::Exported(form) => TableExport::Exported(TableRows {
            of_installation: form.org.is_some(),
            read: read::<R>,
            insert: insert::<R>,
            erase: erase::<R>,
        }),
    }
}

fn form<R: Record>() -> Form<R> {
    match R::EXPORT.0 {
        Rule::Exported(form) => form,
        _ => unreachable!("only rows of records that are exported are read or inserted"),
    }
}

fn read<R: Record>(view: &View, out: &mut Exporting, each: &mut EachRow<'_>) -> Result<()> {
    let form = form::<R>();
    view.for_each(ListSource::<R>::TABLE, &(), Order::Ascending, |record| {
        if form.org.is_none_or(|org| org(&record) == view.org()) {
            each((form.to_json)(&(form.normalize)(record), out))?;
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn insert<R: Record>(tx: &mut Tx, value: Value, input: &Importing) -> Result<()> {
    let form = form::<R>();
    let record = (form.from_json)(value, input).map_err(|what| Error::invalid_at(R::TABLE, what))?;
    let record = (form.normalize)(record);
    if form.org.is_some_and(|org| org(&record) != tx.org()) {
        return Err(Error::invalid_at(R::TABLE, "a record belongs to another organization"));
    }
    if tx.get::<R>(&record.key())?.is_some() {
        return Err(Error::invalid_at(R::TABLE, "a record is there already, or twice in the file"));
    }
    (form.insert)(tx, &record)
}

fn erase<R: Record>(tx: &mut Tx) -> Result<bool> {
    if !R::ORG_SCOPED {
        return Ok(false);
    }
    let mut rows: Vec<R> = Vec::new();
    tx.view().for_each(ListSource::TABLE, &(), Order::Ascending, |record| {
        rows.push(record);
        let is_enough = rows.len() == ERASED_ROWS;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    rows.iter().try_for_each(|row| tx.delete(row).map(drop))?;
    Ok(rows.len() == ERASED_ROWS)
}

/// Returns the tables that are exported, each after those that it refers to where that is possible;
/// those of the installation last.
pub fn export_order(tables: &[TableInfo]) -> Vec<(TableInfo, TableRows)> {
    let exported = |table: &TableInfo| match (table.export)() {
        TableExport::Exported(rows) => Some((*table, rows)),
        _ => None,
    };
    let mut left: Vec<_> = tables.iter().filter_map(exported).collect();
    left.sort_by_key(|(_, rows)| rows.of_installation);
    let mut ordered: Vec<(TableInfo, TableRows)> = Vec::new();
    while !left.is_empty() {
        let waits_for = |one: &TableInfo, other: &TableInfo| {
            let targets = (one.references)();
            one.name != other.name
                && targets
                    .iter()
                    .any(|reference| reference.from() == one.name && reference.to() == other.name)
        };
        let ready = |(table, rows): &(TableInfo, TableRows)| {
            !left.iter().any(|(other, others)| {
                waits_for(table, other) && rows.of_installation == others.of_installation
            })
        };
        // Tables that refer to each other stay in the order of the catalog.
        let next = left.iter().position(ready).unwrap_or_default();
        ordered.push(left.remove(next));
    }
    ordered.sort_by_key(|(_, rows)| rows.of_installation);
    ordered
}
