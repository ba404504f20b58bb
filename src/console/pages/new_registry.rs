//! `/o/{org}/registries/new`: creates a registry.

use crate::base::Result;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::texts::ACCESSES;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/registries/new").form(|visit| Box::pin(new(visit)))];

const VISIBILITIES: [(&str, &str); 2] =
    [("private", "Private: members read it"), ("public", "Public: anyone reads it")];

async fn new(visit: &Visit) -> Result<FormPage> {
    let fields = vec![
        Field::text("name", "Name"),
        Field::text("slug", "Short name").hint(
            "By which programs refer to it: lower-case letters, digits and hyphens. It never changes.",
        ),
        Field::text("description", "Description").optional(),
        Field::select("visibility", "Who reads it", VISIBILITIES),
        Field::select("access", "Who uses it", ACCESSES),
    ];
    let frame = visit.frame("New registry").crumb("Prompts", visit.in_org("/prompts"));
    Ok(Form::create("/registries", fields, "Create registry")
        .done(visit.in_org("/prompts/{slug}"), Flash::RegistryCreated)
        .page(frame))
}
