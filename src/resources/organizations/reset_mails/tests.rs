//! Tests of what is written for whom, and of the jobs that send it.

use std::sync::Arc;

use serde_json::json;

use super::super::password_reset::{Admin, issue_password_reset};
use super::super::tests::hashing;
use super::*;
use crate::api::Principal;
use crate::auth::AddressProof;
use crate::base::Kind;
use crate::outbox::Target;
use crate::resources::testing::{Fixture, args, user};
use crate::store::ListSource;

fn forget(fixture: &Fixture, email: &str) -> Result<Empty> {
    let input = Fixture::input(json!({ "email": email })).unwrap();
    hashing(&fixture.store, &Principal::Anonymous, prepare, ask, input)
}

fn jobs(fixture: &Fixture) -> Vec<Job> {
    fixture.store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &())).unwrap()
}

/// Runs the jobs that look for users, and returns the mails of those that send.
fn mails(fixture: &Fixture) -> Vec<Mail> {
    let mut mails = Vec::new();
    while let Some(job) = jobs(fixture).into_iter().next() {
        let mail = fixture.store.write_blocking(Id::NIL, move |tx| {
            let prepared = match job.kind.as_str() {
                "password_reset.find_users" => find_users(tx, &job)?,
                _ => write_mail(tx, &job)?,
            };
            if !matches!(prepared, Prepared::RetryAt(_)) {
                tx.remove(&job)?;
            }
            Ok(match prepared {
                Prepared::Effect(Effect::Mail(mail)) => Some(mail),
                _ => None,
            })
        });
        mails.extend(mail.unwrap());
    }
    mails
}

/// What a request leaves before any job has run.
fn left_by(email: &str) -> (usize, usize, usize) {
    let fixture = Fixture::new();
    forget(&fixture, email).unwrap();
    let left = |view: &View| {
        let requests: Vec<ResetRequests> = view.all(ListSource::TABLE, &())?;
        let mails: Vec<ResetMails> = view.all(ListSource::TABLE, &())?;
        Ok((requests.len(), mails.len()))
    };
    let (requests, mails) = fixture.store.read_now(Id::NIL, left).unwrap();
    (requests, mails, jobs(&fixture).len())
}

#[test]
fn a_request_leaves_the_same_whether_or_not_the_address_has_an_account() {
    assert_eq!(left_by("ada@acme.test"), (1, 0, 1));
    assert_eq!(left_by("nobody@acme.test"), (1, 0, 1));
}

#[test]
fn only_an_address_with_an_account_gets_a_mail_with_a_link() {
    let fixture = Fixture::new();
    forget(&fixture, "nobody@acme.test").unwrap();
    forget(&fixture, "Ada@Acme.test").unwrap();
    let mails = mails(&fixture);
    let [mail] = mails.as_slice() else { panic!("{} mails", mails.len()) };
    assert_eq!(mail.to, [Email::parse("ada@acme.test").unwrap()]);
    assert!(mail.text.contains("\nhttp://127.0.0.1:7420/reset-password#"), "{}", mail.text);
    assert!(jobs(&fixture).is_empty());
    fixture.assert_sound();
}

#[test]
fn an_admins_link_keeps_no_mail_from_the_address_of_an_account_that_is_not_proved() {
    let fixture = Fixture::new();
    let (ben, by) = (user(&fixture.member), Admin { org: fixture.org, user: user(&fixture.owner) });
    let link = move |tx: &mut Tx| {
        let user: User = tx.fetch(&ben)?;
        issue(tx, &user, Origin::Admin(by))
    };
    fixture.store.write_blocking(Id::NIL, link).unwrap();
    forget(&fixture, "ben@acme.test").unwrap();
    assert_eq!(mails(&fixture).len(), 0);
    let unprove = move |tx: &mut Tx| {
        let user: User = tx.fetch(&ben)?;
        tx.replace(&user, &User { proof: AddressProof::Unproved, ..user.clone() })
    };
    fixture.store.write_blocking(Id::NIL, unprove).unwrap();
    forget(&fixture, "ben@acme.test").unwrap();
    assert_eq!(mails(&fixture).len(), 1);
    fixture.assert_sound();
}

#[test]
fn an_address_gets_three_mails_an_hour() {
    let fixture = Fixture::new();
    let mut sent = 0;
    for _ in 0..6 {
        forget(&fixture, "ada@acme.test").unwrap();
        sent += mails(&fixture).len();
    }
    assert_eq!(sent, MAX_MAILS);
    fixture.pass_secs(MAILS_SECS);
    forget(&fixture, "ada@acme.test").unwrap();
    assert_eq!(mails(&fixture).len(), 1);
}

#[test]
fn a_request_while_another_of_the_address_waits_adds_nothing() {
    let fixture = Fixture::new();
    for _ in 0..9 {
        forget(&fixture, "ada@acme.test").unwrap();
    }
    assert_eq!(jobs(&fixture).len(), 1);
    assert_eq!(mails(&fixture).len(), 1);
}

#[test]
fn waiting_requests_are_limited_and_handled_in_parts() {
    let fixture = Fixture::new();
    for n in 0..MAX_WAITING {
        forget(&fixture, &format!("{n}@nowhere.test")).unwrap();
    }
    for email in ["ada@acme.test", "nobody@nowhere.test"] {
        let refused = forget(&fixture, email).err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Busy, "overloaded"));
    }
    assert!(mails(&fixture).is_empty());
    forget(&fixture, "ada@acme.test").unwrap();
    assert_eq!(mails(&fixture).len(), 1);
}

