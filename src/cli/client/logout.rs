//! `roadstead logout`

use clap::Args;
use serde_json::json;

use super::flags::ClientFlags;
use super::profiles::{Profiles, no_profile};
use crate::auth::KEY_PREFIX;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// End the session of a profile, and remove the profile
#[derive(Args)]
#[command(
    after_help = "Ends the session that login has begun, on the server. An API key stays valid: \
                        revoke it on the server.\n\nExample: roadstead logout --profile work"
)]
pub struct Logout {
    #[command(flatten)]
    client: ClientFlags,
}

impl Logout {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut kept = Profiles::read()?;
        let name = self.client.profile.clone().or_else(|| kept.current.clone());
        let name = name.ok_or_else(|| {
            Failure::Usage("there is no current profile; name one with --profile".into())
        })?;
        let profile = kept.profiles.get(&name).cloned().ok_or_else(|| no_profile(&name))?;
        let is_key = profile.credential.starts_with(KEY_PREFIX);
        if !is_key {
            let api = self.client.client(&profile.url, profile.credential, None)?;
            match api.send(Method::POST, "/auth/sign-out", &json!({})) {
                // It has ended already.
                Err(refusal) if refusal.with_code("unauthenticated").is_some() => {}
                ended => drop(ended?),
            }
        }
        kept.profiles.remove(&name);
        kept.current = kept.current.filter(|current| *current != name);
        kept.write()?;
        let text = if is_key {
            format!("removed: {name}; its API key stays valid until it is revoked on the server")
        } else {
            format!("signed out: {name}")
        };
        output::print(self.client.json, &json!({"removed": name, "sessionEnded": !is_key}), text)
    }
}
