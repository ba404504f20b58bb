//! `/o/{org}/tools/{tool}/deploy`: sets which version of a tool an environment uses.

use serde::Deserialize;
use serde_json::json;

use super::tools::{DEPLOY, Tool};
use crate::base::Result;
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::{LISTED, pick};
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/tools/{tool}/deploy").form(|visit| Box::pin(deploy(visit)))];

/// The field for where it goes.
const ENVIRONMENT: Chooser = Chooser::one("environment", Kind::Environment);

#[derive(Deserialize)]
struct Version {
    version: String,
}

async fn deploy(visit: &Visit) -> Result<FormPage> {
    let path = format!("/tools/{}", segment(visit.param(1)));
    let tool: Tool = visit.api.get(&path, &[]).await?;
    let path = format!("{path}/versions");
    let highest: List<Version> = visit.api.get(&path, &[("limit", LISTED)]).await?;
    let highest = highest.items.into_iter().map(|one| (one.version, ""));
    let fields = vec![
        pick(visit, "Environment", ENVIRONMENT, None).await?,
        Field::suggest("version", "Version", highest)
            .optional()
            .hint("Empty for the newest.")
            .also("toolIds"),
    ];
    let form = Form::create(DEPLOY, fields, "Deploy")
        .refined(|visit, _, body| body["toolIds"] = json!([visit.param(1)]))
        .back(visit.above())
        .done(visit.in_org("/deployments/jobs/{id}"), Flash::Deployed);
    let frame =
        visit.frame(&format!("Deploy {}", tool.name)).crumb("Tools", visit.in_org("/tools"));
    let page = form.page(frame.crumb(tool.name, visit.above()));
    Ok(page.lead(
        "The environment uses this version from then on: agents that are deployed there next get it. \
         It needs the environment's approvals.",
    ))
}
