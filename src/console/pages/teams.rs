//! `/o/{org}/teams`: the teams, and creating one.

use askama::Template;

use crate::api::Method;
use crate::base::Result;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::Team;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/new/team").form(|visit| Box::pin(new(visit))),
];

#[derive(Template)]
#[template(path = "teams.html")]
struct Teams {
    frame: Frame,
    base: String,
    teams: List<Team>,
    may_create: bool,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let page = Teams {
        frame: visit.frame("Teams"),
        base: visit.in_org(""),
        teams: visit.api.get("/teams", visit.cursor().as_slice()).await?,
        may_create: visit.may(Method::Post, "/teams"),
    };
    render(page.frame.status, &page)
}

/// What a team has, beside the name by which it is addressed.
pub fn fields() -> Vec<Field> {
    vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        Field::text("monthlyUsd", "Budget for a month, in US dollars")
            .at("budget.monthlyUsd")
            .number()
            .optional()
            .hint("You are told when it is spent; nothing is stopped."),
    ]
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let mut fields = fields();
    let slug = Field::text("slug", "Short name").hint(
        "By which it is addressed, also from outside: lower-case letters, digits and hyphens. It never \
         changes.",
    );
    fields.insert(1, slug);
    let frame = visit.frame("New team").crumb("Teams", visit.in_org("/teams"));
    Ok(Form::create("/teams", fields, "Create team")
        .done(visit.in_org("/teams/{slug}/agents"), Flash::TeamCreated)
        .page(frame))
}
