//! How an installation gets its first organization and its first person: by the command line, or
//! by a link that is good once and for half an hour (reference: identity-and-rights, "Setting up").
//!
//! Once anybody exists, setting up is a path that is not there.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::own::{self, NewOrganization};
use super::sessions::{self, SessionInfo};
use super::{TokenHash, hash_of, keys, new_token};
use crate::api::{HashPlan, Input, Req, Resource, Route, op};
use crate::auth::passwords::{HashRequest, HashResult, Password};
use crate::auth::{ANYONE, ApiKey, Organization, User};
use crate::base::{Email, Error, Id, Name, Result, Slug, Time};
use crate::store::{Record, Source, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<SetupToken>()], ..Resource::EMPTY };

/// A setup link is good for half an hour: whoever reads the log later finds a dead one.
const SETUP_SECS: i64 = 30 * 60;

// ── Record ───────────────────────────────────────────────────────────────────

/// The token of the one setup link that is good.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct SetupToken {
    hash: TokenHash,
    expires_at: Time,
}

impl Record for SetupToken {
    const TABLE: &'static str = "setup";
    const OWNED: bool = false;
    type Key = ();
    fn key(&self) {}
}

/// Makes the token of a setup link, good once and for 30 minutes; the one before it is good no
/// more. `None` once there is a user.
pub fn issue_setup_token(tx: &mut Tx) -> Result<Option<String>> {
    if has_any_user(&tx.view())? {
        return Ok(None);
    }
    let token = new_token(tx);
    let expires_at = tx.now().plus_secs(SETUP_SECS);
    tx.put(&SetupToken { hash: hash_of(&token), expires_at })?;
    Ok(Some(token))
}

/// Whether the installation has a user, and so is set up.
pub fn has_any_user(view: &View) -> Result<bool> {
    Ok(view.count::<User>(Source::TABLE, &(), 1)? > 0)
}

// ── NewFoundation ─────────────────────────────────────────────────────────────────

/// What a first organization is made of.
pub struct NewFoundation {
    /// The organization's slug.
    pub slug: Slug,
    /// Its name.
    pub name: Name,
    /// The owner's address.
    pub email: Email,
    /// The owner's name.
    pub user_name: Name,
    /// The argon2id hash of the owner's password; without one they cannot sign in.
    pub password_hash: Option<String>,
    /// The name of an API key with `deployment:approve-as`, if one is wanted.
    pub api_key: Option<Name>,
}

/// What was made of it.
pub struct Bootstrapped {
    /// The organization.
    pub organization: Organization,
    /// Its owner.
    pub user: User,
    /// The key and its text, which is shown now and never again.
    pub key: Option<(ApiKey, String)>,
}

/// Makes an organization, its owner, whose e-mail address it vouches for, and a key if one is
/// wanted. An open setup link is good no more.
///
/// # Errors
/// 409 if the slug or the e-mail address is taken.
pub fn found(tx: &mut Tx, founding: &NewFoundation) -> Result<Bootstrapped> {
    let user = User {
        id: tx.new_id(),
        email: founding.email.clone(),
        name: founding.user_name.clone(),
        image: None,
        password: founding.password_hash.clone(),
        created_at: tx.now(),
    };
    tx.insert(&user)?;
    let organization = own::found(tx, &founding.slug, &founding.name, user.id)?;
    let key = match &founding.api_key {
        Some(name) => Some(keys::create_key(tx, organization.id, user.id, name, true, None)?),
        None => None,
    };
    if let Some(token) = tx.get::<SetupToken>(&())? {
        tx.remove(&token)?;
    }
    Ok(Bootstrapped { organization, user, key })
}

// ── POST /setup ──────────────────────────────────────────────────────────────

#[derive(Deserialize, JsonSchema)]
struct SetUp {
    /// What stands after the `#` of the setup link.
    token: String,
    organization: NewOrganization,
    user: NewOwner,
}
impl Input for SetUp {}

#[derive(Deserialize, JsonSchema)]
struct NewOwner {
    name: Name,
    email: Email,
    password: Password,
}

fn look(view: &View, req: &Req<(), SetUp>) -> Result<HashPlan> {
    require_invitation(view, &req.input.token)?;
    let make = Some(req.input.user.password.to_string());
    Ok(HashPlan { hashing: HashRequest { verify: None, make }, attempt: None })
}

