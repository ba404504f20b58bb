//! `/o/{org}/governance/flags` and `…/check`: what was published although a policy warns of it, and
//! asking policies about a text that is not published.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::policies::TABS;
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{self, Place};
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/governance/flags")
        .get(|visit| Box::pin(show(visit)))
        .post(|visit| Box::pin(clear(visit))),
    Page::of_org("/o/{org}/governance/check")
        .get(|visit| Box::pin(form(visit, None, None)))
        .post(|visit| Box::pin(check(visit))),
];

#[derive(Template)]
#[template(path = "flags.html")]
struct Flags {
    frame: Frame,
    flags: List<Flag>,
    /// The pages of what is flagged, in the order of the flags.
    paths: Vec<String>,
    is_cleared: bool,
    may_clear: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flag {
    id: String,
    registry_ref: String,
    artifact_type: String,
    name: String,
    version: String,
    message: String,
    created_at: Time,
}

impl Flag {
    fn path(&self, visit: &Visit) -> String {
        let kind = if self.artifact_type == "promptlet" { "promptlet" } else { "prompt" };
        let registry = self.registry_ref.rsplit('/').next().unwrap_or_default();
        Place::new(visit, registry, kind, &self.name).version(&self.version)
    }

    fn sentence(&self) -> String {
        sentence(&self.message)
    }
}

#[derive(Template)]
#[template(path = "check.html")]
struct Check {
    frame: Frame,
    registry: Field,
    verdict: Option<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    passed: bool,
    issues: Vec<Violation>,
}

#[derive(Deserialize)]
struct Violation {
    severity: String,
    message: String,
}

impl Violation {
    fn sentence(&self) -> String {
        sentence(&self.message)
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let is_cleared = visit.query.get("cleared") == "true";
    let mut query = vec![("cleared", if is_cleared { "true" } else { "false" })];
    query.extend(visit.walk());
    let flags: List<Flag> = visit.api.get("/governance/flags", &query).await?;
    let page = Flags {
        frame: visit.frame("Flags").tabs(&TABS).live(),
        paths: flags.items.iter().map(|flag| flag.path(visit)).collect(),
        flags,
        is_cleared,
        may_clear: !is_cleared && visit.may(Method::Post, "/governance/flags/id/clear"),
    };
    render(page.frame.status, &page)
}

async fn clear(visit: &Visit) -> Result<Reply> {
    let path = format!("/governance/flags/{}/clear", segment(visit.form.get("flag")));
    visit.api.post::<Value>(&path, json!({})).await?;
    Ok(visit.done(&visit.path, Flash::FlagCleared))
}

async fn form(visit: &Visit, error: Option<Error>, verdict: Option<Verdict>) -> Result<Reply> {
    let registry = place::registry(visit, "Registry").await?;
    let frame = visit.frame("Dry run").tabs(&TABS).failed(error.as_ref());
    let page = Check { frame: frame.picking(visit, &[&registry]).await?, registry, verdict };
    render(page.frame.status, &page)
}

async fn check(visit: &Visit) -> Result<Reply> {
    let body =
        json!({"registryRef": visit.form.get("registryRef"), "text": visit.form.get("text")});
    match visit.api.post("/governance/check", body).await {
        Ok(verdict) => form(visit, None, Some(verdict)).await,
        Err(error) => form(visit, visit.failed(error)?, None).await,
    }
}
