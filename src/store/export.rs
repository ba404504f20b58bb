//! The export of an organization's records, and their import into another installation.
//!
//! A record declares whether it is exported ([`Record::EXPORT`]), and its form with
//! [`portable!`](crate::base::portable). The rest is the same for all: rows are read in the order of
//! their keys, and inserted as operations insert them, so that indexes are made anew.

use std::ops::ControlFlow;

use serde_json::Value;

use super::engine::Order;
use super::list_source::ListSource;
use super::record::{Export, ExportForm, Record};
use super::tx::Tx;
use super::view::View;
use crate::base::{Error, Exporting, Importing, Result};

/// Rows that one transaction of [`TableRows::erase`] deletes.
const ERASED_ROWS: usize = 500;

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
    /// Checks that one could be inserted.
    ///
    /// # Errors
    /// As `insert`.
    pub probe: fn(&View, Value, &Importing) -> Result<()>,
    /// Deletes some of those that the transaction's organization owns; returns whether more may be
    /// left.
    pub erase: fn(&mut Tx) -> Result<bool>,
}

/// What takes each row that is read.
pub type EachRow<'a> = dyn FnMut(Value) -> Result<()> + 'a;

/// Returns the declaration of a record for the catalog.
pub(super) fn of_table<R: Record>() -> TableExport {
    match R::EXPORT {
        Export::Undeclared => TableExport::Undeclared,
        Export::LeftOut(reason) => TableExport::LeftOut(reason),
        Export::Exported(form) => TableExport::Exported(TableRows {
            of_installation: form.org.is_some(),
            read: read::<R>,
            insert: insert::<R>,
            probe: |view, value, input| arriving::<R>(view, value, input).map(drop),
            erase: erase::<R>,
        }),
    }
}

fn form<R: Record>() -> ExportForm<R> {
    match R::EXPORT {
        Export::Exported(form) => form,
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

/// Reads a record that arrives.
fn arriving<R: Record>(view: &View, value: Value, input: &Importing) -> Result<R> {
    let form = form::<R>();
    let record =
        (form.from_json)(value, input).map_err(|what| Error::invalid_at(R::TABLE, what))?;
    let record = (form.normalize)(record);
    if form.org.is_some_and(|org| org(&record) != view.org()) {
        return Err(Error::invalid_at(R::TABLE, "a record belongs to another organization"));
    }
    if view.get::<R>(&record.key())?.is_some() {
        return Err(Error::invalid_at(R::TABLE, "a record is there already, or twice in the file"));
    }
    Ok(record)
}

fn insert<R: Record>(tx: &mut Tx, value: Value, input: &Importing) -> Result<()> {
    let record = arriving::<R>(&tx.view(), value, input)?;
    (form::<R>().insert)(tx, &record)
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
    rows.iter().try_for_each(|row| tx.delete_any(row).map(drop))?;
    Ok(rows.len() == ERASED_ROWS)
}
