//! stub
use crate::base::Result;
use crate::store::{Key, Order, Part, Record, Source, Tx};

/// Removes the first records whose keys begin with `prefix`; says how many.
pub fn remove_first<R: Record>(tx: &mut Tx, prefix: &impl Key, at_most: usize) -> Result<usize> {
    let part = Part { limit: at_most, after: None };
    let first = tx.page(Source::<R>::TABLE, prefix, Order::Ascending, &part, |_| true)?.items;
    for record in &first {
        tx.remove(record)?;
    }
    Ok(first.len())
}
