//! `/o/{org}/directory/listings/{listing}`: a listing; creating, changing, publishing and deleting
//! those of the organization.

use askama::Template;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::confirm::Confirm;
use super::directory::Listing;
use super::domains::outcome;
use super::team_agents::words;
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::conflict::Edited;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/directory/new-listing")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/directory/listings/{listing}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/directory/listings/{listing}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/directory/listings/{listing}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
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

#[derive(Template)]
#[template(path = "edit_listing.html")]
struct EditListing {
    frame: Frame,
    /// The agents that can be listed; empty if the listing is there already.
    agents: Vec<(String, String)>,
    handle: String,
    pubkey: String,
    display_name: String,
    description: String,
    skills: String,
    visibility: &'static [(&'static str, &'static str)],
    policies: &'static [(&'static str, &'static str)],
    cards: &'static [(&'static str, &'static str)],
    /// Visibility, contact policy and state of the card.
    chosen: [String; 3],
    label: &'static str,
    back: String,
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    stable_key: String,
    name: String,
}

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

/// A listing of the organization.
async fn own(visit: &Visit) -> Result<(Value, Listing, Own)> {
    let value: Value = visit.api.get(&api_path(visit), &[]).await?;
    let (listing, own) = parts(&value)?;
    let own = own.ok_or_else(|| Error::no_such("listing"))?;
    Ok((value, listing, own))
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

/// What the form edits.
fn edited(visit: &Visit, value: &Value) -> Vec<Edited> {
    let Ok((listing, Some(own))) = parts(value) else { return Vec::new() };
    let text = |name, label, theirs: &str| Edited::text(visit, name, label, theirs);
    let choice = |name, label, theirs: &str, options: &[(&str, &str)]| {
        Edited::choice(visit, name, label, theirs, options)
    };
    vec![
        text("displayName", "Name", &listing.display_name),
        text("handle", "Handle", &listing.handle),
        text("pubkey", "Public key", &listing.pubkey),
        text("description", "Description", listing.description.as_deref().unwrap_or_default()),
        text("skills", "Skills", &listing.skills.join(", ")),
        choice("visibility", "Seen by", &listing.visibility, &VISIBILITIES),
        choice("contactPolicy", "Takes requests of", &own.contact_policy, &POLICIES),
        choice("cardState", "Agent card", &own.card_state, &CARDS),
    ]
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/agent-index/listings")?;
    let found: List<Agent> = visit.api.get("/agents", &[("limit", "100")]).await?;
    let agents = found.items.into_iter().map(|agent| (agent.stable_key, agent.name));
    let page = EditListing {
        frame: crumbs(visit, visit.frame("List an agent")).failed(error.as_ref()),
        agents: agents.collect(),
        handle: String::new(),
        pubkey: String::new(),
        display_name: String::new(),
        description: String::new(),
        skills: String::new(),
        visibility: &VISIBILITIES,
        policies: &POLICIES,
        cards: &CARDS,
        chosen: ["organization", "open", "draft"].map(String::from),
        label: "List it",
        back: visit.in_org("/directory/listings"),
    };
    render(page.frame.status, &page)
}

/// The fields of the form, as the API takes them.
fn body(visit: &Visit) -> Value {
    let of = |name| visit.form.get(name).trim();
    json!({
        "handle": of("handle"), "pubkey": of("pubkey"), "displayName": of("displayName"),
        "skills": words(of("skills")), "visibility": of("visibility"),
        "contactPolicy": of("contactPolicy"), "cardState": of("cardState"),
    })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let mut body = body(visit);
    body["stableKey"] = json!(visit.form.get("stableKey"));
    if let Some(description) = visit.form.some("description") {
        body["description"] = json!(description);
    }
    match visit.api.post::<Listing>("/agent-index/listings", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/directory/listings/{}", segment(&made.id)));
            Ok(visit.done(&path, Flash::ListingCreated))
        }
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/agent-index/listings/id")?;
    let (value, listing, own) = own(visit).await?;
    let back = visit.path.trim_end_matches("/edit").to_string();
    let frame = crumbs(visit, visit.frame(&format!("Change {}", listing.display_name)));
    let frame = frame.crumb(listing.display_name.clone(), back.clone()).failed(error.as_ref());
    let page = EditListing {
        frame: frame.edits(visit, error.as_ref(), &edited(visit, &value)),
        agents: Vec::new(),
        handle: listing.handle,
        pubkey: listing.pubkey,
        display_name: listing.display_name,
        description: listing.description.0.unwrap_or_default(),
        skills: listing.skills.join(", "),
        visibility: &VISIBILITIES,
        policies: &POLICIES,
        cards: &CARDS,
        chosen: [listing.visibility, own.contact_policy, own.card_state],
        label: "Save",
        back,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let mut body = body(visit);
    body["description"] = json!(visit.form.some("description"));
    match visit.save(&api_path(visit), body, |value| edited(visit, value)).await {
        Ok(_) => Ok(visit.done(visit.path.trim_end_matches("/edit"), Flash::ListingSaved)),
        Err(error) => edit(visit, visit.failed(error)?).await,
    }
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Delete, "/agent-index/listings/id")?;
    let (_, listing, _) = own(visit).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Delete {}?", listing.display_name))),
        consequences: format!(
            "Nobody finds the agent as {} any more. The agent itself stays.",
            listing.handle
        ),
        label: format!("Delete {}", listing.display_name),
        back: visit.path.trim_end_matches("/delete").into(),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    match visit.api.delete(&api_path(visit), &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/directory/listings"), Flash::ListingDeleted)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
