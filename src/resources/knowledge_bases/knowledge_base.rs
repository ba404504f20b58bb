//! The records of a knowledge base: itself, and the state of its index.

use bincode::{Decode, Encode};

use super::language::Language;
use crate::auth::User;
use crate::base::{Description, Error, Id, Name, Result, Time};
use crate::outbox::Job;
use crate::store::{
    AnyReference, Export, Key, Record, Reference, Tx, View, codec, no_upgrade, upgrade_shorter,
};

crate::base::portable! {
/// A collection of documents to search in.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct KnowledgeBase {
    pub id: Id<KnowledgeBase>,
    pub name: Name,
    pub description: Option<Description>,
    pub created_at: Time,
    /// When its name, description or language last changed.
    pub updated_at: Time,
    /// The language of its documents, in which other forms of a word are found.
    pub language: Option<Language>,
    /// Who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
}

impl Record for KnowledgeBase {
    const TABLE: &'static str = "knowledge_bases";
    const EXPORT: Export<Self> = Export::WHOLE;
    const VERSION: u8 = 2;
    type Key = Id<KnowledgeBase>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// The number of a document's content in its knowledge base: each content gets the next one, so that
/// newer contents have larger ones. The index names documents by it.
pub type Ordinal = u32;

crate::base::portable! {
/// What changes with every document of a knowledge base.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct IndexState {
    pub knowledge_base: Id<KnowledgeBase>,
    /// The number of documents.
    pub documents: u64,
    /// The number of words of all of them.
    pub words: u64,
    /// The number of the next content.
    pub next_ordinal: Ordinal,
    /// The number of the next change of the index.
    pub next_change: u64,
    /// The job that merges changes, if there is one; unknown in what an earlier version wrote.
    pub job: Option<Id<Job>>,
}
}

/// The state as stored in version 1, without the id of its job. Its fields never change.
#[derive(Encode, Decode)]
struct IndexStateV1 {
    knowledge_base: Id<KnowledgeBase>,
    documents: u64,
    words: u64,
    next_ordinal: Ordinal,
    next_change: u64,
    has_job: bool,
}

impl From<IndexStateV1> for IndexState {
    fn from(old: IndexStateV1) -> Self {
        let IndexStateV1 { knowledge_base, documents, words, next_ordinal, next_change, .. } = old;
        // With its next change it gets another one; which finds nothing to do if there is one already.
        IndexState { knowledge_base, documents, words, next_ordinal, next_change, job: None }
    }
}

crate::base::portable! {
/// How far the changes of an index are merged into it. Apart from the [`IndexState`], so that neither
/// those who write documents nor the merge have to run again because of the other.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct IndexMerge {
    pub knowledge_base: Id<KnowledgeBase>,
    /// The number of the first change that is not merged.
    pub first: u64,
    /// The number of the first change after those that are being merged: `first` if none are.
    pub until: u64,
    /// Up to which word they are applied, in the order of the words' bytes.
    pub after: String,
    /// Whether they are applied for all words.
    pub is_applied: bool,
}
}

/// The form in which documents are indexed: 1 up to version 0.1, words alone, in lower case letter by
/// letter; 2 with folded words, words without accents, pairs, and words over hyphenated lines; 3 with
/// the stems that words have without accents, and with those of no former language; 4 with words in which
/// signs are read (`CO₂` is `co2`), and over lines that end in other ways or are in capitals.
pub const FORM: u32 = 4;

crate::base::portable! {
/// How far the documents of a knowledge base are indexed in the newest [`FORM`] and its language. One
/// that was made by version 0.1 has none until the server finds it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct IndexForm {
    pub knowledge_base: Id<KnowledgeBase>,
    pub form: u32,
    /// Contents with smaller ordinals have the form, if they can be read.
    pub next: Ordinal,
    /// Contents with this ordinal and larger ones were written in it.
    pub until: Ordinal,
    /// Up to which term `next` has those of the form, in the order of bytes; empty if it is not begun.
    pub after: String,
    /// The job that brings contents into the form.
    pub job: Option<Id<Job>>,
    /// The language of the stems that those contents have.
    pub language: Option<Language>,
}
}

static STATE_OF: Reference<IndexState, KnowledgeBase> = Reference::derived(
    &["knowledge_base"],
    |base: &KnowledgeBase| vec![base.id],
    |state: &IndexState, _| vec![state.knowledge_base.to_bytes()],
);

static MERGE_OF: Reference<IndexMerge, KnowledgeBase> = Reference::derived(
    &["knowledge_base"],
    |base: &KnowledgeBase| vec![base.id],
    |merge: &IndexMerge, _| vec![merge.knowledge_base.to_bytes()],
);

static FORM_OF: Reference<IndexForm, KnowledgeBase> = Reference::derived(
    &["knowledge_base"],
    |base: &KnowledgeBase| vec![base.id],
    |form: &IndexForm, _| vec![form.knowledge_base.to_bytes()],
);

impl Record for IndexForm {
    const TABLE: &'static str = "knowledge_base_forms";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&FORM_OF];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("job", "ends by itself; one that is gone is enqueued again")];
    const VERSION: u8 = 2;
    type Key = Id<KnowledgeBase>;
    fn key(&self) -> Self::Key {
        self.knowledge_base
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

impl Record for IndexState {
    const TABLE: &'static str = "knowledge_base_indexes";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&STATE_OF];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("job", "ends by itself; one that is gone is enqueued again")];
    const VERSION: u8 = 2;
    type Key = Id<KnowledgeBase>;
    fn key(&self) -> Self::Key {
        self.knowledge_base
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<IndexStateV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

impl Record for IndexMerge {
    const TABLE: &'static str = "knowledge_base_merges";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&MERGE_OF];
    type Key = Id<KnowledgeBase>;
    fn key(&self) -> Self::Key {
        self.knowledge_base
    }
}

/// Creates a knowledge base with an empty index.
pub fn insert(tx: &mut Tx, base: &KnowledgeBase) -> Result<()> {
    let knowledge_base = base.id;
    tx.insert(base)?;
    tx.insert(&IndexState {
        knowledge_base,
        documents: 0,
        words: 0,
        next_ordinal: 1,
        next_change: 1,
        job: None,
    })?;
    tx.insert(&IndexForm {
        knowledge_base,
        form: FORM,
        next: 0,
        until: 0,
        after: String::new(),
        job: None,
        language: base.language,
    })?;
    let (first, until) = (1, 1);
    tx.insert(&IndexMerge { knowledge_base, first, until, after: String::new(), is_applied: false })
}

/// Returns the state of the index of an existing knowledge base.
pub fn state(view: &View, id: Id<KnowledgeBase>) -> Result<IndexState> {
    view.get(&id)?.ok_or_else(|| Error::internal(format!("the knowledge base {id} has no index")))
}

/// Returns how far the index of an existing knowledge base is merged.
pub fn merge(view: &View, id: Id<KnowledgeBase>) -> Result<IndexMerge> {
    view.get(&id)?.ok_or_else(|| Error::internal(format!("the knowledge base {id} has no merge")))
}

/// Changes the state of the index of an existing knowledge base.
pub fn change_state<T>(
    tx: &mut Tx,
    id: Id<KnowledgeBase>,
    change: impl FnOnce(&mut IndexState) -> T,
) -> Result<T> {
    let old = state(&tx.view(), id)?;
    let mut new = old.clone();
    let changed = change(&mut new);
    if new != old {
        tx.replace(&old, &new)?;
    }
    Ok(changed)
}
