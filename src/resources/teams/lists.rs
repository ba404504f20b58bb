//! Lists merged from several keys of an index.

use std::cmp::{Ordering, Reverse};

use super::team::Team;
use crate::base::{Id, Result};
use crate::store::{Index, Key, Order, Page, PageRequest, Record, View};

/// Returns a page, newest first unless the view walks backwards, of the records under several keys of an
/// index: for example, the tasks of an agent under each status. A second index per combination of filters would cost a write
/// for every record; reading a few ranges costs a list little.
///
/// Each key is scanned within the limits of [`View::page`]. The page ends where the least scanned key
/// ends, so that no record is skipped.
pub fn merged<R, K>(
    view: &View,
    index: &'static Index<R, K>,
    keys: &[K],
    team: Id<Team>,
    page: &PageRequest,
    keep: impl Fn(&R) -> bool,
) -> Result<Page<R>>
where
    R: Record<Key = (Id<Team>, Id<R>)>,
    K: Key + Copy,
{
    let mut items: Vec<R> = Vec::new();
    // The position down to which every key was scanned: some scans stop before the others.
    let mut seen_to: Option<Vec<u8>> = None;
    for key in keys {
        let prefix = (*key, team);
        // The cursor is a record's id, which all keys have in common.
        let after = page.after.as_ref().map(|id| [prefix.to_bytes().as_slice(), id].concat());
        let request = PageRequest { limit: page.limit, after };
        let found = view.page(index, &prefix, Order::Descending, &request, &keep)?;
        let next = found.next.map(|next| next[prefix.to_bytes().len()..].to_vec());
        seen_to = match (seen_to, next) {
            (Some(one), Some(other)) if view.is_backwards() => Some(one.min(other)),
            (one, other) => one.max(other),
        };
        items.extend(found.items);
    }
    let is_seen = |record: &R, to: &Vec<u8>| match record.key().1.to_bytes().cmp(to) {
        Ordering::Equal => true,
        order => (order == Ordering::Less) == view.is_backwards(),
    };
    items.retain(|record| seen_to.as_ref().is_none_or(|to| is_seen(record, to)));
    items.sort_by_key(|record| Reverse(record.key().1));
    if view.is_backwards() {
        items.reverse();
    }
    if items.len() <= page.limit {
        return Ok(Page { items, next: seen_to });
    }
    items.truncate(page.limit);
    let next = items.last().map(|record| record.key().1.to_bytes());
    Ok(Page { items, next })
}

#[cfg(test)]
mod tests {
    use bincode::{Decode, Encode};

    use super::*;
    use crate::resources::testing::Fixture;
    use crate::store::{AnyIndex, TableInfo, Tx, Walk};

    #[derive(Clone, Debug, Encode, Decode)]
    struct MergedItem {
        team: Id<Team>,
        id: Id<MergedItem>,
        kind: u8,
    }

    static BY_KIND: Index<MergedItem, u8> =
        Index::non_unique("things.by_kind", |thing| Some(thing.kind));

