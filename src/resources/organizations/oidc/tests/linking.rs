//! Linking accounts of providers to people.

use super::*;

#[test]
fn who_has_a_password_confirms_the_link_in_a_session() {
    let world = World::new();
    let ada = with_password(&world.fixture, &world.fixture.owner);
    let found = world.sign_in(json!({"email": "ada@acme.test"})).unwrap();
    assert!(found.session.is_none());
    let confirmation = found.confirmation.unwrap();
    let token = session(&world.fixture.store, &ada);
    let link = |confirmation: &str| {
        linked(&world, &token, json!({"confirmation": confirmation, "password": PASSWORD}))
    };
    assert_eq!(refusal(link("x")), (Kind::Conflict, "sign_in_expired"));
    // A session alone makes no way in that outlasts it.
    let alone = linked(&world, &token, json!({"confirmation": confirmation}));
    assert_eq!(refusal(alone).0, Kind::Invalid);
    let wrong = json!({"confirmation": confirmation, "password": "wrong horse"});
    assert_eq!(refusal(linked(&world, &token, wrong)), (Kind::Forbidden, "wrong_password"));
    link(&confirmation).unwrap();
    assert_eq!(refusal(link(&confirmation)), (Kind::Conflict, "sign_in_expired"));
    let finished = world.sign_in(json!({"email": "ada@acme.test"})).unwrap();
    assert_eq!(signed_in_user(&world, &finished), ada.id);
    // Ten minutes later it is of no use.
    let found = world.sign_in(json!({"sub": "s-9", "email": "ada@acme.test"})).unwrap();
    world.fixture.pass_secs(600);
    assert_eq!(refusal(link(&found.confirmation.unwrap())), (Kind::Conflict, "sign_in_expired"));
    world.fixture.assert_sound();
}

/// Links an account of the provider in the session of a token.
pub(super) fn linked(world: &World, token: &str, body: Value) -> Result<links::LinkInfo> {
    let store = &world.fixture.store;
    let who = signed_in(store, token);
    counting(store, &who, links::prepare, links::create, Fixture::input(body)?)
}

/// The confirmation of a sign-in with another account of the provider.
fn confirmation(world: &World, subject: &str, email: &str) -> String {
    let found = world.sign_in(json!({"sub": subject, "email": email})).unwrap();
    found.confirmation.expect("a link is to be confirmed")
}

#[test]
fn a_link_takes_the_code_of_a_second_factor_and_the_person_is_told_by_mail() {
    let world = World::new();
    let fixture = &world.fixture;
    let ada = guarded(fixture, &fixture.owner);
    fixture.pass_secs(60);
    let confirmation = confirmation(&world, "s-1", "ada@acme.test");
    let link = |code: Option<String>| {
        let body = json!({"confirmation": confirmation, "password": PASSWORD, "code": code});
        linked(&world, &ada.token, body)
    };
    assert_eq!(refusal(link(None)).0, Kind::Invalid);
    assert_eq!(refusal(link(Some("000000".into()))), (Kind::Forbidden, "wrong_code"));
    link(Some(ada.code(fixture, 0))).unwrap();
    let told = fixture.store.write_blocking(Id::NIL, |tx| {
        let jobs: Vec<Job> = tx.view().all(ListSource::TABLE, &())?;
        let job = jobs.into_iter().find(|job| job.kind == links::NOTICE.kind);
        Ok(match links::write_notice(tx, &job.expect("there is a job"))? {
            Prepared::Effect(Effect::Mail(mail)) => Some(mail),
            _ => None,
        })
    });
    let mail = told.unwrap().expect("a mail");
    assert_eq!(mail.to, [ada.user.email]);
    assert!(mail.text.contains("of the provider kc was linked"), "{}", mail.text);
    fixture.assert_sound();
}

#[test]
fn who_has_no_password_links_another_account_in_a_session_of_a_provider_alone() {
    let world = World::new();
    let store = &world.fixture.store;
    let token = token_of(&world.sign_in(json!({"email": "ben@acme.test"})).unwrap());
    let second = || json!({"confirmation": confirmation(&world, "s-2", "ben@acme.test")});
    let ben = world.person("ben@acme.test").unwrap();
    let other = refusal(linked(&world, &session(store, &ben), second()));
    assert_eq!(other, (Kind::Forbidden, "provider_session_required"));
    let made = linked(&world, &token, second()).unwrap();
    // Nor does an old session, which the new link would prove anew.
    let old = token_of(&world.sign_in(json!({"sub": "s-1"})).unwrap());
    world.fixture.pass_secs(900);
    let third = json!({"confirmation": confirmation(&world, "s-3", "ben@acme.test")});
    let refused = refusal(linked(&world, &old, third));
    assert_eq!(refused, (Kind::Unauthenticated, "insufficient_user_authentication"));
    // Unlinking it ends the sessions that were begun with it, but the one that does so.
    let other = token_of(&world.sign_in(json!({"sub": "s-2"})).unwrap());
    foreign_provider::unlinked(&world, &token, made.id).unwrap();
    assert!(identity_of(store, &token).is_ok() && identity_of(store, &other).is_err());
    world.fixture.assert_sound();
}

