//! The records that decide access: users, organizations, memberships, API keys, sessions, grants.
//! They are read in the transaction of every request, so a change takes effect on the next one.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scopes::KeyAccess;
use crate::base::{Email, Id, Name, Result, Slug, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Org, Record, Reference, View,
    upgrade_shorter,
};

/// A user. It has no `Debug`: password hashes must not be logged.
#[derive(Clone, Encode, Decode)]
pub struct User {
    pub id: Id<User>,
    /// The e-mail address with which the user signs in.
    pub email: Email,
    pub name: Name,
    /// An https URL of a picture of the user.
    pub image: Option<String>,
    /// The argon2id hash of the password, in PHC format; without one the user cannot sign in.
    pub password: Option<String>,
    /// Increases with every change of the password: sessions of an earlier generation have ended.
    /// A number and not a time, which could be the same before and after the change.
    pub session_generation: u32,
    /// The organization that owns the user, if it is a service account.
    pub service_of: Option<Id<Org>>,
    pub created_at: Time,
    /// Whether somebody who reads the mail of the address has the account.
    pub proof: AddressProof,
    /// Keys, invitations, reset links and waiting deployments made by the user up to this time are
    /// refused: who made them had not proved the address.
    pub keys_from: Option<Time>,
}

/// Whether an account is known to belong to who reads the mail of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressProof {
    /// It was made when that was not asked: it counts as proved if an organization considers the
    /// address verified.
    Unknown,
    /// Nobody has proved it: the person who does takes the account over.
    Unproved,
    /// Proved by a token that was sent to the address, or vouched for by the operator.
    Proved,
}
crate::store::stored_enum!(AddressProof { Unknown = 0, Unproved = 1, Proved = 2 });

/// What a user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserKind {
    /// A person, who signs in.
    Person,
    /// A service account: a member of one organization without a password, which owns API keys.
    Service,
}

impl User {
    /// What it is.
    pub fn kind(&self) -> UserKind {
        if self.is_service() { UserKind::Service } else { UserKind::Person }
    }

    /// Whether it is a service account, which never signs in
    /// (reference: identity-and-rights, "Service accounts").
    pub fn is_service(&self) -> bool {
        self.service_of.is_some()
    }

    /// Whether who has the account has proved to read the mail of its address.
    pub fn is_proved(&self, view: &View) -> Result<bool> {
        match self.proof {
            AddressProof::Proved => Ok(true),
            AddressProof::Unproved => Ok(false),
            AddressProof::Unknown => {
                let memberships = view.all::<Membership>(ListSource::TABLE, &self.id)?;
                Ok(memberships.iter().any(|membership| membership.email_verified))
            }
        }
    }

    /// Whether what the user made at this time is accepted: a key, also one taken over then, an
    /// invitation, a reset link, a deployment that waits.
    pub fn accepts_made(&self, made_at: Time) -> bool {
        self.keys_from.is_none_or(|from| made_at > from)
    }
}

/// People by e-mail address. Service accounts are not found by theirs, which nobody reads: so none
/// is invited, and none signs in or resets a password.
static BY_EMAIL: Index<User, Email> = Index::unique(
    "users.by_email",
    "email_taken",
    "a user with this e-mail address exists already",
    |user| (!user.is_service()).then(|| user.email.clone()),
);

/// Returns the person with this e-mail address. Every look-up of one goes through here: what was stored
/// while domains were kept as they were sent is found too, and finds what is stored now.
pub fn find_person(view: &View, email: &Email) -> Result<Option<User>> {
    if let Some(user) = view.find(&BY_EMAIL, email)? {
        return Ok(Some(user));
    }
    let later = Email::parse(email.as_str()).ok().filter(|later| later != email);
    for other in [later, email.with_unicode_domain()].iter().flatten() {
        if let Some(user) = view.find(&BY_EMAIL, other)? {
            return Ok(Some(user));
        }
    }
    Ok(None)
}

/// Service accounts of an organization, oldest first.
pub static SERVICE_ACCOUNTS_BY_ORG: Index<User, (Id<Org>, Id<User>)> =
    Index::non_unique("users.by_organization", |user| user.service_of.map(|org| (org, user.id)));

/// An organization's service accounts end with it.
static SERVICE_ORG: Reference<User, Organization> = Reference::cascade(
    &["service_of"],
    |organization: &Organization| organization.id.to_bytes(),
    |user: &User, _| user.service_of.map(|org| org.to_bytes()).into_iter().collect(),
)
.by(&SERVICE_ACCOUNTS_BY_ORG);

