//! Recipients: who is written to, who is asked, and what confirming does.

use serde_json::json;

use super::*;
use crate::api::Principal;
use crate::auth::AddressProof;
use crate::base::Kind;
use crate::outbox::{DeliveryAttempt, Notice};
use crate::resources::notifications::channels::tests::create_channel;
use crate::resources::notifications::senders::WORKFLOWS;
use crate::resources::testing::{Fixture, user};
use crate::store::ListSource;

const ADA: &str = "ada@acme.test";
const STRANGER: &str = "v@else.test";

fn mail_channel(fixture: &Fixture, name: &str, to: &[&str]) -> Channel {
    let body = json!({"name": name, "workflow": "email", "config": {"to": to}});
    let made = serde_json::to_value(create_channel(fixture, body).unwrap()).unwrap();
    let id = Id::parse(made["id"].as_str().unwrap());
    fixture.store.read_now(fixture.org, |view| view.fetch(&id)).unwrap()
}

fn taken(fixture: &Fixture, channel: &Channel) -> Result<Vec<String>> {
    let channel = channel.clone();
    let taken = fixture.store.write_blocking(fixture.org, move |tx| take(tx, &channel))?;
    Ok(taken.into_iter().map(Email::into_string).collect())
}

fn asked(fixture: &Fixture) -> Vec<MailRecipient> {
    let read = |view: &View| view.all(ListSource::TABLE, &fixture.org);
    fixture.store.read_now(Id::NIL, read).unwrap()
}

fn confirm_with(fixture: &Fixture, token: &str) -> Result<ConfirmedRecipient> {
    let body = Fixture::input(json!({ "token": token })).unwrap();
    let args = crate::resources::testing::args((), body);
    let confirm = move |tx: &mut Tx| confirm(tx, &Req::new(&args, &Principal::Anonymous));
    fixture.store.write_blocking(Id::NIL, confirm)
}

fn token_of(fixture: &Fixture, one: &MailRecipient) -> String {
    let id = one.id;
    fixture.store.write_blocking(Id::NIL, move |tx| Ok(token(tx, id))).unwrap()
}

#[test]
fn a_mail_goes_to_verified_members_and_to_who_has_confirmed() {
    let fixture = Fixture::new();
    let channel = mail_channel(&fixture, "Ops", &[ADA, STRANGER]);
    let shown = |fixture: &Fixture| {
        let read = |view: &View| unconfirmed(view, &channel);
        fixture.store.read_now(fixture.org, read).unwrap().len()
    };
    assert_eq!((taken(&fixture, &channel).unwrap(), shown(&fixture)), (vec![ADA.into()], 1));
    let one = asked(&fixture).pop().unwrap();
    assert_eq!(one.email.as_str(), STRANGER);
    let token = token_of(&fixture, &one);
    assert_eq!(confirm_with(&fixture, "nope").unwrap_err().kind(), Kind::NotFound);
    let done = confirm_with(&fixture, &token).unwrap();
    assert_eq!((done.email.as_str(), done.organization.as_str()), (STRANGER, "acme"));
    confirm_with(&fixture, &token).unwrap();
    assert_eq!(taken(&fixture, &channel).unwrap(), [ADA, STRANGER]);
    assert_eq!(shown(&fixture), 0);

    // It is for this organization alone.
    let (other, eve) = fixture.other_org("globex");
    let there = Fixture { owner: eve, org: other, ..fixture.clone() };
    let theirs = mail_channel(&there, "Ops", &[STRANGER, ADA]);
    let refused = taken(&there, &theirs).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "no_recipient"));
    fixture.assert_sound();
}

