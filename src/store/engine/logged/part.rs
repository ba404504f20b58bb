//! A part of the log in memory: its records, and an ordered map of the newest change of each key.
//!
//! The map is a B-tree whose nodes are shared between versions: a copy of a part costs nothing, and
//! adding to it copies only the nodes on the way. Its entries are positions in the records, which are
//! kept as they were written, so that a part needs little more memory than its log.
//!
//! A key that was inserted and deleted in the same part leaves nothing behind: neither readers of a
//! queue, whose first rows are always deleted ones, nor the database see the rows that were not there
//! for long. That holds only while nobody writes the part to the database, so what was read from the
//! log at a start keeps its deletions: a checkpoint before it may have written some of the keys.

mod entries;

use std::sync::Arc;

use super::record;
use crate::base::{Error, Result};
use crate::store::engine::{KeyRange, Order};
use entries::{Entries, Entry, MAX_RECORDS, Records};

/// Entries of a leaf: 1.5 KiB, which is copied for the first change after a commit.
const MAX_ENTRIES: usize = 64;
/// Children of an inner node.
const MAX_CHILDREN: usize = 32;

enum Node {
    Leaf(Entries),
    Inner {
        /// The smallest entry of each child; that of the first may be larger than what it has.
        firsts: Entries,
        children: Vec<Arc<Node>>,
    },
}

impl Clone for Node {
    /// Leaves room for what is added next.
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(entries) => Node::Leaf(entries.roomy(MAX_ENTRIES + 1)),
            Node::Inner { firsts, children } => {
                let mut copies = Vec::with_capacity(MAX_CHILDREN + 1);
                copies.extend_from_slice(children);
                Node::Inner { firsts: firsts.roomy(MAX_CHILDREN + 1), children: copies }
            }
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Node::Leaf(Entries::default())
    }
}

/// The position of the child that a key belongs to.
fn child_of(records: &Records, firsts: &Entries, table: u16, key: &[u8]) -> usize {
    firsts.search(records, table, key).unwrap_or_else(|at| at.saturating_sub(1))
}

/// Where to divide a node of `len` items, of which the one at `at` was just added: in the middle; at
/// the end if keys grow, so that nodes become full.
fn division(len: usize, at: usize) -> usize {
    if at + 1 == len { len - 1 } else { len / 2 }
}

/// Removes the entry of a key, which is there, from below `node`. Returns whether nothing is left below
/// it; then it must be removed, too.
fn remove(records: &Records, node: &mut Arc<Node>, table: u16, key: &[u8]) -> bool {
    match Arc::make_mut(node) {
        Node::Leaf(entries) => {
            let at = entries.search(records, table, key);
            entries.remove(at.expect("whoever removes an entry has found it"));
            entries.all().is_empty()
        }
        Node::Inner { firsts, children } => {
            let at = child_of(records, firsts, table, key);
            if remove(records, &mut children[at], table, key) {
                firsts.remove(at);
                children.remove(at);
            }
            children.is_empty()
        }
    }
}

/// Adds an entry below `node`. Returns the new node beside it, with its first entry, if it had to be
/// divided.
fn add(records: &Records, node: &mut Arc<Node>, entry: Entry) -> Option<(Entry, Arc<Node>)> {
    let key = records.key(&entry);
    match Arc::make_mut(node) {
        Node::Leaf(entries) => {
            let at = match entries.search(records, entry.table, key) {
                Ok(at) => {
                    // After a deletion the storage below may have the key.
                    entries.replace(at, entry.with_new(entries.all()[at].is_new()));
                    return None;
                }
                Err(at) => at,
            };
            entries.insert(records, at, entry);
            let len = entries.all().len();
            if len <= MAX_ENTRIES {
                return None;
            }
            let right = entries.split_off(records, division(len, at));
            Some((right.all()[0], Arc::new(Node::Leaf(right))))
        }
        Node::Inner { firsts, children } => {
            let at = child_of(records, firsts, entry.table, key) + 1;
            let (first, child) = add(records, &mut children[at - 1], entry)?;
            firsts.insert(records, at, first);
            children.insert(at, child);
            if children.len() <= MAX_CHILDREN {
                return None;
            }
            let middle = division(children.len(), at);
            let (firsts, children) =
                (firsts.split_off(records, middle), children.split_off(middle));
            Some((firsts.all()[0], Arc::new(Node::Inner { firsts, children })))
        }
    }
}

