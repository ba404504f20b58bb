//! What whoever administers a provider of another organization does not get.

use super::requiring::with_provider;
use super::*;
use crate::auth::{Caller, RequiredProvider, passwords};
use crate::resources::organizations::oidc::records::JoiningDomain;
use crate::store::View;

const BEN: &str = "ben@acme.test";

/// Makes the fixture's organization require the provider `kc`.
pub(super) fn require(world: &World) {
    let (org, break_glass) = (world.fixture.org, user(&world.fixture.owner));
    let (providers, required_at) = (vec!["kc".to_string()], NOON);
    let required = RequiredProvider { org, break_glass, providers, required_at };
    world.fixture.store.write_blocking(org, move |tx| tx.put(&required)).unwrap();
}

/// Links an account of the provider in the session of a token, on the server that has it.
pub(super) fn linked(world: &World, token: &str, body: Value) -> Result<links::LinkInfo> {
    let store = &world.fixture.store;
    let (mut parts, who) = (args((), Fixture::input(body)?), signed_in(store, token));
    parts.server = world.server.clone();
    let plan = store.read_now(Id::NIL, |view| links::prepare(view, &Req::new(&parts, &who)))?;
    let hashed = passwords::run(&plan.hashing)?;
    let create = move |tx: &mut Tx| links::create(tx, &Req::new(&parts, &who), &hashed);
    store.write_blocking(Id::NIL, create)?.done().map(|(made, _)| made)
}

pub(super) fn unlinked(world: &World, token: &str, link: Id<SignInLink>) -> Result<()> {
    let store = &world.fixture.store;
    let (mut parts, who) = (args(link, ()), signed_in(store, token));
    parts.server = world.server.clone();
    let delete = move |tx: &mut Tx| links::delete(tx, &Req::new(&parts, &who)).map(|_| ());
    store.write_blocking(Id::NIL, delete)
}

pub(super) fn links_of_ben(world: &World) -> Vec<Id<SignInLink>> {
    let ben = user(&world.fixture.member);
    let read = |view: &View| view.all::<SignInLink>(ListSource::TABLE, &ben);
    let links = world.fixture.store.read_now(Id::NIL, read).unwrap();
    links.iter().map(|link| link.id).collect()
}

/// What links the account of this subject, as anybody gets it who has one there.
pub(super) fn confirmation(world: &World, subject: &str) -> String {
    world.says(json!({"sub": subject, "email": "mallory@acme.test"}));
    let begun = world.begin(json!({"provider": "kc", "link": true}));
    let answer = json!({"state": world.state(), "code": "good"});
    world.finish(&begun.attempt, answer).unwrap().confirmation.expect("a link to be confirmed")
}

pub(super) const PROVIDER_REQUIRED: (Kind, &str) = (Kind::Forbidden, "provider_required");

#[test]
fn a_session_of_another_provider_links_no_account_with_which_the_organization_is_entered() {
    let world = World::new();
    let own = token_of(&world.sign_in(json!({"email": BEN})).unwrap());
    let foreign = token_of(&world.sign_in(json!({"email": BEN})).unwrap());
    with_provider(&world, &foreign, "other");
    require(&world);
    let body = |subject: &str| json!({"confirmation": confirmation(&world, subject)});
    assert_eq!(refusal(linked(&world, &foreign, body("s-2"))), PROVIDER_REQUIRED);
    // Nor does it take the one that there is.
    let [first] = links_of_ben(&world)[..] else { panic!("one link") };
    assert_eq!(links_of_ben(&world), [first]);
    linked(&world, &own, body("s-3")).unwrap();
    assert_eq!(refusal(unlinked(&world, &foreign, first)), PROVIDER_REQUIRED);
    assert_eq!(links_of_ben(&world).len(), 2);
    unlinked(&world, &own, first).unwrap();
    // Once he has left, the organization has no say.
    world.fixture.leave(&world.fixture.member).unwrap();
    linked(&world, &foreign, body("s-4")).unwrap();
    world.fixture.assert_sound();
}

