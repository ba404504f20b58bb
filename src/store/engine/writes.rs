//! Batches of changes, as a transaction collects them and a commit applies them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::store::signals::Topic;

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteOp {
    /// Writes the key, existing or not.
    Put(Vec<u8>),
    /// Writes a new key: the attempt has looked, and found none. Storage that notices one refuses the
    /// commit.
    Insert(Vec<u8>),
    /// Removes the key.
    Delete,
}

impl WriteOp {
    /// Returns the value afterwards; `None` after a delete.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            WriteOp::Put(value) | WriteOp::Insert(value) => Some(value),
            WriteOp::Delete => None,
        }
    }
}

/// A batch of changes with the topics to notify.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// By table, then by key: engines apply them in key order, which is much faster.
    pub tables: BTreeMap<&'static str, BTreeMap<Vec<u8>, WriteOp>>,
    /// Topics to notify once this is durable.
    pub topics: Vec<Topic>,
    /// Whether a record that affects access is among them.
    pub changes_access: bool,
    /// Whether it is a deletion.
    pub deletes: bool,
}

impl WriteBatch {
    /// Returns whether no key changes.
    pub fn is_empty(&self) -> bool {
        self.tables.values().all(BTreeMap::is_empty)
    }

    /// Returns whether the disk's reserve may be used for it: deletions, so that a full disk can be
    /// emptied, and changes of access, so that a key can be revoked.
    pub fn may_use_reserve(&self) -> bool {
        self.deletes || self.changes_access
    }

    /// Returns how many keys change.
    pub fn len(&self) -> usize {
        self.tables.values().map(BTreeMap::len).sum()
    }

    /// Returns the bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        let changes = self.tables.values().flatten();
        changes.map(|(key, op)| key.len() + op.value().map_or(0, <[u8]>::len)).sum()
    }

    /// Adds a change after those already in the batch. Two changes of one key become one, which keeps
    /// what the first knew of the committed state: whether the key existed.
    pub fn add(&mut self, table: &'static str, key: Vec<u8>, op: WriteOp) {
        let mut place = match self.tables.entry(table).or_default().entry(key) {
            Entry::Occupied(place) => place,
            Entry::Vacant(place) => {
                place.insert(op);
                return;
            }
        };
        let op = match (place.get(), op) {
            // The key did not exist and does not. A delete would remove what another transaction
            // writes there in the meantime.
            (WriteOp::Insert(_), WriteOp::Delete) => {
                place.remove();
                return;
            }
            (WriteOp::Insert(_), WriteOp::Put(value)) => WriteOp::Insert(value),
            (WriteOp::Delete, WriteOp::Insert(value)) => WriteOp::Put(value),
            (_, op) => op,
        };
        place.insert(op);
    }

    /// Adds the changes and topics of a later batch.
    pub fn append(&mut self, later: WriteBatch) {
        for (table, changes) in later.tables {
            for (key, op) in changes {
                self.add(table, key, op);
            }
        }
        self.topics.extend(later.topics);
        self.changes_access |= later.changes_access;
        self.deletes |= later.deletes;
    }
}
