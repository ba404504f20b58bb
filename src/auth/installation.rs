//! Who administers the installation: sees the state of the whole server, which is of no one
//! organization (reference: identity-and-rights, "Administrators of the installation").
//!
//! The operator names them by e-mail address. Until then it is the first user of the installation.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::caller::Identity;
use super::records::{AddressProof, User};
use crate::base::{Email, Error, Id, Result};
use crate::store::{Export, ListSource, Order, Record, Tx, View};

/// The addresses that the operator has named, or that an import has kept; without the record the first
/// user is meant.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct InstallationAdmins {
    pub addresses: Vec<Email>,
}

impl Record for InstallationAdmins {
    const TABLE: &'static str = "installation_admins";
    const EXPORT: Export<Self> = Export::LeftOut("the operator of each installation names them");
    const ORG_SCOPED: bool = false;
    type Key = ();
    fn key(&self) {}
}

/// Whether a user administers the installation. An account whose address is not proved does not:
/// somebody else may have made it. That an organization considers it verified is not enough, which may
/// be one that the user has made.
pub fn is_installation_admin(view: &View, user: Id<User>) -> Result<bool> {
    let Some(named) = view.get::<InstallationAdmins>(&())? else {
        return Ok(first_user(view)?.is_some_and(|first| first.id == user));
    };
    let Some(user) = view.get::<User>(&user)?.filter(|user| !user.is_service()) else {
        return Ok(false);
    };
    Ok(named.names(&user) && is_vouched_for(view, &user)?)
}

impl InstallationAdmins {
    /// Whether a user has one of the addresses, whether or not it is proved.
    fn names(&self, user: &User) -> bool {
        self.addresses.iter().any(|address| {
            *address == user.email || address.with_unicode_domain().as_ref() == Some(&user.email)
        })
    }
}

/// Whether a user is to administer the installation, which they do once their address is proved.
pub fn is_to_be_installation_admin(view: &View, user: &User) -> Result<bool> {
    match view.get::<InstallationAdmins>(&())? {
        Some(named) => Ok(named.names(user)),
        None => is_installation_admin(view, user.id),
    }
}

/// Whether an account is of whom its address names, whatever organizations say, which may be those of
/// whoever made it.
pub fn is_vouched_for(view: &View, user: &User) -> Result<bool> {
    match user.proof {
        AddressProof::Proved => Ok(true),
        AddressProof::Unproved => Ok(false),
        // The operator vouched for whoever set the server up.
        AddressProof::Unknown => Ok(first_user(view)?.is_some_and(|first| first.id == user.id)),
    }
}

/// Requires that the person behind a credential administers the installation.
///
/// # Errors
/// 403 otherwise.
pub fn require_installation_admin(view: &View, identity: &Identity) -> Result<()> {
    if is_installation_admin(view, identity.person())? {
        return Ok(());
    }
    Err(Error::forbidden(
        "installation_admin_required",
        "only those whom the operator has named may see the state of the whole server: roadstead \
         installation-admins",
    ))
}

/// Returns the addresses of those who administer the installation, and whether the operator has named
/// them.
pub fn installation_admins(view: &View) -> Result<(Vec<Email>, bool)> {
    match view.get::<InstallationAdmins>(&())? {
        Some(named) => Ok((named.addresses, true)),
        None => Ok((first_user(view)?.into_iter().map(|first| first.email).collect(), false)),
    }
}

/// Names those who administer the installation; `None` takes the names back, so that the first user
/// does.
pub fn name_installation_admins(tx: &mut Tx, addresses: Option<Vec<Email>>) -> Result<()> {
    match (addresses, tx.get::<InstallationAdmins>(&())?) {
        (Some(addresses), old) => {
            let new = InstallationAdmins { addresses };
            if old.as_ref() == Some(&new) { Ok(()) } else { tx.put(&new) }
        }
        (None, Some(old)) => tx.remove(&old),
        (None, None) => Ok(()),
    }
}

/// Has those administer the installation who do now, before users arrive from another one: their ids
/// may be older than all here, so that one of them would be the first. Without a user it is nobody,
/// until the operator names somebody.
pub fn keep_installation_admins(tx: &mut Tx) -> Result<()> {
    let (addresses, _) = installation_admins(&tx.view())?;
    let first = first_user(&tx.view())?;
    if let Some(first) = first.filter(|first| first.proof == AddressProof::Unknown) {
        // That this was the first cannot be told later.
        tx.replace(&first, &User { proof: AddressProof::Proved, ..first.clone() })?;
    }
    name_installation_admins(tx, Some(addresses))
}

/// The owner of the first organization: ids of users grow, and people are not deleted. Nobody who has
/// arrived from another installation, or was invited, as long as the address is not proved.
fn first_user(view: &View) -> Result<Option<User>> {
    let mut first = None;
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |user: User| {
        let counts = !user.is_service() && user.proof != AddressProof::Unproved;
        first = counts.then_some(user);
        Ok(if first.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(first)
}