#[test]
fn a_mailed_link_does_not_replace_one_that_was_given_in_person() {
    let fixture = Fixture::new();
    let Principal::Caller(ada) = &fixture.owner else { panic!("no caller of an organization") };
    let id = ada.user();
    let given = move |tx: &mut Tx| {
        let user = tx.fetch(&id)?;
        issue_password_reset(tx, &user)
    };
    fixture.store.write_blocking(Id::NIL, given).unwrap();
    forget(&fixture, "ada@acme.test").unwrap();
    assert!(mails(&fixture).is_empty());
    fixture.pass_secs(VALID_SECS);
    forget(&fixture, "ada@acme.test").unwrap();
    assert_eq!(mails(&fixture).len(), 1);
}

#[test]
fn a_link_that_was_given_before_the_mail_is_written_is_kept() {
    let fixture = Fixture::new();
    forget(&fixture, "ada@acme.test").unwrap();
    let [find] = jobs(&fixture).try_into().unwrap();
    let note = move |tx: &mut Tx| {
        find_users(tx, &find)?;
        tx.remove(&find)
    };
    fixture.store.write_blocking(Id::NIL, note).unwrap();
    let Principal::Caller(ada) = &fixture.owner else { panic!("no caller of an organization") };
    let id = ada.user();
    let given = move |tx: &mut Tx| {
        let user = tx.fetch(&id)?;
        issue_password_reset(tx, &user)
    };
    fixture.store.write_blocking(Id::NIL, given).unwrap();
    assert!(mails(&fixture).is_empty());
}

#[test]
fn a_mail_that_fails_is_sent_again_as_long_as_its_link_would_be_valid() {
    let fixture = Fixture::new();
    let created_at = fixture.store.clock().now();
    let job = |attempts| Job {
        id: Id::NIL,
        org: Id::NIL,
        kind: "password_reset.mail".into(),
        target: Id::<Target>::NIL,
        concurrency_key: None,
        due_at: created_at,
        attempts,
        created_at,
        failing_since: None,
        failures: 0,
        dead: false,
        trace: None,
        scheduled_at: None,
        effect_done: false,
    };
    let settle = |attempts| {
        let (job, failed) = (job(attempts), EffectResult::Failed("it is down".into()));
        fixture.store.write_blocking(Id::NIL, move |tx| sent(tx, &job, &failed)).unwrap()
    };
    assert!(matches!(settle(1), Settled::RetryAt(_)));
    assert!(matches!(settle(2), Settled::RetryAt(_)));
    assert!(matches!(settle(3), Settled::Warning(why) if why.contains("it is down")));
}

#[test]
fn a_server_that_cannot_send_mail_says_so_for_every_address() {
    let fixture = Fixture::new();
    for (sends_mail, link_base) in [(false, "http://127.0.0.1:7420"), (true, "")] {
        for email in ["ada@acme.test", "nobody@acme.test"] {
            let input = Fixture::input(json!({ "email": email })).unwrap();
            let mut args = args((), input);
            Arc::get_mut(&mut args.server).unwrap().sends_mail = sends_mail;
            Arc::get_mut(&mut args.origin).unwrap().link_base = link_base.into();
            let plan = fixture.store.read_now(Id::NIL, |view| {
                prepare(view, &Req::new(&args, &Principal::Anonymous)).map(drop)
            });
            assert_eq!(plan.err().unwrap().code(), "mail_not_configured");
        }
    }
}

#[test]
fn what_was_asked_for_longer_ago_than_a_link_is_valid_is_not_mailed() {
    let fixture = Fixture::new();
    let email = "ada@acme.test";
    forget(&fixture, email).unwrap();
    fixture.pass_secs(VALID_SECS + 1);
    assert_eq!(mails(&fixture).len(), 0, "whose account it is was to be found");
    forget(&fixture, email).unwrap();
    let find = jobs(&fixture).remove(0);
    let look = move |tx: &mut Tx| find_users(tx, &find).and_then(|_| tx.remove(&find));
    fixture.store.write_blocking(Id::NIL, look).unwrap();
    fixture.pass_secs(VALID_SECS + 1);
    assert_eq!(mails(&fixture).len(), 0, "the mail was to be written");
}

#[test]
fn requests_whose_job_was_given_up_or_lost_have_another_one_with_the_next() {
    let fixture = Fixture::new();
    let email = "ada@acme.test";
    let give_up = |tx: &mut Tx, job: &Job| tx.replace(job, &Job { dead: true, ..job.clone() });
    let lose = |tx: &mut Tx, job: &Job| tx.remove(job);
    forget(&fixture, email).unwrap();
    for end in [give_up as fn(&mut Tx, &Job) -> Result<()>, lose] {
        let job = jobs(&fixture).into_iter().find(|job| !job.dead).unwrap();
        fixture.store.write_blocking(Id::NIL, move |tx| end(tx, &job)).unwrap();
        forget(&fixture, email).unwrap();
        assert_eq!(jobs(&fixture).iter().filter(|job| !job.dead).count(), 1);
    }
    assert_eq!(mails(&fixture).len(), 1);
}
