//! Who is at a store: rows that name them, and beats by which others see that they are still there.
//!
//! Servers are its nodes: any number of one release. A tool that needs the store to itself is its
//! owner. One of the nodes has the lease, and with it the background work. Each of them is a row,
//! and another one for its beat, which is a random value that it changes every two seconds.

use super::connection::Connection;
use super::failure::Failure;
use super::slot::fresh;

/// The number of the table of these rows.
pub const TABLE: i16 = 1;

/// The number of the table of their beats, under the same keys.
pub const BEATS: i16 = 3;

/// The key of the row of the owner.
const OWNER: &[u8] = b"owner";

/// What the keys of nodes begin with; their tokens follow.
const NODE: &[u8] = b"node:";

/// The key of the row of the lease.
pub const LEASE: &[u8] = b"lease";

/// What each of them has of its own.
pub type Token = [u8; 16];

/// The row of somebody at a store: its key; its token, release and description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// The only one who uses a store: no server runs, and none starts, while it is there.
#[derive(Clone, Debug)]
pub struct Owner(pub(super) Presence);

/// A server of a store, one of several.
#[derive(Clone, Debug)]
pub struct Node(pub(super) Presence);

impl Owner {
    /// Creates an owner that no other equals. `description` is what others are told, such as a host
    /// name and a process id.
    pub fn new(description: &str) -> Self {
        Owner(Presence::new(OWNER.to_vec(), fresh(), "", description))
    }
}

impl Node {
    /// Creates a node that no other equals, of this release. Nodes of another one are refused.
    pub fn new(release: &str, description: &str) -> Self {
        let token = fresh();
        Node(Presence::new([NODE, &token].concat(), token, release, description))
    }
}

impl Presence {
    fn new(key: Vec<u8>, token: Token, release: &str, description: &str) -> Self {
        let value = [&token, release.as_bytes(), b"\0", description.as_bytes()].concat();
        Presence { key, value }
    }

    /// Returns the lease as this node would have it.
    pub fn lease(&self) -> Self {
        Presence::new(LEASE.to_vec(), fresh(), "", &self.description())
    }

    /// Its token: what its slots begin with.
    pub fn token(&self) -> Token {
        let mut token = Token::default();
        for (byte, stored) in token.iter_mut().zip(&self.value) {
            *byte = *stored;
        }
        token
    }

    fn texts(&self) -> (&[u8], &[u8]) {
        let texts = self.value.get(16..).unwrap_or_default();
        let end = texts.iter().position(|byte| *byte == 0);
        // Without a release in rows of the first builds.
        end.map_or((&[], texts), |end| (&texts[..end], &texts[end + 1..]))
    }

    fn release(&self) -> &[u8] {
        self.texts().0
    }

    /// What others are told about it.
    pub fn description(&self) -> String {
        String::from_utf8_lossy(self.texts().1).into_owned()
    }

    /// Whether it is an owner.
    pub fn is_owner(&self) -> bool {
        self.key == OWNER
    }

    /// Whether it is a node.
    pub fn is_node(&self) -> bool {
        self.key.starts_with(NODE)
    }

    /// Returns whether this one cannot be at the store while the other is.
    pub fn is_excluded_by(&self, other: &Presence) -> bool {
        if self.key == other.key {
            return true;
        }
        other.is_owner()
            || other.is_node() && (self.is_owner() || self.release() != other.release())
    }

    /// Writes its row, and its first beat.
    pub fn write(&self, connection: &Connection) -> Result<(), Failure> {
        let beat = fresh();
        let beat: &[u8] = &beat;
        let written = connection.change_once(
            "INSERT INTO kv (tbl, key, value) VALUES ($1, $3, $4), ($2, $3, $5)",
            &[&TABLE, &BEATS, &self.key, &self.value, &beat],
        );
        written.map(drop)
    }

    /// Changes its beat; returns whether its row is still there.
    pub fn beat(&self, connection: &Connection) -> Result<bool, Failure> {
        let next = fresh();
        let next: &[u8] = &next;
        let changed = connection.change_once(
            "UPDATE kv SET value = $1 WHERE tbl = $2 AND key = $3 AND EXISTS \
             (SELECT 1 FROM kv WHERE tbl = $4 AND key = $3 AND value = $5)",
            &[&next, &BEATS, &self.key, &TABLE, &self.value],
        )?;
        Ok(changed == 1)
    }

    /// Removes its row with its beat and its slots: no commit of it can succeed from here on.
    /// Returns whether the row was there.
    pub fn remove(&self, connection: &Connection) -> Result<bool, Failure> {
        let removed = connection.change_once(
            "DELETE FROM kv WHERE tbl = $1 AND key = $2 AND value = $3",
            &[&TABLE, &self.key, &self.value],
        )?;
        if removed == 1 {
            connection
                .change_once("DELETE FROM kv WHERE tbl = $1 AND key = $2", &[&BEATS, &self.key])?;
            let (first, last) = (self.token(), [self.token().as_slice(), &[0xFF; 16]].concat());
            let first: &[u8] = &first;
            connection
                .change_once("DELETE FROM kv_slot WHERE id >= $1 AND id <= $2", &[&first, &last])?;
        }
        Ok(removed == 1)
    }
}

/// Somebody at a store, as seen in one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub presence: Presence,
    pub beat: Vec<u8>,
}

/// Reads who is there.
pub fn look(connection: &Connection) -> Result<Vec<Seen>, Failure> {
    let rows = connection.query_once(
        "SELECT there.key, there.value, beat.value FROM kv AS there JOIN kv AS beat \
         ON beat.tbl = $2 AND beat.key = there.key WHERE there.tbl = $1 ORDER BY there.key",
        &[&TABLE, &BEATS],
    )?;
    let bytes = |row: &tokio_postgres::Row, at| row.try_get::<_, Vec<u8>>(at);
    let seen = rows.iter().map(|row| {
        let presence = Presence { key: bytes(row, 0)?, value: bytes(row, 1)? };
        Ok(Seen { presence, beat: bytes(row, 2)? })
    });
    seen.collect::<Result<_, _>>().map_err(|error| Failure::of(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_release_are_there_together_and_an_owner_is_alone() {
        let [one, two, newer] = [("1.0", "a"), ("1.0", "b"), ("1.1", "c")]
            .map(|(release, name)| Node::new(release, name).0);
        let (owner, other) = (Owner::new("tool").0, Owner::new("tool").0);
        let lease = one.lease();
        for (own, there, is_excluded) in [
            (&one, &two, false),
            (&one, &newer, true),
            (&newer, &one, true),
            (&one, &owner, true),
            (&owner, &one, true),
            (&owner, &other, true),
            (&owner, &lease, false),
            (&one, &lease, false),
        ] {
            assert_eq!(own.is_excluded_by(there), is_excluded, "{own:?} {there:?}");
        }
        assert_eq!((one.description(), lease.description()), ("a".into(), "a".into()));
        assert_ne!(one.token(), two.token());
    }
}
