//! `roadstead whoami`

use clap::Args;
use serde_json::{Value, json};

use super::flags::ClientFlags;
use super::table::cell;
use crate::cli::failure::Failure;
use crate::cli::output;

/// Print which server, user, organization and scopes commands use
#[derive(Args)]
pub struct WhoAmI {
    #[command(flatten)]
    client: ClientFlags,
}

impl WhoAmI {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let mut who = api.whoami()?;
        who["url"] = json!(api.base());
        output::print(self.client.json, &who, text(&who))
    }
}

/// Says for people who a credential is (`GET /whoami`).
pub fn text(who: &Value) -> String {
    let memberships = who["memberships"].as_array().into_iter().flatten();
    let organizations: Vec<String> =
        memberships.map(|of| format!("{} ({})", cell(&of["orgSlug"]), cell(&of["role"]))).collect();
    let key = &who["apiKey"];
    let credential = if key.is_null() {
        "a session".to_string()
    } else {
        format!("the API key {}, access: {}", cell(&key["name"]), cell(&key["access"]))
    };
    let mut text = format!(
        "{} at {}\norganization: {}\nby {credential}",
        cell(&who["userName"]),
        cell(&who["url"]),
        organizations.join(", "),
    );
    if !who["expiresAt"].is_null() {
        text.push_str(&format!("\nexpires: {}", cell(&who["expiresAt"])));
    }
    text
}
