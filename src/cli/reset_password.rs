//! `roadstead reset-password`

use clap::Args;
use serde_json::json;

use super::common::{Common, init_logging};
use super::failure::Failure;
#[cfg(feature = "postgres")]
use super::store_flag::StoreFlag;
use super::{output, values};
use crate::app::control::{self, ControlResponse, Request};
use crate::app::{PasswordResetLink, reset_password};
use crate::base::HttpUrl;

/// Print a link with which a user sets a new password, while the server runs or not
#[derive(Args)]
#[command(
    after_help = "The link works once, for 30 minutes, and replaces an older one of the user. \
                        Setting a password with it ends all sessions of the user; API keys \
                        stay valid.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened."
)]
pub struct ResetPassword {
    /// E-mail address of the user
    #[arg(long, value_name = "ADDRESS", env = "ROADSTEAD_EMAIL")]
    email: String,

    /// URL under which people open the server; by default the running server's, or a path
    #[arg(long, value_name = "URL", env = "ROADSTEAD_PUBLIC_URL", value_parser = values::public_url)]
    public_url: Option<HttpUrl>,

    #[cfg(feature = "postgres")]
    #[command(flatten)]
    store: StoreFlag,

    #[command(flatten)]
    common: Common,
}

impl ResetPassword {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let link = self.link()?;
        let PasswordResetLink { reset_url, expires_at } = &link;
        let value = json!({"email": self.email, "resetUrl": reset_url, "expiresAt": expires_at});
        output::print(self.common.json, &value, reset_url)
    }

    /// Has the running server make the link, or makes it in its place; over PostgreSQL beside it.
    fn link(&self) -> Result<PasswordResetLink, Failure> {
        let base = self.public_url.as_ref().map_or("", |url| url);
        #[cfg(feature = "postgres")]
        if let Some(shared) = self.store.open(&self.common, "reset-password")? {
            let made = reset_password(&shared.store, &self.email, base);
            shared.store.close();
            return Ok(made?);
        }
        let dir = self.common.data_dir();
        dir.require_exists()?;
        let request = Request::ResetPassword {
            email: self.email.clone(),
            public_url: self.public_url.as_ref().map(ToString::to_string),
        };
        match control::ask(&dir, &request, &mut |_| {})
            .map_err(Failure::io("the control socket"))?
        {
            Some(ControlResponse::PasswordReset(link)) => Ok(link),
            Some(ControlResponse::Failed(why)) => Err(Failure::Failed(why)),
            Some(_) => Err(Failure::Failed("an unexpected reply of the server".into())),
            None => Ok(reset_password(&dir.open()?, &self.email, base)?),
        }
    }
}
