//! The records that decide who may do what: users, organizations, memberships, keys, sessions,
//! grants. They are read in the transaction of every request, so that a change holds on the next.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{Email, Id, Name, Result, Slug, Time};
use crate::store::{AnyIndex, AnyReference, Index, Key, Org, Record, Reference, Tx};

/// A person. Not `Debug`: no hash of a password belongs in a log.
#[derive(Clone, Encode, Decode)]
pub struct User {
    /// Their id.
    pub id: Id<User>,
    /// Their address, which is how they sign in.
    pub email: Email,
    /// Their name.
    pub name: Name,
    /// An https URL of a picture.
    pub image: Option<String>,
    /// The argon2id hash of their password, in PHC form; without one they cannot sign in.
    pub password: Option<String>,
    /// When they came.
    pub created_at: Time,
}

/// Users by their address.
pub static BY_EMAIL: Index<User, Email> = Index::unique(
    "users.by_email",
    "email_taken",
    "somebody with this e-mail address exists already",
    |user| Some(user.email.clone()),
);

impl Record for User {
    const TABLE: &'static str = "users";
    const OWNED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_EMAIL];
    type Key = Id<User>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// An organization.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Organization {
    /// Its id, with which the key of everything it owns begins.
    pub id: Id<Org>,
    /// Its slug, by which requests name it.
    pub slug: Slug,
    /// Its name.
    pub name: Name,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// Organizations by slug.
pub static BY_SLUG: Index<Organization, Slug> = Index::unique(
    "organizations.by_slug",
    "organization_slug_taken",
    "an organization with this slug exists already; choose another slug",
    |organization| Some(organization.slug.clone()),
);

impl Record for Organization {
    const TABLE: &'static str = "organizations";
    const OWNED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    type Key = Id<Org>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// What a member is in an organization (reference: identity-and-rights, "Roles"), the least first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Works in it.
    Member,
    /// Manages it.
    Admin,
    /// Manages its owners too.
    Owner,
}
crate::store::stored_enum!(Role { Member = 0, Admin = 1, Owner = 2 });

/// That a user is in an organization.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Membership {
    /// Who.
    pub user: Id<User>,
    /// Where.
    pub org: Id<Org>,
    /// As what.
    pub role: Role,
    /// Whether this organization vouches for their e-mail address.
    pub email_verified: bool,
    /// Since when.
    pub joined_at: Time,
}

/// Memberships by organization, in the order in which members joined.
pub static BY_ORG: Index<Membership, (Id<Org>, Time)> =
    Index::many("memberships.by_org", |membership| Some((membership.org, membership.joined_at)));

static MEMBER_USER: Reference<Membership, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |membership: &Membership, _| vec![membership.user.to_bytes()],
);

static MEMBER_ORG: Reference<Membership, Organization> = Reference::cascade(
    &["org"],
    |organization: &Organization| organization.id.to_bytes(),
    |membership: &Membership, _| vec![membership.org.to_bytes()],
)
.by(&BY_ORG);

impl Record for Membership {
    const TABLE: &'static str = "memberships";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&MEMBER_USER, &MEMBER_ORG];
    const OWNED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_ORG];
    type Key = (Id<User>, Id<Org>);
    fn key(&self) -> Self::Key {
        (self.user, self.org)
    }
}

/// The BLAKE3 hash of an API key, which is all that is kept of it.
pub type KeyHash = [u8; 32];

/// An API key: acts as the user who made it, in one organization
/// (reference: identity-and-rights, "API keys").
#[derive(Clone, Debug, Encode, Decode)]
pub struct ApiKey {
    /// Its id.
    pub id: Id<ApiKey>,
    /// Its hash.
    pub hash: KeyHash,
    /// The organization it is for.
    pub org: Id<Org>,
    /// Whom it acts as.
    pub user: Id<User>,
    /// What it is for.
    pub name: Name,
    /// Its first eight characters, to tell it from others.
    pub start: String,
    /// Whether it may record decisions as a named approver (`deployment:approve-as`).
    pub approve_as: bool,
    /// When it was made.
    pub created_at: Time,
    /// When it ends.
    pub expires_at: Option<Time>,
    /// When the next event about its end is due.
    pub next_notice_at: Option<Time>,
}

/// Keys of an organization, oldest first.
pub static KEYS_BY_ORG: Index<ApiKey, (Id<Org>, Id<ApiKey>)> =
    Index::many("api_keys.by_org", |key| Some((key.org, key.id)));

/// Keys of a user in an organization.
pub static KEYS_BY_USER: Index<ApiKey, (Id<Org>, Id<User>)> =
    Index::many("api_keys.by_user", |key| Some((key.org, key.user)));

/// Keys by when the next event about their end is due.
pub static KEYS_BY_EXPIRY_NOTICE: Index<ApiKey, Time> =
    Index::many("api_keys.by_notice", |key| key.next_notice_at);

/// Should who leaves an organization come back, they begin without keys.
static KEY_MEMBER: Reference<ApiKey, Membership> = Reference::cascade(
    &["org", "user"],
    |member: &Membership| (member.org, member.user).to_bytes(),
    |key: &ApiKey, _| vec![(key.user, key.org).to_bytes()],
)
.by(&KEYS_BY_USER);

