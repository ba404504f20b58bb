//! A request whose arguments are bound to its operation: what is executed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::calls::{Calls, Outcome};
use super::output::Answer;
use super::request::Who;
use super::scope::OrgHint;
use crate::auth::User;
use crate::auth::passwords::{HashRequest, HashResult};
use crate::base::{Email, Id, Result, Time};
use crate::store::{Topic, Tx, View};

/// A bound read.
pub type Reading = Box<dyn Fn(&View, &Who, &mut Calls) -> Result<Answer> + Send + Sync>;
/// A bound write. It may be run again.
pub type Writing = Box<dyn FnMut(&mut Tx, &Who, &mut Calls) -> Result<Outcome<Answer>> + Send>;

/// A route's operation, its arguments bound.
pub enum Action {
    /// Reads at a snapshot.
    Read(Reading, CallTime),
    /// Writes in a transaction.
    Write(Writing, CallTime),
    /// Reads, hashes passwords outside of any transaction, and writes.
    Hash(Box<dyn HashAction>),
    /// Waits until there is something to take.
    Wait(Arc<dyn WaitAction>),
    /// Reads, and may wait until it reads otherwise.
    Watch(Box<dyn ConditionalWaitAction>),
    /// Reads bytes, a piece at a time.
    Download(Arc<dyn DownloadAction>),
}

/// The time that an operation has for all its calls outside together; `None` if it makes none.
pub type CallTime = Option<Duration>;

/// A request whose arguments are bound.
pub struct Bound {
    /// What it says about where its organization is to be found.
    pub hint: OrgHint,
    /// What to do.
    pub action: Action,
}

/// What an operation with a password needs done before it writes.
pub struct Work {
    /// The hashing.
    pub hashing: HashRequest,
    /// The address whose sign-in attempts this counts against, and whether it is known to have
    /// signed in from here before.
    pub attempt: Option<(Email, bool)>,
}

/// A bound operation with a password.
pub trait HashAction: Send + Sync {
    /// Looks at the state and says what is to be hashed.
    fn look(&self, view: &View, who: &Who) -> Result<Work>;
    /// Writes, knowing what came of it; says whose doing it was.
    fn settle(&mut self, tx: &mut Tx, who: &Who, hashed: &HashResult)
    -> Result<(Answer, Id<User>)>;
}

/// What somebody who waits finds.
pub struct Look {
    /// What to listen to.
    pub topic: Uuid,
    /// Whether there is something to take now.
    pub ready: bool,
    /// When there may be something without any commit.
    pub again_at: Option<Time>,
}

/// One thing taken.
pub struct Taken {
    /// Its id.
    pub id: String,
    /// The thing, as JSON.
    pub json: Value,
}

/// What was taken at once.
pub struct TakenPage {
    /// The things.
    pub items: Vec<Taken>,
    /// Where to go on, if more follows.
    pub next_cursor: Option<String>,
}

/// A bound operation that waits.
pub trait WaitAction: Send + Sync {
    /// Looks whether there is something.
    fn look(&self, view: &View, who: &Who) -> Result<Look>;
    /// Takes it.
    fn take(&self, tx: &mut Tx, who: &Who) -> Result<TakenPage>;
    /// How long to wait, in seconds, when there is nothing.
    fn wait_secs(&self) -> u64;
}

/// What somebody who watches a thing goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentVersion {
    /// What to listen to: it is signalled when there may be another mark.
    pub topic: Topic,
    /// Answers with the same mark are the same to the byte, for whoever may have them.
    pub mark: Uuid,
}

/// A bound read that may wait until what it reads is another.
pub trait ConditionalWaitAction: Send + Sync {
    /// Reads it.
    fn read(&self, view: &View, who: &Who) -> Result<Answer>;
    /// Looks which it is, without reading it.
    fn look(&self, view: &View, who: &Who) -> Result<ContentVersion>;
    /// How long to wait, in seconds, while it is what the caller has.
    fn wait_secs(&self) -> u64;
}

/// Where in some bytes to go on reading: whatever the operation makes of it, 0 at the beginning.
pub type Offset = u64;

/// A bound read of bytes. Each piece is read at a state of its own, with the rights that the caller
/// has then, so that a slow reader holds up nobody.
pub trait DownloadAction: Send + Sync {
    /// Reads the piece that begins at `offset`, and says where the next begins.
    fn piece(&self, view: &View, who: &Who, offset: Offset) -> Result<Piece>;
    /// The media type of the bytes.
    fn media_type(&self) -> &'static str;
}

/// A piece of some bytes.
pub struct Piece {
    /// Its bytes.
    pub bytes: Bytes,
    /// Where the next begins; `None` at the end.
    pub next: Option<Offset>,
}
