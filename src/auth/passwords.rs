//! Passwords: argon2id (reference: identity-and-rights, "Sessions").
//!
//! Hashing takes 20 ms of a core and 19 MiB, so it runs on blocking threads, two at a time, and
//! never in a transaction.

use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::{Error, Result, Text};
use crate::store::{self, Admission, AdmissionLimits, Permit, WorkHints};

/// A password: 12 to 1,024 characters, any of them.
pub type Password = Text<12, 1024>;

/// The passwords to verify and hash for a request. It has no `Debug`: passwords must not be logged.
#[derive(Clone, Default)]
pub struct HashRequest {
    /// A password to compare with a hash. Without a hash (no user has that address) the password is
    /// hashed anyway, so that the time reveals nothing.
    pub verify: Option<(String, Option<String>)>,
    /// A password to hash, if the one to verify was correct.
    pub make: Option<String>,
}

/// The result of a [`HashRequest`].
#[derive(Clone, Default)]
pub struct HashResult {
    /// The hash that the password matched; `None` if it was wrong or there was none. The write that
    /// follows must check that this is still the stored hash.
    pub fits: Option<String>,
    /// The new hash.
    pub made: Option<String>,
}

/// Hashes passwords, a bounded number at a time.
pub struct Passwords {
    slots: Arc<Semaphore>,
    /// The slots that clients without any proof of who they are may use.
    unknown: Arc<Semaphore>,
    /// The slots that those who were invited may use.
    invited: Admission<store::Lane>,
}

/// Whose password is hashed.
#[derive(Clone, Copy, Debug)]
pub enum Lane {
    /// Somebody with a session, or whose address has signed in with this e-mail before.
    Known,
    /// Somebody with an invitation, in the turn of the inviter and the organization: a user who
    /// invites and accepts a thousand times delays neither sign-ins nor those whom others invited.
    Invited(WorkHints),
    /// Anybody else: they wait for each other, and never take all slots.
    Unknown,
}

/// Concurrent hashings: on a small machine more would starve other requests.
const MAX_CONCURRENT: usize = 2;
/// Of these, those for unknown clients.
const MAX_UNKNOWN: usize = MAX_CONCURRENT - 1;
/// Of these, those for the invited. Together with an unknown client they may have both; a known
/// client then waits for two hashings at most, since each of these lanes has one place in the queue.
const INVITED: AdmissionLimits = AdmissionLimits {
    admitted: 1,
    admitted_of_one: [1; 2],
    waiting: 512,
    waiting_of_one: [128; 2],
    wait: MAX_WAIT,
    refusal: overloaded,
};
/// Maximum wait for a slot; then 503.
const MAX_WAIT: Duration = Duration::from_secs(5);

impl Default for Passwords {
    fn default() -> Self {
        Passwords {
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            unknown: Arc::new(Semaphore::new(MAX_UNKNOWN)),
            invited: Admission::new(INVITED),
        }
    }
}

impl Passwords {
    /// Runs the hashing of one request.
    ///
    /// # Errors
    /// 503 if no slot becomes free within 5 s.
    pub async fn run(&self, lane: Lane, hashing: HashRequest) -> Result<HashResult> {
        if hashing.verify.is_none() && hashing.make.is_none() {
            return Ok(HashResult::default());
        }
        let Ok(Some(slot)) = tokio::time::timeout(MAX_WAIT, self.slot(lane)).await else {
            return Err(overloaded());
        };
        let hashed = tokio::task::spawn_blocking(move || {
            // Hashing cannot be cancelled: a dropped request holds its slot until it ends.
            let _place = slot;
            run(&hashing)
        });
        hashed.await.map_err(|e| Error::internal(format!("hashing failed: {e}")))?
    }

    /// Waits for a slot of this lane; a client that is not known first for one of those of the lane,
    /// so that at most one of each lane is in the queue of all. `None` if too many wait.
    async fn slot(&self, lane: Lane) -> Option<Slot> {
        let _invited = match lane {
            Lane::Invited(turn) => Some(self.invited.enter(turn.keys(), 0).await.ok()?),
            Lane::Known | Lane::Unknown => None,
        };
        let _unknown = match lane {
            Lane::Unknown => Some(self.unknown.clone().acquire_owned().await.ok()?),
            Lane::Known | Lane::Invited(_) => None,
        };
        let _slot = self.slots.clone().acquire_owned().await.ok()?;
        Some(Slot { _slot, _invited, _unknown })
    }
}

fn overloaded() -> Error {
    Error::busy("overloaded", "too many sign-ins are in progress; try again", 5)
}

