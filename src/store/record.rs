//! Records and their indexes.

use bincode::{Decode, Encode};

use super::key::Key;
use super::reference::AnyReference;
use super::tx::Tx;
use crate::base::{Error, Id, Result};

/// The organization that owns a record; what `auth::Organization` is to the store.
pub enum Org {}

/// Something kept in a table of its own.
///
/// Equal records encode to equal bytes (so no `HashMap` in them): the store compares them so.
pub trait Record: Encode + Decode<()> + Clone + Send + Sync + 'static {
    /// Its table, in plain words.
    const TABLE: &'static str;
    /// The version of its layout; older ones are read by [`Record::upgrade`].
    const VERSION: u8 = 1;
    /// Whether an organization owns it. Its key then begins with that organization's id, and only
    /// a view of that organization can reach it.
    const OWNED: bool = true;
    /// Whether it decides who may do what. A commit that changes such a record ends every
    /// conclusion drawn from them before (see [`Reader::access_version`](super::engine::Reader::access_version)).
    const AFFECTS_ACCESS: bool = false;
    /// Its indexes, kept by the transaction.
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[];
    /// What it refers to. Kept by the transaction: see [`Reference`](super::Reference).
    const REFERENCES: &'static [&'static dyn AnyReference] = &[];
    /// References to it by records of modules below, which cannot name its type.
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[];
    /// The fields with ids that are no reference, dotted where they are nested, each with the
    /// reason. `tests/references.rs` finds an id that is declared neither here nor there.
    const UNBOUND: &'static [(&'static str, &'static str)] = &[];
    /// What identifies it, in its organization if it is owned.
    type Key: Key;

    /// Its key.
    fn key(&self) -> Self::Key;

    /// Does what removing it takes beside its references: removes rows that are derived from it,
    /// signals a topic. Called when it is gone from its table, and before what refers to it is
    /// removed.
    fn removed(&self, _tx: &mut Tx) -> Result<()> {
        Ok(())
    }

    /// Reads the body of an older version, with [`decode_body`](super::codec::decode_body) into a struct that has the
    /// fields of that version. `tests/golden/records/` has a sample of each version.
    fn upgrade(version: u8, _body: &[u8]) -> Result<Self> {
        Err(no_upgrade::<Self>(version))
    }
}

/// The error of [`Record::upgrade`] for a version that never existed.
pub fn no_upgrade<R: Record>(version: u8) -> Error {
    Error::internal(format!("{} has no upgrade from version {version}", R::TABLE))
}

/// An index: finds records by something other than their key.
///
/// A record whose `of` gives `None` is left out. Keys have at most [`super::key::MAX_KEY_BYTES`],
/// together with the record's own: of a text that may be longer, index a hash.
pub struct Index<R, K> {
    name: &'static str,
    version: u32,
    conflict: Option<(&'static str, &'static str)>,
    of: fn(&R) -> Option<K>,
}

impl<R: Record, K: Key> Index<R, K> {
    /// An index in which many records may share a key; they stand in the order of their own keys.
    pub const fn many(name: &'static str, of: fn(&R) -> Option<K>) -> Self {
        Index { name, version: 1, conflict: None, of }
    }

    /// An index in which a key belongs to one record. A second is refused with 409, `code` and
    /// `message`.
    pub const fn unique(
        name: &'static str,
        code: &'static str,
        message: &'static str,
        of: fn(&R) -> Option<K>,
    ) -> Self {
        Index { name, version: 1, conflict: Some((code, message)), of }
    }

    /// Sets the version of `of`, which is 1 by default. Raise it whenever `of` returns another key for
    /// a record that may be stored already, in an older layout too: the index is then rebuilt before
    /// the server starts.
    pub const fn version(self, version: u32) -> Self {
        Index { version, ..self }
    }

    /// Whether its record lists it; nothing would be found in it otherwise.
    pub(super) fn is_registered(&self) -> bool {
        R::INDEXES.iter().any(|index| index.name() == self.name)
    }
}

/// An index whose key type does not matter to the caller.
pub trait AnyIndex<R>: Sync {
    /// Its table.
    fn name(&self) -> &'static str;
    /// What defines it.
    fn info(&self) -> IndexInfo;
    /// Code and message of the 409 when a key is taken; `None` if many may share it.
    fn conflict(&self) -> Option<(&'static str, &'static str)>;
    /// The record's key in this index (without owner and record key), if it stands there.
    fn key_of(&self, record: &R) -> Option<Vec<u8>>;
    /// How many of these bytes are the index's own key; what follows is the record's.
    fn key_len(&self, bytes: &[u8]) -> Option<usize>;
}

impl<R: Record, K: Key> AnyIndex<R> for Index<R, K> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn info(&self) -> IndexInfo {
        let is_unique = self.conflict.is_some();
        IndexInfo { name: self.name, version: self.version, is_unique }
    }
    fn conflict(&self) -> Option<(&'static str, &'static str)> {
        self.conflict
    }
    fn key_of(&self, record: &R) -> Option<Vec<u8>> {
        (self.of)(record).map(|key| key.to_bytes())
    }
    fn key_len(&self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        K::read(&mut rest)?;
        Some(bytes.len() - rest.len())
    }
}

/// The bytes before every key of a record: its owner, if it has one.
pub(super) fn org_prefix<R: Record>(org: Id<Org>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    if R::OWNED {
        bytes.extend_from_slice(org.bytes());
    }
    bytes
}

/// The entry of the record under `record_key` in an index where its own key is `own`; the first
/// `org_prefix_len` bytes of both name the owner. Many share a key by the record's own standing behind
/// it; a unique one has the record's key as its value.
pub(super) fn entry<R>(
    index: &dyn AnyIndex<R>,
    own: &[u8],
    record_key: &[u8],
    org_prefix_len: usize,
) -> (Vec<u8>, Vec<u8>) {
    let (owner, record_key) = record_key.split_at(org_prefix_len);
    match index.conflict() {
        Some(_) => ([owner, own].concat(), record_key.to_vec()),
        None => ([owner, own, record_key].concat(), Vec::new()),
    }
}

/// The definition of an index, except for its key function. An index whose entries were made by
/// another definition is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexInfo {
    /// Its table.
    pub name: &'static str,
    /// The version of its key function.
    pub version: u32,
    /// Whether a key belongs to one record.
    pub is_unique: bool,
}
