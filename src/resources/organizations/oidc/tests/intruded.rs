//! How people stay the owners of their links: after an intruder, a rename, and beside other organizations.

use super::foreign_provider::{
    PROVIDER_REQUIRED, confirmation, linked, links_of_ben, require, unlinked,
};
use super::requiring::with_provider;
use super::*;
use crate::auth::RequiredProvider;
use crate::store::{Org, View};

const BEN: &str = "ben@acme.test";

/// Gives the server another provider beside its own.
fn with_another(world: &mut World, name: &str) {
    let mut providers = world.server.oidc.providers().to_vec();
    let (name, issuer) = (name.to_string(), "https://other.test".to_string());
    providers.push(OidcProvider { name, issuer, ..providers[0].clone() });
    let oidc = Arc::new(Oidc::new(providers));
    world.server = Arc::new(ServerInfo { oidc, ..ServerInfo::bare(Keys::new([7; 32])) });
}

/// Links an account of the provider with Ben's password.
fn with_own_password(world: &World, token: &str, subject: &str) -> Result<links::LinkInfo> {
    let body = json!({"confirmation": confirmation(world, subject), "password": PASSWORD});
    linked(world, token, body)
}

/// The text of the mail about a link that was made.
fn notice(world: &World) -> String {
    let write = |tx: &mut Tx| {
        let jobs: Vec<Job> = tx.view().all(ListSource::TABLE, &())?;
        let job = jobs.into_iter().find(|job| job.kind == links::NOTICE.kind);
        Ok(match links::write_notice(tx, &job.expect("there is a job"))? {
            Prepared::Effect(Effect::Mail(mail)) => mail.text,
            _ => String::new(),
        })
    };
    world.fixture.store.write_blocking(Id::NIL, write).unwrap()
}

#[test]
fn who_was_linked_by_an_intruder_throws_them_out_by_the_way_that_mail_and_refusal_name() {
    let mut world = World::new();
    let mails = ServerInfo {
        sends_mail: true,
        oidc: world.server.oidc.clone(),
        ..ServerInfo::bare(Keys::new([7; 32]))
    };
    world.server = Arc::new(mails);
    let ben = with_password(&world.fixture, &world.fixture.member);
    require(&world);
    let token = session(&world.fixture.store, &ben);
    let theirs = with_own_password(&world, &token, "mallory").unwrap().id;
    let way = "Forgotten your password?";
    assert!(notice(&world).contains(way), "{}", notice(&world));
    for refused in [
        unlinked(&world, &token, theirs).unwrap_err(),
        with_own_password(&world, &token, "s-1").unwrap_err(),
    ] {
        assert_eq!((refused.kind(), refused.code()), PROVIDER_REQUIRED);
        assert!(refused.message().contains(way), "{}", refused.message());
    }
    let id = ben.id;
    let reset = move |tx: &mut Tx| crate::resources::organizations::oidc::rules::remove_all(tx, id);
    world.fixture.store.write_blocking(Id::NIL, reset).unwrap();
    assert!(links_of_ben(&world).is_empty());
    with_own_password(&world, &token, "s-1").unwrap();
    world.fixture.assert_sound();
}

#[test]
fn what_an_organization_accepts_is_protected_also_once_the_provider_has_another_name() {
    let mut world = World::new();
    let ben = with_password(&world.fixture, &world.fixture.member);
    require(&world);
    let token = session(&world.fixture.store, &ben);
    let first = with_own_password(&world, &token, "s-1").unwrap().id;
    let confirmation = confirmation(&world, "mallory");
    world.server = configured("keycloak", false);
    let body = json!({"confirmation": confirmation, "password": PASSWORD});
    assert_eq!(refusal(linked(&world, &token, body.clone())), PROVIDER_REQUIRED);
    assert_eq!(refusal(unlinked(&world, &token, first)), PROVIDER_REQUIRED);
    // Another provider that has the name now is another one.
    with_another(&mut world, "kc");
    unlinked(&world, &token, first).unwrap();
    world.fixture.assert_sound();
}

/// Makes an organization require a provider.
fn require_of(world: &World, org: Id<Org>, owner: &Principal, provider: &str) {
    let (break_glass, providers) = (user(owner), vec![provider.to_string()]);
    let required = RequiredProvider { org, break_glass, providers, required_at: NOON };
    world.fixture.store.write_blocking(org, move |tx| tx.put(&required)).unwrap();
}

#[test]
fn an_organization_that_does_not_accept_an_account_has_no_say_in_its_link() {
    let mut world = World::new();
    with_another(&mut world, "other");
    let own = token_of(&world.sign_in(json!({"email": BEN})).unwrap());
    // Another organization requires another provider, and Ben, who has no password, is in it.
    let (globex, eve) = world.fixture.other_org("globex");
    let ben = user(&world.fixture.member);
    let join = move |tx: &mut Tx| {
        let (user, org, role, joined_at) = (ben, globex, Role::Member, tx.now());
        tx.insert(&Membership { user, org, role, email_verified: true, joined_at })
    };
    world.fixture.store.write_blocking(globex, join).unwrap();
    require_of(&world, globex, &eve, "other");
    let body = |subject: &str| json!({"confirmation": confirmation(&world, subject)});
    linked(&world, &own, body("s-2")).unwrap();
    // What his own requires is still not linked in a session of the other one.
    require(&world);
    with_provider(&world, &own, "other");
    assert_eq!(refusal(linked(&world, &own, body("s-3"))), PROVIDER_REQUIRED);
    world.fixture.assert_sound();
}

#[test]
fn the_last_link_with_which_somebody_without_a_password_can_sign_in_stays() {
    let world = World::new();
    let own = token_of(&world.sign_in(json!({"email": BEN})).unwrap());
    let ben = user(&world.fixture.member);
    let gone = SignInLink {
        id: Id::NIL,
        user: ben,
        provider: "gone".into(),
        issuer: "https://gone.test".into(),
        subject: "s-1".into(),
        email: None,
        linked_at: NOON,
    };
    world.fixture.store.write_blocking(Id::NIL, move |tx| tx.put(&gone)).unwrap();
    let read = |view: &View| view.all::<SignInLink>(ListSource::TABLE, &ben);
    let links = world.fixture.store.read_now(Id::NIL, read).unwrap();
    let at = |issuer: &str| links.iter().find(|link| link.issuer == issuer).unwrap().id;
    let last = unlinked(&world, &own, at(ISSUER));
    assert_eq!(refusal(last), (Kind::Conflict, "only_way_to_sign_in"));
    unlinked(&world, &own, at("https://gone.test")).unwrap();
    world.fixture.assert_sound();
}
