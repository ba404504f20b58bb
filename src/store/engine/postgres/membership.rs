//! The members of a store: rows that name them, and heartbeats by which others see that they are alive.
//!
//! Servers are its nodes: any number of one release. A tool that needs the store to itself is its
//! owner. One of the nodes has the lease, and with it the background work. Each of them is a row,
//! and another one for its heartbeat, which is a random value that it changes every two seconds.

use super::slot::{Token, fresh};
use crate::store::codec::hex;

/// The number of the table of these rows.
pub const TABLE: i16 = 1;

/// The number of the table of their heartbeats, under the same keys.
pub const HEARTBEATS: i16 = 3;

/// The key of the row of the owner.
const OWNER: &[u8] = b"owner";

/// What the keys of nodes begin with; their tokens follow.
const NODE: &[u8] = b"node:";

/// The key of the row of the lease.
pub const LEASE: &[u8] = b"lease";

/// The row of a member of a store: its key; its token, release, description and address. That of the
/// lease has, in place of a release, the id of the node that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// The only member of a store: no server runs, and none starts, while it is there.
#[derive(Clone, Debug)]
pub struct Owner(pub(super) Member);

/// A server of a store, one of several.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) member: Member,
    /// Whether it takes the lease for the background work.
    pub(super) may_lead: bool,
}

impl Owner {
    /// Creates an owner that no other equals. `description` is what others are told, such as a host
    /// name and a process id.
    pub fn new(description: &str) -> Self {
        Owner(Member::new(OWNER.to_vec(), fresh(), "", description))
    }
}

impl Node {
    /// Creates a node that no other equals, of this release. Nodes of another one are refused.
    pub fn new(release: &str, description: &str) -> Self {
        let token = fresh();
        let member = Member::new([NODE, &token].concat(), token, release, description);
        Node { member, may_lead: true }
    }

    /// Leaves the lease for the background work to others.
    #[must_use]
    pub fn without_lease(mut self) -> Self {
        self.may_lead = false;
        self
    }

    /// Whether it takes the lease for the background work.
    pub fn may_lead(&self) -> bool {
        self.may_lead
    }

    /// Says where it listens.
    #[must_use]
    pub fn at(mut self, address: &str) -> Self {
        self.member.value.push(0);
        self.member.value.extend_from_slice(address.as_bytes());
        self
    }
}

impl Member {
    fn new(key: Vec<u8>, token: Token, release: &str, description: &str) -> Self {
        let value = [&token, release.as_bytes(), b"\0", description.as_bytes()].concat();
        Member { key, value }
    }

    /// Returns the lease as this node would have it.
    pub fn lease(&self) -> Self {
        Member::new(LEASE.to_vec(), fresh(), &self.id(), &self.description())
    }

    /// Its token: what its slots begin with.
    pub fn token(&self) -> Token {
        let mut token = Token::default();
        for (byte, stored) in token.iter_mut().zip(&self.value) {
            *byte = *stored;
        }
        token
    }

    /// Its release, description and address, as far as they are there.
    fn text(&self, number: usize) -> Option<&[u8]> {
        self.value.get(16..).unwrap_or_default().split(|byte| *byte == 0).nth(number)
    }

    fn shown(&self, number: usize) -> String {
        String::from_utf8_lossy(self.text(number).unwrap_or_default()).into_owned()
    }

    /// Its id: the beginning of its token, which is random.
    pub fn id(&self) -> String {
        hex(&self.token()[..4])
    }

    /// The id of the node that has this lease.
    pub fn holder(&self) -> String {
        self.release()
    }

    /// Its release.
    pub fn release(&self) -> String {
        self.shown(0)
    }

    /// What others are told about it.
    pub fn description(&self) -> String {
        self.shown(1)
    }

    /// Where it listens, if it says so.
    pub fn address(&self) -> Option<String> {
        self.text(2).map(|_| self.shown(2))
    }

    /// Whether it is an owner.
    pub fn is_owner(&self) -> bool {
        self.key == OWNER
    }

    /// Whether it is a node.
    pub fn is_node(&self) -> bool {
        self.key.starts_with(NODE)
    }

    /// Returns whether this one cannot be a member of the store while the other is.
    pub fn is_excluded_by(&self, other: &Member) -> bool {
        if self.key == other.key {
            return true;
        }
        other.is_owner()
            || other.is_node() && (self.is_owner() || self.release() != other.release())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_release_are_there_together_and_an_owner_is_alone() {
        let [one, two, newer] = [("1.0", "a"), ("1.0", "b"), ("1.1", "c")]
            .map(|(release, name)| Node::new(release, name).member);
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
        assert_eq!((lease.holder(), one.address()), (one.id(), None));
        let at = Node::new("1.0", "a").at("10.0.0.1:7420").member;
        assert_eq!((at.release(), at.description()), ("1.0".into(), "a".into()));
        assert_eq!(at.address().as_deref(), Some("10.0.0.1:7420"));
    }
}
