//! The budget of the mails that tenants cause (reference: notifications, "Mail").
//!
//! Every mail to somebody who did not ask for it in the same moment is counted here before it is sent:
//! for the address, for the person who causes it, and for the organization. One that finds no room
//! anywhere is not sent, and not counted. Links for new passwords are counted for themselves: strangers
//! ask for them.

use bincode::{Decode, Encode};

use crate::api::Resource;
use crate::auth::User;
use crate::base::{Email, Id, Result, Time};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress, delete_due};
use crate::store::{AnyIndex, Export, Index, Org, Record, TableInfo, Tx, View};

/// The counts, and their retention.
pub const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<MailCount>()], sweeps: &[DELETE_PAST], ..Resource::EMPTY };

const HOUR_MILLIS: i64 = 3_600_000;

/// Whom a mail is counted for.
#[derive(Clone, Copy, Debug)]
pub enum CountedFor<'a> {
    /// An address whose reader has agreed to nothing, whichever organization writes: three an hour,
    /// enough for a mail that was lost.
    Stranger(&'a Email),
    /// An address whose reader takes mail of this organization: one a minute.
    Reader(Id<Org>, &'a Email),
    /// The person who causes it: a hundred an hour, as when a team is invited.
    Person(Id<User>),
    /// The organization: 500 an hour.
    Organization(Id<Org>),
}

impl CountedFor<'_> {
    /// How many there may be in an hour.
    fn most(self) -> i64 {
        match self {
            CountedFor::Stranger(_) => 3,
            CountedFor::Reader(..) => 60,
            CountedFor::Person(_) => 100,
            CountedFor::Organization(_) => 500,
        }
    }

    fn key(self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("roadstead 2026 mail budget");
        match self {
            CountedFor::Stranger(email) => hasher.update(b"s").update(mailbox(email).as_bytes()),
            CountedFor::Reader(org, email) => {
                hasher.update(b"r").update(org.bytes()).update(email.as_bytes())
            }
            CountedFor::Person(user) => hasher.update(b"p").update(user.bytes()),
            CountedFor::Organization(org) => hasher.update(b"o").update(org.bytes()),
        };
        *hasher.finalize().as_bytes()
    }
}

/// Returns the address without what follows a `+` in its first part: it is the same mailbox.
fn mailbox(email: &Email) -> String {
    let Some((local, domain)) = email.rsplit_once('@') else { return email.to_string() };
    let name = match local.split_once('+') {
        Some((name, _)) if !name.is_empty() => name,
        _ => local,
    };
    format!("{name}@{domain}")
}

/// How much of a budget is used: it becomes free at a steady rate, until all of it is at this time.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct MailCount {
    /// The hash of whom it is for.
    key: [u8; 32],
    free_at: Time,
}

static BY_END: Index<MailCount, Time> =
    Index::non_unique("mail_counts.by_end", |count| Some(count.free_at));

impl Record for MailCount {
    const TABLE: &'static str = "mail_counts";
    const EXPORT: Export<Self> = Export::LeftOut("for an hour, of mails of this installation");
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_END];
    type Key = [u8; 32];
    fn key(&self) -> Self::Key {
        self.key
    }
}

const DELETE_PAST: Sweep = Sweep {
    name: "delete counts of mails that limit nothing",
    every_secs: 600,
    run: |tx: &mut Tx, _: &RetentionSettings| -> Result<SweepProgress> {
        let now = tx.now();
        delete_due(tx, &BY_END, |count: &MailCount| count.free_at <= now)
    },
    installation: true,
};

/// Returns the count after one more mail; `None` if there is no room for it.
fn counted(view: &View, of: CountedFor) -> Result<Option<MailCount>> {
    let (key, now) = (of.key(), view.now());
    let full = now.plus_millis(HOUR_MILLIS);
    let stored = view.get::<MailCount>(&key)?.map(|count| count.free_at);
    // A time further ahead was stored while the clock was: it limits nothing.
    let used_until = stored.filter(|at| *at <= full).map_or(now, |at| at.max(now));
    let free_at = used_until.plus_millis(HOUR_MILLIS / of.most());
    Ok((free_at <= full).then_some(MailCount { key, free_at }))
}