impl Record for User {
    const TABLE: &'static str = "users";
    const EXPORT: Export<Self> =
        Export::LeftOut("members are exported with their addresses and roles; no password leaves");
    const ORG_SCOPED: bool = false;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&SERVICE_ORG];
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_EMAIL, &SERVICE_ACCOUNTS_BY_ORG];
    const VERSION: u8 = 2;
    type Key = Id<User>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

crate::base::portable! {
/// An organization.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Organization {
    /// Its id, with which the key of everything it owns begins.
    pub id: Id<Org>,
    /// The slug by which requests refer to it.
    pub slug: Slug,
    pub name: Name,
    pub created_at: Time,
    pub updated_at: Time,
    /// Who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
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
    const EXPORT: Export<Self> = Export::LeftOut("in the first line of the file");
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_SLUG];
    const VERSION: u8 = 2;
    type Key = Id<Org>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// The role of a member in an organization, in increasing order
/// (reference: identity-and-rights, "Roles").
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "OrganizationRole")]
pub enum Role {
    /// Reads what members read, and changes nothing but their own account.
    Viewer,
    /// Works in the organization.
    Member,
    /// Manages members, keys and resources.
    Admin,
    /// Like an admin, and also manages owners.
    Owner,
}
crate::store::stored_enum!(Role { Member = 0, Admin = 1, Owner = 2, Viewer = 3 });

/// The membership of a user in an organization.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Membership {
    pub user: Id<User>,
    pub org: Id<Org>,
    pub role: Role,
    /// Whether the organization considers the user's e-mail address verified.
    pub email_verified: bool,
    pub joined_at: Time,
}

/// Memberships by organization, in the order in which members joined.
pub static BY_ORG: Index<Membership, (Id<Org>, Time)> =
    Index::non_unique("memberships.by_org", |membership| {
        Some((membership.org, membership.joined_at))
    });

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
    const NOUN: &'static str = "member";
    const EXPORT: Export<Self> =
        Export::LeftOut("members are exported with their addresses and roles");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&MEMBER_USER, &MEMBER_ORG];
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_ORG];
    type Key = (Id<User>, Id<Org>);
    fn key(&self) -> Self::Key {
        (self.user, self.org)
    }
}

/// The BLAKE3 hash of an API key; the key itself is not stored.
pub type KeyHash = [u8; 32];

/// An API key: acts as the user who created it, or as a service account, in one organization
/// (reference: identity-and-rights, "API keys").
#[derive(Clone, Debug, Encode, Decode)]
pub struct ApiKey {
    pub id: Id<ApiKey>,
    pub hash: KeyHash,
    pub org: Id<Org>,
    /// The user it acts as.
    pub user: Id<User>,
    /// The person who answers for it: the same user or, for a service account, the admin who created
    /// it or took it over.
    pub created_by: Id<User>,
    /// Says what the key is used for.
    pub name: Name,
    /// Its first eight characters, by which users recognize it.
    pub start: String,
    /// Whether it may record decisions as a named approver (`deployment:approve-as`).
    pub approve_as: bool,
    /// How much of its user's rights it has.
    pub access: KeyAccess,
    pub created_at: Time,
    /// When it expires, if ever.
    pub expires_at: Option<Time>,
    /// When the next event about its expiry is due.
    pub next_notice_at: Option<Time>,
    /// When the person who answers for it took it over, if another made it.
    pub taken_over_at: Option<Time>,
    /// The key that it was rotated from.
    pub replaces: Option<Id<ApiKey>>,
    /// The key that it was rotated into.
    pub replaced_by: Option<Id<ApiKey>>,
    /// When it was rotated.
    pub replaced_at: Option<Time>,
}

impl ApiKey {
    /// Whether somebody else than its user answers for it, which means that it is a service account's.
    pub fn has_sponsor(&self) -> bool {
        self.created_by != self.user
    }

    /// Since when the person who answers for it does so.
    pub fn answered_for_since(&self) -> Time {
        self.taken_over_at.unwrap_or(self.created_at)
    }
}

/// Keys of an organization, oldest first.
pub static KEYS_BY_ORG: Index<ApiKey, (Id<Org>, Id<ApiKey>)> =
    Index::non_unique("api_keys.by_org", |key| Some((key.org, key.id)));

/// Keys of a user in an organization.
pub static KEYS_BY_USER: Index<ApiKey, (Id<Org>, Id<User>)> =
    Index::non_unique("api_keys.by_user", |key| Some((key.org, key.user)));

