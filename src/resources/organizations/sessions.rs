//! Signing in and out (reference: identity-and-rights, "Sessions").
//!
//! Anonymous clients cannot find out whether an e-mail address has an account: an unknown address
//! takes the same code path and time as a wrong password.

use std::net::IpAddr;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sign_in_challenge::challenged;
use crate::api::op;
use crate::api::{
    Attempt, Empty, HashPlan, Input, Outcome, Output, Req, Resource, ResourceRef, Route,
};
use crate::auth::oidc::Oidc;
use crate::auth::passwords::{HashRequest, HashResult};
use crate::auth::{
    ANYONE, Credential, Identity, KNOWN_ADDRESS_SECS, KnownSignInAddress, Membership, Organization,
    ProviderSession, Role, SESSION, SESSION_SECS, SESSIONS_BY_USER, Session, Tokens, User,
    find_person, is_installation_admin, proved_at, requires_second_factor, second_factor_of,
};
use crate::base::{Email, Error, Id, Name, Result, Slug, Time, address_block};
use crate::store::{ListSource, Order, PageRequest, Store, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A user has at most 100 sessions; another one ends the oldest
/// (reference: identity-and-rights, "Sessions").
const MAX_SESSIONS: usize = 100;

/// At most 100 sessions are ended by a transaction. With the creation of one, more than one is only found in
/// data of before the limit.
const MAX_ENDED: usize = 100;

// ── What callers see ─────────────────────────────────────────────────────────

/// A user, without the password.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "User")]
pub(super) struct UserInfo {
    pub id: Id<User>,
    email: Email,
    pub name: Name,
    /// The https URL of a picture.
    pub image: Option<String>,
    created_at: Time,
}

impl Output for UserInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl UserInfo {
    pub(super) fn of(user: &User) -> Self {
        UserInfo {
            id: user.id,
            email: user.email.clone(),
            name: user.name.clone(),
            image: user.image.clone(),
            created_at: user.created_at,
        }
    }
}

/// A new session.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(super) struct SessionInfo {
    /// The bearer token of the session, which cannot be retrieved again.
    pub token: String,
    pub expires_at: Time,
    /// The signed-in user.
    pub user: UserInfo,
}

impl Output for SessionInfo {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The session of the request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CurrentSession {
    /// The signed-in user.
    user: UserInfo,
    /// The organizations of the user.
    memberships: Vec<MembershipInfo>,
    /// Whether the user administers the whole installation.
    installation_admin: bool,
    expires_at: Time,
    /// When the user last proved who they are in this session: 15 minutes later some acts ask again.
    proved_at: Time,
    /// Whether the user has a password.
    has_password: bool,
    /// The name of the provider with which it was begun, if who signs out here is to be signed out there, too
    /// (`POST /auth/providers/sign-out`).
    sign_out_provider: Option<String>,
}

impl Output for CurrentSession {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A membership of the signed-in user.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Membership")]
pub(super) struct MembershipInfo {
    org_slug: Slug,
    /// The name of the organization.
    org_name: Name,
    role: Role,
    /// Whether the organization requires a second factor of sessions.
    second_factor_required: bool,
}

impl MembershipInfo {
    pub(super) fn new(view: &View, organization: Organization, role: Role) -> Result<Self> {
        Ok(MembershipInfo {
            second_factor_required: requires_second_factor(view, organization.id)?,
            org_slug: organization.slug,
            org_name: organization.name,
            role,
        })
    }
}

/// The credentials of a user.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"email": "ada@acme.example", "password": "seven green bottles"}],
))]
struct SignIn {
    email: Email,
    /// Any text; one that cannot be a password counts as a wrong password.
    password: String,
    /// A code of the second factor, if the account has one: without it the error
    /// `code_required` has a challenge.
    code: Option<String>,
}
impl Input for SignIn {}

// ── For other operations that create sessions ────────────────────────────────

/// Creates a session of a user who has proved their password, and stores the address as known.
pub(super) fn create_session(tx: &mut Tx, user: &User, address: IpAddr) -> Result<SessionInfo> {
    let session = begin_session_of(tx, user, address, SESSION_SECS)?;
    to_info(&tx.view(), &session, user)
}

/// Does the same for a user who is known to be who they are, with a session that lasts so long; returns the
/// record.
pub(super) fn begin_session_of(
    tx: &mut Tx,
    user: &User,
    address: IpAddr,
    secs: i64,
) -> Result<Session> {
    let now = tx.now();
    let session = insert_session_until(tx, user, now.plus_secs(secs))?;
    // As it is typed: accounts of before may have their domain in another form.
    let email = Email::parse(user.email.as_str()).unwrap_or_else(|_| user.email.clone());
    tx.put(&KnownSignInAddress { email, address: address_block(address).to_string(), at: now })?;
    Ok(session)
}

