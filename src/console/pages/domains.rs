//! `/o/{org}/directory/domains`: domains of the organization, what to put where to verify one, and
//! what came of it for each listing.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::directory::TABS;
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/directory/domains").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/directory/new-domain").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/directory/domains/{domain}")
        .get(|visit| Box::pin(show(visit, None, None)))
        .post(|visit| Box::pin(verify(visit))),
    Page::of_org("/o/{org}/directory/domains/{domain}/delete")
        .form(|visit| Box::pin(release(visit))),
];

#[derive(Template)]
#[template(path = "domains.html")]
struct Domains {
    frame: Frame,
    base: String,
    domains: Vec<Domain>,
    may_write: bool,
}

#[derive(Template)]
#[template(path = "domain.html")]
struct DomainPage {
    frame: Frame,
    domain: Domain,
    /// The document that its listings take.
    document: String,
    listings: usize,
    outcome: Option<Verification>,
    may_write: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Domain {
    id: String,
    domain: String,
    state: String,
    verified_at: Nullable<Time>,
}

#[derive(Deserialize)]
struct Verification {
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    handle: String,
    outcome: String,
    reason: Nullable<String>,
}

#[derive(Deserialize)]
struct Listing {
    handle: String,
    pubkey: String,
}

/// Class, icon and word of the state of a domain.
pub fn state(state: &str) -> (&'static str, &'static str, &'static str) {
    match state {
        "verified" => ("good", "check", "Verified"),
        "failed" => ("bad", "octagon", "Failed"),
        _ => ("off", "clock", "Not verified"),
    }
}

/// Class, icon and word of what a handle was found to be.
pub fn outcome(outcome: &str) -> (&'static str, &'static str, &'static str) {
    match outcome {
        "match" => ("good", "check", "Matches"),
        "mismatch" => ("bad", "octagon", "Another key"),
        "missing" => ("bad", "octagon", "Missing"),
        "unreachable" => ("bad", "octagon", "Not reached"),
        _ => ("bad", "octagon", "Not readable"),
    }
}

fn api_path(visit: &Visit) -> String {
    format!("/organizations/domains/{}", segment(visit.param(1)))
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Domains", visit.in_org("/directory/domains"))
}

async fn list(visit: &Visit) -> Result<Reply> {
    let page = Domains {
        frame: visit.frame("Domains").tabs(&TABS),
        base: visit.in_org("/directory"),
        domains: visit.api.items("/organizations/domains", &[]).await?,
        may_write: visit.may(Method::Post, "/organizations/domains"),
    };
    render(page.frame.status, &page)
}

async fn show(visit: &Visit, error: Option<Error>, outcome: Option<Verification>) -> Result<Reply> {
    let domain: Domain = visit.api.get(&api_path(visit), &[]).await?;
    let own: Vec<Listing> = visit.api.items("/agent-index/listings", &[("mine", "true")]).await?;
    let names: Map<String, Value> = own
        .into_iter()
        .filter_map(|listing| {
            let (name, at) = listing.handle.split_once('@')?;
            (at == domain.domain).then(|| (name.to_string(), json!(listing.pubkey)))
        })
        .collect();
    let page = DomainPage {
        frame: crumbs(visit, visit.frame(&domain.domain)).failed(error.as_ref()).live(),
        listings: names.len(),
        document: serde_json::to_string_pretty(&json!({"names": names})).unwrap_or_default(),
        outcome,
        may_write: visit.may(Method::Post, "/organizations/domains"),
        domain,
    };
    render(page.frame.status, &page)
}

async fn verify(visit: &Visit) -> Result<Reply> {
    let path = format!("{}/verifications", api_path(visit));
    match visit.api.post(&path, json!({})).await {
        Ok(outcome) => show(visit, None, Some(outcome)).await,
        Err(error) => show(visit, visit.failed(error)?, None).await,
    }
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let domain = Field::text("domain", "Domain")
        .hint("What follows the @ in handles, such as agents.example.com.");
    Ok(Form::create("/organizations/domains", vec![domain], "Add domain")
        .done(visit.in_org("/directory/domains/{id}"), Flash::DomainAdded)
        .page(crumbs(visit, visit.frame("Add a domain"))))
}

async fn release(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let domain = form.known("domain");
    let page = form
        .done(visit.in_org("/directory/domains"), Flash::DomainReleased)
        .page(crumbs(visit, visit.frame(&format!("Release {domain}?"))));
    Ok(page.lead(
        "Its listings are not verified any more, and another organization may claim the domain.",
    ))
}
