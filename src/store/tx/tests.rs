//! Transactions: what they refuse, and that what they refuse leaves nothing behind.

use bincode::{Decode, Encode};

use super::*;
use crate::store::sample::*;

#[test]
fn a_unique_key_moves_between_records_in_one_transaction() {
    let store = store();
    keep(&store, &[note(1, "x", ""), note(2, "y", "")]);
    store
        .write_blocking(org(1), |tx| {
            tx.replace(&note(1, "x", ""), &note(1, "", ""))?;
            tx.replace(&note(2, "y", ""), &note(2, "x", ""))?;
            assert_eq!(tx.find(&BY_NAME, &"x".into())?, Some(note(2, "x", "")));
            assert_eq!(tx.find(&BY_NAME, &"y".into())?, None);
            tx.insert(&note(3, "y", ""))
        })
        .unwrap();
    let found = store.read_now(org(1), |view| view.find(&BY_NAME, &"x".into())).unwrap();
    assert_eq!(found, Some(note(2, "x", "")));
    assert_consistent(&store);
}

#[test]
fn a_removed_record_can_be_added_again_in_the_same_transaction() {
    let store = store();
    keep(&store, &[note(1, "x", "t")]);
    store
        .write_blocking(org(1), |tx| {
            tx.remove(&note(1, "x", "t"))?;
            assert_eq!(tx.get::<Note>(&1)?, None);
            tx.insert(&note(1, "x", "u"))?;
            tx.insert(&note(2, "z", "u"))?;
            tx.remove(&note(2, "z", "u"))
        })
        .unwrap();
    let all = store.read_now(org(1), |view| view.all::<Note>(ListSource::TABLE, &())).unwrap();
    assert_eq!(all, [note(1, "x", "u")]);
    assert_consistent(&store);
}

#[test]
fn a_refused_record_leaves_nothing_behind_in_a_transaction_that_goes_on() {
    let store = store();
    keep(&store, &[note(1, "x", "t")]);
    store
        .write_blocking(org(1), |tx| {
            let refused = tx.insert(&note(2, "x", "u")).unwrap_err();
            assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "name_taken"));
            let refused = tx.replace(&note(1, "x", "t"), &note(1, "x", &"u".repeat(1100)));
            assert_eq!(refused.unwrap_err().kind(), Kind::Internal);
            tx.insert(&note(2, "y", "v"))
        })
        .unwrap();
    let count = |tag: &str| {
        store.read_now(org(1), |view| view.count(&BY_TAG, &tag.to_string(), 9)).unwrap()
    };
    assert_eq!([count("t"), count("u"), count("v")], [1, 0, 1]);
    assert_consistent(&store);
}

#[test]
fn a_refused_transaction_leaves_nothing_behind() {
    let store = store();
    keep(&store, &[note(1, "x", "")]);
    let refused = store.write_blocking(org(1), |tx| {
        tx.insert(&note(2, "y", ""))?;
        tx.insert(&note(3, "x", ""))
    });
    assert_eq!(refused.unwrap_err().code(), "name_taken");
    assert_eq!(store.read_now(org(1), |view| view.get::<Note>(&2)).unwrap(), None);
    assert_consistent(&store);
}

#[test]
fn a_copy_that_is_not_what_is_stored_replaces_and_removes_nothing() {
    let store = store();
    keep(&store, &[note(1, "x", "t")]);
    store
        .write_blocking(org(1), |tx| {
            tx.replace(&note(1, "x", "t"), &note(1, "x", "u"))?;
            let stale = note(1, "x", "t");
            assert!(tx.replace(&stale, &note(1, "y", "v")).is_err());
            assert!(tx.remove(&stale).is_err());
            assert!(tx.remove(&note(2, "", "")).is_err());
            assert!(tx.replace(&note(1, "x", "u"), &note(2, "x", "u")).is_err());
            Ok(())
        })
        .unwrap();
    assert_eq!(store.read_now(org(1), |view| view.get(&1)).unwrap(), Some(note(1, "x", "u")));
    assert_consistent(&store);
}

