//! `/o/{org}/teams/{slug}/settings`: a team's name, description, budget and time zone;
//! deleting it.

use askama::Template;

use super::teams::fields;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::budget;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::team::TeamPlace;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/settings")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/teams/{slug}/delete").form(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "team_settings.html")]
struct Settings {
    frame: Frame,
    place: TeamPlace,
    form: Form,
    may_delete: bool,
}

async fn settings(visit: &Visit, place: &TeamPlace) -> Result<Form> {
    let form = Form::change(visit, &place.api(""), fields()).await?.refined(budget::refine);
    Ok(form.done(place.at("/settings"), Flash::TeamSaved))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let mut form = settings(visit, &place).await?;
    let frame = place.crumbs(visit, visit.frame("Settings")).failed(error.as_ref());
    let page = Settings {
        frame: form.ready(frame, visit, error.as_ref()),
        form,
        may_delete: visit.may(Method::Delete, &place.api("")),
        place,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    match settings(visit, &place).await?.send(visit).await {
        Err(error) => show(visit, visit.failed(error)?).await,
        done => done,
    }
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let Some(place) = Form::unless_gone(visit, TeamPlace::of(visit).await)? else {
        let form = Form::gone().done(visit.in_org("/teams"), Flash::TeamDeleted);
        return Ok(form.page(visit.frame("Delete the team?")));
    };
    let form = Form::delete(visit, &place.api("")).await?;
    let page = form
        .button(format!("Delete the team {}", place.team.slug))
        .back(place.at("/settings"))
        .done(visit.in_org("/teams"), Flash::TeamDeleted)
        .page(place.crumbs(visit, visit.frame(&format!("Delete {}?", place.team.name))));
    Ok(page.lead(
        "Its tasks, mail, approvals and timeline go with it, and the memories of its agents, and nothing \
         of it can be brought back. Outside agents can no longer write to it. The agents themselves \
         stay, with what is deployed to them.",
    ))
}
