//! Callers without a credential of theirs: who somebody would be, or is now who made something.

use super::access::enter;
use super::caller::{Caller, Credential, Identity, Sponsor, made_before_proof};
use super::records::{ApiKey, Membership, Organization, User};
use crate::base::{Id, Kind, Result, Time};
use crate::store::View;

/// Returns the caller that a member of the view's organization is in a session or, if one is given,
/// with this key of theirs: for explaining what they may do, without a credential of theirs.
///
/// # Errors
/// 404 for a user who is no member; 401 for a key without a [`Sponsor`] who is one, or made before the
/// address of its account was proved.
pub fn supposed_caller(view: &View, user: &User, key: Option<&ApiKey>) -> Result<Caller> {
    if key.is_some_and(|key| !user.accepts_made(key.answered_for_since())) {
        return Err(made_before_proof());
    }
    let identity = Identity {
        user: user.id,
        name: user.name.to_string(),
        credential: key.map_or(Credential::Session(Id::NIL), Credential::of_key),
        sponsor: key.map_or(Ok(None), |key| Sponsor::of(view, key))?,
        expires_at: key.and_then(|key| key.expires_at),
        proved_at: None,
    };
    enter(view, &identity, view.get::<Organization>(&view.org())?)
}

/// Returns the caller that somebody who made or set something at this time is now, as through a key of
/// the sponsor if there was one; `None` if either is no member of the view's organization any more, only
/// a viewer, or had not proved the address of the account yet ([`User::accepts_made`]).
pub fn present_caller(
    view: &View,
    user: Id<User>,
    sponsor: Option<Id<User>>,
    made_at: Time,
) -> Result<Option<Caller>> {
    let made = |user: &User| user.accepts_made(made_at);
    let Some(user) = view.get::<User>(&user)?.filter(made) else { return Ok(None) };
    let mut caller = match supposed_caller(view, &user, None) {
        Ok(caller) => caller,
        Err(error) if error.kind() == Kind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if let Some(sponsor) = sponsor {
        let person = view.get::<User>(&sponsor)?.filter(made);
        let membership = view.get::<Membership>(&(sponsor, view.org()))?;
        let (Some(person), Some(Membership { role, .. })) = (person, membership) else {
            return Ok(None);
        };
        caller.role = caller.role.min(role);
        caller.identity.sponsor =
            Some(Sponsor { user: sponsor, name: person.name.to_string(), role });
    }
    Ok(Some(caller).filter(Caller::may_write))
}
