//! Views: parts of lists, and what a transaction sees of its own changes.

use super::*;
use crate::store::page::PageRequest;
use crate::store::paging::*;
use crate::store::sample::*;
use crate::store::walk::Count;
use std::ops::ControlFlow;

/// Ten notes: even ones are tagged "even", odd ones "odd", and each is named.
fn ten() -> Vec<Note> {
    let tag = |id| if id % 2 == 0 { "even" } else { "odd" };
    (0..10).map(|id| note(id, &format!("name-{id}"), tag(id))).collect()
}

/// Reads a list part by part; every part but the last is full and names the next.
fn read_in_parts(
    view: &View,
    source: fn() -> ListSource<Note>,
    prefix: &str,
    order: Order,
    limit: usize,
    keep: fn(&Note) -> bool,
) -> Vec<u32> {
    let mut ids = Vec::new();
    let mut part = PageRequest { limit, after: None };
    loop {
        let page = match prefix {
            "" => view.page(source(), &(), order, &part, keep),
            prefix => view.page(source(), &prefix.to_string(), order, &part, keep),
        }
        .unwrap();
        ids.extend(page.items.iter().map(|note| note.id));
        match page.next {
            Some(next) => {
                assert_eq!(page.items.len(), limit, "a part that is not the last is full");
                part.after = Some(next);
            }
            None => return ids,
        }
        // What names a next part has one: the part after it is not empty.
        let rest = PageRequest { limit: 1, after: part.after.clone() };
        let rest = match prefix {
            "" => view.page(source(), &(), order, &rest, keep),
            prefix => view.page(source(), &prefix.to_string(), order, &rest, keep),
        };
        assert_eq!(rest.unwrap().items.len(), 1, "something follows");
    }
}