#[test]
fn put_adds_or_replaces() {
    let store = store();
    store
        .write_blocking(org(1), |tx| {
            tx.put(&note(1, "x", "t"))?;
            tx.put(&note(1, "y", ""))?;
            tx.insert(&note(2, "x", ""))
        })
        .unwrap();
    store.write_blocking(org(1), |tx| tx.put(&note(2, "z", ""))).unwrap();
    let all = store.read_now(org(1), |view| view.all::<Note>(ListSource::TABLE, &())).unwrap();
    assert_eq!(all, [note(1, "y", ""), note(2, "z", "")]);
    assert_consistent(&store);
}

#[test]
fn a_record_without_a_key_is_in_no_index() {
    let store = store();
    keep(&store, &[note(1, "", ""), note(2, "", ""), note(3, "x", "t")]);
    store
        .read_now(org(1), |view| {
            assert_eq!(
                view.all(&BY_NAME, &())?,
                [note(3, "x", "")].map(|n| Note { tag: Some("t".into()), ..n })
            );
            assert_eq!(view.count(&BY_TAG, &(), 9)?, 1);
            assert_eq!(view.count::<Note>(ListSource::TABLE, &(), 9)?, 3);
            assert_eq!(view.count::<Note>(ListSource::TABLE, &(), 2)?, 2);
            assert_eq!(view.count::<Note>(ListSource::TABLE, &(), 0)?, 0);
            Ok(())
        })
        .unwrap();
}

#[test]
fn invalid_writes_are_refused() {
    let store = store();
    let refused = store.write_blocking(Id::NIL, |tx| tx.insert(&note(1, "", "")));
    assert_eq!(refused.unwrap_err().kind(), Kind::Internal, "an owned record without an owner");
    let refused = store.write_blocking(org(1), |tx| {
        (0..=MAX_WRITES as u32).try_for_each(|id| tx.insert(&note(id, "", "")))
    });
    assert_eq!(refused.unwrap_err().code(), "transaction_too_large");
    let refused = store.write_blocking(org(1), |tx| {
        tx.insert(&note(1, "", ""))?;
        tx.insert(&note(1, "", ""))
    });
    assert_eq!(refused.unwrap_err().kind(), Kind::Internal, "a key that is taken");
}

