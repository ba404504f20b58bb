//! `/o/{org}/teams/{slug}/settings`: a team's name, description and budget; deleting it.

use askama::Template;
use serde_json::json;

use super::confirm::Confirm;
use super::teams::number;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::conflict::Edited;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::team::{Team, TeamPlace, or_null};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/settings")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/teams/{slug}/delete")
        .get(|visit| Box::pin(ask(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "team_settings.html")]
struct Settings {
    frame: Frame,
    place: TeamPlace,
    description: String,
    monthly: String,
    may_delete: bool,
}

/// What the form edits.
fn edited(visit: &Visit, team: &Team) -> Vec<Edited> {
    let description = team.description.as_deref().unwrap_or_default();
    let budget = team.budget.as_ref().map_or(String::new(), |one| one.monthly_usd.to_string());
    vec![
        Edited::text(visit, "name", "Name", &team.name),
        Edited::text(visit, "description", "Description", description),
        Edited::text(visit, "monthlyUsd", "Budget", &budget),
    ]
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let frame = place.crumbs(visit, visit.frame("Settings")).failed(error.as_ref());
    let frame = frame.edits(visit, error.as_ref(), &edited(visit, &place.team));
    let page = Settings {
        frame: frame.rename("budget.monthlyUsd", "monthlyUsd"),
        description: place.team.description.0.clone().unwrap_or_default(),
        monthly: place
            .team
            .budget
            .as_ref()
            .map_or(String::new(), |one| one.monthly_usd.to_string()),
        may_delete: visit.may(Method::Delete, &place.api("")),
        place,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let budget = visit.form.some("monthlyUsd").map(|text| json!({"monthlyUsd": number(text)}));
    let body = json!({
        "name": visit.form.get("name"), "description": or_null(visit, "description"),
        "budget": budget,
    });
    match visit.save(&place.api(""), body, |team| edited(visit, team)).await {
        Ok(_) => Ok(visit.done(&place.at("/settings"), Flash::TeamSaved)),
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

async fn ask(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    visit.require(Method::Delete, &place.api(""))?;
    let title = format!("Delete {}?", place.team.name);
    Confirm {
        frame: place.crumbs(visit, visit.frame(&title)),
        consequences: "Its tasks, mail, approvals and timeline go with it, and the memories of its agents, \
                       and nothing of it can be brought back. Outside agents can no longer write to it. \
                       The agents themselves stay, with what is deployed to them."
            .into(),
        label: format!("Delete the team {}", place.team.slug),
        back: place.at("/settings"),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    match visit.api.delete(&place.api(""), &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/teams"), Flash::TeamDeleted)),
        Err(error) => ask(visit, visit.failed(error)?).await,
    }
}
