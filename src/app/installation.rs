//! What the command `roadstead installation-admins` does, in a running server through the control
//! socket or on the directory itself, and the flag of `serve` of the same name.

use serde::{Deserialize, Serialize};

use crate::auth::{find_person, installation_admins, is_vouched_for, name_installation_admins};
use crate::base::{Email, Error, Id, Issue, Result};
use crate::store::{Store, Tx, View};

/// Whom the operator names to administer the installation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminsChange {
    /// These addresses, and nobody else.
    To(Vec<String>),
    /// The owner of the first organization, as before anybody was named.
    ToFirstOwner,
}

/// Who administers the installation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdminsOfInstallation {
    pub addresses: Vec<String>,
    /// Whether the operator has named them.
    pub named: bool,
    /// Those of the addresses that no account has.
    #[serde(default)]
    pub without_account: Vec<String>,
    /// Those whose account has not proved them, and so does not administer anything yet.
    #[serde(default)]
    pub unproved: Vec<String>,
}

/// Carries out a change, if there is one, and returns who administers the installation. Blocks.
///
/// # Errors
/// 400 for what is no address, and for addresses of whom nobody would administer the installation where
/// somebody does; if the store fails.
pub fn admins_of_installation(
    store: &Store,
    change: Option<&AdminsChange>,
) -> Result<AdminsOfInstallation> {
    if let Some(change) = change {
        let addresses = match change {
            AdminsChange::To(addresses) => Some(parse(addresses)?),
            AdminsChange::ToFirstOwner => None,
        };
        let name = move |tx: &mut Tx| {
            if let Some(addresses) = &addresses {
                require_somebody(&tx.view(), addresses)?;
            }
            name_installation_admins(tx, addresses.clone())
        };
        store.write_blocking(Id::NIL, name)?;
    }
    let read = |view: &View| {
        let (addresses, named) = installation_admins(view)?;
        let [without_account, unproved] = uncounted(view, &addresses)?;
        let addresses = addresses.into_iter().map(Email::into_string).collect();
        Ok(AdminsOfInstallation { addresses, named, without_account, unproved })
    };
    store.read_now(Id::NIL, read)
}

/// Those of these addresses that no account has, and those whose account has not proved them.
fn uncounted(view: &View, addresses: &[Email]) -> Result<[Vec<String>; 2]> {
    let [mut without_account, mut unproved] = [Vec::new(), Vec::new()];
    for address in addresses {
        match find_person(view, address)? {
            None => without_account.push(address.as_str().to_string()),
            Some(person) if is_vouched_for(view, &person)? => {}
            Some(_) => unproved.push(address.as_str().to_string()),
        }
    }
    Ok([without_account, unproved])
}

/// Requires that one of the addresses counts, unless there is nobody who would lose the right.
fn require_somebody(view: &View, addresses: &[Email]) -> Result<()> {
    let (before, _) = installation_admins(view)?;
    let uncounted_before = uncounted(view, &before)?.concat().len();
    let [without_account, unproved] = uncounted(view, addresses)?;
    if uncounted_before == before.len() || without_account.len() + unproved.len() < addresses.len()
    {
        return Ok(());
    }
    let issue = |address: String, what: &str| {
        let why = "and nobody would administer the installation: name somebody whose account has proved it";
        Issue::new(address, format!("{what}, {why}"))
    };
    let without = without_account.into_iter().map(|one| issue(one, "has no account here"));
    let unproved = unproved.into_iter().map(|one| issue(one, "is not proved by its account"));
    Err(Error::invalid(without.chain(unproved).collect()))
}

/// Reads the addresses of those who administer the installation.
///
/// # Errors
/// 400 with each that is none.
pub fn parse(addresses: &[String]) -> Result<Vec<Email>> {
    let (mut read, mut issues) = (Vec::new(), Vec::new());
    for address in addresses {
        match Email::parse(address.as_str()) {
            Ok(email) => read.push(email),
            Err(what) => issues.push(Issue::new(address.clone(), what)),
        }
    }
    if issues.is_empty() { Ok(read) } else { Err(Error::invalid(issues)) }
}