#[test]
fn who_has_neither_a_password_nor_a_link_links_nothing_in_a_session_of_another_provider() {
    let world = World::new();
    let member = user(&world.fixture.member);
    let ben = world.fixture.store.read_now(Id::NIL, |view| view.fetch::<User>(&member)).unwrap();
    let foreign = session(&world.fixture.store, &ben);
    with_provider(&world, &foreign, "other");
    require(&world);
    let body = json!({"confirmation": confirmation(&world, "s-2")});
    assert_eq!(refusal(linked(&world, &foreign, body)), PROVIDER_REQUIRED);
    assert_eq!(links_of_ben(&world), []);
    world.fixture.assert_sound();
}

#[test]
fn a_password_links_the_first_account_of_a_required_provider_and_no_other_one() {
    let world = World::new();
    let store = &world.fixture.store;
    let ben = with_password(&world.fixture, &world.fixture.member);
    require(&world);
    let token = session(store, &ben);
    let link = |token: &str, subject: &str| {
        let confirmation = confirmation(&world, subject);
        linked(&world, token, json!({"confirmation": confirmation, "password": PASSWORD}))
    };
    let first = link(&token, "s-1").unwrap().id;
    assert_eq!(refusal(link(&token, "s-2")), PROVIDER_REQUIRED);
    // Otherwise the next one would be the first again.
    assert_eq!(refusal(unlinked(&world, &token, first)), PROVIDER_REQUIRED);
    let own = token_of(&world.sign_in(json!({"sub": "s-1"})).unwrap());
    let second = link(&own, "s-2").unwrap().id;
    unlinked(&world, &own, first).unwrap();
    unlinked(&world, &own, second).unwrap();
    link(&token, "s-3").unwrap();
    world.fixture.assert_sound();
}

#[test]
fn the_owner_who_is_let_in_with_a_password_links_and_unlinks_in_its_session() {
    let world = World::new();
    let ada = with_password(&world.fixture, &world.fixture.owner);
    require(&world);
    let token = session(&world.fixture.store, &ada);
    let link = |token: &str, subject: &str| {
        let confirmation = confirmation(&world, subject);
        linked(&world, token, json!({"confirmation": confirmation, "password": PASSWORD}))
    };
    let first = link(&token, "s-1").unwrap().id;
    link(&token, "s-2").unwrap();
    unlinked(&world, &token, first).unwrap();
    let foreign = token_of(&world.sign_in(json!({"sub": "s-2"})).unwrap());
    with_provider(&world, &foreign, "other");
    assert_eq!(refusal(link(&foreign, "s-3")), PROVIDER_REQUIRED);
    world.fixture.assert_sound();
}

/// Sets how people sign in, in the organization of a caller.
pub(super) fn set(world: &World, who: &Principal, body: Value) -> Result<Value> {
    let (mut parts, who) = (args((), Fixture::input(body)?), who.clone());
    parts.server = world.server.clone();
    let Principal::Caller(caller) = &who else { unreachable!("a caller") };
    let org = caller.org;
    let set = move |tx: &mut Tx| settings::replace(tx, &Req::new(&parts, &who));
    let set = world.fixture.store.write_blocking(org, set)?;
    Ok(serde_json::to_value(set).unwrap())
}