fn set_up(
    tx: &mut Tx,
    req: &Req<(), SetUp>,
    hashed: &HashResult,
) -> Result<(SessionInfo, Id<User>)> {
    require_invitation(&tx.view(), &req.input.token)?;
    let SetUp { organization, user, .. } = &req.input;
    let founding = NewFoundation {
        slug: organization.slug.clone(),
        name: organization.name.clone(),
        email: user.email.clone(),
        user_name: user.name.clone(),
        password_hash: hashed.made.clone(),
        api_key: None,
    };
    let user = found(tx, &founding)?.user;
    Ok((sessions::begin(tx, &user, req.address)?, user.id))
}

fn require_invitation(view: &View, token: &str) -> Result<()> {
    if has_any_user(view)? {
        return Err(Error::not_found());
    }
    let good = view.get::<SetupToken>(&())?.is_some_and(|kept| {
        // This comparison of hashes takes the same time wherever they differ.
        blake3::Hash::from(kept.hash) == hash_of(token) && kept.expires_at > view.now()
    });
    match good {
        true => Ok(()),
        false => Err(Error::unauthenticated(
            "the setup link is not valid; ask for a new one with `roadstead setup-link`",
        )),
    }
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/setup", ANYONE, "organization.set_up", op::hash(look, set_up))
            .no_replay()
            .open_before_setup()
            .about("Make the first organization and its owner"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hashing, identity_of};
    use super::*;
    use crate::api::Principal;
    use crate::auth::{BY_EMAIL, Membership, Role};
    use crate::base::Kind;
    use crate::resources::testing::{NOON, World};
    use crate::store::{Clock, Store};
    use serde_json::json;

    fn empty() -> Store {
        Store::in_memory(Clock::at(NOON), &crate::resources::tables())
    }

    fn link(store: &Store) -> Option<String> {
        store.write_now(Id::NIL, issue_setup_token).unwrap()
    }

    fn body(token: &str) -> SetUp {
        let body = json!({
            "token": token,
            "organization": {"slug": "acme", "name": "Acme"},
            "user": {"name": "Ada", "email": "Ada@Acme.test", "password": "correct horse"},
        });
        World::input(body).unwrap()
    }

    fn send(store: &Store, token: &str) -> Result<SessionInfo> {
        hashing(store, &Principal::Anonymous, look, set_up, body(token))
    }

    #[test]
    fn the_newest_setup_link_makes_an_owner_once() {
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
                let user = view.find(&BY_EMAIL, &Email::parse("ada@acme.test").unwrap())?.unwrap();
                assert_eq!(identity.user, user.id);
                let [membership]: [Membership; 1] =
                    view.all(Source::TABLE, &user.id)?.try_into().unwrap();
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
    fn a_setup_link_ends_after_half_an_hour() {
        let store = empty();
        let token = link(&store).unwrap();
        store.clock().advance_secs(SETUP_SECS);
        assert_eq!(send(&store, &token).err().unwrap().kind(), Kind::Unauthenticated);
        assert!(send(&store, &link(&store).unwrap()).is_ok());
    }

    #[test]
    fn a_link_made_useless_while_its_password_is_hashed_sets_nothing_up() {
        let store = empty();
        let token = link(&store).unwrap();
        let parts = crate::resources::testing::args((), body(&token));
        let work =
            store.read_now(Id::NIL, |view| look(view, &Req::new(&parts, &Principal::Anonymous)));
        assert!(work.is_ok());
        link(&store);
        let settled = store.write_now(Id::NIL, move |tx| {
            set_up(tx, &Req::new(&parts, &Principal::Anonymous), &HashResult::default()).map(|_| ())
        });
        assert_eq!(settled.err().unwrap().kind(), Kind::Unauthenticated);
        assert!(!store.read_now(Id::NIL, has_any_user).unwrap());
    }

    #[test]
    fn founding_by_the_command_line_makes_a_key_that_may_approve_as_others() {
        let store = empty();
        link(&store);
        let founded = store.write_now(Id::NIL, |tx| {
            let founding = NewFoundation {
                slug: Slug::parse("acme").unwrap(),
                name: Name::parse("Acme").unwrap(),
                email: Email::parse("ada@acme.test").unwrap(),
                user_name: Name::parse("Ada").unwrap(),
                password_hash: None,
                api_key: Some(Name::parse("first").unwrap()),
            };
            found(tx, &founding)
        });
        let founded = founded.unwrap();
        let (key, text) = founded.key.unwrap();
        assert!(key.approve_as && text.starts_with(&key.start));
        assert_eq!(crate::auth::key_hash(&text), Some(key.hash));
        assert_eq!((key.user, key.org), (founded.user.id, founded.organization.id));
        assert_eq!(link(&store), None);
    }
}
