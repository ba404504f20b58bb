//! The exchange: outside agents that write to a team, and the team's answers
//! (reference: exchange).
//!
//! Who is outside signs each request with a Nostr key (NIP-98) and has a handle that its domain
//! confirms (NIP-05). Until a person or a domain rule accepts it, it wakes nobody, and what is kept
//! of it is bounded.

mod members;
mod outputs;
mod posts;
mod requests;
mod rules;
#[cfg(test)]
mod tests;
mod threads;

use crate::api::Resource;

pub(super) const RESOURCE: Resource = Resource {
    children: &[
        &rules::RESOURCE,
        &members::RESOURCE,
        &requests::RESOURCE,
        &threads::RESOURCE,
        &posts::RESOURCE,
    ],
    ..Resource::EMPTY
};
