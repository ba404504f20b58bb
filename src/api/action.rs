//! A request whose arguments are bound to its operation: what is executed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::calls::{Calls, Outcome};
use super::org_source::OrgHint;
use super::output::EncodedOutput;
use super::request::Principal;
use crate::auth::User;
use crate::auth::passwords::{HashRequest, HashResult};
use crate::base::{Email, Id, Result, Time};
use crate::store::{Org, Topic, Tx, View};

/// A read with its arguments.
pub type BoundRead =
    Box<dyn Fn(&View, &Principal, &mut Calls) -> Result<EncodedOutput> + Send + Sync>;
/// A write with its arguments. It may be run more than once.
pub type BoundWrite =
    Box<dyn FnMut(&mut Tx, &Principal, &mut Calls) -> Result<Outcome<EncodedOutput>> + Send>;

/// A route's operation with its arguments.
pub enum Action {
    /// Reads at a snapshot.
    Read(BoundRead, CallTime),
    /// Writes in a transaction.
    Write(BoundWrite, CallTime),
    /// Reads, hashes passwords outside of any transaction, then writes.
    Hash(Box<dyn HashAction>),
    /// Waits until there are items to take.
    Wait(Arc<dyn WaitAction>),
    /// Reads a list, optionally waiting until it grows.
    Follow(Arc<dyn FollowAction>),
    /// Reads one thing, optionally waiting until it changes.
    Watch(Box<dyn ConditionalWaitAction>),
    /// Reads bytes piece by piece.
    Download(Arc<dyn DownloadAction>),
}

/// The time limit of all outgoing calls of an operation together; `None` if it makes none.
pub type CallTime = Option<Duration>;

/// A request whose arguments are bound.
pub struct BoundRequest {
    /// How the organization is found.
    pub hint: OrgHint,
    pub action: Action,
}

/// What an operation with a password needs before it writes.
pub struct HashPlan {
    /// The passwords to verify and hash.
    pub hashing: HashRequest,
    /// What this counts as, if it counts as a sign-in attempt.
    pub attempt: Option<Attempt>,
}

/// What is counted of an attempt to sign in, besides its IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The e-mail address, and whether it has signed in from this IP address before.
    Email(Email, bool),
    /// Nothing: it names nobody.
    Address,
    /// Nothing either: it has an invitation of this user to this organization, whose turn it takes.
    Invited(Id<User>, Id<Org>),
}

/// An operation with a password.
pub trait HashAction: Send + Sync {
    /// Returns what is to be hashed.
    fn prepare(&self, view: &View, who: &Principal) -> Result<HashPlan>;
    /// Writes, given the result of the hashing; returns the user who acted, if that is known.
    fn complete(
        &mut self,
        tx: &mut Tx,
        who: &Principal,
        hashed: &HashResult,
    ) -> Result<Outcome<(EncodedOutput, Option<Id<User>>)>>;
}

/// Whether an operation that waits has anything to take.
pub struct Readiness {
    /// The topic of commits after which to check again.
    pub topic: Uuid,
    /// Whether there are items to take now.
    pub ready: bool,
    /// When to check again without a commit, for example at the end of a lease.
    pub again_at: Option<Time>,
}

/// One item taken.
pub struct TakenItem {
    pub id: String,
    pub json: Value,
}

/// The items taken in one transaction.
pub struct TakenPage {
    pub items: Vec<TakenItem>,
    /// The cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// An operation that waits for items.
pub trait WaitAction: Send + Sync {
    /// Checks whether there are items.
    fn poll(&self, view: &View, who: &Principal) -> Result<Readiness>;
    /// Takes a page of them.
    fn take(&self, tx: &mut Tx, who: &Principal) -> Result<TakenPage>;
    /// How long to wait, in seconds, while there are none.
    fn wait_secs(&self) -> u64;
}

/// Where a read of a list that is followed begins.
#[derive(Clone, Debug)]
pub enum FollowFrom {
    /// Where the request says.
    Request,
    /// After the event of an earlier stream with this id, which the client sent.
    Event(String),
    /// After this position, at which an earlier read ended.
    Position(Vec<u8>),
}

/// What a read of a list that is followed depends on, besides the request.
#[derive(Debug)]
pub struct FollowPoint<'a> {
    pub from: &'a FollowFrom,
    /// Before this id no later commit adds a new one. What follows goes no further.
    pub settled: Id<()>,
    /// Whether all that comes is sent as a stream of events.
    pub is_stream: bool,
}

/// A part of a list that is followed.
pub struct Followed<T> {
    pub items: Vec<T>,
    /// The position of the last scanned record, if more follow already.
    pub next: Option<Vec<u8>>,
    /// Where the next read begins; `None`: where this one did.
    pub end: Option<Vec<u8>>,
    /// The event after which this read began, for who connects again before the first one came: `None` if
    /// the same request begins there again.
    pub begin: Option<String>,
    /// The topic of commits after which to read again.
    pub topic: Topic,
    /// When to read again without a commit: there is more, but it is not settled.
    pub again_at: Option<Time>,
}

/// A read of a list that may wait until it grows, and goes on from where it ended.
pub trait FollowAction: Send + Sync {
    /// Reads a part.
    fn read(
        &self,
        view: &View,
        who: &Principal,
        point: &FollowPoint,
    ) -> Result<Followed<TakenItem>>;
    /// Returns the cursor for a position.
    fn cursor(&self, position: &[u8]) -> String;
    /// How long to wait, in seconds, while there is nothing.
    fn wait_secs(&self) -> u64;
}

/// The version of a thing that a client may wait for to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentVersion {
    /// The topic that is signalled when the version may have changed.
    pub topic: Topic,
    /// Identifies the content: responses with the same version are the same to the byte for
    /// every caller who may read them.
    pub version: Uuid,
}

/// A read that may wait until its result changes.
pub trait ConditionalWaitAction: Send + Sync {
    /// Reads the thing.
    fn read(&self, view: &View, who: &Principal) -> Result<EncodedOutput>;
    /// Returns its version without reading it.
    fn version(&self, view: &View, who: &Principal) -> Result<ContentVersion>;
    /// How long to wait, in seconds, while the client has the current version.
    fn wait_secs(&self) -> u64;
}

/// A position in a download, defined by its operation; 0 is the beginning.
pub type Offset = u64;

/// A read of bytes. Each piece is read at its own snapshot, with the rights that the caller has
/// then, so that a slow client holds no snapshot open.
pub trait DownloadAction: Send + Sync {
    /// Reads the piece at `offset`.
    fn piece(&self, view: &View, who: &Principal, offset: Offset) -> Result<Piece>;
    /// The media type of the bytes.
    fn media_type(&self) -> &'static str;
}

/// A piece of a download.
pub struct Piece {
    pub bytes: Bytes,
    /// The offset of the next piece; `None` at the end.
    pub next: Option<Offset>,
}
