//! `roadstead profiles`

use clap::Args;
use serde_json::{Value, json};

use super::flags::ClientFlags;
use super::profiles::{self, Profile, Profiles, no_profile};
use super::table::Table;
use crate::cli::commands::commands;
use crate::cli::failure::Failure;
use crate::cli::output;

commands! {
    /// List, choose and remove the profiles that login keeps
    pub ProfileCommands of ProfileCommand { List(List), Use(Use), Remove(Remove) }
}

/// List the profiles, without their credentials
#[derive(Args)]
struct List {
    #[command(flatten)]
    client: ClientFlags,
}

/// Choose the profile of commands that name none
#[derive(Args)]
struct Use {
    /// The profile
    name: String,

    #[command(flatten)]
    client: ClientFlags,
}

/// Remove a profile with its credential
#[derive(Args)]
#[command(
    after_help = "The credential stays valid: a session ends by itself, a key is revoked on \
                        the server."
)]
struct Remove {
    /// The profile
    name: String,

    #[command(flatten)]
    client: ClientFlags,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let kept = Profiles::read()?;
        let is_current = |name: &str| kept.current.as_deref() == Some(name);
        let item = |(name, profile): (&String, &Profile)| {
            json!({
                "name": name,
                "current": is_current(name),
                "url": profile.url,
                "orgSlug": profile.org_slug,
                "expiresAt": profile.expires_at,
            })
        };
        let items: Vec<Value> = kept.profiles.iter().map(item).collect();
        let mut table = Table::new(&["", "NAME", "URL", "ORGANIZATION", "EXPIRES"]);
        for (name, profile) in &kept.profiles {
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
            let mark = if is_current(name) { "*" } else { "" };
            let (org, end) = (text(&profile.org_slug), text(&profile.expires_at));
            table.add(vec![mark.into(), name.clone(), profile.url.clone(), org, end]);
        }
        let value = json!({"file": profiles::path()?, "items": items});
        output::print(self.client.json, &value, table.text("no profiles; see: roadstead login"))
    }
}

impl Use {
    fn run(self) -> Result<(), Failure> {
        let mut kept = Profiles::read()?;
        if !kept.profiles.contains_key(&self.name) {
            return Err(no_profile(&self.name));
        }
        kept.current = Some(self.name.clone());
        kept.write()?;
        let text = format!("current profile: {}", self.name);
        output::print(self.client.json, &json!({"current": self.name}), &text)
    }
}

impl Remove {
    fn run(self) -> Result<(), Failure> {
        let mut kept = Profiles::read()?;
        if kept.profiles.remove(&self.name).is_none() {
            return Err(no_profile(&self.name));
        }
        kept.current = kept.current.filter(|current| *current != self.name);
        kept.write()?;
        output::print(
            self.client.json,
            &json!({"removed": self.name}),
            format!("removed: {}", self.name),
        )
    }
}
