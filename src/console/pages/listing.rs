//! `/o/{org}/directory/listings/{listing}`: a listing; creating, changing, publishing and deleting
//! those of the organization.

use askama::Template;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::directory::Listing;
use super::domains::outcome;
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::pick;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/directory/new-listing").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/directory/listings/{listing}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/directory/listings/{listing}/edit").form(|visit| Box::pin(edit(visit))),
    Page::of_org("/o/{org}/directory/listings/{listing}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

/// Who sees a listing.
const VISIBILITIES: [(&str, &str); 2] =
    [("organization", "Your organization"), ("public", "Anyone, once they look for it")];
/// Whose requests its agent takes.
const POLICIES: [(&str, &str); 3] = [
    ("open", "Anyone who is not blocked"),
    ("allowlist", "Domains that a rule of the team allows"),
    ("closed", "Nobody"),
];
/// Whether its agent card is served.
const CARDS: [(&str, &str); 3] = [
    ("draft", "Not served yet"),
    ("published", "Served to whoever sees the listing"),
    ("stale", "Not served any more: it is to be revised"),
];

/// Verifications that are shown.
const SHOWN_VERIFICATIONS: usize = 5;

#[derive(Template)]
#[template(path = "listing.html")]
struct ListingPage {
    frame: Frame,
    listing: Listing,
    /// What its owners alone see.
    own: Option<Own>,
    may_write: bool,
    agent: String,
}

/// What the owners of a listing see of it beside the rest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Own {
    contact_policy: String,
    card_state: String,
    verification_history: Vec<Verification>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verification {
    checked_at: Time,
    outcome: String,
}

impl Own {
    fn label(options: &'static [(&'static str, &'static str)], value: &str) -> &'static str {
        options.iter().find(|(option, _)| *option == value).map_or("", |(_, label)| label)
    }

    fn contact(&self) -> &'static str {
        Own::label(&POLICIES, &self.contact_policy)
    }

    fn card(&self) -> &'static str {
        Own::label(&CARDS, &self.card_state)
    }

    fn verifications(&self) -> impl Iterator<Item = &Verification> {
        self.verification_history.iter().take(SHOWN_VERIFICATIONS)
    }
}

/// The field for the agent that is listed.
const AGENT: Chooser = Chooser::one("stableKey", Kind::Agent);

fn api_path(visit: &Visit) -> String {
    format!("/agent-index/listings/{}", segment(visit.param(1)))
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Listings", visit.in_org("/directory/listings"))
}

/// A listing, with what its owners alone see if the visitor is one.
fn parts(value: &Value) -> Result<(Listing, Option<Own>)> {
    fn of<T: DeserializeOwned>(value: &Value) -> Result<T> {
        T::deserialize(value).map_err(|error| Error::internal(format!("a listing: {error}")))
    }
    let own = if value.get("contactPolicy").is_some() { Some(of(value)?) } else { None };
    Ok((of(value)?, own))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let (listing, own) = parts(&visit.api.get(&api_path(visit), &[]).await?)?;
    let page = ListingPage {
        frame: crumbs(visit, visit.frame(&listing.display_name)).failed(error.as_ref()),
        may_write: own.is_some() && visit.may(Method::Patch, "/agent-index/listings/id"),
        agent: visit.in_org(&format!("/agents/{}", segment(&listing.stable_key))),
        own,
        listing,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let (body, flash) = match visit.form.get("action") {
        "public" => (json!({"visibility": "public"}), Flash::ListingPublished),
        "private" => (json!({"visibility": "organization"}), Flash::ListingHidden),
        _ => return show(visit, None).await,
    };
    match visit.api.patch::<Value>(&api_path(visit), body).await {
        Ok(_) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

fn fields() -> Vec<Field> {
    vec![
        Field::text("displayName", "Name"),
        Field::text("handle", "Handle")
            .hint("What others write to, such as scribe@agents.example.com."),
        Field::text("pubkey", "Public key")
            .hint("With which the agent signs: 64 hexadecimal digits (BIP-340)."),
        Field::area("description", "Description", 4).optional(),
        Field::text("skills", "Skills").words().optional().hint("Words with commas between them."),
        Field::select("visibility", "Seen by", VISIBILITIES),
        Field::select("contactPolicy", "Takes requests of", POLICIES),
        Field::select("cardState", "Agent card", CARDS),
    ]
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let mut all = vec![pick(visit, "Agent", AGENT, None).await?];
    all.extend(fields());
    Ok(Form::create("/agent-index/listings", all, "List it")
        .done(visit.in_org("/directory/listings/{id}"), Flash::ListingCreated)
        .page(crumbs(visit, visit.frame("List an agent"))))
}

async fn edit(visit: &Visit) -> Result<FormPage> {
    let (listing, own) = parts(&visit.api.get(&api_path(visit), &[]).await?)?;
    own.ok_or_else(|| Error::no_such("listing"))?;
    let name = listing.display_name;
    let frame = crumbs(visit, visit.frame(&format!("Change {name}"))).crumb(name, visit.above());
    let form = Form::change(visit, &api_path(visit), fields()).await?;
    let page = form.done(visit.above(), Flash::ListingSaved).page(frame);
    Ok(page.note("A new handle or key is not verified until its domain is looked at again."))
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let (name, handle) = (form.known("displayName"), form.known("handle"));
    if !name.is_empty() && form.known("contactPolicy").is_empty() {
        // It is somebody else's.
        return Err(Error::no_such("listing"));
    }
    let form = form.done(visit.in_org("/directory/listings"), Flash::ListingDeleted);
    let page = form.page(crumbs(visit, visit.frame(&format!("Delete {name}?"))));
    let lead = format!("Nobody finds the agent as {handle} any more. The agent itself stays.");
    Ok(page.lead(lead))
}
