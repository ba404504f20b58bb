//! Changes not yet committed, on top of what is.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Each, Op, Order, Reader, Span, Step, Writes};
use crate::base::Result;

/// `writes` as if they had been applied to `base`.
pub struct Layer<'a> {
    /// What lies below.
    pub base: &'a dyn Reader,
    /// What lies on top.
    pub writes: &'a Writes,
}

impl Reader for Layer<'_> {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        match self.writes.tables.get(table).and_then(|changes| changes.get(key)) {
            Some(op) => op.value().map_or(Ok(false), |value| see(value).map(|()| true)),
            None => self.base.get(table, key, see),
        }
    }

    fn scan(
        &self,
        table: &'static str,
        span: Span<'_>,
        order: Order,
        each: &mut Each<'_>,
    ) -> Result<()> {
        match self.writes.tables.get(table) {
            Some(changes) => merged(self.base, changes, table, span, order, each),
            None => self.base.scan(table, span, order, each),
        }
    }

    fn is_free(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        match self.writes.tables.get(table).and_then(|changes| changes.get(key)) {
            Some(op) => Ok(op.value().is_none()),
            None => self.base.is_free(table, key),
        }
    }

    fn access_stamp(&self) -> Option<u64> {
        if self.writes.decide_access { None } else { self.base.access_stamp() }
    }
}

/// Both in one order; where both have a key, the change counts.
fn merged(
    base: &dyn Reader,
    changes: &BTreeMap<Vec<u8>, Op>,
    table: &'static str,
    span: Span<'_>,
    order: Order,
    each: &mut Each<'_>,
) -> Result<()> {
    if span.to.is_some_and(|to| to <= span.from) {
        return Ok(());
    }
    let to = span.to.map_or(Bound::Unbounded, Bound::Excluded);
    let range = changes.range::<[u8], _>((Bound::Included(span.from), to));
    let mut changes: Box<dyn Iterator<Item = (&Vec<u8>, &Op)>> = match order {
        Order::Ascending => Box::new(range),
        Order::Descending => Box::new(range.rev()),
    };
    let mut next = changes.next();
    let mut end = Step::More;
    let before = |a: &[u8], b: &[u8]| match order {
        Order::Ascending => a < b,
        Order::Descending => a > b,
    };

    base.scan(table, span, order, &mut |key, value| {
        while let Some((changed, op)) = next
            && before(changed, key)
        {
            end = show(changed, op, each)?;
            if end == Step::Enough {
                return Ok(Step::Enough);
            }
            next = changes.next();
        }
        end = match next {
            Some((changed, op)) if changed == key => {
                next = changes.next();
                show(key, op, each)?
            }
            _ => each(key, value)?,
        };
        Ok(end)
    })?;
    while end == Step::More
        && let Some((changed, op)) = next
    {
        end = show(changed, op, each)?;
        next = changes.next();
    }
    Ok(())
}

fn show(key: &[u8], op: &Op, each: &mut Each<'_>) -> Result<Step> {
    op.value().map_or(Ok(Step::More), |value| each(key, value))
}
