//! A record for the tests of this layer, with an index of each kind.

use bincode::{Decode, Encode};

use super::{AnyIndex, Clock, Index, Org, Record, SealedField, Store, TableInfo};
use crate::base::{Id, Sealed, Time};

/// A record with a unique name and a tag that several may share.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Note {
    pub id: u32,
    pub name: Option<String>,
    pub tag: Option<String>,
}

pub static BY_NAME: Index<Note, String> =
    Index::unique("notes.by_name", "name_taken", "the name is taken", |note| note.name.clone());
pub static BY_TAG: Index<Note, String> = Index::non_unique("notes.by_tag", |note| note.tag.clone());

impl Record for Note {
    const TABLE: &'static str = "notes";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TAG, &BY_NAME];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

/// A record with two secrets.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Vault {
    pub id: u32,
    pub one: Option<Sealed>,
    pub other: Option<Sealed>,
    /// Not declared as sealed, by mistake.
    pub forgotten: Option<Sealed>,
}

pub static ONE: SealedField<Vault> =
    SealedField::new("one", "first secrets", |vault| vault.one.as_mut());
pub static OTHER: SealedField<Vault> =
    SealedField::new("other", "second secrets", |vault| vault.other.as_mut());

impl Record for Vault {
    const TABLE: &'static str = "vaults";
    const SEALED: &'static [&'static SealedField<Self>] = &[&ONE, &OTHER];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

pub const TABLES: &[TableInfo] = &[TableInfo::of::<Note>(), TableInfo::of::<Vault>()];

pub fn note(id: u32, name: &str, tag: &str) -> Note {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
    Note { id, name: text(name), tag: text(tag) }
}

pub fn org(number: u128) -> Id<Org> {
    Id::new(uuid::Uuid::from_u128(number))
}

pub fn store() -> Store {
    Store::in_memory(Clock::at(Time::from_millis(1_800_000_000_000)), &[])
}

/// Stores notes of organization 1.
pub fn keep(store: &Store, notes: &[Note]) {
    let notes = notes.to_vec();
    store
        .write_blocking(org(1), move |tx| notes.iter().try_for_each(|note| tx.insert(note)))
        .unwrap();
}

/// Fails unless the check finds no problem.
pub fn assert_consistent(store: &Store) {
    let findings = store.check(TABLES).unwrap();
    assert_eq!(findings.wrong, 0, "{:?}", findings.messages);
}
