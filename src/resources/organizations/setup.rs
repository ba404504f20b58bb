//! Setup of an installation: its first organization and user, created by the command line, or
//! through a link that is valid once and for half an hour
//! (reference: identity-and-rights, "Setting up").
//!
//! As soon as a user exists, the setup route returns 404.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accounts;
use super::keys;
use super::organization::{self, NewOrganization};
use super::sessions::{self, SessionInfo};
use super::tokens::{TokenHash, hash_of, new_token, token_of};
use crate::api::{HashPlan, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::passwords::{HashRequest, HashResult, Password};
use crate::auth::{ANYONE, AddressProof, ApiKey, Organization, User};
use crate::base::{Email, Error, Id, Kind, Name, Result, Slug, Time};
use crate::store::{Export, ListSource, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<SetupToken>()], ..Resource::EMPTY };

/// A setup link is valid for half an hour: later readers of the log find an expired one.
const SETUP_SECS: i64 = 30 * 60;

/// A token is shared with a server that starts while it is valid for so long.
const SHARED_SECS: i64 = 10 * 60;

// ── Record ───────────────────────────────────────────────────────────────────

/// The token of the valid setup link; there is at most one.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct SetupToken {
    hash: TokenHash,
    expires_at: Time,
}

impl Record for SetupToken {
    const TABLE: &'static str = "setup";
    const EXPORT: Export<Self> = Export::LeftOut("of an installation without organizations");
    const ORG_SCOPED: bool = false;
    type Key = ();
    fn key(&self) {}
}

/// Creates the token of a setup link, valid once and for 30 minutes, and revokes the previous one.
/// Returns none if there is a user.
pub fn issue_setup_token(tx: &mut Tx) -> Result<Option<String>> {
    if has_any_user(&tx.view())? {
        return Ok(None);
    }
    let token = new_token(tx);
    let expires_at = tx.now().plus_secs(SETUP_SECS);
    tx.put(&SetupToken { hash: hash_of(&token), expires_at })?;
    Ok(Some(token))
}

/// As [`issue_setup_token`], for servers that share a store: while the token of one of them is valid
/// for 10 more minutes, the others get the same. It is derived from the installation's key.
pub fn shared_setup_token(tx: &mut Tx) -> Result<Option<String>> {
    if has_any_user(&tx.view())? {
        return Ok(None);
    }
    let shared_until = tx.now().plus_secs(SHARED_SECS);
    if let Some(stored) = tx.get::<SetupToken>(&())?.filter(|token| token.expires_at > shared_until)
    {
        let token = derived_token(tx, stored.expires_at);
        if hash_of(&token) == stored.hash {
            return Ok(Some(token));
        }
    }
    let expires_at = tx.now().plus_secs(SETUP_SECS);
    let token = derived_token(tx, expires_at);
    tx.put(&SetupToken { hash: hash_of(&token), expires_at })?;
    Ok(Some(token))
}

fn derived_token(tx: &Tx, expires_at: Time) -> String {
    let until = expires_at.millis().to_be_bytes();
    token_of(tx.keys().hash("roadstead 2026 shared setup link", &until))
}

/// Whether the installation has a user, which means it is set up.
pub fn has_any_user(view: &View) -> Result<bool> {
    Ok(view.count::<User>(ListSource::TABLE, &(), 1)? > 0)
}

// ── Creating ─────────────────────────────────────────────────────────────────

/// An organization to create together with its owner.
pub struct NewFoundation {
    /// The organization's slug.
    pub slug: Slug,
    pub name: Name,
    /// The owner's address.
    pub email: Email,
    /// The owner's name.
    pub user_name: Name,
    /// The argon2id hash of the owner's password; without one, the owner cannot sign in.
    pub password_hash: Option<String>,
    /// The name of an API key with `deployment:approve-as` to create, if any.
    pub api_key: Option<Name>,
}

/// A new organization with its owner.
pub struct Bootstrapped {
    pub organization: Organization,
    /// Its owner.
    pub user: User,
    /// The key and its text, which is not stored and cannot be retrieved again.
    pub key: Option<(ApiKey, String)>,
}