fn parts_are_exact(view: &View, there: &[u32]) -> Result<()> {
    type Case = (fn() -> ListSource<Note>, &'static str, fn(u32) -> (u32, u32), fn(u32) -> bool);
    let by_tag_then_id = |id| (id % 2, id);
    let by_id = |id| (0, id);
    let cases: [Case; 4] = [
        (|| ListSource::TABLE, "", by_id, |_| true),
        (|| (&BY_NAME).into(), "", by_id, |_| true),
        (|| (&BY_TAG).into(), "", by_tag_then_id, |_| true),
        (|| (&BY_TAG).into(), "odd", by_id, |id| id % 2 == 1),
    ];
    let filters: [fn(&Note) -> bool; 3] = [|_| true, |note| note.id > 3, |_| false];
    for (source, prefix, sort, listed) in cases {
        for keep in filters {
            let kept = |id: &u32| listed(*id) && keep(&note(*id, "", ""));
            let mut want: Vec<_> = there.iter().copied().filter(kept).collect();
            want.sort_by_key(|id| sort(*id));
            for limit in 1..=11 {
                let got = read_in_parts(view, source, prefix, Order::Ascending, limit, keep);
                assert_eq!(got, want);
                let mut got = read_in_parts(view, source, prefix, Order::Descending, limit, keep);
                got.reverse();
                assert_eq!(got, want);
            }
        }
    }
    Ok(())
}

#[test]
fn parts_of_a_list_join_to_the_whole_and_name_a_next_exactly_when_something_follows() {
    let store = store();
    store.read_now(org(1), |view| parts_are_exact(view, &[])).unwrap();
    keep(&store, &ten());
    let all: Vec<_> = (0..10).collect();
    store.read_now(org(1), |view| parts_are_exact(view, &all)).unwrap();
}

#[test]
fn a_view_that_walks_backwards_has_pages_from_their_other_end_and_one_that_counts_has_none() {
    let store = store();
    keep(&store, &ten());
    let read = |view: &View| {
        let turned = view.walking(Walk { is_backwards: true, count: None });
        for (order, opposite) in
            [(Order::Ascending, Order::Descending), (Order::Descending, Order::Ascending)]
        {
            let there = || ListSource::TABLE;
            let got = read_in_parts(&turned, there, "", order, 3, |_| true);
            assert_eq!(got, read_in_parts(view, there, "", opposite, 3, |_| true));
        }
        let total = |keep: fn(&Note) -> bool| {
            let count = Count::default();
            let counting = view.walking(Walk { is_backwards: false, count: Some(&count) });
            let part = PageRequest { limit: 3, after: None };
            let page = counting.page(ListSource::TABLE, &(), Order::Ascending, &part, keep)?;
            assert!(page.items.is_empty() && page.next.is_none());
            Ok(count.total(0))
        };
        let exact = |count| crate::store::Total { count, is_exact: true };
        assert_eq!((total(|_| true)?, total(|note| note.id > 3)?), (exact(10), exact(6)));
        Ok(())
    };
    store.read_now(org(1), read).unwrap();
}

#[test]
fn no_more_than_a_thousand_records_are_counted_and_five_thousand_looked_at() {
    let store = store();
    let notes: Vec<_> = (0..5001).map(|id| note(id, "", "tag")).collect();
    let total = |keep: fn(&Note) -> bool| {
        let count = |view: &View| {
            let count = Count::default();
            let counting = view.walking(Walk { is_backwards: false, count: Some(&count) });
            let part = PageRequest { limit: 3, after: None };
            counting.page(ListSource::TABLE, &(), Order::Ascending, &part, keep)?;
            let crate::store::Total { count, is_exact } = count.total(0);
            Ok((count, is_exact))
        };
        store.read_now(org(1), count).unwrap()
    };
    keep(&store, &notes[..1000]);
    assert_eq!(total(|_| true), (1000, true));
    keep(&store, &notes[1000..1001]);
    assert_eq!(total(|_| true), (1000, false));
    keep(&store, &notes[1001..5000]);
    assert_eq!(total(|note| note.id < 3), (3, true));
    keep(&store, &notes[5000..]);
    assert_eq!(total(|note| note.id < 3), (3, false));
}

/// The ids of a list's parts, one by one.
fn in_parts<R: Record<Key = u32>>(
    store: &crate::store::Store,
    source: fn() -> ListSource<R>,
    order: Order,
    limit: usize,
    keep: fn(&R) -> bool,
) -> Vec<Vec<u32>> {
    let mut parts = Vec::new();
    let mut part = PageRequest { limit, after: None };
    loop {
        let page =
            store.read_now(org(1), |view| view.page(source(), &(), order, &part, keep)).unwrap();
        parts.push(page.items.iter().map(Record::key).collect());
        match page.next {
            Some(next) => part.after = Some(next),
            None => return parts,
        }
    }
}

#[test]
fn a_part_ends_at_so_many_records_looked_at_and_the_next_goes_on_after_the_last_of_them() {
    let store = store();
    let notes: Vec<_> = (0..MAX_SCANNED_ROWS as u32 + 5).map(|id| note(id, "", "tag")).collect();
    let (first, more) = notes.split_at(MAX_SCANNED_ROWS);
    first.chunks(5000).for_each(|some| keep(&store, some));
    let none = in_parts(&store, || ListSource::<Note>::TABLE, Order::Ascending, 9, |_| false);
    assert_eq!(none, [[0; 0]], "nothing follows the last record");

    keep(&store, more);
    let wanted = |note: &Note| [0, 3, 4, 5, 19_999, 20_000, 20_004].contains(&note.id);
    for source in [|| ListSource::TABLE, || (&BY_TAG).into()] {
        let parts = |order, limit| in_parts(&store, source, order, limit, wanted);
        let (up, down) = (Order::Ascending, Order::Descending);
        assert_eq!(parts(up, 9), [vec![0, 3, 4, 5, 19_999], vec![20_000, 20_004]]);
        assert_eq!(parts(down, 9), [vec![20_004, 20_000, 19_999, 5], vec![4, 3, 0]]);
        assert_eq!(parts(down, 4), [vec![20_004, 20_000, 19_999, 5], vec![4, 3, 0]]);
        assert_eq!(parts(down, 3), [vec![20_004, 20_000, 19_999], vec![5, 4, 3], vec![0]]);
    }
}

/// A record that may be large.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
struct Large {
    id: u32,
    text: String,
}

static BY_ID: Index<Large, u32> = Index::non_unique("large.by_id", |large| Some(large.id));

impl Record for Large {
    const TABLE: &'static str = "large";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_ID];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

#[test]
fn a_part_ends_before_it_has_too_many_bytes_and_when_too_many_were_looked_at() {
    const BYTES: usize = 2_000_000;
    let store = store();
    let count = (MAX_SCANNED_BYTES / BYTES) as u32 + 2;
    for id in 0..count {
        let large = Large { id, text: "x".repeat(BYTES) };
        store.write_blocking(org(1), move |tx| tx.insert(&large)).unwrap();
    }
    let all: Vec<_> = (0..count).collect();
    let fours: Vec<_> = all.chunks(MAX_PAGE_BYTES / BYTES).map(<[u32]>::to_vec).collect();
    for source in [|| ListSource::TABLE, || (&BY_ID).into()] {
        assert_eq!(in_parts(&store, source, Order::Ascending, 200, |_| true), fours);
        // Those that are left out are read too.
        let last = in_parts(&store, source, Order::Ascending, 200, |large| large.id > 33);
        assert_eq!(last, [vec![], all[34..].to_vec()]);
    }
}

#[test]
fn what_a_page_reads_to_show_its_records_counts_as_well() {
    const BYTES: usize = 1_000_000;
    let store = store();
    keep(&store, &ten());
    let large = Large { id: 0, text: "x".repeat(BYTES) };
    store.write_blocking(org(1), move |tx| tx.insert(&large)).unwrap();
    let expand = |view: &View, note: Note| {
        let reads = if note.id < 5 { 1 } else { 2 };
        (0..reads).try_for_each(|_| view.fetch::<Large>(&0).map(drop))?;
        Ok(note.id)
    };
    let mut part = PageRequest { limit: 200, after: None };
    let mut pages = Vec::new();
    loop {
        let read = |view: &View| {
            let source = ListSource::<Note>::TABLE;
            view.page_map(source, &(), Order::Ascending, &part, |note| note.id != 1, expand)
        };
        let page = store.read_now(org(1), read).unwrap();
        pages.push(page.items);
        let Some(next) = page.next else { break };
        part.after = Some(next);
    }
    assert_eq!(pages, [vec![0, 2, 3, 4], vec![5, 6], vec![7, 8], vec![9]]);
}

#[test]
fn a_transaction_lists_its_own_changes_among_what_was_there() {
    let store = store();
    keep(&store, &ten()[..6]);
    store
        .write_blocking(org(1), |tx| {
            for id in [0, 3, 5] {
                tx.remove(&ten()[id])?;
            }
            ten()[6..].iter().try_for_each(|note| tx.insert(note))?;
            tx.remove(&ten()[8])?;
            tx.insert(&ten()[3])?;
            parts_are_exact(&tx.view(), &[1, 2, 3, 4, 6, 7, 9])
        })
        .unwrap();
}

#[test]
fn a_position_that_no_record_of_the_list_can_have_is_400() {
    let store = store();
    keep(&store, &ten());
    let bad = |source: ListSource<Note>, prefix: Option<&str>, after: &[u8]| {
        let part = PageRequest { limit: 5, after: Some(after.to_vec()) };
        let page = store.read_now(org(1), |view| match prefix {
            None => view.page(source, &(), Order::Ascending, &part, |_| true),
            Some(prefix) => {
                view.page(source, &prefix.to_string(), Order::Descending, &part, |_| true)
            }
        });
        let error = page.unwrap_err();
        assert_eq!(error.kind(), crate::base::Kind::Invalid, "{after:?}");
        assert_eq!(error.issues()[0].path, "cursor");
    };
    let entry = |tag: &str, id: u32| (tag.to_string(), id).to_bytes();
    for after in [&b""[..], b"abc", b"12345", &[0; 1000]] {
        bad(ListSource::TABLE, None, after);
        bad((&BY_NAME).into(), None, after);
        bad((&BY_TAG).into(), None, after);
    }
    bad((&BY_TAG).into(), Some("odd"), &entry("even", 1));
    bad((&BY_TAG).into(), Some("odd"), &"odd".to_string().to_bytes());
    bad((&BY_TAG).into(), Some("odd"), &[entry("odd", 1), vec![0]].concat());
    bad((&BY_TAG).into(), None, b"o\0\x01dd\0\0\0\0\0\x01");
    bad((&BY_NAME).into(), None, &entry("name-1", 1));
}

#[test]
fn a_list_goes_on_where_the_record_it_stopped_at_was_removed() {
    let store = store();
    keep(&store, &ten());
    let page = |after| {
        let part = PageRequest { limit: 3, after };
        let page = |view: &View| view.page(&BY_TAG, &(), Order::Descending, &part, |_| true);
        store.read_now(org(1), page).unwrap()
    };
    let first = page(None);
    assert_eq!(first.items.iter().map(|note| note.id).collect::<Vec<_>>(), [9, 7, 5]);
    store.write_blocking(org(1), |tx| tx.remove(&ten()[5])).unwrap();
    let second = page(first.next);
    assert_eq!(second.items.iter().map(|note| note.id).collect::<Vec<_>>(), [3, 1, 8]);
}

#[test]
fn for_each_stops_on_break_and_first_follows_the_order() {
    let store = store();
    keep(&store, &ten());
    store
        .read_now(org(1), |view| {
            let mut seen = Vec::new();
            view.for_each(&BY_TAG, &"odd".to_string(), Order::Descending, |note: Note| {
                seen.push(note.id);
                Ok(if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            assert_eq!(seen, [9, 7]);
            let first = |order| view.first::<Note>(&BY_TAG, &"even".to_string(), order);
            assert_eq!(first(Order::Ascending)?, Some(ten()[0].clone()));
            assert_eq!(first(Order::Descending)?, Some(ten()[8].clone()));
            assert_eq!(view.first(&BY_TAG, &"none".to_string(), Order::Ascending)?, None);
            assert_eq!(view.fetch::<Note>(&77).unwrap_err().kind(), crate::base::Kind::NotFound);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_wrong_index_entry_is_an_error_and_serves_no_other_record() {
    use crate::store::engine::{LocalStorage as _, Memory, WriteOp};
    let mut disk = Memory::default();
    let keys = Keys::new([7; 32]);
    let clock = crate::store::Clock::at(Time::from_millis(0));
    let base = disk.snapshot().unwrap();
    let references = crate::store::References::default();
    let damage = crate::store::Damage::default();
    let mut tx = crate::store::Tx::new(&*base, &clock, &keys, &references, &damage);
    tx.set_org(org(1));
    ten().iter().try_for_each(|note| tx.insert(note)).unwrap();
    let mut writes = tx.into_writes();
    let owned = |key: Vec<u8>| [org(1).bytes().as_slice(), &key].concat();
    // The name of the first now points to the second, and the second is listed as even too.
    let name = owned("name-0".to_string().to_bytes());
    writes.add("notes.by_name", name, WriteOp::Put(1u32.to_bytes()));
    let tag = owned(("even".to_string(), 1u32).to_bytes());
    writes.add("notes.by_tag", tag, WriteOp::Put(Vec::new()));
    disk.commit(&writes);

    let base = disk.snapshot().unwrap();
    let (reader, now) = (&*base, clock.now());
    let (keys, references, damage) = (&keys, &references, &damage);
    let (org, walk) = (org(1), Walk::default());
    let view = View { reader, writes: None, org, now, keys, references, damage, walk };
    for name in ["name-0", "name-1"] {
        let found = view.find(&BY_NAME, &name.to_string());
        match name {
            "name-1" => assert_eq!(found.unwrap(), Some(ten()[1].clone())),
            _ => assert_eq!(found.unwrap_err().kind(), crate::base::Kind::Internal),
        }
    }
    assert!(view.all(&BY_NAME, &()).is_err());
    assert!(view.all(&BY_TAG, &"even".to_string()).is_err());
    assert_eq!(view.all(&BY_TAG, &"odd".to_string()).unwrap().len(), 5);
}

#[test]
fn entries_of_an_index_are_scanned_between_two_keys() {
    let store = store();
    keep(&store, &ten());
    let walk = |view: &View, from: &str, to: &str, order, most: usize| {
        let mut seen = Vec::new();
        let each = |tag: String, id| {
            seen.push((tag, id));
            Ok(if seen.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        view.entries(&BY_TAG, &from.to_string(), &to.to_string(), order, each).unwrap();
        seen.into_iter().map(|(tag, id)| (tag.len(), id)).collect::<Vec<_>>()
    };
    store
        .write_blocking(org(1), move |tx| {
            tx.remove(&ten()[0])?;
            let view = tx.view();
            let even: Vec<_> = [2, 4, 6, 8].map(|id| (4, id)).into();
            assert_eq!(walk(&view, "even", "odd", Order::Ascending, 99), even);
            assert_eq!(walk(&view, "even", "p", Order::Descending, 2), [(3, 9), (3, 7)]);
            assert_eq!(walk(&view, "odd", "even", Order::Ascending, 99), []);
            let mut names = Vec::new();
            view.entries(
                &BY_NAME,
                &"name-7".to_string(),
                &(),
                Order::Ascending,
                |name: String, id| {
                    names.push((name, id));
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            assert_eq!(names, [], "the end is before the start");
            view.entries(
                &BY_NAME,
                &(),
                &"name-3".to_string(),
                Order::Ascending,
                |name: String, id| {
                    names.push((name, id));
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            assert_eq!(names, [1, 2].map(|id| (format!("name-{id}"), id)));
            Ok(())
        })
        .unwrap();
}
