//! `/o/{org}/teams`: the teams, and creating one.

use askama::Template;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::budget;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::paused::{self, Pause};
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::team::Team;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/new/team").form(|visit| Box::pin(new(visit))),
];

#[derive(Template)]
#[template(path = "teams.html")]
struct Teams {
    frame: Frame,
    base: String,
    teams: Listed<Team>,
    may_create: bool,
    /// The pause of all agents.
    paused: Nullable<Pause>,
    people: People,
    may_pause: bool,
}

#[derive(serde::Deserialize)]
struct All {
    paused: Nullable<Pause>,
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let paused = visit.api.get::<All>("/teams/pause", &[]).await?.paused;
    let page = Teams {
        frame: visit.frame("Teams").failed(error.as_ref()),
        people: paused::people(&visit.api, &paused).await?,
        paused,
        may_pause: visit.may(Method::Post, "/teams/pause"),
        base: visit.in_org(""),
        teams: Listed::read(visit, &[("kind", "team")], "/teams", &[]).await?,
        may_create: visit.may(Method::Post, "/teams"),
    };
    render(page.frame.status, &page)
}

/// Pauses all agents, or resumes them.
async fn act(visit: &Visit) -> Result<Reply> {
    let flash = match visit.form.get("action") {
        "pause" => Flash::Paused,
        "resume" => Flash::Resumed,
        _ => return show(visit, None).await,
    };
    match paused::act(visit, "/teams").await {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

/// Time zones that are suggested: any other may be entered.
const ZONES: [(&str, &str); 8] = [
    ("UTC", "UTC"),
    ("America/Los_Angeles", "Los Angeles"),
    ("America/New_York", "New York"),
    ("America/Sao_Paulo", "São Paulo"),
    ("Asia/Kolkata", "Kolkata"),
    ("Asia/Tokyo", "Tokyo"),
    ("Europe/Berlin", "Berlin"),
    ("Europe/London", "London"),
];

/// What a team has, beside the name by which it is addressed.
pub fn fields() -> Vec<Field> {
    let hint = "What the runs of its agents may cost in a calendar month. Without an amount there is no \
                budget.";
    let mut fields =
        vec![Field::text("name", "Name"), Field::text("description", "Description").optional()];
    fields.extend(budget::fields("Budget for a month, in US dollars", hint));
    fields.push(
        Field::suggest("timeZone", "Time zone", ZONES)
            .optional()
            .hint("In which its days and months begin, such as Europe/Berlin. UTC if empty."),
    );
    fields
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let mut fields = fields();
    let slug = Field::text("slug", "Short name").hint(
        "By which it is addressed, also from outside: lower-case letters, digits and hyphens. It never \
         changes.",
    );
    fields.insert(1, slug);
    let frame = visit.frame("New team").script("slug").crumb("Teams", visit.in_org("/teams"));
    Ok(Form::create("/teams", fields, "Create team")
        .refined(budget::refine)
        .done(visit.in_org("/teams/{slug}/agents"), Flash::TeamCreated)
        .page(frame))
}
