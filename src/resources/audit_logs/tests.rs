//! Filters, the chain and everything that can be done to it.

mod attacks;

use super::*;
use crate::api::audit::{
    self, Checkpoint, Comparison, Link, Postings, append_pending, checkpoint, compare, verify,
};
use crate::base::Kind;
use crate::outbox::{RetentionSettings, SweepProgress};
use crate::resources::testing::{Fixture, NOON, args};
use crate::store::check::Findings;
use crate::store::{ListSource, Tx};

const ACTIONS: [&str; 3] = ["tool.create", "tool.delete", "team.create"];

fn actor(n: usize) -> Id<()> {
    Id::new(uuid::Uuid::from_u128(n as u128 + 1))
}

/// The `n`-th entry; every filter has several values among the first few.
fn entry(tx: &Tx, n: usize) -> AuditEntry {
    let action = ACTIONS[n % 3];
    AuditEntry {
        id: tx.new_id(),
        org: tx.org(),
        created_at: tx.now(),
        actor_type: if n.is_multiple_of(2) { ActorType::User } else { ActorType::Key },
        actor_id: (!n.is_multiple_of(5)).then(|| actor(n % 4)),
        actor_name: "Ada".into(),
        via: None,
        person: None,
        action: action.into(),
        resource_type: action.split('.').next().unwrap().into(),
        resource_id: (!n.is_multiple_of(7)).then(|| format!("r{}", n % 5)),
        detail: None,
        request_id: format!("request {n}"),
        outcome: AuditOutcome::Success,
    }
}

fn chain_all(fixture: &Fixture) {
    let end = Id::new(uuid::Uuid::max());
    let step =
        |from| fixture.store.write_blocking(Id::NIL, move |tx| append_pending(tx, from, end));
    let mut from = Id::NIL;
    while let Some(last) = step(from).unwrap() {
        from = last;
    }
}

/// Writes entries, a second apart, and appends them to the chain.
fn write(fixture: &Fixture, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let written = fixture.store.write_blocking(fixture.org, move |tx| {
            let entry = entry(tx, n);
            tx.insert(&entry)
        });
        written.unwrap();
        fixture.pass_secs(1);
    }
    chain_all(fixture);
}

fn with_entries(number: usize) -> Fixture {
    let fixture = Fixture::new();
    write(&fixture, 0..number);
    fixture
}

fn all(fixture: &Fixture) -> Vec<ChainedEntry> {
    fixture.store.read_now(fixture.org, |view| view.all(ListSource::TABLE, &())).unwrap()
}

/// What verifying the chain finds, without the name of the log.
fn found(fixture: &Fixture) -> Vec<String> {
    let mut findings = Findings::default();
    fixture.store.read_now(fixture.org, |view| verify(view, &mut findings)).unwrap();
    let name = "the audit log of acme: ";
    findings.messages.iter().map(|found| found.strip_prefix(name).unwrap().into()).collect()
}

fn end_of(fixture: &Fixture) -> Checkpoint {
    fixture.store.read_now(fixture.org, checkpoint).unwrap()
}

fn compared(fixture: &Fixture, with: Checkpoint) -> Comparison {
    fixture.store.read_now(fixture.org, |view| compare(view, &with)).unwrap()
}

// ── Appending ────────────────────────────────────────────────────────────────

#[test]
fn entries_are_chained_in_order_without_a_gap_however_many_steps_it_takes() {
    let fixture = Fixture::new();
    for n in 0..250 {
        let written = fixture.store.write_blocking(fixture.org, move |tx| {
            let entry = entry(tx, n);
            tx.insert(&entry)
        });
        written.unwrap();
    }
    chain_all(&fixture);
    let chained = all(&fixture);
    assert_eq!(chained.len(), 250);
    let mut before = Link::START;
    for (n, one) in chained.iter().enumerate() {
        assert_eq!((one.sequence, one.previous), (before.sequence + 1, before.hash));
        assert_eq!(one.entry.request_id, format!("request {n}"));
        before = one.link();
    }
    assert_eq!(end_of(&fixture).link, before);
    fixture.assert_sound();
}

#[test]
fn an_entry_that_is_committed_late_is_appended_and_found_by_its_time() {
    let fixture = Fixture::new();
    let late = fixture.store.write_blocking(fixture.org, |tx| Ok(entry(tx, 0))).unwrap();
    fixture.pass_secs(100);
    write(&fixture, 1..20);
    let (id, at) = (late.id, late.created_at);
    fixture.store.write_blocking(fixture.org, move |tx| tx.insert(&late)).unwrap();
    chain_all(&fixture);
    write(&fixture, 20..30);
    let last_but_ten = all(&fixture)[19].clone();
    assert_eq!(last_but_ten.entry.id, id);
    let filter =
        AuditFilter { from: Some(at), to: Some(at.plus_secs(1)), ..AuditFilter::default() };
    assert_eq!(listed(&fixture, &filter, 50), [last_but_ten.sequence]);
    fixture.assert_sound();
}

