//! Links with which a user who cannot sign in sets a new password
//! (reference: identity-and-rights, "Getting back in").
//!
//! A user has at most one valid link; a new one replaces the older. Its token is returned once, to
//! who made it, and only a keyed hash is stored. It is void after half an hour, once the password
//! has changed, and, if an admin made it, as soon as that admin could not make it any more: the
//! admin's role or the user's changes, one of them leaves, the user joins another organization, or signs in
//! with a provider and no password.
//! A used, void or unknown token is 404 in all cases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accounts;
use super::managing::require_manager;
use super::oidc::rules::remove_all;
use super::password_reset::{Admin, BY_TOKEN, Origin, PasswordReset, hash_of, issue};
use super::sign_in_link::has_any;
use crate::api::{Attempt, Empty, HashPlan, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::passwords::{HashRequest, HashResult, Password};
use crate::auth::{
    ANYONE, Caller, Membership, Role, SESSION_ADMIN, User, is_installation_admin,
    is_to_be_installation_admin,
};
use crate::base::{Error, Id, Result, Time};
use crate::store::{ListSource, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<PasswordReset>()], ..Resource::EMPTY };

/// Refuses to let a user in who is also a member of another organization, whose admins have not
/// agreed.
fn require_only_here(view: &View, user: Id<User>) -> Result<()> {
    if view.count::<Membership>(ListSource::TABLE, &user, 2)? < 2 {
        return Ok(());
    }
    Err(Error::conflict(
        "member_elsewhere",
        "this user is also a member of another organization, so that no admin may let them in; the \
         operator of the server can, with `roadstead reset-password`",
    ))
}

/// Whether a person signs in with a provider alone: an admin who could give them a password would get in by
/// another way than the organization and they have chosen.
fn has_provider_alone(view: &View, user: &User) -> Result<bool> {
    Ok(user.password.is_none() && has_any(view, user.id)?)
}

/// Whether a user may be let in by an admin as far as the installation goes: who administers all of it,
/// or is to, is above the admins of any organization.
fn is_below(view: &View, user: &User, admin: Id<User>) -> Result<bool> {
    Ok(!is_to_be_installation_admin(view, user)? || is_installation_admin(view, admin)?)
}

/// Requires that an admin may let a member in who cannot sign in.
///
/// # Errors
/// 403 for an owner, and for who administers the installation; 409 for a member of other organizations.
pub(super) fn require_may_let_in(
    view: &View,
    caller: &Caller,
    membership: &Membership,
    target: &User,
) -> Result<()> {
    require_manager(caller, &[membership.role], view.now())?;
    require_only_here(view, target.id)?;
    if is_below(view, target, caller.user())? {
        return Ok(());
    }
    Err(Error::forbidden(
        "installation_admin_required",
        "this user administers the whole server, whose operator alone lets them in, with \
         `roadstead reset-password`",
    ))
}

/// Whether the admin who made a link could still make it.
fn is_still_allowed(view: &View, reset: &PasswordReset) -> Result<bool> {
    let Some(Admin { org, user }) = reset.admin else { return Ok(true) };
    let memberships: Vec<Membership> = view.all(ListSource::TABLE, &reset.user)?;
    let [member] = memberships.as_slice() else { return Ok(false) };
    let (made_by, of) = (view.fetch::<User>(&user)?, view.fetch::<User>(&reset.user)?);
    let is_refused = !made_by.accepts_made(reset.made_at()) || has_provider_alone(view, &of)?;
    if is_refused || !is_below(view, &of, user)? {
        return Ok(false);
    }
    let role = view.get::<Membership>(&(user, org))?.map(|admin| admin.role);
    let may = role >= Some(Role::Admin) && (member.role < Role::Owner || role == Some(Role::Owner));
    Ok(may && member.org == org)
}

/// Returns the valid link with this token, and its user.
fn find(view: &View, token: &str) -> Result<Option<(PasswordReset, User)>> {
    let reset = view.find(&BY_TOKEN, &hash_of(view.keys(), token))?;
    let Some(reset) = reset.filter(|reset| reset.expires_at > view.now()) else { return Ok(None) };
    let user: User = view.fetch(&reset.user)?;
    let is_valid = reset.generation == user.session_generation && is_still_allowed(view, &reset)?;
    Ok(is_valid.then_some((reset, user)))
}

