//! What the command `roadstead reset-password` does, in a running server through the control socket
//! or on the directory itself.

use serde::{Deserialize, Serialize};

use crate::api::audit::{SystemAction, audit_system};
use crate::auth::{find_person, reset_second_factor, user_organizations};
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
    /// Whether the user had a second factor, which was reset.
    #[serde(default)]
    pub second_factor_reset: bool,
}

/// Makes a link for the user with this e-mail address, resets their second factor if that is asked for,
/// and records both in the audit log of each of their organizations. Blocks.
///
/// # Errors
/// 400 if it is no address, 404 if it has no user; if the store fails.
pub fn reset_password(
    store: &Store,
    email: &str,
    link_base: &str,
    resets_second_factor: bool,
) -> Result<PasswordResetLink> {
    let email = Email::parse(email).map_err(|what| Error::invalid_at("--email", what))?;
    let (made, second_factor_reset) = store.write_blocking(Id::NIL, move |tx| {
        let user = find_person(&tx.view(), &email)?.ok_or_else(|| Error::no_such("user"))?;
        let made = organizations::issue_password_reset(tx, &user)?;
        let is_reset = resets_second_factor && reset_second_factor(tx, user.id)?;
        let resource_id = &user.id.to_string();
        let mut actions = vec!["password_reset.create"];
        actions.extend(is_reset.then_some("second_factor.reset"));
        for org in user_organizations(&tx.view(), user.id)? {
            tx.set_org(org);
            for action in actions.iter().copied() {
                let (detail, cause) = (&*user.email, "command line");
                audit_system(tx, SystemAction { action, resource_id, detail, cause })?;
            }
        }
        Ok((made, is_reset))
    })?;
    Ok(PasswordResetLink {
        reset_url: made.url(link_base),
        expires_at: made.expires_at.to_string(),
        second_factor_reset,
    })
}