#[test]
fn each_organization_has_its_own_chain() {
    let fixture = with_entries(3);
    let (org, owner) = fixture.other_org("other");
    let written = fixture.store.write_blocking(org, |tx| {
        let entry = entry(tx, 0);
        tx.insert(&entry)
    });
    written.unwrap();
    chain_all(&fixture);
    assert_eq!(end_of(&fixture).link.sequence, 3);
    let theirs = fixture.read_as(&owner, list, (), AuditFilter::default()).unwrap();
    assert_eq!(theirs.items.len(), 1);
    assert_eq!((theirs.items[0].sequence, &*theirs.items[0].org_slug), (1, "other"));
    assert_eq!(theirs.items[0].previous_hash, "0".repeat(64));
    let mine = all(&fixture)[0].entry.id;
    let refused = fixture.read_as(&owner, get, mine, ()).unwrap_err();
    assert_eq!(refused.kind(), Kind::NotFound);
}

// ── Reading ──────────────────────────────────────────────────────────────────

/// The sequence numbers of a filtered list, read in pages.
fn listed(fixture: &Fixture, filter: &AuditFilter, limit: usize) -> Vec<u64> {
    let mut sequences = Vec::new();
    let mut args = args((), filter.clone());
    args.page.limit = limit;
    loop {
        let page = fixture
            .store
            .read_now(fixture.org, |view| list(view, &Req::new(&args, &fixture.owner)))
            .unwrap();
        assert!(page.items.len() <= limit);
        sequences.extend(page.items.iter().map(|entry| entry.sequence));
        match page.next {
            Some(next) => {
                assert_eq!(page.items.len(), limit, "a page that is not the last is full");
                args.page.after = Some(next);
            }
            None => return sequences,
        }
    }
}

#[test]
fn every_combination_of_filters_equals_a_full_scan() {
    // Of several blocks of postings.
    let fixture = with_entries(300);
    let entries = all(&fixture);
    let (from, to) = (Some(NOON.plus_secs(100)), Some(NOON.plus_secs(270)));
    let mut matched = 0;
    for actor in [None, Some(actor(1)), Some(actor(9))] {
        for action in [None, Some("tool.create"), Some("tool.nothing")] {
            for kind in [None, Some("tool"), Some("team")] {
                for resource in [None, Some("r1"), Some("r9")] {
                    for (from, to) in [(None, None), (from, None), (None, to), (from, to)] {
                        let filter = AuditFilter {
                            actor,
                            action: action.map(String::from),
                            resource_type: kind.map(String::from),
                            resource_id: resource.map(String::from),
                            from,
                            to,
                        };
                        let wanted = |one: &&ChainedEntry| {
                            let entry = &one.entry;
                            actor.is_none_or(|actor| entry.actor_id == Some(actor))
                                && action.is_none_or(|action| entry.action == action)
                                && kind.is_none_or(|kind| entry.resource_type == kind)
                                && resource.is_none_or(|r| entry.resource_id.as_deref() == Some(r))
                                && from.is_none_or(|from| from <= entry.created_at)
                                && to.is_none_or(|to| entry.created_at < to)
                        };
                        let scanned = entries.iter().rev().filter(wanted).map(|one| one.sequence);
                        let scanned: Vec<_> = scanned.collect();
                        matched += scanned.len();
                        for limit in [1, 7, 200] {
                            assert_eq!(listed(&fixture, &filter, limit), scanned, "{filter:?}");
                        }
                    }
                }
            }
        }
    }
    assert!(matched > 500, "{matched}");
}

#[test]
fn the_newest_entry_of_a_range_is_found_wherever_its_blocks_begin() {
    let fixture = with_entries(300);
    let entries = all(&fixture);
    let places = [0, 1, 2, 3, 126, 127, 128, 129, 130, 255, 256, 257, 299, 300, 301, 1000];
    for action in ACTIONS {
        for (from, end) in places.iter().flat_map(|from| places.map(|end| (*from, end))) {
            let scanned = entries
                .iter()
                .rev()
                .find(|one| (from..end).contains(&one.sequence) && one.entry.action == action);
            let mut postings = PostingList::of(Term::action(action));
            let newest = |view: &View| postings.newest(view, from, end);
            let found = fixture.store.read_now(fixture.org, newest).unwrap();
            assert_eq!(found, scanned.map(|one| one.sequence), "{action} {from} {end}");
        }
    }
}