    impl Record for MergedItem {
        const TABLE: &'static str = "things";
        const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_KIND];
        type Key = (Id<Team>, Id<MergedItem>);
        fn key(&self) -> Self::Key {
            (self.team, self.id)
        }
    }

    fn page(
        fixture: &Fixture,
        team: Id<Team>,
        kinds: &[u8],
        part: &PageRequest,
    ) -> Page<MergedItem> {
        let keep = |thing: &MergedItem| !thing.id.bytes()[15].is_multiple_of(8);
        fixture
            .store
            .read_now(fixture.org, |view| merged(view, &BY_KIND, kinds, team, part, keep))
            .unwrap()
    }

    #[test]
    fn a_page_ends_where_the_least_scanned_key_ends() {
        let fixture = Fixture::new();
        let team = Id::new(fixture.store.clock().new_id());
        let add = |kinds: Vec<u8>| -> Vec<Id<MergedItem>> {
            let add = move |tx: &mut Tx| {
                let add = |kind| {
                    let thing = MergedItem { team, id: tx.new_id(), kind };
                    tx.insert(&thing).map(|()| thing.id)
                };
                kinds.iter().copied().map(add).collect::<Result<_>>()
            };
            fixture.store.write_blocking(fixture.org, add).unwrap()
        };
        // An item of the kind that is scanned for long is right behind the gap, whatever the direction.
        let mut wanted = add(vec![1, 1, 0]);
        // More than one page scans is between the wanted items of this kind.
        (0..5).for_each(|_| drop(add(vec![0; 4001])));
        wanted.extend(add(vec![0, 1, 1]));
        wanted.reverse();
        for limit in [1, 2, 3, 9] {
            let mut found = Vec::new();
            let mut part = PageRequest { limit, after: None };
            loop {
                let keep = |thing: &MergedItem| wanted.contains(&thing.id);
                let page = |view: &View| merged(view, &BY_KIND, &[0, 1], team, &part, keep);
                let Page { items, next } = fixture.store.read_now(fixture.org, page).unwrap();
                found.extend(items.iter().map(|thing| thing.id));
                match next {
                    Some(next) => part.after = Some(next),
                    None => break,
                }
            }
            assert_eq!(found, wanted, "in pages of {limit}");
            let keep = |thing: &MergedItem| wanted.contains(&thing.id);
            found = backwards(&fixture, team, &[0, 1], limit, keep);
            found.reverse();
            assert_eq!(found, wanted, "in pages of {limit}, backwards");
        }
    }

    #[test]
    fn pages_of_any_size_make_the_full_list_newest_first() {
        let fixture = Fixture::new();
        let mut all: Vec<MergedItem> = Vec::new();
        let team = fixture.store.clock().new_id();
        let team = Id::new(team);
        for n in 0..40 {
            // Runs of one kind and changes between kinds, interleaved with another team's items.
            let kind = (n * n / 7 % 3) as u8;
            let team = if n % 9 == 0 { Id::NIL } else { team };
            let made = fixture.store.write_blocking(fixture.org, move |tx| {
                let thing = MergedItem { team, id: tx.new_id(), kind };
                tx.insert(&thing)?;
                Ok(thing)
            });
            all.push(made.unwrap());
        }
        let findings = fixture.store.check(&[TableInfo::of::<MergedItem>()]).unwrap();
        assert_eq!(findings.messages, Vec::<String>::new());
        for kinds in [vec![], vec![1], vec![0, 2], vec![2, 1, 0]] {
            let named = |thing: &&MergedItem| {
                thing.team == team
                    && kinds.contains(&thing.kind)
                    && !thing.id.bytes()[15].is_multiple_of(8)
            };
            let expected: Vec<_> = all.iter().rev().filter(named).map(|thing| thing.id).collect();
            for limit in 1..=all.len() {
                let mut part = PageRequest { limit, after: None };
                let mut found = Vec::new();
                loop {
                    let Page { items, next } = page(&fixture, team, &kinds, &part);
                    assert!(items.len() == limit || next.is_none());
                    found.extend(items.iter().map(|thing| thing.id));
                    if next.is_none() {
                        break;
                    }
                    assert!(!items.is_empty() && found.len() < expected.len());
                    part.after = next;
                }
                assert_eq!(found, expected, "{kinds:?} in pages of {limit}");
                let keep = |thing: &MergedItem| !thing.id.bytes()[15].is_multiple_of(8);
                found = backwards(&fixture, team, &kinds, limit, keep);
                found.reverse();
                assert_eq!(found, expected, "{kinds:?} in pages of {limit}, backwards");
            }
        }
    }

    /// The whole list in pages of this size, oldest first.
    fn backwards(
        fixture: &Fixture,
        team: Id<Team>,
        kinds: &[u8],
        limit: usize,
        keep: impl Fn(&MergedItem) -> bool + Copy,
    ) -> Vec<Id<MergedItem>> {
        let (mut found, mut part) = (Vec::new(), PageRequest { limit, after: None });
        loop {
            let page = |view: &View| {
                let turned = view.walking(Walk { is_backwards: true, count: None });
                merged(&turned, &BY_KIND, kinds, team, &part, keep)
            };
            let Page { items, next } = fixture.store.read_now(fixture.org, page).unwrap();
            found.extend(items.iter().map(|thing| thing.id));
            match next {
                Some(next) => part.after = Some(next),
                None => return found,
            }
        }
    }
}
