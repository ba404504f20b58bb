//! `/o/{org}/registries/…`: creating, changing and deleting a registry.

use crate::base::Result;
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::texts::ACCESSES;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/registries/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/registries/{registry}/edit").form(|visit| Box::pin(edit(visit))),
    Page::of_org("/o/{org}/registries/{registry}/delete").form(|visit| Box::pin(delete(visit))),
];

const VISIBILITIES: [(&str, &str); 2] =
    [("private", "Private: members read it"), ("public", "Public: anyone reads it")];

fn fields() -> Vec<Field> {
    vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        Field::select("visibility", "Who reads it", VISIBILITIES),
        Field::select("access", "Who uses it", ACCESSES),
    ]
}

fn api_path(visit: &Visit) -> String {
    format!("/registries/{}", segment(visit.param(1)))
}

/// The path of the registry's page, which is not above those that change it.
fn page_path(visit: &Visit) -> String {
    visit.in_org(&format!("/prompts/{}", segment(visit.param(1))))
}

async fn edit(visit: &Visit) -> Result<FormPage> {
    let form = Form::change(visit, &api_path(visit), fields()).await?;
    let (name, back) = (form.known("name"), page_path(visit));
    let frame = visit.frame(&format!("Change {name}")).crumb("Prompts", visit.in_org("/prompts"));
    let form = form.back(back.as_str()).done(back.as_str(), Flash::RegistrySaved);
    let page = form.page(frame.crumb(name, back));
    Ok(page.note(
        "What is public is read by anyone, without signing in. Restricted to members with a grant, \
         others find neither it nor what is in it, and their keys stop reading it at once.",
    ))
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let name = form.known("name");
    let frame = visit.frame(&format!("Delete {name}?")).crumb("Prompts", visit.in_org("/prompts"));
    let form = form.back(page_path(visit)).done(visit.in_org("/prompts"), Flash::RegistryDeleted);
    Ok(form.page(frame.crumb(name, page_path(visit))).lead(
        "All its prompts and promptlets go with it, with their versions, labels and drafts, for everyone \
         at once. A registry of which something is live is not deleted.",
    ))
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let mut fields = fields();
    let slug = Field::text("slug", "Short name").hint(
        "By which programs refer to it: lower-case letters, digits and hyphens. It never changes.",
    );
    fields.insert(1, slug);
    let frame =
        visit.frame("New registry").script("slug").crumb("Prompts", visit.in_org("/prompts"));
    Ok(Form::create("/registries", fields, "Create registry")
        .done(visit.in_org("/prompts/{slug}"), Flash::RegistryCreated)
        .page(frame))
}
