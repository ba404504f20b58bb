//! The owner who is let in with a password when the provider of sign-ins does not answer
//! (reference: identity-and-rights, "OpenID Connect").

use crate::auth::{BY_BREAK_GLASS, RequiredProvider, User};
use crate::base::{Error, Id, Result};
use crate::store::View;

/// Returns the rules of the organizations whose break-glass owner a user is.
pub(super) fn of(view: &View, user: Id<User>) -> Result<Vec<RequiredProvider>> {
    view.all(&BY_BREAK_GLASS, &user)
}

/// Refuses what would take a break-glass owner the way in.
///
/// # Errors
/// 409 for the break-glass owner of an organization.
pub(super) fn require_none(view: &View, user: Id<User>) -> Result<()> {
    if of(view, user)?.is_empty() { Ok(()) } else { Err(is_break_glass_owner()) }
}

/// The 409 of what a break-glass owner keeps.
pub(super) fn is_break_glass_owner() -> Error {
    Error::conflict(
        "is_break_glass_owner",
        "this owner is let in when the provider of sign-ins does not answer; name another one in the \
         organization's sign-in settings first",
    )
}