/// Creates a session of a user who is known to be who they are, wherever its requests come from, that ends no
/// later than at a time, and lasts at most as long as any.
pub(super) fn insert_session_until(tx: &mut Tx, user: &User, until: Time) -> Result<Session> {
    let now = tx.now();
    end_oldest_sessions(tx, user)?;
    let session = Session {
        id: tx.new_id(),
        user: user.id,
        generation: user.session_generation,
        created_at: now,
        expires_at: now.plus_secs(SESSION_SECS).min(until),
    };
    tx.insert(&session)?;
    Ok(session)
}

/// Ends the oldest sessions of a user as far as the limit requires before another is created.
fn end_oldest_sessions(tx: &mut Tx, user: &User) -> Result<()> {
    let of = (user.id, user.session_generation);
    let stored = tx.count(&SESSIONS_BY_USER, &of, MAX_SESSIONS + MAX_ENDED)?;
    let excess = (stored + 1).saturating_sub(MAX_SESSIONS).min(MAX_ENDED);
    if excess == 0 {
        return Ok(());
    }
    let part = PageRequest { limit: excess, after: None };
    let oldest = tx.page(&SESSIONS_BY_USER, &of, Order::Ascending, &part, |_| true)?;
    oldest.items.iter().try_for_each(|session| tx.remove(session))
}

/// Ends all sessions of `user` except `current`, and returns the user's new state. Nothing is
/// deleted: sessions of an earlier generation are invalid, however many there are, and the sweep of
/// expired ones deletes them.
pub(super) fn end_other_sessions(tx: &mut Tx, user: User, current: Id<Session>) -> Result<User> {
    let session: Session = tx.fetch(&current)?;
    let generation = user.session_generation + 1;
    tx.replace(&session, &Session { generation, ..session.clone() })?;
    Ok(User { session_generation: generation, ..user })
}

/// Ends all sessions, of everybody, that were begun before an id was made: ids never go back, as clocks
/// may. Blocks.
pub fn end_sessions_before(store: &Store, first: Id<Session>) -> Result<()> {
    while store.write_blocking(Id::NIL, move |tx| end_some_before(tx, first))? > 0 {}
    Ok(())
}

/// Ends as many of them as a transaction may; returns how many.
fn end_some_before(tx: &mut Tx, first: Id<Session>) -> Result<usize> {
    let mut ended: Vec<Session> = Vec::new();
    tx.view().for_each(ListSource::TABLE, &(), Order::Ascending, |session: Session| {
        // They are in the order of their ids.
        if session.id >= first || ended.len() == MAX_ENDED {
            return Ok(ControlFlow::Break(()));
        }
        ended.push(session);
        Ok(ControlFlow::Continue(()))
    })?;
    ended.iter().try_for_each(|session| tx.remove(session))?;
    Ok(ended.len())
}

/// Returns a session with its token, which is derived and always the same.
pub(super) fn to_info(view: &View, session: &Session, user: &User) -> Result<SessionInfo> {
    // Deriving the key again costs a thousandth of hashing the password.
    let token = Tokens::new(view.keys()).issue(session)?;
    Ok(SessionInfo { token, expires_at: session.expires_at, user: UserInfo::of(user) })
}

/// Returns the session of an identity, on routes that accept no API key.
pub(super) fn require_session(identity: &Identity) -> Id<Session> {
    match identity.credential {
        Credential::Session(id) => id,
        Credential::Key { .. } => unreachable!("the route refuses API keys"),
    }
}

/// Returns the password attempt for `email` from `address`, as the rate limit counts it: the
/// address and whether it is known (reference: conventions, "Rate limits").
pub(super) fn attempt(view: &View, email: Email, address: IpAddr) -> Result<Attempt> {
    let known = view
        .get::<KnownSignInAddress>(&(email.clone(), address_block(address).to_string()))?
        .is_some_and(|known| known.at > view.now().minus_secs(KNOWN_ADDRESS_SECS));
    Ok(Attempt::Email(email, known))
}

/// Whether the verified password is still the user's.
pub(super) fn is_unchanged(user: &User, hashed: &HashResult) -> bool {
    hashed.fits.is_some() && hashed.fits == user.password
}

// ── Operations ───────────────────────────────────────────────────────────────

