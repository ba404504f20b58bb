//! The record of a reset link, and what voids it
//! (reference: identity-and-rights, "Getting back in").

use bincode::{Decode, Encode};

use super::tokens::{TokenHash, new_token};
use crate::auth::{Membership, User};
use crate::base::{Id, Keys, Result, Time};
use crate::store::{AnyIndex, AnyReference, Export, Index, Key, Org, Record, Reference, Tx, View};

/// A link is valid for half an hour, as a setup link is: it opens an account.
pub const VALID_SECS: i64 = 30 * 60;

// ── Record ───────────────────────────────────────────────────────────────────

/// The valid reset link of a user.
#[derive(Clone, Debug, Encode, Decode)]
pub struct PasswordReset {
    pub user: Id<User>,
    pub hash: TokenHash,
    /// The user's [`session_generation`](User::session_generation) for which it is valid, so that
    /// every change of the password voids it.
    pub generation: u32,
    /// The admin who made it, if one did.
    pub admin: Option<Admin>,
    /// Whether it was mailed to whoever asked for it.
    mailed: bool,
    pub expires_at: Time,
}

/// An admin who made a link, and in which organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Admin {
    pub org: Id<Org>,
    pub user: Id<User>,
}

/// Who makes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The operator, by the command line.
    Operator,
    /// Anyone who knows the address, to which it is mailed.
    Mail,
    /// An admin of the user's organization.
    Admin(Admin),
}

/// The link with this token.
pub static BY_TOKEN: Index<PasswordReset, TokenHash> = Index::unique(
    "password_resets.by_token",
    "password_reset_exists",
    "this reset link already exists",
    |reset| Some(reset.hash),
);

/// Links by expiry.
pub static BY_END: Index<PasswordReset, Time> =
    Index::non_unique("password_resets.by_end", |reset| Some(reset.expires_at));

/// Links by the admin who made them.
static BY_ADMIN: Index<PasswordReset, (Id<Org>, Id<User>)> =
    Index::non_unique("password_resets.by_admin", |reset| {
        reset.admin.map(|admin| (admin.org, admin.user))
    });

static USER: Reference<PasswordReset, User> = Reference::cascade(
    &["user"],
    |user: &User| user.id.to_bytes(),
    |reset: &PasswordReset, _| vec![reset.user.to_bytes()],
);

/// Who has left an organization has made no links in it.
static ADMIN: Reference<PasswordReset, Membership> = Reference::cascade(
    &["admin.user"],
    |member: &Membership| (member.org, member.user).to_bytes(),
    |reset: &PasswordReset, _| {
        reset.admin.map(|admin| (admin.user, admin.org).to_bytes()).into_iter().collect()
    },
)
.by(&BY_ADMIN);

/// An admin lets no one back in who has left.
static MEMBER: Reference<PasswordReset, Membership> = Reference::cascade(
    &["user", "admin.org"],
    |member: &Membership| member.user.to_bytes(),
    |reset: &PasswordReset, _| {
        reset.admin.map(|admin| (reset.user, admin.org).to_bytes()).into_iter().collect()
    },
);

impl Record for PasswordReset {
    const TABLE: &'static str = "password_resets";
    const EXPORT: Export<Self> =
        Export::LeftOut("the tokens of this installation are not valid in another");
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
pub fn hash_of(keys: &Keys, token: &str) -> TokenHash {
    keys.hash("roadstead 2026 password reset", token.as_bytes())
}

// ── Making and voiding ───────────────────────────────────────────────────────

/// A new reset link of a user.
pub struct NewPasswordReset {
    /// The token, which is not stored and cannot be retrieved again.
    pub token: String,
    pub expires_at: Time,
}

impl PasswordReset {
    /// When it was made.
    pub fn made_at(&self) -> Time {
        self.expires_at.minus_secs(VALID_SECS)
    }
}

impl NewPasswordReset {
    /// Returns the link, with the token in its fragment, which no server logs.
    pub fn url(&self, link_base: &str) -> String {
        format!("{}/reset-password#{}", link_base.trim_end_matches('/'), self.token)
    }
}

/// Makes a link for the operator, who has the data directory; it replaces the user's older one.
pub fn issue_password_reset(tx: &mut Tx, user: &User) -> Result<NewPasswordReset> {
    issue(tx, user, Origin::Operator)
}

/// Makes a link, which replaces the user's older one.
pub fn issue(tx: &mut Tx, user: &User, origin: Origin) -> Result<NewPasswordReset> {
    let token = new_token(tx);
    let expires_at = tx.now().plus_secs(VALID_SECS);
    let admin = match origin {
        Origin::Admin(admin) => Some(admin),
        Origin::Operator | Origin::Mail => None,
    };
    tx.put(&PasswordReset {
        user: user.id,
        hash: hash_of(tx.keys(), &token),
        generation: user.session_generation,
        admin,
        mailed: origin == Origin::Mail,
        expires_at,
    })?;
    Ok(NewPasswordReset { token, expires_at })
}

/// Whether a person who could make sure whom they give it to has made a link that is still valid:
/// one that anyone can have mailed does not replace it. An admin's link for an account that nobody has
/// proved is none: it would keep from it who reads the mail of the address.
pub fn has_personal(view: &View, user: &User) -> Result<bool> {
    let Some(reset) = view.get::<PasswordReset>(&user.id)? else { return Ok(false) };
    let is_valid = !reset.mailed
        && reset.generation == user.session_generation
        && reset.expires_at > view.now();
    Ok(is_valid && (reset.admin.is_none() || user.is_proved(view)?))
}

/// Voids what depends on the role of a member in the transaction's organization: the links that the
/// member made as an admin, and one that an admin made for the member.
pub fn void_of_member(tx: &mut Tx, member: Id<User>) -> Result<()> {
    let made: Vec<PasswordReset> = tx.view().all(&BY_ADMIN, &(tx.org(), member))?;
    let own = tx.get::<PasswordReset>(&member)?;
    let own = own.filter(|reset| reset.admin.is_some_and(|admin| admin.org == tx.org()));
    made.iter().chain(&own).try_for_each(|reset| tx.remove(reset))
}
