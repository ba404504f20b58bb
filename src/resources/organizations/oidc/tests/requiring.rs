//! Organizations that require a provider.

use super::linking::linked;
use super::*;
use crate::auth::{AddressProof, RequiredProvider, reset_second_factor};

#[test]
fn where_a_provider_is_required_a_password_is_enough_for_one_owner_alone() {
    let world = World::new();
    let fixture = &world.fixture;
    let ada = with_password(fixture, &fixture.owner);
    let ben = with_password(fixture, &fixture.member);
    let body = |user: Id<User>| json!({"domains": [], "breakGlassUserId": user.to_string()});
    assert_eq!(refusal(world.settings(&fixture.owner, body(ben.id))).0, Kind::Invalid);
    // A password alone is too little for who is let in with it.
    assert_eq!(refusal(world.settings(&fixture.owner, body(ada.id))).0, Kind::Invalid);
    let ada = guarded(fixture, &fixture.owner).user;
    // Nor is an account enough that the next proof takes over.
    let (id, prove) = (ada.id, |id: Id<User>, proof| {
        let change = move |tx: &mut Tx| {
            let old: User = tx.fetch(&id)?;
            tx.replace(&old, &User { proof, ..old.clone() })
        };
        fixture.store.write_blocking(Id::NIL, change).unwrap();
    });
    prove(id, AddressProof::Unproved);
    assert_eq!(refusal(world.settings(&fixture.owner, body(id))).0, Kind::Invalid);
    prove(id, AddressProof::Proved);
    let mut unknown = body(ada.id);
    unknown["providers"] = json!(["other"]);
    assert_eq!(refusal(world.settings(&fixture.owner, unknown)).0, Kind::Invalid);
    let set = world.settings(&fixture.owner, body(ada.id)).unwrap();
    assert_eq!(serde_json::to_value(set).unwrap()["providers"], json!(["kc"]));
    let entering = |token: &str| {
        let authenticator = Authenticator::new(Tokens::new(fixture.store.keys()));
        let credential = RawCredential::Token(token.into());
        let enter = |view: &crate::store::View| {
            authenticator.authorize(view, &credential, "acme").map(|_| ())
        };
        fixture.store.read_now(Id::NIL, enter)
    };
    let password = |user| crate::resources::organizations::tests::session(&fixture.store, user);
    assert!(entering(&password(&ada)).is_ok());
    assert_eq!(refusal(entering(&password(&ben))), (Kind::Forbidden, "provider_required"));
    // With the provider Ben gets in.
    let found = world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    let input = json!({"confirmation": found.confirmation, "password": PASSWORD});
    linked(&world, &password(&ben), input).unwrap();
    let finished = world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    assert!(entering(&token_of(&finished)).is_ok());
    // Another provider of the installation is not enough.
    with_provider(&world, &token_of(&finished), "other");
    assert_eq!(refusal(entering(&token_of(&finished))), (Kind::Forbidden, "provider_required"));
    // Who is let in with a password stays a member.
    let org = fixture.org;
    let left = fixture.store.write_blocking(org, move |tx| {
        let membership: Membership = tx.fetch(&(ada.id, org))?;
        tx.remove(&membership)
    });
    assert_eq!(refusal(left).1, "is_break_glass_owner");
    world.settings(&fixture.owner, json!({"domains": []})).unwrap();
    assert!(entering(&password(&ben)).is_ok());
    fixture.assert_sound();
}

/// Makes a session one that was begun with this provider.
pub(super) fn with_provider(world: &World, token: &str, provider: &str) {
    let Principal::Identity(identity) = signed_in(&world.fixture.store, token) else {
        unreachable!("a session")
    };
    let session = require_session(&identity);
    let provider = provider.to_string();
    let begun = ProviderSession { session, provider, subject: None, sid: None };
    world.fixture.store.write_blocking(Id::NIL, move |tx| tx.put(&begun)).unwrap();
}

