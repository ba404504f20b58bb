//! Listings as callers see them.

use schemars::JsonSchema;
use serde::Serialize;

use super::history::{VerificationRecord, history};
use super::listing::{CardState, ContactPolicy, Listing, ListingProfile, ListingVisibility};
use super::public::{PublicListing, is_verified};
use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{Description, Handle, Id, Name, PublicKey, Result, Skill, StableKey, Time};
use crate::store::View;

/// An agent in the agent index, as everyone sees it who may see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Listing")]
pub struct ListingInfo {
    pub id: Id<Listing>,
    /// The stable key of the agent in its organization.
    pub stable_key: StableKey,
    /// The name of the agent across organizations: `name@domain`.
    pub handle: Handle,
    /// The public key with which the agent signs (BIP-340).
    pub pubkey: PublicKey,
    /// The name of the agent for people.
    pub display_name: Name,
    pub description: Option<Description>,
    /// What the agent can do.
    pub skills: Vec<Skill>,
    pub visibility: ListingVisibility,
    /// Whether its domain is verified, and the last look-up of this handle found this public key.
    pub verified: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A listing of the caller's organization.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OwnListing")]
pub struct OwnListingInfo {
    #[serde(flatten)]
    listing: ListingInfo,
    /// From whom the agent takes requests of outside agents that name this listing.
    contact_policy: ContactPolicy,
    /// The state of the agent card, which is served while it is `published`.
    card_state: CardState,
    updated_by: Option<Id<User>>,
    /// The last 50 verifications, newest first.
    verification_history: Vec<VerificationRecord>,
}

/// A listing: with contact policy, card state and verifications if it is of the caller's organization.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "VisibleListing")]
pub enum VisibleListing {
    Own(OwnListingInfo),
    Public(ListingInfo),
}

impl Output for OwnListingInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.listing.id)
    }
}

impl Output for VisibleListing {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Returns a listing as its owners see it.
pub fn own(view: &View, listing: Listing) -> Result<OwnListingInfo> {
    let verification_history = history(view, listing.id)?;
    let Listing { id, profile, visibility, contact_policy, card_state, updated_by, .. } = listing;
    Ok(OwnListingInfo {
        listing: info(view, id, profile, visibility)?,
        contact_policy,
        card_state,
        updated_by,
        verification_history,
    })
}

/// Returns a public listing as others see it.
pub fn public(view: &View, listing: PublicListing) -> Result<ListingInfo> {
    info(view, listing.id, listing.profile, ListingVisibility::Public)
}

fn info(
    view: &View,
    id: Id<Listing>,
    profile: ListingProfile,
    visibility: ListingVisibility,
) -> Result<ListingInfo> {
    Ok(ListingInfo {
        id,
        verified: is_verified(view, id, &profile.handle)?,
        stable_key: profile.stable_key,
        handle: profile.handle,
        pubkey: profile.pubkey,
        display_name: profile.display_name,
        description: profile.description,
        skills: profile.skills,
        visibility,
        created_at: profile.created_at,
        updated_at: profile.updated_at,
    })
}
