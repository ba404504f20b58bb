//! The A2A agent card of a listing: its fields, by the protocol's versions 0.3 and 1.0, whose readers
//! ignore what they do not know.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Map;

use crate::api::{Output, ResourceRef, public_url_required};
use crate::auth::{Organization, Restricted};
use crate::base::{JsonMap, Result};
use crate::resources::agents::Agent;
use crate::resources::listings::Listing;
use crate::resources::teams;
use crate::store::View;

/// The version of A2A whose published schema the card follows.
const A2A_VERSION: &str = "0.3.0";

/// The transport of an agent that has none of A2A's. Without one, version 0.3 means JSON-RPC.
const NO_TRANSPORT: &str = "NONE";

/// The extension that tells where and how an agent takes requests: by the exchange of this server.
const EXCHANGE: &str = "urn:roadstead:exchange";

/// The extension that tells handle and key.
const NIP_05: &str = "https://github.com/nostr-protocol/nips/blob/master/05.md";

/// An A2A agent card.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// The version of A2A that the card follows.
    protocol_version: String,
    /// The name of the agent for people.
    name: String,
    /// What the agent does.
    description: String,
    /// The number of the agent's newest version; 0 if it has none.
    version: String,
    /// This server. No request of A2A is taken there.
    url: String,
    /// Always `NONE`: the agent speaks none of A2A's transports.
    preferred_transport: String,
    /// The same, as A2A 1.0 has it: always empty.
    supported_interfaces: Vec<JsonMap>,
    /// The organization of the agent.
    provider: CardProvider,
    /// What the agent supports.
    capabilities: CardCapabilities,
    /// Media types of requests.
    default_input_modes: Vec<String>,
    /// Media types of answers.
    default_output_modes: Vec<String>,
    /// What the agent can do.
    skills: Vec<CardSkill>,
    /// Always false: there is no other card for those who are authenticated.
    supports_authenticated_extended_card: bool,
}

/// The organization of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardProvider {
    /// The name of the organization.
    organization: String,
    /// This server.
    url: String,
}

/// What an agent supports.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardCapabilities {
    /// Always false.
    streaming: bool,
    /// Always false.
    push_notifications: bool,
    /// The agent's handle and public key, and where it takes requests of outside agents, if it does.
    extensions: Vec<CardExtension>,
}

/// What a card tells beyond A2A.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardExtension {
    /// Names the extension: NIP-05, or the exchange.
    uri: String,
    /// What the extension tells.
    description: String,
    /// Always false: clients need not understand it.
    required: bool,
    /// Of NIP-05 `handle` and `pubkey`; of the exchange `url`, to which requests are posted, and
    /// `authentication`, by which they are signed.
    params: JsonMap,
}

/// A skill of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardSkill {
    /// Identifies the skill in this card.
    id: String,
    /// The skill.
    name: String,
    /// The skill.
    description: String,
    /// The skill, to find it by.
    tags: Vec<String>,
}

impl Output for AgentCard {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Returns the card of a listing of the view's organization. `base` is the base of links to this
/// server.
///
/// # Errors
/// 503 if that is not known: others read a card elsewhere, where a path leads nowhere.
pub fn card(view: &View, listing: &Listing, base: &str) -> Result<AgentCard> {
    if base.is_empty() {
        return Err(public_url_required());
    }
    let organization: Organization = view.fetch(&view.org())?;
    let agent: Option<Restricted<Agent>> = view.get(&listing.agent)?;
    let version = agent.and_then(|agent| agent.without_caller().latest_version).unwrap_or(0);
    let exchange = exchange(view, listing, &organization, base)?;
    let profile = &listing.profile;
    let text = || vec!["text/plain".to_string()];
    Ok(AgentCard {
        protocol_version: A2A_VERSION.into(),
        name: profile.display_name.to_string(),
        description: profile.description.as_deref().unwrap_or_default().into(),
        version: version.to_string(),
        url: format!("{base}/"),
        preferred_transport: NO_TRANSPORT.into(),
        supported_interfaces: Vec::new(),
        provider: CardProvider {
            organization: organization.name.to_string(),
            url: format!("{base}/"),
        },
        capabilities: CardCapabilities {
            streaming: false,
            push_notifications: false,
            extensions: std::iter::once(identity(listing)).chain(exchange).collect(),
        },
        default_input_modes: text(),
        default_output_modes: text(),
        skills: profile.skills.iter().map(|skill| skill_of(skill)).collect(),
        supports_authenticated_extended_card: false,
    })
}

/// Returns the extension that tells where requests to the agent go: the exchange of a team that it is
/// in. `None` if it is in none. Its contact policy is not told: only its owners know that.
fn exchange(
    view: &View,
    listing: &Listing,
    organization: &Organization,
    base: &str,
) -> Result<Option<CardExtension>> {
    let Some(team) = teams::team_of(view, listing.agent)? else { return Ok(None) };
    let url = format!("{base}/api/exchange/{}/{team}/requests", organization.slug);
    Ok(Some(CardExtension {
        uri: EXCHANGE.into(),
        description: "Where the agent takes requests, each signed as a Nostr event (NIP-98)".into(),
        required: false,
        params: params([("url", url), ("authentication", "NIP-98".into())]),
    }))
}

fn params<const N: usize>(params: [(&str, String); N]) -> JsonMap {
    let params = params.into_iter().map(|(name, value)| (name.into(), value.into()));
    params.collect::<Map<_, _>>().into()
}

fn identity(listing: &Listing) -> CardExtension {
    CardExtension {
        uri: NIP_05.into(),
        description: "The handle of the agent and the public key with which it signs".into(),
        required: false,
        params: params([
            ("handle", listing.profile.handle.to_string()),
            ("pubkey", listing.profile.pubkey.to_string()),
        ]),
    }
}

fn skill_of(skill: &str) -> CardSkill {
    let text = || skill.to_string();
    CardSkill { id: text(), name: text(), description: text(), tags: vec![text()] }
}
