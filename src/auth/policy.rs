//! The access policies of routes.

use super::records::Role;
use crate::base::{Error, Kind, Result};

/// Who may call a route: independent requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthPolicy {
    pub credential: RequiredCredential,
    /// The minimum role in the organization of the request; `None` for a route without an
    /// organization.
    pub role: Option<Role>,
    /// Whether public resources may be read without membership or credential. Only for routes whose
    /// arguments are in the query.
    pub public_read: bool,
    /// Whether it is about the whole installation, so that the person behind the credential must
    /// administer that besides.
    pub installation: bool,
}

/// The kind of credential that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredCredential {
    /// None; a credential that is sent must still be valid.
    None,
    /// An API key or a session.
    KeyOrSession,
    /// A session; every API key, valid or not, gets the same 401.
    Session,
    /// A signed Nostr event (NIP-98), of anyone outside.
    Nostr,
}

use RequiredCredential::{KeyOrSession, Session};

/// Every client, without an organization.
pub const ANYONE: AuthPolicy = AuthPolicy::new(RequiredCredential::None, None);
/// Any valid credential, without an organization.
pub const CREDENTIAL: AuthPolicy = AuthPolicy::new(KeyOrSession, None);
/// Any session, without an organization.
pub const SESSION: AuthPolicy = AuthPolicy::new(Session, None);
/// Every outside agent that signs its requests.
pub const OUTSIDE_AGENT: AuthPolicy = AuthPolicy::new(RequiredCredential::Nostr, None);
/// A member of the organization, by key or session.
pub const MEMBER: AuthPolicy = AuthPolicy::new(KeyOrSession, Some(Role::Member));
/// A member of the organization, or every client if the resource is public.
pub const MEMBER_OR_PUBLIC: AuthPolicy = AuthPolicy { public_read: true, ..MEMBER };
/// An admin or owner of the organization, by key or session.
pub const ADMIN: AuthPolicy = AuthPolicy::new(KeyOrSession, Some(Role::Admin));
/// An admin or owner of the organization, by key or session, who administers the installation.
pub const INSTALLATION_ADMIN: AuthPolicy = AuthPolicy { installation: true, ..ADMIN };
/// A member of the organization, by session.
pub const SESSION_MEMBER: AuthPolicy = AuthPolicy::new(Session, Some(Role::Member));
/// An admin or owner of the organization, by session.
pub const SESSION_ADMIN: AuthPolicy = AuthPolicy::new(Session, Some(Role::Admin));

/// The error of a viewer who would change something.
pub(super) fn member_required() -> Error {
    Error::forbidden(
        "member_required",
        "a viewer reads and changes nothing; ask an owner or admin of the organization for the role \
         member",
    )
}

impl AuthPolicy {
    /// A policy without public reading.
    pub const fn new(credential: RequiredCredential, role: Option<Role>) -> Self {
        AuthPolicy { credential, role, public_read: false, installation: false }
    }

    /// Whether a request without a credential is refused, unless the resource is public.
    pub fn needs_credential(self) -> bool {
        self.credential != RequiredCredential::None
    }

    /// Whether callers sign their requests with a Nostr key.
    pub fn is_signed(self) -> bool {
        self.credential == RequiredCredential::Nostr
    }

    /// Whether every caller has an account here.
    pub fn needs_account(self) -> bool {
        self.needs_credential() && !self.is_signed()
    }

    /// Whether API keys, even valid ones, are refused with 401.
    pub fn is_session_only(self) -> bool {
        self.credential == RequiredCredential::Session
    }

    /// Whether only admins and owners of the organization may call.
    pub fn needs_admin(self) -> bool {
        self.role >= Some(Role::Admin)
    }

    /// Requires what the policy asks of a member's role; viewers need that the route is for them
    /// (`Route::is_for_viewers`): it changes nothing but the account of who calls it.
    ///
    /// # Errors
    /// 403 for a member where an admin is required, and for a viewer where a member is.
    pub fn require_role(self, role: Role, is_for_viewers: bool) -> Result<()> {
        if self.needs_admin() && role < Role::Admin {
            return Err(Error::forbidden(
                "admin_required",
                "only an owner or admin of the organization may do this",
            ));
        }
        if is_for_viewers || role >= Role::Member { Ok(()) } else { Err(member_required()) }
    }

    /// Requires that API keys, valid or not, are accepted.
    ///
    /// # Errors
    /// 401 if a session is required.
    pub fn require_keys(self) -> Result<()> {
        if !self.is_session_only() {
            return Ok(());
        }
        Err(Error::new(
            Kind::Unauthenticated,
            "session_required",
            "this takes the session of a signed-in person, as Authorization: Bearer <token>; API \
             keys are not accepted here",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_may_what_is_for_viewers_and_nothing_that_takes_an_admin() {
        let code = |policy: AuthPolicy, role, is_for_viewers| {
            policy.require_role(role, is_for_viewers).err().map(|error| error.code())
        };
        for policy in [MEMBER, SESSION_MEMBER, MEMBER_OR_PUBLIC] {
            assert_eq!(code(policy, Role::Viewer, true), None);
            assert_eq!(code(policy, Role::Viewer, false), Some("member_required"));
            for role in [Role::Member, Role::Admin, Role::Owner] {
                assert_eq!(code(policy, role, false), None);
            }
        }
        for policy in [ADMIN, SESSION_ADMIN, INSTALLATION_ADMIN] {
            for role in [Role::Viewer, Role::Member] {
                assert_eq!(code(policy, role, true), Some("admin_required"));
            }
            assert_eq!(code(policy, Role::Admin, false), None);
        }
    }
}