#[test]
fn a_record_of_one_organization_is_not_seen_by_another() {
    let store = store();
    keep(&store, &[note(1, "x", "t"), note(2, "y", "t")]);
    store.write_blocking(org(2), |tx| tx.insert(&note(1, "x", "t"))).unwrap();
    store
        .read_now(org(2), |view| {
            assert_eq!(view.all::<Note>(ListSource::TABLE, &())?, [note(1, "x", "t")]);
            assert_eq!(view.all(&BY_TAG, &())?, [note(1, "x", "t")]);
            assert_eq!(view.get::<Note>(&2)?, None);
            assert_eq!(view.find(&BY_NAME, &"y".into())?, None);
            Ok(())
        })
        .unwrap();
    for outsider in [org(0), org(3)] {
        store
            .read_now(outsider, |view| {
                assert_eq!(view.all::<Note>(ListSource::TABLE, &())?, []);
                assert_eq!(view.all(&BY_TAG, &())?, []);
                assert_eq!(view.find(&BY_NAME, &"x".into())?, None);
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn transactions_at_the_same_time_are_as_if_one_came_after_the_other() {
    const THREADS: u32 = 8;
    const ROUNDS: u32 = 25;
    let store = store();
    keep(&store, &[note(0, "0", "")]);
    let named = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    // Each counts the shared note up, and tries to be the first of a round.
                    let mut named = 0;
                    for round in 0..ROUNDS {
                        let id = thread * 1000 + round;
                        let first = store.write_blocking(org(1), move |tx| {
                            tx.insert(&note(id, &format!("round-{round}"), ""))
                        });
                        named += u32::from(first.is_ok());
                        store
                            .write_blocking(org(1), |tx| {
                                let old: Note = tx.fetch(&0)?;
                                let count: u32 =
                                    old.name.as_deref().unwrap_or("0").parse().unwrap();
                                tx.replace(&old, &note(0, &(count + 1).to_string(), ""))
                            })
                            .unwrap();
                    }
                    named
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    assert_eq!(named, ROUNDS, "one first in each round");
    let counted = store.read_now(org(1), |view| view.fetch::<Note>(&0)).unwrap();
    assert_eq!(counted.name.unwrap(), (THREADS * ROUNDS).to_string());
    assert_consistent(&store);
}

#[test]
fn a_secret_opens_only_in_the_field_of_the_record_it_was_sealed_for() {
    let store = store();
    let seal = |tx: &mut Tx| tx.seal(&ONE, &1, "sesame");
    let sealed = store.write_blocking(org(1), seal).unwrap();
    let unseal = |org, id, field| {
        store.read_now(org, |view| view.unseal(field, &id, &sealed)).map_err(|e| e.kind())
    };
    assert_eq!(unseal(org(1), 1, &ONE), Ok("sesame".into()));
    assert_eq!(unseal(org(2), 1, &ONE), Err(Kind::Internal));
    assert_eq!(unseal(org(1), 2, &ONE), Err(Kind::Internal));
    assert_eq!(unseal(org(1), 1, &OTHER), Err(Kind::Internal));
    let again = store.write_blocking(org(1), seal).unwrap();
    assert_ne!(sealed, again, "equal secrets must not be recognizable");
}

#[test]
fn an_attempt_that_fails_leaves_what_was_before_it() {
    let store = store();
    keep(&store, &[note(1, "x", "t"), note(2, "y", "t")]);
    store
        .write_blocking(org(1), |tx| {
            tx.insert(&note(3, "z", "u"))?;
            let failed = tx.attempt(|tx| {
                tx.remove(&note(1, "x", "t"))?;
                tx.insert(&note(4, "x", "u"))?;
                tx.remove(&note(2, "y", "another"))
            });
            assert!(failed.is_err());
            assert_eq!(tx.removed_rows().len(), 0);
            tx.attempt(|tx| tx.replace(&note(2, "y", "t"), &note(2, "y", "u")))
        })
        .unwrap();
    let all = store.read_now(org(1), |view| view.all::<Note>(ListSource::TABLE, &())).unwrap();
    assert_eq!(all, [note(1, "x", "t"), note(2, "y", "u"), note(3, "z", "u")]);
    assert_consistent(&store);
}

#[test]
fn an_attempt_that_fails_gives_back_the_organization_and_the_trace() {
    let store = store();
    let trace = crate::base::TraceParent::begin([7; 16], [7; 8]);
    store
        .write_blocking(org(1), move |tx| {
            tx.set_trace(trace);
            let failed: Result<()> = tx.attempt(|tx| {
                tx.set_org(org(2));
                tx.set_trace(None);
                Err(Error::internal("as scripted"))
            });
            assert!(failed.is_err());
            assert_eq!((tx.org(), tx.trace()), (org(1), trace));
            Ok(())
        })
        .unwrap();
}

/// A record of access of which a new one takes no right from anybody.
#[derive(Clone, Encode, Decode)]
struct Badge {
    id: u32,
    floor: u32,
}

impl Record for Badge {
    const TABLE: &'static str = "badges";
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const NEW_REVOKES_NOTHING: bool = true;
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

#[test]
fn a_new_record_that_revokes_nothing_changes_access_and_wakes_nobody() {
    const LOW: Badge = Badge { id: 1, floor: 1 };
    const HIGH: Badge = Badge { id: 1, floor: 9 };
    let store = store();
    let wakes = |change: fn(&mut Tx) -> Result<()>| {
        let changed = store.write_blocking(Id::NIL, move |tx| {
            change(tx)?;
            assert!(tx.writes.changes_access);
            Ok(tx.writes.topics.contains(&ACCESS_CHANGED))
        });
        changed.unwrap()
    };
    assert!(!wakes(|tx| tx.insert(&LOW)));
    assert!(wakes(|tx| tx.replace(&LOW, &HIGH)));
    assert!(wakes(|tx| tx.put(&LOW)));
    assert!(wakes(|tx| tx.remove(&LOW).and_then(|()| tx.insert(&LOW))));
    assert!(wakes(|tx| tx.remove(&LOW)));
    assert!(!wakes(|tx| tx.put(&LOW)));
    assert!(wakes(|tx| tx.insert(&Badge { id: 2, ..LOW }).and_then(|()| tx.remove(&LOW))));
}
