//! What a rotation of the key and the check do with the sealed fields of one table.

use std::ops::ControlFlow;

use super::catalog::TableInfo;
use super::check::Findings;
use super::codec::hex;
use super::engine::{KeyRange, Order, Reader};
use super::sealed_field::{SealedInfo, sealed_context};
use super::sealing_key::sealing_key;
use super::tx::Tx;
use super::view::View;
use crate::base::{Error, Id, Keys, Result};

/// A step of resealing reads at most 100 records or 4 MiB, so that it takes milliseconds and writes
/// in between do not wait.
const RESEALED_ROWS: usize = 100;
const RESEALED_BYTES: usize = 4 * 1024 * 1024;

/// A step of resealing one table.
pub struct ResealStep {
    /// The key of the last row read; `None` at the end of the table.
    pub(super) last: Option<Vec<u8>>,
    pub(super) resealed: u64,
}

/// Seals the next rows of a table with the present key.
pub(super) fn reseal(table: &TableInfo, tx: &mut Tx, after: &[u8]) -> Result<ResealStep> {
    let Some(target) = sealing_key(&tx.view())? else {
        return Err(Error::internal("a rotation that was not begun"));
    };
    let mut rows = Vec::new();
    let last = scan(&tx.view(), table.name, after, RESEALED_ROWS, RESEALED_BYTES, |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    let mut resealed = 0;
    let fields = (table.sealed)();
    for (key, value) in rows {
        let old = (table.table.decode)(&key, &value)?;
        let mut new = old.boxed();
        let mut changed = 0;
        for (place, field) in fields.iter().enumerate() {
            let Some(sealed) = new.sealed(place).filter(|sealed| !sealed.is_under(&target)) else {
                continue;
            };
            let context = sealed_context(table.name, &key, field.field);
            let secret = tx.keys().unseal(&context, sealed)?;
            *sealed = tx.keys().seal(Some(target), &context, tx.random(), &secret)?;
            changed += 1;
        }
        if changed > 0 {
            tx.set_org(table.table.owner(&key));
            tx.replace_any(&*old, &*new)?;
            resealed += changed;
        }
    }
    tx.set_org(Id::NIL);
    Ok(ResealStep { last, resealed })
}

/// Passes the rows after `after` to `see`; returns the key of the last, or `None` if none follow.
pub(super) fn scan(
    view: &View,
    table: &'static str,
    after: &[u8],
    max_rows: usize,
    max_bytes: usize,
    mut see: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let (mut rows, mut bytes) = (0, 0);
    let mut last: Option<Vec<u8>> = None;
    let mut is_full = false;
    let from = KeyRange { from: after, to: None };
    view.scan(table, from, Order::Ascending, &mut |key, value| {
        if key == after {
            return Ok(ControlFlow::Continue(()));
        }
        if rows == max_rows || bytes >= max_bytes {
            is_full = true;
            return Ok(ControlFlow::Break(()));
        }
        see(key, value)?;
        rows += 1;
        bytes += value.len();
        last = Some(key.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(last.filter(|_| is_full))
}

/// Reports every sealed value of a table that cannot be decrypted.
pub(super) fn check_sealed(
    table: &TableInfo,
    reader: &dyn Reader,
    keys: &Keys,
    findings: &mut Findings,
) -> Result<()> {
    let fields = (table.sealed)();
    if fields.is_empty() {
        return Ok(());
    }
    let all = KeyRange { from: &[], to: None };
    reader.scan(table.name, all, Order::Ascending, &mut |key, value| {
        // One that cannot be decoded is reported by the check of the table.
        let Ok(mut record) = (table.table.decode)(key, value) else {
            return Ok(ControlFlow::Continue(()));
        };
        for (place, SealedInfo { field, .. }) in fields.iter().enumerate() {
            if let Some(sealed) = record.sealed(place)
                && keys.unseal(&sealed_context(table.name, key, field), sealed).is_err()
            {
                let (table, key) = (table.name, hex(key));
                findings.report(format!("{table} {key}: {field} cannot be decrypted"));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}