/// Keys of service accounts by who answers for them.
pub static KEYS_BY_SPONSOR: Index<ApiKey, (Id<Org>, Id<User>)> =
    Index::non_unique("api_keys.by_sponsor", |key| {
        key.has_sponsor().then_some((key.org, key.created_by))
    });

/// Keys by when the next event about their expiry is due.
pub static KEYS_BY_EXPIRY_NOTICE: Index<ApiKey, Time> =
    Index::non_unique("api_keys.by_notice", |key| key.next_notice_at);

/// A user who leaves an organization and returns has no keys.
static KEY_MEMBER: Reference<ApiKey, Membership> = Reference::cascade(
    &["org", "user"],
    |member: &Membership| (member.org, member.user).to_bytes(),
    |key: &ApiKey, _| vec![(key.user, key.org).to_bytes()],
)
.by(&KEYS_BY_USER);

impl Record for ApiKey {
    const TABLE: &'static str = "api_keys";
    const NOUN: &'static str = "API key";
    const EXPORT: Export<Self> = Export::LeftOut("credentials are created where they are used");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&KEY_MEMBER];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("replaces", "history: it has ended, or will"),
        ("replaced_by", "history: it may have been revoked, which brings nothing back"),
    ];
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&KEYS_BY_ORG, &KEYS_BY_USER, &KEYS_BY_SPONSOR, &KEYS_BY_EXPIRY_NOTICE];
    const VERSION: u8 = 2;
    type Key = KeyHash;
    fn key(&self) -> Self::Key {
        self.hash
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// The last use of a key. Separate from the key, so that using a key does not change the access
/// version; created and deleted with the key.
#[derive(Clone, Debug, Encode, Decode)]
pub struct KeyUse {
    pub key: Id<ApiKey>,
    /// The hash of the key, by which the key is found.
    pub hash: KeyHash,
    /// The time, if it was ever used; at most a minute old.
    pub at: Option<Time>,
}

static USED_KEY: Reference<KeyUse, ApiKey> = Reference::cascade(
    &["key"],
    |key: &ApiKey| key.id.to_bytes(),
    |used: &KeyUse, _| vec![used.hash.to_bytes()],
);

impl Record for KeyUse {
    const TABLE: &'static str = "api_keys.used";
    const EXPORT: Export<Self> = Export::LeftOut("of a key, which is left out");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&USED_KEY];
    const ORG_SCOPED: bool = false;
    type Key = Id<ApiKey>;
    fn key(&self) -> Self::Key {
        self.key
    }
}

/// The type of a resource to which access can be granted.
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

/// Marks the id of a resource of any [`ResourceType`].
pub enum Granted {}

crate::base::portable! {
/// An access grant: a user may use a restricted resource
/// (reference: identity-and-rights, "Access grants").
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AccessGrant")]
pub struct Grant {
    /// Identifies the grant.
    pub id: Id<Grant>,
    /// The user who may use the resource.
    pub user_id: Id<User>,
    /// The type of the resource.
    pub resource_type: ResourceType,
    /// The id of the resource.
    pub resource_id: Id<Granted>,
    /// The user who granted it.
    pub created_by: Id<User>,
    /// When it was granted.
    pub created_at: Time,
}
}

/// The grant of a user for a resource.
pub static GRANT_BY_TARGET: Index<Grant, (Id<User>, ResourceType, Id<Granted>)> =
    Index::unique("grants.one", "grant_exists", "this user has this grant already", |grant| {
        Some((grant.user_id, grant.resource_type, grant.resource_id))
    });

/// Grants by user, oldest first.
pub static GRANTS_BY_USER: Index<Grant, Id<User>> =
    Index::non_unique("grants.by_user", |grant| Some(grant.user_id));

/// Grants by resource.
pub static GRANTS_BY_RESOURCE: Index<Grant, (ResourceType, Id<Granted>)> =
    Index::non_unique("grants.by_resource", |grant| Some((grant.resource_type, grant.resource_id)));

/// A user who leaves an organization and returns has no grants, so they are deleted at once and not
/// by a sweep.
static GRANT_MEMBER: Reference<Grant, Membership> = Reference::cascade(
    &["user_id"],
    |member: &Membership| member.user.to_bytes(),
    |grant: &Grant, org| vec![(grant.user_id, org).to_bytes()],
)
.by(&GRANTS_BY_USER);

impl Record for Grant {
    const TABLE: &'static str = "grants";
    const NOUN: &'static str = "access grant";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&GRANT_MEMBER];
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&GRANT_BY_TARGET, &GRANTS_BY_USER, &GRANTS_BY_RESOURCE];
    type Key = Id<Grant>;
    fn key(&self) -> Self::Key {
        self.id
    }
}
