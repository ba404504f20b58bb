//! Joining a store, and leaving it.
//!
//! Who is in the way is observed: if its heartbeat changes it is alive, and if that does not change for
//! eight seconds it is taken for gone and is removed. What it still does then fails at its commit (see
//! [`super::slot`]).

use std::thread;
use std::time::{Duration, Instant};

use super::access;
use super::connection::{Connection, STATEMENT_TIME};
use super::failure::Failure;
use super::failure_detector::FailureDetector;
use super::member_rows::{SeenMember, read_members};
use super::membership::{HEARTBEATS, LEASE, Member, TABLE};
use super::shared::Shared;
use super::slot::fresh;
use super::sql::BEGIN_WRITE;
use crate::base::{Error, Kind, Result};

/// How long a heartbeat may stay the same: three may be late.
pub const FAILURE_TIMEOUT: Duration = Duration::from_secs(8);

/// How often those in the way are observed.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(250);

impl Shared {
    /// Joins the store. Waits up to eight seconds for those in the way to be gone, and a node for
    /// an owner until it leaves: a tool is soon done.
    ///
    /// # Errors
    /// If somebody in the way is alive; if the server fails.
    pub(super) fn join(
        &self,
        connection: &mut Connection,
        own: &Member,
        progress: &dyn Fn(&str),
    ) -> Result<()> {
        let mut detector = FailureDetector::default();
        let mut has_waited = false;
        loop {
            let gone = detector.suspected(FAILURE_TIMEOUT);
            let in_way = self
                .own_transaction(connection, BEGIN_WRITE, |connection| {
                    try_join(connection, own, &gone)
                })
                .map_err(|failure| failure.error())?;
            let Some(first) = in_way.first().cloned() else { break };
            detector.observe(in_way, Instant::now());
            if let Some(other) = detector.alive().find(|other| !waits_for(own, &other.member)) {
                return Err(in_use(own, &other.member));
            }
            if !has_waited {
                progress(&format!("waiting for {} to be gone", first.member.description()));
            }
            has_waited = true;
            thread::sleep(OBSERVE_INTERVAL);
        }
        if has_waited {
            progress("");
        }
        Ok(())
    }

    /// Leaves the store, and gives the lease up if it is `held`, so that others need not wait.
    pub(super) fn leave(&self, own: &Member, held: Option<&Member>) -> Result<(), Failure> {
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
    pub(super) fn try_acquire_lease(
        &self,
        connection: &mut Connection,
        own: &Member,
        seen: Option<&SeenMember>,
    ) -> Result<Option<Member>, Failure> {
        let lease = own.lease();
        let is_taken = self.own_transaction(connection, BEGIN_WRITE, |connection| {
            let members = connection.in_force(|| read_members(&connection.client))?;
            let present = members.iter().find(|one| one.member.key == LEASE);
            if present != seen || !members.iter().any(|one| one.member == *own) {
                return Ok(false);
            }
            if let Some(seen) = seen {
                seen.member.remove(connection)?;
            }
            lease.write(connection).map(|()| true)
        })?;
        Ok(is_taken.then_some(lease))
    }
}

/// Joins the store unless somebody is in the way who is not `gone`; returns those.
fn try_join(
    connection: &Connection,
    own: &Member,
    gone: &[SeenMember],
) -> Result<Vec<SeenMember>, Failure> {
    let mut in_way = connection.in_force(|| read_members(&connection.client))?;
    in_way.retain(|other| own.is_excluded_by(&other.member));
    if !in_way.iter().all(|other| gone.contains(other)) {
        return Ok(in_way);
    }
    for other in &in_way {
        other.member.remove(connection)?;
    }
    if own.is_owner() {
        // No commit of anybody else can succeed from here on.
        connection
            .change_once("DELETE FROM kv WHERE tbl = $1 OR tbl = $2", &[&TABLE, &HEARTBEATS])?;
        connection.change_once("DELETE FROM kv_slot", &[])?;
    }
    own.write(connection)?;
    // Who was paused before this knows nothing of what follows: an owner writes rows as they are.
    connection.change_once(access::REPLACE, &[&access::TABLE, &access::KEY, &&fresh()[..]])?;
    Ok(Vec::new())
}

/// Whether `own` waits for another that is alive.
fn waits_for(own: &Member, other: &Member) -> bool {
    own.is_node() && other.is_owner()
}

fn in_use(own: &Member, other: &Member) -> Error {
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
