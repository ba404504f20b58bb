//! Resetting the second factor of a member: who may, and who hears of it.

use super::super::second_factor::tests::guarded;
use super::*;
use crate::auth::{RequiredProvider, SecondFactor, has_second_factor};
use crate::base::Kind;
use crate::resources::mail_budget::{self, CountedFor};
use crate::resources::testing::{Fixture, user};
use crate::store::{ListSource, View};

fn refusal<T>(done: Result<T>) -> (Kind, &'static str) {
    let error = done.err().expect("it is refused");
    (error.kind(), error.code())
}

#[test]
fn an_admin_resets_it_and_the_person_sees_that() {
    let fixture = Fixture::new();
    let ben = user(&fixture.member);
    let none = refusal(fixture.write_as(&fixture.owner, reset, ben, ()));
    assert_eq!(none.0, Kind::NotFound);
    guarded(&fixture, &fixture.member);
    fixture.write_as(&fixture.owner, reset, ben, ()).unwrap();
    let (is_on, factor) = fixture
        .store
        .read_now(Id::NIL, |view| {
            Ok((has_second_factor(view, ben)?, view.fetch::<SecondFactor>(&ben)?))
        })
        .unwrap();
    assert!(!is_on && factor.reset_at.is_some() && factor.recovery_codes_left() == 0);
    let again = refusal(fixture.write_as(&fixture.owner, reset, ben, ()));
    assert_eq!(again.0, Kind::NotFound);
    // The next one begins as the first did.
    guarded(&fixture, &fixture.member);
    fixture.assert_sound();
}

#[test]
fn who_resets_it_is_who_may_make_a_link_for_a_new_password() {
    let fixture = Fixture::new();
    let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
    guarded(&fixture, &fixture.owner);
    let own = refusal(fixture.write_as(&fixture.owner, reset, ada, ()));
    assert_eq!(own, (Kind::Forbidden, "own_second_factor"));
    let of_owner = refusal(fixture.write_as(&fixture.member, reset, ada, ()));
    assert_eq!(of_owner, (Kind::Forbidden, "owner_required"));
    // Who is a member elsewhere, too, is not this organization's to let in.
    guarded(&fixture, &fixture.member);
    let (other, _) = fixture.other_org("globex");
    let join = move |tx: &mut Tx| {
        let (role, joined_at) = (crate::auth::Role::Member, tx.now());
        tx.insert(&Membership { user: ben, org: other, role, email_verified: true, joined_at })
    };
    fixture.store.write_blocking(Id::NIL, join).unwrap();
    let elsewhere = refusal(fixture.write_as(&fixture.owner, reset, ben, ()));
    assert_eq!(elsewhere, (Kind::Conflict, "member_elsewhere"));
    let (_, eve) = fixture.other_org("initech");
    let foreign = refusal(fixture.write_as(&fixture.owner, reset, user(&eve), ()));
    assert_eq!(foreign.0, Kind::NotFound);
}

#[test]
fn that_of_the_owner_who_is_let_in_with_a_password_is_not_reset() {
    let fixture = Fixture::new();
    let ben = guarded(&fixture, &fixture.member).user.id;
    let org = fixture.org;
    let require = move |tx: &mut Tx| {
        let (providers, required_at) = (vec!["kc".into()], tx.now());
        tx.insert(&RequiredProvider { org, break_glass: ben, providers, required_at })
    };
    fixture.store.write_blocking(org, require).unwrap();
    let refused = refusal(fixture.write_as(&fixture.owner, reset, ben, ()));
    assert_eq!(refused, (Kind::Conflict, "is_break_glass_owner"));
    let is_on = fixture.store.read_now(Id::NIL, |view| has_second_factor(view, ben));
    assert!(is_on.unwrap());
}

#[test]
fn the_person_is_told_however_many_mails_were_sent() {
    let fixture = Fixture::new();
    let ben = guarded(&fixture, &fixture.member).user;
    let (org, by, id) = (fixture.org, user(&fixture.owner), ben.id);
    // The admin who resets it uses up what they and the organization may have mailed.
    let spend = move |tx: &mut Tx| {
        let counted = [
            CountedFor::Reader(org, &ben.email),
            CountedFor::Person(by),
            CountedFor::Organization(org),
        ];
        while mail_budget::take(tx, &counted)? {}
        Ok(())
    };
    fixture.store.write_blocking(org, spend).unwrap();
    fixture.write_as(&fixture.owner, reset, id, ()).unwrap();
    let jobs = |view: &View| view.all::<Job>(ListSource::TABLE, &());
    let jobs = fixture.store.read_now(fixture.org, jobs).unwrap();
    assert!(jobs.iter().any(|job| job.kind == NOTICE.kind));
}

#[test]
fn the_person_is_told_by_mail() {
    let fixture = Fixture::new();
    let ben = guarded(&fixture, &fixture.member).user;
    fixture.write_as(&fixture.owner, reset, ben.id, ()).unwrap();
    let told = fixture.store.write_blocking(fixture.org, |tx| {
        let jobs: Vec<Job> = tx.view().all(ListSource::TABLE, &())?;
        let job = jobs.into_iter().find(|job| job.kind == NOTICE.kind);
        Ok(match write_notice(tx, &job.expect("there is a job"))? {
            Prepared::Effect(Effect::Mail(mail)) => Some(mail),
            _ => None,
        })
    });
    let mail = told.unwrap().expect("a mail");
    assert_eq!(mail.to, [ben.email]);
    assert!(mail.text.contains("An admin of acme"), "{}", mail.text);
}
