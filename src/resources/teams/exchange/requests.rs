//! Requests of outside agents to write to a team (reference: exchange, "Asking").

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::members::wake_for;
use super::outputs::OutsideRequestState;
use super::rules::{RuleKind, rule_for};
use crate::api::{Calls, Input, OrgSource, Outcome, OutsideAccess, Req, Resource, Route, op};
use crate::auth::OUTSIDE_AGENT;
use crate::base::{Body, Domain, Error, Handle, HttpUrl, Id, Kind, PublicKey, Result, Slug};
use crate::outbox::{About, EventType, publish};
use crate::outside::nip05::{self, Nip05Answer};
use crate::resources::listings::{self, ContactPolicy};
use crate::resources::teams::changes;
use crate::resources::teams::peer::{
    BY_DOMAIN, BY_STATE, PENDING_BY_PUBKEY, Peer, PeerState, REFUSED_BY_TIME, by_pubkey,
};
use crate::resources::teams::team::{BY_SLUG, Team};
use crate::store::{ListSource, Order, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, events: &[EventType::TeamExternalRequestReceived], ..Resource::EMPTY };

/// Pending requests to a team: more than people read through.
const MAX_PENDING_OF_TEAM: usize = 200;

/// Pending requests to a team from one domain, so that no domain takes all places.
const MAX_PENDING_OF_DOMAIN: usize = 20;

/// Pending requests of a key to the teams of an organization, so that nobody asks all of many.
const MAX_PENDING_OF_SENDER: usize = 5;

/// Peers of one domain that a rule accepted: nobody looked at them.
const MAX_ACCEPTED_OF_DOMAIN: usize = 200;

/// All peers of a team. Beyond it, those who were refused the longest ago are forgotten.
const MAX_PEERS: usize = 1000;

/// A refused sender may ask again after a day.
const ASK_AGAIN_SECS: i64 = 24 * 3600;

/// When to retry if there is no room: once members have decided on what is there.
const ROOM_RETRY_SECS: u32 = 3600;

// ── What callers send and see ────────────────────────────────────────────────

/// A request of an outside agent to write to a team.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"handle": "scout@partner.example",
    "message": "We would like to send you our release notes.",
    "replyUrl": "https://partner.example/replies", "listing": "scribe@acme.example"}]))]
pub struct OutsideRequest {
    /// The sender's handle; its domain must confirm the key that signs the request (NIP-05).
    handle: Handle,
    /// What the team is asked.
    message: Body,
    /// Where decisions and messages of the team are posted to.
    reply_url: Option<HttpUrl>,
    /// The handle of a listing of the organization that the sender wants to reach; its contact
    /// policy holds for the request.
    listing: Option<Handle>,
}
impl Input for OutsideRequest {}

// ── Finding the team ─────────────────────────────────────────────────────────

/// The path parameters that name a team to outside agents.
pub type TeamPath = (String, String);

/// Returns the team that a path names.
///
/// # Errors
/// 404, the same for an organization that does not exist.
pub fn team_at(view: &View, (_, slug): &TeamPath) -> Result<Team> {
    let team = Slug::parse(slug.as_str()).ok().map(|slug| view.find(&BY_SLUG, &slug));
    team.transpose()?.flatten().ok_or_else(no_such_team)
}

/// The 404 of a team, also where there is no such organization: nobody outside need know which
/// organizations there are.
fn no_such_team() -> Error {
    Error::no_such("team").at("teamSlug")
}

/// The scope of the routes for outside agents.
pub const ORG_SOURCE: OrgSource =
    OrgSource::InPath(&OutsideAccess { unknown: no_such_team, has_accepted });