#[test]
fn a_link_that_is_not_used_is_void_after_a_week_and_forgotten() {
    let fixture = Fixture::new();
    mail_channel(&fixture, "Ops", &[STRANGER]);
    let one = asked(&fixture).pop().unwrap();
    let token = token_of(&fixture, &one);
    fixture.pass_secs(VALID_SECS);
    assert_eq!(confirm_with(&fixture, &token).unwrap_err().kind(), Kind::NotFound);
    let sweep = |tx: &mut Tx| (FORGET_UNANSWERED.run)(tx, &RetentionSettings::default());
    fixture.store.write_blocking(Id::NIL, sweep).unwrap();
    assert_eq!(asked(&fixture).len(), 0);
}

#[test]
fn a_stranger_is_asked_three_times_an_hour_whoever_asks() {
    let fixture = Fixture::new();
    let (other, eve) = fixture.other_org("globex");
    let there = Fixture { owner: eve, org: other, ..fixture.clone() };
    let jobs = |fixture: &Fixture| {
        let all =
            fixture.store.read_now(fixture.org, |view| view.all::<Job>(ListSource::TABLE, &()));
        all.unwrap().iter().filter(|job| job.kind == ASK.kind).count()
    };
    for _ in 0..3 {
        mail_channel(&fixture, "Ops", &[STRANGER]);
        mail_channel(&there, "Ops", &[STRANGER]);
    }
    let asked = jobs(&fixture);
    assert_eq!(asked, 3, "of both organizations together");
}

#[test]
fn a_member_whose_address_the_organization_does_not_consider_verified_must_confirm() {
    let fixture = Fixture::new();
    let key = (user(&fixture.member), fixture.org);
    let unverified = move |tx: &mut Tx| {
        let old: Membership = tx.fetch(&key)?;
        tx.put(&Membership { email_verified: false, ..old })
    };
    fixture.store.write_blocking(fixture.org, unverified).unwrap();
    let channel = mail_channel(&fixture, "Ops", &["ben@acme.test"]);
    assert_eq!(taken(&fixture, &channel).unwrap_err().code(), "no_recipient");
    let token = token_of(&fixture, &asked(&fixture).pop().unwrap());
    confirm_with(&fixture, &token).unwrap();
    assert_eq!(taken(&fixture, &channel).unwrap(), ["ben@acme.test"]);
}

#[test]
fn a_member_who_has_not_proved_the_address_gets_as_little_as_a_stranger() {
    let fixture = Fixture::new();
    let channel = mail_channel(&fixture, "Ops", &["ben@acme.test"]);
    let ben = user(&fixture.member);
    let unproved = move |tx: &mut Tx| {
        let old: User = tx.fetch(&ben)?;
        tx.replace(&old, &User { proof: AddressProof::Unproved, ..old.clone() })
    };
    for _ in 0..5 {
        assert!(taken(&fixture, &channel).is_ok());
    }
    fixture.store.write_blocking(Id::NIL, unproved).unwrap();
    let sent = (0..5).filter(|_| taken(&fixture, &channel).is_ok()).count();
    assert_eq!(sent, 3);
    let refused = taken(&fixture, &channel).unwrap_err();
    assert_eq!(refused.code(), "mail_budget_used");
}

#[test]
fn a_mail_repeats_no_link_that_a_member_has_written() {
    let fixture = Fixture::new();
    let channel = mail_channel(&fixture, "Ops http://evil.test", &[ADA]);
    let notice = Notice {
        id: Id::NIL,
        event_type: None,
        at: fixture.store.clock().now(),
        payload: crate::base::Json(json!({"title": "Locked: http://evil.test/unlock",
            "more": [{"url": "www.evil.test", "http://evil.test/name": 1}]})),
        guarded_by: vec![],
    };
    let attempt = DeliveryAttempt { channel, notice };
    let workflow = WORKFLOWS.iter().find(|one| one.key == "email").unwrap();
    let effect =
        fixture.store.write_blocking(fixture.org, move |tx| (workflow.effect)(tx, &attempt));
    let Ok(Effect::Mail(mail)) = effect else { panic!("a mail") };
    let all = format!("{} {} {}", mail.subject, mail.text, mail.html.unwrap());
    assert!(!all.contains("evil.test") && all.contains("evil[.]test/unlock"), "{all}");
}
