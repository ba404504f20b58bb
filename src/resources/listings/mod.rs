//! Listings: agents as they are found in the agent index (reference: agent-index, "Listings").
//!
//! A listing belongs to an organization, whose admins write it. Members of other organizations see it
//! while it is public, in a copy without what is the owners' alone ([`public`]). Who may not see one
//! gets the 404 of a listing that never existed. It is removed with its agent.

mod history;
mod info;
mod listing;
mod nostr;
mod public;
mod search;
mod terms;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::agents;
use crate::api::{Deleted, Input, Metric, Req, Resource, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName};
use crate::base::metrics::FamilyKind;
use crate::base::{
    BoundedList, Description, Domain, Error, Handle, Id, Issue, Kind, Name, Nullable, PublicKey,
    Result, Skill, Text, Time,
};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress};
use crate::store::{Order, Page, Record, TableInfo, Tx, View};

pub use history::{Outcome, VerificationRecord, VerificationRun, record};
use info::{OwnListingInfo, VisibleListing};
use listing::{BY_DOMAIN, EARLIER_TERMS};
pub use listing::{
    CardState, ContactPolicy, Listing, ListingProfile, ListingVisibility, TermForm,
    contact_policy_for_outsiders,
};
use nostr::NOSTR_JSON;
pub use public::{
    ListedHandle, PublicListing, PublicListingTerm, VerifiedHandle, card_of_domain,
    handles_of_domain, set_verified, unverify,
};
use search::{Hit, search};
use terms::ListingTerm;

/// Listings and the index of them.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[
        TableInfo::of::<Listing>(),
        TableInfo::of::<history::ListingHistory>(),
        TableInfo::of::<ListingTerm>(),
        TableInfo::of::<PublicListing>(),
        TableInfo::of::<PublicListingTerm>(),
        TableInfo::of::<VerifiedHandle>(),
    ],
    documents: &[NOSTR_JSON],
    sweeps: &[FOLD_TERMS],
    metrics: &[EARLIER],
    ..Resource::EMPTY
};

/// A step folds the terms of 16 listings, or finds that it cannot: at most some thousand rows each.
const FOLDED_AT_ONCE: usize = 16;

/// No more than this are counted.
const MAX_COUNTED: usize = 10_000;

/// An organization has at most 1,000 listings on one domain: a verification looks all of them up
/// within 25 s, and may hold a document of 64 KiB of each.
pub const MAX_LISTINGS_OF_DOMAIN: usize = 1000;

/// At most 50 skills (reference: conventions, "Texts and names").
const MAX_SKILLS: usize = 50;

/// A search has at most 16 words: each is a list to intersect.
const MAX_QUERY_WORDS: usize = 16;

// ── What callers send ────────────────────────────────────────────────────────

/// A listing to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"stableKey": "scribe", "handle": "scribe@acme.example",
        "pubkey": "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
        "displayName": "Scribe", "description": "Writes release notes.", "skills": ["writing"],
        "visibility": "public"}],
))]
pub struct NewListing {
    /// The stable key of the agent; it never changes.
    stable_key: String,
    /// The name of the agent across organizations, `name@domain`, on any domain; unique in the
    /// organization.
    handle: Handle,
    /// The public key with which the agent signs: 64 hexadecimal digits in lower case (BIP-340).
    pubkey: PublicKey,
    /// The name of the agent for people.
    display_name: Name,
    description: Option<Description>,
    /// What the agent can do; at most 50.
    skills: Option<BoundedList<Skill, 0, MAX_SKILLS>>,
    /// Who sees it; `organization` if absent.
    visibility: Option<ListingVisibility>,
    /// From whom the agent takes requests; `open` if absent.
    contact_policy: Option<ContactPolicy>,
    /// The state of the agent card; `draft` if absent.
    card_state: Option<CardState>,
}

impl Input for NewListing {}

/// Changes to a listing. Absent fields stay as they are; a new handle or public key is not verified.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"visibility": "public", "cardState": "published"}],
))]
pub struct ListingPatch {
    handle: Option<Handle>,
    pubkey: Option<PublicKey>,
    display_name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    skills: Option<BoundedList<Skill, 0, MAX_SKILLS>>,
    visibility: Option<ListingVisibility>,
    contact_policy: Option<ContactPolicy>,
    card_state: Option<CardState>,
}

impl Input for ListingPatch {}

/// A search in the agent index. A listing is found if everything that is given applies to it.
#[derive(Deserialize, JsonSchema)]
pub struct ListingSearch {
    /// Words that must all occur in its name, handle, skills or description; case does not matter, and
    /// accents may be left out. A word is a run of letters and digits, and matches whole words; in Chinese
    /// and others that have no blanks, two characters or more from anywhere in a text, or one. Not
    /// supported: beginnings of words (`*`) and phrases.
    q: Option<Text<0, 500>>,
    /// A skill that it must have; case does not matter.
    skill: Option<String>,
    /// The handle that it must have.
    handle: Option<String>,
    /// Only listings of the caller's organization.
    mine: Option<bool>,
}

