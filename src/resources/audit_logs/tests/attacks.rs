//! Everything that can be done to the rows of a chain by who does not have the key.

use super::*;
use crate::api::audit::Posting;
use crate::store::Org;

/// Changes the rows of a chain of ten entries as somebody does who can write the database but does
/// not have the key, and returns what verifying it finds.
fn attack(change: fn(&mut Tx, Vec<ChainedEntry>) -> Result<()>) -> Vec<String> {
    let fixture = with_entries(10);
    assert_eq!(found(&fixture), Vec::<String>::new());
    let entries = all(&fixture);
    fixture.store.write_blocking(fixture.org, move |tx| change(tx, entries.clone())).unwrap();
    found(&fixture)
}

/// Puts other rows in the place of some.
fn put_in_place(tx: &mut Tx, old: &[ChainedEntry], new: &[ChainedEntry]) -> Result<()> {
    old.iter().try_for_each(|one| tx.remove(one))?;
    new.iter().try_for_each(|one| tx.insert(one))
}

#[test]
fn a_changed_entry_is_found() {
    type Change = fn(&mut ChainedEntry);
    let changes: [Change; 8] = [
        |one| one.entry.actor_name = "Eve".into(),
        |one| one.entry.actor_id = None,
        |one| one.entry.created_at = NOON,
        |one| one.entry.action = "tool.destroy".into(),
        |one| one.entry.resource_id = Some("other".into()),
        |one| one.entry.detail = Some("x".into()),
        |one| one.entry.outcome = AuditOutcome::Refused,
        |one| one.latest = one.latest.plus_secs(1),
    ];
    for change in changes {
        let fixture = with_entries(10);
        let old = all(&fixture)[4].clone();
        let changed = fixture.store.write_blocking(fixture.org, move |tx| {
            let mut new = old.clone();
            change(&mut new);
            tx.replace(&old, &new)
        });
        changed.unwrap();
        let found = found(&fixture);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("entry 5 (") && found[0].ends_with("was changed"),
            "{found:?}"
        );
    }
    // With a hash that somebody made without the key.
    let found = attack(|tx, entries| {
        let mut new = entries[4].clone();
        new.entry.actor_name = "Eve".into();
        new.hash = *blake3::hash(b"made up").as_bytes();
        tx.replace(&entries[4], &new)
    });
    assert!(found[0].starts_with("entry 5 ("), "{found:?}");
}

#[test]
fn an_entry_that_filters_no_longer_find_is_found() {
    let differs = "filters do not find all of the entries 1 to 127, or find others";
    let found = attack(|tx, _| {
        let hidden = tx.view().all::<Posting>(ListSource::TABLE, &())?.swap_remove(3);
        tx.remove(&hidden)
    });
    assert_eq!(found, [differs]);
    let found = attack(|tx, entries| {
        let mut more = Postings::default();
        more.add(11, &entries[0].entry);
        more.insert(tx)
    });
    assert_eq!(found, [differs]);
    let found = attack(|tx, entries| {
        let mut more = Postings::default();
        more.add(1000, &entries[1].entry);
        more.insert(tx)
    });
    assert_eq!(found, ["filters find entries that are not there, by 4 postings"]);
}

#[test]
fn a_removed_entry_is_found() {
    let found = attack(|tx, entries| tx.remove(&entries[4]));
    assert_eq!(found, ["entry 5 is missing"]);
    let found = attack(|tx, entries| entries[..3].iter().try_for_each(|one| tx.remove(one)));
    assert_eq!(found, ["entries 1 to 3 are missing"]);
}

#[test]
fn a_removed_entry_is_found_if_the_later_ones_are_moved_up() {
    let found = attack(|tx, entries| {
        let moved = |one: &ChainedEntry| ChainedEntry { sequence: one.sequence - 1, ..one.clone() };
        let moved: Vec<_> = entries[5..].iter().map(moved).collect();
        put_in_place(tx, &entries[4..], &moved)
    });
    assert_eq!(found[0], "entry 5 was appended as entry 6: the entries were reordered");
    assert_eq!(found[4], "entry 9 was appended as entry 10: the entries were reordered");
    assert_eq!(found[5..], ["entry 10 is missing", "it was cut off after entry 9"]);
}

#[test]
fn a_cut_off_end_is_found() {
    let found = attack(|tx, entries| entries[8..].iter().try_for_each(|one| tx.remove(one)));
    assert_eq!(found, ["entries 9 to 10 are missing", "it was cut off after entry 8"]);
}

#[test]
fn swapped_entries_are_found() {
    let found = attack(|tx, entries| {
        let (five, six) = (&entries[4], &entries[5]);
        let swapped = [
            ChainedEntry { sequence: 5, ..six.clone() },
            ChainedEntry { sequence: 6, ..five.clone() },
        ];
        put_in_place(tx, &entries[4..6], &swapped)
    });
    assert_eq!(
        found,
        [
            "entry 5 was appended as entry 6: the entries were reordered",
            "entry 6 was appended as entry 5: the entries were reordered",
        ]
    );
}

#[test]
fn entries_in_reverse_order_are_found() {
    let found = attack(|tx, entries| {
        let reversed =
            |one: &ChainedEntry| ChainedEntry { sequence: 11 - one.sequence, ..one.clone() };
        let reversed: Vec<_> = entries.iter().map(reversed).collect();
        put_in_place(tx, &entries, &reversed)
    });
    assert_eq!(found[0], "entry 1 was appended as entry 10: the entries were reordered");
    assert_eq!(found.len(), 11, "each of them, and the end: {found:?}");
}