#[test]
fn each_entry_is_read_by_its_id() {
    let fixture = with_entries(5);
    let late = fixture.store.write_blocking(fixture.org, |tx| Ok(entry(tx, 0))).unwrap();
    fixture.pass_secs(100);
    write(&fixture, 5..10);
    fixture.store.write_blocking(fixture.org, move |tx| tx.insert(&late)).unwrap();
    write(&fixture, 10..20);
    for one in all(&fixture) {
        let shown = fixture.read_as(&fixture.owner, get, one.entry.id, ()).unwrap();
        assert_eq!((shown.sequence, shown.id), (one.sequence, one.entry.id));
    }
    let third = all(&fixture)[2].clone();
    let shown = fixture.read_as(&fixture.owner, get, third.entry.id, ()).unwrap();
    assert_eq!((shown.sequence, shown.id), (3, third.entry.id));
    assert_eq!(shown.hash, codec::hex(&third.hash));
    let unknown = fixture.read_as(&fixture.owner, get, Id::NIL, ()).unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound);
}

#[test]
fn an_export_has_every_entry_oldest_first() {
    let fixture = with_entries(25);
    let mut sequences = Vec::new();
    loop {
        let after = sequences.last().copied().unwrap_or_default();
        let read = |view: &View| entries_after(view, after, 10);
        let some = fixture.store.read_now(fixture.org, read).unwrap();
        if some.is_empty() {
            break;
        }
        sequences.extend(some.iter().map(AuditLogEntry::sequence));
    }
    assert_eq!(sequences, (1..=25).collect::<Vec<_>>());
}

/// Removes entries with their postings, as somebody does who leaves no trace in the database.
fn remove(tx: &mut Tx, entries: &[ChainedEntry]) -> Result<()> {
    let mut postings = Postings::default();
    for one in entries {
        tx.remove(one)?;
        postings.add(one.sequence, &one.entry);
    }
    postings.remove(tx)
}

// ── Checkpoints ──────────────────────────────────────────────────────────────

#[test]
fn a_log_continues_every_checkpoint_of_it() {
    let fixture = with_entries(0);
    let mut taken = vec![end_of(&fixture)];
    for n in 0..5 {
        write(&fixture, n..n + 1);
        taken.push(end_of(&fixture));
    }
    for one in &taken {
        assert_eq!(compared(&fixture, *one), Comparison::Continues);
        assert_eq!(Checkpoint::parse(&one.to_string()), Some(*one));
    }
    let text = taken[5].to_string();
    for broken in [&text[..text.len() - 1], &text[1..], &format!("{text}0"), "roadstead-audit:1:"] {
        assert_eq!(Checkpoint::parse(broken), None, "{broken}");
    }
}

#[test]
fn an_end_that_is_cut_off_with_its_record_is_found_by_a_checkpoint_only() {
    let fixture = with_entries(6);
    let earlier: ChainHead = fixture.store.read_now(fixture.org, |view| view.fetch(&())).unwrap();
    write(&fixture, 6..10);
    let newest = end_of(&fixture);
    let entries = all(&fixture);
    let cut = move |tx: &mut Tx| {
        let head: ChainHead = tx.fetch(&())?;
        remove(tx, &entries[6..])?;
        tx.replace(&head, &earlier)
    };
    fixture.store.write_blocking(fixture.org, cut).unwrap();
    assert_eq!(found(&fixture), Vec::<String>::new());
    assert_eq!(compared(&fixture, newest), Comparison::EndsBefore(6));
    // Nor is a log that is gone altogether.
    let entries = all(&fixture);
    let remove_all = move |tx: &mut Tx| {
        let head: ChainHead = tx.fetch(&())?;
        remove(tx, &entries)?;
        tx.remove(&head)
    };
    fixture.store.write_blocking(fixture.org, remove_all).unwrap();
    assert_eq!(found(&fixture), Vec::<String>::new());
    assert_eq!(compared(&fixture, newest), Comparison::EndsBefore(0));
}

