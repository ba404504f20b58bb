//! The record of an open invitation, and what a change of its inviter's role does to it
//! (reference: identity-and-rights, "Invitations").
//!
//! An invitation gives no role that its inviter could not give now: the transaction that changes the
//! inviter's role lowers or deletes it, and it does not come back with the role.

use bincode::{Decode, Encode};

use super::tokens::{TokenHash, token_of};
use crate::auth::{Membership, Organization, Role, User};
use crate::base::{Email, Error, Id, Keys, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Org, Record, Reference, Tx, View, upgrade_shorter,
};

/// An invitation is valid for a week, in seconds: long enough for an absent recipient.
pub const VALID_SECS: i64 = 7 * 24 * 3600;

/// A member has at most 1,000 open invitations: enough for a large organization, and few enough to
/// be lowered or deleted in one transaction with the inviter's role.
pub const MAX_INVITATIONS: usize = 1000;

/// An open invitation. The address is not that of a member of the organization.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Invitation {
    pub id: Id<Invitation>,
    pub org: Id<Org>,
    pub email: Email,
    /// The role that it gives; none that its inviter may not give.
    pub role: Role,
    pub inviter: Id<User>,
    pub token: TokenHash,
    pub expires_at: Time,
    /// The base of the link that is mailed; none where the server cannot send mail.
    pub mail_base: Option<String>,
    /// The hash of the token that is mailed: another than the inviter sees, so that it proves who reads
    /// the mail of the address.
    pub mailed: Option<TokenHash>,
}

/// The invitation with this token.
pub static BY_TOKEN: Index<Invitation, TokenHash> = Index::unique(
    "invitations.by_token",
    "invitation_exists",
    "this invitation already exists",
    |invitation| Some(invitation.token),
);

/// The invitation with this mailed token.
pub static BY_MAILED_TOKEN: Index<Invitation, TokenHash> = Index::unique(
    "invitations.by_mailed_token",
    "invitation_exists",
    "this invitation already exists",
    |invitation| invitation.mailed,
);

/// The invitation of an address into an organization.
pub static BY_ADDRESS: Index<Invitation, (Id<Org>, Email)> = Index::unique(
    "invitations.by_address",
    "invitation_exists",
    "there is already an open invitation of this e-mail address",
    |invitation| Some((invitation.org, invitation.email.clone())),
);

/// Invitations of an address, oldest first.
pub static BY_EMAIL: Index<Invitation, (Email, Id<Invitation>)> =
    Index::non_unique("invitations.by_email", |invitation| {
        Some((invitation.email.clone(), invitation.id))
    });

/// Invitations by expiry.
pub static BY_END: Index<Invitation, Time> =
    Index::non_unique("invitations.by_end", |invitation| Some(invitation.expires_at));

/// Invitations into an organization by inviter.
static BY_INVITER: Index<Invitation, (Id<Org>, Id<User>)> =
    Index::non_unique("invitations.by_inviter", |invitation| {
        Some((invitation.org, invitation.inviter))
    });

static ORGANIZATION: Reference<Invitation, Organization> = Reference::cascade(
    &["org"],
    |organization: &Organization| organization.id.to_bytes(),
    |invitation: &Invitation, _| vec![invitation.org.to_bytes()],
);

/// Who has left an organization invites nobody into it.
static INVITER: Reference<Invitation, Membership> = Reference::cascade(
    &["inviter"],
    |member: &Membership| (member.org, member.user).to_bytes(),
    |invitation: &Invitation, _| vec![(invitation.inviter, invitation.org).to_bytes()],
)
.by(&BY_INVITER);

impl Record for Invitation {
    const TABLE: &'static str = "invitations";
    const EXPORT: Export<Self> =
        Export::LeftOut("the tokens of this installation are not valid in another");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ORGANIZATION, &INVITER];
    // The accepting caller is in no organization.
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_TOKEN, &BY_MAILED_TOKEN, &BY_ADDRESS, &BY_EMAIL, &BY_END, &BY_INVITER];
    const VERSION: u8 = 2;
    type Key = (Id<Org>, Id<Invitation>);
    fn key(&self) -> Self::Key {
        (self.org, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

impl Invitation {
    /// Whether it can be accepted: it has not expired, and who has taken over the account of its inviter
    /// since, if somebody has, knows nothing of it.
    pub fn is_open(&self, view: &View) -> Result<bool> {
        let made_at = self.expires_at.minus_secs(VALID_SECS);
        let inviter = view.get::<User>(&self.inviter)?;
        let stands = inviter.is_some_and(|inviter| inviter.accepts_made(made_at));
        Ok(stands && self.expires_at > view.now())
    }
}

/// Returns the token of an invitation that its inviter sees.
pub fn invitation_token(keys: &Keys, id: Id<Invitation>) -> String {
    token_of(keys.hash("roadstead 2026 invitation token", id.bytes()))
}

/// Returns the token of an invitation that is mailed. It is derived from the installation's key, so that
/// it can be mailed later, and again, without being stored.
pub fn mailed_token(keys: &Keys, id: Id<Invitation>) -> String {
    token_of(keys.hash("roadstead 2026 mailed invitation token", id.bytes()))
}

/// Requires that a member can have one more open invitation.
///
/// # Errors
/// 409 with [`MAX_INVITATIONS`].
pub fn require_room(view: &View, inviter: Id<User>) -> Result<()> {
    // An expired one counts until the sweep deletes it.
    if view.count(&BY_INVITER, &(view.org(), inviter), MAX_INVITATIONS)? < MAX_INVITATIONS {
        return Ok(());
    }
    Err(Error::conflict(
        "too_many_invitations",
        format!("you have {MAX_INVITATIONS} open invitations; revoke one first"),
    ))
}

/// Lowers the open invitations of a member to `role`, the member's new role, or deletes them if it
/// may not invite.
pub fn lower_to_role(tx: &mut Tx, inviter: Id<User>, role: Role) -> Result<()> {
    let open: Vec<Invitation> = tx.view().all(&BY_INVITER, &(tx.org(), inviter))?;
    for invitation in &open {
        if role < Role::Admin {
            tx.remove(invitation)?;
        } else if invitation.role > role {
            tx.replace(invitation, &Invitation { role, ..invitation.clone() })?;
        }
    }
    Ok(())
}
