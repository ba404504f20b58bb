//! Signing in and out (reference: identity-and-rights, "Sessions").
//!
//! Nothing tells a stranger whether anybody has an address: an unknown one takes the same road and
//! the same time as a wrong password.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Empty, HashPlan, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::passwords::{HashRequest, HashResult};
use crate::auth::{
    ANYONE, BY_EMAIL, Credential, Identity, KNOWN_ADDRESS_SECS, KnownSignInAddress, Membership,
    Organization, Role, SESSION, SESSION_SECS, Session, Tokens, User,
};
use crate::base::{Email, Error, Id, Name, Result, Slug, Time};
use crate::store::{Source, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers see ─────────────────────────────────────────────────────────

/// A person, without what is secret.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "User")]
pub(super) struct UserInfo {
    pub id: Id<User>,
    email: Email,
    pub name: Name,
    /// An https URL of a picture.
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

/// A session, for whoever begins it.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(super) struct SessionInfo {
    /// A bearer token; shown now and never again.
    pub token: String,
    pub expires_at: Time,
    pub user: UserInfo,
}

impl Output for SessionInfo {
    const MAY_SHOW_SECRET: bool = true;
}

/// A session, for whoever is in it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CurrentSession {
    user: UserInfo,
    memberships: Vec<MembershipInfo>,
    expires_at: Time,
}

impl Output for CurrentSession {}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Membership")]
struct MembershipInfo {
    org_slug: Slug,
    org_name: Name,
    role: Role,
}

#[derive(Deserialize, JsonSchema)]
struct SignIn {
    email: Email,
    /// Of any length: what cannot be a password is simply not the right one.
    password: String,
}
impl Input for SignIn {}

// ── For those who sign people in ─────────────────────────────────────────────

/// Begins a session of somebody who has just shown a password, and remembers from where.
pub(super) fn begin(tx: &mut Tx, user: &User, address: IpAddr) -> Result<SessionInfo> {
    let now = tx.now();
    let session = Session {
        id: tx.new_id(),
        user: user.id,
        created_at: now,
        expires_at: now.plus_secs(SESSION_SECS),
    };
    tx.insert(&session)?;
    tx.put(&KnownSignInAddress {
        email: user.email.clone(),
        address: address.to_string(),
        at: now,
    })?;
    shown(&tx.view(), &session, user)
}

/// A session with its token, which is the same whenever it is made.
pub(super) fn shown(view: &View, session: &Session, user: &User) -> Result<SessionInfo> {
    // Deriving the key again costs a thousandth of what the password did.
    let token = Tokens::new(view.keys()).issue(session)?;
    Ok(SessionInfo { token, expires_at: session.expires_at, user: UserInfo::of(user) })
}

/// The session that somebody acts in; on routes that take no key.
pub(super) fn require_session(identity: &Identity) -> Id<Session> {
    match identity.credential {
        Credential::Session(id) => id,
        Credential::Key { .. } => unreachable!("a key is refused before"),
    }
}

/// The attempt to show the password of `email` from `address`, as the limit on attempts counts it
/// (reference: conventions, "Rate limits").
pub(super) fn attempt(view: &View, email: Email, address: IpAddr) -> Result<(Email, bool)> {
    let known = view
        .get::<KnownSignInAddress>(&(email.clone(), address.to_string()))?
        .is_some_and(|known| known.at > view.now().minus_secs(KNOWN_ADDRESS_SECS));
    Ok((email, known))
}

/// Whether what was found to fit is still the user's password.
pub(super) fn is_unchanged(user: &User, hashed: &HashResult) -> bool {
    hashed.fits.is_some() && hashed.fits == user.password
}

// ── Operations ───────────────────────────────────────────────────────────────

fn look(view: &View, req: &Req<(), SignIn>) -> Result<HashPlan> {
    let SignIn { email, password } = &req.input;
    let hash = view.find(&BY_EMAIL, email)?.and_then(|user| user.password);
    Ok(HashPlan {
        hashing: HashRequest { verify: Some((password.clone(), hash)), make: None },
        attempt: Some(attempt(view, email.clone(), req.address)?),
    })
}