impl Input for ListingSearch {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.words().len() > MAX_QUERY_WORDS {
            let message = format!("must have at most {MAX_QUERY_WORDS} different words");
            issues.push(Issue::new("q", message));
        }
    }
}

impl ListingSearch {
    fn words(&self) -> BTreeSet<String> {
        self.q.iter().flat_map(|q| terms::words(q)).collect()
    }

    /// Returns the terms of which a listing must have one each; `None` if no listing can.
    fn terms(&self) -> Option<Vec<Vec<String>>> {
        // The rarest ones first: they skip the most.
        let mut found = Vec::new();
        if let Some(handle) = &self.handle {
            found.push(vec![terms::handle_term(&Handle::parse(handle.as_str()).ok()?)]);
        }
        if let Some(skill) = &self.skill {
            let skill = Skill::parse(skill.as_str()).ok()?;
            let forms = [TermForm::NEWEST, TermForm::Earlier];
            let mut skills = forms.map(|form| terms::skill_term(&skill, form)).to_vec();
            skills.dedup();
            found.push(skills);
        }
        // The words of listings in the earlier form are the same, or more of them.
        let words = self.q.iter().flat_map(|q| terms::queried(q));
        found.extend(words);
        if found.is_empty() {
            found.push(vec![terms::EVERY.into()]);
        }
        Some(found)
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), ListingSearch>) -> Result<Page<VisibleListing>> {
    let Some(terms) = req.input.terms() else { return Ok(Page::single(Vec::new())) };
    let only_own = req.input.mine == Some(true);
    search(view, &terms, only_own, &req.page)?.try_map(|hit| match hit {
        Hit::Own(id) => info::own(view, view.fetch(&id)?).map(VisibleListing::Own),
        Hit::Public(id) => info::public(view, view.fetch(&id)?).map(VisibleListing::Public),
    })
}

fn get(view: &View, req: &Req<Id<Listing>>) -> Result<VisibleListing> {
    match view.get(&req.params)? {
        Some(listing) => info::own(view, listing).map(VisibleListing::Own),
        None => {
            let public: Option<PublicListing> = view.get(&req.params)?;
            let public = public.ok_or_else(|| Listing::missing(&req.params))?;
            info::public(view, public).map(VisibleListing::Public)
        }
    }
}

fn create(tx: &mut Tx, req: &Req<(), NewListing>) -> Result<OwnListingInfo> {
    let new = &req.input;
    let agent = agents::fetch(&tx.view(), req.caller(), &new.stable_key)?;
    require_room(tx, &new.handle.domain())?;
    let listing = Listing {
        id: tx.new_id(),
        agent: agent.id,
        profile: ListingProfile {
            stable_key: agent.stable_key,
            handle: new.handle.clone(),
            pubkey: new.pubkey.clone(),
            display_name: new.display_name.clone(),
            description: new.description.clone(),
            skills: new.skills.as_deref().unwrap_or_default().to_vec(),
            created_at: tx.now(),
            updated_at: tx.now(),
        },
        visibility: new.visibility.unwrap_or_default(),
        contact_policy: new.contact_policy.unwrap_or_default(),
        card_state: new.card_state.unwrap_or_default(),
        term_form: TermForm::NEWEST,
        updated_by: Some(req.caller().user()),
    };
    save(tx, None, &listing)?;
    info::own(&tx.view(), listing)
}

/// Refuses one more listing on a domain that has as many as a verification can look up.
fn require_room(tx: &Tx, domain: &Domain) -> Result<()> {
    if tx.count(&BY_DOMAIN, domain, MAX_LISTINGS_OF_DOMAIN)? < MAX_LISTINGS_OF_DOMAIN {
        return Ok(());
    }
    Err(Error::conflict(
        "domain_listings_full",
        "the organization has 1,000 listings on this domain, which is the most that can be \
         verified; delete one that is not needed",
    ))
}