#[test]
fn an_owner_asks_nothing_of_a_provider_that_no_administrator_of_the_installation_has_let_them() {
    let world = World::new();
    let (globex, eve) = world.fixture.other_org("globex");
    let rule = |value: &str| json!({"provider": "kc", "value": value, "role": "admin"});
    let refused = (Kind::Forbidden, "installation_admin_required");
    let of_eve = |domains: Value, rules: Value| {
        set(&world, &eve, json!({"domains": domains, "rules": rules}))
    };
    assert_eq!(refusal(of_eve(json!([]), json!([rule("ops")]))), refused);
    // Requiring the provider takes nobody else, so it does not count.
    let break_glass = user(&eve);
    let required = move |tx: &mut Tx| {
        let (providers, required_at) = (vec!["kc".to_string()], NOON);
        tx.put(&RequiredProvider { org: globex, break_glass, providers, required_at })
    };
    world.fixture.store.write_blocking(globex, required).unwrap();
    assert_eq!(refusal(of_eve(json!([]), json!([rule("ops")]))), refused);
    // A domain counts that somebody else has listed for her.
    let listed = json!([{"domain": "globex.test", "provider": "kc", "role": "member"}]);
    let list = move |tx: &mut Tx| {
        let provider = "kc".to_string();
        let domain = crate::base::Domain::parse("globex.test").unwrap();
        let (role, grants, set_by) = (Role::Member, Vec::new(), Id::NIL);
        tx.put(&JoiningDomain { org: globex, domain, provider, role, grants, set_by })
    };
    world.fixture.store.write_blocking(globex, list).unwrap();
    of_eve(listed.clone(), json!([rule("ops")])).unwrap();
    // It must stay so for another rule; those that there are go on, and can be taken away.
    let stored = of_eve(json!([]), json!([rule("ops")])).unwrap();
    assert_eq!(stored["rules"][0]["value"], "ops");
    for rules in [json!([rule("ops"), rule("boss")]), json!([rule("boss")])] {
        assert_eq!(refusal(of_eve(json!([]), rules)), refused);
    }
    assert_eq!(refusal(of_eve(listed, json!([]))), refused, "it is new again");
    of_eve(json!([]), json!([])).unwrap();
    world.fixture.assert_sound();
}

#[test]
fn beside_a_rule_of_an_administrator_of_the_installation_another_owner_makes_more() {
    let world = World::new();
    let rule = |value: &str| json!({"provider": "kc", "value": value, "role": "admin"});
    let cleo = world.fixture.person("cleo", Role::Owner);
    let with =
        |who: &Principal, rules: Value| set(&world, who, json!({"domains": [], "rules": rules}));
    let refused = (Kind::Forbidden, "installation_admin_required");
    assert_eq!(refusal(with(&cleo, json!([rule("ops")]))), refused);
    with(&world.fixture.owner, json!([rule("ops")])).unwrap();
    with(&cleo, json!([rule("ops"), rule("boss")])).unwrap();
    // Their own rule does not speak for them.
    with(&cleo, json!([rule("boss")])).unwrap();
    assert_eq!(refusal(with(&cleo, json!([rule("boss"), rule("ops")]))), refused);
    world.fixture.assert_sound();
}

/// The caller of the fixture's organization in the session of a token.
fn caller(world: &World, token: &str) -> Principal {
    let authenticator = Authenticator::new(Tokens::new(world.fixture.store.keys()));
    let credential = RawCredential::Token(token.into());
    let enter = |view: &View| authenticator.authorize(view, &credential, "acme");
    let entered: Arc<Caller> = world.fixture.store.read_now(Id::NIL, enter).unwrap();
    Principal::Caller(entered)
}

#[test]
fn an_owner_does_not_lock_themselves_out_in_a_session_of_another_provider() {
    let world = World::new();
    let fixture = &world.fixture;
    let ada = guarded(fixture, &fixture.owner);
    let token = session(&fixture.store, &ada.user);
    let set = |providers: Value| {
        let body = json!({"domains": [], "breakGlassUserId": ada.user.id.to_string(),
            "providers": providers});
        world.settings(&caller(&world, &token), body).map(|_| ())
    };
    with_provider(&world, &token, "other");
    let locked_out = (Kind::Conflict, "would_lock_you_out");
    assert_eq!(refusal(set(json!(["kc"]))), locked_out);
    assert_eq!(refusal(set(json!([]))), locked_out);
    let read = |view: &View| view.has::<RequiredProvider>(&fixture.org);
    assert!(!fixture.store.read_now(fixture.org, read).unwrap());
    with_provider(&world, &token, "kc");
    set(json!(["kc"])).unwrap();
    // With a password they are let in themselves.
    world.settings(&fixture.owner, json!({"domains": []})).unwrap();
    let password = session(&fixture.store, &ada.user);
    let body = json!({"domains": [], "breakGlassUserId": ada.user.id.to_string()});
    world.settings(&caller(&world, &password), body).unwrap();
    caller(&world, &password);
    fixture.assert_sound();
}
