//! Who changes the role of members: owners that of owners, and admins, who have just proved who they are, that
//! of admins.

use crate::auth::{Caller, Role};
use crate::base::{Error, Result, Time};

/// Requires an owner for a change from or to one of `roles` that is the owner's, and of who changes one that
/// is an admin's a recent proof of who they are: admins make keys that approve for others.
pub(super) fn require_manager(caller: &Caller, roles: &[Role], now: Time) -> Result<()> {
    let highest = roles.iter().max();
    if highest < Some(&Role::Admin) {
        return Ok(());
    }
    if highest == Some(&Role::Owner) && caller.role != Role::Owner {
        return Err(Error::forbidden(
            "owner_required",
            "only an owner may invite, appoint, demote or remove an owner, or let one back in",
        ));
    }
    caller.identity.require_recent_proof(now)
}
