//! What the command `roadstead installation-admins` does, in a running server through the control
//! socket or on the directory itself, and the flag of `serve` of the same name.

use serde::{Deserialize, Serialize};

use crate::auth::{installation_admins, name_installation_admins};
use crate::base::{Email, Error, Id, Issue, Result};
use crate::store::{Store, Tx};

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
}

/// Carries out a change, if there is one, and returns who administers the installation. Blocks.
///
/// # Errors
/// 400 for what is no address; if the store fails.
pub fn admins_of_installation(
    store: &Store,
    change: Option<&AdminsChange>,
) -> Result<AdminsOfInstallation> {
    if let Some(change) = change {
        let addresses = match change {
            AdminsChange::To(addresses) => Some(parse(addresses)?),
            AdminsChange::ToFirstOwner => None,
        };
        let name = move |tx: &mut Tx| name_installation_admins(tx, addresses.clone());
        store.write_blocking(Id::NIL, name)?;
    }
    let (addresses, named) = store.read_now(Id::NIL, installation_admins)?;
    let addresses = addresses.into_iter().map(Email::into_string).collect();
    Ok(AdminsOfInstallation { addresses, named })
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
