//! `/o/{org}/choose`: what fits what is typed in a field, for a script.

use askama::Template;
use hyper::StatusCode;

use crate::base::{Id, Result};
use crate::console::choice::{Choice, Kind, Wanted};
use crate::console::chooser::matches;
use crate::console::errors;
use crate::console::frame::render;
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/choose").get(|visit| Box::pin(show(visit)))];

#[derive(Template)]
#[template(path = "choices.html")]
struct Choices {
    choices: Vec<Choice>,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let of = |name: &str| visit.query.get(name).trim();
    let kind = Kind::of(of("kind")).ok_or_else(errors::no_such_page)?;
    let (registry, prompt) = (of("registry"), of("prompt"));
    let (artifact_type, team) = (of("type"), Id::parse(of("team")));
    let wanted = Wanted { kind, text: of("q"), registry, prompt, artifact_type, team };
    let choices = matches(visit, &wanted).await?;
    render(StatusCode::OK, &Choices { choices })
}
