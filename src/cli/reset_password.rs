//! `roadstead reset-password`

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::installation::Installation;
use super::{output, values};
use crate::app::control::{ControlResponse, Request};
use crate::app::{PasswordResetLink, reset_password};
use crate::base::HttpUrl;
use crate::store::Store;

/// Print a link with which a user sets a new password, while the server runs or not
#[derive(Args)]
#[command(
    after_help = "The link works once, for 30 minutes, and replaces an older one of the user. \
                        Setting a password with it ends all sessions of the user; API keys \
                        stay valid, and signing in takes a second factor as before unless that is \
                        reset, too.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened."
)]
pub struct ResetPassword {
    /// E-mail address of the user
    #[arg(long, value_name = "ADDRESS", env = "ROADSTEAD_EMAIL")]
    email: String,

    /// URL under which people open the server; by default the running server's, or a path
    #[arg(long, value_name = "URL", env = "ROADSTEAD_PUBLIC_URL", value_parser = values::public_url)]
    public_url: Option<HttpUrl>,

    /// Turn the user's second factor off, too: for who has lost the app and the recovery codes
    #[arg(long)]
    reset_second_factor: bool,

    #[command(flatten)]
    installation: Installation,
}

impl ResetPassword {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let link = self.link()?;
        let PasswordResetLink { reset_url, expires_at, second_factor_reset } = &link;
        let value = json!({
            "email": self.email,
            "resetUrl": reset_url,
            "expiresAt": expires_at,
            "secondFactorReset": second_factor_reset,
        });
        if reset_url.starts_with('/') && !self.installation.json() {
            output::status(
                "Put before it the URL under which people open the server, https://… (or give \
                 --public-url): nobody tells it while no server runs.",
            );
        }
        output::print(self.installation.json(), &value, reset_url)
    }

    fn link(&self) -> Result<PasswordResetLink, Failure> {
        let base = self.public_url.as_ref().map_or("", |url| url);
        let request = Request::ResetPassword {
            email: self.email.clone(),
            public_url: self.public_url.as_ref().map(ToString::to_string),
            reset_second_factor: self.reset_second_factor,
        };
        let expected = |reply| match reply {
            ControlResponse::PasswordReset(link) => Some(link),
            _ => None,
        };
        let here =
            |store: &Store| reset_password(store, &self.email, base, self.reset_second_factor);
        self.installation.have_done("reset-password", &request, expected, here)
    }
}
