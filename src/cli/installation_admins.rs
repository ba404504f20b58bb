//! `roadstead installation-admins`

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::installation::Installation;
use super::output;
use crate::app::control::{ControlResponse, Request};
use crate::app::{AdminsChange, AdminsOfInstallation, admins_of_installation};
use crate::store::Store;

/// Print or change who administers the installation, while the server runs or not
#[derive(Args)]
#[command(
    after_help = "They see the state of the whole server and its metrics, in an organization \
                        of which they are an owner or admin. Without names it is the owner of the \
                        first organization. Names of which no account here has proved one are refused where \
                        somebody would lose the right: it would be nobody's.\n\n\
                        Exit codes: 0 done, 1 failed, 2 cannot be opened."
)]
pub struct InstallationAdmins {
    /// E-mail address of one of them, in place of those so far (repeatable)
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', conflicts_with = "first_owner")]
    set: Vec<String>,

    /// Take the names back: the owner of the first organization
    #[arg(long)]
    first_owner: bool,

    #[command(flatten)]
    installation: Installation,
}

impl InstallationAdmins {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.installation.init_logging();
        let AdminsOfInstallation { addresses, named, without_account, unproved } =
            self.carry_out()?;
        for address in &without_account {
            output::status(&format!(
                "warning: {address} has no account here; it counts once there is one that has proved it"
            ));
        }
        for address in &unproved {
            output::status(&format!(
                "warning: {address} has an account here that has not proved it; it counts once it has"
            ));
        }
        let value = json!({
            "addresses": addresses,
            "named": named,
            "withoutAccount": without_account,
            "unproved": unproved,
        });
        output::print(self.installation.json(), &value, addresses.join("\n"))
    }

    fn change(&self) -> Option<AdminsChange> {
        if self.first_owner {
            return Some(AdminsChange::ToFirstOwner);
        }
        (!self.set.is_empty()).then(|| AdminsChange::To(self.set.clone()))
    }

    fn carry_out(&self) -> Result<AdminsOfInstallation, Failure> {
        let change = self.change();
        let request = Request::InstallationAdmins { change: change.clone() };
        let expected = |reply| match reply {
            ControlResponse::InstallationAdmins(admins) => Some(admins),
            _ => None,
        };
        let here = |store: &Store| admins_of_installation(store, change.as_ref());
        self.installation.have_done("installation-admins", &request, expected, here)
    }
}