/// A slot, until it is dropped.
struct Slot {
    _slot: OwnedSemaphorePermit,
    _invited: Option<Permit<store::Lane>>,
    _unknown: Option<OwnedSemaphorePermit>,
}

fn argon() -> Argon2<'static> {
    // OWASP's parameters: 19 MiB, two passes, one lane.
    let params = Params::new(19_456, 2, 1, None).expect("these are within the bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// Runs a hashing on the current thread, for the command line.
pub fn run(hashing: &HashRequest) -> Result<HashResult> {
    let fits = match &hashing.verify {
        None => None,
        Some((password, Some(hash))) => PasswordHash::new(hash)
            .is_ok_and(|hash| argon().verify_password(password.as_bytes(), &hash).is_ok())
            .then(|| hash.clone()),
        Some((password, None)) => {
            hash(password)?;
            None
        }
    };
    let made = match &hashing.make {
        Some(password) if fits.is_some() || hashing.verify.is_none() => Some(hash(password)?),
        _ => None,
    };
    Ok(HashResult { fits, made })
}

fn hash(password: &str) -> Result<String> {
    argon()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|e| Error::internal(format!("hashing failed: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_request_holds_its_slot_until_hashing_ends() {
        let passwords = Passwords::default();
        let all = passwords.slots.clone().acquire_many_owned(MAX_CONCURRENT as u32 - 1).await;
        let make = Some("a".repeat(1_000_000)); // Longer than the next line takes.
        let work = Box::pin(passwords.run(Lane::Known, HashRequest { verify: None, make }));
        assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        assert_eq!(passwords.slots.available_permits(), 0);
        drop(all);
        let every = passwords.slots.acquire_many(MAX_CONCURRENT as u32).await;
        assert!(every.is_ok(), "the slot comes back when it has ended");
    }

    #[tokio::test]
    async fn unknown_clients_do_not_delay_known_ones() {
        let passwords = Passwords::default();
        // The first takes longer than the lines until the assertion.
        let some = |bytes| HashRequest { verify: None, make: Some("a".repeat(bytes)) };
        let lens = std::iter::once(20_000_000).chain([1; 19]);
        let mut unknown: Vec<_> =
            lens.map(|len| Box::pin(passwords.run(Lane::Unknown, some(len)))).collect();
        for attempt in &mut unknown {
            assert!(tokio::time::timeout(Duration::ZERO, attempt).await.is_err());
        }
        assert_eq!(passwords.slots.available_permits(), MAX_CONCURRENT - MAX_UNKNOWN);
        let known = HashRequest { verify: None, make: Some("correct horse".into()) };
        let known = Box::pin(passwords.run(Lane::Known, known));
        assert!(tokio::time::timeout(Duration::ZERO, known).await.is_err());
        assert_eq!(passwords.slots.available_permits(), 0, "it runs at once");
    }

    #[tokio::test]
    async fn acceptances_delay_neither_strangers_nor_those_whom_others_invited() {
        let passwords = Arc::new(Passwords::default());
        let accept = |inviter| {
            let passwords = passwords.clone();
            let lane = Lane::Invited(WorkHints::of_lane([inviter; 16]));
            let make = Some("correct horse".into());
            async move { passwords.run(lane, HashRequest { verify: None, make }).await }
        };
        let flood: Vec<_> = (0..100).map(|_| tokio::spawn(accept(1))).collect();
        tokio::task::yield_now().await;
        assert_eq!(passwords.slots.available_permits(), MAX_CONCURRENT - INVITED.admitted);
        let make = Some("correct horse".into());
        passwords.run(Lane::Unknown, HashRequest { verify: None, make }).await.unwrap();
        accept(2).await.unwrap();
        assert!(flood.iter().filter(|task| !task.is_finished()).count() > 50);
        flood.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[test]
    fn only_the_right_password_verifies_and_only_then_a_new_one_is_made() {
        let made = run(&HashRequest { verify: None, make: Some("correct horse".into()) }).unwrap();
        let hash = made.made.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        for (password, right) in [("correct horse", true), ("wrong horse", false)] {
            let hashing = HashRequest {
                verify: Some((password.into(), Some(hash.clone()))),
                make: Some("another horse".into()),
            };
            let done = run(&hashing).unwrap();
            assert_eq!((done.fits.is_some(), done.made.is_some()), (right, right));
        }
        let anonymous = run(&HashRequest { verify: Some(("x".into(), None)), make: None }).unwrap();
        assert!(anonymous.fits.is_none());
    }
}