/// Creates an organization, its owner with a verified e-mail address, and an API key on request.
/// An open setup link is revoked.
///
/// # Errors
/// 409 if the slug or the e-mail address is taken.
pub fn bootstrap(tx: &mut Tx, new: &NewFoundation) -> Result<Bootstrapped> {
    // The operator vouches for the address.
    let (password, proof) = (new.password_hash.clone(), AddressProof::Proved);
    let user = accounts::create(tx, &new.email, &new.user_name, password, proof)?;
    let organization = organization::create_owned(tx, &new.slug, &new.name, user.id)?;
    let key = match &new.api_key {
        Some(name) => {
            let settings = keys::KeySettings::full(name, true);
            Some(keys::create_key(tx, organization.id, user.id, user.id, settings)?)
        }
        None => None,
    };
    if let Some(token) = tx.get::<SetupToken>(&())? {
        tx.remove(&token)?;
    }
    Ok(Bootstrapped { organization, user, key })
}

// ── POST /setup ──────────────────────────────────────────────────────────────

/// The first organization and its owner.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"token": "the-token-of-the-setup-link", "organization": {"slug": "acme",
        "name": "Acme"}, "user": {"name": "Ada", "email": "ada@acme.example",
        "password": "seven green bottles"}}],
))]
struct SetupRequest {
    /// The fragment of the setup link, after the `#`.
    token: String,
    /// The first organization.
    organization: NewOrganization,
    /// Its owner.
    user: NewOwner,
}
impl Input for SetupRequest {}

/// The user who owns the first organization.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SetupUser")]
struct NewOwner {
    name: Name,
    email: Email,
    /// The password to sign in with, of at least 12 characters.
    password: Password,
}

fn prepare(view: &View, req: &Req<(), SetupRequest>) -> Result<HashPlan> {
    require_invitation(view, &req.input.token)?;
    let make = Some(req.input.user.password.to_string());
    Ok(HashPlan { hashing: HashRequest { verify: None, make }, attempt: None })
}

fn set_up(
    tx: &mut Tx,
    req: &Req<(), SetupRequest>,
    hashed: &HashResult,
) -> Result<(SessionInfo, Id<User>)> {
    require_invitation(&tx.view(), &req.input.token)?;
    let SetupRequest { organization, user, .. } = &req.input;
    let new = NewFoundation {
        slug: organization.slug.clone(),
        name: organization.name.clone(),
        email: user.email.clone(),
        user_name: user.name.clone(),
        password_hash: hashed.made.clone(),
        api_key: None,
    };
    let user = bootstrap(tx, &new)?.user;
    Ok((sessions::create_session(tx, &user, req.origin.address)?, user.id))
}

fn require_invitation(view: &View, token: &str) -> Result<()> {
    if has_any_user(view)? {
        return Err(Error::new(Kind::NotFound, "not_found", "this server is set up; sign in"));
    }
    let is_valid = view.get::<SetupToken>(&())?.is_some_and(|stored| {
        // Hashes are compared in constant time.
        blake3::Hash::from(stored.hash) == hash_of(token) && stored.expires_at > view.now()
    });
    if is_valid {
        return Ok(());
    }
    Err(Error::unauthenticated(
        "the setup link is not valid; print the current one with `roadstead setup-link`",
    ))
}

/// Whether the installation can still be set up.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SetupState {
    /// Whether it has a user: then there is no setup link any more.
    is_set_up: bool,
}

