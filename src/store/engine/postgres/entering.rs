//! Coming to a store, and leaving it.
//!
//! Who is in the way is watched: if its beat changes it is there, and if that does not change for
//! eight seconds it is gone and is removed. What it still does then fails at its commit (see
//! [`super::slot`]).

use std::thread;
use std::time::{Duration, Instant};

use super::access;
use super::attendance::{Seen, look};
use super::connection::{Connection, STATEMENT_TIME};
use super::failure::Failure;
use super::presence::{BEATS, LEASE, Presence, TABLE};
use super::shared::Shared;
use super::silence::Watch;
use super::slot::fresh;
use super::sql::BEGIN_WRITE;
use crate::base::{Error, Kind, Result};

/// How long a beat may stay the same: three may be late.
pub const MAX_SILENCE: Duration = Duration::from_secs(8);

/// How often those in the way are looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

impl Shared {
    /// Comes to the store. Waits up to eight seconds for those in the way to be gone, and a node for
    /// an owner until it leaves: a tool is soon done.
    ///
    /// # Errors
    /// If somebody in the way is there; if the server fails.
    pub(super) fn enter(
        &self,
        connection: &mut Connection,
        own: &Presence,
        progress: &dyn Fn(&str),
    ) -> Result<()> {
        let mut watch = Watch::default();
        let mut has_waited = false;
        loop {
            let gone = watch.silent(MAX_SILENCE);
            let in_way = self
                .own_transaction(connection, BEGIN_WRITE, |connection| {
                    try_enter(connection, own, &gone)
                })
                .map_err(|failure| failure.error())?;
            let Some(first) = in_way.first().cloned() else { break };
            watch.look(in_way, Instant::now());
            if let Some(there) = watch.alive().find(|there| !waits_for(own, &there.presence)) {
                return Err(in_use(own, &there.presence));
            }
            if !has_waited {
                progress(&format!("waiting for {} to be gone", first.presence.description()));
            }
            has_waited = true;
            thread::sleep(WATCH_INTERVAL);
        }
        if has_waited {
            progress("");
        }
        Ok(())
    }

    /// Leaves the store, and gives the lease up if it is `held`, so that others need not wait.
    pub(super) fn leave(&self, own: &Presence, held: Option<&Presence>) -> Result<(), Failure> {
        let mut connection = self.pool.take(false, Instant::now() + STATEMENT_TIME)?;
        self.own_transaction(&mut connection, BEGIN_WRITE, |connection| {
            if let Some(lease) = held {
                lease.remove(connection)?;
            }
            own.remove(connection).map(drop)
        })
    }

    /// Takes the lease for `own`, if nobody has it or still the one that was `seen`; returns it. Also
    /// returns nothing if `own` was removed.
    pub(super) fn try_lease(
        &self,
        connection: &mut Connection,
        own: &Presence,
        seen: Option<&Seen>,
    ) -> Result<Option<Presence>, Failure> {
        let lease = own.lease();
        let is_taken = self.own_transaction(connection, BEGIN_WRITE, |connection| {
            let there = look(connection)?;
            let present = there.iter().find(|one| one.presence.key == LEASE);
            if present != seen || !there.iter().any(|one| one.presence == *own) {
                return Ok(false);
            }
            if let Some(seen) = seen {
                seen.presence.remove(connection)?;
            }
            lease.write(connection).map(|()| true)
        })?;
        Ok(is_taken.then_some(lease))
    }
}

/// Comes to the store unless somebody is in the way who is not `gone`; returns those.
fn try_enter(connection: &Connection, own: &Presence, gone: &[Seen]) -> Result<Vec<Seen>, Failure> {
    let mut in_way = look(connection)?;
    in_way.retain(|other| own.is_excluded_by(&other.presence));
    if !in_way.iter().all(|other| gone.contains(other)) {
        return Ok(in_way);
    }
    for other in &in_way {
        other.presence.remove(connection)?;
    }
    if own.is_owner() {
        // No commit of anybody else can succeed from here on.
        connection.change_once("DELETE FROM kv WHERE tbl = $1 OR tbl = $2", &[&TABLE, &BEATS])?;
        connection.change_once("DELETE FROM kv_slot", &[])?;
    }
    own.write(connection)?;
    // Who was paused before this knows nothing of what follows: an owner writes rows as they are.
    connection.change_once(access::REPLACE, &[&access::TABLE, &access::KEY, &&fresh()[..]])?;
    Ok(Vec::new())
}

/// Whether `own` waits for another that is there.
fn waits_for(own: &Presence, other: &Presence) -> bool {
    own.is_node() && other.is_owner()
}

fn in_use(own: &Presence, other: &Presence) -> Error {
    let who = other.description();
    if own.is_node() {
        return Error::new(
            Kind::Conflict,
            "store_of_another_release",
            format!(
                "the store is in use by {who}, which is of another release; stop all servers, then \
                 start those of one release"
            ),
        );
    }
    Error::new(
        Kind::Conflict,
        "store_in_use",
        format!("the store is in use by {who}; stop that server first"),
    )
}
