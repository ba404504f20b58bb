//! Acting on many: what was ticked in a list is shown once more, and then done one by one, as if each had
//! been sent alone. What is refused stays on the page with its reason.

use askama::Template;
use serde_json::{Value, json};

use super::board;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::{Api, segment};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::team::TeamPlace;
use crate::console::visit::Visit;
use crate::console::{field, fields::Fields};

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/tasks/many")
        .get(|visit| Box::pin(show(visit, Vec::new())))
        .post(|visit| Box::pin(send(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/many")
        .get(|visit| Box::pin(show(visit, Vec::new())))
        .post(|visit| Box::pin(send(visit))),
    Page::of_org("/o/{org}/operations/log/many")
        .get(|visit| Box::pin(show(visit, Vec::new())))
        .post(|visit| Box::pin(send(visit))),
];

/// So many things are acted on at once: as many as a list shows and more.
const MOST: usize = 100;

/// What is done with each.
struct Batch {
    title: &'static str,
    consequences: &'static str,
    button: &'static str,
    method: Method,
    /// The path of each is this, its id, and that.
    path: (String, &'static str),
    /// The field by which the API names one; empty of what it shows in its list alone.
    named: &'static str,
    /// Whether it is told where to.
    has_status: bool,
    /// The list that they are of.
    list: &'static str,
    back: String,
    flash: Flash,
}

#[derive(Template)]
#[template(path = "many.html")]
struct ManyPage {
    frame: Frame,
    batch: Batch,
    things: Vec<Thing>,
    statuses: Vec<(&'static str, &'static str)>,
    /// Whether some were done, and these were refused.
    is_rest: bool,
}

/// One of them.
struct Thing {
    id: String,
    name: String,
    /// Why it was refused; empty if it was not.
    refusal: String,
}

impl Batch {
    async fn of(visit: &Visit) -> Result<Self> {
        match visit.path.split('/').nth(3) {
            Some("teams") => Batch::tasks(visit).await,
            Some("knowledge") => Ok(Batch::documents(visit)),
            _ => Ok(Batch::deliveries(visit)),
        }
    }

    async fn tasks(visit: &Visit) -> Result<Self> {
        let place = TeamPlace::of(visit).await?;
        Ok(Batch {
            title: "Move tasks",
            consequences: "Each is moved as if by its own page: agents are woken for what they wait for.",
            button: "Move them",
            method: Method::Patch,
            path: (place.api("/tasks/"), ""),
            named: "title",
            has_status: true,
            list: "Tasks",
            back: place.at("/tasks"),
            flash: Flash::TasksMoved,
        })
    }

    fn documents(visit: &Visit) -> Self {
        let base = segment(visit.param(1));
        Batch {
            title: "Delete documents",
            consequences: "They are found no more, and cannot be brought back.",
            button: "Delete them",
            method: Method::Delete,
            path: (format!("/knowledge-bases/{base}/documents/"), ""),
            named: "name",
            has_status: false,
            list: "Documents",
            back: visit.in_org(&format!("/knowledge/{base}")),
            flash: Flash::DocumentsDeleted,
        }
    }

    fn deliveries(visit: &Visit) -> Self {
        Batch {
            title: "Deliver again",
            consequences: "Each is delivered to its channel once more, as it was.",
            button: "Deliver them again",
            method: Method::Post,
            path: ("/notifications/logs/".into(), "/redeliver"),
            named: "",
            has_status: false,
            list: "Notification log",
            back: visit.in_org("/operations/log"),
            flash: Flash::Redelivered,
        }
    }

    fn path(&self, id: &str) -> String {
        format!("{}{}{}", self.path.0, segment(id), self.path.1)
    }

    fn is_destructive(&self) -> bool {
        self.method == Method::Delete
    }

    /// What one is called; its id if the API does not show it.
    async fn name(&self, visit: &Visit, id: &str) -> Result<String> {
        if self.named.is_empty() {
            return Ok(id.into());
        }
        match visit.api.get::<Value>(&self.path(id), &[]).await {
            Ok(found) => Ok(field::text_of(&found[self.named])),
            Err(error) => visit.failed(error).map(|_| id.into()),
        }
    }

    async fn act(&self, visit: &Visit, api: &Api, id: &str) -> Result<()> {
        let path = self.path(id);
        match self.method {
            Method::Delete => api.delete(&path, &[]).await,
            Method::Patch => {
                let status = visit.form.get("status");
                api.patch::<Value>(&path, json!({"status": status})).await.map(drop)
            }
            _ => api.post::<Value>(&path, json!({})).await.map(drop),
        }
    }
}

/// What was ticked, each once.
fn ticked(visit: &Visit) -> Vec<String> {
    let of = |fields: &Fields| -> Vec<String> {
        let each = fields.pairs().filter(|(name, id)| *name == "each" && !id.is_empty());
        each.map(|(_, id)| id.into()).collect()
    };
    let all = of(if visit.form.is_empty() { &visit.query } else { &visit.form });
    let mut once: Vec<String> = Vec::new();
    for id in all {
        if once.len() < MOST && !once.contains(&id) {
            once.push(id);
        }
    }
    once
}

/// Shows what was ticked; once something of it was refused, that with the reasons.
async fn show(visit: &Visit, refused: Vec<(String, Error)>) -> Result<Reply> {
    let batch = Batch::of(visit).await?;
    visit.require(batch.method, &batch.path("id"))?;
    let is_rest = !refused.is_empty();
    let first = refused.first().map(|(_, error)| crate::http::status(error.kind()));
    let ids = if is_rest {
        refused.into_iter().map(|(id, error)| (id, sentence(error.message()))).collect()
    } else {
        ticked(visit).into_iter().map(|id| (id, String::new())).collect::<Vec<_>>()
    };
    let mut things = Vec::new();
    for (id, refusal) in ids {
        let name = batch.name(visit, &id).await?;
        things.push(Thing { id, name, refusal });
    }
    let mut frame = visit.frame(batch.title).crumb(batch.list, batch.back.clone());
    frame.status = first.unwrap_or(frame.status);
    let statuses = board::STATUSES.iter().map(|name| (*name, board::status(name).2)).collect();
    let page = ManyPage { frame, batch, things, statuses, is_rest };
    render(page.frame.status, &page)
}

async fn send(visit: &Visit) -> Result<Reply> {
    let batch = Batch::of(visit).await?;
    let mut refused = Vec::new();
    for id in ticked(visit) {
        if let Err(error) = batch.act(visit, &visit.api.part(&id), &id).await {
            refused.extend(visit.failed(error)?.map(|error| (id, error)));
        }
    }
    if refused.is_empty() {
        return Ok(visit.done(&batch.back, batch.flash));
    }
    show(visit, refused).await
}