impl Output for SetupState {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

fn state(view: &View, _: &Req) -> Result<SetupState> {
    Ok(SetupState { is_set_up: has_any_user(view)? })
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/setup", ANYONE, "setup.get", op::read(state))
            .open_before_setup()
            .about("Get whether the server is set up"),
        Route::post("/setup", ANYONE, "organization.set_up", op::hash(prepare, set_up))
            .no_replay()
            .open_before_setup()
            .about("Create the first organization and its owner"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hashing, identity_of};
    use super::*;
    use crate::api::Principal;
    use crate::auth::{Membership, Role, find_person};
    use crate::base::Kind;
    use crate::resources::testing::{Fixture, NOON};
    use crate::store::{Clock, Store};
    use serde_json::json;

    fn empty() -> Store {
        Store::in_memory(Clock::at(NOON), &crate::resources::tables())
    }

    fn link(store: &Store) -> Option<String> {
        store.write_blocking(Id::NIL, issue_setup_token).unwrap()
    }

    fn body(token: &str) -> SetupRequest {
        let body = json!({
            "token": token,
            "organization": {"slug": "acme", "name": "Acme"},
            "user": {"name": "Ada", "email": "Ada@Acme.test", "password": "correct horse"},
        });
        Fixture::input(body).unwrap()
    }

    fn send(store: &Store, token: &str) -> Result<SessionInfo> {
        hashing(store, &Principal::Anonymous, prepare, set_up, body(token))
    }

    #[test]
    fn the_newest_setup_link_creates_an_owner_once() {
        let store = empty();
        let old = link(&store).unwrap();
        let token = link(&store).unwrap();
        for wrong in [old.as_str(), "", "nope"] {
            assert_eq!(send(&store, wrong).err().unwrap().kind(), Kind::Unauthenticated);
        }
        let session = send(&store, &token).unwrap();
        let identity = identity_of(&store, &session.token).unwrap();
        store
            .read_now(Id::NIL, |view| {
                let user = find_person(view, &Email::parse("ada@acme.test").unwrap())?.unwrap();
                assert_eq!(identity.user, user.id);
                let [membership]: [Membership; 1] =
                    view.all(ListSource::TABLE, &user.id)?.try_into().unwrap();
                assert_eq!((membership.role, membership.email_verified), (Role::Owner, true));
                assert!(view.get::<SetupToken>(&())?.is_none());
                Ok(())
            })
            .unwrap();
        assert_eq!(send(&store, &token).err().unwrap().kind(), Kind::NotFound);
        assert_eq!(link(&store), None);
        let findings = store.check(&super::super::RESOURCE.tables()).unwrap();
        assert_eq!(findings.messages, Vec::<String>::new());
    }

    #[test]
    fn a_setup_link_expires_after_half_an_hour() {
        let store = empty();
        let token = link(&store).unwrap();
        store.clock().advance_secs(SETUP_SECS);
        assert_eq!(send(&store, &token).err().unwrap().kind(), Kind::Unauthenticated);
        assert!(send(&store, &link(&store).unwrap()).is_ok());
    }

    #[test]
    fn servers_of_one_store_share_a_setup_link_until_it_soon_expires() {
        let store = empty();
        let link = || store.write_blocking(Id::NIL, shared_setup_token).unwrap();
        let first = link().unwrap();
        store.clock().advance_secs(SETUP_SECS - SHARED_SECS - 1);
        assert_eq!(link(), Some(first.clone()));
        store.clock().advance_secs(1);
        let second = link().unwrap();
        assert_eq!(send(&store, &first).err().unwrap().kind(), Kind::Unauthenticated);
        assert!(send(&store, &second).is_ok());
        assert_eq!(link(), None);
    }

    #[test]
    fn a_link_revoked_during_password_hashing_creates_nothing() {
        let store = empty();
        let token = link(&store).unwrap();
        let parts = crate::resources::testing::args((), body(&token));
        let work =
            store.read_now(Id::NIL, |view| prepare(view, &Req::new(&parts, &Principal::Anonymous)));
        assert!(work.is_ok());
        link(&store);
        let settled = store.write_blocking(Id::NIL, move |tx| {
            set_up(tx, &Req::new(&parts, &Principal::Anonymous), &HashResult::default()).map(|_| ())
        });
        assert_eq!(settled.err().unwrap().kind(), Kind::Unauthenticated);
        assert!(!store.read_now(Id::NIL, has_any_user).unwrap());
    }

    #[test]
    fn setup_by_the_command_line_creates_a_key_that_may_approve_as_others() {
        let store = empty();
        link(&store);
        let founded = store.write_blocking(Id::NIL, |tx| {
            let new = NewFoundation {
                slug: Slug::parse("acme").unwrap(),
                name: Name::parse("Acme").unwrap(),
                email: Email::parse("ada@acme.test").unwrap(),
                user_name: Name::parse("Ada").unwrap(),
                password_hash: None,
                api_key: Some(Name::parse("first").unwrap()),
            };
            bootstrap(tx, &new)
        });
        let founded = founded.unwrap();
        let (key, text) = founded.key.unwrap();
        assert!(key.approve_as && text.starts_with(&key.start));
        assert_eq!(crate::auth::key_hash(&text), Some(key.hash));
        assert_eq!((key.user, key.org), (founded.user.id, founded.organization.id));
        assert_eq!(link(&store), None);
    }
}
