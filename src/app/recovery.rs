//! What the command `roadstead reset-password` does, in a running server through the control socket
//! or on the directory itself.

use serde::{Deserialize, Serialize};

use crate::api::audit::{SystemAction, audit_system};
use crate::auth::{find_person, user_organizations};
use crate::base::{Email, Error, Id, Result};
use crate::resources::organizations;
use crate::store::Store;

/// A new link with which a user sets a new password.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PasswordResetLink {
    /// The link; a path if the server's address is not known.
    pub reset_url: String,
    pub expires_at: String,
}

/// Makes a link for the user with this e-mail address, and records that in the audit log of each of
/// their organizations. Blocks.
///
/// # Errors
/// 400 if it is no address, 404 if it has no user; if the store fails.
pub fn reset_password(store: &Store, email: &str, link_base: &str) -> Result<PasswordResetLink> {
    let email = Email::parse(email).map_err(|what| Error::invalid_at("--email", what))?;
    let made = store.write_blocking(Id::NIL, move |tx| {
        let user = find_person(&tx.view(), &email)?.ok_or_else(|| Error::no_such("user"))?;
        let made = organizations::issue_password_reset(tx, &user)?;
        let resource_id = &user.id.to_string();
        let action = "password_reset.create";
        let done = SystemAction { action, resource_id, detail: &user.email, cause: "command line" };
        for org in user_organizations(&tx.view(), user.id)? {
            tx.set_org(org);
            audit_system(tx, done)?;
        }
        Ok(made)
    })?;
    Ok(PasswordResetLink {
        reset_url: made.url(link_base),
        expires_at: made.expires_at.to_string(),
    })
}