/// Counts a mail for all of these; returns whether there was room for it everywhere. Otherwise nothing
/// is counted.
pub fn take(tx: &mut Tx, of: &[CountedFor]) -> Result<bool> {
    let counts = of.iter().map(|one| counted(&tx.view(), *one));
    let Some(counts) = counts.collect::<Result<Option<Vec<_>>>>()? else { return Ok(false) };
    for count in &counts {
        tx.put(count)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::testing::{Fixture, user};

    fn sent(fixture: &Fixture, address: &'static str, org: Id<Org>) -> bool {
        let email = Email::parse(address).unwrap();
        let write = move |tx: &mut Tx| {
            take(tx, &[CountedFor::Stranger(&email), CountedFor::Organization(org)])
        };
        fixture.store.write_blocking(Id::NIL, write).unwrap()
    }

    #[test]
    fn a_stranger_gets_three_mails_an_hour_whoever_writes() {
        let fixture = Fixture::new();
        let (other, _) = fixture.other_org("globex");
        let orgs = [fixture.org, other, fixture.org, other, fixture.org];
        let addresses =
            ["v@else.test", "v+a@else.test", "v+b@else.test", "v@else.test", "v+c@else.test"];
        let all = addresses.into_iter().zip(orgs);
        let got: Vec<_> = all.map(|(address, org)| sent(&fixture, address, org)).collect();
        assert_eq!(got, [true, true, true, false, false]);
        assert!(sent(&fixture, "+v@else.test", other), "it has no name without the sign");
        assert!(sent(&fixture, "w@else.test", other), "others are not affected");
        fixture.pass_secs(20 * 60);
        assert!(sent(&fixture, "v@else.test", other));
        assert!(!sent(&fixture, "v@else.test", other));
        fixture.pass_secs(3600);
        let sweep = |tx: &mut Tx| (DELETE_PAST.run)(tx, &RetentionSettings::default());
        fixture.store.write_blocking(Id::NIL, sweep).unwrap();
        let left = fixture.store.read_now(Id::NIL, |view| {
            view.count::<MailCount>(crate::store::ListSource::TABLE, &(), 9)
        });
        assert_eq!(left.unwrap(), 0);
    }

    #[test]
    fn what_was_counted_while_the_clock_was_ahead_limits_nothing() {
        let fixture = Fixture::new();
        let email = Email::parse("v@else.test").unwrap();
        let write = move |tx: &mut Tx| {
            let of = CountedFor::Stranger(&email);
            tx.put(&MailCount { key: of.key(), free_at: tx.now().plus_secs(365 * 86_400) })?;
            (0..4).map(|_| take(tx, &[of])).collect::<Result<Vec<_>>>()
        };
        let sent = fixture.store.write_blocking(Id::NIL, write).unwrap();
        assert_eq!(sent, [true, true, true, false]);
    }

    #[test]
    fn an_organization_has_a_budget_for_all_its_mails() {
        let fixture = Fixture::new();
        let org = fixture.org;
        let write = move |tx: &mut Tx| {
            (0..600).try_fold(0, |sent, n| {
                let email = Email::parse(format!("v{n}@else.test"))
                    .map_err(crate::base::Error::internal)?;
                let of = [CountedFor::Stranger(&email), CountedFor::Organization(org)];
                Ok(sent + usize::from(take(tx, &of)?))
            })
        };
        assert_eq!(fixture.store.write_blocking(Id::NIL, write).unwrap(), 500);
    }

    #[test]
    fn each_budget_has_its_number_of_mails_in_an_hour() {
        let fixture = Fixture::new();
        let (org, ben) = (fixture.org, user(&fixture.member));
        let email = Email::parse("v@else.test").unwrap();
        let write = move |tx: &mut Tx| {
            let budgets = [
                CountedFor::Stranger(&email),
                CountedFor::Reader(org, &email),
                CountedFor::Person(ben),
                CountedFor::Organization(org),
            ];
            let mut sent = budgets.map(|_| 0);
            for (budget, sent) in budgets.iter().zip(&mut sent) {
                for _ in 0..600 {
                    *sent += usize::from(take(tx, &[*budget])?);
                }
            }
            Ok(sent)
        };
        assert_eq!(fixture.store.write_blocking(Id::NIL, write).unwrap(), [3, 60, 100, 500]);
    }
}
