//! Accounts, and the proof that one belongs to who reads the mail of its address
//! (reference: identity-and-rights, "Proof of an address").
//!
//! Invariants:
//! - An account is proved only by a secret that was sent to its address and that nobody else has seen:
//!   the mailed token of an invitation, a mailed link for a password; or by the operator, or by a provider
//!   of sign-ins that the operator trusts.
//! - The first who proves the address of an account takes it over: what others hold of it, the
//!   password, second factor, sessions, keys, linked providers, invitations and reset links for others,
//!   is of no use from then on. Not if the proof is given in a session of the account: who is signed in
//!   knows the password. Of an account from before proofs were asked for only the password, the sessions
//!   and the linked providers end.

use super::break_glass;
use super::oidc::rules::remove_all;
use crate::auth::{AddressProof, User, forget_second_factor};
use crate::base::{Email, Name, Result};
use crate::store::Tx;

/// Creates the account of a person.
///
/// # Errors
/// 409 if the address has one.
pub(super) fn create(
    tx: &mut Tx,
    email: &Email,
    name: &Name,
    password: Option<String>,
    proof: AddressProof,
) -> Result<User> {
    let user = User {
        id: tx.new_id(),
        email: email.clone(),
        name: name.clone(),
        image: None,
        password,
        session_generation: 0,
        service_of: None,
        created_at: tx.now(),
        proof,
        keys_from: None,
    };
    tx.insert(&user)?;
    Ok(user)
}

/// Sets a new password, which ends all sessions. If `proves`, who sets it has proved the address: an
/// account that nobody had proved is taken over, so that keys made until now are refused, too; and nothing is
/// linked any more that was before the first proof.
pub(super) fn set_password(
    tx: &mut Tx,
    old: &User,
    password: Option<String>,
    proves: bool,
) -> Result<User> {
    let session_generation = old.session_generation + 1;
    let mut new = User { password, session_generation, ..old.clone() };
    if proves {
        if old.proof != AddressProof::Proved {
            remove_all(tx, old.id)?;
        }
        // Nobody has had one without a password, as an import makes it.
        if old.proof == AddressProof::Unproved && old.password.is_some() {
            new.keys_from = Some(tx.now());
            // A break-glass owner of before proofs were asked of one stays the one with both factors.
            if break_glass::of(&tx.view(), old.id)?.is_empty() {
                forget_second_factor(tx, old.id)?;
            }
        }
        new.proof = AddressProof::Proved;
    }
    tx.replace(old, &new)?;
    Ok(new)
}

/// Notes that who has the account, and is signed in to it, has proved its address.
pub(super) fn note_proof(tx: &mut Tx, user: &User) -> Result<()> {
    if user.proof == AddressProof::Proved {
        return Ok(());
    }
    tx.replace(user, &User { proof: AddressProof::Proved, ..user.clone() })
}
