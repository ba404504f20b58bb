//! A request whose arguments are bound to its operation: what the gate carries out.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::calls::{Calls, Outcome};
use super::request::Who;
use super::scope::Named;
use crate::auth::User;
use crate::auth::passwords::{Hashed, Hashing};
use crate::base::{Email, Error, Id, Result, Time};
use crate::store::{Topic, Tx, View};

/// An answer: always 200, always JSON.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The JSON.
    pub body: Vec<u8>,
}

impl Answer {
    /// Of this value.
    pub(super) fn of(value: &impl Serialize) -> Result<Self> {
        // Most answers fit, and a body that grows is copied each time.
        let mut body = Vec::with_capacity(1024);
        serde_json::to_writer(&mut body, value)
            .map_err(|e| Error::internal(format!("an answer cannot be written: {e}")))?;
        Ok(Answer { body })
    }
}

/// A bound read.
pub type Reading = Box<dyn Fn(&View, &Who) -> Result<Answer> + Send + Sync>;
/// A bound write. It may be run again.
pub type Writing = Box<dyn FnMut(&mut Tx, &Who) -> Result<Answer> + Send>;

/// A bound read that needs answers from outside.
pub type CallingRead = Box<dyn Fn(&View, &Who, &mut Calls) -> Result<Answer> + Send + Sync>;
/// A bound write that needs answers from outside. It may be run again.
pub type CallingWrite = Box<dyn FnMut(&mut Tx, &Who, &mut Calls) -> Result<Outcome<Answer>> + Send>;

/// A route's operation, its arguments bound.
pub enum Action {
    /// Reads at a snapshot.
    Read(Reading),
    /// Writes in a transaction.
    Write(Writing),
    /// Reads, hashes passwords outside of any transaction, and writes.
    Hash(Box<dyn HashAction>),
    /// Waits until there is something to take.
    Wait(Arc<dyn WaitAction>),
    /// Reads, and may wait until it reads otherwise.
    Watch(Box<dyn WatchAction>),
    /// Reads, with answers from outside.
    CallAndRead(CallingRead, Duration),
    /// Writes, with answers from outside.
    CallAndWrite(CallingWrite, Duration),
}

/// A request whose arguments are bound.
pub struct Bound {
    /// What it says about where its organization is to be found.
    pub named: Named,
    /// What to do.
    pub action: Action,
}

/// What an operation with a password needs done before it writes.
pub struct Work {
    /// The hashing.
    pub hashing: Hashing,
    /// The address whose sign-in attempts this counts against, and whether it is known to have
    /// signed in from here before.
    pub attempt: Option<(Email, bool)>,
}

/// A bound operation with a password.
pub trait HashAction: Send {
    /// Looks at the state and says what is to be hashed.
    fn look(&self, view: &View, who: &Who) -> Result<Work>;
    /// Writes, knowing what came of it; says whose doing it was.
    fn settle(&mut self, tx: &mut Tx, who: &Who, hashed: &Hashed) -> Result<(Answer, Id<User>)>;
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

/// One thing taken, for a stream.
pub struct Taken {
    /// Its id.
    pub id: String,
    /// The thing, as JSON.
    pub json: Value,
}

/// What was taken at once.
pub struct TakenPart {
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
    fn take(&self, tx: &mut Tx, who: &Who) -> Result<TakenPart>;
    /// How long to wait, in seconds, when there is nothing.
    fn wait_secs(&self) -> u64;
}

/// What somebody who watches a thing goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// What to listen to: it is signalled when there may be another mark.
    pub topic: Topic,
    /// Answers with the same mark are the same to the byte, for whoever may have them.
    pub mark: Uuid,
}

/// A bound read that may wait until what it reads is another.
pub trait WatchAction: Send + Sync {
    /// Reads it.
    fn read(&self, view: &View, who: &Who) -> Result<Answer>;
    /// Looks which it is, without reading it.
    fn look(&self, view: &View, who: &Who) -> Result<Watched>;
    /// How long to wait, in seconds, while it is what the caller has.
    fn wait_secs(&self) -> u64;
}