#[test]
fn a_required_second_factor_is_spared_by_the_required_provider_alone() {
    let world = World::new();
    let fixture = &world.fixture;
    let ada = guarded(fixture, &fixture.owner).user;
    let org = fixture.org;
    let require = move |tx: &mut Tx| tx.insert(&SecondFactorRule { org, since: tx.now() });
    fixture.store.write_blocking(org, require).unwrap();
    let token = token_of(&world.sign_in(json!({"email": "ben@acme.test"})).unwrap());
    let lacks = |token: &str| {
        let authenticator = Authenticator::new(Tokens::new(fixture.store.keys()));
        let credential = RawCredential::Token(token.into());
        let enter = |view: &crate::store::View| authenticator.authorize(view, &credential, "acme");
        fixture.store.read_now(Id::NIL, enter).map(|caller| caller.lacks_second_factor)
    };
    assert!(!lacks(&token).unwrap());
    // Where none is required, each is enough.
    with_provider(&world, &token, "other");
    assert!(!lacks(&token).unwrap());
    let body = json!({"domains": [], "breakGlassUserId": ada.id.to_string()});
    world.settings(&fixture.owner, body).unwrap();
    assert_eq!(refusal(lacks(&token)).1, "provider_required");
    // The owner who is let in with each is asked for it still, once the operator has reset it.
    let reset = move |tx: &mut Tx| {
        assert!(reset_second_factor(tx, ada.id)?);
        tx.fetch::<User>(&ada.id)
    };
    let ada = fixture.store.write_blocking(Id::NIL, reset).unwrap();
    let token = session(&fixture.store, &ada);
    assert!(lacks(&token).unwrap());
    with_provider(&world, &token, "other");
    assert_eq!(refusal(lacks(&token)).1, "provider_required");
    with_provider(&world, &token, "kc");
    assert!(!lacks(&token).unwrap());
    fixture.assert_sound();
}

#[test]
fn the_owner_who_is_let_in_with_a_password_is_not_in_a_session_of_another_provider() {
    let world = World::new();
    let fixture = &world.fixture;
    let ada = guarded(fixture, &fixture.owner);
    fixture.pass_secs(60);
    let sign_in = || world.sign_in(json!({"email": "ada@acme.test"}));
    let confirmation = sign_in().unwrap().confirmation;
    let code = ada.code(fixture, 0);
    let input = json!({"confirmation": confirmation, "password": PASSWORD, "code": code});
    linked(&world, &ada.token, input).unwrap();
    let (org, break_glass) = (fixture.org, ada.user.id);
    let require = |provider: &str| {
        let (providers, required_at) = (vec![provider.to_string()], NOON);
        let required = RequiredProvider { org, break_glass, providers, required_at };
        fixture.store.write_blocking(org, move |tx| tx.put(&required)).unwrap();
    };
    let enters = |token: &str| {
        let authenticator = Authenticator::new(Tokens::new(fixture.store.keys()));
        let credential = RawCredential::Token(token.into());
        let enter = |view: &crate::store::View| {
            authenticator.authorize(view, &credential, "acme").map(|_| ())
        };
        fixture.store.read_now(Id::NIL, enter)
    };
    require("other");
    // The provider signs them in as everywhere else on the server, and the organization refuses it.
    let token = token_of(&sign_in().unwrap());
    assert!(identity_of(&fixture.store, &token).is_ok());
    let refused = enters(&token).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (Kind::Forbidden, "provider_required"));
    assert!(refused.message().contains("or with your password"), "{}", refused.message());
    assert!(enters(&session(&fixture.store, &ada.user)).is_ok());
    require("kc");
    assert!(enters(&token).is_ok());
    fixture.assert_sound();
}

#[test]
fn a_mailed_proof_leaves_the_owner_who_is_let_in_with_a_password_their_second_factor() {
    let world = World::new();
    let fixture = &world.fixture;
    let ada = guarded(fixture, &fixture.owner).user;
    let (id, org) = (ada.id, fixture.org);
    let prove = |sets_rule: bool| {
        let prove = move |tx: &mut Tx| {
            let old: User = tx.fetch(&id)?;
            let unproved = User { proof: AddressProof::Unproved, ..old.clone() };
            tx.replace(&old, &unproved)?;
            if sets_rule {
                let (providers, required_at) = (vec!["kc".into()], NOON);
                tx.put(&RequiredProvider { org, break_glass: id, providers, required_at })?;
            } else if let Some(required) = tx.get::<RequiredProvider>(&org)? {
                tx.remove(&required)?;
            }
            accounts::set_password(tx, &unproved, Some("hash".into()), true)?;
            crate::auth::has_second_factor(&tx.view(), id)
        };
        fixture.store.write_blocking(org, prove).unwrap()
    };
    assert!(prove(true), "the break-glass owner of before proofs were asked of one");
    assert!(!prove(false), "everybody else");
    fixture.assert_sound();
}

#[test]
fn the_account_of_an_owner_who_is_let_in_with_a_password_is_not_removed() {
    let world = World::new();
    let fixture = &world.fixture;
    let (org, break_glass) = (fixture.org, user(&fixture.owner));
    let removed = fixture.store.write_blocking(org, move |tx| {
        let (providers, required_at) = (vec!["kc".into()], NOON);
        tx.put(&RequiredProvider { org, break_glass, providers, required_at })?;
        let user: User = tx.fetch(&break_glass)?;
        tx.remove(&user)
    });
    assert_eq!(refusal(removed), (Kind::Conflict, "is_break_glass_owner"));
    fixture.assert_sound();
}
