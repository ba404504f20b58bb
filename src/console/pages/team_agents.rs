//! `/o/{org}/teams/{slug}/agents`: the agents of a team and what it spends; adding one.

use askama::Template;

use crate::base::{Error, Result};
use crate::console::choice::{Chooser, Kind};
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::paused;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::{TeamAgent, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/agents")
        .get(|visit| Box::pin(list(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/teams/{slug}/agents/add").form(|visit| Box::pin(add(visit))),
];

/// The roles in a team.
pub const ROLES: [(&str, &str); 2] = [
    ("member", "Member"),
    ("scrum_master", "Scrum Master: also for tasks that nobody has; one in a team"),
];

/// The word of a role.
pub fn role(name: &str) -> &'static str {
    if name == "scrum_master" { "Scrum Master" } else { "Member" }
}

#[derive(Template)]
#[template(path = "team_agents.html")]
struct Agents {
    frame: Frame,
    place: TeamPlace,
    agents: List<TeamAgent>,
    people: People,
}

async fn list(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let page = Agents {
        frame: place.crumbs(visit, visit.frame("Agents")).failed(error.as_ref()).live(),
        agents: visit.api.get(&place.api("/agents"), &visit.walk()).await?,
        people: paused::people(&visit.api, &place.team.paused).await?,
        place,
    };
    render(page.frame.status, &page)
}

/// Pauses the team, or resumes it.
async fn act(visit: &Visit) -> Result<Reply> {
    let flash = match visit.form.get("action") {
        "pause" => Flash::Paused,
        "resume" => Flash::Resumed,
        _ => return list(visit, None).await,
    };
    let place = TeamPlace::of(visit).await?;
    match paused::act(visit, &place.api("")).await {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => list(visit, visit.failed(error)?).await,
    }
}

/// What an agent has in a team.
pub fn fields() -> Vec<Field> {
    vec![
        Field::select("role", "Role", ROLES),
        Field::text("skills", "Good at").words().optional().hint("Words with commas between them."),
    ]
}

async fn add(visit: &Visit) -> Result<FormPage> {
    let place = TeamPlace::of(visit).await?;
    let agent = Chooser::one("stableKey", Kind::Agent);
    let mut all = vec![Field::choose("Agent", agent).hint("Its name, or its stable key.")];
    all.extend(fields());
    let frame = place.crumbs(visit, visit.frame(&format!("Add an agent to {}", place.team.name)));
    Ok(Form::create(&place.api("/agents"), all, "Add agent")
        .done(place.at("/agents"), Flash::AgentHired)
        .page(frame.crumb("Agents", place.at("/agents"))))
}
