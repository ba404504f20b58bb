//! Lists that are read from several places at once.

use std::cmp::Reverse;

use super::team::Team;
use crate::base::{Id, Result};
use crate::store::{Index, Key, Order, Page, Part, Record, View};

/// One part of a list, newest first, whose records stand under several keys of an index: those of
/// one agent's tasks under each status, say. An index entry for each of the two ways to list them
/// would have to be written for every record; reading from a few places costs a list little.
pub fn merged<R, K>(
    view: &View,
    index: &'static Index<R, K>,
    keys: &[K],
    team: Id<Team>,
    part: &Part,
    keep: impl Fn(&R) -> bool,
) -> Result<Page<R>>
where
    R: Record<Key = (Id<Team>, Id<R>)>,
    K: Key + Copy,
{
    let mut items = Vec::new();
    let mut more = false;
    for key in keys {
        let prefix = (*key, team);
        // The position is an id: what the places have in common.
        let after = part.after.as_ref().map(|id| [prefix.to_bytes().as_slice(), id].concat());
        let part = Part { limit: part.limit, after };
        let page = view.page(index, &prefix, Order::Descending, &part, &keep)?;
        more |= page.next.is_some();
        items.extend(page.items);
    }
    items.sort_by_key(|record| Reverse(record.key().1));
    more |= items.len() > part.limit;
    items.truncate(part.limit);
    let next = items.last().filter(|_| more).map(|record| record.key().1.to_bytes());
    Ok(Page { items, next })
}