// ── What callers send and see ────────────────────────────────────────────────

/// A link with which a member sets a new password. It cannot be retrieved again.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PasswordResetCreated {
    /// The member that it is for.
    user_id: Id<User>,
    /// The token with which the new password is set. It is shown only here.
    token: String,
    /// URL of the page to set it. The token is in the fragment, which no server logs.
    reset_url: String,
    expires_at: Time,
}

impl Output for PasswordResetCreated {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::of("member", self.user_id)
    }
}

/// A new password for the user of a reset link.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"token": "the-token-of-the-reset-link",
        "newPassword": "another horse battery"}],
))]
struct ResetPassword {
    /// The fragment of the reset link, after the `#`.
    token: String,
    /// The password from now on, of at least 12 characters.
    new_password: Password,
}
impl Input for ResetPassword {}

// ── Operations ───────────────────────────────────────────────────────────────

fn create(tx: &mut Tx, req: &Req<Id<User>>) -> Result<PasswordResetCreated> {
    let (caller, user) = (req.caller(), req.params);
    let membership = tx.fetch::<Membership>(&(user, tx.org()))?;
    if user == caller.user() {
        return Err(Error::forbidden(
            "own_password",
            "a session alone does not change one's own password; use POST /auth/password, or ask \
             another admin for a link",
        ));
    }
    let target: User = tx.fetch(&user)?;
    if target.is_service() {
        return Err(Error::conflict(
            "service_account_password",
            "a service account has no password; create an API key for it",
        ));
    }
    require_may_let_in(&tx.view(), caller, &membership, &target)?;
    if has_provider_alone(&tx.view(), &target)? {
        return Err(Error::conflict(
            "signs_in_with_provider",
            "this member signs in with a provider and has no password; they can have a link for one mailed \
             themselves, or the operator of the server makes one with `roadstead reset-password`",
        ));
    }
    let by = Admin { org: tx.org(), user: caller.user() };
    let made = issue(tx, &target, Origin::Admin(by))?;
    Ok(PasswordResetCreated {
        user_id: user,
        reset_url: made.url(&req.origin.link_base),
        expires_at: made.expires_at,
        token: made.token,
    })
}

fn prepare(view: &View, req: &Req<(), ResetPassword>) -> Result<HashPlan> {
    Ok(match find(view, &req.input.token)? {
        // The link proves who it is, so only attempts from the same address count: otherwise others
        // could prevent the change by signing in with a wrong password.
        Some((_, user)) => HashPlan {
            hashing: HashRequest { verify: None, make: Some(req.input.new_password.to_string()) },
            attempt: Some(Attempt::Email(user.email, true)),
        },
        None => HashPlan { hashing: HashRequest::default(), attempt: Some(Attempt::Address) },
    })
}

/// Sets the password, ends all sessions of the user, and unlinks all accounts of providers: with a link one
/// takes an account back, and somebody else may have linked theirs. The user's API keys stay valid, as with
/// a change of the password, unless nobody had proved the address of the account before.
fn reset(
    tx: &mut Tx,
    req: &Req<(), ResetPassword>,
    hashed: &HashResult,
) -> Result<(Empty, Id<User>)> {
    let missing = || {
        let link = "reset link: it was used or replaced, or is too old; sign in if you have set a \
                    password with it, or ask for a new one";
        Error::no_such(link).at("token")
    };
    let (link, user) = find(&tx.view(), &req.input.token)?.ok_or_else(missing)?;
    let password = Some(hashed.made.clone().ok_or_else(missing)?);
    // An admin may have used the link that they made themselves.
    let proves = link.admin.is_none();
    // First: it would be void by the role that goes with a provider's rule.
    tx.remove(&link)?;
    remove_all(tx, user.id)?;
    accounts::set_password(tx, &user, password, proves)?;
    Ok((Empty {}, user.id))
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/organizations/members/{userId}/password-reset",
            SESSION_ADMIN,
            "password_reset.create",
            op::write(create),
        )
        .asks_again_to("let an owner or admin in")
        .about("Make a reset link for a member"),
        Route::post("/auth/password/reset", ANYONE, "password_reset.use", op::hash(prepare, reset))
            .no_replay()
            .about("Set a new password with a reset link"),
    ]
}

#[cfg(test)]
mod tests;
