//! Records and their indexes.

use std::any::Any;

use bincode::{Decode, Encode};
use serde_json::Value;

use super::codec;
use super::key::Key;
use super::reference::AnyReference;
use super::sealed_field::SealedField;
use super::signals::Topic;
use super::tx::Tx;
use crate::base::{Error, Exporting, Id, Importing, Portable, Result, Sealed};

/// The organization that owns a record: the store's name for `auth::Organization`, used in [`Id`]s.
pub enum Org {}

/// The topic that is notified of every commit in an organization.
pub fn org_topic(org: Id<Org>) -> Topic {
    org.uuid()
}

/// A value stored in a table of its own.
///
/// Equal records must encode to equal bytes (so no `HashMap` in them): the store compares the bytes.
pub trait Record: Encode + Decode<()> + Clone + Send + Sync + 'static {
    /// The name of its table. Never changes once released.
    const TABLE: &'static str;
    /// What messages call it; if empty, the singular of the name of its table.
    const NOUN: &'static str = "";
    /// The version of its layout; older ones are read by [`Record::upgrade`].
    const VERSION: u8 = 1;
    /// Whether an organization owns it. Its stored key then begins with that organization's id, and
    /// only a view of that organization can read it.
    const ORG_SCOPED: bool = true;
    /// Whether it affects access. A commit that changes such a record invalidates every conclusion
    /// about access drawn before (see [`Reader::access_version`](super::engine::Reader::access_version)).
    const AFFECTS_ACCESS: bool = false;
    /// Whether a new one takes no right from anybody, if it affects access: then nobody who waits is woken to
    /// ask again. Conclusions about access are drawn anew all the same.
    const NEW_REVOKES_NOTHING: bool = false;
    /// Its indexes, maintained by the transaction.
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[];
    /// Its references, enforced by the transaction: see [`Reference`](super::Reference).
    const REFERENCES: &'static [&'static dyn AnyReference] = &[];
    /// References to it by records of lower modules, which cannot name its type.
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[];
    /// The fields with ids that are no reference, dotted where they are nested, each with the
    /// reason. `tests/references.rs` finds ids that are declared neither here nor as a reference.
    const UNBOUND: &'static [(&'static str, &'static str)] = &[];
    /// Its fields with secrets. Nothing can be sealed for a field that is not declared here.
    const SEALED: &'static [&'static SealedField<Self>] = &[];
    /// Whether it is exported with its organization. `app/moving` has a test that each record of the
    /// product says so.
    const EXPORT: Export<Self> = Export::Undeclared;
    /// The type of its key, unique in its organization if it is owned.
    type Key: Key;

    /// Returns its key.
    fn key(&self) -> Self::Key;

    /// Runs after the record was removed and before its references are enforced, for effects that no
    /// reference declares: a topic to signal, another record to update.
    ///
    /// # Errors
    /// Any error ends the transaction.
    fn removed(&self, _tx: &mut Tx) -> Result<()> {
        Ok(())
    }

    /// Returns the 404 of a record. `key` is its key, or what requests name it by.
    fn missing(key: &impl Key) -> Error {
        let error = if Self::NOUN.is_empty() {
            Error::no_such(&singular(Self::TABLE))
        } else {
            Error::no_such(Self::NOUN)
        };
        error.missing(key.to_bytes())
    }

    /// Converts the body of an older version, read with [`decode_body`](super::codec::decode_body) into a
    /// struct with the fields of that version. `tests/golden/records/` has a sample of each version.
    ///
    /// # Errors
    /// 500 if the bytes are not such a body, or there is no such version.
    fn upgrade(version: u8, _body: &[u8]) -> Result<Self> {
        Err(no_upgrade::<Self>(version))
    }
}

/// `policy_assignments` as `policy assignment`.
fn singular(table: &str) -> String {
    let words = table.replace('_', " ");
    match (words.strip_suffix("ies"), words.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) => stem.into(),
        (None, None) => words,
    }
}

