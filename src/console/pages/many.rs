//! Acting on many: what was ticked in a list is shown once more, and then done one by one, as if each had
//! been sent alone. What is refused stays on the page with its reason.

use std::collections::BTreeMap;

use askama::Template;
use serde_json::{Value, json};

use super::board;
use crate::api::Method;
use crate::base::{Error, Kind, Result};
use crate::console::api::{Api, segment};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::team::TeamPlace;
use crate::console::visit::Visit;
use crate::console::{field, fields::Fields};
use crate::http::log_failure;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    page("/o/{org}/teams/{slug}/tasks/many"),
    page("/o/{org}/knowledge/{base}/documents/many"),
    page("/o/{org}/operations/log/many"),
];

const fn page(path: &'static str) -> Page {
    Page::of_org(path)
        .get(|visit| Box::pin(show(visit, Vec::new(), 0)))
        .post(|visit| Box::pin(send(visit)))
}

/// So many things are acted on at once: as many as a list shows and more.
const MOST: usize = 100;
/// Their names are looked for in so many pages of their list, of this size.
const PAGES_OF_NAMES: usize = 5;
const NAMES: usize = 100;
/// So many that are not among those are read one by one, each with its whole text.
const ALONE: usize = 10;

/// What is done with each.
struct Batch {
    title: &'static str,
    consequences: &'static str,
    button: &'static str,
    method: Method,
    /// The path of each is this, its id, and that.
    path: (String, &'static str),
    /// The fields of the list by which people know one.
    named: &'static [&'static str],
    /// The parameter that says where a page of the list begins.
    from: &'static str,
    /// So many whose names are not found there are read one by one.
    alone: usize,
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
    /// Whether these were refused, and whether others were done.
    is_rest: bool,
    has_done: bool,
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
            named: &["title"],
            from: "cursor",
            alone: ALONE,
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
            named: &["name"],
            from: "cursor",
            alone: ALONE,
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
            named: &["eventType", "createdAt"],
            from: "offset",
            alone: 0,
            has_status: false,
            list: "Notification log",
            back: visit.in_org("/operations/log"),
            flash: Flash::AllRedelivered,
        }
    }

    fn path(&self, id: &str) -> String {
        format!("{}{}{}", self.path.0, segment(id), self.path.1)
    }

    fn is_destructive(&self) -> bool {
        self.method == Method::Delete
    }

    /// What these are called, by their ids, as far as the newest of the list and some alone say it.
    async fn names(&self, visit: &Visit, ids: &[String]) -> Result<BTreeMap<String, String>> {
        let list = self.path.0.trim_end_matches('/');
        let (size, mut from, mut names) = (NAMES.to_string(), None::<String>, BTreeMap::new());
        for page in 1..=PAGES_OF_NAMES {
            if ids.iter().all(|id| names.contains_key(id)) {
                break;
            }
            let mut query = vec![("limit", size.as_str())];
            query.extend(from.as_deref().map(|from| (self.from, from)));
            let found: Value = visit.api.get(list, &query).await?;
            let items = found["items"].as_array().map_or(&[][..], Vec::as_slice);
            names.extend(items.iter().map(|item| (field::text_of(&item["id"]), self.name(item))));
            from = match self.from {
                "offset" => (items.len() == NAMES).then(|| (page * NAMES).to_string()),
                _ => found["nextCursor"].as_str().map(String::from),
            };
            if from.is_none() {
                break;
            }
        }
        let unknown = ids.iter().filter(|id| !names.contains_key(*id)).take(self.alone);
        for id in unknown.collect::<Vec<_>>() {
            match visit.api.get::<Value>(&self.path(id), &[]).await {
                Err(error) if error.kind() == Kind::NotFound => {}
                found => drop(names.insert(id.clone(), self.name(&found?))),
            }
        }
        Ok(names)
    }

    fn name(&self, item: &Value) -> String {
        let parts = self.named.iter().map(|name| field::text_of(&item[*name]));
        parts.collect::<Vec<_>>().join(", ")
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
        fields.all("each").filter(|id| !id.is_empty()).map(String::from).collect()
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

/// Shows what was ticked; once something of it was refused, that with the reasons, and so many were done.
async fn show(visit: &Visit, refused: Vec<(String, Error)>, done: usize) -> Result<Reply> {
    let batch = Batch::of(visit).await?;
    visit.require(batch.method, &batch.path("id"))?;
    let is_rest = !refused.is_empty();
    let first = refused.first().map(|(_, error)| crate::http::status(error.kind()));
    let (ids, refusals): (Vec<String>, Vec<String>) = if is_rest {
        refused.into_iter().map(|(id, error)| (id, sentence(error.message()))).unzip()
    } else {
        ticked(visit).into_iter().map(|id| (id, String::new())).unzip()
    };
    let names = match batch.names(visit, &ids).await {
        // What was done is said in any case.
        Err(_) if done > 0 => BTreeMap::new(),
        names => names?,
    };
    let thing = |(id, refusal): (String, String)| {
        let name = names.get(&id).unwrap_or(&id).clone();
        Thing { id, name, refusal }
    };
    let things = ids.into_iter().zip(refusals).map(thing).collect();
    let mut frame = visit.frame(batch.title).crumb(batch.list, batch.back.clone());
    frame.status = first.unwrap_or(frame.status);
    let (statuses, has_done) = (board::statuses(), done > 0);
    let page = ManyPage { frame, batch, things, statuses, is_rest, has_done };
    render(page.frame.status, &page)
}

async fn send(visit: &Visit) -> Result<Reply> {
    let batch = Batch::of(visit).await?;
    let (mut refused, mut done) = (Vec::new(), 0);
    for id in ticked(visit) {
        match batch.act(visit, &visit.api.part(&id), &id).await {
            Ok(()) => done += 1,
            // It is gone: the form was sent twice.
            Err(error) if batch.is_destructive() && error.kind() == Kind::NotFound => done += 1,
            // Even what has a page of its own is beside what was done, which nobody would know otherwise.
            Err(error) if done > 0 && error.kind() != Kind::Unauthenticated => {
                let origin = &visit.api.calls.origin;
                log_failure(&error, &origin.request_id, origin.trace);
                refused.push((id, error));
            }
            Err(error) => refused.extend(visit.failed(error)?.map(|error| (id, error))),
        }
    }
    if done > 0 && refused.is_empty() {
        return Ok(visit.done(&batch.back, batch.flash));
    }
    show(visit, refused, done).await
}
