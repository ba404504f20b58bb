//! `roadstead init`

use clap::Args;
use serde_json::json;

use super::common::{Common, init_logging};
use super::failure::Failure;
use super::{output, password};
use crate::auth::passwords::{self, HashRequest, Password};
use crate::base::{Email, Id, Name, Slug};
use crate::resources::organizations::{self, NewFoundation};

/// Create the data directory with the first organization, its owner and an API key
#[derive(Args)]
#[command(after_help = "The API key is printed once and not stored; it may record deployment \
                        decisions for named approvers (deployment:approve-as). Without \
                        --password-stdin the password is asked for in the terminal.\n\n\
                        Example:\n  echo 'correct horse battery' | roadstead init --org acme \
                        --org-name Acme --email ada@acme.test --name Ada --password-stdin")]
pub struct Init {
    /// The organization's slug, which requests refer to it by
    #[arg(long, value_name = "SLUG", env = "ROADSTEAD_ORG", value_parser = |text: &str| Slug::parse(text))]
    org: Slug,

    /// The organization's display name
    #[arg(long, value_name = "NAME", env = "ROADSTEAD_ORG_NAME", value_parser = |text: &str| Name::parse(text))]
    org_name: Name,

    /// The owner's e-mail address, considered verified
    #[arg(long, value_name = "ADDRESS", env = "ROADSTEAD_EMAIL", value_parser = |text: &str| Email::parse(text))]
    email: Email,

    /// The owner's name
    #[arg(long, value_name = "NAME", env = "ROADSTEAD_NAME", value_parser = |text: &str| Name::parse(text))]
    name: Name,

    /// Read the owner's password, 12 characters or more, from the first line of stdin
    #[arg(long, env = "ROADSTEAD_PASSWORD_STDIN")]
    password_stdin: bool,

    #[command(flatten)]
    common: Common,
}

impl Init {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let password = if self.password_stdin {
            password::parse(&password::first_line()?)?
        } else {
            password::ask()?
        };
        let password_hash = Some(hash(password)?);
        let dir = self.common.data_dir();
        let store = dir.open_or_create()?;
        if store.read_now(Id::NIL, organizations::has_any_user)? {
            return Err(Failure::Failed(format!(
                "{} has been set up already; nothing was changed",
                self.common.data
            )));
        }
        let founding = NewFoundation {
            slug: self.org,
            name: self.org_name,
            email: self.email,
            user_name: self.name,
            password_hash,
            api_key: Some(Name::parse("init").expect("it is a name")),
        };
        let founded =
            store.write_blocking(Id::NIL, move |tx| organizations::bootstrap(tx, &founding))?;
        let (organization, user) = (&founded.organization, &founded.user);
        let (key, secret) = founded.key.as_ref().expect("a key was asked for");
        let value = json!({
            "organization": {
                "id": organization.id, "slug": organization.slug, "name": organization.name,
            },
            "user": {"id": user.id, "email": user.email, "name": user.name},
            "apiKey": {
                "id": key.id, "name": key.name, "key": secret,
                "permissions": ["deployment:approve-as"],
            },
        });
        let text = format!(
            "Created {} with the organization {} and its owner {}.\n\n\
             API key (shown once, not stored):\n  {secret}\n\n\
             Next: roadstead serve --data {}\n",
            self.common.data, organization.slug, user.email, self.common.data
        );
        output::print(self.common.json, &value, &text)
    }
}

fn hash(password: Password) -> Result<String, Failure> {
    let hashing = HashRequest { verify: None, make: Some(password.into_string()) };
    passwords::run(&hashing)?
        .made
        .ok_or_else(|| Failure::Failed("the password could not be hashed".into()))
}
