//! Who has caused an account by an invitation, which bounds how many accounts one person causes in a
//! day (reference: identity-and-rights, "Invitations").
//!
//! An inviter learns the token of an invitation, so they can accept it themselves: as many accounts
//! as they like, each of which may own organizations and invite others. So what new accounts cause
//! counts together with what the first new one of them caused. It does not count for the person who
//! invited that one: a customer must not use up what others may cause.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use crate::auth::User;
use crate::base::{Error, Id, Kind, Result, Time};
use crate::store::{AnyIndex, AnyReference, Export, Index, Key as _, Order, Record, Reference};
use crate::store::{Tx, View};

/// A person causes at most 500 accounts within a day: more than a large organization needs when it
/// begins, and few enough that nobody fills the installation in an hour.
const MAX_IN_A_DAY: usize = 500;
/// A new account causes at most 100 within a day, with those that it has caused.
const MAX_OF_NEW: usize = 100;
const DAY_SECS: i64 = 24 * 3600;

/// An account is new for 30 days.
const NEW_SECS: i64 = 30 * DAY_SECS;

/// An account that began with an invitation.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct InvitedAccount {
    user: Id<User>,
    /// The person it counts for: who invited, or the first new account before them.
    caused_by: Id<User>,
    created_at: Time,
}

/// The accounts that a person has caused, oldest first.
static BY_CAUSE: Index<InvitedAccount, (Id<User>, Time)> =
    Index::non_unique("invited_accounts.by_cause", |account| {
        Some((account.caused_by, account.created_at))
    });

static ACCOUNT: Reference<InvitedAccount, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |account: &InvitedAccount, _| vec![account.user.to_bytes()],
);

static CAUSE: Reference<InvitedAccount, User> = Reference::cascade(
    &["caused_by"],
    |user: &User| user.id.to_bytes(),
    |account: &InvitedAccount, _| vec![account.caused_by.to_bytes()],
)
.by(&BY_CAUSE);

impl Record for InvitedAccount {
    const TABLE: &'static str = "invited_accounts";
    const EXPORT: Export<Self> = Export::LeftOut("accounts of this installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ACCOUNT, &CAUSE];
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_CAUSE];
    type Key = Id<User>;
    fn key(&self) -> Self::Key {
        self.user
    }
}

/// Returns whom an account is counted for that this user invites, and how many of theirs there may be
/// within a day.
fn cause(view: &View, inviter: Id<User>) -> Result<(Id<User>, usize)> {
    let new_since = view.now().minus_secs(NEW_SECS);
    let is_new = |account: &InvitedAccount| account.created_at > new_since;
    let Some(own) = view.get::<InvitedAccount>(&inviter)?.filter(is_new) else {
        return Ok((inviter, MAX_IN_A_DAY));
    };
    let before = view.get::<InvitedAccount>(&own.caused_by)?.filter(is_new);
    Ok((before.map_or(inviter, |first| first.user), MAX_OF_NEW))
}

/// Requires that a user who invites may cause one more account.
///
/// # Errors
/// 429 once there are as many as may be within a day.
pub(super) fn require_room(view: &View, inviter: Id<User>) -> Result<()> {
    let ((cause, most), now) = (cause(view, inviter)?, view.now());
    let (from, to) = ((cause, now.minus_secs(DAY_SECS)), (cause, now.plus_secs(DAY_SECS)));
    let (mut count, mut oldest) = (0, now);
    view.entries(&BY_CAUSE, &from, &to, Order::Ascending, |(_, created_at), _| {
        oldest = oldest.min(created_at);
        count += 1;
        let is_full = count == most;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if count < most {
        return Ok(());
    }
    let free_in = (oldest.plus_secs(DAY_SECS).millis() - now.millis()) / 1000 + 1;
    Err(Error::new(
        Kind::Limited,
        "too_many_accounts",
        format!("{most} accounts were made within a day by invitations of this person; try later"),
    )
    .retry_after(u32::try_from(free_in).unwrap_or(1)))
}

/// Notes the account of a user who was invited by another.
///
/// # Errors
/// As [`require_room`].
pub(super) fn note(tx: &mut Tx, user: Id<User>, inviter: Id<User>) -> Result<()> {
    require_room(&tx.view(), inviter)?;
    let (caused_by, _) = cause(&tx.view(), inviter)?;
    tx.insert(&InvitedAccount { user, caused_by, created_at: tx.now() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::testing::{Fixture, user};

    fn made(fixture: &Fixture, inviter: Id<User>) -> Result<Id<User>> {
        fixture.store.write_blocking(Id::NIL, move |tx| {
            let known: User = tx.fetch(&inviter)?;
            let id = tx.new_id();
            let email = crate::base::Email::parse(format!("{id}@acme.test"))
                .map_err(|_| Error::internal("no address"))?;
            tx.insert(&User { id, email, created_at: tx.now(), ..known })?;
            note(tx, id, inviter).map(|()| id)
        })
    }

    fn is_refused(fixture: &Fixture, inviter: Id<User>) -> u32 {
        let refused = made(fixture, inviter).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (Kind::Limited, "too_many_accounts"));
        refused.retry_after_secs().unwrap()
    }

    #[test]
    fn what_new_accounts_cause_in_a_day_counts_for_the_first_of_them_and_for_nobody_else() {
        let fixture = Fixture::new();
        let owner = user(&fixture.owner);
        let first = made(&fixture, owner).unwrap();
        let second = made(&fixture, first).unwrap();
        fixture.pass_secs(3600);
        let third = made(&fixture, second).unwrap();
        for _ in 2..MAX_OF_NEW {
            made(&fixture, third).unwrap();
        }
        for inviter in [first, second, third] {
            // The second was made an hour before.
            let wait = is_refused(&fixture, inviter);
            assert!((23 * 3600 - 60..=23 * 3600 + 60).contains(&wait), "{wait}");
        }
        for other in [owner, user(&fixture.member), made(&fixture, owner).unwrap()] {
            assert!(made(&fixture, other).is_ok(), "others are not affected");
        }
        fixture.pass_secs(25 * 3600);
        assert!(made(&fixture, third).is_ok());
        fixture.assert_sound();
    }

    #[test]
    fn a_person_causes_500_accounts_a_day() {
        let fixture = Fixture::new();
        let owner = user(&fixture.owner);
        for _ in 0..MAX_IN_A_DAY {
            made(&fixture, owner).unwrap();
        }
        is_refused(&fixture, owner);
        assert!(made(&fixture, user(&fixture.member)).is_ok());
    }

    #[test]
    fn after_30_days_an_account_stands_for_itself() {
        let fixture = Fixture::new();
        let first = made(&fixture, user(&fixture.owner)).unwrap();
        let cause = |inviter| fixture.store.read_now(Id::NIL, |view| cause(view, inviter)).unwrap();
        assert_eq!(cause(first), (first, MAX_OF_NEW));
        fixture.pass_secs(31 * 24 * 3600);
        assert_eq!(cause(first), (first, MAX_IN_A_DAY));
    }
}