/// Returns the tree of entries that are in order, with room in its nodes.
fn tree_of(records: &Records, entries: &[Entry]) -> Arc<Node> {
    let leaves = entries.chunks(MAX_ENTRIES * 3 / 4);
    let leaf_of = |leaf: &[Entry]| Node::Leaf(Entries::of(records, leaf.to_vec()));
    let mut level: Vec<(Entry, Arc<Node>)> =
        leaves.map(|leaf| (leaf[0], Arc::new(leaf_of(leaf)))).collect();
    while level.len() > 1 {
        let parents = level.chunks(MAX_CHILDREN * 3 / 4).map(|nodes| {
            let (firsts, children) = nodes.iter().cloned().unzip();
            let firsts = Entries::of(records, firsts);
            (nodes[0].0, Arc::new(Node::Inner { firsts, children }))
        });
        level = parents.collect();
    }
    level.pop().map_or_else(Arc::default, |(_, root)| root)
}

/// A version of a part of the log.
#[derive(Clone, Default)]
pub struct Part {
    records: Arc<Records>,
    root: Arc<Node>,
    len: usize,
    bytes: usize,
    deletions: usize,
}

impl Part {
    /// Returns whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether it can take no more records.
    pub fn is_full(&self) -> bool {
        self.len >= MAX_RECORDS
    }

    /// Returns the bytes of its records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many keys it deletes, at most, that what is below it may have.
    pub fn deletions(&self) -> usize {
        self.deletions
    }

    /// Makes a part of these records, in their order. Faster than adding them one by one.
    ///
    /// # Errors
    /// As [`Part::add`].
    pub fn of(records: Vec<Box<[u8]>>, number: impl FnMut(&str) -> u16) -> Result<Self> {
        let (mut part, mut number) = (Part::default(), number);
        let mut tables: Vec<Vec<Entry>> = Vec::new();
        for record in records {
            part.keep(record, &mut number, |entry| {
                let table = usize::from(entry.table);
                if tables.len() <= table {
                    tables.resize_with(table + 1, Vec::new);
                }
                tables[table].push(entry);
            })?;
        }
        let mut all = Vec::with_capacity(tables.iter().map(Vec::len).sum());
        for mut entries in tables {
            let key = |entry: &Entry| part.records.key(entry);
            // Of changes of one key the later one stays behind the earlier, and is kept.
            entries.sort_by(|a, b| key(a).cmp(key(b)));
            entries.dedup_by(|later, earlier| {
                let is_same = key(later) == key(earlier);
                if is_same {
                    *earlier = *later;
                }
                is_same
            });
            all.append(&mut entries);
        }
        part.deletions = all.iter().filter(|entry| entry.is_deletion()).count();
        part.root = tree_of(&part.records, &all);
        Ok(part)
    }

    /// Adds a record, which must not be added to another version of the same part. `is_insertion` says
    /// of each change whether neither this part nor what is below it has the key; `number` returns the
    /// number of a table.
    ///
    /// # Errors
    /// If the record cannot be read, although it is valid, or there are too many.
    pub fn add(
        &mut self,
        record: Box<[u8]>,
        mut is_insertion: impl Iterator<Item = bool>,
        mut number: impl FnMut(&str) -> u16,
    ) -> Result<()> {
        let mut entries = Vec::new();
        self.keep(record, &mut number, |entry| {
            entries.push(entry.with_new(is_insertion.next().unwrap_or(false)));
        })?;
        for entry in entries {
            let key = self.records.key(&entry);
            if entry.is_deletion() && self.find(entry.table, key).is_some_and(Entry::is_new) {
                if remove(&self.records, &mut self.root, entry.table, key) {
                    self.root = Arc::default();
                }
                continue;
            }
            self.deletions += usize::from(entry.is_deletion());
            if let Some((first, child)) = add(&self.records, &mut self.root, entry) {
                let left = std::mem::replace(&mut self.root, child);
                let right = self.root.clone();
                let firsts = Entries::of(&self.records, vec![self.first(&left), first]);
                self.root = Arc::new(Node::Inner { firsts, children: vec![left, right] });
            }
        }
        Ok(())
    }

    /// Keeps a record, and calls `each` with its entries.
    fn keep(
        &mut self,
        record: Box<[u8]>,
        number: &mut impl FnMut(&str) -> u16,
        mut each: impl FnMut(Entry),
    ) -> Result<()> {
        let Some(nth) = u32::try_from(self.len).ok().filter(|_| !self.is_full()) else {
            return Err(Error::internal("a part of the log has too many records"));
        };
        let mut last: Option<(String, u16)> = None;
        let read = record::changes(&record, |name, place| {
            let table = match &last {
                Some((last, table)) if last == name => *table,
                _ => last.insert((name.into(), number(name))).1,
            };
            each(Entry::new(table, nth, &place));
        });
        read.ok_or_else(|| Error::internal("a record of the log has an unknown format"))?;
        self.bytes += record.len();
        self.records.put(self.len, record);
        self.len += 1;
        Ok(())
    }

    fn first(&self, node: &Node) -> Entry {
        match node {
            Node::Leaf(entries) => entries.all()[0],
            Node::Inner { firsts, .. } => firsts.all()[0],
        }
    }

