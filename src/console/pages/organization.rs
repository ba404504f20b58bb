//! `/o/{org}/settings/organization`: renames the organization.

use serde_json::json;

use crate::base::Result;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::roster;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/settings/organization").form(|visit| Box::pin(rename(visit)))];

async fn rename(visit: &Visit) -> Result<FormPage> {
    let member = visit.member();
    let fields = vec![Field::text("name", "Name")];
    let form = Form::change_known("/organizations", json!({"name": member.org_name}), fields)?;
    let form = form.done(visit.path.as_str(), Flash::OrganizationSaved).back(visit.in_org(""));
    let page = form.page(visit.frame("Organization").tabs(&roster::tabs(visit)));
    Ok(page
        .lead(format!("Its short name, {}, is part of every address and stays.", member.org_slug)))
}
