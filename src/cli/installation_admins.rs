//! `roadstead installation-admins`

use clap::Args;
use serde_json::json;

use super::common::{Common, init_logging};
use super::failure::Failure;
use super::output;
#[cfg(feature = "postgres")]
use super::store_flag::StoreFlag;
use crate::app::control::{self, ControlResponse, Request};
use crate::app::{AdminsChange, AdminsOfInstallation, admins_of_installation};

/// Print or change who administers the installation, while the server runs or not
#[derive(Args)]
#[command(
    after_help = "They see the state of the whole server and its metrics, in an organization \
                        of which they are an owner or admin. Without names it is the owner of the \
                        first organization.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened."
)]
pub struct InstallationAdmins {
    /// E-mail address of one of them, in place of those so far (repeatable)
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', conflicts_with = "first_owner")]
    set: Vec<String>,

    /// Take the names back: the owner of the first organization
    #[arg(long)]
    first_owner: bool,

    #[cfg(feature = "postgres")]
    #[command(flatten)]
    store: StoreFlag,

    #[command(flatten)]
    common: Common,
}

impl InstallationAdmins {
    pub(super) fn run(self) -> Result<(), Failure> {
        init_logging(&self.common);
        let AdminsOfInstallation { addresses, named } = self.carry_out()?;
        let value = json!({"addresses": addresses, "named": named});
        output::print(self.common.json, &value, addresses.join("\n"))
    }

    fn change(&self) -> Option<AdminsChange> {
        if self.first_owner {
            return Some(AdminsChange::ToFirstOwner);
        }
        (!self.set.is_empty()).then(|| AdminsChange::To(self.set.clone()))
    }

    /// Has the running server do it, or does it in its place; over PostgreSQL beside it.
    fn carry_out(&self) -> Result<AdminsOfInstallation, Failure> {
        let change = self.change();
        #[cfg(feature = "postgres")]
        if let Some(shared) = self.store.open(&self.common, "installation-admins")? {
            let done = admins_of_installation(&shared.store, change.as_ref());
            shared.store.close();
            return Ok(done?);
        }
        let dir = self.common.data_dir();
        dir.require_exists()?;
        let request = Request::InstallationAdmins { change: change.clone() };
        match control::ask(&dir, &request, &mut |_| {})
            .map_err(Failure::io("the control socket"))?
        {
            Some(ControlResponse::InstallationAdmins(admins)) => Ok(admins),
            Some(ControlResponse::Failed(why)) => Err(Failure::Failed(why)),
            Some(_) => Err(Failure::Failed("an unexpected reply of the server".into())),
            None => Ok(admins_of_installation(&dir.open()?, change.as_ref())?),
        }
    }
}
