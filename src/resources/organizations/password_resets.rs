//! Links with which a user who cannot sign in sets a new password
//! (reference: identity-and-rights, "Getting back in").
//!
//! A user has at most one valid link; a new one replaces the older. Its token is returned once, to
//! who made it, and only a keyed hash is stored. It is void after half an hour, once the password
//! has changed, and, if an admin made it, as soon as that admin could not make it any more: the
//! admin's role or the user's changes, one of them leaves, or the user joins another organization.
//! A used, void or unknown token is 404 in all cases.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::members::require_manager;
use super::tokens::{TokenHash, new_token};
use crate::api::{
    Attempt, Empty, HashPlan, Input, Output, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::passwords::{HashRequest, HashResult, Password};
use crate::auth::{ANYONE, Membership, Role, SESSION_ADMIN, User};
use crate::base::{Error, Id, Keys, Result, Time};
use crate::store::{Export, 
    AnyIndex, AnyReference, Index, Key, ListSource, Org, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<PasswordReset>()], ..Resource::EMPTY };

/// A link is valid for half an hour, as a setup link is: it opens an account.
pub(super) const VALID_SECS: i64 = 30 * 60;

// ── Record ───────────────────────────────────────────────────────────────────

/// The valid reset link of a user.
#[derive(Clone, Debug, Encode, Decode)]
pub(super) struct PasswordReset {
    user: Id<User>,
    hash: TokenHash,
    /// The user's [`session_generation`](User::session_generation) for which it is valid, so that
    /// every change of the password voids it.
    generation: u32,
    origin: Origin,
    expires_at: Time,
}

/// Who made a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The operator, by the command line.
    Operator,
    /// Anyone who knows the address, to which it was mailed.
    Mail,
    /// An admin of the user's organization.
    Admin(Admin),
}
crate::store::stored_enum!(Origin { Operator = 0, Mail = 1, Admin(by: Admin) = 2 });

/// An admin who made a link, and in which organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Admin {
    org: Id<Org>,
    user: Id<User>,
}
crate::base::portable!(Admin { org, user });

impl PasswordReset {
    fn admin(&self) -> Option<Admin> {
        match self.origin {
            Origin::Admin(admin) => Some(admin),
            Origin::Operator | Origin::Mail => None,
        }
    }
}

/// The link with this token.
static BY_TOKEN: Index<PasswordReset, TokenHash> = Index::unique(
    "password_resets.by_token",
    "password_reset_exists",
    "this reset link already exists",
    |reset| Some(reset.hash),
);

/// Links by expiry.
pub(super) static BY_END: Index<PasswordReset, Time> =
    Index::non_unique("password_resets.by_end", |reset| Some(reset.expires_at));

/// Links by the admin who made them.
static BY_ADMIN: Index<PasswordReset, (Id<Org>, Id<User>)> =
    Index::non_unique("password_resets.by_admin", |reset| {
        reset.admin().map(|admin| (admin.org, admin.user))
    });

static USER: Reference<PasswordReset, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |reset: &PasswordReset, _| vec![reset.user.to_bytes()],
);

/// Who has left an organization has made no links in it.
static ADMIN: Reference<PasswordReset, Membership> = Reference::cascade(
    &["origin.user"],
    |member: &Membership| (member.org, member.user).to_bytes(),
    |reset: &PasswordReset, _| {
        reset.admin().map(|admin| (admin.user, admin.org).to_bytes()).into_iter().collect()
    },
)
.by(&BY_ADMIN);

/// An admin lets no one back in who has left.
static MEMBER: Reference<PasswordReset, Membership> = Reference::cascade(
    &["user", "origin.org"],
    |member: &Membership| member.user.to_bytes(),
    |reset: &PasswordReset, _| {
        reset.admin().map(|admin| (reset.user, admin.org).to_bytes()).into_iter().collect()
    },
);

impl Record for PasswordReset {
    const TABLE: &'static str = "password_resets";
    const EXPORT: Export<Self> =
        Export::left_out("the tokens of this installation are not valid in another");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&USER, &ADMIN, &MEMBER];
    // Who sets a new password is in no organization.
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TOKEN, &BY_END, &BY_ADMIN];
    type Key = Id<User>;
    fn key(&self) -> Self::Key {
        self.user
    }
}

