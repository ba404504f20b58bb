//! A request whose arguments are bound to its operation: what is executed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::calls::{Calls, Outcome};
use super::exchange::StreamAction;
use super::org_source::OrgHint;
use super::output::{EncodedOutput, Output};
use super::request::Principal;
use crate::auth::User;
use crate::auth::passwords::{HashRequest, HashResult};
use crate::base::{Email, Error, Id, Result, Time};
use crate::store::{Org, Topic, Tx, View};

/// A read with its arguments.
pub type BoundRead =
    Box<dyn Fn(&View, &Principal, &mut Calls) -> Result<EncodedOutput> + Send + Sync>;
/// A part of an operation that reads, with its arguments.
pub type BoundPart<T> = Box<dyn Fn(&View, &Principal) -> Result<T> + Send + Sync>;
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
    Hash(HashAction),
    /// Waits until there are items to take.
    Wait(WaitAction),
    /// Reads a list, optionally waiting until it grows.
    Follow(FollowAction),
    /// Reads one thing, optionally waiting until it changes.
    Watch(WatchAction),
    /// Reads bytes of this media type piece by piece.
    Download(&'static str, BoundDownload),
    /// Calls another server, whose answer is passed on as it comes.
    Stream(StreamAction),
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
    /// Of the person in a session with this e-mail address, for it and the IP address each: a code that
    /// is guessed.
    Code(Email),
    /// Nothing: it names nobody.
    Address,
    /// Nothing either: it has an invitation of this user to this organization, whose turn it takes.
    Invited(Id<User>, Id<Org>),
}

/// An operation with a password.
pub struct HashAction {
    /// Returns what is to be hashed.
    pub prepare: BoundPart<HashPlan>,
    /// Writes, given the result of the hashing; returns the user who acted, if that is known.
    pub complete: BoundComplete,
}

/// What an operation with a password answers, and the user who acted, if that is known.
pub type Hashed = Outcome<(EncodedOutput, Option<Id<User>>)>;

/// The end of an operation with a password. It may be run more than once.
pub type BoundComplete =
    Box<dyn Fn(&mut Tx, &Principal, &HashResult) -> Result<Hashed> + Send + Sync>;

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

impl TakenItem {
    /// Encodes things that were taken.
    pub fn all<O: Output>(things: &[O]) -> Result<Vec<Self>> {
        let one = |thing: &O| {
            let json = serde_json::to_value(thing)
                .map_err(|e| Error::internal(format!("cannot be written: {e}")))?;
            let id = thing.resource().map(|resource| resource.id).unwrap_or_default();
            Ok(TakenItem { id, json })
        };
        things.iter().map(one).collect()
    }
}

/// The items taken in one transaction.
pub struct TakenPage {
    pub items: Vec<TakenItem>,
    /// The cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// An operation that waits for items.
pub struct WaitAction {
    /// Checks whether there are items.
    pub poll: BoundPart<Readiness>,
    /// Takes a page of them.
    pub take: BoundTake,
    /// How long to wait, in seconds, while there are none.
    pub wait_secs: u64,
}

/// What takes items.
pub type BoundTake = Arc<dyn Fn(&mut Tx, &Principal) -> Result<TakenPage> + Send + Sync>;

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
pub struct FollowAction {
    /// Reads a part.
    pub read: BoundFollow,
    /// The key that signs the cursors of the list.
    pub list: [u8; 32],
    /// How long to wait, in seconds, while there is nothing.
    pub wait_secs: u64,
}

/// What reads a part of a list.
pub type BoundFollow =
    Box<dyn Fn(&View, &Principal, &FollowPoint) -> Result<Followed<TakenItem>> + Send + Sync>;

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
pub struct WatchAction {
    /// Reads the thing.
    pub read: BoundPart<EncodedOutput>,
    /// Returns its version without reading it.
    pub version: BoundPart<ContentVersion>,
    /// How long to wait, in seconds, while the client has the current version.
    pub wait_secs: u64,
}

/// A position in a download, defined by its operation; 0 is the beginning.
pub type Offset = u64;

/// A read of bytes. Each piece is read at its own snapshot, with the rights that the caller has
/// then, so that a slow client holds no snapshot open.
pub type BoundDownload = Box<dyn Fn(&View, &Principal, Offset) -> Result<Piece> + Send + Sync>;

/// A piece of a download.
pub struct Piece {
    pub bytes: Bytes,
    /// The offset of the next piece; `None` at the end.
    pub next: Option<Offset>,
}