/// [`Record::upgrade`] of a record whose versions up to `last` lack fields at the end.
///
/// # Errors
/// 500 if the version never existed, or the bytes are not its body.
pub fn upgrade_shorter<R: Record>(version: u8, last: u8, body: &[u8]) -> Result<R> {
    if (1..=last).contains(&version) {
        codec::decode_shorter(body)
    } else {
        Err(no_upgrade::<R>(version))
    }
}

/// Returns the error of [`Record::upgrade`] for a version that never existed.
pub fn no_upgrade<R: Record>(version: u8) -> Error {
    Error::internal(format!("{} has no upgrade from version {version}", R::TABLE))
}

/// Returns the bytes to store for `record` under `key`.
///
/// # Errors
/// 413 if they exceed [`MAX_RECORD_BYTES`](codec::MAX_RECORD_BYTES).
pub fn encode<R: Record>(record: &R, key: &[u8]) -> Result<Vec<u8>> {
    codec::encode(R::TABLE, R::VERSION, key, record)
}

/// Reads a stored record of any version.
///
/// # Errors
/// 500, whose log detail names table and key, if the bytes are not what was written.
pub fn decode<R: Record>(key: &[u8], bytes: &[u8]) -> Result<R> {
    let (version, body) = codec::open(R::TABLE, R::VERSION, key, bytes)?;
    if version < R::VERSION {
        return R::upgrade(version, body);
    }
    codec::decode(R::TABLE, key, body)
}

/// An index: finds records by something other than their key.
///
/// Records without a key in it are left out. An entry's key, that of the record included, has at most
/// [`super::key::MAX_KEY_BYTES`]: of a text that may be longer, index a hash.
pub struct Index<R, K> {
    name: &'static str,
    version: u32,
    conflict: Option<(&'static str, &'static str)>,
    of: KeysFn<R, K>,
}

/// The function that returns the keys of a record in an index.
enum KeysFn<R, K> {
    One(fn(&R) -> Option<K>),
    Several(fn(&R) -> Vec<K>),
}

impl<R: Record, K: Key> Index<R, K> {
    /// Defines an index in which several records may share a key, in the order of their own keys.
    pub const fn non_unique(name: &'static str, of: fn(&R) -> Option<K>) -> Self {
        Index { name, version: 1, conflict: None, of: KeysFn::One(of) }
    }

    /// Defines an index in which a record has any number of keys, which others may share: some dozens
    /// at most, since those that a change adds or takes away are written with it.
    pub const fn of_several(name: &'static str, of: fn(&R) -> Vec<K>) -> Self {
        Index { name, version: 1, conflict: None, of: KeysFn::Several(of) }
    }

    /// Defines an index in which a key belongs to one record. A second is refused with 409, `code`
    /// and `message`.
    pub const fn unique(
        name: &'static str,
        code: &'static str,
        message: &'static str,
        of: fn(&R) -> Option<K>,
    ) -> Self {
        Index { name, version: 1, conflict: Some((code, message)), of: KeysFn::One(of) }
    }

    /// Sets the version of `of`, 1 by default. Raise it whenever `of` returns another key for a record
    /// that may be stored already, also in an older layout: the index is then rebuilt before the
    /// server starts.
    pub const fn version(self, version: u32) -> Self {
        Index { version, ..self }
    }

    /// Returns whether its record lists it in [`Record::INDEXES`]; otherwise it has no entries.
    pub(super) fn is_registered(&self) -> bool {
        R::INDEXES.iter().any(|index| index.name() == self.name)
    }
}

/// An index of which neither record nor key type matters to the caller.
pub trait IndexTable: Sync {
    /// Returns the name of its table.
    fn name(&self) -> &'static str;
    /// Returns its definition.
    fn info(&self) -> IndexInfo;
    /// Returns code and message of the 409 of a duplicate key; `None` if several records may share a
    /// key.
    fn conflict(&self) -> Option<(&'static str, &'static str)>;
    /// Returns how many of these bytes are the index's key; the record's key follows them.
    fn key_len(&self, bytes: &[u8]) -> Option<usize>;
}

/// An index whose key type does not matter to the caller.
pub trait AnyIndex<R>: IndexTable {
    /// Returns the record's keys in this index (without organization and record key), each once and in
    /// order; none if it is left out.
    fn keys_of(&self, record: &R) -> Vec<Vec<u8>>;
}