impl Record for ApiKey {
    const TABLE: &'static str = "api_keys";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&KEY_MEMBER];
    const OWNED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&KEYS_BY_ORG, &KEYS_BY_USER, &KEYS_BY_EXPIRY_NOTICE];
    type Key = KeyHash;
    fn key(&self) -> Self::Key {
        self.hash
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        match tx.get::<KeyUse>(&self.id)? {
            Some(used) => tx.remove(&used),
            None => Ok(()),
        }
    }
}

/// When a key was last used. Apart from the key itself, so that using one decides nothing; made and
/// removed with it.
#[derive(Clone, Debug, Encode, Decode)]
pub struct KeyUse {
    /// Which key.
    pub key: Id<ApiKey>,
    /// When, if ever; at most a minute old.
    pub at: Option<Time>,
}

impl Record for KeyUse {
    const TABLE: &'static str = "api_keys.used";
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("key", "a part of the key: made and removed with it")];
    const OWNED: bool = false;
    type Key = Id<ApiKey>;
    fn key(&self) -> Self::Key {
        self.key
    }
}

/// A signed-in browser (or whoever else signs in as a person).
#[derive(Clone, Debug, Encode, Decode)]
pub struct Session {
    /// Its id, the token's `sid`.
    pub id: Id<Session>,
    /// Whose.
    pub user: Id<User>,
    /// Since when.
    pub created_at: Time,
    /// Until when.
    pub expires_at: Time,
}

/// Sessions by user.
pub static SESSIONS_BY_USER: Index<Session, Id<User>> =
    Index::many("sessions.by_user", |session| Some(session.user));

/// Sessions by their end.
pub static SESSIONS_BY_EXPIRY: Index<Session, Time> =
    Index::many("sessions.by_end", |session| Some(session.expires_at));

static SESSION_USER: Reference<Session, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |session: &Session, _| vec![session.user.to_bytes()],
)
.by(&SESSIONS_BY_USER);

impl Record for Session {
    const TABLE: &'static str = "sessions";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&SESSION_USER];
    const OWNED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&SESSIONS_BY_USER, &SESSIONS_BY_EXPIRY];
    type Key = Id<Session>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// What a grant can be for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    /// A fleet.
    Fleet,
    /// A registry.
    Registry,
    /// An environment.
    Environment,
}
crate::store::stored_enum!(ResourceType { Fleet = 0, Registry = 1, Environment = 2 });

/// Something a grant is for; the id of a record of its type.
pub enum Granted {}

/// That a user may use a restricted resource (reference: identity-and-rights, "Access grants").
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its id.
    pub id: Id<Grant>,
    /// Who may.
    pub user_id: Id<User>,
    /// Use what kind of thing.
    pub resource_type: ResourceType,
    /// Which one.
    pub resource_id: Id<Granted>,
    /// Who granted it.
    pub created_by: Id<User>,
    /// When.
    pub created_at: Time,
}

/// The one grant of a user for a thing.
pub static GRANT_BY_TARGET: Index<Grant, (Id<User>, ResourceType, Id<Granted>)> =
    Index::unique("grants.one", "grant_exists", "this user has this grant already", |grant| {
        Some((grant.user_id, grant.resource_type, grant.resource_id))
    });

/// Grants by user, oldest first.
pub static GRANTS_BY_USER: Index<Grant, Id<User>> =
    Index::many("grants.by_user", |grant| Some(grant.user_id));

/// Grants by what they are for.
pub static GRANTS_BY_RESOURCE: Index<Grant, (ResourceType, Id<Granted>)> =
    Index::many("grants.by_resource", |grant| Some((grant.resource_type, grant.resource_id)));

/// Should who leaves an organization come back, they begin without grants: so none of them is left
/// to a sweep.
static GRANT_MEMBER: Reference<Grant, Membership> = Reference::cascade(
    &["user_id"],
    |member: &Membership| member.user.to_bytes(),
    |grant: &Grant, org| vec![(grant.user_id, org).to_bytes()],
)
.by(&GRANTS_BY_USER);

impl Record for Grant {
    const TABLE: &'static str = "grants";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&GRANT_MEMBER];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("created_by", "history: who granted it may have left")];
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&GRANT_BY_TARGET, &GRANTS_BY_USER, &GRANTS_BY_RESOURCE];
    type Key = Id<Grant>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// That somebody signed in from an address: it then has its own sign-in attempts, so that a
/// stranger cannot lock anybody out (reference: conventions, "Rate limits").
#[derive(Clone, Debug, Encode, Decode)]
pub struct KnownSignInAddress {
    /// With which e-mail address.
    pub email: Email,
    /// From where.
    pub address: String,
    /// When last.
    pub at: Time,
}

/// How long an address is known after a sign-in.
pub const KNOWN_ADDRESS_SECS: i64 = 30 * 24 * 3600;

/// Known addresses by time, for forgetting them.
pub static KNOWN_ADDRESSES_BY_TIME: Index<KnownSignInAddress, Time> =
    Index::many("known_addresses.by_time", |known| Some(known.at));

impl Record for KnownSignInAddress {
    const TABLE: &'static str = "known_addresses";
    const OWNED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&KNOWN_ADDRESSES_BY_TIME];
    type Key = (Email, String);
    fn key(&self) -> Self::Key {
        (self.email.clone(), self.address.clone())
    }
}
