//! Rotations of the key: ended after any step and resumed, while transactions write.

use std::sync::LazyLock;

use bincode::{Decode, Encode};

use super::*;
use crate::base::{Keys, Kind, Time};
use crate::store::Record;
use crate::store::sample::{self, ONE, OTHER, Vault, assert_consistent, org, store};
use crate::store::{Clock, ListSource, SealedField, Tx, View};

const VAULTS: &[TableInfo] = &[TableInfo::of::<Vault>()];

static NEW: LazyLock<MasterKey> = LazyLock::new(|| MasterKey::new([8; 32]));

fn vault(tx: &Tx, id: u32) -> Result<Vault> {
    let one =
        (!id.is_multiple_of(3)).then(|| tx.seal(&ONE, &id, &format!("one {id}"))).transpose()?;
    let other = Some(tx.seal(&OTHER, &id, &format!("other {id}"))?);
    Ok(Vault { id, one, other, forgotten: None })
}

/// Stores vaults of two organizations.
fn fill(store: &Store, vaults: u32) {
    for number in [1, 2] {
        let write = move |tx: &mut Tx| {
            (0..vaults).try_for_each(|id| {
                let vault = vault(tx, id)?;
                tx.insert(&vault)
            })
        };
        store.write_blocking(org(number), write).unwrap();
    }
}

fn assert_all_open(store: &Store) {
    for number in [1, 2] {
        let read = |view: &View| {
            for vault in view.all::<Vault>(ListSource::TABLE, &())? {
                let id = vault.id;
                if let Some(one) = &vault.one {
                    assert_eq!(view.unseal(&ONE, &id, one)?, format!("one {id}"));
                }
                let other = vault.other.expect("every vault has one");
                assert_eq!(view.unseal(&OTHER, &id, &other)?, format!("other {id}"));
            }
            Ok(())
        };
        store.read_now(org(number), read).unwrap();
    }
    assert_consistent(store);
}

/// Whether anything is sealed with this key.
fn is_used(store: &Store, key: KeyId) -> bool {
    [1, 2].into_iter().any(|number| {
        let all = |view: &View| view.all::<Vault>(ListSource::TABLE, &());
        let vaults = store.read_now(org(number), all).unwrap();
        let mut sealed = vaults.iter().flat_map(|vault| vault.one.iter().chain(&vault.other));
        sealed.any(|sealed| sealed.is_under(&key))
    })
}

fn finish(mut rotation: Rotation) -> RotationProgress {
    let mut last = RotationProgress::default();
    while let Some(progress) = rotation.step().unwrap() {
        last = progress;
    }
    rotation.end();
    last
}

#[test]
fn a_rotation_seals_everything_anew_and_the_old_key_opens_nothing() {
    let store = store();
    fill(&store, 250);
    let old = store.keys().current().id();
    let hash = store.keys().hash("purpose", b"content");
    let last = finish(Rotation::begin(&store, sample::TABLES, &NEW).unwrap());
    assert_eq!(last.resealed, 2 * (250 + 166));
    assert_eq!(last.done, last.all);
    assert!(!is_used(&store, old));
    assert_all_open(&store);
    assert_eq!(store.keys().hash("purpose", b"content"), hash);
    assert_eq!(store.keys().previous(), None);
}

#[test]
fn another_rotation_follows_the_first() {
    let store = store();
    fill(&store, 3);
    let hash = store.keys().hash("purpose", b"content");
    for byte in 20..23 {
        let next = MasterKey::new([byte; 32]);
        finish(Rotation::begin(&store, sample::TABLES, &next).unwrap());
        assert_eq!(store.keys().current(), next);
        assert_all_open(&store);
    }
    assert_eq!(store.keys().hash("purpose", b"content"), hash);
}

#[test]
fn a_rotation_ended_after_any_step_is_resumed_and_nothing_is_unreadable_in_between() {
    for steps in 0.. {
        let store = store();
        fill(&store, 120);
        let old = store.keys().current().id();
        let mut rotation = Rotation::begin(&store, sample::TABLES, &NEW).unwrap();
        let ended = (0..steps).any(|_| rotation.step().unwrap().is_none());
        drop(rotation);
        assert_all_open(&store);
        finish(Rotation::begin(&store, sample::TABLES, &NEW).unwrap());
        assert!(!is_used(&store, old), "after {steps} steps");
        assert_all_open(&store);
        if ended {
            assert!(steps > 6, "several steps are needed");
            return;
        }
    }
}

#[test]
fn whatever_is_sealed_since_the_beginning_is_under_the_new_key() {
    let store = store();
    fill(&store, 120);
    let old = store.keys().current().id();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writes = 0u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let id = writes % 200;
                let write = move |tx: &mut Tx| {
                    let vault = vault(tx, id)?;
                    tx.put(&vault)
                };
                store.write_blocking(org(1), write).unwrap();
                writes += 1;
            }
            writes
        });
        finish(Rotation::begin(&store, sample::TABLES, &NEW).unwrap());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0);
    });
    assert!(!is_used(&store, old));
    assert_all_open(&store);
}