/// Returns the hash of a token under the installation's key.
fn hash_of(keys: &Keys, token: &str) -> TokenHash {
    keys.hash("roadstead 2026 password reset", token.as_bytes())
}

// ── Making and voiding ───────────────────────────────────────────────────────

/// A new reset link of a user.
pub struct NewPasswordReset {
    /// The token, which is not stored and cannot be retrieved again.
    pub token: String,
    pub expires_at: Time,
}

impl NewPasswordReset {
    /// Returns the link, with the token in its fragment, which no server logs.
    pub fn url(&self, link_base: &str) -> String {
        format!("{}/reset-password#{}", link_base.trim_end_matches('/'), self.token)
    }
}

/// Makes a link for the operator, who has the data directory; it replaces the user's older one.
///
/// # Errors
/// If the store fails.
pub fn issue_password_reset(tx: &mut Tx, user: &User) -> Result<NewPasswordReset> {
    issue(tx, user, Origin::Operator)
}

/// Makes a link, which replaces the user's older one.
pub(super) fn issue(tx: &mut Tx, user: &User, origin: Origin) -> Result<NewPasswordReset> {
    let token = new_token(tx);
    let expires_at = tx.now().plus_secs(VALID_SECS);
    tx.put(&PasswordReset {
        user: user.id,
        hash: hash_of(tx.keys(), &token),
        generation: user.session_generation,
        origin,
        expires_at,
    })?;
    Ok(NewPasswordReset { token, expires_at })
}

/// Whether a person who could make sure whom they give it to has made a link that is still valid:
/// one that anyone can have mailed does not replace it.
pub(super) fn has_personal(view: &View, user: &User) -> Result<bool> {
    let reset = view.get::<PasswordReset>(&user.id)?;
    Ok(reset.is_some_and(|reset| {
        reset.origin != Origin::Mail
            && reset.generation == user.session_generation
            && reset.expires_at > view.now()
    }))
}

/// Voids what depends on the role of a member in the transaction's organization: the links that the
/// member made as an admin, and one that an admin made for the member.
pub(super) fn void_of_member(tx: &mut Tx, member: Id<User>) -> Result<()> {
    let made: Vec<PasswordReset> = tx.view().all(&BY_ADMIN, &(tx.org(), member))?;
    let own = tx.get::<PasswordReset>(&member)?;
    let own = own.filter(|reset| reset.admin().is_some_and(|admin| admin.org == tx.org()));
    made.iter().chain(&own).try_for_each(|reset| tx.remove(reset))
}

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

/// Whether the admin who made a link could still make it.
fn is_still_allowed(view: &View, reset: &PasswordReset) -> Result<bool> {
    let Some(Admin { org, user }) = reset.admin() else { return Ok(true) };
    let memberships: Vec<Membership> = view.all(ListSource::TABLE, &reset.user)?;
    let [member] = memberships.as_slice() else { return Ok(false) };
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
    require_manager(caller, &[membership.role])?;
    require_only_here(&tx.view(), user)?;
    let by = Admin { org: tx.org(), user: caller.user() };
    let made = issue(tx, &tx.fetch(&user)?, Origin::Admin(by))?;
    Ok(PasswordResetCreated {
        user_id: user,
        reset_url: made.url(&req.link_base),
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

/// Sets the password and ends all sessions of the user. Their API keys stay valid, as with a change
/// of the password.
fn reset(
    tx: &mut Tx,
    req: &Req<(), ResetPassword>,
    hashed: &HashResult,
) -> Result<(Empty, Id<User>)> {
    let missing = || Error::no_such("reset link").at("token");
    let (link, user) = find(&tx.view(), &req.input.token)?.ok_or_else(missing)?;
    let password = Some(hashed.made.clone().ok_or_else(missing)?);
    let session_generation = user.session_generation + 1;
    tx.replace(&user, &User { password, session_generation, ..user.clone() })?;
    tx.remove(&link)?;
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
        .about("Make a reset link for a member"),
        Route::post("/auth/password/reset", ANYONE, "password_reset.use", op::hash(prepare, reset))
            .no_replay()
            .about("Set a new password with a reset link"),
    ]
}

#[cfg(test)]
mod tests;