fn update(tx: &mut Tx, req: &Req<Id<Listing>, ListingPatch>) -> Result<OwnListingInfo> {
    let patch = &req.input;
    let old: Listing = tx.fetch(&req.params)?;
    let mut new = old.clone();
    let profile = &mut new.profile;
    if let Some(handle) = &patch.handle {
        if handle.domain() != profile.handle.domain() {
            require_room(tx, &handle.domain())?;
        }
        profile.handle = handle.clone();
    }
    let (pubkey, name) = (patch.pubkey.clone(), patch.display_name.clone());
    profile.pubkey = pubkey.unwrap_or_else(|| profile.pubkey.clone());
    profile.display_name = name.unwrap_or_else(|| profile.display_name.clone());
    patch.description.clone().apply(&mut profile.description);
    if let Some(skills) = &patch.skills {
        profile.skills = skills.to_vec();
    }
    new.visibility = patch.visibility.unwrap_or(new.visibility);
    new.contact_policy = patch.contact_policy.unwrap_or(new.contact_policy);
    new.card_state = patch.card_state.unwrap_or(new.card_state);
    if new != old {
        (new.profile.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
        new.term_form = TermForm::NEWEST;
        save(tx, Some(&old), &new)?;
    }
    info::own(&tx.view(), new)
}

/// Stores a listing with its rows in the index and what is derived from it.
fn save(tx: &mut Tx, old: Option<&Listing>, new: &Listing) -> Result<()> {
    match old {
        None => tx.insert(new)?,
        Some(old) => tx.replace(old, new)?,
    }
    let before = old.map(|old| (&old.profile, old.term_form));
    terms::update::<ListingTerm>(tx, new.id, before, (&new.profile, new.term_form))?;
    public::update(tx, old, new)
}

/// Gives listings that an earlier version has indexed the terms by which others are found.
const FOLD_TERMS: Sweep = Sweep {
    name: "fold the terms of earlier listings",
    every_secs: 600,
    run: fold_terms,
    installation: false,
};

fn fold_terms(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    tx.unmark_deletion();
    let behind = settings.behind.map(|(at, listing)| (at, Id::<Listing>::new(listing)));
    let start = behind.unwrap_or((Time::from_millis(0), Id::NIL));
    let mut earlier = Vec::new();
    tx.view().entries(
        &EARLIER_TERMS,
        &start,
        &Time::from_millis(i64::MAX),
        Order::Ascending,
        |at, listing| {
            if Some((at, listing)) != behind {
                earlier.push((at, listing));
            }
            let is_enough = earlier.len() == FOLDED_AT_ONCE;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        },
    )?;
    let (mut last, mut folded) = (None, 0);
    for (at, id) in &earlier {
        let fold = |tx: &mut Tx| {
            let old: Listing = tx.fetch(id)?;
            save(tx, Some(&old), &Listing { term_form: TermForm::NEWEST, ..old.clone() })
        };
        match tx.attempt(fold) {
            Ok(()) => {}
            // There is room for it in the next step.
            Err(error) if error.kind() == Kind::TooLarge && last.is_some() => break,
            // Of the store, or of this run: the others would fail, too.
            Err(error) if matches!(error.kind(), Kind::TooLarge | Kind::Busy) => return Err(error),
            // One that is damaged does not stop the others: it is found as before.
            Err(error) => {
                let why = error.log_detail().unwrap_or(error.message());
                let what = format!("the terms of the listing {id} cannot be folded: {why}");
                tx.view().damage.note(&what);
            }
        }
        last = Some((*at, Uuid::from_bytes(*id.bytes())));
        folded += 1;
    }
    let is_over = folded == earlier.len() && folded < FOLDED_AT_ONCE;
    Ok(last.filter(|_| !is_over).map_or(SweepProgress::Clean, SweepProgress::MoreBehind))
}

/// How far that is.
const EARLIER: Metric = Metric {
    name: "roadstead_listings_to_fold",
    kind: FamilyKind::Gauge,
    help: "Listings that an earlier version indexed, not found as others are yet; if they stay, doctor says why",
    read: |view| Ok(view.count(&EARLIER_TERMS, &(), MAX_COUNTED)? as u64),
    installation: false,
};

fn delete(tx: &mut Tx, req: &Req<Id<Listing>>) -> Result<Deleted> {
    let listing: Listing = tx.fetch(&req.params)?;
    tx.remove(&listing)?;
    Ok(Deleted::new(listing.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/agent-index/listings";
    const ONE: &str = "/agent-index/listings/{listingId}";
    vec![
        Route::get(ALL, MEMBER, "listing.list", op::list(list))
            .needs(ScopeName::ListingRead)
            .about("Search the agent index, newest first"),
        Route::post(ALL, ADMIN, "listing.create", op::write(create))
            .needs(ScopeName::ListingWrite)
            .about("List an agent"),
        Route::get(ONE, MEMBER, "listing.get", op::read(get))
            .needs(ScopeName::ListingRead)
            .about("Get a listing"),
        Route::patch(ONE, ADMIN, "listing.update", op::write(update))
            .needs(ScopeName::ListingWrite)
            .about("Update a listing"),
        Route::delete(ONE, ADMIN, "listing.delete", op::write(delete))
            .needs(ScopeName::ListingWrite)
            .about("Delete a listing"),
    ]
}

#[cfg(test)]
pub mod tests;