impl<R: Record, K: Key> AnyIndex<R> for Index<R, K> {
    fn keys_of(&self, record: &R) -> Vec<Vec<u8>> {
        match self.of {
            KeysFn::One(of) => of(record).map(|key| key.to_bytes()).into_iter().collect(),
            KeysFn::Several(of) => {
                let mut keys: Vec<_> = of(record).iter().map(Key::to_bytes).collect();
                keys.sort_unstable();
                keys.dedup();
                keys
            }
        }
    }
}

impl<R: Record, K: Key> IndexTable for Index<R, K> {
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
    fn key_len(&self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        K::read(&mut rest)?;
        Some(bytes.len() - rest.len())
    }
}

/// Returns the bytes before every key of a record: its organization's id, if it is owned.
pub(super) fn org_prefix<R: Record>(org: Id<Org>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    if R::ORG_SCOPED {
        bytes.extend_from_slice(org.bytes());
    }
    bytes
}

/// Returns key and value of the index entry of the record under `record_key` with the key `own` in the
/// index; the first `org_prefix_len` bytes of `record_key` and of the entry are the organization.
/// In a unique index the record's key is the value; otherwise it follows the index's key.
pub(super) fn entry(
    index: &dyn IndexTable,
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

/// Whether a record is exported with its organization ([`Record::EXPORT`]).
pub enum Export<R: 'static> {
    /// Nothing is declared: a test refuses such a record among those of the product.
    Undeclared,
    /// It is not, for this reason.
    LeftOut(&'static str),
    Exported(ExportForm<R>),
}

/// How a record is exported and imported.
pub struct ExportForm<R: 'static> {
    pub(super) to_json: fn(&R, &mut Exporting) -> Value,
    pub(super) from_json: fn(Value, &Importing) -> Result<R, String>,
    /// The organization of a record that none owns.
    pub(super) org: Option<fn(&R) -> Id<Org>>,
    pub(super) normalize: fn(R) -> R,
    pub(super) insert: fn(&mut Tx, &R) -> Result<()>,
}

impl<R> Clone for ExportForm<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for ExportForm<R> {}

impl<R: Record + Portable> Export<R> {
    /// Every record that the organization owns.
    pub const WHOLE: Self = Self::form(None);

    /// The records of the installation that belong to the organization. They are imported last: they
    /// show it to others, or make the server work for it.
    pub const fn of(org: fn(&R) -> Id<Org>) -> Self {
        Self::form(Some(org))
    }

    const fn form(org: Option<fn(&R) -> Id<Org>>) -> Self {
        Export::Exported(ExportForm {
            to_json: R::to_json,
            from_json: R::from_json,
            org,
            normalize: |record| record,
            insert: |tx, record| tx.insert(record),
        })
    }

    /// Replaces each record by what `normalize` returns for it, when it leaves and when it arrives.
    pub const fn normalized(self, normalize: fn(R) -> R) -> Self {
        match self {
            Export::Exported(form) => Export::Exported(ExportForm { normalize, ..form }),
            other => other,
        }
    }

    /// Inserts each record that arrives with this function.
    pub const fn inserted_by(self, insert: fn(&mut Tx, &R) -> Result<()>) -> Self {
        match self {
            Export::Exported(form) => Export::Exported(ExportForm { insert, ..form }),
            other => other,
        }
    }
}

/// The definition of an index, except for its key function. An index whose entries were written by
/// another definition is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexInfo {
    /// The name of its table.
    pub name: &'static str,
    /// The version of its key function.
    pub version: u32,
    /// Whether a key belongs to one record.
    pub is_unique: bool,
}

// ── Records of any type ──────────────────────────────────────────────────────

