//! `/o/{org}/teams/{slug}/tasks`: all tasks of a team, newest first, and creating one.

use std::collections::BTreeSet;

use askama::Template;

use super::board::{self, Task};
use crate::base::Result;
use crate::console::choice::{Chooser, Kind};
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::people::People;
use crate::console::reply::Reply;
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/tasks").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/teams/{slug}/tasks/new").form(|visit| Box::pin(new(visit))),
];

/// The filter of tasks that nobody has.
const FREE: &str = "free";
/// The filter of the visitor's tasks.
const MINE: &str = "mine";

/// The field for the person who has a task.
const PERSON: Chooser = Chooser::one("assigneeUserId", Kind::Person);

/// The priorities: the API does not interpret them, so neither does the console.
const PRIORITIES: [(&str, &str); 5] =
    [("0", "0"), ("1", "1"), ("2", "2, the usual one"), ("3", "3"), ("4", "4")];

#[derive(Template)]
#[template(path = "tasks.html")]
struct Tasks {
    frame: Frame,
    place: TeamPlace,
    tasks: Listed<Task>,
    crew: Crew,
    people: People,
    only: String,
    filters: Vec<(&'static str, &'static str)>,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let wanted = visit.query.get("only");
    let statuses = board::statuses();
    let mut names = statuses.iter().map(|(name, _)| *name).chain([FREE, MINE]);
    let only = names.find(|one| *one == wanted).unwrap_or("");
    let query: Vec<(&str, &str)> = match only {
        "" => Vec::new(),
        FREE => vec![("unassigned", "true")],
        MINE => vec![("assigneeUserId", visit.signed_in().user.id.as_str())],
        status => vec![("status", status)],
    };
    let here = [("kind", "task"), ("within", place.team.slug.as_str())];
    let tasks: Listed<Task> = Listed::read(visit, &here, &place.api("/tasks"), &query).await?;
    let page = Tasks {
        people: People::of(visit, board::people_of(tasks.items.iter())).await?,
        tasks,
        frame: place.crumbs(visit, visit.frame("Tasks")).live(),
        crew: Crew::read(&visit.api, &place).await?,
        only: only.into(),
        filters: [("", "All"), (MINE, "Mine")]
            .into_iter()
            .chain(statuses)
            .chain([(FREE, "Free")])
            .collect(),
        place,
    };
    render(page.frame.status, &page)
}

/// The texts of a task.
pub fn texts() -> Vec<Field> {
    vec![Field::text("title", "Title"), Field::area("description", "What to do", 8).optional()]
}

/// Who has a task.
pub fn agent(crew: &Crew, nobody: &str) -> Field {
    crew.field("assigneeAgentId", Some(nobody))
}

/// Which person has a task.
pub fn person(people: &People) -> Field {
    let hint = "A member, by name or address. It is among what waits for them.";
    Field::choose("Person", PERSON).optional().hint(hint).named(people.named())
}

/// The people with these ids, and who was typed for a task.
pub async fn chosen(visit: &Visit, ids: BTreeSet<String>) -> Result<People> {
    People::of(visit, ids).await?.typed(visit, PERSON).await
}

/// How urgent a task is.
pub fn priority() -> Field {
    Field::select("priority", "Priority", PRIORITIES).number().preset("2")
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let place = TeamPlace::of(visit).await?;
    let crew = Crew::read(&visit.api, &place).await?;
    let agent = agent(&crew, "Nobody: any agent may take it").hint("It is woken for the task.");
    let person = person(&chosen(visit, BTreeSet::new()).await?);
    let fields = texts().into_iter().chain([agent, person, priority()]).collect();
    Ok(Form::create(&place.api("/tasks"), fields, "Create task")
        .done(place.at("/tasks/{number}"), Flash::TaskCreated)
        .page(place.crumbs(visit, visit.frame("New task"))))
}