#[test]
fn another_key_is_refused_during_a_rotation() {
    let store = store();
    fill(&store, 1);
    let rotation = Rotation::begin(&store, sample::TABLES, &NEW).unwrap();
    let another = MasterKey::new([9; 32]);
    assert!(Rotation::begin(&store, sample::TABLES, &another).is_err());
    finish(rotation);
    assert!(Rotation::begin(&store, sample::TABLES, &NEW).is_err(), "it is the key already");
}

#[test]
fn a_value_in_an_undeclared_field_keeps_the_old_key() {
    let store = store();
    let forget = |tx: &mut Tx| {
        let other = Some(tx.seal(&OTHER, &1, "secret")?);
        tx.insert(&Vault { id: 1, one: None, other: None, forgotten: other })
    };
    store.write_blocking(org(1), forget).unwrap();
    let mut rotation = Rotation::begin(&store, sample::TABLES, &NEW).unwrap();
    let error = loop {
        match rotation.step() {
            Ok(progress) => assert!(progress.is_some(), "the value was not found"),
            Err(error) => break error,
        }
    };
    assert!(error.log_detail().unwrap().contains("vaults"), "{error:?}");
    assert!(store.keys().previous().is_some());
}

/// A record of any bytes that somebody sends, as documents are.
#[derive(Clone, Encode, Decode)]
struct Upload {
    id: u32,
    bytes: Vec<u8>,
}

impl Record for Upload {
    const TABLE: &'static str = "uploads";
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

#[test]
fn the_name_of_the_old_key_in_a_text_does_not_end_a_rotation() {
    let store = store();
    fill(&store, 3);
    let id = store.keys().current().id();
    let upload = move |tx: &mut Tx| {
        let like_a_seal = [8 + 12 + 32, 0, 0, 0, 0, 0, 0, 0].into_iter().chain(id).chain([7; 44]);
        tx.insert(&Upload { id: 1, bytes: id.to_vec() })?;
        tx.insert(&Upload { id: 2, bytes: like_a_seal.collect() })?;
        tx.insert(&Upload { id: 3, bytes: tx.seal(&OTHER, &3, "secret")?.bytes().to_vec() })
    };
    store.write_blocking(org(1), upload).unwrap();
    let tables = [sample::TABLES, &[TableInfo::of::<Upload>()]].concat();
    finish(Rotation::begin(&store, &tables, &NEW).unwrap());
    assert_all_open(&store);
}

static UNDECLARED: SealedField<Vault> =
    SealedField::new("forgotten", "nothing", |vault| vault.forgotten.as_mut());

#[test]
fn nothing_is_sealed_for_an_undeclared_field() {
    let store = store();
    let seal = |tx: &mut Tx| tx.seal(&UNDECLARED, &1, "secret");
    let error = store.write_blocking(org(1), seal).unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
    assert!(error.log_detail().unwrap().contains("vaults.forgotten"));
}

#[test]
fn the_check_reports_what_cannot_be_decrypted() {
    let store = store();
    let swap = |tx: &mut Tx| {
        let wrong = Some(tx.seal(&OTHER, &2, "secret")?);
        tx.insert(&Vault { id: 1, one: None, other: wrong, forgotten: None })
    };
    store.write_blocking(org(1), swap).unwrap();
    let findings = store.check(sample::TABLES).unwrap();
    assert_eq!(findings.wrong, 1);
    assert!(findings.messages[0].ends_with("other cannot be decrypted"), "{findings:?}");
}

#[test]
fn a_restarted_store_knows_the_key_of_hashes() {
    let clock = || Clock::at(Time::from_millis(1_800_000_000_000));
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("db");
    let names = crate::store::table_names(VAULTS);
    let redb = crate::store::engine::Redb::create(&path, names.clone()).unwrap();
    let store = Store::start(redb, clock(), Keys::new([7; 32]), VAULTS).unwrap();
    let hash = store.keys().hash("purpose", b"content");
    finish(Rotation::begin(&store, VAULTS, &NEW).unwrap());
    drop(store);
    let open = || crate::store::engine::Redb::open(&path, names.clone()).ok();
    let redb = (0..1000).find_map(|_| {
        open().or_else(|| {
            std::thread::yield_now();
            None
        })
    });
    let redb = redb.expect("the writer thread releases the file");
    let store = Store::start(redb, clock(), Keys::new(*NEW.bytes()), VAULTS).unwrap();
    assert_eq!(store.keys().hash("purpose", b"content"), hash);
}