#[test]
fn an_inserted_entry_is_found() {
    // The later ones are moved down, and the end is at their new number.
    let found = attack(|tx, entries| {
        let mut inserted =
            ChainedEntry { previous: entries[3].hash, sequence: 5, ..entries[4].clone() };
        inserted.entry.id = tx.new_id();
        inserted.entry.actor_name = "Eve".into();
        inserted.hash = *blake3::hash(b"made up").as_bytes();
        let mut moved = vec![inserted];
        moved.extend(entries[4..].iter().map(|one| {
            let sequence = one.sequence + 1;
            ChainedEntry { sequence, ..one.clone() }
        }));
        let head: ChainHead = tx.fetch(&())?;
        tx.replace(&head, &ChainHead { last: moved[6].link(), ..head.clone() })?;
        put_in_place(tx, &entries[4..], &moved)
    });
    assert!(found[0].starts_with("entry 5 (") && found[0].ends_with("was changed"), "{found:?}");
    assert_eq!(found[1], "entry 6 was appended as entry 5: the entries were reordered");
    assert_eq!(found[6], "entry 11 was appended as entry 10: the entries were reordered");
    assert_eq!(found[7..], ["the record of its end was replaced"]);
}

#[test]
fn an_entry_that_is_there_twice_is_found() {
    let found = attack(|tx, entries| {
        let again = ChainedEntry { sequence: 5, ..entries[2].clone() };
        tx.replace(&entries[4], &again)
    });
    assert_eq!(found[0], "entry 5 was appended as entry 3: the entries were reordered");
}

#[test]
fn an_added_entry_is_found() {
    let found = attack(|tx, entries| {
        let mut added =
            ChainedEntry { sequence: 11, previous: entries[9].hash, ..entries[9].clone() };
        added.entry.id = tx.new_id();
        tx.insert(&added)
    });
    assert!(found[0].starts_with("entry 11 ("), "{found:?}");
    assert_eq!(
        found[1],
        "it ends with entry 10, but entries up to 11 follow: the record of its end is an older one"
    );
}

#[test]
fn a_replaced_head_is_found() {
    let shortened = |tx: &mut Tx, entries: Vec<ChainedEntry>| {
        let head: ChainHead = tx.fetch(&())?;
        let new = ChainHead { last: entries[7].link(), ..head.clone() };
        entries[8..].iter().try_for_each(|one| tx.remove(one))?;
        tx.replace(&head, &new)
    };
    assert_eq!(attack(shortened), ["the record of its end was replaced"]);
    let gone = attack(|tx, _| {
        let head: ChainHead = tx.fetch(&())?;
        tx.remove(&head)
    });
    assert_eq!(gone, ["the record of its end is missing"]);
}

/// Creates another organization whose log has an entry.
fn other_with_an_entry(fixture: &Fixture) -> Id<Org> {
    let (org, _) = fixture.other_org("other");
    let written = fixture.store.write_blocking(org, |tx| {
        let entry = entry(tx, 0);
        tx.insert(&entry)
    });
    written.unwrap();
    chain_all(fixture);
    org
}

#[test]
fn an_entry_of_another_organization_is_found() {
    let fixture = with_entries(2);
    let org = other_with_an_entry(&fixture);
    let theirs = fixture.store.read_now(org, |view| view.fetch::<ChainedEntry>(&1)).unwrap();
    let mine = all(&fixture)[0].clone();
    let put = move |tx: &mut Tx| {
        put_in_place(tx, std::slice::from_ref(&mine), std::slice::from_ref(&theirs))
    };
    fixture.store.write_blocking(fixture.org, put).unwrap();
    let found = found(&fixture);
    assert!(found[0].starts_with("entry 1 (") && found[0].ends_with("was changed"), "{found:?}");
}

#[test]
fn a_cut_that_the_server_appended_to_is_still_found() {
    let fixture = with_entries(10);
    let entries = all(&fixture);
    let cut = move |tx: &mut Tx| {
        let head: ChainHead = tx.fetch(&())?;
        entries[6..].iter().try_for_each(|one| tx.remove(one))?;
        tx.replace(&head, &ChainHead { last: entries[5].link(), ..head.clone() })
    };
    fixture.store.write_blocking(fixture.org, cut).unwrap();
    write(&fixture, 10..13);
    assert_eq!(
        found(&fixture),
        ["when entry 7 was appended, the end of the log was not as it was left: entries before \
             it were cut off or replaced"]
    );
    let newest = listed(&fixture, &AuditFilter::default(), 50);
    assert_eq!(newest, [9, 8, 7, 6, 5, 4, 3, 2, 1], "the log goes on");
    let filter = AuditFilter { to: Some(NOON.plus_secs(3)), ..AuditFilter::default() };
    assert_eq!(listed(&fixture, &filter, 50), [3, 2, 1]);
}

#[test]
fn the_end_of_another_organization_in_place_of_its_own_is_found() {
    let fixture = with_entries(4);
    let org = other_with_an_entry(&fixture);
    let whole = |view: &View| {
        Ok((view.all::<ChainedEntry>(ListSource::TABLE, &())?, view.fetch::<ChainHead>(&())?))
    };
    let (entries, head) = fixture.store.read_now(org, whole).unwrap();
    // All of the other log, sealed by the server, as if it were this one.
    let mine = all(&fixture);
    let put = move |tx: &mut Tx| {
        put_in_place(tx, &mine, &entries)?;
        let old: ChainHead = tx.fetch(&())?;
        tx.replace(&old, &head)
    };
    fixture.store.write_blocking(fixture.org, put).unwrap();
    let found = found(&fixture);
    assert!(found[0].starts_with("entry 1 (") && found[0].ends_with("was changed"), "{found:?}");
    assert_eq!(found[1..], ["the record of its end was replaced"]);
}
