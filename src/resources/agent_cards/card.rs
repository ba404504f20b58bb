//! The A2A agent card of a listing: its fields, by the protocol's versions 0.3 and 1.0, whose readers
//! ignore what they do not know.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Output, ResourceRef};
use crate::auth::{Organization, Restricted};
use crate::base::{Handle, PublicKey, Result};
use crate::resources::agents::Agent;
use crate::resources::listings::Listing;
use crate::resources::teams;
use crate::store::View;

/// The version of A2A whose published schema the card follows.
const A2A_VERSION: &str = "0.3.0";

/// The name of our exchange as a transport: A2A leaves others than its own three open.
const EXCHANGE: &str = "ROADSTEAD-EXCHANGE";

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
    /// Where the agent takes requests of outside agents; this server, if it takes none.
    url: String,
    /// How it takes them: by the exchange of this server.
    preferred_transport: String,
    /// The same, as A2A 1.0 has it; empty if the agent takes no requests.
    supported_interfaces: Vec<CardInterface>,
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
    /// How requests are authenticated.
    security_schemes: CardSecuritySchemes,
    /// The schemes that a request needs.
    security: Vec<CardSecurity>,
    /// Always false: there is no other card for those who are authenticated.
    supports_authenticated_extended_card: bool,
}

/// An address of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardInterface {
    /// The address.
    url: String,
    /// How requests are sent there.
    protocol_binding: String,
    /// The version of A2A.
    protocol_version: String,
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
    /// The agent's handle and public key.
    extensions: Vec<CardExtension>,
}

/// The handle and public key of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardExtension {
    /// The standard: NIP-05.
    uri: String,
    /// What the extension tells.
    description: String,
    /// Always false: clients need not understand it.
    required: bool,
    /// Handle and key.
    params: CardIdentity,
}

/// The handle and public key of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardIdentity {
    /// The name of the agent across organizations: `name@domain`.
    handle: Handle,
    /// The public key with which the agent signs (BIP-340).
    pubkey: PublicKey,
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

/// The one scheme of authentication.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardSecuritySchemes {
    /// NIP-98.
    nip98: CardSecurityScheme,
}

/// A scheme of HTTP authentication.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardSecurityScheme {
    /// Always `http`.
    #[serde(rename = "type")]
    kind: String,
    /// The scheme of the header `Authorization`.
    scheme: String,
    /// What the scheme is.
    description: String,
}

/// The schemes that a request needs together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CardSecurity {
    /// The scopes: none.
    nip98: Vec<String>,
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
/// If the store fails.
pub fn card(view: &View, listing: &Listing, base: &str) -> Result<AgentCard> {
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
        url: exchange.clone().unwrap_or_else(|| format!("{base}/")),
        preferred_transport: EXCHANGE.into(),
        supported_interfaces: exchange.into_iter().map(interface).collect(),
        provider: CardProvider {
            organization: organization.name.to_string(),
            url: format!("{base}/"),
        },
        capabilities: CardCapabilities {
            streaming: false,
            push_notifications: false,
            extensions: vec![identity(listing)],
        },
        default_input_modes: text(),
        default_output_modes: text(),
        skills: profile.skills.iter().map(|skill| skill_of(skill)).collect(),
        security_schemes: CardSecuritySchemes {
            nip98: CardSecurityScheme {
                kind: "http".into(),
                scheme: "Nostr".into(),
                description: "A signed Nostr event for each request (NIP-98)".into(),
            },
        },
        security: vec![CardSecurity { nip98: Vec::new() }],
        supports_authenticated_extended_card: false,
    })
}

/// Returns where requests to the agent go: the exchange of a team that it is in. `None` if it is in
/// none. Its contact policy is not told: only its owners know that.
fn exchange(
    view: &View,
    listing: &Listing,
    organization: &Organization,
    base: &str,
) -> Result<Option<String>> {
    let team = teams::team_of(view, listing.agent)?;
    Ok(team.map(|team| format!("{base}/api/exchange/{}/{team}/requests", organization.slug)))
}

fn interface(url: String) -> CardInterface {
    let (protocol_binding, protocol_version) = (EXCHANGE.into(), A2A_VERSION.into());
    CardInterface { url, protocol_binding, protocol_version }
}

fn identity(listing: &Listing) -> CardExtension {
    CardExtension {
        uri: NIP_05.into(),
        description: "The handle of the agent and the public key with which it signs".into(),
        required: false,
        params: CardIdentity {
            handle: listing.profile.handle.clone(),
            pubkey: listing.profile.pubkey.clone(),
        },
    }
}

fn skill_of(skill: &str) -> CardSkill {
    let text = || skill.to_string();
    CardSkill { id: text(), name: text(), description: text(), tags: vec![text()] }
}
