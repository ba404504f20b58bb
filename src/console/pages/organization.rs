//! `/o/{org}/settings/organization`: renames the organization.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;

use crate::base::Result;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::people::People;
use crate::console::roster;
use crate::console::strict::Nullable;
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
    let slug = &member.org_slug;
    let changed = changed_by(visit, slug).await?;
    Ok(page.lead(format!("Its short name, {slug}, is part of every address and stays.{changed}")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Organization {
    slug: String,
    updated_by: Nullable<String>,
}

/// Who changed the organization last, as a sentence; nothing if that is not known.
async fn changed_by(visit: &Visit, slug: &str) -> Result<String> {
    let mine: Vec<Organization> = visit.api.items("/organizations", &[]).await?;
    let own = mine.into_iter().find(|organization| organization.slug == slug);
    let Some(by) = own.and_then(|organization| organization.updated_by.0) else {
        return Ok(String::new());
    };
    let people = People::of(visit, BTreeSet::from([by.clone()])).await?;
    Ok(format!(" It was last changed by {}.", people.name(&by)))
}
