//! Who calls, and what they may do: credentials, the records that decide, rules.
//!
//! Nothing here is cached beyond the state it was read from: a demotion or a revocation holds on
//! the very next request.

mod access;
pub mod passwords;
mod policy;
mod records;
mod restricted;
mod tokens;

pub use access::{
    Access, Caller, Credential, Gatekeeper, Identity, RawCredential, credential_bytes, in_session,
    org_of_key, organization_named, organizations_of,
};
pub use policy::{
    ADMIN, ANYONE, AuthPolicy, CREDENTIAL, MEMBER, MEMBER_OR_PUBLIC, RequiredCredential, SESSION,
    SESSION_ADMIN, SESSION_MEMBER,
};
pub use records::{
    ApiKey, BY_EMAIL, BY_ORG, BY_SLUG, GRANT, GRANTS_BY_RESOURCE, GRANTS_BY_USER, Grant, Granted,
    KEYS_BY_NOTICE, KEYS_BY_ORG, KEYS_BY_USER, KNOWN_BY_TIME, KNOWN_SECS, KeyHash, KeyUse,
    KnownAddress, Membership, Organization, ResourceType, Role, SESSIONS_BY_END, SESSIONS_BY_USER,
    Session, User,
};
pub use restricted::{Restrictable, Restricted, grants_for, visible_ids, visible_page};
pub use tokens::{KEY_PREFIX, SESSION_SECS, Tokens, key_hash, key_text};

use crate::store::TableInfo;

/// The tables of this room.
pub const TABLES: &[TableInfo] = &[
    TableInfo::of::<User>(),
    TableInfo::of::<Organization>(),
    TableInfo::of::<Membership>(),
    TableInfo::of::<ApiKey>(),
    TableInfo::of::<KeyUse>(),
    TableInfo::of::<Session>(),
    TableInfo::of::<Grant>(),
    TableInfo::of::<KnownAddress>(),
];