fn prepare(view: &View, req: &Req<(), SignIn>) -> Result<HashPlan> {
    let SignIn { email, password, .. } = &req.input;
    let hash = find_person(view, email)?.and_then(|user| user.password);
    Ok(HashPlan {
        hashing: HashRequest { verify: Some((password.clone(), hash)), make: None },
        attempt: Some(attempt(view, email.clone(), req.origin.address)?),
    })
}

fn sign_in(
    tx: &mut Tx,
    req: &Req<(), SignIn>,
    hashed: &HashResult,
) -> Result<Outcome<(SessionInfo, Id<User>)>> {
    let user = find_person(&tx.view(), &req.input.email)?.filter(|user| is_unchanged(user, hashed));
    let Some(user) = user else {
        return Err(Error::unauthenticated("the e-mail address or the password is wrong"));
    };
    if let Some(factor) = second_factor_of(&tx.view(), user.id)? {
        let Some(code) = &req.input.code else {
            return challenged(tx, &user).map(Outcome::Refused);
        };
        if let Some(refusal) = factor.use_code(tx, code)? {
            return Ok(Outcome::Refused(refusal.error()));
        }
    }
    Ok(Outcome::Done((create_session(tx, &user, req.origin.address)?, user.id)))
}

fn sign_out(tx: &mut Tx, req: &Req) -> Result<Empty> {
    let session: Session = tx.fetch(&require_session(req.identity()))?;
    tx.remove(&session)?;
    Ok(Empty {})
}

fn get(view: &View, req: &Req) -> Result<CurrentSession> {
    let session: Session = view.fetch(&require_session(req.identity()))?;
    let user: User = view.fetch(&session.user)?;
    let memberships = view.all(ListSource::TABLE, &user.id)?.into_iter().map(|m: Membership| {
        let organization: Organization = view.fetch(&m.org)?;
        MembershipInfo::new(view, organization, m.role)
    });
    Ok(CurrentSession {
        user: UserInfo::of(&user),
        memberships: memberships.collect::<Result<_>>()?,
        installation_admin: is_installation_admin(view, user.id)?,
        expires_at: session.expires_at,
        proved_at: proved_at(view, &session)?,
        has_password: user.password.is_some(),
        sign_out_provider: sign_out_provider(view, session.id, &req.server.oidc)?,
    })
}