    /// Returns the newest change of a key: `Some(None)` if it was deleted, `None` if the part has no
    /// change of it.
    pub fn get(&self, table: u16, key: &[u8]) -> Option<Option<&[u8]>> {
        self.find(table, key).map(|entry| self.records.value(entry))
    }

    fn find(&self, table: u16, key: &[u8]) -> Option<&Entry> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Inner { firsts, children } => {
                    node = &children[child_of(&self.records, firsts, table, key)];
                }
                Node::Leaf(entries) => {
                    let found = entries.search(&self.records, table, key).ok()?;
                    return Some(&entries.all()[found]);
                }
            }
        }
    }

    /// Returns the changes of a range of a table, in order.
    pub fn range<'a>(&'a self, table: u16, range: KeyRange<'a>, order: Order) -> Changes<'a> {
        let cursor = match (order, range.to) {
            (Order::Ascending, _) => Cursor::at(self, table, range.from),
            (Order::Descending, Some(to)) => Cursor::at(self, table, to),
            (Order::Descending, None) => match table.checked_add(1) {
                Some(next) => Cursor::at(self, next, &[]),
                None => Cursor::at_end(self),
            },
        };
        Changes { part: self, cursor, table, range, order }
    }

    /// Returns all changes from a key of a table on, in order of tables and keys.
    pub fn changes_from(&self, table: u16, key: &[u8]) -> AllChanges<'_> {
        AllChanges { part: self, cursor: Cursor::at(self, table, key) }
    }
}

/// A position between two entries.
struct Cursor<'a> {
    /// The inner nodes above the leaf, each with the position of the child.
    above: Vec<(&'a [Arc<Node>], usize)>,
    leaf: &'a [Entry],
    /// The entries of the leaf before the position.
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Before the first entry that is not smaller than this key.
    fn at(part: &'a Part, table: u16, key: &[u8]) -> Self {
        let mut cursor = Cursor { above: Vec::new(), leaf: &[], at: 0 };
        let choose = |firsts: &Entries| child_of(&part.records, firsts, table, key);
        let leaf = cursor.descend(&part.root, choose);
        cursor.at = leaf.search(&part.records, table, key).unwrap_or_else(|at| at);
        cursor
    }

    /// Behind the last entry.
    fn at_end(part: &'a Part) -> Self {
        let mut cursor = Cursor { above: Vec::new(), leaf: &[], at: 0 };
        cursor.descend(&part.root, |firsts| firsts.all().len() - 1);
        cursor.at = cursor.leaf.len();
        cursor
    }

    fn descend(&mut self, mut node: &'a Node, choose: impl Fn(&Entries) -> usize) -> &'a Entries {
        loop {
            match node {
                Node::Inner { firsts, children } => {
                    let at = choose(firsts);
                    self.above.push((children, at));
                    node = &children[at];
                }
                Node::Leaf(entries) => {
                    self.leaf = entries.all();
                    return entries;
                }
            }
        }
    }

    fn next(&mut self) -> Option<&'a Entry> {
        while self.at == self.leaf.len() {
            loop {
                let (children, at) = self.above.pop()?;
                if at + 1 < children.len() {
                    self.above.push((children, at + 1));
                    self.descend(&children[at + 1], |_| 0);
                    self.at = 0;
                    break;
                }
            }
        }
        self.at += 1;
        Some(&self.leaf[self.at - 1])
    }

    fn previous(&mut self) -> Option<&'a Entry> {
        while self.at == 0 {
            loop {
                let (children, at) = self.above.pop()?;
                if at > 0 {
                    self.above.push((children, at - 1));
                    self.descend(&children[at - 1], |firsts| firsts.all().len() - 1);
                    self.at = self.leaf.len();
                    break;
                }
            }
        }
        self.at -= 1;
        Some(&self.leaf[self.at])
    }
}

/// A change of a key: its key and its new value, `None` after a deletion.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// The changes of a range of a table.
pub struct Changes<'a> {
    part: &'a Part,
    cursor: Cursor<'a>,
    table: u16,
    range: KeyRange<'a>,
    order: Order,
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        let entry = match self.order {
            Order::Ascending => self.cursor.next(),
            Order::Descending => self.cursor.previous(),
        }?;
        let key = self.part.records.key(entry);
        let is_in = match self.order {
            Order::Ascending => self.range.to.is_none_or(|to| key < to),
            Order::Descending => key >= self.range.from,
        };
        let value = self.part.records.value(entry);
        (is_in && entry.table == self.table).then_some((key, value))
    }
}

/// The changes of all tables.
pub struct AllChanges<'a> {
    part: &'a Part,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for AllChanges<'a> {
    type Item = (u16, Change<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.cursor.next()?;
        let records = &self.part.records;
        Some((entry.table, (records.key(entry), records.value(entry))))
    }
}

#[cfg(test)]
mod tests;
