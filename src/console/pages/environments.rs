//! `/o/{org}/environments`: where agents run; creating, changing and deleting an environment.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::people;
use crate::console::reply::Reply;
use crate::console::roster;
use crate::console::strict::Nullable;
use crate::console::texts::ACCESSES;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/environments").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/environments/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/environments/{id}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/environments/{id}/delete").form(|visit| Box::pin(delete(visit))),
];

/// The field for those who approve.
const APPROVERS: Chooser = Chooser::one("approver", Kind::Person).many();

#[derive(Template)]
#[template(path = "environments.html")]
struct Environments {
    frame: Frame,
    base: String,
    environments: Listed<Environment>,
    may_create: bool,
}

/// An environment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    pub id: String,
    pub slug: String,
    pub name: String,
    pub description: Nullable<String>,
    pub access: String,
    pub approvals: Nullable<Approvals>,
    pub approval_timeout_hours: u32,
}

/// Who must approve deployments.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    pub approver_ids: Vec<String>,
    pub min_approvals: u32,
    pub prevent_self_approval: bool,
}

#[derive(Template)]
#[template(path = "edit_environment.html")]
struct EditEnvironment {
    frame: Frame,
    form: Form,
    /// That fewer of them can approve than must.
    warning: String,
}

/// The path of an environment in the API.
pub fn api_path(visit: &Visit) -> String {
    format!("/environments/{}", segment(visit.param(1)))
}

/// Adds the pages above that of an environment.
pub fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Environments", visit.in_org("/environments"))
}

async fn show(visit: &Visit) -> Result<Reply> {
    let only = [("kind", "environment")];
    let page = Environments {
        frame: visit.frame("Environments"),
        base: visit.in_org("/environments"),
        environments: Listed::read(visit, &only, "/environments", &[]).await?,
        may_create: visit.may(Method::Post, "/environments"),
    };
    render(page.frame.status, &page)
}

fn fields() -> Vec<Field> {
    vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        Field::select("access", "Who uses it", ACCESSES),
    ]
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let mut fields = fields();
    let slug = Field::text("slug", "Short name").hint(
        "By which deployments refer to it: lower-case letters, digits and hyphens. It never changes.",
    );
    fields.insert(1, slug);
    Ok(Form::create("/environments", fields, "Create environment")
        .done(visit.in_org("/environments/{id}"), Flash::EnvironmentCreated)
        .page(crumbs(visit, visit.frame("New environment").script("slug"))))
}

/// The fields of who approves, and how many of them must; `stored` are the approvals that there are.
///
/// # Errors
/// Those of the routes that are not about what was typed.
pub async fn approving(visit: &Visit, label: &'static str, stored: &Value) -> Result<[Field; 2]> {
    let approvers = people::several(visit, label, APPROVERS, &stored["approverIds"]).await?;
    Ok([
        approvers
            .at("approvals.approverIds")
            .also("approvals")
            .hint("Names or addresses, with commas. With nobody, it needs no approval."),
        Field::text("minApprovals", "Approvals needed")
            .at("approvals.minApprovals")
            .kind("number")
            .number()
            .optional()
            .hint("Empty for all of them."),
    ])
}

async fn settings(visit: &Visit) -> Result<Form> {
    let stored: Value = visit.api.get(&api_path(visit), &[]).await?;
    let mut fields = fields();
    fields.extend(approving(visit, "Who approves deployments", &stored["approvals"]).await?);
    fields.extend([
        Field::special(),
        Field::text("approvalTimeoutHours", "Hours until a deployment times out")
            .kind("number")
            .number(),
        Field::check("preventSelfApproval", "A person cannot approve their own deployment")
            .at("approvals.preventSelfApproval"),
    ]);
    let form = Form::change(visit, &api_path(visit), fields).await?;
    let form = form.back(visit.above()).done(visit.above(), Flash::EnvironmentSaved);
    Ok(form.refined(|_, _, body| without_nobody(body)))
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/environments/id")?;
    let mut form = settings(visit).await?;
    let environment: Environment = form.stored()?;
    let (stored, needed) = environment
        .approvals
        .0
        .map(|own| (own.approver_ids, own.min_approvals))
        .unwrap_or_default();
    let members = roster::members(&visit.api).await?;
    let warning = match roster::too_few(&members, &stored, needed) {
        none if none.is_empty() => roster::unable(&members, &stored),
        too_few => too_few,
    };
    let frame = crumbs(visit, visit.frame(&format!("Change {}", environment.name)));
    let frame = frame.crumb(environment.name, visit.above()).failed(error.as_ref());
    let frame = form.ready(frame, visit, error.as_ref());
    let page = EditEnvironment { frame: form.offer(frame, visit).await?, form, warning };
    render(page.frame.status, &page)
}

/// Without an approver it takes no approvals, and what is empty of others is absent.
pub fn without_nobody(body: &mut Value) {
    let approvals = &mut body["approvals"];
    if approvals["approverIds"].as_array().is_none_or(Vec::is_empty) {
        *approvals = Value::Null;
    } else if let Some(fields) = approvals.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

async fn save(visit: &Visit) -> Result<Reply> {
    match settings(visit).await?.send(visit).await {
        Err(error) => edit(visit, visit.failed(error)?).await,
        Ok(done) => {
            let stored: Environment = visit.api.get(&api_path(visit), &[]).await?;
            let Some(own) = stored.approvals.0 else { return Ok(done) };
            let members = roster::members(&visit.api).await?;
            let warning = roster::too_few(&members, &own.approver_ids, own.min_approvals);
            // The form says it again, with who was chosen.
            let here = || visit.done(&visit.path, Flash::EnvironmentSaved);
            Ok(if warning.is_empty() { done } else { here() })
        }
    }
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let frame = visit.frame(&format!("Delete {}?", form.known("name")));
    let form = form.done(visit.in_org("/environments"), Flash::EnvironmentDeleted);
    Ok(form.page(crumbs(visit, frame)).lead(
        "Its variables, secrets, credentials and grants go with it. An environment in which something \
         is live is not deleted.",
    ))
}
