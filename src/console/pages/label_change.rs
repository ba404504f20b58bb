//! `/o/{org}/label-changes`: changes of protected labels that take approvals, and the page of one, with
//! what changes of what clients read.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::approvals::{Decision, Question};
use super::environments::Approvals;
use crate::auth::Role;
use crate::base::{Error, Result, Time};
use crate::console::api::{Api, segment};
use crate::console::diff::{self, Row};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{People, Place};
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/label-changes").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/label-changes/{change}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
];

/// A filter: the value in the query, its label, and the parameter of the route that it is.
type Filter = (&'static str, &'static str, Option<(&'static str, &'static str)>);

const FILTERS: [Filter; 3] = [
    ("", "All", None),
    ("mine", "Waiting for you", Some(("approver", "me"))),
    ("pending", "Waiting", Some(("state", "pending"))),
];

/// Rows of all diffs on a page.
const ROWS: usize = 1000;

/// A change of a protected label.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelChange {
    pub id: String,
    registry_ref: String,
    artifact_type: String,
    name: String,
    pub label: String,
    from: Nullable<String>,
    to: Nullable<String>,
    content_hash: Nullable<String>,
    pub state: String,
    approvals: Approvals,
    pub asked_by: String,
    via: Nullable<String>,
    pub created_at: Time,
    finished_at: Nullable<Time>,
    expires_at: Time,
    obstacle: Nullable<String>,
}

impl LabelChange {
    /// What is to happen.
    pub fn title(&self) -> String {
        match self.to.as_deref() {
            Some(to) => format!("Move {} of {} to {to}", self.label, self.name),
            None => format!("Remove {} of {}", self.label, self.name),
        }
    }

    /// From where the label is moved.
    pub fn detail(&self) -> String {
        match self.from.as_deref() {
            Some(from) => format!("from {from}"),
            None => "it is new".into(),
        }
    }

    /// The artifact.
    fn place(&self, visit: &Visit) -> Place {
        let kind = if self.artifact_type == "promptlet" { "promptlet" } else { "prompt" };
        let registry = self.registry_ref.rsplit('/').next().unwrap_or_default();
        Place::new(visit, registry, kind, &self.name)
    }
}

/// The path of the page of a change.
pub fn path(visit: &Visit, id: &str) -> String {
    visit.in_org(&format!("/label-changes/{}", segment(id)))
}

/// Class, icon and word of a state.
pub fn state(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "pending" => ("warning", "clock", "Waits for approval"),
        "approved" => ("good", "check", "Approved"),
        "denied" => ("bad", "octagon", "Denied"),
        "cancelled" => ("off", "off", "Cancelled"),
        "superseded" => ("off", "off", "Superseded"),
        "expired" => ("bad", "clock", "Expired"),
        _ => ("off", "off", "Unknown"),
    }
}

/// Reads the changes that wait, of an artifact.
pub async fn waiting(api: &Api, place: &Place) -> Result<Vec<LabelChange>> {
    let query = place.query(&[("state", "pending"), ("limit", "100")]);
    let found: List<LabelChange> = api.get("/registries/artifacts/label-changes", &query).await?;
    Ok(found.items)
}

// ── The list ─────────────────────────────────────────────────────────────────

#[derive(Template)]
#[template(path = "label_changes.html")]
struct LabelChanges {
    frame: Frame,
    base: String,
    changes: List<LabelChange>,
    people: People,
    only: String,
    filters: Vec<(&'static str, &'static str)>,
}

async fn list(visit: &Visit) -> Result<Reply> {
    let only = visit.query.get("only");
    let filter = FILTERS.iter().find(|(value, ..)| *value == only);
    let (only, _, parameter) = filter.copied().unwrap_or(FILTERS[0]);
    let mut query: Vec<_> = parameter.into_iter().collect();
    query.extend(visit.walk());
    let page = LabelChanges {
        frame: visit.frame("Label changes").crumb("Prompts", visit.in_org("/prompts")).live(),
        base: visit.in_org("/label-changes"),
        changes: visit.api.get("/registries/artifacts/label-changes", &query).await?,
        people: People::read(&visit.api).await?,
        only: only.into(),
        filters: FILTERS.iter().map(|(value, label, _)| (*value, *label)).collect(),
    };
    render(page.frame.status, &page)
}

// ── A change ─────────────────────────────────────────────────────────────────

#[derive(Template)]
#[template(path = "label_change.html")]
struct LabelChangePage {
    frame: Frame,
    change: LabelChange,
    place: Place,
    texts: Vec<Shown>,
    /// The page of the texts after these.
    next: Option<String>,
    decision: Decision,
    people: People,
    may_cancel: bool,
}

/// What changes for a model, as the API says it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    model: String,
    diff: String,
    metadata_diff: String,
    added_variables: Vec<String>,
    removed_variables: Vec<String>,
    invisible_characters: usize,
}

/// The same as rows.
struct Shown {
    text: Text,
    rows: Vec<Row>,
    metadata: Vec<Row>,
    /// Rows that are left out.
    rest: usize,
}

impl Shown {
    fn new(text: Text, left: &mut usize) -> Self {
        let (mut rows, mut metadata) = (diff::rows(&text.diff), diff::rows(&text.metadata_diff));
        let mut rest = 0;
        for rows in [&mut rows, &mut metadata] {
            rest += rows.len().saturating_sub(*left);
            rows.truncate(*left);
            *left -= rows.len();
        }
        Shown { text, rows, metadata, rest }
    }
}

fn api_path(visit: &Visit) -> String {
    format!("/registries/artifacts/label-changes/{}", segment(visit.param(1)))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let api = &visit.api;
    let change: LabelChange = api.get(&api_path(visit), &[]).await?;
    let is_open = change.state == "pending";
    let question = Question {
        is_open,
        policy: Some(&change.approvals),
        asked_by: &change.asked_by,
        own: "You do not decide about it: who asks for a change of this label does not approve it.",
        others: "You are not asked: the protection of the label says who approves.",
    };
    let decision = Decision::read(visit, &api_path(visit), &question).await?;
    let diff = format!("{}/diff", api_path(visit));
    let texts: List<Text> = api.get(&diff, visit.cursor().as_slice()).await?;
    let mut left = ROWS;
    let me = &visit.signed_in().user.id;
    let may_write = visit.member().role >= Role::Member;
    let is_admin = visit.member().role >= Role::Admin;
    let place = change.place(visit);
    let frame = place.crumbs(visit, visit.frame(&change.title()));
    let page = LabelChangePage {
        frame: frame.failed(error.as_ref()).live(),
        may_cancel: is_open && (is_admin || may_write && change.asked_by == *me),
        next: texts.next_cursor.0,
        texts: texts.items.into_iter().map(|text| Shown::new(text, &mut left)).collect(),
        decision,
        people: People::read(api).await?,
        place,
        change,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let (step, flash) = match visit.form.get("action") {
        "approve" => ("approve", Flash::Approved),
        "deny" => ("deny", Flash::LabelChangeDenied),
        "cancel" => ("cancel", Flash::LabelChangeCancelled),
        _ => return show(visit, None).await,
    };
    let mut body = json!({});
    if step != "cancel" {
        if let Some(hash) = visit.form.some("contentHash") {
            body["contentHash"] = json!(hash);
        }
        if let Some(comment) = visit.form.some("comment") {
            body["comment"] = json!(comment);
        }
    }
    let api_path = format!("{}/{step}", api_path(visit));
    match visit.api.post::<serde_json::Value>(&api_path, body).await {
        Ok(_) => Ok(visit.done(&path(visit, visit.param(1)), flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}