/// The provider that a session was begun with, if signing out here signs out there.
fn sign_out_provider(view: &View, session: Id<Session>, oidc: &Oidc) -> Result<Option<String>> {
    let begun = view.get::<ProviderSession>(&session)?;
    let provider = begun.and_then(|begun| oidc.provider(&begun.provider));
    Ok(provider.filter(|provider| provider.signs_out).map(|provider| provider.name.clone()))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/auth/sign-in",
            ANYONE,
            "session.sign_in",
            op::hash_counting(prepare, sign_in),
        )
        .no_replay()
        .about("Sign in"),
        Route::post("/auth/sign-out", SESSION, "session.sign_out", op::write(sign_out))
            .no_replay()
            .about("Sign out"),
        Route::get("/auth/session", SESSION, "session.get", op::read(get))
            .about("Get the current session"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::second_factor::tests::guarded;
    use super::super::tests::{PASSWORD, counting, identity_of, session, signed_in, with_password};
    use super::*;
    use crate::api::Principal;
    use crate::auth::{Authenticator, BY_ORG, RawCredential, passwords};
    use crate::base::{Kind, MasterKey};
    use crate::resources::testing::{Fixture, args};
    use crate::store::ACCESS_CHANGED;

    fn try_password(fixture: &Fixture, email: &str, password: &str) -> Result<SessionInfo> {
        let (email, password) = (Email::parse(email).unwrap(), password.into());
        let input = SignIn { email, password, code: None };
        counting(&fixture.store, &Principal::Anonymous, prepare, sign_in, input)
    }

    #[test]
    fn a_wrong_password_and_an_unknown_address_get_the_same_error() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let refusals = [
            try_password(&fixture, &ada.email, "wrong"),
            try_password(&fixture, "nobody@acme.test", PASSWORD),
            try_password(&fixture, "ben@acme.test", ""), // has no password at all
        ];
        for refused in refusals {
            let error = refused.err().unwrap();
            assert_eq!(error.kind(), Kind::Unauthenticated);
            assert_eq!(error.message(), "the e-mail address or the password is wrong");
        }
        let session = try_password(&fixture, &ada.email, PASSWORD).unwrap();
        assert_eq!(session.user.id, ada.id);
        assert_eq!(identity_of(&fixture.store, &session.token).unwrap().user, ada.id);
    }

    #[test]
    fn with_a_second_factor_a_right_password_begins_no_session_without_a_code() {
        let fixture = Fixture::new();
        let ada = guarded(&fixture, &fixture.owner);
        fixture.pass_secs(60);
        let sign_in_with = |password: &str, code: Option<String>| {
            let (email, password) = (ada.user.email.clone(), password.into());
            let input = SignIn { email, password, code };
            let nobody = &Principal::Anonymous;
            let done = counting(&fixture.store, nobody, prepare, sign_in, input);
            done.map_err(|error| (error.code(), error.continuation().is_some()))
        };
        let right = || Some(ada.code(&fixture, 0));
        let refused = |password, code| sign_in_with(password, code).err().unwrap();
        assert_eq!(refused(PASSWORD, None), ("code_required", true));
        // Whether the code was right is not said with a wrong password.
        assert_eq!(refused("wrong", right()), ("unauthenticated", false));
        assert_eq!(refused("wrong", None), ("unauthenticated", false));
        assert_eq!(refused(PASSWORD, Some("000000".into())), ("wrong_code", false));
        let begun = sign_in_with(PASSWORD, right()).unwrap();
        assert_eq!(identity_of(&fixture.store, &begun.token).unwrap().user, ada.user.id);
        assert_eq!(refused(PASSWORD, right()), ("wrong_code", false), "a code twice");
        sign_in_with(PASSWORD, Some(ada.recovery_codes[0].clone())).unwrap();
    }

    #[test]
    fn a_session_ends_with_the_key_it_was_signed_with_also_in_the_cache() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let token = RawCredential::Token(session(&fixture.store, &ada));
        let keys = fixture.store.keys();
        let authenticator = Authenticator::new(Tokens::new(keys));
        let accepts = |credential: &RawCredential| {
            let identify = |view: &View| authenticator.identify(view, credential);
            fixture.store.read_now(Id::NIL, identify).is_ok()
        };
        assert!(accepts(&token));
        keys.begin_rotation(MasterKey::new([0xEE; 32])).unwrap();
        assert!(accepts(&token), "while the key is replaced, both sign");
        keys.end_rotation();
        assert!(!accepts(&token));
        assert!(accepts(&RawCredential::Token(session(&fixture.store, &ada))));
    }

    #[test]
    fn an_address_is_known_for_thirty_days_after_signing_in() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let known = |fixture: &Fixture| {
            let (email, password) = (ada.email.clone(), String::new());
            let input = SignIn { email, password, code: None };
            let parts = args((), input);
            let prepare = |view: &View| prepare(view, &Req::new(&parts, &Principal::Anonymous));
            fixture.store.read_now(Id::NIL, prepare).unwrap().attempt.unwrap()
        };
        assert_eq!(known(&fixture), Attempt::Email(ada.email.clone(), false));
        try_password(&fixture, &ada.email, PASSWORD).unwrap();
        assert_eq!(known(&fixture), Attempt::Email(ada.email.clone(), true));
        fixture.pass_secs(KNOWN_ADDRESS_SECS);
        assert_eq!(known(&fixture), Attempt::Email(ada.email.clone(), false));
    }

    #[test]
    fn a_password_changed_during_verification_is_refused() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let (email, password) = (ada.email.clone(), PASSWORD.into());
        let input = SignIn { email, password, code: None };
        let parts = args((), input);
        let settled = fixture.store.write_blocking(Id::NIL, move |tx| {
            let req = Req::new(&parts, &Principal::Anonymous);
            let hashed = passwords::run(&prepare(&tx.view(), &req)?.hashing)?;
            assert!(hashed.fits.is_some());
            tx.replace(&ada, &User { password: Some("another".into()), ..ada.clone() })?;
            sign_in(tx, &req, &hashed).map(|_| ())
        });
        assert_eq!(settled.err().unwrap().kind(), Kind::Unauthenticated);
    }

    #[test]
    fn signing_out_ends_only_the_current_session() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let first = try_password(&fixture, &ada.email, PASSWORD).unwrap();
        let second = try_password(&fixture, &ada.email, PASSWORD).unwrap();
        let who = signed_in(&fixture.store, &first.token);
        fixture.write_as(&who, sign_out, (), ()).unwrap();
        assert!(identity_of(&fixture.store, &first.token).is_err());
        assert!(identity_of(&fixture.store, &second.token).is_ok());
        fixture.pass_secs(SESSION_SECS);
        assert!(identity_of(&fixture.store, &second.token).is_err());
    }

    #[test]
    fn a_sign_in_with_a_password_wakes_nobody_who_waits_and_a_sign_out_does() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let sign_in = || try_password(&fixture, &ada.email, PASSWORD).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        // What was committed before the first one was told.
        let begun = sign_in();
        let mut waiting = fixture.store.signals().subscribe(ACCESS_CHANGED);
        let mut is_woken = |millis| {
            let woken = async {
                let soon = std::time::Duration::from_millis(millis);
                tokio::time::timeout(soon, waiting.notified()).await.is_ok()
            };
            runtime.block_on(woken)
        };
        sign_in();
        assert!(!is_woken(20));
        let who = signed_in(&fixture.store, &begun.token);
        fixture.write_as(&who, sign_out, (), ()).unwrap();
        assert!(is_woken(5_000));
    }

    #[test]
    fn a_user_has_at_most_a_hundred_sessions_and_another_one_ends_the_oldest() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let tokens: Vec<_> = (0..MAX_SESSIONS + 2).map(|_| session(&fixture.store, &ada)).collect();
        let is_valid = |token: &String| identity_of(&fixture.store, token).is_ok();
        assert_eq!(tokens.iter().filter(|token| is_valid(token)).count(), MAX_SESSIONS);
        assert!(!tokens[..2].iter().any(is_valid), "the oldest have ended");
        // Data of before the limit shrinks with every new session.
        let user = ada.clone();
        let stored = |count: usize| {
            let user = user.clone();
            fixture
                .store
                .write_blocking(Id::NIL, move |tx| {
                    let (of, now) = ((user.id, user.session_generation), tx.now());
                    for _ in 0..count {
                        let (user, generation) = of;
                        let (id, expires_at) = (tx.new_id(), now.plus_secs(SESSION_SECS));
                        tx.insert(&Session { id, user, generation, created_at: now, expires_at })?;
                    }
                    tx.count(&SESSIONS_BY_USER, &of, 9999)
                })
                .unwrap()
        };
        assert_eq!(stored(150), MAX_SESSIONS + 150);
        session(&fixture.store, &ada);
        assert_eq!(stored(0), MAX_SESSIONS + 150 + 1 - MAX_ENDED);
        session(&fixture.store, &ada);
        assert_eq!(stored(0), MAX_SESSIONS);
    }

    #[test]
    fn a_session_has_its_user_and_memberships() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let session = try_password(&fixture, &ada.email, PASSWORD).unwrap();
        let (other, _) = fixture.other_org("globex");
        let (user, now) = (ada.id, fixture.store.clock().now());
        fixture
            .store
            .write_blocking(Id::NIL, move |tx| {
                let role = Role::Member;
                let membership =
                    Membership { user, org: other, role, email_verified: false, joined_at: now };
                tx.insert(&membership)
            })
            .unwrap();
        let who = signed_in(&fixture.store, &session.token);
        let shown = fixture.read_as(&who, get, (), ()).unwrap();
        assert_eq!((shown.user.id, shown.expires_at), (ada.id, session.expires_at));
        let memberships = shown.memberships.iter().map(|m| (m.org_slug.as_str(), m.role));
        let expected = [("acme", Role::Owner), ("globex", Role::Member)];
        assert_eq!(memberships.collect::<Vec<_>>(), expected);
        assert_eq!(
            fixture.store.read_now(fixture.org, |view| view.count(&BY_ORG, &other, 9)).unwrap(),
            2
        );
    }

    #[test]
    fn only_expired_sessions_are_deleted() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let old = try_password(&fixture, &ada.email, PASSWORD).unwrap();
        fixture.pass_secs(SESSION_SECS - 1);
        let new = try_password(&fixture, &ada.email, PASSWORD).unwrap();
        fixture.pass_secs(1);
        let sweep = |fixture: &Fixture| {
            let settings = crate::outbox::RetentionSettings::default();
            fixture
                .store
                .write_blocking(Id::NIL, move |tx| super::super::delete_expired(tx, &settings))
                .unwrap();
            let count = |view: &View| {
                let sessions = view.all(&SESSIONS_BY_USER, &ada.id)?;
                Ok((sessions.len(), view.count::<KnownSignInAddress>(ListSource::TABLE, &(), 9)?))
            };
            fixture.store.read_now(Id::NIL, count).unwrap()
        };
        assert_eq!(sweep(&fixture), (1, 1));
        assert!(identity_of(&fixture.store, &old.token).is_err());
        assert!(identity_of(&fixture.store, &new.token).is_ok());
        fixture.pass_secs(KNOWN_ADDRESS_SECS);
        assert_eq!(sweep(&fixture), (0, 0));
        fixture.assert_sound();
    }
}