#[test]
fn what_somebody_linked_to_an_account_that_is_taken_over_is_gone() {
    let world = World::new();
    world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    let ben = user(&world.fixture.member);
    let unlink = || {
        let read = |view: &crate::store::View| view.all::<SignInLink>(ListSource::TABLE, &ben);
        world.fixture.store.read_now(Id::NIL, read).unwrap()
    };
    let link = unlink()[0].id;
    let foreign = world.fixture.write_as(&world.fixture.owner, links::delete, link, ());
    assert_eq!(refusal(foreign).0, Kind::NotFound);
    let who = world.fixture.member.clone();
    let refused = world.fixture.write_as(&who, links::delete, link, ());
    assert_eq!(refusal(refused), (Kind::Conflict, "only_way_to_sign_in"));
    let take_over = move |tx: &mut Tx, proof| {
        let old: User = tx.fetch(&ben)?;
        let unproved = User { proof, ..old.clone() };
        tx.replace(&old, &unproved)?;
        accounts::set_password(tx, &unproved, Some("hash".into()), true).map(|_| ())
    };
    let store = &world.fixture.store;
    store.write_blocking(Id::NIL, move |tx| take_over(tx, AddressProof::Proved)).unwrap();
    assert_eq!(unlink().len(), 1);
    // Neither of an account of before proofs were asked for.
    for proof in [AddressProof::Unproved, AddressProof::Unknown] {
        store.write_blocking(Id::NIL, move |tx| take_over(tx, proof)).unwrap();
        assert!(unlink().is_empty());
        let again = SignInLink {
            id: Id::NIL,
            user: ben,
            provider: "kc".into(),
            issuer: ISSUER.into(),
            subject: "s-7".into(),
            email: None,
            linked_at: NOON,
        };
        store.write_blocking(Id::NIL, move |tx| tx.put(&again)).unwrap();
    }
}

/// Signs in with the provider under the name that it has now.
fn signed_in_as(world: &World, provider: &str, claims: Value) -> String {
    world.says(claims);
    let begun = world.begin(json!({ "provider": provider }));
    let answer = json!({"provider": provider, "state": world.state(), "code": "good"});
    token_of(&world.finish(&begun.attempt, answer).unwrap())
}

#[test]
fn unlinking_ends_the_sessions_of_a_provider_that_has_another_name_now() {
    let mut world = World::new();
    let before = signed_in_as(&world, "kc", json!({"email": "ben@acme.test"}));
    world.server = configured("keycloak", false);
    let after = signed_in_as(&world, "keycloak", json!({}));
    // One of another provider that has the name which this one had.
    let ben = world.person("ben@acme.test").unwrap();
    let other = session(&world.fixture.store, &ben);
    let id = require_session(&identity_of(&world.fixture.store, &other).unwrap());
    let subject = Some([7; 32]);
    let of_other = ProviderSession { session: id, provider: "kc".into(), subject, sid: None };
    world.fixture.store.write_blocking(Id::NIL, move |tx| tx.insert(&of_other)).unwrap();
    let link = withdrawing::links_of_ben(&world)[0];
    withdrawing::unlink(&world, link);
    let is_valid = |token: &String| identity_of(&world.fixture.store, token).is_ok();
    assert_eq!([&before, &after, &other].map(is_valid), [false, false, true]);
    world.fixture.assert_sound();
}

#[test]
fn what_is_over_or_guesses_nothing_is_no_attempt_to_sign_in() {
    let world = World::new();
    let store = &world.fixture.store;
    let ada = with_password(&world.fixture, &world.fixture.owner);
    let confirmation = confirmation(&world, "s-1", "ada@acme.test");
    let token = session(store, &ada);
    let plan = |body: Value| {
        let (parts, who) = (args((), Fixture::input(body).unwrap()), signed_in(store, &token));
        let plan = |view: &crate::store::View| links::prepare(view, &Req::new(&parts, &who));
        store.read_now(Id::NIL, plan).map(|plan| plan.attempt.is_some())
    };
    let with = |password: Value, code: Value| {
        plan(json!({"confirmation": confirmation, "password": password, "code": code}))
    };
    assert!(!with(Value::Null, Value::Null).unwrap());
    assert!(with(json!("wrong horse"), Value::Null).unwrap());
    assert!(with(Value::Null, json!("000000")).unwrap());
    let expired = (Kind::Conflict, "sign_in_expired");
    let stale = || plan(json!({"confirmation": "x", "password": PASSWORD}));
    assert_eq!(refusal(stale()), expired);
    linked(&world, &token, json!({"confirmation": confirmation, "password": PASSWORD})).unwrap();
    assert_eq!(refusal(with(json!(PASSWORD), Value::Null)), expired, "it was used");
}