/// A [`Record`] whose type does not matter to the caller: what is done to all alike is compiled once,
/// not for each type. Each record is one.
pub trait AnyRecord: Any {
    /// Returns its table.
    fn table(&self) -> &'static Table;
    /// Appends its key, without organization.
    fn write_key(&self, out: &mut Vec<u8>);
    /// Returns its keys in the index at this place of its table, without organization and record key,
    /// each once and in order; none if it is left out.
    fn index_keys(&self, place: usize) -> Vec<Vec<u8>>;
    /// Returns the bytes to store under `key`.
    ///
    /// # Errors
    /// Those of [`encode`].
    fn encoded(&self, key: &[u8]) -> Result<Vec<u8>>;
    /// See [`Record::removed`].
    fn was_removed(&self, tx: &mut Tx) -> Result<()>;
    /// Returns the secret in the sealed field at this place of [`Record::SEALED`], if it has one.
    fn sealed(&mut self, place: usize) -> Option<&mut Sealed>;
    /// Returns it as JSON, if it is exported.
    fn json(&self) -> Option<Value>;
    /// Returns a copy.
    fn boxed(&self) -> Box<dyn AnyRecord>;
}

impl<R: Record> AnyRecord for R {
    fn table(&self) -> &'static Table {
        &const { Table::of::<R>() }
    }
    fn write_key(&self, out: &mut Vec<u8>) {
        self.key().write(out);
    }
    fn index_keys(&self, place: usize) -> Vec<Vec<u8>> {
        R::INDEXES[place].keys_of(self)
    }
    fn encoded(&self, key: &[u8]) -> Result<Vec<u8>> {
        encode(self, key)
    }
    fn was_removed(&self, tx: &mut Tx) -> Result<()> {
        self.removed(tx)
    }
    fn sealed(&mut self, place: usize) -> Option<&mut Sealed> {
        (R::SEALED[place].of)(self)
    }
    fn json(&self) -> Option<Value> {
        let Export::Exported(form) = R::EXPORT else { return None };
        Some((form.to_json)(self, &mut Exporting::default()))
    }
    fn boxed(&self) -> Box<dyn AnyRecord> {
        Box::new(self.clone())
    }
}

/// Reads a stored record of any version from its key and value.
type DecodeFn = fn(&[u8], &[u8]) -> Result<Box<dyn AnyRecord>>;

/// What reading and writing needs to know of the table of a record.
#[derive(Clone, Copy)]
pub struct Table {
    pub(super) name: &'static str,
    /// How many bytes of a key are the organization's id: 16 or 0.
    pub(super) org_prefix_len: usize,
    /// See [`Record::AFFECTS_ACCESS`].
    pub(super) affects_access: bool,
    /// See [`Record::NEW_REVOKES_NOTHING`].
    pub(super) new_revokes_nothing: bool,
    pub(super) decode: DecodeFn,
    index_count: usize,
    index_at: fn(usize) -> &'static dyn IndexTable,
}

impl Table {
    /// Returns the table of `R`.
    pub(super) const fn of<R: Record>() -> Self {
        Table {
            name: R::TABLE,
            org_prefix_len: if R::ORG_SCOPED { 16 } else { 0 },
            affects_access: R::AFFECTS_ACCESS,
            new_revokes_nothing: R::NEW_REVOKES_NOTHING,
            decode: |key, value| Ok(Box::new(decode::<R>(key, value)?)),
            index_count: R::INDEXES.len(),
            index_at: |place| R::INDEXES[place],
        }
    }

    /// Returns its indexes, in the order of their places.
    pub(super) fn indexes(&self) -> impl ExactSizeIterator<Item = &'static dyn IndexTable> + use<> {
        (0..self.index_count).map(self.index_at)
    }

    /// Returns a record of any version as it is written now.
    ///
    /// # Errors
    /// Those of [`decode`].
    pub(super) fn rewrite(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        (self.decode)(key, value)?.encoded(key)
    }

    /// Returns the organization of the record under a key; none's for a record that none owns.
    pub(super) fn owner(&self, key: &[u8]) -> Id<Org> {
        let owner = key.get(..self.org_prefix_len).unwrap_or_default();
        Id::read(&mut &*owner).unwrap_or(Id::NIL)
    }

    /// Returns whether a record is stored under its own key.
    pub(super) fn is_own_key(&self, record: &dyn AnyRecord, key: &[u8]) -> bool {
        let mut own = Vec::new();
        record.write_key(&mut own);
        key.get(self.org_prefix_len..) == Some(own.as_slice())
    }
}