/// Whether the team in the path has accepted this key. False for a team that does not exist.
fn has_accepted(view: &View, params: &[String], pubkey: &PublicKey) -> Result<bool> {
    let slug = params.get(1).and_then(|slug| Slug::parse(slug.as_str()).ok());
    let team = slug.map(|slug| view.find_key(&BY_SLUG, &slug)).transpose()?.flatten();
    let Some(team) = team else { return Ok(false) };
    let peer = by_pubkey(view, team, pubkey)?;
    Ok(peer.is_some_and(|peer| peer.state == PeerState::Accepted))
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Asks to write to a team. A sender whose request is pending or accepted gets that.
pub fn ask(
    tx: &mut Tx,
    req: &Req<TeamPath, OutsideRequest>,
    calls: &mut Calls,
) -> Result<Outcome<OutsideRequestState>> {
    let (new, pubkey) = (&req.input, &req.signer().pubkey);
    let view = tx.view();
    let team = team_at(&view, &req.params)?;
    let known = by_pubkey(&view, team.id, pubkey)?;
    if known.as_ref().is_some_and(|peer| peer.state == PeerState::Blocked) {
        return Err(Error::forbidden("peer_blocked", "the team has blocked this key"));
    }
    let is_allowed = is_allowed_domain(&view, &team, new)?;
    let policy = addressed_policy(&view, new)?;
    let answered = match known.as_ref().map(|peer| standing(&view, peer, new)).transpose()? {
        Some(Standing::Stays) => {
            require_contact(policy, is_allowed)?;
            let accept = |peer| if is_allowed { accept_pending(tx, peer) } else { Ok(peer) };
            known.map(accept).transpose()?
        }
        Some(Standing::AsksAgain) | None => {
            require_room(&view, &team, known.as_ref(), (pubkey, &new.handle.domain()), is_allowed)?;
            confirm(&new.handle, pubkey, calls)?;
            require_contact(policy, is_allowed)?;
            Some(insert(tx, req, &team, known, is_allowed)?)
        }
    };
    let answered = answered.ok_or_else(|| Error::internal("a peer that stays is known"))?;
    Ok(Outcome::Done(answered.into()))
}

/// Whether the rules accept the sender at once.
///
/// # Errors
/// 403 if they turn it away.
fn is_allowed_domain(view: &View, team: &Team, new: &OutsideRequest) -> Result<bool> {
    let rule = rule_for(view, team.id, &new.handle.domain())?;
    if rule == Some(RuleKind::Block) {
        return Err(Error::forbidden("domain_blocked", "agents of this domain are turned away"));
    }
    Ok(rule == Some(RuleKind::Allow))
}

/// Returns the policy of the listing that a request addresses; `Open` if it addresses none.
///
/// # Errors
/// 404 of the listing, also of one that is not public.
fn addressed_policy(view: &View, new: &OutsideRequest) -> Result<ContactPolicy> {
    let Some(handle) = &new.listing else { return Ok(ContactPolicy::Open) };
    listings::contact_policy_for_outsiders(view, handle)?
        .ok_or_else(|| Error::no_such("listing").at("listing"))
}

/// Requires that a listing takes requests of a sender whose handle is confirmed: nobody else learns
/// anything of its policy. The error does not tell which policy it is, which is for owners to know.
fn require_contact(policy: ContactPolicy, is_allowed: bool) -> Result<()> {
    match policy {
        ContactPolicy::Open => Ok(()),
        ContactPolicy::Allowlist if is_allowed => Ok(()),
        ContactPolicy::Allowlist | ContactPolicy::Closed => Err(Error::forbidden(
            "contact_refused",
            "the agent of this listing takes no requests from you; ask its organization",
        )),
    }
}

/// What becomes of an earlier request of the same key.
enum Standing {
    /// It stays as it is.
    Stays,
    /// It was refused a day ago or longer.
    AsksAgain,
}

fn standing(view: &View, peer: &Peer, new: &OutsideRequest) -> Result<Standing> {
    if peer.state == PeerState::Refused {
        let again_at = peer.decided_at.unwrap_or(peer.created_at).plus_secs(ASK_AGAIN_SECS);
        let wait_secs = again_at.secs() - view.now().secs();
        // It may have been refused while the clock was ahead.
        if wait_secs <= 0 || again_at.is_beyond(view.now(), ASK_AGAIN_SECS) {
            return Ok(Standing::AsksAgain);
        }
        let message = "the request was refused; ask again after a day";
        return Err(Error::new(Kind::Limited, "asked_too_soon", message)
            .retry_after(u32::try_from(wait_secs).unwrap_or(u32::MAX)));
    }
    if peer.handle == new.handle {
        return Ok(Standing::Stays);
    }
    // What was decided was decided about the other handle.
    Err(Error::conflict(
        "other_handle",
        "the team knows this key by another handle; use that one, or ask the team to forget it",
    ))
}

/// Accepts a pending request whose domain is allowed by now.
fn accept_pending(tx: &mut Tx, old: Peer) -> Result<Peer> {
    if old.state != PeerState::Pending {
        return Ok(old);
    }
    let peer = Peer { state: PeerState::Accepted, decided_at: Some(tx.now()), ..old.clone() };
    tx.replace(&old, &peer)?;
    wake_for(tx, &peer)?;
    Ok(peer)
}

/// Refuses a request for which there is no room. This comes before the handle is checked, so that
/// what is refused costs no call.
fn require_room(
    view: &View,
    team: &Team,
    known: Option<&Peer>,
    (pubkey, domain): (&PublicKey, &Domain),
    is_allowed: bool,
) -> Result<()> {
    let has = |count: usize, limit: usize| count < limit;
    if is_allowed {
        let of_domain = (team.id, PeerState::Accepted, domain.clone());
        if !has(view.count(&BY_DOMAIN, &of_domain, MAX_ACCEPTED_OF_DOMAIN)?, MAX_ACCEPTED_OF_DOMAIN)
        {
            return Err(later(Error::new(
                Kind::Limited,
                "domain_peers_full",
                "200 agents of this domain are accepted",
            )));
        }
    } else {
        let of_team = view.count(&BY_STATE, &(team.id, PeerState::Pending), MAX_PENDING_OF_TEAM)?;
        if !has(of_team, MAX_PENDING_OF_TEAM) {
            return Err(later(Error::new(
                Kind::Limited,
                "team_requests_full",
                "200 requests wait for the team; try later",
            )));
        }
        let of_domain = (team.id, PeerState::Pending, domain.clone());
        let of_domain = view.count(&BY_DOMAIN, &of_domain, MAX_PENDING_OF_DOMAIN)?;
        if !has(of_domain, MAX_PENDING_OF_DOMAIN) {
            return Err(later(Error::new(
                Kind::Limited,
                "domain_requests_full",
                "20 requests of this domain wait for the team; try later",
            )));
        }
        let of_sender = view.count(&PENDING_BY_PUBKEY, pubkey, MAX_PENDING_OF_SENDER)?;
        if !has(of_sender, MAX_PENDING_OF_SENDER) {
            return Err(later(Error::new(
                Kind::Limited,
                "sender_requests_full",
                "5 requests of this key wait for teams of the organization; try later",
            )));
        }
    }
    let is_full =
        known.is_none() && view.count::<Peer>(ListSource::TABLE, &team.id, MAX_PEERS)? == MAX_PEERS;
    if is_full && view.count(&REFUSED_BY_TIME, &team.id, 1)? == 0 {
        return Err(later(Error::new(
            Kind::Limited,
            "team_peers_full",
            "the team knows 1,000 agents, and can forget none",
        )));
    }
    Ok(())
}

/// An error that ends once members have decided on what is there.
fn later(error: Error) -> Error {
    error.retry_after(ROOM_RETRY_SECS)
}

/// Checks that the domain of a handle confirms the key.
fn confirm(handle: &Handle, pubkey: &PublicKey, calls: &mut Calls) -> Result<()> {
    let asked =
        calls.send_parsed(nip05::lookup(handle), |result| nip05::read(result, handle.name()));
    let Some(found) = asked else {
        return Err(unconfirmed("is not known yet")); // This run is discarded.
    };
    // What a connection failed for is not for outsiders: they choose the name.
    match &*found {
        found if found.confirms(pubkey) => Ok(()),
        Nip05Answer::Key(_) => Err(unconfirmed("gives it another key")),
        Nip05Answer::Missing => Err(unconfirmed("does not know it")),
        Nip05Answer::Unreachable(why) => {
            Err(unconfirmed("cannot be reached by HTTPS, or redirects").detail(why))
        }
        Nip05Answer::Invalid(why) => {
            Err(unconfirmed("has no valid /.well-known/nostr.json").detail(why))
        }
    }
}

fn unconfirmed(why: &'static str) -> Error {
    let message = format!("the domain of the handle must confirm the key (NIP-05), and {why}");
    Error::forbidden("handle_not_confirmed", message)
}

/// Stores a request whose handle is confirmed: of a new peer, or again of a refused one.
fn insert(
    tx: &mut Tx,
    req: &Req<TeamPath, OutsideRequest>,
    team: &Team,
    known: Option<Peer>,
    is_allowed: bool,
) -> Result<Peer> {
    let new = &req.input;
    let peer = Peer {
        id: known.as_ref().map_or_else(|| tx.new_id(), |peer| peer.id),
        team: team.id,
        pubkey: req.signer().pubkey.clone(),
        handle: new.handle.clone(),
        state: if is_allowed { PeerState::Accepted } else { PeerState::Pending },
        first_message: new.message.clone(),
        reply_url: new.reply_url.clone(),
        reason: None,
        decided_by: None,
        decided_at: is_allowed.then(|| tx.now()),
        created_at: known.as_ref().map_or_else(|| tx.now(), |peer| peer.created_at),
    };
    match known {
        Some(old) => tx.replace(&old, &peer)?,
        None => {
            make_room(tx, team)?;
            tx.insert(&peer)?;
        }
    }
    if is_allowed {
        wake_for(tx, &peer)?;
        return Ok(peer);
    }
    let payload = json!({
        "teamId": team.id, "teamName": team.name,
        "peerId": peer.id, "handle": peer.handle, "pubkey": peer.pubkey,
        "domain": peer.handle.domain(),
    });
    let about = About::resource("peer", peer.id);
    changes::tell(tx, team.id);
    publish(tx, EventType::TeamExternalRequestReceived, about, payload)?;
    Ok(peer)
}

/// Forgets the peer that was refused the longest ago, if a team has as many as it may have.
fn make_room(tx: &mut Tx, team: &Team) -> Result<()> {
    let view = tx.view();
    if view.count::<Peer>(ListSource::TABLE, &team.id, MAX_PEERS)? < MAX_PEERS {
        return Ok(());
    }
    let oldest: Option<Peer> = view.first(&REFUSED_BY_TIME, &team.id, Order::Ascending)?;
    oldest.map_or(Ok(()), |peer| tx.remove(&peer))
}

fn get(view: &View, req: &Req<(String, String, Id<Peer>)>) -> Result<OutsideRequestState> {
    let (org, team, id) = &req.params;
    let team = team_at(view, &(org.clone(), team.clone()))?;
    let peer = view.get::<Peer>(&(team.id, *id))?;
    peer.filter(|peer| peer.pubkey == req.signer().pubkey)
        .map(OutsideRequestState::from)
        .ok_or_else(|| Error::no_such("request").at("requestId"))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/exchange/{orgSlug}/{teamSlug}/requests",
            OUTSIDE_AGENT,
            "exchange_request.create",
            op::write(op::calling(nip05::LOOKUP_SECS, ask)),
        )
        .org_source(ORG_SOURCE)
        .about("Ask to write to a team"),
        Route::get(
            "/exchange/{orgSlug}/{teamSlug}/requests/{requestId}",
            OUTSIDE_AGENT,
            "exchange_request.get",
            op::read(get),
        )
        .org_source(ORG_SOURCE)
        .about("Get the state of your request"),
    ]
}
