//! Authentication and authorization: credentials, policies of routes, and the records they are
//! checked against.
//!
//! Nothing is cached beyond the state it was read from: a demotion or a revocation takes effect on
//! the next request.

mod access;
mod basis;
mod caller;
mod credential_cache;
mod installation;
pub mod nostr;
pub mod oidc;
pub mod passwords;
mod policy;
mod raw_credential;
mod records;
mod required_provider;
mod restricted;
mod scopes;
mod second_factor;
mod session;
mod step_up;
mod supposed;
mod tokens;
pub mod totp;

pub use access::{Authenticator, in_session, organization_named, user_organizations};
pub use basis::{Access, AccessBasis, grant_required};
pub use caller::{Caller, Credential, Identity, Sponsor, credential_bytes, key_organization};
pub use installation::{
    InstallationAdmins, installation_admins, is_installation_admin, is_to_be_installation_admin,
    is_vouched_for, keep_installation_admins, name_installation_admins, require_installation_admin,
};
pub use policy::{
    ADMIN, ANYONE, AuthPolicy, CREDENTIAL, INSTALLATION_ADMIN, MEMBER, MEMBER_OR_PUBLIC,
    OUTSIDE_AGENT, RequiredCredential, SESSION, SESSION_ADMIN, SESSION_MEMBER,
};
pub use raw_credential::RawCredential;
pub use records::{
    AddressProof, ApiKey, BY_ORG, BY_SLUG, GRANT_BY_TARGET, GRANTS_BY_RESOURCE, GRANTS_BY_USER,
    Grant, Granted, KEYS_BY_EXPIRY_NOTICE, KEYS_BY_ORG, KEYS_BY_SPONSOR, KEYS_BY_USER, KeyHash,
    KeyUse, Membership, Organization, ResourceType, Role, SERVICE_ACCOUNTS_BY_ORG, User, UserKind,
    find_person,
};
pub use required_provider::{
    BY_BREAK_GLASS, PROVIDER_SESSIONS_BY_SID, PROVIDER_SESSIONS_BY_SUBJECT, ProviderSession,
    RequiredProvider, is_of_accepted_provider, is_of_provider,
};
pub use restricted::{
    DELETED_IN_LOG, DeletedRestricted, Restrictable, Restricted, grants_for, hidden_deleted_ids,
    hidden_ids, remember_deleted, restricted_deleted_since, usable_ids, visible_page,
    visible_page_map, visible_page_map_of, visible_page_of, was_restricted,
};
pub use scopes::{KeyAccess, KeyScope, MAX_SCOPES, ScopeName, ScopeRule, ScopeTarget, TargetForm};
pub use second_factor::{
    BegunFactor, CodeRefusal, RECOVERY_CODES, SecondFactor, SecondFactorRule, begin_second_factor,
    forget_second_factor, has_second_factor, requires_second_factor, reset_second_factor,
    second_factor_of,
};
pub use session::{
    KNOWN_ADDRESS_SECS, KNOWN_ADDRESSES_BY_TIME, KnownSignInAddress, SESSIONS_BY_EXPIRY,
    SESSIONS_BY_USER, Session, UsedFrom, ends_with_session,
};
pub use step_up::{
    NEVER, PROOF_REQUIRED, PROOF_SECS, SessionProof, is_recent, note_proof, proved_at,
};
pub use supposed::{present_caller, supposed_caller};
pub use tokens::{KEY_PREFIX, SESSION_SECS, Tokens, installation_id, key_hash, key_text};

use crate::store::TableInfo;

/// The tables of this layer.
pub const TABLES: &[TableInfo] = &[
    TableInfo::of::<User>(),
    TableInfo::of::<Organization>(),
    TableInfo::of::<Membership>(),
    TableInfo::of::<ApiKey>(),
    TableInfo::of::<KeyUse>(),
    TableInfo::of::<Session>(),
    TableInfo::of::<ProviderSession>(),
    TableInfo::of::<SessionProof>(),
    TableInfo::of::<RequiredProvider>(),
    TableInfo::of::<SecondFactor>(),
    TableInfo::of::<SecondFactorRule>(),
    TableInfo::of::<Grant>(),
    TableInfo::of::<KnownSignInAddress>(),
    TableInfo::of::<DeletedRestricted>(),
    TableInfo::of::<InstallationAdmins>(),
];