fn sign_in(
    tx: &mut Tx,
    req: &Req<(), SignIn>,
    hashed: &HashResult,
) -> Result<(SessionInfo, Id<User>)> {
    let user = tx.find(&BY_EMAIL, &req.input.email)?.filter(|user| is_unchanged(user, hashed));
    let Some(user) = user else {
        return Err(Error::unauthenticated("the e-mail address or the password is wrong"));
    };
    Ok((begin(tx, &user, req.address)?, user.id))
}

fn sign_out(tx: &mut Tx, req: &Req) -> Result<Empty> {
    let session: Session = tx.fetch(&require_session(req.identity()))?;
    tx.remove(&session)?;
    Ok(Empty {})
}

fn get(view: &View, req: &Req) -> Result<CurrentSession> {
    let session: Session = view.fetch(&require_session(req.identity()))?;
    let user: User = view.fetch(&session.user)?;
    let memberships = view.all(Source::TABLE, &user.id)?.into_iter().map(|m: Membership| {
        let organization: Organization = view.fetch(&m.org)?;
        let (org_slug, org_name) = (organization.slug, organization.name);
        Ok(MembershipInfo { org_slug, org_name, role: m.role })
    });
    Ok(CurrentSession {
        user: UserInfo::of(&user),
        memberships: memberships.collect::<Result<_>>()?,
        expires_at: session.expires_at,
    })
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/auth/sign-in", ANYONE, "session.sign_in", op::hash(look, sign_in))
            .no_replay()
            .about("Begin a session"),
        Route::post("/auth/sign-out", SESSION, "session.sign_out", op::write(sign_out))
            .no_replay()
            .about("End this session"),
        Route::get("/auth/session", SESSION, "session.show", op::read(get))
            .about("Show who is signed in, and in which organizations"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PASSWORD, hashing, identity_of, signed_in, with_password};
    use super::*;
    use crate::api::Principal;
    use crate::auth::{BY_ORG, SESSIONS_BY_USER, passwords};
    use crate::base::Kind;
    use crate::resources::testing::{World, args};

    fn try_password(world: &World, email: &str, password: &str) -> Result<SessionInfo> {
        let input = SignIn { email: Email::parse(email).unwrap(), password: password.into() };
        hashing(&world.store, &Principal::Anonymous, look, sign_in, input)
    }

    #[test]
    fn a_wrong_password_and_a_wrong_address_get_one_answer() {
        let world = World::new();
        let ada = with_password(&world, &world.owner);
        let refusals = [
            try_password(&world, &ada.email, "wrong"),
            try_password(&world, "nobody@acme.test", PASSWORD),
            try_password(&world, "ben@acme.test", ""), // has no password at all
        ];
        for refused in refusals {
            let error = refused.err().unwrap();
            assert_eq!(error.kind(), Kind::Unauthenticated);
            assert_eq!(error.message(), "the e-mail address or the password is wrong");
        }
        let session = try_password(&world, &ada.email, PASSWORD).unwrap();
        assert_eq!(session.user.id, ada.id);
        assert_eq!(identity_of(&world.store, &session.token).unwrap().user, ada.id);
    }

    #[test]
    fn an_address_is_known_for_thirty_days_after_signing_in() {
        let world = World::new();
        let ada = with_password(&world, &world.owner);
        let known = |world: &World| {
            let input = SignIn { email: ada.email.clone(), password: String::new() };
            let parts = args((), input);
            let look = |view: &View| look(view, &Req::new(&parts, &Principal::Anonymous));
            world.store.read_now(Id::NIL, look).unwrap().attempt.unwrap()
        };
        assert_eq!(known(&world), (ada.email.clone(), false));
        try_password(&world, &ada.email, PASSWORD).unwrap();
        assert!(known(&world).1);
        world.pass_secs(KNOWN_ADDRESS_SECS);
        assert!(!known(&world).1);
    }

    #[test]
    fn a_password_changed_while_it_is_compared_opens_nothing() {
        let world = World::new();
        let ada = with_password(&world, &world.owner);
        let input = SignIn { email: ada.email.clone(), password: PASSWORD.into() };
        let parts = args((), input);
        let settled = world.store.write_now(Id::NIL, move |tx| {
            let req = Req::new(&parts, &Principal::Anonymous);
            let hashed = passwords::run(&look(&tx.view(), &req)?.hashing)?;
            assert!(hashed.fits.is_some());
            tx.replace(&ada, &User { password: Some("another".into()), ..ada.clone() })?;
            sign_in(tx, &req, &hashed).map(|_| ())
        });
        assert_eq!(settled.err().unwrap().kind(), Kind::Unauthenticated);
    }

    #[test]
    fn signing_out_ends_this_session_alone() {
        let world = World::new();
        let ada = with_password(&world, &world.owner);
        let first = try_password(&world, &ada.email, PASSWORD).unwrap();
        let second = try_password(&world, &ada.email, PASSWORD).unwrap();
        let who = signed_in(&world.store, &first.token);
        world.write_as(&who, sign_out, (), ()).unwrap();
        assert!(identity_of(&world.store, &first.token).is_err());
        assert!(identity_of(&world.store, &second.token).is_ok());
        world.pass_secs(SESSION_SECS);
        assert!(identity_of(&world.store, &second.token).is_err());
    }

    #[test]
    fn a_session_shows_its_user_and_where_they_are_what() {
        let world = World::new();
        let ada = with_password(&world, &world.owner);
        let session = try_password(&world, &ada.email, PASSWORD).unwrap();
        let (other, _) = world.other_org("globex");
        let (user, now) = (ada.id, world.store.clock().now());
        world
            .store
            .write_now(Id::NIL, move |tx| {
                let role = Role::Member;
                let membership =
                    Membership { user, org: other, role, email_verified: false, joined_at: now };
                tx.insert(&membership)
            })
            .unwrap();
        let who = signed_in(&world.store, &session.token);
        let shown = world.read_as(&who, get, (), ()).unwrap();
        assert_eq!((shown.user.id, shown.expires_at), (ada.id, session.expires_at));
        let memberships = shown.memberships.iter().map(|m| (m.org_slug.as_str(), m.role));
        let expected = [("acme", Role::Owner), ("globex", Role::Member)];
        assert_eq!(memberships.collect::<Vec<_>>(), expected);
        assert_eq!(
            world.store.read_now(world.org, |view| view.count(&BY_ORG, &other, 9)).unwrap(),
            2
        );
    }

    #[test]
    fn only_expired_sessions_are_deleted() {
        let world = World::new();
        let ada = with_password(&world, &world.owner);
        let old = try_password(&world, &ada.email, PASSWORD).unwrap();
        world.pass_secs(SESSION_SECS - 1);
        let new = try_password(&world, &ada.email, PASSWORD).unwrap();
        world.pass_secs(1);
        let sweep = |world: &World| {
            let settings =
                crate::outbox::Settings { memory_retention_secs: 0, log_retention_secs: 0 };
            world
                .store
                .write_now(Id::NIL, move |tx| super::super::delete_expired(tx, &settings))
                .unwrap();
            let count = |view: &View| {
                let sessions = view.all(&SESSIONS_BY_USER, &ada.id)?;
                Ok((sessions.len(), view.count::<KnownSignInAddress>(Source::TABLE, &(), 9)?))
            };
            world.store.read_now(Id::NIL, count).unwrap()
        };
        assert_eq!(sweep(&world), (1, 1));
        assert!(identity_of(&world.store, &old.token).is_err());
        assert!(identity_of(&world.store, &new.token).is_ok());
        world.pass_secs(KNOWN_ADDRESS_SECS);
        assert_eq!(sweep(&world), (0, 0));
        world.assert_sound();
    }
}