#[test]
fn an_older_state_that_was_restored_is_found_by_a_checkpoint_only() {
    let fixture = with_entries(8);
    let (old, old_head) = (all(&fixture), end_of(&fixture));
    let head: ChainHead = fixture.store.read_now(fixture.org, |view| view.fetch(&())).unwrap();
    write(&fixture, 8..10);
    let newest = end_of(&fixture);
    let restore = move |tx: &mut Tx| {
        let now: ChainHead = tx.fetch(&())?;
        let entries = tx.all::<ChainedEntry>(ListSource::TABLE, &())?;
        remove(tx, &entries[old.len()..])?;
        tx.replace(&now, &head)
    };
    fixture.store.write_blocking(fixture.org, restore).unwrap();
    assert_eq!(found(&fixture), Vec::<String>::new(), "the chain is whole");
    assert_eq!(compared(&fixture, newest), Comparison::EndsBefore(8));
    assert_eq!(compared(&fixture, old_head), Comparison::Continues);
    write(&fixture, 10..13);
    assert_eq!(found(&fixture), Vec::<String>::new());
    assert_eq!(compared(&fixture, newest), Comparison::Differs);
    assert_eq!(compared(&fixture, old_head), Comparison::Continues);
}

// ── Retention ────────────────────────────────────────────────────────────────

fn sweep(fixture: &Fixture, retention_secs: i64) -> usize {
    let settings =
        RetentionSettings { log_retention_secs: retention_secs, ..RetentionSettings::default() };
    let mut steps = 0;
    loop {
        let settings = settings.clone();
        let run = move |tx: &mut Tx| (audit::DELETE_EXPIRED.run)(tx, &settings);
        let progress = fixture.store.write_blocking(fixture.org, run).unwrap();
        steps += 1;
        fixture.assert_sound();
        if progress == SweepProgress::Clean {
            return steps;
        }
    }
}

#[test]
fn old_entries_are_removed_in_steps_and_the_rest_still_verifies() {
    let fixture = with_entries(260);
    let (early, removed_last) = (all(&fixture)[99].link(), all(&fixture)[250].link());
    let of = |link| Checkpoint { org: fixture.org, link };
    assert_eq!(sweep(&fixture, 300), 1);
    assert_eq!(all(&fixture).len(), 260, "none is old enough");
    assert_eq!(sweep(&fixture, 10), 3);
    assert_eq!(all(&fixture).iter().map(|one| one.sequence).collect::<Vec<_>>(), {
        (252..=260).collect::<Vec<_>>()
    });
    assert_eq!(compared(&fixture, of(early)), Comparison::Removed(251));
    assert_eq!(compared(&fixture, of(removed_last)), Comparison::Continues);
    assert_eq!(listed(&fixture, &AuditFilter::default(), 3).len(), 9);
    assert_eq!(found(&fixture), Vec::<String>::new());
    fixture.pass_secs(1000);
    sweep(&fixture, 10);
    assert_eq!(all(&fixture).len(), 1, "the last entry is kept");
    write(&fixture, 260..262);
    assert_eq!(end_of(&fixture).link.sequence, 262);
    fixture.assert_sound();
}

#[test]
fn a_missing_or_older_record_of_retention_is_found() {
    let fixture = with_entries(20);
    sweep(&fixture, 15);
    let older: ChainStart = fixture.store.read_now(fixture.org, |view| view.fetch(&())).unwrap();
    sweep(&fixture, 10);
    let newer: ChainStart = fixture.store.read_now(fixture.org, |view| view.fetch(&())).unwrap();
    let (first, last) = (older.before.sequence + 1, newer.before.sequence);
    assert!(first < last);
    let now = newer.clone();
    fixture.store.write_blocking(fixture.org, move |tx| tx.replace(&now, &older)).unwrap();
    assert_eq!(found(&fixture), [format!("entries {first} to {last} are missing")]);
    let remove = |tx: &mut Tx| tx.fetch::<ChainStart>(&()).and_then(|start| tx.remove(&start));
    fixture.store.write_blocking(fixture.org, remove).unwrap();
    assert_eq!(found(&fixture), [format!("entries 1 to {last} are missing")]);
}

#[test]
fn a_cut_front_that_is_passed_off_as_retention_is_found() {
    let fixture = with_entries(20);
    sweep(&fixture, 15);
    let first = all(&fixture)[0].sequence;
    let cut = move |tx: &mut Tx| {
        let start: ChainStart = tx.fetch(&())?;
        let next: ChainedEntry = tx.fetch(&first)?;
        tx.remove(&next)?;
        tx.replace(&start, &ChainStart { before: next.link(), ..start.clone() })
    };
    fixture.store.write_blocking(fixture.org, cut).unwrap();
    assert_eq!(
        found(&fixture),
        [format!(
            "the record of what retention removed was changed; entries up to {first} may have been \
             cut off"
        )]
    );
}
